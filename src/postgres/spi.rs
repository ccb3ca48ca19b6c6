//! Executes statements through SPI.

use std::cell::{Cell, UnsafeCell};
use std::ffi::CString;
use std::marker::PhantomData;

use pgrx::prelude::*;
use table_service_model::Properties;

use super::catalog;
use super::guc::{planning_for_few_rows, planning_for_keys, with_kept_plans, with_sendable_values};
use super::name::QualifiedName;
use super::plan::{self, refused};
use super::raised::while_running;
use super::receiver::Receiver;
use super::row::bag;
use super::statement::{IndexScan, Statement};
use super::types::TextArg;
use super::types::value::Value;
use super::varlena;

/// An SPI connection. The first statement opens it: a query that reads everything by direct access needs none. After an
/// error PostgreSQL closes it.
pub struct Connection {
    /// The nesting level of subtransactions at which the connection is used. The rollback of a subtransaction frees the
    /// results of its statements, so statements must run at this level.
    level: i32,
    is_open: Cell<bool>,
    /// Connections form a stack in the backend, so a connection must not be sent to or shared with other threads.
    _stack: PhantomData<UnsafeCell<()>>,
}

/// Runs `f` with a connection, which is closed when `f` returns.
pub fn connect<R>(f: impl FnOnce(&Connection) -> R) -> R {
    let connection = Connection {
        // SAFETY: the function reads the state of this process's transaction.
        level: unsafe { pg_sys::GetCurrentTransactionNestLevel() },
        is_open: Cell::new(false),
        _stack: PhantomData,
    };
    let result = f(&connection);
    if connection.is_open.get() {
        // SAFETY: `ready` opened the connection, and nothing uses it any more.
        unsafe { pg_sys::SPI_finish() };
    }
    result
}

/// Runs `f`, which reads without a statement, with a snapshot that has all that was written before, as a statement that writes has.
pub fn with_new_snapshot<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: a transaction is running. The snapshot is taken off the stack again; after an error PostgreSQL does that.
    unsafe {
        pg_sys::CommandCounterIncrement();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = f();
        pg_sys::PopActiveSnapshot();
        result
    }
}

