//! Statements, executed through SPI.

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;

use pgrx::prelude::*;
use table_service_model::Properties;

use super::catalog;
use super::guc::{planning_for_keys, with_kept_plans};
use super::name::QualifiedName;
use super::plan::{self, refused};
use super::receiver::Receiver;
use super::row::broken;
use super::statement::Statement;
use super::types::TextArg;
use super::types::value::Value;
use super::varlena;

/// An open connection. When an error passes through, PostgreSQL closes it.
pub struct Connection {
    /// The nesting level of subtransactions in which it was opened. A subtransaction that is undone takes the results of its
    /// statements along, so statements run at this level alone.
    level: i32,
    /// It belongs to the backend's one stack of connections.
    _stack: PhantomData<UnsafeCell<()>>,
}

/// Runs `f` with a connection, which ends when `f` returns.
pub fn connect<R>(f: impl FnOnce(&Connection) -> R) -> R {
    // SAFETY: SPI_connect and SPI_finish enclose `f`.
    unsafe {
        pg_sys::SPI_connect();
        let result = f(&Connection {
            level: pg_sys::GetCurrentTransactionNestLevel(),
            _stack: PhantomData,
        });
        pg_sys::SPI_finish();
        result
    }
}

/// [`connect`] with the rights of the owner of a relation, for a table of the extension's own that its callers may not write. Check the
/// caller's rights first.
pub fn with_owners_rights<R>(relation: &CStr, f: impl FnOnce(&Connection) -> R) -> R {
    let owner = catalog::owner_of(relation);
    let (mut user, mut context) = (pg_sys::InvalidOid, 0);
    // SAFETY: as PostgreSQL's own checks of foreign keys do it. When an error passes through, PostgreSQL restores the user.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        pg_sys::SetUserIdAndSecContext(owner, context | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32);
        let result = connect(f);
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}

