//! Pages: the limits of one page, and the continuation token of the next one.

use std::borrow::Cow;
use std::time::Duration;

use table_service_model::{ContinuationToken, Filter, KeyRange};

use super::deadline::Deadline;
use super::scan::Entities;
use crate::postgres::{Connection, now};
use crate::storage::row::{KeyPair, Row};
use crate::storage::table::Table;

/// Where a page begins, its filter and its limits.
pub struct PageRequest<'f> {
    /// The key ranges to read, from the token on.
    pub ranges: Cow<'f, [KeyRange]>,
    /// The residual filter.
    pub filter: Option<&'f Filter>,
    /// The largest number of entities.
    pub top: u64,
    /// How long reading may take.
    pub time_limit: Duration,
}

/// The entities of a page. When the page is full or its time is over, the next page begins at the next row.
pub struct Page<'a> {
    entities: Entities<'a>,
    top: u64,
    deadline: Deadline,
    /// How many entities the page has.
    taken: u64,
    is_full: bool,
    next: Option<KeyPair>,
}

impl<'a> Page<'a> {
    /// Opens a page.
    pub fn open(spi: &'a Connection, table: &'a Table, request: &'a PageRequest<'_>) -> Page<'a> {
        let deadline = Deadline::after(request.time_limit);
        let limit = i64::try_from(request.time_limit.as_micros()).unwrap_or(i64::MAX);
        let until = now().saturating_add(limit);
        let (ranges, top) = (&*request.ranges, request.top);
        Page {
            entities: Entities::first(spi, table, ranges, request.filter, top, Some((deadline, until))),
            top,
            deadline,
            taken: 0,
            is_full: false,
            next: None,
        }
    }

    /// Moves to the next entity of the page. Returns false if there is none.
    pub fn next(&mut self) -> bool {
        if self.top == 0 || self.next.is_some() {
            return false;
        }
        let is_there = self.entities.next();
        if is_there && !self.is_full {
            self.taken += 1;
            self.is_full = self.taken == self.top || self.deadline.has_passed(self.taken);
            return true;
        }
        if is_there || self.entities.is_late() {
            self.next = Some(self.row().keys());
        }
        false
    }

    /// Returns the current entity.
    pub fn row(&self) -> Row<'_> {
        self.entities.row()
    }

    /// Ends the page with this entity.
    pub fn fill(&mut self) {
        self.is_full = true;
    }

    /// Returns whether the page ends with this entity.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Ends the page before this entity, and returns true. The first entity always fits, so that every page makes progress: then the page
    /// ends with it.
    pub fn end_before(&mut self) -> bool {
        self.is_full = true;
        if self.taken > 1 {
            self.next = Some(self.row().keys());
        }
        self.taken > 1
    }

    /// Returns the keys at which the next page begins, if there may be one.
    pub fn into_next(self) -> Option<KeyPair> {
        self.next
    }

    /// Returns the token of the next page, if there may be one.
    pub fn token(self) -> Option<String> {
        let token = |(partition_key, row_key)| ContinuationToken::Entity { partition_key, row_key }.encode();
        self.next.map(token)
    }
}
