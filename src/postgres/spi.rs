//! Executes statements through SPI.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, CString};
use std::marker::PhantomData;

use pgrx::prelude::*;

use super::guc::with_sendable_values;
use super::raised::while_running;
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

    /// Runs a read of PostgreSQL's catalogs once, with parameters. It sees them as they are now, like all code that
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

    /// Runs a statement once, with parameters.
    pub fn execute(&self, sql: &str, parameters: &[Value<'_>], is_read: bool) -> Rows<'_> {
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

    /// Runs a read if its names lead to these relations alone ([`open_on`]).
    pub fn read_on(&self, sql: &str, values: &[Value<'_>], relations: &[pg_sys::Oid]) -> Option<Rows<'_>> {
        self.ready();
        let text = c_string(sql);
        // SAFETY: the portal is open, and its rows are copied into memory of the connection.
        let read = || unsafe {
            let portal = open_on(&text, values, relations)?;
            pg_sys::SPI_cursor_fetch(portal, true, std::ffi::c_long::MAX);
            let read = rows(0);
            pg_sys::SPI_cursor_close(portal);
            Some(read)
        };
        while_running(&text, || with_sendable_values(read))
    }
}

/// Runs a write with RETURNING if its names lead to these relations alone ([`open_on`]). Returns how many rows it returned.
pub fn run_on(sql: &str, values: &[Value<'_>], relations: &[pg_sys::Oid]) -> Option<u64> {
    let text = c_string(sql);
    // SAFETY: the portal is open.
    let run = || unsafe {
        let portal = open_on(&text, values, relations)?;
        let all = std::ffi::c_long::MAX;
        let (forward, nowhere) = (pg_sys::FetchDirection::FETCH_FORWARD, { pg_sys::None_Receiver });
        let returned = pg_sys::PortalRunFetch(portal, forward, all, nowhere);
        pg_sys::PortalDrop(portal, false);
        pg_sys::CommandCounterIncrement();
        Some(returned)
    };
    while_running(&text, run)
}

/// Opens a portal for a statement if its names lead to these relations alone, beside objects of PostgreSQL and
/// functions of the extension. Returns `None`, before anything is planned or evaluated, if a name leads elsewhere or a
/// rule changes the statement. The owner of a schema can replace it at any moment.
fn open_on(text: &CStr, values: &[Value<'_>], relations: &[pg_sys::Oid]) -> Option<pg_sys::Portal> {
    let types: Vec<_> = values.iter().map(|value| value.type_oid()).collect();
    // SAFETY: the text is a C string with one statement, which outlives the portal, and there are as many types as
    // parameters. A snapshot is active while an SQL function runs. The portal gets the results of parser and planner.
    unsafe {
        let parsed = pg_sys::pg_parse_query(text.as_ptr());
        let statement = (*(*parsed).elements).ptr_value.cast::<pg_sys::RawStmt>();
        let no_environment = std::ptr::null_mut();
        let count = types.len() as i32;
        let queries =
            pg_sys::pg_analyze_and_rewrite_fixedparams(statement, text.as_ptr(), types.as_ptr(), count, no_environment);
        if queries.is_null() || (*queries).length != 1 || !is_on(queries, relations) {
            return None;
        }
        let parameters = parameters(values);
        let plans = pg_sys::pg_plan_queries(queries, text.as_ptr(), 0, parameters);
        let portal = pg_sys::CreateNewPortal();
        (*portal).visible = false;
        let (no_name, no_plan) = (std::ptr::null(), std::ptr::null_mut());
        let tag = pg_sys::CreateCommandTag((*statement).stmt);
        pg_sys::PortalDefineQuery(portal, no_name, text.as_ptr(), tag, plans, no_plan);
        pg_sys::PortalStart(portal, parameters, 0, std::ptr::null_mut());
        Some(portal)
    }
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

/// Makes PostgreSQL's list of values. It lives in the current memory context. No values are no list: Citus would read
/// beyond an empty one.
pub fn parameters(values: &[Value<'_>]) -> pg_sys::ParamListInfo {
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

    /// Returns the rows in order.
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

    /// Returns the first row, if there is one.
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
    /// Returns a column, counted from 1, of this type. `None` means NULL.
    ///
    /// Raises `internal_error` for a column of another type.
    pub fn value(&self, column: i32, type_oid: pg_sys::Oid) -> Option<pg_sys::Datum> {
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

    /// Returns a text, as [`Tuple::value`] does.
    pub fn text(&self, column: i32) -> Option<TextArg<'c>> {
        let datum = self.value(column, pg_sys::TEXTOID)?;
        // SAFETY: the datum is a text that is not NULL and lives as long as the connection.
        unsafe { TextArg::from_datum(datum, false) }
    }

    /// Returns the bytes of a text that may not be UTF-8, for example a name in a catalog.
    pub fn text_bytes(&self, column: i32) -> Option<&'c [u8]> {
        let datum = self.value(column, pg_sys::TEXTOID)?;
        // SAFETY: the datum is a text that is not NULL and lives as long as the connection.
        Some(unsafe { varlena::bytes(datum) })
    }

    /// Returns the bytes of a `bytea`, as [`Tuple::value`] does.
    pub fn bytea(&self, column: i32) -> Option<&'c [u8]> {
        let datum = self.value(column, pg_sys::BYTEAOID)?;
        // SAFETY: the datum is a bytea that is not NULL and lives as long as the connection.
        Some(unsafe { varlena::bytes(datum) })
    }

    /// Returns a boolean, as [`Tuple::value`] does.
    pub fn boolean(&self, column: i32) -> Option<bool> {
        Some(self.value(column, pg_sys::BOOLOID)?.value() as u8 != 0)
    }

    /// Returns a bigint, as [`Tuple::value`] does.
    pub fn int8(&self, column: i32) -> Option<i64> {
        Some(self.value(column, pg_sys::INT8OID)?.value() as i64)
    }

    /// Returns a regclass, as [`Tuple::value`] does.
    pub fn relation(&self, column: i32) -> Option<pg_sys::Oid> {
        Some(pg_sys::Oid::from(
            self.value(column, pg_sys::REGCLASSOID)?.value() as u32
        ))
    }

    /// In microseconds since 2000-01-01.
    pub fn timestamptz(&self, column: i32) -> Option<i64> {
        Some(self.value(column, pg_sys::TIMESTAMPTZOID)?.value() as i64)
    }
}

/// Returns the rows of the statement that SPI has just run with this result.
pub fn rows<'c>(result: i32) -> Rows<'c> {
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
pub fn c_string(sql: &str) -> CString {
    CString::new(sql).unwrap_or_default()
}

/// Raises an error for a statement that SPI refuses. SPI refuses only a misuse of its functions; PostgreSQL itself
/// raises the errors of a statement.
pub fn refused(result: i32) -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        format!("SPI refused a statement: code {result}")
    );
}
