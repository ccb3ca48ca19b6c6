//! Reads the key ranges of a query in key order, under the caller's snapshot.

use std::borrow::Cow;
use std::cell::Cell;

use table_service_model::expiry::Alive;
use table_service_model::filter::{AccessClass, Bound, Columns, Filter, KeyRange, Plan, Predicate};
use table_service_model::limits::PAGE_ENTITIES;
use table_service_model::property_index::{Condition, Span};
use table_service_model::read_strategy::{Decision, Step, Strategy};

use super::fan_out;
use super::property_index::{FilterIndexes, value_in};
use crate::postgres::spi::Connection;
use crate::storage::arguments::KeyTexts;
use crate::storage::direct::{Lookup, Reader, with_reader};
use crate::storage::execution::ScanPlanning;
use crate::storage::expiry::Expiries;
use crate::storage::receiver::{KeyPair, Receiver, Selection, contain};
use crate::storage::row::Row;
use crate::storage::statement::{Bounds, First, IndexScan, RangeKeys, ScanFilter, Statement, Tested, scan_to_sql};
use crate::storage::table::Table;

/// A filter that is tested on rows as they arrive.
pub struct RowFilter {
    predicate: Predicate,
    columns: Columns,
}

impl RowFilter {
    pub fn new(predicate: Predicate) -> RowFilter {
        RowFilter {
            columns: predicate.columns_of_filter(),
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
        self.predicate.passes(&row.entity_of(self.columns)) && self.predicate.alive().is_none_or(is_alive)
    }
}

/// Returns the test of rows for a read that begins now. Every read makes this test and nothing less.
pub fn predicate(table: &Table, residual: Option<&Filter>) -> Option<Predicate> {
    Predicate::of_query(residual, Expiries::of(table).alive())
}

/// The entities that a caller wants of key ranges.
pub struct Wanted<'f> {
    /// How many entities, about.
    pub entities: u64,
    /// How many entities the caller has taken so far. The caller counts them.
    pub taken: &'f Cell<u64>,
    /// The filter that they must pass. The caller tests it on the rows as they arrive.
    pub filter: Option<&'f Filter>,
    /// When the caller will want no more rows, in microseconds since 2000-01-01.
    pub until: i64,
}

/// Reads entities of key ranges into `sink` until it wants no more: all that pass the filter, and perhaps others. The
/// ranges must be in key order, and so are the entities.
pub fn read_first(
    spi: &Connection,
    table: &Table,
    ranges: &[KeyRange],
    wanted: &Wanted<'_>,
    sink: &mut dyn FnMut(&Row<'_>) -> bool,
) {
    if table.is_distributed() {
        let first = First {
            // The caller sees one more, to know whether there is one.
            rows: wanted.entities.saturating_add(1),
            until: wanted.until,
        };
        fan_out::read(spi, table, ranges, wanted.filter, Some(first), sink);
        return;
    }
    let knowledge = FilterIndexes::new(table, wanted.filter);
    read(spi, table, ranges, knowledge.as_ref(), Some(wanted), None, sink);
}

/// Reads all entities of a plan's ranges that pass its filter into `sink`. The statements test the filter, so
/// PostgreSQL may use parallel workers.
pub fn read_all(spi: &Connection, table: &Table, plan: &Plan, sink: &mut dyn FnMut(&Row<'_>)) {
    if table.is_distributed() {
        let sink = &mut |row: &Row<'_>| {
            sink(row);
            true
        };
        fan_out::read(spi, table, &plan.ranges, plan.residual.as_ref(), None, sink);
        return;
    }
    let residual = plan.residual.as_ref();
    let tested = predicate(table, residual);
    // Nearly all rows pass an expiry. The planner would expect few of them, and sort these.
    let (of_statements, of_expiry) = match residual {
        Some(_) => (
            tested.map(|predicate| (ScanFilter::new(&predicate), RowFilter::new(predicate))),
            None,
        ),
        None => (None, tested.map(RowFilter::new)),
    };
    let all_rows = AllRows { filter: of_statements };
    let sink = &mut |row: &Row<'_>| {
        if of_expiry.as_ref().is_none_or(|filter| filter.passes(row)) {
            sink(row);
        }
        true
    };
    let knowledge = FilterIndexes::new(table, residual);
    read(
        spi,
        table,
        &plan.ranges,
        knowledge.as_ref(),
        None,
        Some(&all_rows),
        sink,
    );
}

