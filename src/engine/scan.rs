//! Reads the key ranges of a query in key order, under the caller's snapshot.

use table_service_model::filter::{AccessClass, Bound, Columns, KeyRange, Plan, Predicate};

use super::direct::{self, Direct, Purpose};
use super::property_index::{Knowledge, Way, choose};
use super::table::Table;
use crate::postgres::arguments::KeyTexts;
use crate::postgres::receiver::Receiver;
use crate::postgres::row::Row;
use crate::postgres::spi::{Connection, Planning};
use crate::postgres::statement::{IndexScan, RangeKeys, ScanFilter, Statement, Tested, scan_to_sql};

/// A filter that is tested on rows as they arrive.
pub struct RowFilter {
    predicate: Predicate,
    columns: Columns,
}

impl RowFilter {
    pub fn new(predicate: Predicate) -> RowFilter {
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

/// Reads entities of key ranges into `sink` until it wants no more: all that pass the filter of `knowledge`, and perhaps
/// others. The ranges must be in key order, and so are the entities. The caller wants about `wanted` entities, and tests
/// the filter on the rows as they arrive.
pub fn read_first(
    spi: &Connection,
    table: &Table,
    ranges: &[KeyRange],
    knowledge: Option<&Knowledge<'_>>,
    wanted: u64,
    sink: &mut dyn FnMut(&Row<'_>) -> bool,
) {
    read(spi, table, ranges, knowledge, Some(wanted), None, sink);
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
    let knowledge = Knowledge::new(table, plan.residual.as_ref());
    read(spi, table, &plan.ranges, knowledge.as_ref(), None, Some(&filter), sink);
}

/// Says that all rows of the ranges are read. Contains the filter that they must pass, for statements and for rows.
struct AllRows(Option<(ScanFilter, RowFilter)>);

fn read(
    spi: &Connection,
    table: &Table,
    ranges: &[KeyRange],
    knowledge: Option<&Knowledge<'_>>,
    wanted: Option<u64>,
    all_rows: Option<&AllRows>,
    sink: &mut dyn FnMut(&Row<'_>) -> bool,
) {
    // To count entries and to plan takes longer than to read a small range. With many ranges it would not pay.
    let mut reading = Reading {
        spi,
        table,
        knowledge,
        may_sort: scans(ranges) <= SORTED_RANGES,
        wanted,
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

/// Returns how many ranges are not points.
fn scans(ranges: &[KeyRange]) -> usize {
    ranges.iter().filter(|range| range.point().is_none()).count()
}

/// The largest number of entities in a page.
pub const PAGE_ENTITIES: u64 = 1000;

/// How many key ranges of a query may be read by sorting.
const SORTED_RANGES: usize = 8;

struct Reading<'a> {
    spi: &'a Connection,
    table: &'a Table,
    /// What property indexes know about the filter.
    knowledge: Option<&'a Knowledge<'a>>,
    /// Whether ranges may be read by sorting.
    may_sort: bool,
    /// How many entities the caller wants. `None` stands for all.
    wanted: Option<u64>,
    all_rows: Option<&'a AllRows>,
    receiver: Receiver<'a>,
}

impl<'a> Reading<'a> {
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
        match self.knowledge {
            None => self.by_keys(range),
            Some(knowledge) => self.by_indexes(range, knowledge),
        }
    }

    fn by_keys(&mut self, range: &KeyRange) {
        let keys = RangeKeys::new(range);
        let statement = Statement::scan(&keys, self.filter(), self.all_rows.is_some());
        self.spi.receive(self.table.name(), &statement, &mut self.receiver);
    }

    fn by_indexes(&mut self, range: &KeyRange, knowledge: &Knowledge<'_>) {
        let condition = knowledge.within(range);
        if let Some((property, span)) = knowledge.in_order(&condition) {
            let property = knowledge.properties.get(property).map_or("", |property| property);
            let scan = IndexScan::ordered(self.table.name(), property, span, tested(self.filter()));
            let (spi, table, indexes) = (self.spi, self.table.name(), knowledge.indexes());
            let is_read = self
                .receiver
                .within(range, |receiver| spi.receive_in_order(table, &scan, &indexes, receiver));
            if !is_read {
                self.by_keys(range);
            }
            return;
        }
        let (mut range, mut read) = (range.clone(), 0);
        while self.may_sort {
            match choose(knowledge, &range, &condition, self.wanted, read) {
                Way::Keys => break,
                Way::Sorted(planning) => {
                    if self.sorted(&range, knowledge, planning) {
                        return;
                    }
                    break;
                }
                Way::KeysFirst(rows) => {
                    let next = self.keys_first(&range, rows);
                    let Some((partition_key, row_key)) = next.filter(|_| !self.receiver.has_ended()) else {
                        return;
                    };
                    range.lower = Some(Bound {
                        partition_key,
                        row_key: Some(row_key),
                        inclusive: true,
                    });
                    read += rows;
                }
            }
        }
        self.by_keys(&range);
    }

    /// Reads so many entities of a range in key order. Returns the keys of the next one.
    fn keys_first(&mut self, range: &KeyRange, rows: u64) -> Option<(String, String)> {
        let keys = RangeKeys::new(range);
        let statement = Statement::scan(&keys, self.filter(), self.all_rows.is_some());
        let (spi, table) = (self.spi, self.table.name());
        self.receiver
            .at_most(rows, |receiver| spi.receive(table, &statement, receiver))
    }

    /// Reads a range through indexes and sorts it. Returns false if the planner reads no index.
    fn sorted(&mut self, range: &KeyRange, knowledge: &Knowledge<'_>, planning: Planning) -> bool {
        let condition = knowledge.within(range);
        let own;
        let filter = match self.filter() {
            Some(filter) => filter,
            None => {
                own = ScanFilter::new(&Predicate::new(knowledge.filter));
                &own
            }
        };
        // One more than wanted shows whether there is a next page.
        let limit = self.wanted.map(|wanted| wanted.saturating_add(1));
        let scan = IndexScan::sorted(
            self.table.name(),
            range,
            &condition,
            &knowledge.properties,
            Tested::Compiled(filter),
            limit,
        );
        self.spi
            .receive_planned(&scan, planning, &knowledge.indexes(), &mut self.receiver)
    }

    /// The filter that statements test.
    fn filter(&self) -> Option<&'a ScanFilter> {
        let filter = self.all_rows?.0.as_ref()?;
        Some(&filter.0)
    }
}

fn tested(filter: Option<&ScanFilter>) -> Tested<'_> {
    filter.map_or(Tested::Not, Tested::Compiled)
}

/// How the entities of a key range are read, for users.
pub struct Explained {
    pub access: AccessClass,
    pub sql: String,
    pub planning: Planning,
}

/// Explains how the first page of a plan is read.
pub fn explain(spi: &Connection, table: &Table, plan: &Plan) -> Vec<Explained> {
    let knowledge = Knowledge::new(table, plan.residual.as_ref());
    let knowledge = knowledge.as_ref();
    let may_sort = scans(&plan.ranges) <= SORTED_RANGES;
    let explain = |range: &KeyRange| {
        let through_index = knowledge
            .filter(|_| range.point().is_none())
            .and_then(|knowledge| explain_indexes(spi, table, range, knowledge, may_sort));
        through_index.unwrap_or_else(|| Explained {
            access: range.access(),
            sql: scan_to_sql(range, table.name(), plan.residual.as_ref()),
            planning: Planning::ForKeys,
        })
    };
    plan.ranges.iter().map(explain).collect()
}

/// Returns `None` if a range is not read through property indexes.
fn explain_indexes(
    spi: &Connection,
    table: &Table,
    range: &KeyRange,
    knowledge: &Knowledge<'_>,
    may_sort: bool,
) -> Option<Explained> {
    let condition = knowledge.within(range);
    let shown = Tested::Shown(knowledge.filter);
    let (scan, planning) = match knowledge.in_order(&condition) {
        Some((property, span)) => {
            let property = knowledge.properties.get(property)?;
            (
                IndexScan::ordered(table.name(), property, span, shown),
                Planning::ForKeys,
            )
        }
        None => {
            let mut read = 0;
            let planning = loop {
                match choose(knowledge, range, &condition, Some(PAGE_ENTITIES), read) {
                    Way::Sorted(planning) if may_sort => break planning,
                    Way::KeysFirst(rows) if may_sort => read += rows,
                    _ => return None,
                }
            };
            let properties = &knowledge.properties;
            (
                IndexScan::sorted(table.name(), range, &condition, properties, shown, None),
                planning,
            )
        }
    };
    let sql = scan.to_sql();
    spi.would_read(&sql, planning, &knowledge.indexes()).then(|| Explained {
        access: range.access().min(AccessClass::PropertyIndexScan),
        sql,
        planning,
    })
}
