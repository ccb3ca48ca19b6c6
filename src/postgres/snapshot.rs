//! Snapshots.

use std::ffi::c_int;

use pgrx::prelude::*;

use super::guarded::without_guards;

without_guards! {
    // It raises no error.
    fn GetActiveSnapshot() -> pg_sys::Snapshot;
}

/// Returns the active snapshot. There is one while an SQL function runs.
pub fn active_snapshot() -> pg_sys::Snapshot {
    // SAFETY: the function reads a global of this process.
    unsafe { GetActiveSnapshot() }
}

/// Runs `f`, which reads and writes without a statement, with a snapshot that sees all earlier writes and all that
/// others have committed. The writes of `f` are seen afterwards, like those of a statement.
pub fn with_new_snapshot<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: a transaction is running. The snapshot is taken off the stack again; after an error PostgreSQL does that.
    unsafe {
        pg_sys::CommandCounterIncrement();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = f();
        pg_sys::PopActiveSnapshot();
        pg_sys::CommandCounterIncrement();
        result
    }
}

/// Returns whether this transaction keeps one snapshot from its beginning to its end.
pub fn has_one_snapshot() -> bool {
    // SAFETY: `XactIsoLevel` is a global of this process, which has one thread.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as c_int }
}
