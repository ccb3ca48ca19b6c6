//! Reads the key ranges of a query in key order, under the caller's snapshot.

use table_service_model::filter::{Columns, KeyRange, Plan, Predicate};

use super::direct::{self, Direct, Purpose};
use super::table::Table;
use crate::postgres::arguments::KeyTexts;
use crate::postgres::receiver::Receiver;
use crate::postgres::row::Row;
use crate::postgres::spi::Connection;
use crate::postgres::statement::{RangeKeys, ScanFilter, Statement};

/// A filter that is tested on rows as they arrive.
pub struct RowFilter {
    predicate: Predicate,
    columns: Columns,
}

impl RowFilter {
    fn new(predicate: Predicate) -> RowFilter {
        RowFilter {
            columns: predicate.columns(),
            predicate,
        }
    }

    /// Returns the residual filter of a plan: the part that its key ranges do not cover.
    pub fn of(plan: &Plan) -> Option<RowFilter> {
        plan.residual
            .as_ref()
            .map(|filter| RowFilter::new(Predicate::new(filter)))
    }

    pub fn passes(&self, row: &Row<'_>) -> bool {
        self.predicate.matches(&row.entity_of(self.columns))
    }
}

/// Reads the entities of key ranges into `sink` until it wants no more. The ranges must be in key order. The statements
/// test no filter: a caller that wants only the first rows tests it on the rows as they arrive.
pub fn read_first(spi: &Connection, table: &Table, ranges: &[KeyRange], sink: &mut dyn FnMut(&Row<'_>) -> bool) {
    read(spi, table, ranges, None, sink);
}

/// Reads all entities of a plan's ranges that pass its filter into `sink`. The statements test the filter, so
/// PostgreSQL may use parallel workers.
pub fn read_all(spi: &Connection, table: &Table, plan: &Plan, sink: &mut dyn FnMut(&Row<'_>)) {
    let filter = AllRows(plan.residual.as_ref().map(|filter| {
        let predicate = Predicate::new(filter);
        (ScanFilter::new(&predicate), RowFilter::new(predicate))
    }));
    let sink = &mut |row: &Row<'_>| {
        sink(row);
        true
    };
    read(spi, table, &plan.ranges, Some(&filter), sink);
}

/// Says that all rows of the ranges are read. Contains the filter that they must pass, for statements and for rows.
struct AllRows(Option<(ScanFilter, RowFilter)>);

fn read(
    spi: &Connection,
    table: &Table,
    ranges: &[KeyRange],
    all_rows: Option<&AllRows>,
    sink: &mut dyn FnMut(&Row<'_>) -> bool,
) {
    let mut reading = Reading {
        spi,
        table,
        all_rows,
        receiver: Receiver::new(sink),
    };
    let has_points = ranges.iter().any(|range| range.point().is_some());
    let read = if has_points {
        direct::with(table, Purpose::Get, |direct| {
            reading.ranges(ranges, Some(direct));
            Some(())
        })
    } else {
        None
    };
    if read.is_none() {
        reading.ranges(ranges, None);
    }
}

struct Reading<'a> {
    spi: &'a Connection,
    table: &'a Table,
    all_rows: Option<&'a AllRows>,
    receiver: Receiver<'a>,
}

impl Reading<'_> {
    fn ranges(&mut self, ranges: &[KeyRange], mut direct: Option<&mut Direct>) {
        for range in ranges {
            match (&mut direct, range.point()) {
                (Some(direct), Some((partition_key, row_key))) => self.point(direct, partition_key, row_key),
                _ => self.range(range),
            }
            if self.receiver.has_ended() {
                break;
            }
            pgrx::check_for_interrupts!();
        }
    }

    fn point(&mut self, direct: &mut Direct, partition_key: &str, row_key: &str) {
        let keys = KeyTexts::new(partition_key, row_key);
        if let Some(row) = direct.get(keys.keys()) {
            let filter = self.all_rows.and_then(|all| all.0.as_ref());
            self.receiver
                .take_if(&row, |row| filter.is_none_or(|(_, filter)| filter.passes(row)));
        }
    }

    fn range(&mut self, range: &KeyRange) {
        let keys = RangeKeys::new(range);
        let filter = self.all_rows.and_then(|all| all.0.as_ref()).map(|(filter, _)| filter);
        let statement = Statement::scan(&keys, filter, self.all_rows.is_some());
        self.spi.receive(self.table.name(), &statement, &mut self.receiver);
    }
}