impl Connection {
    fn check_level(&self) {
        // SAFETY: a number of this transaction.
        if unsafe { pg_sys::GetCurrentTransactionNestLevel() } != self.level {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
                "a statement would run in another subtransaction than its connection"
            );
        }
    }

    /// Runs a statement on `table`, which is locked.
    pub fn run(&self, table: &QualifiedName, statement: &Statement<'_>) -> Rows<'_> {
        self.check_level();
        let plan = plan::kept(table, statement);
        let mut datums: Vec<_> = statement.values().iter().map(|value| value.datum()).collect();
        // SAFETY: the plan was prepared for these parameters, none of which is NULL.
        rows(with_kept_plans(|| unsafe {
            pg_sys::SPI_execute_plan(
                plan.as_ptr(),
                datums.as_mut_ptr(),
                std::ptr::null(),
                statement.kind().is_read(),
                0,
            )
        }))
    }

    /// Runs a read on `table`, which is locked, whose rows go to `receiver` one by one.
    pub fn receive(&self, table: &QualifiedName, statement: &Statement<'_>, receiver: &mut Receiver<'_>) {
        self.check_level();
        let plan = plan::kept(table, statement);
        let values = statement.values();
        // SAFETY: the parameters that the plan was prepared for, none of which is NULL.
        unsafe {
            let parameters = pg_sys::makeParamList(values.len() as i32);
            let slots = (*parameters).params.as_mut_slice(values.len());
            for (slot, value) in slots.iter_mut().zip(values) {
                slot.value = value.datum();
                slot.isnull = false;
                slot.pflags = pg_sys::PARAM_FLAG_CONST as u16;
                slot.ptype = value.type_oid();
            }
            let options = pg_sys::SPIExecuteOptions {
                params: parameters,
                read_only: true,
                dest: receiver.as_ptr(),
                ..Default::default()
            };
            let result = with_kept_plans(|| pg_sys::SPI_execute_plan_extended(plan.as_ptr(), &options));
            pg_sys::pfree(parameters.cast());
            if result < 0 {
                refused(result);
            }
        }
    }

    /// Whether the plan of a statement on `table`, which is locked, begins with this kind of node.
    pub fn is_planned_as(&self, table: &QualifiedName, statement: &Statement<'_>, node: pg_sys::NodeTag) -> bool {
        plan::kept(table, statement).begins_with(node)
    }

    /// Runs a statement once. It has no parameters: only for definitions, whose names are quoted.
    pub fn run_definition(&self, sql: &str) {
        self.check_level();
        let sql = c_string(sql);
        // SAFETY: a valid statement text.
        rows(unsafe { pg_sys::SPI_execute(sql.as_ptr(), false, 0) });
    }

    /// Runs a read once, with parameters.
    pub fn read(&self, sql: &str, parameters: &[Value<'_>]) -> Rows<'_> {
        self.execute(sql, parameters, true)
    }

    /// Runs a write once, with parameters.
    pub fn write(&self, sql: &str, parameters: &[Value<'_>]) {
        self.execute(sql, parameters, false);
    }

    fn execute(&self, sql: &str, parameters: &[Value<'_>], is_read: bool) -> Rows<'_> {
        self.check_level();
        let sql = c_string(sql);
        let mut types: Vec<_> = parameters.iter().map(|value| value.type_oid()).collect();
        let mut datums: Vec<_> = parameters.iter().map(|value| value.datum()).collect();
        // SAFETY: as many types as values, none of which is NULL.
        rows(unsafe {
            pg_sys::SPI_execute_with_args(
                sql.as_ptr(),
                parameters.len() as i32,
                types.as_mut_ptr(),
                datums.as_mut_ptr(),
                std::ptr::null(),
                is_read,
                0,
            )
        })
    }

    /// The plan that PostgreSQL makes for a scan that names its keys as literals.
    pub fn explain(&self, sql: &str) -> String {
        self.check_level();
        planning_for_keys(|| {
            let sql = c_string(&format!("EXPLAIN (COSTS OFF) {sql}"));
            // SAFETY: a valid statement text. EXPLAIN is a command, which SPI does not run as a read, although it is one.
            let rows: Rows<'_> = rows(unsafe { pg_sys::SPI_execute(sql.as_ptr(), false, 0) });
            let lines: Vec<&str> = rows.iter().filter_map(|row| row.text(1)).map(TextArg::get).collect();
            lines.join("\n")
        })
    }
}

/// The rows of a statement. They live as long as the connection that it ran in.
pub struct Rows<'c> {
    processed: u64,
    table: *mut pg_sys::SPITupleTable,
    connection: PhantomData<&'c Connection>,
}

impl<'c> Rows<'c> {
    /// How many rows the statement returned or wrote.
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
            // SAFETY: where there are tuples there is a table.
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
    /// A column, counted from 1, of this type. `None` for NULL.
    ///
    /// Raises `internal_error` for a column of another type.
    fn value(&self, column: i32, type_oid: pg_sys::Oid) -> Option<pg_sys::Datum> {
        let mut is_null = true;
        // SAFETY: the tuple has this descriptor. For a column that is not there SPI finds no type.
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
        // SAFETY: a text that lives as long as the connection.
        unsafe { TextArg::from_datum(datum, false) }
    }

    /// The bytes of a text that may not be UTF-8: a name in a catalog.
    pub fn text_bytes(&self, column: i32) -> Option<&'c [u8]> {
        let datum = self.value(column, pg_sys::TEXTOID)?;
        // SAFETY: a text that lives as long as the connection.
        Some(unsafe { varlena::bytes(datum) })
    }

    pub fn boolean(&self, column: i32) -> Option<bool> {
        let datum = self.value(column, pg_sys::BOOLOID)?;
        // SAFETY: a boolean.
        unsafe { bool::from_datum(datum, false) }
    }

    pub fn int8(&self, column: i32) -> Option<i64> {
        Some(self.value(column, pg_sys::INT8OID)?.value() as i64)
    }

    pub fn relation(&self, column: i32) -> Option<pg_sys::Oid> {
        let datum = self.value(column, pg_sys::REGCLASSOID)?;
        // SAFETY: an OID.
        unsafe { pg_sys::Oid::from_datum(datum, false) }
    }

    /// Microseconds since 2000-01-01.
    pub fn timestamptz(&self, column: i32) -> Option<i64> {
        Some(self.value(column, pg_sys::TIMESTAMPTZOID)?.value() as i64)
    }

    pub fn properties(&self, column: i32) -> Option<Properties<'c>> {
        let datum = self.value(column, catalog::properties_type())?;
        // SAFETY: a bag that lives as long as the connection.
        let bag = unsafe { varlena::bytes(datum) };
        Some(Properties::of_known_format(bag).unwrap_or_else(|| broken("of a statement", "holds no property bag")))
    }
}

fn rows<'c>(result: i32) -> Rows<'c> {
    if result < 0 {
        refused(result);
    }
    // SAFETY: SPI sets both when a statement has succeeded.
    unsafe {
        Rows {
            processed: pg_sys::SPI_processed,
            table: pg_sys::SPI_tuptable,
            connection: PhantomData,
        }
    }
}

/// Statement texts are made of validated names and constants, which have no NUL.
fn c_string(sql: &str) -> CString {
    CString::new(sql).unwrap_or_default()
}
