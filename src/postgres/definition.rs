//! DDL with names that keep their meaning, and DDL that runs again if PostgreSQL finds an old row of its catalogs.

use std::convert::Infallible;
use std::ffi::{CStr, c_int};

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::catalog;
use super::raised::{has_sqlstate, says};
use super::spi::connect;
use super::subtransaction::in_subtransaction;

/// Keeps both schemas of the extension as they are until the transaction ends, and checks their objects. PostgreSQL
/// looks up names in a definition more than once and evaluates the objects: nobody may exchange a schema meanwhile.
///
/// Raises 55000 if another schema has replaced the extension's.
pub fn hold_names() {
    for schema in [catalog::SCHEMA, catalog::DATA_SCHEMA_NAME] {
        while !hold_schema(schema) {
            pgrx::check_for_interrupts!();
        }
    }
    catalog::look_again();
}

/// Locks a schema against DROP, as PostgreSQL does before it creates something there, and its row against a rename:
/// also a version that a running transaction has made, for example by GRANT. Returns false if the row has changed.
fn hold_schema(name: &CStr) -> bool {
    let (class, lock) = (pg_sys::NamespaceRelationId, pg_sys::RowShareLock as pg_sys::LOCKMODE);
    // SAFETY: a transaction is running. `get_namespace_oid` raises an error if there is no such schema. The row is a copy, which
    // `heap_lock_tuple` fills, and the buffer that it pins is released.
    unsafe {
        pg_sys::AcceptInvalidationMessages();
        let schema = pg_sys::get_namespace_oid(name.as_ptr(), false);
        // DROP takes its lock before it changes the row, so two sessions that take them in another order could wait for each other.
        pg_sys::LockDatabaseObject(class, schema, 0, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
        if pg_sys::get_namespace_oid(name.as_ptr(), false) != schema {
            return false;
        }
        let schemas = pg_sys::table_open(class, lock);
        let cache = pg_sys::SysCacheIdentifier::NAMESPACEOID as c_int;
        let none = pg_sys::Datum::null();
        let row = pg_sys::SearchSysCacheCopy(cache, pg_sys::Datum::from(schema), none, none, none);
        let mut is_held = false;
        if !row.is_null() {
            let (mut buffer, mut failure) = (0, pg_sys::TM_FailureData::default());
            let outcome = pg_sys::heap_lock_tuple(
                schemas,
                row,
                pg_sys::GetCurrentCommandId(true),
                pg_sys::LockTupleMode::LockTupleKeyShare,
                pg_sys::LockWaitPolicy::LockWaitBlock,
                true,
                &mut buffer,
                &mut failure,
            );
            pg_sys::ReleaseBuffer(buffer);
            is_held = outcome == pg_sys::TM_Result::TM_Ok;
        }
        pg_sys::table_close(schemas, pg_sys::NoLock as pg_sys::LOCKMODE);
        is_held
    }
}

/// Runs a DROP or a GRANT, in a subtransaction. All names in it must be quoted. Returns the error that it raised.
///
/// PostgreSQL changes some rows of its catalogs without a lock that keeps DROP from reading them: GRANT, or CREATE INDEX
/// CONCURRENTLY in its last moment. DROP waits for the other transaction then, and fails because its row is old. So it
/// runs again, and reads the new one.
pub fn run_on_new_rows(statement: &str) -> Result<(), Box<CaughtError>> {
    loop {
        let attempt = || -> Result<(), Infallible> {
            connect(|spi| spi.run_definition(statement));
            Ok(())
        };
        match in_subtransaction(attempt) {
            Ok(Ok(())) => return Ok(()),
            Err(error) if is_of_old_row(&error) => {
                pgrx::check_for_interrupts!();
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether PostgreSQL changed a row of a catalog that another transaction had changed since it was read. The error has
/// no SQLSTATE of its own.
fn is_of_old_row(error: &CaughtError) -> bool {
    has_sqlstate(error, &[PgSqlErrorCode::ERRCODE_INTERNAL_ERROR])
        && ["tuple concurrently updated", "tuple concurrently deleted"]
            .iter()
            .any(|message| says(error, message))
}
