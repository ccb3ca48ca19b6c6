//! Executes the kept statements of entities, and scans that are planned with their values.

use std::rc::Rc;

use pgrx::prelude::*;

use super::fetch::Fetch;
use super::name::QualifiedName;
use super::plan;
use super::statement::{IndexScan, RangeScan, Statement};
use crate::postgres::cursor::open_portal;
use crate::postgres::guc::{
    planning_for_few_rows, planning_for_keys, with_kept_plans, with_plans_for_values, with_sendable_values,
};
use crate::postgres::spi::{c_string, parameters, rows, run_on};
use crate::postgres::{Connection, Rows, TextArg, Value, while_running};

impl Connection {
    /// Runs a statement on `table`, which the caller has locked.
    pub fn run(&self, table: &QualifiedName, statement: &Statement<'_>) -> Rows<'_> {
        let kind = statement.kind;
        if !kind.is_kept() {
            return self.execute(&kind.sql(table), &statement.values, kind.is_read());
        }
        self.ready();
        run_kept(&plan::kept(table, statement), &statement.values, kind.is_read())
    }

    /// Opens a statement on `table`, which the caller has locked, that returns entities.
    pub fn fetch<'f>(&'f self, table: &QualifiedName, statement: &Statement<'f>) -> Fetch<'f> {
        self.ready();
        let plan = plan::kept(table, statement);
        // SAFETY: the values live as long as the result.
        unsafe { open_kept(plan, &statement.values, statement.kind.is_read()) }
    }

    /// Opens a scan of a key range of `table`, which the caller has locked.
    pub fn fetch_range(&self, table: &QualifiedName, scan: RangeScan) -> Fetch<'_> {
        self.ready();
        let statement = Statement::of_range(&scan);
        let plan = plan::kept(table, &statement);
        // SAFETY: the result keeps the scan, and the scan's values do not move.
        unsafe { open_kept(plan, &statement.values, true).keep(scan) }
    }

    /// Plans a count of entities with its values, and runs it. Returns `None`, without running it, if the plan does not read
    /// one of these indexes.
    pub fn count_through(&self, scan: &IndexScan, indexes: &[pg_sys::Oid]) -> Option<i64> {
        self.ready();
        let portal = open_if_it_reads(&scan.text, &scan.values(), ScanPlanning::Free, indexes)?;
        // SAFETY: the portal is open. The rows are copied into memory of the connection.
        unsafe {
            pg_sys::SPI_cursor_fetch(portal, true, 1);
            pg_sys::SPI_cursor_close(portal);
        }
        Some(rows(0).first().and_then(|row| row.int8(1)).unwrap_or_default())
    }

    /// Runs a statement that finds its rows through an index, by a plan that is kept for all values. The caller has locked
    /// `table`.
    pub fn run_by_index(&self, table: &QualifiedName, scan: &IndexScan) -> Rows<'_> {
        self.ready();
        run_kept(&plan::kept_index_scan(table, scan), &scan.values(), false)
    }

    /// Runs an index scan once, planned with its values.
    pub fn run_once(&self, scan: &IndexScan) -> Rows<'_> {
        self.execute(&scan.text, &scan.values(), false)
    }

    /// Runs a scan that only reads once, planned with its values: on these relations alone, if any are given
    /// ([`Connection::read_on`]).
    pub fn read_once_on(&self, scan: &IndexScan, relations: Option<&[pg_sys::Oid]>) -> Option<Rows<'_>> {
        match relations {
            Some(relations) => self.read_on(&scan.text, &scan.values(), relations),
            None => Some(self.run_once(scan)),
        }
    }

    /// Runs a statement on `table`, which the caller has locked: on these relations alone, if any are given ([`run_on`]).
    /// Returns how many rows it has written.
    pub fn run_on(
        &self,
        table: &QualifiedName,
        statement: &Statement<'_>,
        relations: Option<&[pg_sys::Oid]>,
    ) -> Option<u64> {
        let Some(relations) = relations else {
            return Some(self.run(table, statement).processed());
        };
        self.ready();
        with_sendable_values(|| run_on(&statement.kind.sql(table), &statement.values, relations))
    }

    /// Opens an index scan that returns rows in the order of the index, by a plan that is kept for all values. Returns
    /// `None` if the plan does not read one of these indexes.
    pub fn fetch_in_order(&self, table: &QualifiedName, scan: IndexScan, indexes: &[pg_sys::Oid]) -> Option<Fetch<'_>> {
        self.ready();
        let plan = plan::kept_index_scan(table, &scan);
        // SAFETY: the result keeps the scan, and the scan's values do not move.
        plan.reads(indexes)
            .then(|| unsafe { open_kept(plan, &scan.values(), true).keep(scan) })
    }

    /// Plans an index scan with its values, and opens it. Returns `None` if the plan does not read one of these indexes.
    pub fn fetch_planned(
        &self,
        scan: &IndexScan,
        planning: ScanPlanning,
        indexes: &[pg_sys::Oid],
    ) -> Option<Fetch<'_>> {
        self.ready();
        let portal = open_if_it_reads(&scan.text, &scan.values(), planning, indexes)?;
        // SAFETY: it is the portal of a SELECT that was just opened.
        Some(unsafe { Fetch::by_portal(portal) })
    }

    /// Plans a scan of several shards with its values, and opens it. Its LIMIT holds for each shard, not for all shards
    /// together. The rows come in key order.
    pub fn fetch_of_shards(&self, table: &QualifiedName, scan: &RangeScan) -> Fetch<'_> {
        self.ready();
        let statement = Statement::of_range(scan);
        let sql = statement.kind.sql(table);
        let portal = open(&sql, &statement.values, ScanPlanning::Free);
        // SAFETY: as in `fetch_planned`. An open portal of a SELECT has the state of its plan. A node has the type of
        // its tag. The node that counts the rows reads the limit when it first runs. Without a limit it lets all rows
        // pass.
        unsafe {
            let top = (*(*portal).queryDesc).planstate;
            if (*top).type_ == pg_sys::NodeTag::T_LimitState {
                (*top.cast::<pg_sys::LimitState>()).limitCount = std::ptr::null_mut();
            }
            Fetch::by_portal(portal)
        }
    }

    /// Plans an index scan with its values, and opens it, whichever indexes the plan reads.
    pub fn fetch_once(&self, scan: &IndexScan) -> Fetch<'_> {
        self.ready();
        // SAFETY: as in `fetch_planned`.
        unsafe { Fetch::by_portal(open(&scan.text, &scan.values(), ScanPlanning::Free)) }
    }

    /// Returns whether the plan of a scan with literals as its values reads one of these indexes.
    pub fn would_read(&self, sql: &str, planning: ScanPlanning, indexes: &[pg_sys::Oid]) -> bool {
        self.ready();
        let portal = open_if_it_reads(sql, &[], planning, indexes);
        // SAFETY: the portal is open.
        portal
            .map(|portal| unsafe { pg_sys::SPI_cursor_close(portal) })
            .is_some()
    }

    /// Returns whether the top node of a statement's plan is of this type. The caller has locked `table`.
    pub fn is_planned_as(&self, table: &QualifiedName, statement: &Statement<'_>, node: pg_sys::NodeTag) -> bool {
        self.ready();
        plan::kept(table, statement).begins_with(node)
    }

    /// Returns PostgreSQL's plan for a scan with literals as its values.
    pub fn explain(&self, sql: &str, planning: ScanPlanning) -> String {
        self.ready();
        planning.run(|| {
            let sql = c_string(&format!("EXPLAIN (COSTS OFF) {sql}"));
            // SAFETY: the text is a C string. SPI rejects EXPLAIN in read-only mode, although it only reads.
            let execute = || unsafe { pg_sys::SPI_execute(sql.as_ptr(), false, 0) };
            let rows: Rows<'_> = rows(while_running(&sql, execute));
            let lines: Vec<&str> = rows.iter().filter_map(|row| row.text(1)).map(TextArg::get).collect();
            lines.join("\n")
        })
    }
}

