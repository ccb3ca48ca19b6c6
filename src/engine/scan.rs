//! Reads the key ranges of a query in key order, under the caller's snapshot.

use std::borrow::Cow;

use table_service_model::filter::{Bound, Filter, KeyRange, Plan, Predicate};
use table_service_model::property_index::{Condition, Span};
use table_service_model::read_strategy::{Decision, Step, Strategy};

use super::fan_out;
use super::output::{Output, RowFilter, Take, predicate};
use super::property_index::{FilterIndexes, value_in};
use crate::postgres::spi::Connection;
use crate::storage::arguments::KeyTexts;
use crate::storage::direct::{Lookup, Reader, with_reader};
use crate::storage::execution::ScanPlanning;
use crate::storage::fetch::Fetch;
use crate::storage::row::{KeyPair, Row};
use crate::storage::statement::{Bounds, First, IndexScan, RangeKeys, ScanFilter, Statement, Tested};
use crate::storage::table::Table;

/// The entities that a caller wants of key ranges.
pub struct Wanted<'f> {
    /// How many entities, about.
    pub entities: u64,
    /// The filter that they must pass. The caller tests it on the rows as they arrive.
    pub filter: Option<&'f Filter>,
    /// When the caller will want no more rows, in microseconds since 2000-01-01.
    pub until: i64,
}

/// Gives `take` entities of key ranges until it wants no more: all that pass the filter, and perhaps others. The ranges must be in
/// key order, and so are the entities.
pub fn read_first(spi: &Connection, table: &Table, ranges: &[KeyRange], wanted: &Wanted<'_>, take: &mut Take<'_>) {
    if table.is_distributed() {
        let first = First {
            // The caller sees one more, to know whether there is one.
            rows: wanted.entities.saturating_add(1),
            until: wanted.until,
        };
        fan_out::read(spi, table, ranges, wanted.filter, Some(first), Output::new(take, None));
        return;
    }
    let knowledge = FilterIndexes::new(table, wanted.filter);
    let mut reader = RangeReader {
        spi,
        table,
        knowledge: knowledge.as_ref(),
        wanted: Some(wanted.entities),
        workers: Workers::Prevented,
        filter: None,
        output: Output::new(take, None),
    };
    reader.read(ranges);
}

/// Whether parallel workers may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    Permitted,
    /// While they run, nothing can be written.
    Prevented,
}

/// Gives `take` all entities of a plan's ranges that pass its filter, until it wants no more. The statements test the filter.
pub fn read_all(
    spi: &Connection,
    table: &Table,
    plan: &Plan,
    workers: Workers,
    take: &mut dyn FnMut(&Row<'_>) -> bool,
) {
    let residual = plan.residual.as_ref();
    if table.is_distributed() {
        // The other servers test the filter alone.
        let alive = RowFilter::of(table, None);
        let is_alive = |row: &Row<'_>| alive.as_ref().is_none_or(|alive| alive.passes(row));
        let take = &mut |row: &Row<'_>| (!is_alive(row) || take(row)).then_some(0);
        let of_rows = residual.map(|filter| RowFilter::new(Predicate::new(filter)));
        fan_out::read(
            spi,
            table,
            &plan.ranges,
            residual,
            None,
            Output::new(take, of_rows.as_ref()),
        );
        return;
    }
    let predicate = predicate(table, residual);
    // Nearly all rows pass an expiry. The planner would expect few of them, and sort these.
    let of_statements = predicate.as_ref().filter(|_| residual.is_some()).map(ScanFilter::new);
    let of_rows = predicate.map(RowFilter::new);
    let is_tested = of_statements.is_some();
    let take = &mut |row: &Row<'_>| {
        let passes = is_tested || of_rows.as_ref().is_none_or(|filter| filter.passes(row));
        (!passes || take(row)).then_some(0)
    };
    let knowledge = FilterIndexes::new(table, residual);
    let mut reader = RangeReader {
        spi,
        table,
        knowledge: knowledge.as_ref(),
        wanted: None,
        workers,
        filter: of_statements.as_ref(),
        output: Output::new(take, of_rows.as_ref().filter(|_| is_tested)),
    };
    reader.read(&plan.ranges);
}

