//! Reads the key ranges of a query in key order, under the caller's snapshot.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use table_service_model::filter::{AccessClass, Bound, Columns, Filter, KeyRange, Plan, Predicate};
use table_service_model::property_index::Condition;

use super::direct::{self, Direct, Purpose};
use super::fan_out;
use super::property_index::{InOrder, Knowledge, Progress, Way, choose};
use super::table::Table;
use crate::postgres::arguments::KeyTexts;
use crate::postgres::receiver::{Keys, Limits, Receiver, contain};
use crate::postgres::row::Row;
use crate::postgres::spi::{Connection, Planning};
use crate::postgres::statement::{Bounds, First, IndexScan, RangeKeys, ScanFilter, Statement, Tested, scan_to_sql};

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

/// What a caller wants of key ranges.
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

impl Wanted<'_> {
    /// Returns whether the caller will want no more if it takes as many entities again as it has since `taken`, which becomes
    /// what it has taken so far.
    fn is_near(&self, taken: &mut u64) -> bool {
        let now = self.taken.get();
        let since = now - std::mem::replace(taken, now);
        // One more shows whether there is a next page.
        now + since > self.entities
    }
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
    let knowledge = Knowledge::new(table, wanted.filter);
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
    let all_rows = AllRows {
        filter: plan.residual.as_ref().map(|filter| {
            let predicate = Predicate::new(filter);
            (ScanFilter::new(&predicate), RowFilter::new(predicate))
        }),
        untested: Cell::new(false),
    };
    let sink = &mut |row: &Row<'_>| {
        if !all_rows.untested.get() || all_rows.passes(row) {
            sink(row);
        }
        true
    };
    let knowledge = Knowledge::new(table, plan.residual.as_ref());
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
    /// The filter that they must pass, for statements and for rows.
    filter: Option<(ScanFilter, RowFilter)>,
    /// Whether the rows come from a statement that has not tested the filter.
    untested: Cell<bool>,
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
    knowledge: Option<&Knowledge<'_>>,
    wanted: Option<&Wanted<'_>>,
    all_rows: Option<&AllRows>,
    sink: &mut dyn FnMut(&Row<'_>) -> bool,
) {
    let mut reading = Reading {
        spi,
        table,
        knowledge,
        wanted,
        all_rows,
        receiver: Receiver::new(sink),
    };
    let read = purpose(ranges, knowledge).and_then(|purpose| {
        direct::with(table, purpose, |direct| {
            reading.ranges(ranges, Some(direct));
            Some(())
        })
    });
    if read.is_none() {
        reading.ranges(ranges, None);
    }
}

/// Returns for what a table is opened if key ranges may be read without a statement.
fn purpose(ranges: &[KeyRange], knowledge: Option<&Knowledge<'_>>) -> Option<Purpose> {
    if ranges.iter().any(|range| range.point().is_some()) {
        return Some(Purpose::Get);
    }
    knowledge.map(|knowledge| Purpose::Find(knowledge.every_row))
}

/// Returns whether key ranges are read together, sorted if they are sorted. To count entries and to plan takes longer than
/// to read a small range, so with many ranges it would not pay for each. A condition on one value pays always.
fn together(ranges: &[KeyRange], knowledge: &Knowledge<'_>) -> bool {
    let scans = ranges.iter().filter(|range| range.point().is_none()).count();
    scans > APART && !Knowledge::is_one_value(knowledge.condition())
}

/// The largest number of entities in a page.
pub const PAGE_ENTITIES: u64 = 1000;

/// How many key ranges of a query are read each in its own way.
const APART: usize = 8;

struct Reading<'a> {
    spi: &'a Connection,
    table: &'a Table,
    /// What property indexes know about the filter.
    knowledge: Option<&'a Knowledge<'a>>,
    /// What the caller wants. `None` stands for all entities.
    wanted: Option<&'a Wanted<'a>>,
    all_rows: Option<&'a AllRows>,
    receiver: Receiver<'a>,
}

