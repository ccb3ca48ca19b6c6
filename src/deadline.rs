//! The time limit of a page that is being read, seen from inside the scan.
//!
//! A filter that matches little can scan for long before it gives a row. So at the deadline the residual lets one row
//! pass untested; the sink, which gets that row next, knows from here that it is where the next page begins. That is
//! exact as long as nothing between the scan and the sink holds rows back.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Within this many rows the clock is read for every row, later for every sixteenth.
const CLOSELY: u64 = 64;

fn looks_at(row: u64) -> bool {
    row < CLOSELY || row.is_multiple_of(16)
}

#[derive(Clone, Copy, Default)]
struct Page {
    deadline: Option<Instant>,
    /// Whether the running scan gives its rows as it goes.
    may_cut: bool,
    /// Rows that were tested.
    examined: u64,
    /// Rows that have arrived.
    taken: u64,
    /// The row that passes now was not tested.
    cut: bool,
}

thread_local! {
    static PAGE: Cell<Page> = const { Cell::new(Page { deadline: None, may_cut: false, examined: 0, taken: 0, cut: false }) };
}

/// Ends what it began when it is dropped, also by an error.
pub struct Guard(Page);

impl Drop for Guard {
    fn drop(&mut self) {
        PAGE.set(self.0);
    }
}

/// Begins a page, or with `None` a read without a time limit. A read within a read has its own.
pub fn begin(limit: Option<Duration>) -> Guard {
    Guard(PAGE.replace(Page {
        deadline: limit.and_then(|limit| Instant::now().checked_add(limit)),
        ..Page::default()
    }))
}

/// Says whether the scan that comes next gives its rows as it goes.
pub fn next_scan(is_ordered: bool) {
    PAGE.set(Page {
        may_cut: is_ordered,
        ..PAGE.get()
    });
}

/// Called for each row before it is tested: whether to let it pass untested. The first row of a page is always tested,
/// so that pages get on.
pub fn cuts_here() -> bool {
    let mut page = PAGE.get();
    let Some(deadline) = page.deadline.filter(|_| page.may_cut) else {
        return false;
    };
    if page.examined > 0 && looks_at(page.examined) && Instant::now() >= deadline {
        page.cut = true;
    }
    page.examined += 1;
    PAGE.set(page);
    page.cut
}

/// Whether the row that has arrived is the one that was let pass untested.
pub fn was_cut() -> bool {
    PAGE.get().cut
}

/// Called for each row that arrives: whether the time of the page is over.
pub fn has_passed() -> bool {
    let mut page = PAGE.get();
    let Some(deadline) = page.deadline else {
        return false;
    };
    page.taken += 1;
    PAGE.set(page);
    looks_at(page.taken) && Instant::now() >= deadline
}
