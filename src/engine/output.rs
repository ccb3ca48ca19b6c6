//! The rows of a read: the test that they pass, and the caller who takes them.

use table_service_model::expiry::Alive;
use table_service_model::filter::{Columns, Filter, Predicate};

use crate::postgres::memory::RowMemory;
use crate::storage::expiry::Expiries;
use crate::storage::row::Row;
use crate::storage::table::Table;

/// A filter that is tested on rows as they arrive.
pub struct RowFilter {
    predicate: Predicate,
    /// The columns that its filter looks at. `None` if every entity passes the filter.
    columns: Option<Columns>,
}

impl RowFilter {
    pub fn new(predicate: Predicate) -> RowFilter {
        RowFilter {
            columns: (!predicate.lets_all_pass()).then(|| predicate.columns_of_filter()),
            predicate,
        }
    }

    /// Returns the test of rows for a read that begins now: the residual filter of its plan, and the expiries of the
    /// table. `None` if all rows pass.
    pub fn of(table: &Table, residual: Option<&Filter>) -> Option<RowFilter> {
        predicate(table, residual).map(RowFilter::new)
    }

    pub fn passes(&self, row: &Row<'_>) -> bool {
        let is_alive = |alive: &Alive| alive.includes(row.timestamp(), row.properties());
        let passes = |columns| self.predicate.passes(&row.entity_of(columns));
        self.columns.is_none_or(passes) && self.predicate.alive().is_none_or(is_alive)
    }
}

/// Returns the test of rows for a read that begins now. Every read makes this test and nothing less.
pub fn predicate(table: &Table, residual: Option<&Filter>) -> Option<Predicate> {
    Predicate::of_query(residual, Expiries::of(table).alive())
}

/// Takes a row. Returns how many entities the caller has taken so far, or `None` if it wants no more.
pub type Take<'t> = dyn FnMut(&Row<'_>) -> Option<u64> + 't;

/// The rows that the caller gets.
pub struct Output<'a> {
    take: &'a mut Take<'a>,
    /// The filter that statements test. Rows that no statement has found are tested with it.
    filter: Option<&'a RowFilter>,
    /// For rows that no statement has found.
    memory: RowMemory,
    /// How many entities the caller has taken so far.
    pub taken: usize,
    /// Whether the caller wants no more.
    pub has_ended: bool,
}

impl<'a> Output<'a> {
    pub fn new(take: &'a mut Take<'a>, filter: Option<&'a RowFilter>) -> Output<'a> {
        Output {
            take,
            filter,
            memory: RowMemory::new(),
            taken: 0,
            has_ended: false,
        }
    }

    /// Gives the caller a row. Returns whether the caller wants more.
    pub fn give(&mut self, row: &Row<'_>) -> bool {
        match (self.take)(row) {
            Some(taken) => self.taken = usize::try_from(taken).unwrap_or(usize::MAX),
            None => self.has_ended = true,
        }
        !self.has_ended
    }

    /// Gives the caller a row that no statement has tested, if it passes. Returns whether the caller wants more.
    pub fn give_if_passes(&mut self, row: &Row<'_>) -> bool {
        self.memory.enter();
        let wants_more = self.filter.is_some_and(|filter| !filter.passes(row)) || self.give(row);
        self.memory.leave();
        wants_more
    }
}