/// Returns what a reader finds entities by, if key ranges may be read without a statement.
pub(super) fn lookup(ranges: &[KeyRange], knowledge: Option<&FilterIndexes<'_>>) -> Option<Lookup<'static>> {
    if ranges.iter().any(|range| range.point().is_some()) {
        return Some(Lookup::Keys);
    }
    knowledge.map(|knowledge| Lookup::Entries(knowledge.every_row))
}

/// Returns whether key ranges are read together, with one count of entries, one plan and one sort. To read a small range takes
/// less time than these, so many ranges do not get their own. A condition on one value needs none of them.
pub(super) fn are_read_together(ranges: &[KeyRange], knowledge: &FilterIndexes<'_>) -> bool {
    let scans = ranges.iter().filter(|range| range.point().is_none()).count();
    scans > APART && !FilterIndexes::is_one_value(knowledge.condition())
}

/// The most key ranges of a query that are read each by itself.
const APART: usize = 8;

struct RangeReader<'a> {
    spi: &'a Connection,
    table: &'a Table,
    /// The knowledge of property indexes about the filter.
    knowledge: Option<&'a FilterIndexes<'a>>,
    /// How many entities the caller wants, about. `None` stands for all.
    wanted: Option<u64>,
    workers: Workers,
    /// The filter that statements test.
    filter: Option<&'a ScanFilter>,
    output: Output<'a>,
}

