//! Waiting, in a way that cancels end.

use std::time::{Duration, Instant};

use pgrx::prelude::*;

/// Returns how long a call may wait for others: `most`, if the limits of the session leave so much. It ends before
/// PostgreSQL ends the statement, and so can say why it waited.
pub fn patience(most: Duration) -> Duration {
    // SAFETY: the settings are globals of this process, which has one thread.
    let (statement, lock) = unsafe { (pg_sys::StatementTimeout, pg_sys::LockTimeout) };
    let limit = |milliseconds: i32| {
        let milliseconds = u64::try_from(milliseconds).unwrap_or_default();
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
    };
    let limits = [limit(statement).map(|limit| limit * 3 / 4), limit(lock)];
    limits.into_iter().flatten().fold(most, Duration::min)
}

/// Waits without a snapshot, as `pg_sleep` would not. Cancels end it.
pub fn wait(pause: Duration) {
    let until = Instant::now().checked_add(pause);
    loop {
        pgrx::check_for_interrupts!();
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return;
        }
        // At least a millisecond, and at most an hour at once.
        let millis = left.as_millis().clamp(1, 3_600_000);
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        // SAFETY: `MyLatch` is the latch of this process.
        unsafe {
            pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, millis as _, pg_sys::PG_WAIT_EXTENSION);
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
    }
}
