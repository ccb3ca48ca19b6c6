//! Executes the kept statements of entities, and scans that are planned with their values.

use pgrx::prelude::*;

use super::name::QualifiedName;
use super::plan;
use super::receiver::Receiver;
use super::statement::{IndexScan, Statement};
use crate::postgres::guc::{planning_for_few_rows, planning_for_keys, with_kept_plans, with_sendable_values};
use crate::postgres::raised::while_running;
use crate::postgres::spi::{Connection, Rows, c_string, parameters, refused, rows};
use crate::postgres::types::TextArg;
use crate::postgres::types::value::Value;

impl Connection {
    /// Runs a statement on `table`, which the caller has locked.
    pub fn run(&self, table: &QualifiedName, statement: &Statement<'_>) -> Rows<'_> {
        let kind = statement.kind();
        if !kind.is_kept() {
            return self.execute(&kind.sql(table), statement.values(), kind.is_read());
        }
        self.ready();
        let plan = plan::kept(table, statement);
        let mut datums: Vec<_> = statement.values().iter().map(|value| value.datum()).collect();
        // SAFETY: the plan was prepared for as many parameters as there are values, and for their types: `kept`
        // compares both. No value is NULL.
        let execute = || unsafe {
            pg_sys::SPI_execute_plan(plan.as_ptr(), datums.as_mut_ptr(), std::ptr::null(), kind.is_read(), 0)
        };
        rows(while_running(plan.text(), || with_kept_plans(execute)))
    }

    /// Runs a statement on `table`, which the caller has locked, that returns entities. They go to `receiver` one by one.
    pub fn receive(&self, table: &QualifiedName, statement: &Statement<'_>, receiver: &mut Receiver<'_>) {
        self.ready();
        let is_read = statement.kind().is_read();
        self.receive_plan(&plan::kept(table, statement), is_read, statement.values(), receiver);
    }

    /// Plans a count of entities with its values, and runs it. Returns `None`, without running it, if the plan does not read
    /// one of these indexes.
    pub fn count_through(&self, scan: &IndexScan, indexes: &[pg_sys::Oid]) -> Option<i64> {
        self.ready();
        let portal = open(scan.text(), &scan.values(), ScanPlanning::Free);
        // SAFETY: as in `receive_planned`. The rows are copied into memory of the connection.
        unsafe {
            let reads = plan::reads((*portal).stmts, indexes);
            if reads {
                pg_sys::SPI_cursor_fetch(portal, true, 1);
            }
            pg_sys::SPI_cursor_close(portal);
            reads.then(|| rows(0).first().and_then(|row| row.int8(1)).unwrap_or_default())
        }
    }

    /// Runs a statement that finds its rows through an index, by a plan that is kept for all values. The caller has locked
    /// `table`.
    pub fn run_by_index(&self, table: &QualifiedName, scan: &IndexScan) -> Rows<'_> {
        self.ready();
        let plan = plan::kept_index_scan(table, scan);
        let mut datums: Vec<_> = scan.values().iter().map(|value| value.datum()).collect();
        // SAFETY: as in `run`.
        let execute =
            || unsafe { pg_sys::SPI_execute_plan(plan.as_ptr(), datums.as_mut_ptr(), std::ptr::null(), false, 0) };
        rows(while_running(plan.text(), || with_kept_plans(execute)))
    }

    /// Runs an index scan whose rows come in the order of the index, by a plan that is kept for all values. Its rows go
    /// to `receiver` one by one. Returns false, without running it, if the plan does not read one of these indexes.
    pub fn receive_in_order(
        &self,
        table: &QualifiedName,
        scan: &IndexScan,
        indexes: &[pg_sys::Oid],
        receiver: &mut Receiver<'_>,
    ) -> bool {
        self.ready();
        let plan = plan::kept_index_scan(table, scan);
        let reads = plan.reads(indexes);
        if reads {
            self.receive_plan(&plan, true, &scan.values(), receiver);
        }
        reads
    }

    /// Plans and runs an index scan with its values. Its rows go to `receiver` one by one. Returns false, without
    /// running it, if the plan does not read one of these indexes.
    pub fn receive_planned(
        &self,
        scan: &IndexScan,
        planning: ScanPlanning,
        indexes: &[pg_sys::Oid],
        receiver: &mut Receiver<'_>,
    ) -> bool {
        self.ready();
        let portal = open(scan.text(), &scan.values(), planning);
        // SAFETY: an open portal of a SELECT has its plan, which lives as long as the portal. The receiver lives longer
        // than the call. `FETCH_ALL` stands for all rows, until the receiver wants no more.
        unsafe {
            let reads = plan::reads((*portal).stmts, indexes);
            if reads {
                let all = std::ffi::c_long::MAX;
                pg_sys::PortalRunFetch(portal, pg_sys::FetchDirection::FETCH_FORWARD, all, receiver.as_ptr());
            }
            pg_sys::SPI_cursor_close(portal);
            reads
        }
    }