impl RangeReader<'_> {
    fn read(&mut self, ranges: &[KeyRange]) {
        let read = lookup(ranges, self.knowledge).and_then(|lookup| {
            with_reader(self.table, lookup, |direct| {
                self.ranges(ranges, Some(direct));
                Some(())
            })
        });
        if read.is_none() {
            self.ranges(ranges, None);
        }
    }

    fn ranges(&mut self, ranges: &[KeyRange], mut direct: Option<&mut Reader<'_>>) {
        if let Some(knowledge) = self.knowledge.filter(|knowledge| are_read_together(ranges, knowledge)) {
            self.by_indexes(ranges, knowledge, &mut direct);
            return;
        }
        for range in ranges {
            match self.knowledge {
                Some(knowledge) if range.point().is_none() => {
                    self.by_indexes(std::slice::from_ref(range), knowledge, &mut direct);
                }
                _ => self.by_keys(range, &mut direct),
            }
            if self.output.has_ended {
                break;
            }
            pgrx::check_for_interrupts!();
        }
    }

    fn by_keys(&mut self, range: &KeyRange, direct: &mut Option<&mut Reader<'_>>) {
        match (direct, range.point()) {
            (Some(direct), Some((partition_key, row_key))) if direct.finds_keys() => {
                if let Some(row) = direct.get(KeyTexts::new(partition_key, row_key).keys()) {
                    self.output.give_if_passes(&row);
                }
            }
            _ => {
                let keys = RangeKeys::new(range);
                let statement = Statement::scan(&keys, self.filter, self.wanted.is_none());
                self.all(self.spi.fetch(self.table.name(), &statement), None);
            }
        }
    }

    /// Gives the caller the rows of a statement whose keys are in ranges, which are in order. `None` stands for all rows.
    fn all(&mut self, mut rows: Fetch<'_>, ranges: Option<&[KeyRange]>) {
        if self.workers == Workers::Permitted {
            rows.permit_workers();
        }
        while let Some(row) = rows.next_row() {
            if ranges.is_none_or(|ranges| contain(ranges, &row)) && !self.output.give(&row) {
                break;
            }
        }
    }

    /// Reads key ranges through indexes as far as it pays.
    fn by_indexes(&mut self, given: &[KeyRange], knowledge: &FilterIndexes<'_>, direct: &mut Option<&mut Reader<'_>>) {
        let mut strategy = strategy(self.wanted, direct.is_some());
        let (mut ranges, mut decided, mut some_are_cut) = (Cow::Borrowed(given), None, false);
        loop {
            let condition = knowledge.within(&ranges);
            let taken = self.output.taken;
            let Decision { step, .. } = decided
                .take()
                .unwrap_or_else(|| knowledge.decide(&strategy, (given, &ranges), &condition, taken));
            strategy.advance(step, taken);
            match step {
                Step::InKeyOrder { entities: None } => break,
                Step::InKeyOrder { entities: Some(rows) } => {
                    let rest = ranges.into_owned();
                    let (rest, next) = self.in_key_order(rest, rows, given, knowledge, &mut strategy, direct);
                    (ranges, decided) = (Cow::Owned(rest), next);
                }
                Step::OfValue { value, entities } => {
                    let rest = match (&*ranges, value_in(&condition, value)) {
                        ([range], Some(value)) => {
                            self.of_value(range, knowledge, value, entities, some_are_cut, direct)
                        }
                        _ => None,
                    };
                    let Some((rest, cut)) = rest else { break };
                    some_are_cut |= cut;
                    ranges = Cow::Owned(rest);
                }
                Step::Sorted { entries } => {
                    let narrow = || knowledge.narrow(&condition, entries + 1);
                    if self.few(&ranges, &condition, knowledge, direct)
                        || self.sorted(&ranges, &narrow(), knowledge, ScanPlanning::ForFewRows)
                    {
                        return;
                    }
                    break;
                }
                Step::Planned => {
                    if self.sorted(&ranges, &condition, knowledge, ScanPlanning::Free) {
                        return;
                    }
                    break;
                }
            }
            if ranges.is_empty() || self.output.has_ended {
                return;
            }
        }
        if let ([whole], true) = (given, strategy.has_tried_value() && strategy.read() == 0) {
            // The statement has the whole range: if it began at a key, the planner could choose to read in key order.
            let keys = RangeKeys::new(whole);
            let statement = Statement::scan(&keys, self.filter, true);
            self.all(self.spi.fetch(self.table.name(), &statement), Some(&ranges));
            return;
        }
        for range in ranges.iter() {
            self.by_keys(range, direct);
            if self.output.has_ended {
                break;
            }
            pgrx::check_for_interrupts!();
        }
    }

    /// Reads `rows` entities of key ranges in key order, and then more as long as the strategy says so. Entities that do not pass
    /// the filter count too. Returns the rest of the ranges, and the strategy's decision for something else, if it made one.
    fn in_key_order(
        &mut self,
        mut ranges: Vec<KeyRange>,
        mut rows: usize,
        given: &[KeyRange],
        knowledge: &FilterIndexes<'_>,
        strategy: &mut Strategy,
        direct: &mut Option<&mut Reader<'_>>,
    ) -> (Vec<KeyRange>, Option<Decision>) {
        let mut number = 0;
        while let Some(range) = ranges
            .get(number)
            .filter(|_| rows > 0 && !self.output.has_ended)
            .cloned()
        {
            if range.point().is_some() {
                self.by_keys(&range, direct);
                rows -= 1;
            } else {
                let keys = RangeKeys::new(&range);
                let mut fetch = self.spi.fetch(self.table.name(), &Statement::scan(&keys, None, false));
                while let Some(row) = fetch.next_row() {
                    if rows == 0 {
                        // The strategy decides while the statement is open. A new statement would compare every row with the
                        // keys at which it begins.
                        let left = cut_before(&mut ranges, number, row.keys());
                        let (condition, taken) = (knowledge.within(left), self.output.taken);
                        let decision = knowledge.decide(strategy, (given, left), &condition, taken);
                        let Step::InKeyOrder { entities } = decision.step else {
                            return (ranges.split_off(number), Some(decision));
                        };
                        strategy.advance(decision.step, taken);
                        rows = entities.unwrap_or(usize::MAX);
                    }
                    rows -= 1;
                    if !self.output.give_if_passes(&row) {
                        break;
                    }
                }
            }
            number += 1;
        }
        (ranges.split_off(number), None)
    }

    /// Reads entities of a key range that have one value, in the order of the index: `entities` of them, or all. Returns the
    /// rest of the range, and whether there are cut entries; `None` if the planner does not read the index.
    fn of_value(
        &mut self,
        range: &KeyRange,
        knowledge: &FilterIndexes<'_>,
        (property, span): (usize, &Span),
        entities: Option<usize>,
        sort_cut: bool,
        direct: &mut Option<&mut Reader<'_>>,
    ) -> Option<(Vec<KeyRange>, bool)> {
        let longest = span.uncut_keys().filter(|_| !sort_cut);
        let (mut rows, mut next) = (entities.unwrap_or(usize::MAX), None);
        let output = &mut self.output;
        let mut take = |row: &Row<'_>, is_tested: bool| {
            if rows == 0 || longest.is_some_and(|longest| row.size_of_keys() > longest) {
                next = Some(row.keys());
                return false;
            }
            rows -= 1;
            match contain(std::slice::from_ref(range), row) {
                true if is_tested => output.give(row),
                true => output.give_if_passes(row),
                false => true,
            }
        };
        let is_read = match (direct, knowledge.index(property)) {
            (Some(direct), Some(index)) if !sort_cut => {
                direct.each_between(index, (&span.lower, &span.upper), &mut |row| take(row, false))
            }
            _ => false,
        };
        if !is_read {
            let name = knowledge.indexes.get(property).map_or("", AsRef::as_ref);
            let scan = IndexScan::ordered(self.table.name(), name, span, tested(self.filter), sort_cut);
            let mut fetch = self.spi.fetch_in_order(self.table.name(), &scan, &knowledge.oids())?;
            while let Some(row) = fetch.next_row() {
                if !take(&row, true) {
                    break;
                }
            }
        }
        Some(match next {
            None => (Vec::new(), false),
            Some(next) if rows == 0 => (vec![rest_from(range, next)], false),
            Some((partition_key, row_key)) => {
                let held = span.held_keys(&partition_key, &row_key);
                (vec![rest_from(range, held)], true)
            }
        })
    }

    /// Reads key ranges through indexes without a statement, and sorts them. Returns false, without reading, if there are
    /// too many entries, or if only a statement can do it.
    fn few(
        &mut self,
        ranges: &[KeyRange],
        condition: &Condition,
        knowledge: &FilterIndexes<'_>,
        direct: &mut Option<&mut Reader<'_>>,
    ) -> bool {
        let (Some(direct), Some(entries)) = (direct, knowledge.few_entries(condition)) else {
            return false;
        };
        let output = &mut self.output;
        direct.each_sorted(&entries, &|row| contain(ranges, row), &mut |row| {
            output.give_if_passes(row)
        })
    }

    /// Reads key ranges through indexes by a statement that sorts them. Returns false if the planner reads no index.
    fn sorted(
        &mut self,
        ranges: &[KeyRange],
        condition: &Condition,
        knowledge: &FilterIndexes<'_>,
        planning: ScanPlanning,
    ) -> bool {
        let own;
        let filter = match self.filter {
            Some(filter) => Some(filter),
            None => {
                own = predicate(self.table, Some(knowledge.filter)).map(|predicate| ScanFilter::new(&predicate));
                own.as_ref()
            }
        };
        let (table, indexes) = (self.table.name(), &knowledge.indexes);
        // One more than wanted shows whether there is a next page. Rows of ranges that are left out are not counted.
        let limit = self
            .wanted
            .filter(|_| ranges.len() == 1)
            .map(|wanted| wanted.saturating_add(1));
        let filter = tested(filter);
        let scan = IndexScan::sorted(table, ranges, (condition, indexes), filter, limit, bounds(planning));
        let rows = self.spi.fetch_planned(&scan, planning, &knowledge.oids());
        let is_read = rows.is_some();
        if let Some(rows) = rows {
            self.all(rows, Some(ranges).filter(|ranges| ranges.len() > 1));
        }
        is_read
    }
}

