//! DDL that runs again if PostgreSQL finds an old row of its catalogs.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::raised::{has_sqlstate, says};
use super::spi::connect;
use super::subtransaction::in_subtransaction;

/// Runs a DROP, in a subtransaction. All names in it must be quoted. Returns the error that it raised.
///
/// PostgreSQL changes some rows of its catalogs without a lock that keeps DROP from reading them: GRANT, or CREATE INDEX
/// CONCURRENTLY in its last moment. DROP waits for the other transaction then, and fails because its row is old. So it
/// runs again, and reads the new one.
pub fn drop_objects(statement: &str) -> Result<(), Box<CaughtError>> {
    run_on_new_rows(statement)
}

/// Runs a GRANT in the same way. All names in it must be quoted. Returns the error that it raised.
pub fn grant(statement: &str) -> Result<(), Box<CaughtError>> {
    run_on_new_rows(statement)
}

fn run_on_new_rows(statement: &str) -> Result<(), Box<CaughtError>> {
    loop {
        let attempt = || -> Result<(), Infallible> {
            connect(|spi| spi.run_definition(statement));
            Ok(())
        };
        match in_subtransaction(AssertUnwindSafe(attempt)) {
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