    /// Plans and runs a scan of several shards with its values. Its LIMIT holds for each shard, and not for the rows of
    /// all together. They go to `receiver` one by one, in their order.
    pub fn receive_of_shards(&self, table: &QualifiedName, statement: &Statement<'_>, receiver: &mut Receiver<'_>) {
        self.ready();
        let sql = statement.kind().sql(table);
        let portal = open(&sql, statement.values(), ScanPlanning::Free);
        // SAFETY: as in `receive_planned`. An open portal of a SELECT has the state of its plan, whose nodes are what their
        // tags say. The node that counts the rows reads how many are wanted when it runs first. Without a number it
        // lets all rows pass.
        unsafe {
            let top = (*(*portal).queryDesc).planstate;
            if (*top).type_ == pg_sys::NodeTag::T_LimitState {
                (*top.cast::<pg_sys::LimitState>()).limitCount = std::ptr::null_mut();
            }
            fetch_all(portal, receiver);
        }
    }

    /// Plans and runs an index scan with its values, whatever it reads. Its rows go to `receiver` one by one.
    pub fn receive_once(&self, scan: &IndexScan, receiver: &mut Receiver<'_>) {
        self.ready();
        let portal = open(scan.text(), &scan.values(), ScanPlanning::Free);
        // SAFETY: as in `receive_planned`.
        unsafe { fetch_all(portal, receiver) };
    }

    /// Returns whether the plan of a scan whose values are literals reads one of these indexes.
    pub fn would_read(&self, sql: &str, planning: ScanPlanning, indexes: &[pg_sys::Oid]) -> bool {
        self.ready();
        let portal = open(sql, &[], planning);
        // SAFETY: as in `receive_planned`.
        unsafe {
            let reads = plan::reads((*portal).stmts, indexes);
            pg_sys::SPI_cursor_close(portal);
            reads
        }
    }

    fn receive_plan(&self, plan: &plan::KeptPlan, is_read: bool, values: &[Value<'_>], receiver: &mut Receiver<'_>) {
        let parameters = parameters(values);
        // SAFETY: the plan was prepared for as many parameters as there are values, and for their types: `kept` compares
        // both. The receiver, the parameters and the options live longer than the call.
        unsafe {
            let options = pg_sys::SPIExecuteOptions {
                params: parameters,
                read_only: is_read,
                dest: receiver.as_ptr(),
                ..Default::default()
            };
            let execute = || pg_sys::SPI_execute_plan_extended(plan.as_ptr(), &options);
            let result = while_running(plan.text(), || with_sendable_values(|| with_kept_plans(execute)));
            if !parameters.is_null() {
                pg_sys::pfree(parameters.cast());
            }
            if result < 0 {
                refused(result);
            }
        }
    }

    /// Returns whether the top node of a statement's plan is of this type. The caller has locked `table`.
    pub fn is_planned_as(&self, table: &QualifiedName, statement: &Statement<'_>, node: pg_sys::NodeTag) -> bool {
        self.ready();
        plan::kept(table, statement).begins_with(node)
    }

    /// Returns PostgreSQL's plan for a scan whose values are literals.
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
    /// It reads one index in its order.
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

/// Plans a read with its values, and opens a portal that runs it. An error closes the portal.
fn open(sql: &str, values: &[Value<'_>], planning: ScanPlanning) -> pg_sys::Portal {
    let sql = c_string(sql);
    let options = pg_sys::SPIParseOpenOptions {
        params: parameters(values),
        cursorOptions: 0,
        read_only: true,
    };
    // SAFETY: the text is a C string. The parameters have the types that the text is parsed with. Both live longer than
    // the call, and the portal has copies.
    let parse = || unsafe { pg_sys::SPI_cursor_parse_open(std::ptr::null(), sql.as_ptr(), &options) };
    while_running(&sql, || with_sendable_values(|| planning.run(parse)))
}

/// Runs a portal whose rows may come from other servers, and closes it.
///
/// # Safety
/// It must be an open portal of a SELECT.
unsafe fn fetch_all(portal: pg_sys::Portal, receiver: &mut Receiver<'_>) {
    // SAFETY: as in `Connection::receive_planned`.
    unsafe {
        let all = std::ffi::c_long::MAX;
        let forward = pg_sys::FetchDirection::FETCH_FORWARD;
        with_sendable_values(|| pg_sys::PortalRunFetch(portal, forward, all, receiver.as_ptr()));
        pg_sys::SPI_cursor_close(portal);
    }
}
