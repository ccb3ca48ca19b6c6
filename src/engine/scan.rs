//! Reads the key ranges of a query in key order, under the caller's snapshot, one row after the other.

use std::borrow::Cow;
use std::rc::Rc;
use std::slice;

use table_service_model::filter::{Bound, Plan};
use table_service_model::property_index::{Condition, Span};
use table_service_model::read_strategy::{Decision, Step, Strategy};
use table_service_model::{Filter, KeyRange, Predicate};

use super::deadline::Deadline;
use super::fan_out::FanOut;
use super::property_index::{FilterIndexes, value_in};
use crate::postgres::{Connection, RowMemory};
use crate::storage::arguments::KeyTexts;
use crate::storage::direct::{Lookup, Reader};
use crate::storage::execution::ScanPlanning;
use crate::storage::expiry::Expiries;
use crate::storage::fetch::Fetch;
use crate::storage::row::{KeyPair, Row};
use crate::storage::statement::{Bounds, First, IndexScan, RangeScan, ScanFilter, Tested};
use crate::storage::table::Table;

/// Returns the test of rows for a read that begins now. `None` if all rows pass. Every read makes this test and nothing less.
pub fn predicate(table: &Table, residual: Option<&Filter>) -> Option<Predicate> {
    Predicate::of_query(residual, Expiries::of(table).alive())
}

/// Whether parallel workers may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    Permitted,
    /// While they run, nothing can be written.
    Prevented,
}

/// The entities of key ranges that pass a filter and have not expired, in key order.
pub struct Entities<'a> {
    /// For rows that no statement has found.
    memory: RowMemory,
    rows: Rows<'a>,
    predicate: Option<Predicate>,
    deadline: Option<Deadline>,
    /// How many rows were tested.
    tested: u64,
    is_late: bool,
    /// How many entities there were so far.
    taken: usize,
}

enum Rows<'a> {
    Local(RangeRows<'a>),
    Distributed(FanOut<'a>),
}

impl<'a> Entities<'a> {
    /// Returns all entities of a plan's ranges that pass its filter. The statements test the filter.
    pub fn all(spi: &'a Connection, table: &'a Table, plan: &'a Plan, workers: Workers) -> Entities<'a> {
        Entities::open(spi, table, (&plan.ranges, plan.residual.as_ref()), None, None, workers)
    }

    /// Returns the first entities of key ranges that pass a filter: more than are `wanted`, of which the caller takes as many as it likes.
    /// The ranges must be in key order. After the deadline, also in microseconds since 2000-01-01, no more rows are tested.
    pub fn first(
        spi: &'a Connection,
        table: &'a Table,
        ranges: &'a [KeyRange],
        filter: Option<&'a Filter>,
        wanted: u64,
        deadline: Option<(Deadline, i64)>,
    ) -> Entities<'a> {
        Entities::open(spi, table, (ranges, filter), Some(wanted), deadline, Workers::Prevented)
    }

    fn open(
        spi: &'a Connection,
        table: &'a Table,
        (ranges, filter): (&'a [KeyRange], Option<&'a Filter>),
        wanted: Option<u64>,
        deadline: Option<(Deadline, i64)>,
        workers: Workers,
    ) -> Entities<'a> {
        let predicate = predicate(table, filter);
        let rows = if table.is_distributed() {
            let until = deadline.map_or(i64::MAX, |(_, until)| until);
            // One more shows whether there is one.
            let first = wanted.map(|wanted| First {
                rows: wanted.saturating_add(1),
                until,
            });
            Rows::Distributed(FanOut::new(spi, table, ranges, filter, first))
        } else {
            // Nearly all rows pass an expiry. The planner would expect few of them, and sort these.
            let of_statements = predicate.as_ref().filter(|_| filter.is_some() && wanted.is_none());
            let tested = of_statements.map(|predicate| Rc::new(ScanFilter::new(predicate)));
            Rows::Local(RangeRows::new(spi, table, ranges, filter, tested, wanted, workers))
        };
        Entities {
            memory: RowMemory::new(),
            rows,
            predicate,
            deadline: deadline.map(|(deadline, _)| deadline),
            tested: 0,
            is_late: false,
            taken: 0,
        }
    }

    /// Moves to the next entity. Returns false after the last one, and if the time is over ([`Entities::is_late`]).
    pub fn next(&mut self) -> bool {
        while self.advance() {
            if let Some(predicate) = &self.predicate {
                // A filter that few rows pass can read for a long time before it finds an entity. The first row is tested
                // even after the deadline, so that every page makes progress.
                if self.tested > 0 && self.deadline.is_some_and(|deadline| deadline.has_passed(self.tested)) {
                    self.is_late = true;
                    return false;
                }
                self.tested += 1;
                let is_tested = match &self.rows {
                    Rows::Local(rows) => rows.is_tested(),
                    Rows::Distributed(rows) => rows.is_tested(predicate),
                };
                if !is_tested && !self.row().passes(predicate) {
                    continue;
                }
            }
            self.taken += 1;
            return true;
        }
        false
    }

    /// Moves to the next row, whether it passes or not.
    fn advance(&mut self) -> bool {
        self.memory.leave();
        let (is_there, is_direct) = match &mut self.rows {
            Rows::Local(rows) => (rows.next(self.taken), rows.is_direct()),
            Rows::Distributed(rows) => (rows.next(self.taken), rows.is_direct()),
        };
        if is_there && is_direct {
            self.memory.enter();
        }
        is_there
    }

    /// Returns the current row.
    pub fn row(&self) -> Row<'_> {
        match &self.rows {
            Rows::Local(rows) => rows.row(),
            Rows::Distributed(rows) => rows.row(),
        }
    }

    /// Returns whether the time was over before the current row was tested.
    pub fn is_late(&self) -> bool {
        self.is_late
    }
}

