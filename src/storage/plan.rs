//! Plans of statements. A backend prepares each once per table and keeps it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;
use std::rc::Rc;

use pgrx::prelude::*;

use super::name::QualifiedName;
use super::statement::{IndexScan, Kind, Statement, StatementPlanning};
use crate::postgres::guarded::guarded;
use crate::postgres::guc::{planning_for_keys, planning_for_many_keys};
use crate::postgres::spi::refused;
use crate::postgres::{Value, catalog, of_type, while_running};

/// How many tables' plans a backend keeps.
const TABLES_KEPT: usize = 128;
/// How many plans of index scans a backend keeps for a table.
const INDEX_SCANS_KEPT: usize = 32;

/// A plan that SPI keeps until this is dropped.
pub(super) struct KeptPlan {
    plan: NonNull<pg_sys::_SPI_plan>,
    pub(super) text: CString,
    /// The types of the parameters.
    types: Box<[pg_sys::Oid]>,
    planned: StatementPlanning,
}

impl Drop for KeptPlan {
    fn drop(&mut self) {
        // SAFETY: `SPI_keepplan` made the plan permanent, so it still exists. Nothing executes it: execution holds an
        // `Rc` of this.
        unsafe { pg_sys::SPI_freeplan(self.plan.as_ptr()) };
    }
}

