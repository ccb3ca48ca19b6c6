//! Plans of statements. A backend prepares each once per table and keeps it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;
use std::rc::Rc;

use pgrx::prelude::*;

use super::catalog;
use super::guc::planning_for_keys;
use super::name::QualifiedName;
use super::statement::{Kind, Statement};

/// How many tables' plans a backend keeps.
const TABLES_KEPT: usize = 128;

/// A plan that SPI keeps until this is dropped.
pub(super) struct KeptPlan {
    plan: NonNull<pg_sys::_SPI_plan>,
    /// The types of the parameters.
    types: Box<[pg_sys::Oid]>,
    /// Whether the planner may choose any plan.
    any_plan: bool,
}

impl Drop for KeptPlan {
    fn drop(&mut self) {
        // SAFETY: `SPI_keepplan` made the plan permanent, so it still exists. Nothing executes it: execution holds an
        // `Rc` of this.
        unsafe { pg_sys::SPI_freeplan(self.plan.as_ptr()) };
    }
}

impl KeptPlan {
    fn prepare(table: &QualifiedName, statement: &Statement<'_>) -> KeptPlan {
        let kind = statement.kind();
        let sql = CString::new(kind.sql(table)).unwrap_or_default();
        let mut types: Box<[_]> = statement.values().iter().map(|value| value.type_oid()).collect();
        let any_plan = kind.any_plan();
        let options = if any_plan {
            pg_sys::CURSOR_OPT_PARALLEL_OK
        } else {
            pg_sys::CURSOR_OPT_FAST_PLAN
        };
        // SAFETY: the text is a C string, and there are as many types as it has parameters.
        unsafe {
            let plan = pg_sys::SPI_prepare_cursor(
                sql.as_ptr(),
                types.len() as i32,
                types.as_mut_ptr(),
                (pg_sys::CURSOR_OPT_GENERIC_PLAN | options) as i32,
            );
            match NonNull::new(plan) {
                Some(plan) => {
                    pg_sys::SPI_keepplan(plan.as_ptr());
                    KeptPlan { plan, types, any_plan }
                }
                None => refused(pg_sys::SPI_result),
            }
        }
    }

    pub(super) fn as_ptr(&self) -> pg_sys::SPIPlanPtr {
        self.plan.as_ptr()
    }

    /// Returns whether the plan was prepared for the types of these values.
    fn takes(&self, statement: &Statement<'_>) -> bool {
        let values = statement.values();
        self.types.len() == values.len()
            && self
                .types
                .iter()
                .zip(values)
                .all(|(&type_oid, value)| type_oid == value.type_oid())
    }

    /// Plans the statement if it has no valid plan. The caller has locked the table, so the plan stays valid until it
    /// runs.
    fn make_ready(&self) {
        if self.generic_plan().is_none() {
            // SAFETY: the plan is a kept plan of one statement. The reference that the call takes is released with the
            // same resource owner.
            let make = || unsafe {
                let planned = pg_sys::SPI_plan_get_cached_plan(self.plan.as_ptr());
                if !planned.is_null() {
                    pg_sys::ReleaseCachedPlan(planned, pg_sys::CurrentResourceOwner);
                }
            };
            if self.any_plan { make() } else { planning_for_keys(make) }
        }
    }

    /// Returns the plan with which the statement will be executed, if it is valid.
    fn generic_plan(&self) -> Option<&pg_sys::CachedPlan> {
        // SAFETY: the plan is a kept plan of one statement, so it has one source. The source lives as long as `self`,
        // and its generic plan is valid while the source points to it.
        unsafe {
            let sources = pg_sys::SPI_plan_get_plan_sources(self.plan.as_ptr());
            if sources.is_null() || (*sources).length != 1 {
                return None;
            }
            let source = (*(*sources).elements).ptr_value.cast::<pg_sys::CachedPlanSource>();
            let plan = (*source).gplan.as_ref()?;
            ((*source).is_valid && plan.is_valid).then_some(plan)
        }
    }

    /// Returns whether the plan's top node is of this type.
    pub(super) fn begins_with(&self, node: pg_sys::NodeTag) -> bool {
        // SAFETY: the plan of one statement is a list of one PlannedStmt, which has a top node.
        self.generic_plan().is_some_and(|plan| unsafe {
            let statements = plan.stmt_list;
            if statements.is_null() || (*statements).length != 1 {
                return false;
            }
            let statement = (*(*statements).elements).ptr_value.cast::<pg_sys::PlannedStmt>();
            (*(*statement).planTree).type_ == node
        })
    }
}

#[derive(Default)]
struct TablePlans {
    last_used: u64,
    plans: HashMap<Kind, Rc<KeptPlan>>,
}

/// The kept plans, by the table's stored name. A statement's text contains that name, so after a rename the OID would
/// lead to plans for the old name.
#[derive(Default)]
struct Plans {
    properties_type: pg_sys::Oid,
    uses: u64,
    tables: HashMap<String, TablePlans>,
}

thread_local! {
    static PLANS: RefCell<Plans> = RefCell::default();
}

/// Returns how many tables have kept plans, for tests.
#[cfg(any(test, feature = "pg_test"))]
pub fn tables_kept() -> usize {
    PLANS.with_borrow(|plans| plans.tables.len())
}

/// Returns the plan of a statement, ready to execute. The caller must have locked the table.
pub(super) fn kept(table: &QualifiedName, statement: &Statement<'_>) -> Rc<KeptPlan> {
    let plan = find(table, statement).unwrap_or_else(|| {
        let plan = Rc::new(KeptPlan::prepare(table, statement));
        keep(table, statement.kind(), Rc::clone(&plan));
        plan
    });
    plan.make_ready();
    plan
}

fn find(table: &QualifiedName, statement: &Statement<'_>) -> Option<Rc<KeptPlan>> {
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
        table
            .plans
            .get(&statement.kind())
            .filter(|plan| plan.takes(statement))
            .cloned()
    })
}

fn keep(table: &QualifiedName, kind: Kind, plan: Rc<KeptPlan>) {
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
        kept.plans.insert(kind, plan);
    });
}

/// Raises an error for a statement that SPI refuses. SPI refuses only a misuse of its functions; PostgreSQL itself
/// raises the errors of a statement.
pub(super) fn refused(result: i32) -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        format!("SPI refused a statement: code {result}")
    );
}
