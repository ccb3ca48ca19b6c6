//! Waiting, in a way that cancels end.

use std::time::{Duration, Instant};

use pgrx::prelude::*;

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