impl KeptPlan {
    fn prepare(sql: &str, values: &[Value<'_>], planned: StatementPlanning) -> KeptPlan {
        let text = CString::new(sql).unwrap_or_default();
        let mut types: Box<[_]> = values.iter().map(|value| value.type_oid()).collect();
        let options = match planned {
            StatementPlanning::ForKeys | StatementPlanning::ForManyKeys => {
                pg_sys::CURSOR_OPT_GENERIC_PLAN | pg_sys::CURSOR_OPT_FAST_PLAN
            }
            StatementPlanning::Freely => pg_sys::CURSOR_OPT_GENERIC_PLAN | pg_sys::CURSOR_OPT_PARALLEL_OK,
            StatementPlanning::EachTime => pg_sys::CURSOR_OPT_CUSTOM_PLAN,
        };
        // A portal never goes back.
        let options = (options | pg_sys::CURSOR_OPT_NO_SCROLL) as i32;
        // SAFETY: the text is a C string, and there are as many types as it has parameters.
        unsafe {
            let plan = while_running(&text, || {
                pg_sys::SPI_prepare_cursor(text.as_ptr(), types.len() as i32, types.as_mut_ptr(), options)
            });
            match NonNull::new(plan) {
                Some(plan) => {
                    pg_sys::SPI_keepplan(plan.as_ptr());
                    KeptPlan {
                        plan,
                        text,
                        types,
                        planned,
                    }
                }
                None => refused(pg_sys::SPI_result),
            }
        }
    }

    pub(super) fn as_ptr(&self) -> pg_sys::SPIPlanPtr {
        self.plan.as_ptr()
    }

    /// Returns whether PostgreSQL makes the plan again when the table changes. A rule can leave nothing of a statement. Then
    /// its plan depends on no table, so it would stay as it is when the rule is dropped.
    fn follows_its_table(&self) -> bool {
        self.source().is_some_and(|source| !source.relationOids.is_null())
    }

    /// Returns whether the plan was prepared for the types of these values.
    fn takes(&self, values: &[Value<'_>]) -> bool {
        self.types.len() == values.len()
            && self
                .types
                .iter()
                .zip(values)
                .all(|(&type_oid, value)| type_oid == value.type_oid())
    }

    /// Plans the statement if it has no valid plan and is not planned each time. The caller has locked the table, so the
    /// plan stays valid until it runs.
    fn make_ready(&self) {
        if self.planned != StatementPlanning::EachTime && self.generic_plan().is_none() {
            // SAFETY: the plan is a kept plan of one statement. The reference that the call takes is released with the
            // same resource owner.
            let make = || unsafe {
                let planned = pg_sys::SPI_plan_get_cached_plan(self.plan.as_ptr());
                if !planned.is_null() {
                    pg_sys::ReleaseCachedPlan(planned, pg_sys::CurrentResourceOwner);
                }
            };
            while_running(&self.text, || match self.planned {
                StatementPlanning::ForKeys => planning_for_keys(make),
                StatementPlanning::ForManyKeys => planning_for_many_keys(make),
                _ => make(),
            });
        }
    }

    /// Returns the plan with which the statement will be executed, if it is valid.
    fn generic_plan(&self) -> Option<&pg_sys::CachedPlan> {
        let source = self.source()?;
        // SAFETY: the generic plan is valid while the source points to it.
        let plan = unsafe { source.gplan.as_ref()? };
        (source.is_valid && plan.is_valid).then_some(plan)
    }

    fn source(&self) -> Option<&pg_sys::CachedPlanSource> {
        // SAFETY: the plan is a kept plan of one statement, so it has one source. The source lives as long as `self`.
        unsafe {
            let sources = pg_sys::SPI_plan_get_plan_sources(self.plan.as_ptr());
            if sources.is_null() || (*sources).length != 1 {
                return None;
            }
            (*(*sources).elements)
                .ptr_value
                .cast::<pg_sys::CachedPlanSource>()
                .as_ref()
        }
    }

    /// Returns whether the plan's top node is of this type.
    pub(super) fn begins_with(&self, node: pg_sys::NodeTag) -> bool {
        // SAFETY: a plan has valid statements, and a statement has a top node.
        self.generic_plan()
            .is_some_and(|plan| unsafe { top_node(plan.stmt_list).is_some_and(|top| (*top).type_ == node) })
    }

    /// Returns whether the statement is planned each time, with its values. So is a statement of Citus: its plan for
    /// all values would make another plan for the shard in each run, and keep all of them.
    pub(super) fn needs_values(&self) -> bool {
        self.planned == StatementPlanning::EachTime || self.begins_with(pg_sys::NodeTag::T_CustomScan)
    }

    /// Returns whether the plan reads one of these indexes by a condition.
    pub(super) fn reads(&self, indexes: &[pg_sys::Oid]) -> bool {
        // SAFETY: a plan has valid statements.
        self.generic_plan()
            .is_some_and(|plan| unsafe { reads(plan.stmt_list, indexes) })
    }
}

/// Returns the statement of a plan, if it has one.
///
/// # Safety
/// The list must be NULL or a list of PlannedStmts.
pub(super) unsafe fn only_statement(statements: *mut pg_sys::List) -> Option<*mut pg_sys::PlannedStmt> {
    // SAFETY: the caller promises a list of PlannedStmts.
    unsafe {
        let statements = statements.as_ref().filter(|statements| statements.length == 1)?;
        Some((*statements.elements).ptr_value.cast())
    }
}

/// Returns the top node of a plan with one statement.
///
/// # Safety
/// As for [`only_statement`].
unsafe fn top_node(statements: *mut pg_sys::List) -> Option<*mut pg_sys::Plan> {
    // SAFETY: the caller's promise.
    unsafe { only_statement(statements).map(|statement| (*statement).planTree) }
}

/// Returns whether a plan with one statement reads one of these indexes by a condition.
///
/// # Safety
/// The list must be NULL or a list of PlannedStmts.
pub(super) unsafe fn reads(statements: *mut pg_sys::List, indexes: &[pg_sys::Oid]) -> bool {
    // SAFETY: the caller promises a list of PlannedStmts.
    unsafe { top_node(statements).is_some_and(|top| node_reads(top, indexes)) }
}

/// # Safety
/// The node must be NULL or a node of a plan.
unsafe fn node_reads(node: *mut pg_sys::Plan, indexes: &[pg_sys::Oid]) -> bool {
    use pg_sys::NodeTag;
    // SAFETY: a node has the type of its tag. Its parts are nodes of the plan, NULL, or lists of nodes.
    unsafe {
        let Some(plan) = node.as_ref() else { return false };
        let any = |list: *mut pg_sys::List| {
            list.as_ref().is_some_and(|list| {
                let count = usize::try_from(list.length).unwrap_or_default();
                (0..count).any(|number| node_reads((*list.elements.add(number)).ptr_value.cast(), indexes))
            })
        };
        let node = node.cast::<pg_sys::Node>();
        if let Some(scan) = of_type::<pg_sys::IndexScan>(node, NodeTag::T_IndexScan) {
            return !scan.indexqual.is_null() && is_one_of(scan.indexid, indexes);
        }
        if let Some(scan) = of_type::<pg_sys::BitmapIndexScan>(node, NodeTag::T_BitmapIndexScan) {
            return !scan.indexqual.is_null() && is_one_of(scan.indexid, indexes);
        }
        if let Some(scan) = of_type::<pg_sys::SubqueryScan>(node, NodeTag::T_SubqueryScan) {
            return node_reads(scan.subplan, indexes);
        }
        let parts = match plan.type_ {
            NodeTag::T_BitmapAnd => (*node.cast::<pg_sys::BitmapAnd>()).bitmapplans,
            // There is such a node only if each of its parts has an index.
            NodeTag::T_BitmapOr => (*node.cast::<pg_sys::BitmapOr>()).bitmapplans,
            NodeTag::T_Append => (*node.cast::<pg_sys::Append>()).appendplans,
            NodeTag::T_MergeAppend => (*node.cast::<pg_sys::MergeAppend>()).mergeplans,
            _ => std::ptr::null_mut(),
        };
        any(parts) || node_reads(plan.lefttree, indexes) || node_reads(plan.righttree, indexes)
    }
}

unsafe extern "C-unwind" {
    /// PostgreSQL's function, which `pg_sys` lacks.
    fn get_partition_parent(relation: pg_sys::Oid, even_if_detached: bool) -> pg_sys::Oid;
}

/// Returns whether an index, or the index of a partitioned table that it is a part of, is one of these.
fn is_one_of(index: pg_sys::Oid, indexes: &[pg_sys::Oid]) -> bool {
    let mut index = index;
    // SAFETY: the functions take the OID of a relation, and the second one that of a partition.
    unsafe {
        while !indexes.contains(&index) {
            if !pg_sys::get_rel_relispartition(index) {
                return false;
            }
            index = guarded(|| get_partition_parent(index, true));
        }
    }
    true
}

#[derive(Default)]
struct TablePlans {
    last_used: u64,
    plans: HashMap<Kind, Rc<KeptPlan>>,
    /// By their texts.
    index_scans: HashMap<String, Rc<KeptPlan>>,
}

/// The kept plans, by the table's stored name. A statement's text contains that name, so after a rename the OID would
/// lead to plans for the old name.
#[derive(Default)]
struct PlanCache {
    properties_type: pg_sys::Oid,
    uses: u64,
    tables: HashMap<String, TablePlans>,
}

thread_local! {
    static PLANS: RefCell<PlanCache> = RefCell::default();
}

/// Returns how many tables have kept plans, for tests.
#[cfg(any(test, feature = "pg_test"))]
pub fn tables_kept() -> usize {
    PLANS.with_borrow(|plans| plans.tables.len())
}

/// Returns the plan of a statement, ready to execute. The caller must have locked the table.
pub(super) fn kept(table: &QualifiedName, statement: &Statement<'_>) -> Rc<KeptPlan> {
    let (kind, values) = (statement.kind, &*statement.values);
    let found = find(table, |plans| plans.plans.get(&kind).cloned());
    let plan = found
        .filter(|plan| plan.takes(values) && plan.follows_its_table())
        .unwrap_or_else(|| {
            let sql = kind.sql(table);
            let plan = Rc::new(KeptPlan::prepare(&sql, values, kind.planning(&sql)));
            keep(table, |plans| {
                plans.plans.insert(kind, Rc::clone(&plan));
            });
            plan
        });
    plan.make_ready();
    plan
}

/// Returns the plan of an index scan for all values, ready to execute. The caller must have locked the table.
pub(super) fn kept_index_scan(table: &QualifiedName, scan: &IndexScan) -> Rc<KeptPlan> {
    let values = scan.values();
    let found = find(table, |plans| plans.index_scans.get(&scan.text).cloned());
    let plan = found
        .filter(|plan| plan.takes(&values) && plan.follows_its_table())
        .unwrap_or_else(|| {
            let plan = Rc::new(KeptPlan::prepare(&scan.text, &values, StatementPlanning::ForKeys));
            keep(table, |plans| {
                if plans.index_scans.len() >= INDEX_SCANS_KEPT {
                    plans.index_scans.clear();
                }
                plans.index_scans.insert(scan.text.clone(), Rc::clone(&plan));
            });
            plan
        });
    plan.make_ready();
    plan
}

fn find(table: &QualifiedName, get: impl FnOnce(&TablePlans) -> Option<Rc<KeptPlan>>) -> Option<Rc<KeptPlan>> {
    let properties_type = catalog::properties_type();
    PLANS.with_borrow_mut(|plans| {
        if plans.properties_type != properties_type {
            // The extension was dropped and created again, so the parameters have another type.
            plans.tables.clear();
            plans.properties_type = properties_type;
        }
        plans.uses += 1;
        let uses = plans.uses;
        let table = plans.tables.get_mut(table.name())?;
        table.last_used = uses;
        get(table)
    })
}

fn keep(table: &QualifiedName, add: impl FnOnce(&mut TablePlans)) {
    PLANS.with_borrow_mut(|plans| {
        if plans.tables.len() >= TABLES_KEPT && !plans.tables.contains_key(table.name()) {
            let oldest = plans.tables.iter().min_by_key(|(_, plans)| plans.last_used);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                plans.tables.remove(&name);
            }
        }
        let last_used = plans.uses;
        let kept = plans.tables.entry(table.name().to_owned()).or_default();
        kept.last_used = last_used;
        add(kept);
    });
}