fn tested(filter: Option<&ScanFilter>) -> Tested<'_> {
    filter.map_or(Tested::ByCaller, Tested::Compiled)
}

/// Returns the part of a range from these keys on. Keys that an index has cut may be before the range, which then stays whole.
fn rest_from(range: &KeyRange, (partition_key, row_key): KeyPair) -> KeyRange {
    if !range.contains(&partition_key, &row_key) {
        return range.clone();
    }
    KeyRange {
        lower: Some(Bound {
            partition_key,
            row_key: Some(row_key),
            inclusive: true,
        }),
        upper: range.upper.clone(),
    }
}

/// Cuts the keys before `next` off the range with this number, and returns this range and those behind it.
fn cut_before(ranges: &mut [KeyRange], number: usize, next: KeyPair) -> &[KeyRange] {
    let left = ranges.get_mut(number..).unwrap_or_default();
    if let [first, ..] = left {
        *first = rest_from(first, next);
    }
    left
}

/// Returns how the reading of key ranges begins.
pub(super) fn strategy(wanted: Option<u64>, is_direct: bool) -> Strategy {
    let wanted = wanted.map(|wanted| usize::try_from(wanted).unwrap_or(usize::MAX));
    Strategy::new(wanted, is_direct)
}

/// Returns whether one of the ranges, which are in order, has the keys of a row.
fn contain(ranges: &[KeyRange], row: &Row<'_>) -> bool {
    if let [only] = ranges
        && only.is_all()
    {
        return true;
    }
    let (partition_key, row_key) = (row.partition_key(), row.row_key());
    let first = ranges.partition_point(|range| range.is_before(partition_key, row_key));
    ranges
        .get(first)
        .is_some_and(|range| range.contains(partition_key, row_key))
}

/// Returns how a statement uses the bounds of key ranges. It only tests them where the condition alone finds few
/// entities.
pub(super) fn bounds(planning: ScanPlanning) -> Bounds {
    match planning {
        ScanPlanning::ForFewRows => Bounds::Tested,
        _ => Bounds::Searched,
    }
}
