//! Locks on several tables at once.
//!
//! Other sessions lock tables in the order in which they write. A session that waits for one table while it holds another can deadlock
//! with them, and PostgreSQL ends one of the transactions: perhaps not this one. PostgreSQL looks for deadlocks when a transaction has
//! waited for `deadlock_timeout`. So an attempt to lock the tables takes less than that, whatever it waits for. If it fails, it gives
//! all of them back, and another one begins with the table that was not free: no session that waits for these locks fails.

use std::convert::Infallible;
use std::ffi::{CString, c_int};
use std::time::{Duration, Instant};

use pgrx::prelude::*;

use super::guc::with_lock_timeout;
use super::raised::{has_sqlstate, rethrow, rethrow_with};
use super::spi::connect;
use super::subtransaction::in_subtransaction;
use super::waiting::wait;

/// How long other sessions that wait have all tables to themselves between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// A mode of LOCK TABLE.
#[derive(Debug, Clone, Copy)]
pub enum Mode {
    /// Others can read.
    ShareRowExclusive,
    AccessExclusive,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Mode::ShareRowExclusive => "SHARE ROW EXCLUSIVE",
            Mode::AccessExclusive => "ACCESS EXCLUSIVE",
        }
    }
}

/// Locks tables until the end of the transaction. Their names must be quoted.
///
/// Raises PostgreSQL's error 55P03 when all attempts together have taken `lock_timeout`, with a hint that names the table.
pub fn lock_all(mut tables: Vec<String>, mode: Mode) {
    // In milliseconds. A `lock_timeout` of 0 is for ever.
    // SAFETY: the settings are globals of this process, which has one thread.
    let (deadlock_timeout, lock_timeout) = unsafe { (pg_sys::DeadlockTimeout, pg_sys::LockTimeout) };
    let milliseconds = |setting: c_int| Duration::from_millis(setting.unsigned_abs().into());
    let begun = Instant::now();
    let last = (lock_timeout > 0).then(|| begun + milliseconds(lock_timeout));
    loop {
        let end = Instant::now() + milliseconds(deadlock_timeout) / 2;
        let end = last.map_or(end, |last| last.min(end));
        let mut locked = 0;
        let attempt = || -> Result<(), Infallible> {
            for table in &tables {
                lock(table, mode, end.saturating_duration_since(Instant::now()));
                locked += 1;
            }
            Ok(())
        };
        let Err(error) = in_subtransaction(attempt) else {
            return;
        };
        let is_over = last.is_some_and(|last| Instant::now() >= last);
        if !has_sqlstate(&error, &[PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE]) {
            rethrow(error);
        }
        if is_over {
            rethrow_with(error, &format!("Another session uses the table {}.", tables[locked]));
        }
        tables.rotate_left(locked);
        wait(PAUSE);
    }
}

/// Runs `f`, which waits for each lock no longer than this, nor than `lock_timeout`.
pub fn waiting_at_most<R>(limit: Option<Duration>, f: impl FnOnce() -> R) -> R {
    // SAFETY: the setting is a global of this process, which has one thread.
    let of_caller = unsafe { pg_sys::LockTimeout };
    match limit.map(|limit| limit.as_millis()) {
        Some(limit) if of_caller == 0 || u128::from(of_caller.unsigned_abs()) > limit => {
            with_lock_timeout(&CString::new(limit.to_string()).unwrap_or_default(), f)
        }
        _ => f(),
    }
}

fn lock(table: &str, mode: Mode, timeout: Duration) {
    // At least a millisecond: 0 is for ever.
    let timeout = CString::new(timeout.as_millis().max(1).to_string()).unwrap_or_default();
    let statement = format!("LOCK TABLE {table} IN {} MODE", mode.name());
    with_lock_timeout(&timeout, || connect(|spi| spi.run_definition(&statement)));
}