/// How a scan is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanPlanning {
    /// It reads one index in the order of the index.
    ForKeys,
    /// It is known to find few rows, through property indexes.
    ForFewRows,
    /// As the planner likes.
    Free,
}

impl ScanPlanning {
    fn run<R>(self, f: impl FnOnce() -> R) -> R {
        match self {
            ScanPlanning::ForKeys => planning_for_keys(f),
            ScanPlanning::ForFewRows => planning_for_few_rows(f),
            ScanPlanning::Free => f(),
        }
    }
}

/// Plans a scan with its values, and opens a portal that runs it.
fn open(sql: &str, values: &[Value<'_>], planning: ScanPlanning) -> pg_sys::Portal {
    let open = || open_portal(&c_string(sql), values, pg_sys::CURSOR_OPT_NO_SCROLL);
    with_sendable_values(|| planning.run(open))
}

/// Does the same as [`open`], but returns `None` if the plan does not read one of these indexes.
fn open_if_it_reads(
    sql: &str,
    values: &[Value<'_>],
    planning: ScanPlanning,
    indexes: &[pg_sys::Oid],
) -> Option<pg_sys::Portal> {
    let portal = open(sql, values, planning);
    // SAFETY: an open portal of a SELECT has its plan, which lives as long as the portal.
    unsafe {
        let reads = plan::reads((*portal).stmts, indexes);
        if !reads {
            pg_sys::SPI_cursor_close(portal);
        }
        reads.then_some(portal)
    }
}

/// Runs a statement by a kept plan.
fn run_kept<'c>(plan: &plan::KeptPlan, values: &[Value<'_>], is_read: bool) -> Rows<'c> {
    let mut datums: Vec<_> = values.iter().map(|value| value.datum()).collect();
    // SAFETY: the plan was prepared for as many parameters as there are values, and for their types: `kept` compares both. No value
    // is NULL.
    let execute =
        || unsafe { pg_sys::SPI_execute_plan(plan.as_ptr(), datums.as_mut_ptr(), std::ptr::null(), is_read, 0) };
    rows(while_running(&plan.text, || match plan.needs_values() {
        true => with_sendable_values(|| with_plans_for_values(execute)),
        false => with_kept_plans(execute),
    }))
}

/// Opens a statement by a kept plan.
///
/// # Safety
/// The connection must be open and the values must live as long as the result.
unsafe fn open_kept<'f>(plan: Rc<plan::KeptPlan>, values: &[Value<'_>], is_read: bool) -> Fetch<'f> {
    let parameters = parameters(values);
    // SAFETY: the plan was prepared for as many parameters as there are values, and for their types: `kept` compares both. The rest is the
    // caller's promise.
    unsafe {
        if !plan.needs_values() {
            return Fetch::by_plan(plan, parameters, is_read);
        }
        let open = || pg_sys::SPI_cursor_open_with_paramlist(std::ptr::null(), plan.as_ptr(), parameters, is_read);
        let open = || with_sendable_values(|| with_plans_for_values(open));
        Fetch::by_portal(while_running(&plan.text, open))
    }
}
