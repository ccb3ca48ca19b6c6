//! The time limit of a page.

use std::time::{Duration, Instant};

/// The number of first rows for which the clock is read at every row. After them it is read at every sixteenth row.
const CLOSELY: u64 = 64;

/// The point in time at which a page ends.
#[derive(Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the deadline after this time.
    pub fn after(limit: Duration) -> Deadline {
        // A limit beyond the clock's range is no limit.
        Deadline(Instant::now().checked_add(limit))
    }

    /// Returns whether the time is over. To be called for each row; it does not read the clock for each.
    pub fn has_passed(self, row: u64) -> bool {
        (row < CLOSELY || row.is_multiple_of(16)) && self.0.is_some_and(|at| Instant::now() >= at)
    }
}