/// Returns how a reader finds entities, if key ranges may be read without a statement.
pub(super) fn lookup(ranges: &[KeyRange], knowledge: Option<&FilterIndexes<'_>>) -> Option<Lookup<'static>> {
    if ranges.iter().any(|range| range.point().is_some()) {
        return Some(Lookup::Keys(None));
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

/// The rows of key ranges. Some of them pass the filter.
struct RangeRows<'a> {
    source: Source<'a>,
    reader: Option<Reader>,
    spi: &'a Connection,
    table: &'a Table,
    /// The knowledge of property indexes about the filter.
    knowledge: Option<Rc<FilterIndexes<'a>>>,
    /// The filter that statements test.
    filter: Option<Rc<ScanFilter>>,
    /// About how many entities the caller wants. `None` means all.
    wanted: Option<u64>,
    /// How many it has taken so far.
    taken: usize,
    workers: Workers,
    /// The ranges that are not begun yet.
    rest: slice::Iter<'a, KeyRange>,
    /// The tasks before them, the next one last.
    todo: Vec<Task<'a>>,
    reading: Reading<'a>,
}

/// Where the rows come from.
enum Source<'a> {
    None,
    /// A statement, and whether it tests the filter.
    Statement(Fetch<'a>, bool),
    /// The entities for which the reader searches.
    Search,
    /// The entity that the reader has found. `false` if it was read.
    Point(bool),
}

/// The rest to read.
enum Task<'a> {
    Keys(Cow<'a, KeyRange>),
    /// The rows of a whole range. Only those in other ranges count.
    Within(&'a KeyRange, Vec<KeyRange>),
    Indexes(Group<'a>),
}

/// The range that is being read.
enum Reading<'a> {
    /// The rows of the source, or those with keys in ranges.
    All(Option<Vec<KeyRange>>),
    /// The entities of the range of a group with this number: this many rows, and then it decides again.
    InKeyOrder {
        group: Group<'a>,
        number: usize,
        rows: usize,
    },
    /// The entities of a group's only range that have one value: this many rows, and none with keys that the index may
    /// have cut.
    OfValue {
        group: Group<'a>,
        span: Span,
        longest: Option<usize>,
        rows: usize,
        next: Option<KeyPair>,
    },
}

/// Key ranges that are read through indexes as far as it pays.
struct Group<'a> {
    given: &'a [KeyRange],
    /// Those that are left.
    ranges: Cow<'a, [KeyRange]>,
    strategy: Strategy,
    /// The next task, if that is decided.
    decided: Option<Decision>,
    some_are_cut: bool,
}

/// The treatment of a row.
enum Fate {
    Given,
    Skipped,
    /// It is not read: the rest begins at these keys.
    Left(KeyPair),
}

impl<'a> RangeRows<'a> {
    fn new(
        spi: &'a Connection,
        table: &'a Table,
        ranges: &'a [KeyRange],
        residual: Option<&'a Filter>,
        filter: Option<Rc<ScanFilter>>,
        wanted: Option<u64>,
        workers: Workers,
    ) -> RangeRows<'a> {
        let knowledge = FilterIndexes::new(table, residual);
        let reader = lookup(ranges, knowledge.as_ref()).and_then(|lookup| Reader::open(table, lookup));
        let mut rows = RangeRows {
            source: Source::None,
            reader,
            spi,
            table,
            filter,
            wanted,
            taken: 0,
            workers,
            rest: ranges.iter(),
            todo: Vec::new(),
            reading: Reading::All(None),
            knowledge: None,
        };
        if knowledge
            .as_ref()
            .is_some_and(|knowledge| are_read_together(ranges, knowledge))
        {
            rows.rest = [].iter();
            rows.todo.push(rows.through_indexes(ranges));
        }
        rows.knowledge = knowledge.map(Rc::new);
        rows
    }

    fn through_indexes(&self, given: &'a [KeyRange]) -> Task<'a> {
        Task::Indexes(Group {
            given,
            ranges: Cow::Borrowed(given),
            strategy: strategy(self.wanted, self.reader.is_some()),
            decided: None,
            some_are_cut: false,
        })
    }

    /// Returns whether a statement has tested the filter on the row.
    fn is_tested(&self) -> bool {
        matches!(self.source, Source::Statement(_, true))
    }

    /// Returns whether no statement has found the row.
    fn is_direct(&self) -> bool {
        !matches!(self.source, Source::Statement(..))
    }

    fn row(&self) -> Row<'_> {
        match (&self.source, &self.reader) {
            (Source::Statement(fetch, _), _) => fetch.row(),
            (_, Some(reader)) => reader.row(),
            // Nothing else has rows.
            (_, None) => unreachable!("a row is read after it was found"),
        }
    }

    /// Moves to the next row. `taken` is how many entities the caller has taken. Returns false after the last row.
    fn next(&mut self, taken: usize) -> bool {
        self.taken = taken;
        loop {
            if !self.fetch() {
                self.source = Source::None;
                if !self.go_on() {
                    return false;
                }
                continue;
            }
            match self.fate() {
                Fate::Given => {}
                Fate::Skipped => {
                    self.count();
                    continue;
                }
                Fate::Left(keys) => {
                    if !self.reads_on(keys) {
                        self.source = Source::None;
                        continue;
                    }
                }
            }
            self.count();
            return true;
        }
    }

    fn fetch(&mut self) -> bool {
        match (&mut self.source, &mut self.reader) {
            (Source::Statement(fetch, _), _) => fetch.next(),
            (Source::Search, Some(reader)) => reader.next(),
            (Source::Point(is_new), _) => std::mem::take(is_new),
            _ => false,
        }
    }

    /// Returns the treatment of the row that was fetched.
    fn fate(&self) -> Fate {
        let row = self.row();
        match &self.reading {
            Reading::All(None) => Fate::Given,
            Reading::All(Some(ranges)) if contain(ranges, &row) => Fate::Given,
            Reading::All(Some(_)) => Fate::Skipped,
            Reading::InKeyOrder { rows: 0, .. } => Fate::Left(row.keys()),
            Reading::InKeyOrder { .. } => Fate::Given,
            Reading::OfValue {
                group, longest, rows, ..
            } => {
                if *rows == 0 || longest.is_some_and(|longest| row.size_of_keys() > longest) {
                    Fate::Left(row.keys())
                } else if contain(&group.ranges, &row) {
                    Fate::Given
                } else {
                    Fate::Skipped
                }
            }
        }
    }

    /// Counts the row that was fetched.
    fn count(&mut self) {
        match &mut self.reading {
            Reading::All(_) => {}
            Reading::InKeyOrder { rows, .. } | Reading::OfValue { rows, .. } => *rows = rows.saturating_sub(1),
        }
    }

    /// Decides whether to read on with the row that was fetched, which has these keys.
    fn reads_on(&mut self, keys: KeyPair) -> bool {
        match (&mut self.reading, self.knowledge.as_deref()) {
            (Reading::OfValue { next, .. }, _) => *next = Some(keys),
            (Reading::InKeyOrder { group, number, rows }, Some(knowledge)) => {
                // The strategy decides while the statement is open. A new statement would compare every row with the
                // keys at which it begins.
                let left = cut_before(group.ranges.to_mut(), *number, keys);
                let condition = knowledge.within(left);
                let decision = knowledge.decide(&group.strategy, (group.given, left), &condition, self.taken);
                if let Step::InKeyOrder { entities } = decision.step {
                    group.strategy.advance(decision.step, self.taken);
                    *rows = entities.unwrap_or(usize::MAX);
                    return true;
                }
                group.decided = Some(decision);
            }
            _ => {}
        }
        false
    }

    /// Goes on when the source has no more rows, or none that are wanted. Returns false if there is nothing left to read.
    fn go_on(&mut self) -> bool {
        if let Some(reader) = &mut self.reader {
            reader.end_search();
        }
        pgrx::check_for_interrupts!();
        match std::mem::replace(&mut self.reading, Reading::All(None)) {
            Reading::All(_) => {}
            Reading::InKeyOrder { group, number, rows } if group.decided.is_none() => {
                if self.in_key_order(group, number + 1, rows) {
                    return true;
                }
            }
            Reading::InKeyOrder { group, number, .. } => self.leave(group, number),
            Reading::OfValue {
                group,
                span,
                rows,
                next,
                ..
            } => self.after_value(group, &span, rows, next),
        }
        loop {
            let task = match (self.todo.pop(), &self.knowledge) {
                (Some(task), _) => task,
                (None, knowledge) => {
                    let Some(range) = self.rest.next() else { return false };
                    match knowledge {
                        Some(_) if range.point().is_none() => self.through_indexes(slice::from_ref(range)),
                        _ => Task::Keys(Cow::Borrowed(range)),
                    }
                }
            };
            let has_begun = match task {
                Task::Keys(range) => self.by_keys(&range),
                Task::Within(whole, ranges) => {
                    let scan = RangeScan::new(whole, self.filter.as_ref(), true);
                    self.all(
                        self.spi.fetch_range(self.table.name(), scan),
                        self.filter.is_some(),
                        Some(ranges),
                    )
                }
                Task::Indexes(group) => self.step(group),
            };
            if has_begun {
                return true;
            }
        }
    }

    /// Begins to read the rows of a range by its keys. Returns false if it has none.
    fn by_keys(&mut self, range: &KeyRange) -> bool {
        if let (Some(reader), Some((partition_key, row_key))) = (&mut self.reader, range.point())
            && reader.finds_keys()
        {
            let is_there = reader.seek(KeyTexts::new(partition_key, row_key).keys());
            self.source = Source::Point(is_there);
            return is_there;
        }
        let scan = RangeScan::new(range, self.filter.as_ref(), self.wanted.is_none());
        self.all(
            self.spi.fetch_range(self.table.name(), scan),
            self.filter.is_some(),
            None,
        )
    }

    /// Begins to read the rows of a statement that have keys in ranges, which are in order. `None` means all rows.
    fn all(&mut self, mut rows: Fetch<'a>, is_tested: bool, within: Option<Vec<KeyRange>>) -> bool {
        if self.workers == Workers::Permitted {
            rows.permit_workers();
        }
        self.source = Source::Statement(rows, is_tested);
        self.reading = Reading::All(within);
        true
    }

    /// Takes the next step of key ranges that are read through indexes. Returns whether it gives rows.
    fn step(&mut self, mut group: Group<'a>) -> bool {
        let Some(knowledge) = self.knowledge.clone() else {
            return false;
        };
        let (given, taken) = (group.given, self.taken);
        let condition = knowledge.within(&group.ranges);
        let decided = group.decided.take();
        let Decision { step, .. } =
            decided.unwrap_or_else(|| knowledge.decide(&group.strategy, (given, &group.ranges), &condition, taken));
        group.strategy.advance(step, taken);
        match step {
            Step::InKeyOrder { entities: None } => {}
            Step::InKeyOrder { entities: Some(rows) } => return self.in_key_order(group, 0, rows),
            Step::OfValue { value, entities } => {
                if let ([_], Some((property, span))) = (&*group.ranges, value_in(&condition, value))
                    && self.of_value(&knowledge, property, span, group.some_are_cut)
                {
                    self.reading = Reading::OfValue {
                        longest: span.uncut_keys().filter(|_| !group.some_are_cut),
                        group,
                        span: span.clone(),
                        rows: entities.unwrap_or(usize::MAX),
                        next: None,
                    };
                    return true;
                }
            }
            Step::Sorted { entries } => {
                if self.few(&group.ranges, &condition, &knowledge) {
                    return true;
                }
                let narrow = knowledge.narrow(&condition, entries + 1);
                if self.sorted(&group.ranges, &narrow, &knowledge, ScanPlanning::ForFewRows) {
                    return true;
                }
            }
            Step::Planned => {
                if self.sorted(&group.ranges, &condition, &knowledge, ScanPlanning::Free) {
                    return true;
                }
            }
        }
        let ranges = group.ranges.into_owned();
        match given {
            // The statement has the whole range: if it began at a key, the planner could choose to read in key order.
            [whole] if group.strategy.has_tried_value() && group.strategy.read() == 0 => {
                self.todo.push(Task::Within(whole, ranges));
            }
            _ => {
                let ranges = ranges.into_iter().rev();
                self.todo.extend(ranges.map(|range| Task::Keys(Cow::Owned(range))));
            }
        }
        false
    }

    /// Begins to read this many rows of a group in key order, from its range with this number on. Entities that do not
    /// pass the filter also count. Returns false if there are none.
    fn in_key_order(&mut self, group: Group<'a>, mut number: usize, mut rows: usize) -> bool {
        while let Some(range) = group.ranges.get(number).filter(|_| rows > 0) {
            let has_begun = if range.point().is_some() {
                self.by_keys(range)
            } else {
                let scan = RangeScan::new(range, None, false);
                self.source = Source::Statement(self.spi.fetch_range(self.table.name(), scan), false);
                true
            };
            if has_begun {
                self.reading = Reading::InKeyOrder { group, number, rows };
                return true;
            }
            (number, rows) = (number + 1, rows - 1);
        }
        self.leave(group, number);
        false
    }

    /// Leaves the ranges of a group from this number on to its next step.
    fn leave(&mut self, group: Group<'a>, number: usize) {
        let mut ranges = group.ranges.into_owned();
        let ranges = ranges.split_off(number.min(ranges.len()));
        if !ranges.is_empty() {
            let ranges = Cow::Owned(ranges);
            self.todo.push(Task::Indexes(Group { ranges, ..group }));
        }
    }

    /// Begins to read the entities of one value, in the order of the index. Returns false if the planner does not read the index.
    fn of_value(&mut self, knowledge: &FilterIndexes<'_>, property: usize, span: &Span, sort_cut: bool) -> bool {
        if let (Some(reader), Some(index)) = (&mut self.reader, knowledge.index(property))
            && !sort_cut
            && reader.search_entries(index, span)
        {
            self.source = Source::Search;
            return true;
        }
        let name = knowledge.indexes.get(property).map_or("", AsRef::as_ref);
        let scan = IndexScan::ordered(self.table.name(), name, span, tested(self.filter.as_deref()), sort_cut);
        let fetch = self.spi.fetch_in_order(self.table.name(), scan, &knowledge.oids());
        let is_read = fetch.is_some();
        if let Some(fetch) = fetch {
            self.source = Source::Statement(fetch, self.filter.is_some());
        }
        is_read
    }

    /// Leaves the rest of a range to the next step, after entities of one value were read.
    fn after_value(&mut self, mut group: Group<'a>, span: &Span, rows: usize, next: Option<KeyPair>) {
        let ([range], Some(next)) = (&*group.ranges, next) else {
            return;
        };
        let rest = match rows {
            0 => rest_from(range, next),
            _ => {
                group.some_are_cut = true;
                rest_from(range, span.held_keys(&next.0, &next.1))
            }
        };
        group.ranges = Cow::Owned(vec![rest]);
        self.todo.push(Task::Indexes(group));
    }

    /// Begins to read key ranges through indexes without a statement, sorted. Returns false if there are too many entries, or if only a
    /// statement can do it.
    fn few(&mut self, ranges: &[KeyRange], condition: &Condition, knowledge: &FilterIndexes<'_>) -> bool {
        let (Some(reader), Some(entries)) = (&mut self.reader, knowledge.few_entries(condition)) else {
            return false;
        };
        let is_read = reader.search_sorted(&entries, |row| contain(ranges, row));
        if is_read {
            self.source = Source::Search;
        }
        is_read
    }

    /// Begins to read key ranges through indexes by a statement that sorts them. Returns false if the planner reads no index.
    fn sorted(
        &mut self,
        ranges: &[KeyRange],
        condition: &Condition,
        knowledge: &FilterIndexes<'_>,
        planning: ScanPlanning,
    ) -> bool {
        let of_first = || predicate(self.table, Some(knowledge.filter)).map(|it| Rc::new(ScanFilter::new(&it)));
        let filter = self.filter.clone().or_else(of_first);
        let (table, indexes) = (self.table.name(), &knowledge.indexes);
        // One more than wanted shows whether there is a next page. Rows of ranges that are left out are not counted.
        let wanted = self.wanted.filter(|_| ranges.len() == 1);
        let limit = wanted.map(|wanted| wanted.saturating_add(1));
        let tested = tested(filter.as_deref());
        let scan = IndexScan::sorted(table, ranges, (condition, indexes), tested, limit, bounds(planning));
        let rows = self.spi.fetch_planned(&scan, planning, &knowledge.oids());
        let within = (ranges.len() > 1).then(|| ranges.to_vec());
        rows.is_some_and(|rows| self.all(rows, filter.is_some(), within))
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

/// Returns how a statement uses the bounds of key ranges. It only tests them if the condition alone finds few entities.
pub(super) fn bounds(planning: ScanPlanning) -> Bounds {
    match planning {
        ScanPlanning::ForFewRows => Bounds::Tested,
        _ => Bounds::Searched,
    }
}