impl<'a> Reading<'a> {
    fn ranges(&mut self, ranges: &[KeyRange], mut direct: Option<&mut Direct>) {
        if let Some(knowledge) = self.knowledge.filter(|knowledge| together(ranges, knowledge)) {
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

    fn by_keys(&mut self, range: &KeyRange, direct: &mut Option<&mut Direct>) {
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

    fn point(&mut self, direct: &mut Direct, partition_key: &str, row_key: &str) {
        let keys = KeyTexts::new(partition_key, row_key);
        if let Some(row) = direct.get(keys.keys()) {
            let all_rows = self.all_rows;
            self.receiver
                .take_if(&row, |row| all_rows.is_none_or(|all| all.passes(row)));
        }
    }

    /// Reads key ranges through indexes as far as it pays.
    fn by_indexes(&mut self, given: &[KeyRange], knowledge: &'a Knowledge<'a>, direct: &mut Option<&mut Direct>) {
        let (mut ranges, mut read, mut some_are_cut) = (Cow::Borrowed(given), 0, false);
        // Whether the first entities of a value have shown that these are too many to read them in key order.
        let mut are_many = false;
        loop {
            let condition = knowledge.within(&ranges);
            let in_order = match &*ranges {
                [range] if !are_many => knowledge
                    .in_order(&condition, self.wanted(), read)
                    .map(|values| (range, values)),
                _ => None,
            };
            let (rows, rest) = if let Some((range, values)) = in_order {
                let Some((rest, cut)) = self.ordered(range, knowledge, &values, some_are_cut, direct) else {
                    break;
                };
                some_are_cut |= cut;
                if self.wanted().is_none() && !rest.is_empty() && knowledge.is_large_value(values.property, values.span)
                {
                    are_many = true;
                    ranges = Cow::Owned(rest);
                    continue;
                }
                (values.rows.unwrap_or_default(), rest)
            } else {
                let progress = Progress {
                    wanted: self.wanted(),
                    read,
                    ranges: given.len() - ranges.len(),
                };
                let all = if are_many { given } else { &ranges };
                let (condition, planning) = match choose(knowledge, all, &condition, progress, direct.is_some()) {
                    Way::Keys => break,
                    Way::KeysFirst(rows) => {
                        let (rest, rows) = self.keys_first(ranges.into_owned(), knowledge, rows, progress, direct);
                        (ranges, read) = (Cow::Owned(rest), rows);
                        if ranges.is_empty() || self.receiver.has_ended() {
                            return;
                        }
                        continue;
                    }
                    Way::Planned => (condition, Planning::Free),
                    Way::Sorted(entries) => {
                        if self.few(&ranges, &condition, knowledge, direct) {
                            return;
                        }
                        (
                            Cow::Owned(knowledge.narrow(&condition, entries + 1)),
                            Planning::ForFewRows,
                        )
                    }
                };
                if self.sorted(&ranges, &condition, knowledge, planning) {
                    return;
                }
                break;
            };
            if rest.is_empty() || self.receiver.has_ended() {
                return;
            }
            (ranges, read) = (Cow::Owned(rest), read + rows);
        }
        if let ([whole], true) = (given, are_many && read == 0) {
            // For a range that begins somewhere the planner may choose to read in key order.
            let keys = RangeKeys::new(whole);
            let statement = Statement::scan(&keys, self.filter(), true);
            let (spi, table) = (self.spi, self.table.name());
            self.receiver
                .within(&ranges, |receiver| spi.receive(table, &statement, receiver));
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

    /// Reads entities of key ranges in key order: so many, and then more as long as [`choose`] says so. Returns the rest of
    /// the ranges, and how many entities were read, those before included.
    fn keys_first(
        &mut self,
        ranges: Vec<KeyRange>,
        knowledge: &'a Knowledge<'a>,
        rows: u64,
        before: Progress,
        direct: &mut Option<&mut Direct>,
    ) -> (Vec<KeyRange>, u64) {
        let read = Rc::new(Cell::new(before.read + rows));
        let mut limits = Limits {
            rows: Some(rows),
            keys: None,
        };
        let number_of_ranges = ranges.len();
        // Shared and cut where they are, because there may be very many.
        let ranges = Rc::new(RefCell::new(ranges));
        let from_on = |number: usize| ranges.borrow_mut().split_off(number);
        for number in 0..number_of_ranges {
            let Some(range) = ranges.borrow().get(number).cloned() else {
                break;
            };
            if range.point().is_some() {
                self.by_keys(&range, direct);
                limits.rows = limits.rows.map(|rows| rows.saturating_sub(1));
            } else {
                let keys = RangeKeys::new(&range);
                // The rows are counted, those that do not pass the filter too.
                let statement = Statement::scan(&keys, None, false);
                let (spi, table, all_rows) = (self.spi, self.table.name(), self.all_rows);
                let receive = |receiver: &mut Receiver<'_>| {
                    all_rows.inspect(|all| all.untested.set(true));
                    spi.receive(table, &statement, receiver);
                    all_rows.inspect(|all| all.untested.set(false));
                };
                // The decision is made while the statement runs. A new one would compare every row with the keys that it
                // begins at.
                let more = {
                    let (ranges, read) = (Rc::clone(&ranges), Rc::clone(&read));
                    let (wanted, is_direct) = (self.wanted, direct.is_some());
                    let mut rows = limits.rows.unwrap_or_default();
                    let mut taken = wanted.map_or(0, |wanted| wanted.taken.get());
                    Box::new(move |next| {
                        if !wanted.is_some_and(|wanted| wanted.is_near(&mut taken)) {
                            let mut ranges = ranges.borrow_mut();
                            let left = cut(&mut ranges, number, next);
                            let progress = Progress {
                                read: read.get(),
                                ranges: before.ranges + number,
                                ..before
                            };
                            rows = keys_again(left, knowledge, progress, is_direct);
                        }
                        read.set(read.get().saturating_add(rows));
                        rows
                    })
                };
                if let ((), Some(next)) = self.receiver.limited_until(&mut limits, more, receive) {
                    cut(&mut ranges.borrow_mut(), number, next);
                    return (from_on(number), read.get());
                }
            }
            if self.receiver.has_ended() || limits.rows == Some(0) {
                return (from_on(number + 1), read.get());
            }
        }
        (Vec::new(), read.get())
    }

    /// Reads the entities of a key range that have one value, in the order of the index. Returns what is left of the
    /// range, and whether there are entries that are cut; `None` if the planner does not read the index.
    fn ordered(
        &mut self,
        range: &KeyRange,
        knowledge: &Knowledge<'_>,
        values: &InOrder<'_>,
        sort_cut: bool,
        direct: &mut Option<&mut Direct>,
    ) -> Option<(Vec<KeyRange>, bool)> {
        let mut limits = Limits {
            rows: values.rows,
            keys: values.span.uncut_keys().filter(|_| !sort_cut),
        };
        let filter = self.filter();
        let all_rows = self.all_rows;
        let passes = |row: &Row<'_>| all_rows.is_none_or(|all| all.passes(row));
        let (spi, table) = (self.spi, self.table.name());
        let read = |receiver: &mut Receiver<'_>| {
            let span = values.span;
            if let (Some(direct), Some(index), false) = (direct, knowledge.index(values.property), sort_cut) {
                let take = &mut |row: &Row<'_>| receiver.offer(row, passes);
                if direct.each_between(index, (&span.lower, &span.upper), take) {
                    return true;
                }
            }
            let property = knowledge.indexes.get(values.property).map_or("", AsRef::as_ref);
            let scan = IndexScan::ordered(table, property, span, tested(filter), sort_cut);
            spi.receive_in_order(table, &scan, &knowledge.oids(), receiver)
        };
        let (is_read, stopped_at) = self.receiver.within(std::slice::from_ref(range), |receiver| {
            receiver.limited(&mut limits, read)
        });
        if !is_read {
            return None;
        }
        Some(match stopped_at {
            None => (Vec::new(), false),
            Some(next) if limits.rows == Some(0) => (vec![from(range, next)], false),
            Some((partition_key, row_key)) => {
                let held = values.span.held_keys(&partition_key, &row_key);
                (vec![from(range, held)], true)
            }
        })
    }

    /// Reads key ranges through indexes without a statement, and sorts them. Returns false, without reading, if there are
    /// too many entries, or if only a statement can do it.
    fn few(
        &mut self,
        ranges: &[KeyRange],
        condition: &Condition,
        knowledge: &Knowledge<'_>,
        direct: &mut Option<&mut Direct>,
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
        knowledge: &Knowledge<'_>,
        planning: Planning,
    ) -> bool {
        let own;
        let filter = match self.filter() {
            Some(filter) => filter,
            None => {
                own = ScanFilter::new(&Predicate::new(knowledge.filter));
                &own
            }
        };
        let (table, indexes) = (self.table.name(), &knowledge.indexes);
        // One more than wanted shows whether there is a next page. What the receiver tests is not counted.
        let limit = self
            .wanted()
            .filter(|_| ranges.len() == 1)
            .map(|wanted| wanted.saturating_add(1));
        let filter = Tested::Compiled(filter);
        let scan = IndexScan::sorted(table, ranges, (condition, indexes), filter, limit, bounds(planning));
        let (spi, oids) = (self.spi, knowledge.oids());
        let receive = |receiver: &mut Receiver<'_>| spi.receive_planned(&scan, planning, &oids, receiver);
        if ranges.len() == 1 {
            receive(&mut self.receiver)
        } else {
            self.receiver.within(ranges, receive)
        }
    }

    /// How many entities the caller wants, about. `None` stands for all.
    fn wanted(&self) -> Option<u64> {
        self.wanted.map(|wanted| wanted.entities)
    }

    /// The filter that statements test.
    fn filter(&self) -> Option<&'a ScanFilter> {
        let (filter, _) = self.all_rows?.filter.as_ref()?;
        Some(filter)
    }
}

fn tested(filter: Option<&ScanFilter>) -> Tested<'_> {
    filter.map_or(Tested::Not, Tested::Compiled)
}

/// Returns the part of a range from these keys on. They are not before its lower bound but as far as they are cut.
fn from(range: &KeyRange, (partition_key, row_key): Keys) -> KeyRange {
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

/// Cuts off what lies before these keys from the range with this number, and returns this range and those behind it.
fn cut(ranges: &mut [KeyRange], number: usize, next: Keys) -> &[KeyRange] {
    let left = ranges.get_mut(number..).unwrap_or_default();
    if let [first, ..] = left {
        *first = from(first, next);
    }
    left
}

/// Returns how many more entities of key ranges are read in key order before the next decision: all if that is decided.
/// Zero says that there is another way.
fn keys_again(ranges: &[KeyRange], knowledge: &Knowledge<'_>, progress: Progress, is_direct: bool) -> u64 {
    let condition = knowledge.within(ranges);
    let Progress { wanted, read, .. } = progress;
    if ranges.len() == 1 && knowledge.in_order(&condition, wanted, read).is_some() {
        return 0;
    }
    match choose(knowledge, ranges, &condition, progress, is_direct) {
        Way::Keys => u64::MAX,
        Way::KeysFirst(rows) => rows,
        Way::Planned | Way::Sorted(_) => 0,
    }
}

/// Few entities are found by the condition alone.
fn bounds(planning: Planning) -> Bounds {
    match planning {
        Planning::ForFewRows => Bounds::Tested,
        _ => Bounds::Searched,
    }
}

/// How the entities of key ranges are read, for users.
pub struct Explained {
    pub access: AccessClass,
    pub sql: String,
    pub planning: Planning,
}

/// How many entities an explanation takes for read in vain.
const EXPLAINED: u64 = 1_000_000;

/// How many bytes of statements an explanation shows, about. Each has the whole filter, and there may be very many.
const SHOWN: usize = 1024 * 1024;

/// Explains how the first page of a plan is read: the class of its worst key range, and the first statements.
pub fn explain(spi: &Connection, table: &Table, plan: &Plan) -> (AccessClass, Vec<Explained>) {
    let knowledge = Knowledge::new(table, plan.residual.as_ref());
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
    let through_indexes = |ranges: &[KeyRange]| explain_indexes(spi, table, ranges, knowledge.as_ref()?);
    let together = knowledge
        .as_ref()
        .is_some_and(|knowledge| together(&plan.ranges, knowledge));
    if together && let Some(explained) = through_indexes(&plan.ranges) {
        return (explained.access, vec![explained]);
    }
    explain_each(&plan.ranges, |range| {
        Some(range)
            .filter(|range| !together && range.point().is_none())
            .and_then(|range| through_indexes(std::slice::from_ref(range)))
            .unwrap_or_else(|| Explained {
                access: range.access(),
                sql: scan_to_sql(range, table.name(), plan.residual.as_ref()),
                planning: Planning::ForKeys,
            })
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

/// The other servers choose whether they read property indexes. Their plans show it.
fn explain_distributed(
    spi: &Connection,
    table: &Table,
    plan: &Plan,
    range: &KeyRange,
    knowledge: Option<&Knowledge<'_>>,
) -> Explained {
    let planning = Planning::Free;
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
    Explained { access, sql, planning }
}

/// Returns `None` if ranges are not read through property indexes.
fn explain_indexes(
    spi: &Connection,
    table: &Table,
    ranges: &[KeyRange],
    knowledge: &Knowledge<'_>,
) -> Option<Explained> {
    let condition = knowledge.within(ranges);
    let shown = Tested::Shown(knowledge.filter);
    let wanted = Some(PAGE_ENTITIES);
    let in_order = knowledge.in_order(&condition, wanted, 0).filter(|_| ranges.len() == 1);
    let (scan, planning) = match in_order {
        Some(InOrder { property, span, .. }) => {
            let property = &knowledge.indexes.get(property)?.property;
            (
                IndexScan::ordered(table.name(), property, span, shown, false),
                Planning::ForKeys,
            )
        }
        None => {
            let mut read = 0;
            let purpose = purpose(ranges, Some(knowledge));
            let is_direct = purpose.is_some_and(|purpose| direct::with(table, purpose, |_| Some(())).is_some());
            let (condition, planning) = loop {
                let progress = Progress {
                    wanted,
                    read,
                    ranges: 0,
                };
                match choose(knowledge, ranges, &condition, progress, is_direct) {
                    Way::Keys => return None,
                    Way::KeysFirst(_) if read >= EXPLAINED => return None,
                    Way::KeysFirst(rows) => read += rows,
                    Way::Planned => break (condition, Planning::Free),
                    Way::Sorted(entries) => {
                        break (
                            Cow::Owned(knowledge.narrow(&condition, entries + 1)),
                            Planning::ForFewRows,
                        );
                    }
                }
            };
            (
                IndexScan::sorted(
                    table.name(),
                    ranges,
                    (&condition, &knowledge.indexes),
                    shown,
                    None,
                    bounds(planning),
                ),
                planning,
            )
        }
    };
    let sql = scan.to_sql();
    let access = ranges.iter().map(KeyRange::access).max()?;
    spi.would_read(&sql, planning, &knowledge.oids()).then(|| Explained {
        access: access.min(AccessClass::PropertyIndexScan),
        sql,
        planning,
    })
}
