//! Subtransactions, and the errors that they catch.

use std::ffi::c_char;

use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::prelude::*;

/// Runs `f` in a subtransaction.
///
/// When `f` fails or raises, everything that it did is undone and its locks are released. The inner result is `f`'s own, the outer
/// error was raised.
pub fn in_subtransaction<R, E>(
    f: impl FnOnce() -> Result<R, E> + std::panic::UnwindSafe,
) -> Result<Result<R, E>, Box<CaughtError>> {
    // SAFETY: the usual frame of an internal subtransaction, as in PL/pgSQL's exception blocks: memory context and resource owner
    // are restored on either way out.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null::<c_char>());
        pg_sys::MemoryContextSwitchTo(context);
        let result = PgTryBuilder::new(move || Ok(f()))
            .catch_others(|error| Err(Box::new(error)))
            .catch_rust_panic(|error| Err(Box::new(error)))
            .execute();
        match &result {
            Ok(Ok(_)) => pg_sys::ReleaseCurrentSubTransaction(),
            Ok(Err(_)) | Err(_) => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        result
    }
}

/// The SQLSTATE of an error that was raised.
pub fn sqlerrcode(error: &CaughtError) -> PgSqlErrorCode {
    report(error).sql_error_code()
}

/// The message of an error that was raised.
pub fn message(error: &CaughtError) -> &str {
    report(error).message()
}

fn report(error: &CaughtError) -> &ErrorReportWithLevel {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => report,
    }
}