impl Connection {
    /// Opens the connection if it is not open. Every statement calls this first.
    ///
    /// While a connection that was opened later is in use, a statement of this one must not be the first.
    pub fn ready(&self) {
        // SAFETY: the function reads the state of this process's transaction.
        if unsafe { pg_sys::GetCurrentTransactionNestLevel() } != self.level {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
                "a statement must run in the subtransaction in which its connection was opened"
            );
        }
        if !self.is_open.replace(true) {
            // SAFETY: `connect` closes the connection.
            unsafe { pg_sys::SPI_connect() };
        }
    }

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

    /// Runs a statement once, without parameters. Only for DDL, in which all names must be quoted.
    pub fn run_definition(&self, sql: &str) {
        self.ready();
        let sql = c_string(sql);
        // SAFETY: the text is a C string.
        rows(while_running(&sql, || unsafe {
            pg_sys::SPI_execute(sql.as_ptr(), false, 0)
        }));
    }

    /// Runs a read once, with parameters.
    pub fn read(&self, sql: &str, parameters: &[Value<'_>]) -> Rows<'_> {
        self.execute(sql, parameters, true)
    }

    /// Runs a read of PostgreSQL's catalogs once, with parameters. It sees them as they are now, as everything does that
    /// finds and opens tables: a table may be younger than the snapshot of the caller's statement.
    pub fn read_catalogs(&self, sql: &str, parameters: &[Value<'_>]) -> Rows<'_> {
        self.ready();
        // SAFETY: a transaction is running. The active snapshot is a copy, which is taken off the stack again; after an
        // error PostgreSQL does that.
        unsafe {
            pg_sys::InvalidateCatalogSnapshot();
            pg_sys::PushActiveSnapshot(pg_sys::GetCatalogSnapshot(pg_sys::RelationRelationId));
            let rows = self.execute(sql, parameters, true);
            pg_sys::PopActiveSnapshot();
            rows
        }
    }

    /// Runs a write once, with parameters.
    pub fn write(&self, sql: &str, parameters: &[Value<'_>]) {
        self.execute(sql, parameters, false);
    }

    fn execute(&self, sql: &str, parameters: &[Value<'_>], is_read: bool) -> Rows<'_> {
        self.ready();
        let sql = c_string(sql);
        let mut types: Vec<_> = parameters.iter().map(|value| value.type_oid()).collect();
        let mut datums: Vec<_> = parameters.iter().map(|value| value.datum()).collect();
        // SAFETY: the text is a C string. There are as many types as values, and no value is NULL.
        let execute = || unsafe {
            pg_sys::SPI_execute_with_args(
                sql.as_ptr(),
                parameters.len() as i32,
                types.as_mut_ptr(),
                datums.as_mut_ptr(),
                std::ptr::null(),
                is_read,
                0,
            )
        };
        rows(while_running(&sql, || with_sendable_values(execute)))
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

/// Runs a write with RETURNING if its names lead to these relations alone, beside objects of PostgreSQL. Returns how many rows it returned,
/// or `None`, before anything is planned or evaluated, if a name leads elsewhere or a rule changes the statement. The owner of a schema can
/// rename it, and put another one in its place, at any moment.
pub fn run_on(sql: &str, values: &[Value<'_>], relations: &[pg_sys::Oid]) -> Option<u64> {
    let text = c_string(sql);
    let types: Vec<_> = values.iter().map(|value| value.type_oid()).collect();
    let run = || {
        // SAFETY: the text is a C string with one statement, which outlives the portal, and there are as many types as it has parameters.
        // A snapshot is active while an SQL function runs. The portal gets what PostgreSQL's parser and planner made.
        unsafe {
            let parsed = pg_sys::pg_parse_query(text.as_ptr());
            let statement = (*(*parsed).elements).ptr_value.cast();
            let no_environment = std::ptr::null_mut();
            let count = types.len() as i32;
            let queries = pg_sys::pg_analyze_and_rewrite_fixedparams(
                statement,
                text.as_ptr(),
                types.as_ptr(),
                count,
                no_environment,
            );
            if queries.is_null() || (*queries).length != 1 || !is_on(queries, relations) {
                return None;
            }
            let parameters = parameters(values);
            let plans = pg_sys::pg_plan_queries(queries, text.as_ptr(), 0, parameters);
            let portal = pg_sys::CreateNewPortal();
            (*portal).visible = false;
            let (no_name, no_plan) = (std::ptr::null(), std::ptr::null_mut());
            let tag = pg_sys::CommandTag::CMDTAG_DELETE;
            pg_sys::PortalDefineQuery(portal, no_name, text.as_ptr(), tag, plans, no_plan);
            pg_sys::PortalStart(portal, parameters, 0, std::ptr::null_mut());
            let all = std::ffi::c_long::MAX;
            let (forward, nowhere) = (pg_sys::FetchDirection::FETCH_FORWARD, { pg_sys::None_Receiver });
            let returned = pg_sys::PortalRunFetch(portal, forward, all, nowhere);
            pg_sys::PortalDrop(portal, false);
            pg_sys::CommandCounterIncrement();
            Some(returned)
        }
    };
    while_running(&text, run)
}

/// Returns whether queries refer to these relations alone.
///
/// # Safety
/// It must be a list of queries, as the rewriter makes them.
unsafe fn is_on(queries: *mut pg_sys::List, relations: &[pg_sys::Oid]) -> bool {
    let (mut found, mut others, mut has_policies) = (std::ptr::null_mut::<pg_sys::List>(), std::ptr::null_mut(), false);
    // SAFETY: the caller's promise. The function fills the lists; that of relations is a list of OIDs.
    unsafe {
        pg_sys::extract_query_dependencies(queries.cast(), &mut found, &mut others, &mut has_policies);
        found.as_ref().is_some_and(|found| {
            let cells = std::slice::from_raw_parts(found.elements, usize::try_from(found.length).unwrap_or_default());
            cells.iter().all(|cell| relations.contains(&cell.oid_value))
        })
    }
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

/// Makes PostgreSQL's list of values. It lives in the current memory context. No values are no list: Citus would read
/// beyond an empty one.
pub(super) fn parameters(values: &[Value<'_>]) -> pg_sys::ParamListInfo {
    if values.is_empty() {
        return std::ptr::null_mut();
    }
    // SAFETY: `makeParamList` makes room for as many parameters as there are values, and all of them are set.
    unsafe {
        let parameters = pg_sys::makeParamList(values.len() as i32);
        let slots = (*parameters).params.as_mut_slice(values.len());
        for (slot, value) in slots.iter_mut().zip(values) {
            slot.value = value.datum();
            slot.isnull = false;
            slot.pflags = pg_sys::PARAM_FLAG_CONST as u16;
            slot.ptype = value.type_oid();
        }
        parameters
    }
}

/// The rows of a statement. They live as long as the connection.
pub struct Rows<'c> {
    processed: u64,
    table: *mut pg_sys::SPITupleTable,
    connection: PhantomData<&'c Connection>,
}

impl<'c> Rows<'c> {
    /// Returns how many rows the statement returned or wrote.
    pub fn processed(&self) -> u64 {
        self.processed
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tuple<'c>> + use<'c> {
        let tuples: &'c [pg_sys::HeapTuple] = if self.table.is_null() {
            &[]
        } else {
            // SAFETY: SPI filled the table with this many tuples, which live as long as the connection.
            unsafe {
                let count = usize::try_from((*self.table).numvals).unwrap_or_default();
                std::slice::from_raw_parts((*self.table).vals, count)
            }
        };
        let table = self.table;
        tuples.iter().map(move |&tuple| Tuple {
            tuple,
            // SAFETY: there is a tuple, so the table is not NULL, and it lives as long as the connection.
            descriptor: unsafe { (*table).tupdesc },
            connection: PhantomData,
        })
    }

    pub fn first(&self) -> Option<Tuple<'c>> {
        self.iter().next()
    }
}

/// One row of a statement.
#[derive(Clone, Copy)]
pub struct Tuple<'c> {
    tuple: pg_sys::HeapTuple,
    descriptor: pg_sys::TupleDesc,
    connection: PhantomData<&'c Connection>,
}

impl<'c> Tuple<'c> {
    /// Returns a column, counted from 1, of this type. `None` stands for NULL.
    ///
    /// Raises `internal_error` for a column of another type.
    fn value(&self, column: i32, type_oid: pg_sys::Oid) -> Option<pg_sys::Datum> {
        let mut is_null = true;
        // SAFETY: the tuple and the descriptor are of one table, which lives as long as the connection. If there is no
        // such column, SPI returns no valid type, and this raises.
        let datum = unsafe {
            if pg_sys::SPI_gettypeid(self.descriptor, column) != type_oid {
                ereport!(
                    ERROR,
                    PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
                    format!("column {column} of a statement is not of the type {type_oid:?}")
                );
            }
            pg_sys::SPI_getbinval(self.tuple, self.descriptor, column, &mut is_null)
        };
        (!is_null).then_some(datum)
    }

    pub fn text(&self, column: i32) -> Option<TextArg<'c>> {
        let datum = self.value(column, pg_sys::TEXTOID)?;
        // SAFETY: the datum is a text that is not NULL and lives as long as the connection.
        unsafe { TextArg::from_datum(datum, false) }
    }

    /// Returns the bytes of a text that may not be UTF-8, such as a name in a catalog.
    pub fn text_bytes(&self, column: i32) -> Option<&'c [u8]> {
        let datum = self.value(column, pg_sys::TEXTOID)?;
        // SAFETY: the datum is a text that is not NULL and lives as long as the connection.
        Some(unsafe { varlena::bytes(datum) })
    }

    pub fn bytea(&self, column: i32) -> Option<&'c [u8]> {
        let datum = self.value(column, pg_sys::BYTEAOID)?;
        // SAFETY: the datum is a bytea that is not NULL and lives as long as the connection.
        Some(unsafe { varlena::bytes(datum) })
    }

    pub fn boolean(&self, column: i32) -> Option<bool> {
        let datum = self.value(column, pg_sys::BOOLOID)?;
        // SAFETY: the datum is a boolean that is not NULL.
        unsafe { bool::from_datum(datum, false) }
    }

    pub fn int8(&self, column: i32) -> Option<i64> {
        Some(self.value(column, pg_sys::INT8OID)?.value() as i64)
    }

    pub fn relation(&self, column: i32) -> Option<pg_sys::Oid> {
        let datum = self.value(column, pg_sys::REGCLASSOID)?;
        // SAFETY: the datum is an OID that is not NULL.
        unsafe { pg_sys::Oid::from_datum(datum, false) }
    }

    /// In microseconds since 2000-01-01.
    pub fn timestamptz(&self, column: i32) -> Option<i64> {
        Some(self.value(column, pg_sys::TIMESTAMPTZOID)?.value() as i64)
    }

    /// Returns a bag. `row` says which row it is, for the error that [`bag`] raises.
    pub fn properties(&self, column: i32, row: impl FnOnce() -> String) -> Option<Properties<'c>> {
        let datum = self.value(column, catalog::properties_type())?;
        // SAFETY: the datum is a bag that is not NULL and lives as long as the connection.
        Some(unsafe { bag(datum, row) })
    }
}

pub(super) fn rows<'c>(result: i32) -> Rows<'c> {
    if result < 0 {
        refused(result);
    }
    // SAFETY: SPI sets both globals when a statement succeeds. Callers bind `'c` to the connection of the statement.
    unsafe {
        Rows {
            processed: pg_sys::SPI_processed,
            table: pg_sys::SPI_tuptable,
            connection: PhantomData,
        }
    }
}

/// Makes a C string of a statement's text. Texts consist of validated names and constants, which contain no NUL.
pub(super) fn c_string(sql: &str) -> CString {
    CString::new(sql).unwrap_or_default()
}