/// Says that all rows of the ranges are read.
struct AllRows {
    /// The filter that statements and rows are tested with.
    filter: Option<(ScanFilter, RowFilter)>,
}

impl AllRows {
    fn passes(&self, row: &Row<'_>) -> bool {
        self.filter.as_ref().is_none_or(|(_, filter)| filter.passes(row))
    }
}

fn read(
    spi: &Connection,
    table: &Table,
    ranges: &[KeyRange],
    knowledge: Option<&FilterIndexes<'_>>,
    wanted: Option<&Wanted<'_>>,
    all_rows: Option<&AllRows>,
    sink: &mut dyn FnMut(&Row<'_>) -> bool,
) {
    let mut reader = RangeReader {
        spi,
        table,
        knowledge,
        wanted,
        all_rows,
        receiver: Receiver::new(sink),
    };
    let read = lookup(ranges, knowledge).and_then(|lookup| {
        with_reader(table, lookup, |direct| {
            reader.ranges(ranges, Some(direct));
            Some(())
        })
    });
    if read.is_none() {
        reader.ranges(ranges, None);
    }
}

/// Returns what a reader finds entities by, if key ranges may be read without a statement.
fn lookup(ranges: &[KeyRange], knowledge: Option<&FilterIndexes<'_>>) -> Option<Lookup> {
    if ranges.iter().any(|range| range.point().is_some()) {
        return Some(Lookup::Keys);
    }
    knowledge.map(|knowledge| Lookup::Entries(knowledge.every_row))
}

/// Returns whether key ranges are read together, with one sort if there is one. A count of entries and a plan take longer
/// than a small range takes to read. So they do not pay for each of many ranges. They always pay for a condition on one
/// value.
fn are_read_together(ranges: &[KeyRange], knowledge: &FilterIndexes<'_>) -> bool {
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
    /// The entities that the caller wants. `None` stands for all.
    wanted: Option<&'a Wanted<'a>>,
    all_rows: Option<&'a AllRows>,
    receiver: Receiver<'a>,
}

impl<'a> RangeReader<'a> {
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
            if self.receiver.has_ended() {
                break;
            }
            pgrx::check_for_interrupts!();
        }
    }

    fn by_keys(&mut self, range: &KeyRange, direct: &mut Option<&mut Reader<'_>>) {
        match (direct, range.point()) {
            (Some(direct), Some((partition_key, row_key))) if direct.finds_keys() => {
                self.point(direct, partition_key, row_key);
            }
            _ => {
                let keys = RangeKeys::new(range);
                let statement = Statement::scan(&keys, self.filter(), self.all_rows.is_some());
                self.spi.receive(self.table.name(), &statement, &mut self.receiver);
            }
        }
    }

    fn point(&mut self, direct: &mut Reader<'_>, partition_key: &str, row_key: &str) {
        let keys = KeyTexts::new(partition_key, row_key);
        if let Some(row) = direct.get(keys.keys()) {
            let all_rows = self.all_rows;
            self.receiver
                .take_if(&row, |row| all_rows.is_none_or(|all| all.passes(row)));
        }
    }

    /// Reads key ranges through indexes as far as it pays.
    fn by_indexes(&mut self, given: &[KeyRange], knowledge: &FilterIndexes<'_>, direct: &mut Option<&mut Reader<'_>>) {
        let mut strategy = strategy(self.wanted(), direct.is_some());
        let (mut ranges, mut decided, mut some_are_cut) = (Cow::Borrowed(given), None, false);
        loop {
            let condition = knowledge.within(&ranges);
            let taken = self.taken();
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
                    if self.few(&ranges, &condition, knowledge, direct)
                        || self.sorted(
                            &ranges,
                            &knowledge.narrow(&condition, entries + 1),
                            knowledge,
                            ScanPlanning::ForFewRows,
                        )
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
            if ranges.is_empty() || self.receiver.has_ended() {
                return;
            }
        }
        if let ([whole], true) = (given, strategy.has_tried_value() && strategy.read() == 0) {
            // The statement has the whole range: if it began at a key, the planner could choose to read in key order.
            let keys = RangeKeys::new(whole);
            let statement = Statement::scan(&keys, self.filter(), true);
            let (spi, table) = (self.spi, self.table.name());
            self.receiver.select(Selection::within(&ranges), |receiver| {
                spi.receive(table, &statement, receiver);
            });
            return;
        }
        for range in ranges.iter() {
            self.by_keys(range, direct);
            if self.receiver.has_ended() {
                break;
            }
            pgrx::check_for_interrupts!();
        }
    }

    /// Reads `rows` entities of key ranges in key order, and then more as long as the strategy says so. Returns the rest of
    /// the ranges, and the strategy's decision for something else, if it made one.
    fn in_key_order(
        &mut self,
        mut ranges: Vec<KeyRange>,
        rows: usize,
        given: &[KeyRange],
        knowledge: &FilterIndexes<'_>,
        strategy: &mut Strategy,
        direct: &mut Option<&mut Reader<'_>>,
    ) -> (Vec<KeyRange>, Option<Decision>) {
        let mut rows = rows as u64;
        let mut decided = None;
        for number in 0..ranges.len() {
            let Some(range) = ranges.get(number).cloned() else {
                break;
            };
            if range.point().is_some() {
                self.by_keys(&range, direct);
                rows = rows.saturating_sub(1);
            } else {
                let keys = RangeKeys::new(&range);
                // Rows that do not pass the filter are counted too.
                let statement = Statement::scan(&keys, None, false);
                let (wanted, all_rows) = (self.wanted, self.all_rows);
                let passes = |row: &Row<'_>| all_rows.is_none_or(|all| all.passes(row));
                // The strategy decides while the statement runs. A new statement would compare every row with the keys
                // at which it begins.
                let mut more = |next: KeyPair| {
                    let left = cut_before(&mut ranges, number, next);
                    let taken = taken(wanted);
                    let decision = knowledge.decide(strategy, (given, left), &knowledge.within(left), taken);
                    let Step::InKeyOrder { entities } = decision.step else {
                        decided = Some(decision);
                        return 0;
                    };
                    strategy.advance(decision.step, taken);
                    entities.map_or(u64::MAX, |entities| entities as u64)
                };
                let counted = Selection {
                    test: all_rows.map(|_| &passes as &dyn Fn(&Row<'_>) -> bool),
                    rows: Some(rows),
                    more: Some(&mut more),
                    ..Selection::default()
                };
                let (spi, table) = (self.spi, self.table.name());
                let ((), stopped) = self
                    .receiver
                    .select(counted, |receiver| spi.receive(table, &statement, receiver));
                if let Some(next) = stopped.at {
                    cut_before(&mut ranges, number, next);
                    return (ranges.split_off(number), decided);
                }
                rows = stopped.rows.unwrap_or_default();
            }
            if self.receiver.has_ended() || rows == 0 {
                return (ranges.split_off(number + 1), None);
            }
        }
        (Vec::new(), None)
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
        let selection = Selection {
            rows: entities.map(|entities| entities as u64),
            keys: span.uncut_keys().filter(|_| !sort_cut),
            ..Selection::within(std::slice::from_ref(range))
        };
        let filter = self.filter();
        let all_rows = self.all_rows;
        let passes = |row: &Row<'_>| all_rows.is_none_or(|all| all.passes(row));
        let (spi, table) = (self.spi, self.table.name());
        let (is_read, stopped) = self.receiver.select(selection, |receiver| {
            if let (Some(direct), Some(index), false) = (direct, knowledge.index(property), sort_cut) {
                let take = &mut |row: &Row<'_>| receiver.offer(row, passes);
                if direct.each_between(index, (&span.lower, &span.upper), take) {
                    return true;
                }
            }
            let property = knowledge.indexes.get(property).map_or("", AsRef::as_ref);
            let scan = IndexScan::ordered(table, property, span, tested(filter), sort_cut);
            spi.receive_in_order(table, &scan, &knowledge.oids(), receiver)
        });
        if !is_read {
            return None;
        }
        Some(match stopped.at {
            None => (Vec::new(), false),
            Some(next) if stopped.rows == Some(0) => (vec![rest_from(range, next)], false),
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
        let all_rows = self.all_rows;
        let passes = |row: &Row<'_>| all_rows.is_none_or(|all| all.passes(row));
        let receiver = &mut self.receiver;
        let have_all = ranges.iter().any(KeyRange::is_all);
        let is_inside = |row: &Row<'_>| have_all || contain(ranges, row.partition_key(), row.row_key());
        direct.each_sorted(&entries, &is_inside, &mut |row| {
            receiver.take_if(row, passes);
            !receiver.has_ended()
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
        let filter = match self.filter() {
            Some(filter) => Some(filter),
            None => {
                own = predicate(self.table, Some(knowledge.filter)).map(|predicate| ScanFilter::new(&predicate));
                own.as_ref()
            }
        };
        let (table, indexes) = (self.table.name(), &knowledge.indexes);
        // One more than wanted shows whether there is a next page. Rows that the receiver tests are not counted.
        let limit = self
            .wanted()
            .filter(|_| ranges.len() == 1)
            .map(|wanted| wanted.saturating_add(1));
        let filter = tested(filter);
        let scan = IndexScan::sorted(table, ranges, (condition, indexes), filter, limit, bounds(planning));
        let (spi, oids) = (self.spi, knowledge.oids());
        let receive = |receiver: &mut Receiver<'_>| spi.receive_planned(&scan, planning, &oids, receiver);
        if ranges.len() == 1 {
            receive(&mut self.receiver)
        } else {
            self.receiver.select(Selection::within(ranges), receive).0
        }
    }

    /// Returns how many entities the caller wants, about. `None` stands for all.
    fn wanted(&self) -> Option<u64> {
        self.wanted.map(|wanted| wanted.entities)
    }

    /// Returns how many entities the caller has taken so far.
    fn taken(&self) -> usize {
        taken(self.wanted)
    }

    /// Returns the filter that statements test.
    fn filter(&self) -> Option<&'a ScanFilter> {
        let (filter, _) = self.all_rows?.filter.as_ref()?;
        Some(filter)
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
fn strategy(wanted: Option<u64>, is_direct: bool) -> Strategy {
    let wanted = wanted.map(|wanted| usize::try_from(wanted).unwrap_or(usize::MAX));
    Strategy::new(wanted, is_direct)
}

fn taken(wanted: Option<&Wanted<'_>>) -> usize {
    wanted.map_or(0, |wanted| usize::try_from(wanted.taken.get()).unwrap_or(usize::MAX))
}

/// Returns how a statement uses the bounds of key ranges. It only tests them where the condition alone finds few
/// entities.
fn bounds(planning: ScanPlanning) -> Bounds {
    match planning {
        ScanPlanning::ForFewRows => Bounds::Tested,
        _ => Bounds::Searched,
    }
}

/// How the entities of key ranges are read, for users.
pub struct Explained {
    pub access: AccessClass,
    pub sql: String,
    pub planning: ScanPlanning,
    /// Why it is read so, if a property index may serve it.
    pub reason: Option<String>,
}

/// The number of entities after which an explanation reads no more in vain.
const EXPLAINED: usize = 1_000_000;

/// How many bytes of statements an explanation shows, about. Each has the whole filter, and there may be very many.
const SHOWN: usize = 1024 * 1024;

/// Explains how the first page of a plan is read: the class of its worst key range, and the first statements.
pub fn explain(spi: &Connection, table: &Table, plan: &Plan) -> (AccessClass, Vec<Explained>) {
    let knowledge = FilterIndexes::new(table, plan.residual.as_ref());
    if knowledge
        .as_ref()
        .is_some_and(|knowledge| knowledge.condition().finds_nothing())
    {
        return (AccessClass::Nothing, Vec::new());
    }
    if table.is_distributed() {
        return explain_each(&plan.ranges, |range| {
            explain_distributed(spi, table, plan, range, knowledge.as_ref())
        });
    }
    let through_indexes = |ranges: &[KeyRange], knowledge| explain_indexes(spi, table, ranges, knowledge);
    let by_keys = |range: &KeyRange, reason| Explained {
        access: range.access(),
        sql: scan_to_sql(range, table.name(), plan.residual.as_ref()),
        planning: ScanPlanning::ForKeys,
        reason,
    };
    let Some(knowledge) = &knowledge else {
        return explain_each(&plan.ranges, |range| by_keys(range, None));
    };
    if are_read_together(&plan.ranges, knowledge) {
        return match through_indexes(&plan.ranges, knowledge) {
            Ok(explained) => (explained.access, vec![explained]),
            Err(reason) => explain_each(&plan.ranges, |range| by_keys(range, Some(reason.clone()))),
        };
    }
    explain_each(&plan.ranges, |range| match range.point() {
        Some(_) => by_keys(range, None),
        None => through_indexes(std::slice::from_ref(range), knowledge)
            .unwrap_or_else(|reason| by_keys(range, Some(reason))),
    })
}

/// Explains key ranges one by one, as far as they are shown.
fn explain_each(ranges: &[KeyRange], explain: impl Fn(&KeyRange) -> Explained) -> (AccessClass, Vec<Explained>) {
    let (mut access, mut shown, mut bytes) = (AccessClass::Nothing, Vec::new(), 0);
    for range in ranges {
        pgrx::check_for_interrupts!();
        if bytes > SHOWN {
            access = access.max(range.access());
            continue;
        }
        let explained = explain(range);
        access = access.max(explained.access);
        bytes += explained.sql.len();
        shown.push(explained);
    }
    (access, shown)
}

/// Explains a key range of a distributed table. The other servers choose whether they read property indexes: their
/// plans show it.
fn explain_distributed(
    spi: &Connection,
    table: &Table,
    plan: &Plan,
    range: &KeyRange,
    knowledge: Option<&FilterIndexes<'_>>,
) -> Explained {
    let planning = ScanPlanning::Free;
    let scan = knowledge
        .and_then(|knowledge| fan_out::index_scan(table, range, knowledge, Tested::Shown(knowledge.filter), None))
        .map(|scan| scan.to_sql());
    let reads_index = |sql: &String| {
        let is_condition = |line: &str| line.contains("Index Cond:") && line.contains("property_index_key(");
        spi.explain(sql, planning).lines().any(is_condition)
    };
    let access = match scan.as_ref().is_some_and(reads_index) {
        true => range.access().min(AccessClass::PropertyIndexScan),
        false => range.access(),
    };
    let sql = scan.unwrap_or_else(|| scan_to_sql(range, table.name(), plan.residual.as_ref()));
    Explained {
        access,
        sql,
        planning,
        reason: None,
    }
}

/// Explains key ranges that property indexes may serve: the steps of a page whose first entities in key order do not match.
/// Returns the reason if they are read in key order.
fn explain_indexes(
    spi: &Connection,
    table: &Table,
    ranges: &[KeyRange],
    knowledge: &FilterIndexes<'_>,
) -> Result<Explained, String> {
    let condition = knowledge.within(ranges);
    let lookup = lookup(ranges, Some(knowledge));
    let is_direct = lookup.is_some_and(|lookup| with_reader(table, lookup, |_| Some(())).is_some());
    let mut strategy = strategy(Some(PAGE_ENTITIES), is_direct);
    let decision = loop {
        let decision = knowledge.decide(&strategy, (ranges, ranges), &condition, 0);
        match decision.step {
            Step::InKeyOrder { entities: Some(_) } if strategy.read() < EXPLAINED => strategy.advance(decision.step, 0),
            _ => break decision,
        }
    };
    let shown = Tested::Shown(knowledge.filter);
    let sorted = |condition: &Condition, planning: ScanPlanning| {
        let condition = (condition, &*knowledge.indexes);
        let scan = IndexScan::sorted(table.name(), ranges, condition, shown, None, bounds(planning));
        Some((scan, planning))
    };
    let scan = match decision.step {
        Step::InKeyOrder { .. } => None,
        Step::OfValue { value, .. } => value_in(&condition, value).and_then(|(property, span)| {
            let property = &knowledge.indexes.get(property)?.property;
            let scan = IndexScan::ordered(table.name(), property, span, shown, false);
            Some((scan, ScanPlanning::ForKeys))
        }),
        Step::Planned => sorted(&condition, ScanPlanning::Free),
        Step::Sorted { entries } => sorted(&knowledge.narrow(&condition, entries + 1), ScanPlanning::ForFewRows),
    };
    let after = match strategy.read() {
        0 => String::new(),
        read => format!(", after {read} entities in key order without a match"),
    };
    let access = ranges
        .iter()
        .map(KeyRange::access)
        .max()
        .unwrap_or(AccessClass::Nothing);
    let Some((scan, planning)) = scan else {
        return Err(decision.reason.to_string());
    };
    let sql = scan.to_sql();
    if !spi.would_read(&sql, planning, &knowledge.oids()) {
        return Err("the planner reads no property index".to_owned());
    }
    Ok(Explained {
        access: access.min(AccessClass::PropertyIndexScan),
        sql,
        planning,
        reason: Some(format!("{}{after}", decision.reason)),
    })
}
