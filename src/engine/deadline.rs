//! The time limit of a page.

use std::time::{Duration, Instant};

/// Within this many rows the clock is read for every row, later for every sixteenth.
const CLOSELY: u64 = 64;

/// The point in time at which a page ends.
#[derive(Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    pub fn after(limit: Duration) -> Deadline {
        // A clock that does not go so far never gets there.
        Deadline(Instant::now().checked_add(limit))
    }

    /// Whether the time is over, asked once for each row. The clock is not read for every one.
    pub fn has_passed(self, row: u64) -> bool {
        (row < CLOSELY || row.is_multiple_of(16)) && self.0.is_some_and(|at| Instant::now() >= at)
    }
}
