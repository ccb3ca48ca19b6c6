//! Pages: the limits of one page, and the continuation token of the next one.

use std::borrow::Cow;
use std::time::Duration;

use table_service_model::filter::{Filter, KeyRange};
use table_service_model::limits::{ENTITY_ROW_BYTES, PAGE_BYTES};
use table_service_model::token::ContinuationToken;

use super::deadline::Deadline;
use super::output::RowFilter;
use super::scan::{self, Wanted};
use crate::postgres::clock::now;
use crate::postgres::spi::connect;
use crate::storage::row::{KeyPair, Row};
use crate::storage::table::Table;

/// The size at which a page of rows is full: the largest entity still fits behind it.
const FULL_BYTES: usize = PAGE_BYTES - 2 * 1024 * 1024;
const _: () = assert!(FULL_BYTES + ENTITY_ROW_BYTES <= PAGE_BYTES);

/// Receives the entities of a page.
pub trait PageSink {
    /// Returns how many bytes the page has with this entity, and whether that is too much: then the page ends before it.
    /// [`PageSink::entity`] can take the text that this prepares.
    fn measure(&mut self, row: &Row<'_>) -> Measure;
    /// Takes the entity that was measured. `is_last` says whether the page is full with it.
    fn entity(&mut self, row: &Row<'_>, is_last: bool);
}

/// How an entity fits into a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Fits,
    /// It fits, and nothing else does.
    Fills,
    TooLarge,
}

impl Measure {
    /// For a page of rows that has so many bytes with the entity.
    pub fn of_rows(bytes: usize) -> Measure {
        if bytes >= FULL_BYTES {
            Measure::Fills
        } else {
            Measure::Fits
        }
    }
}

/// Where a page begins, its filter and its limits.
pub struct PageRequest<'f> {
    /// The key ranges to read, from the token on.
    pub ranges: Cow<'f, [KeyRange]>,
    /// The residual filter.
    pub filter: Option<&'f Filter>,
    /// The largest number of entities.
    pub top: u64,
    pub time_limit: Duration,
}

/// Reads a page into `sink`. Returns the sink, and the token of the next page if there may be one.
pub fn read<S: PageSink>(request: PageRequest<'_>, table: &Table, sink: S) -> (S, Option<String>) {
    let (sink, next) = read_until(request, table, sink);
    let token = next.map(|(partition_key, row_key)| ContinuationToken::Entity { partition_key, row_key }.encode());
    (sink, token)
}

/// Reads a page into `sink`. Returns the sink, and the keys at which the next page begins if there may be one.
pub fn read_until<S: PageSink>(request: PageRequest<'_>, table: &Table, sink: S) -> (S, Option<KeyPair>) {
    let mut reading = PageReading {
        sink,
        filter: RowFilter::of(table, request.filter),
        top: request.top,
        full: false,
        deadline: Deadline::after(request.time_limit),
        tested: 0,
        taken: 0,
        next: None,
    };
    if request.top > 0 {
        let limit = i64::try_from(request.time_limit.as_micros()).unwrap_or(i64::MAX);
        let wanted = Wanted {
            entities: request.top,
            filter: request.filter,
            until: now().saturating_add(limit),
        };
        connect(|spi| {
            let take = &mut |row: &Row<'_>| reading.row(row);
            scan::read_first(spi, table, &request.ranges, &wanted, take);
        });
    }
    (reading.sink, reading.next)
}

/// Counts the entities of a page. When the page is full or its time is over, the next page begins at the next row.
struct PageReading<S> {
    sink: S,
    filter: Option<RowFilter>,
    top: u64,
    full: bool,
    deadline: Deadline,
    /// The number of rows that were tested against the filter.
    tested: u64,
    /// The number of entities in the page.
    taken: u64,
    next: Option<KeyPair>,
}

impl<S: PageSink> PageReading<S> {
    /// Takes a row. Returns how many entities the page has, or `None` if it wants no more rows.
    fn row(&mut self, row: &Row<'_>) -> Option<u64> {
        if let Some(filter) = &self.filter {
            // A filter that few rows pass can read for a long time before it finds an entity. The first row is tested
            // even after the deadline, so that every page makes progress.
            if self.tested > 0 && self.deadline.has_passed(self.tested) {
                return self.end_before(row);
            }
            self.tested += 1;
            if !filter.passes(row) {
                return Some(self.taken);
            }
        }
        if self.full {
            return self.end_before(row);
        }
        let measure = self.sink.measure(row);
        // The first entity always fits, so that every page makes progress.
        if measure == Measure::TooLarge && self.taken > 0 {
            return self.end_before(row);
        }
        self.taken += 1;
        self.full = self.taken == self.top || measure != Measure::Fits || self.deadline.has_passed(self.taken);
        self.sink.entity(row, self.full);
        Some(self.taken)
    }

    /// Ends the page. The next page begins at this row.
    fn end_before(&mut self, row: &Row<'_>) -> Option<u64> {
        self.next = Some(row.keys());
        None
    }
}
