//! Property indexes: which a table has, their names, and what they know about a filter.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use md5::{Digest, Md5};
use pgrx::pg_sys;
use table_service_model::filter::{Filter, KeyRange};
use table_service_model::property_index::{Condition, Span, condition};

use super::direct::{EveryRow, reads_every_row};
use super::table::{Table, relation_in_data_schema};
use crate::postgres::btree::{self, Comparison};
use crate::postgres::catalog::PropertyIndex;
use crate::postgres::property_index::{
    can_count, count_entries, count_pages, estimate_rows, has_statistics, of_table, part_between, primary_key,
};
use crate::postgres::types::value::{Text, Value};
use crate::postgres::varlena::Varlena;

/// How many names for an index are tried.
const NAMES: u32 = 100;
/// The longest name of a relation, in bytes.
const NAME_BYTES: usize = 63;

/// Returns the property indexes of a table that the caller has locked, also those that are not valid.
pub fn all(table: &Table) -> Rc<[PropertyIndex]> {
    of_table(table.oid())
}

/// Returns an index on a property that queries can use. The caller must have locked the table.
pub fn find(table: &Table, property: &str) -> Option<PropertyIndex> {
    all(table)
        .iter()
        .find(|index| index.is_valid && *index.property == *property)
        .cloned()
}

/// Returns the name for a new index: table and property, cut if they are too long, and numbered if other relations have
/// the name. If they have all the names, PostgreSQL says that the relation exists.
pub fn free_index_name(table: &Table, property: &str) -> String {
    let full = format!("{}_{property}", table.name().name());
    let name = |number: u32| {
        let suffix = match number {
            0 => String::new(),
            _ => format!("_{number}"),
        };
        if full.len() + suffix.len() <= NAME_BYTES {
            return format!("{full}{suffix}");
        }
        let hash = format!("_{:x}{suffix}", Md5::digest(&full));
        let mut end = NAME_BYTES - hash.len();
        while !full.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{hash}", &full[..end])
    };
    (0..NAMES)
        .map(name)
        .find(|name| relation_in_data_schema(name).is_none())
        .unwrap_or_else(|| name(0))
}

/// What the property indexes of a table know about a filter.
pub struct Knowledge<'f> {
    pub filter: &'f Filter,
    pub every_row: EveryRow,
    table: pg_sys::Oid,
    /// One index for each property, by the numbers of the properties in the condition.
    pub indexes: Rc<[PropertyIndex]>,
    condition: Condition,
    /// What was counted so far.
    counts: RefCell<HashMap<Counted, Count>>,
}

/// What [`Knowledge`] counts: the entries of the index on a property in a span, or the entities in a key range.
#[derive(PartialEq, Eq, Hash)]
enum Counted {
    Entries(usize, Span),
    Entities(KeyRange),
}

/// How many there are, if that is less than the limit.
#[derive(Clone, Copy)]
struct Count {
    found: usize,
    limit: usize,
}

impl<'f> Knowledge<'f> {
    /// Returns `None` if the table has no index on a property that the filter compares, or if the caller must not know how
    /// many entries there are. The caller must have locked the table. Of a distributed table nothing can be counted: the
    /// entries are on other servers.
    pub fn new(table: &Table, filter: Option<&'f Filter>) -> Option<Knowledge<'f>> {
        let filter = filter?;
        let indexes = usable(all(table));
        if indexes.is_empty() {
            return None;
        }
        let condition = condition(filter, &indexes)?;
        // Whether a query counts entries can be seen: by what `explain_query` says, and by the time it takes. With row-level
        // security PostgreSQL would not read an index on an expression anyway, because it tests the policies first.
        let every_row = reads_every_row(table)?;
        Some(Knowledge {
            filter,
            every_row,
            table: table.oid(),
            indexes,
            condition,
            counts: RefCell::default(),
        })
    }

    /// Returns what the entries of the entities meet that are in key ranges and pass the filter.
    pub fn within(&self, ranges: &[KeyRange]) -> Cow<'_, Condition> {
        match ranges {
            [only] if !only.is_all() => Cow::Owned(self.condition.within(only)),
            _ => Cow::Borrowed(&self.condition),
        }
    }

    /// Returns what the entries of all entities meet that pass the filter.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Returns the index on the property with this number.
    pub fn index(&self, property: usize) -> Option<pg_sys::Oid> {
        self.indexes.get(property).map(|index| index.oid)
    }

    /// Returns the indexes that queries of the table can use, by the numbers of the properties.
    pub fn oids(&self) -> Vec<pg_sys::Oid> {
        self.indexes.iter().map(|index| index.oid).collect()
    }

    /// Returns whether the entities that meet the condition are those of one value, which stand in key order.
    pub fn is_one_value(condition: &Condition) -> bool {
        terms(condition).iter().any(|term| one_value(term).is_some())
    }

    /// Returns whether the entities that meet the condition are those of some values, such as those of a list.
    pub fn is_some_values(condition: &Condition) -> bool {
        match condition {
            Condition::Spans { spans, .. } => spans.iter().all(Span::one_value),
            Condition::All(terms) => terms.iter().any(Self::is_some_values),
            Condition::Any(terms) => terms.iter().all(Self::is_some_values),
        }
    }

    /// Returns the span of entries of one value that have all entities that meet the condition, if there is such a span.
    /// `wanted` and `read` are those of [`Progress`]. The more were read, the closer this looks.
    pub fn in_order<'c>(&self, condition: &'c Condition, wanted: Option<u64>, read: u64) -> Option<InOrder<'c>> {
        let terms = terms(condition);
        if let [only] = terms {
            let (property, span) = one_value(only)?;
            return self.of_value((property, span), wanted, read);
        }
        let mut spans: Vec<(usize, &Span)> = terms.iter().filter_map(one_value).collect();
        if !spans.is_empty() {
            let most = match (wanted, usize::try_from(read)) {
                (Some(_), Ok(read)) => FEW.max(read),
                _ => SOME,
            };
            spans.sort_by_key(|&(property, span)| self.count_span(property, span, most));
            let &(property, span) = spans.first()?;
            if self.count_span(property, span, most) >= most {
                // Other conditions may say much more than this one.
                if self.count(condition, most / 4) < most / 4 {
                    return None;
                }
                if wanted.is_some() {
                    let rows = Some(READ_FIRST.max(read));
                    return Some(InOrder { property, span, rows });
                }
            }
        }
        self.of_value(*spans.first()?, wanted, read)
    }

    /// Returns how the entities of one value are read. If all are read, a look at how many they are comes after the first
    /// ones.
    fn of_value<'c>(&self, (property, span): (usize, &'c Span), wanted: Option<u64>, read: u64) -> Option<InOrder<'c>> {
        let first = AT_ONCE as u64;
        if wanted.is_none() && read >= first && self.is_large_value(property, span) {
            return None;
        }
        let rows = (wanted.is_none() && read < first).then_some(first);
        Some(InOrder { property, span, rows })
    }

    /// Returns whether a large part of all entities has a value. To read all of these in key order takes longer than to read
    /// the whole table in its own order.
    pub fn is_large_value(&self, property: usize, span: &Span) -> bool {
        if let Some(part) = self.part_of(property, std::slice::from_ref(span)) {
            return part > LARGE;
        }
        let limit = SOME.max((estimate_rows(self.table) * LARGE) as usize);
        self.count_span(property, span, limit) >= limit
    }

    /// Counts the entries that meet a condition, up to a limit.
    pub fn count(&self, condition: &Condition, limit: usize) -> usize {
        match condition {
            Condition::Spans { property, spans } => {
                let mut count = 0;
                for span in spans {
                    count += self.count_span(*property, span, limit - count);
                    if count >= limit {
                        break;
                    }
                }
                count
            }
            Condition::All(terms) => terms.iter().fold(limit, |least, term| self.count(term, least)),
            Condition::Any(terms) => terms.iter().fold(0, |sum, term| sum + self.count(term, limit - sum)),
        }
    }

    fn count_span(&self, property: usize, span: &Span, limit: usize) -> usize {
        let Some(index) = self.indexes.get(property) else {
            return limit;
        };
        self.counted(Counted::Entries(property, span.clone()), limit, || {
            let bounds = [&span.lower, &span.upper].map(|bytes| Varlena::new(bytes));
            let mut conditions = btree::Condition::between(bounds.each_ref().map(Value::bytea));
            count_entries(self.table, index.oid, &mut conditions, limit)
        })
    }

    /// Returns what `count` counts up to a limit, from memory if it was counted so far already.
    fn counted(&self, what: Counted, limit: usize, count: impl FnOnce() -> usize) -> usize {
        if limit == 0 {
            return 0;
        }
        if let Some(&known) = self.counts.borrow().get(&what)
            && (known.found < known.limit || limit <= known.limit)
        {
            return known.found.min(limit);
        }
        let found = count();
        self.counts.borrow_mut().insert(what, Count { found, limit });
        found
    }

    /// Returns spans of entries that together have all entities that meet the condition, each with the number of its
    /// property. Where several conditions hold together, that is the one with the fewest entries, counted up to a limit.
    fn sources<'c>(&self, condition: &'c Condition, limit: usize, sources: &mut Vec<(usize, &'c Span)>) {
        match condition {
            Condition::Spans { property, spans } => sources.extend(spans.iter().map(|span| (*property, span))),
            Condition::Any(parts) => parts.iter().for_each(|part| self.sources(part, limit, sources)),
            Condition::All(terms) => {
                let least = self.count(condition, limit);
                if let Some(term) = terms.iter().find(|term| self.count(term, least + 1) <= least) {
                    self.sources(term, limit, sources);
                }
            }
        }
    }

    /// Returns spans of entries, each with its index, that together have all entities that meet a condition and as few
    /// others as possible. `None` if there are too many to read them without a statement, which would read the table page
    /// by page.
    pub fn few_entries<'c>(&self, condition: &'c Condition) -> Option<Vec<(pg_sys::Oid, &'c Span)>> {
        if self.count(condition, FEW) >= FEW {
            return None;
        }
        let mut sources = Vec::new();
        self.sources(condition, FEW, &mut sources);
        sources
            .into_iter()
            .map(|(property, span)| Some((self.index(property)?, span)))
            .collect()
    }

    /// Returns the condition without what would make it read many more entries than there are entities that meet it.
    /// Entries are counted up to `most`.
    pub fn narrow(&self, condition: &Condition, most: usize) -> Condition {
        match condition {
            Condition::Spans { .. } => condition.clone(),
            Condition::Any(parts) => Condition::Any(parts.iter().map(|part| self.narrow(part, most)).collect()),
            Condition::All(terms) => {
                let least = self.count(condition, most);
                let is_narrow = |term: &&Condition| self.count(term, 2 * least + 1) <= 2 * least;
                let mut terms: Vec<_> = terms.iter().filter(is_narrow).cloned().collect();
                match terms.len() {
                    0 => condition.clone(),
                    1 => terms.swap_remove(0),
                    _ => Condition::All(terms),
                }
            }
        }
    }

    /// Returns whether key ranges have together fewer entities than this. Of very many ranges some are counted, because to
    /// begin takes long, and the others are taken for like them.
    fn have_fewer(&self, ranges: &[KeyRange], limit: usize) -> bool {
        let step = ranges.len().div_ceil(COUNTED_RANGES).max(1);
        // A few large ranges do not stand for the others.
        let most_of_each = limit.saturating_mul(2) / ranges.len().max(1) + 1;
        let (mut count, mut typical) = (0, 0);
        for range in ranges.iter().step_by(step) {
            let found = self.count_range(range, limit - count);
            count += found;
            typical += found.min(most_of_each);
            if count >= limit {
                return false;
            }
        }
        step == 1 || typical.saturating_mul(step) < limit
    }

    /// Counts the entities of a key range, up to a limit.
    fn count_range(&self, range: &KeyRange, limit: usize) -> usize {
        // The entries of the first pages of an index take longer to count than the pages of the table, of which nearly each
        // has an entity.
        if range.is_all() && count_pages(self.table) >= limit {
            return limit;
        }
        let Some(index) = primary_key(self.table) else {
            return limit;
        };
        // Whole partitions will do if the range does not lie in one: it is more that are counted, not fewer.
        let mut bounds: Vec<(i16, Comparison, Text)> = Vec::new();
        if let Some(partition) = range.partition() {
            bounds.push((1, Comparison::Equal, Text::new(partition)));
            for (bound, comparison) in [
                (&range.lower, Comparison::GreaterOrEqual),
                (&range.upper, Comparison::LessOrEqual),
            ] {
                if let Some(row_key) = bound.as_ref().and_then(|bound| bound.row_key.as_deref()) {
                    bounds.push((2, comparison, Text::new(row_key)));
                }
            }
        } else {
            for (bound, comparison) in [
                (&range.lower, Comparison::GreaterOrEqual),
                (&range.upper, Comparison::LessOrEqual),
            ] {
                if let Some(bound) = bound {
                    bounds.push((1, comparison, Text::new(&bound.partition_key)));
                }
            }
        }
        let mut conditions: Vec<_> = bounds
            .iter()
            .map(|(column, comparison, key)| btree::Condition::new(*column, *comparison, key.value()))
            .collect();
        self.counted(Counted::Entities(range.clone()), limit, || {
            count_entries(self.table, index, &mut conditions, limit)
        })
    }

    /// Returns whether the statistics say that a large part of all entities meets a condition. Then an index does not help
    /// to find them.
    fn is_large(&self, condition: &Condition) -> bool {
        self.part(condition).is_some_and(|part| part > LARGE)
    }

    /// Returns whether the planner should hear of a condition on entries. It should not if that can only do harm. `ranges`
    /// are the key ranges that it also hears of, if it does. `ends_early` says that the query may want only the first
    /// entities that are found.
    pub fn helps(&self, condition: &Condition, ranges: Option<&[KeyRange]>, ends_early: bool) -> bool {
        // A plan that reads no index tests the condition on every entity that passes, which takes about as long as the
        // filter itself.
        if self.is_large(self.condition()) {
            return false;
        }
        if !can_count() || ranges.is_none() && self.has_statistics(condition) || self.count(condition, FEW) < FEW {
            return true;
        }
        // The first of many are found soon by keys, or in the order of the table.
        if ends_early {
            return false;
        }
        let saved = match (self.estimate(condition), ranges) {
            // The planner takes each page for one that must be read from a disk. So it reads many entries to save few
            // pages, which takes longer than those pages if they are in memory.
            (Some(entries), Some([_])) => (entries / BESIDE_KEYS).min(SOME.max(entries / PER_ENTRY)),
            (Some(entries), _) => entries,
            // Without statistics the planner takes every condition for one that few entities meet.
            (None, _) => {
                let most = self.small_part();
                let entries = self.count(condition, most);
                if entries >= most {
                    return false;
                }
                entries
            }
        };
        ranges.is_none_or(|ranges| !self.have_fewer(ranges, saved + 1))
    }

    /// How many entries are counted if all entities are read and there are no statistics: a small part of the entities.
    fn small_part(&self) -> usize {
        SOME.max(estimate_rows(self.table) as usize / PER_ENTRY)
    }

    /// Estimates which part of all entities has entries with `lower <= entry < upper` in the index on a property.
    pub fn estimate_entries(&self, property: &str, span: [&[u8]; 2]) -> Option<f64> {
        /// What PostgreSQL takes for a range without statistics. Of what the statistics do not show there is about as much.
        const RANGE: f64 = 0.005;
        let index = self.indexes.iter().find(|index| *index.property == *property)?;
        if let Some(part) = part_between(index.oid, std::iter::once(span)).filter(|&part| part > 0.0) {
            return Some(part);
        }
        if !can_count() {
            return None;
        }
        let bounds = span.map(Varlena::new);
        let mut conditions = btree::Condition::between(bounds.each_ref().map(Value::bytea));
        let found = count_entries(self.table, index.oid, &mut conditions, FEW);
        let part = found as f64 / estimate_rows(self.table).max(1.0);
        Some(if found < FEW { part } else { part.max(RANGE) })
    }

    /// Estimates how many entities meet a condition, by the statistics of the indexes.
    fn estimate(&self, condition: &Condition) -> Option<usize> {
        let part = self.part(condition)?;
        Some((part * estimate_rows(self.table)) as usize)
    }

    fn part_of(&self, property: usize, spans: &[Span]) -> Option<f64> {
        let bounds = spans.iter().map(|span| [&*span.lower, &*span.upper]);
        part_between(self.index(property)?, bounds)
    }

    /// Estimates which part of all entities meets a condition, by the statistics of the indexes.
    pub fn part(&self, condition: &Condition) -> Option<f64> {
        match condition {
            Condition::Spans { property, spans } => self.part_of(*property, spans),
            Condition::All(terms) => terms
                .iter()
                .map(|term| self.part(term))
                .try_fold(1.0, |least: f64, part| Some(least.min(part?))),
            Condition::Any(terms) => terms
                .iter()
                .map(|term| self.part(term))
                .try_fold(0.0, |most: f64, part| Some(most.max(part?))),
        }
    }

    /// Returns whether the planner can estimate a condition.
    fn has_statistics(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Spans { property, .. } => self
                .index(*property)
                .is_some_and(|index| has_statistics(self.table, index)),
            Condition::All(parts) | Condition::Any(parts) => parts.iter().all(|part| self.has_statistics(part)),
        }
    }
}

/// The entries of one value, which stand in key order.
pub struct InOrder<'c> {
    pub property: usize,
    pub span: &'c Span,
    /// How many of them are read before a decision. `None` stands for all.
    pub rows: Option<u64>,
}

/// Returns the indexes that queries can use, one for each property.
fn usable(indexes: Rc<[PropertyIndex]>) -> Rc<[PropertyIndex]> {
    let is_usable = |(number, index): (usize, &PropertyIndex)| {
        let mut before = indexes.iter().take(number);
        index.is_valid && before.all(|other| !other.is_valid || other.property != index.property)
    };
    if indexes.iter().enumerate().all(is_usable) {
        return indexes;
    }
    let usable = indexes.iter().enumerate().filter(|&index| is_usable(index));
    usable.map(|(_, index)| index.clone()).collect()
}

/// Returns the conditions that hold together.
fn terms(condition: &Condition) -> &[Condition] {
    match condition {
        Condition::All(terms) => terms.as_slice(),
        _ => std::slice::from_ref(condition),
    }
}

/// Returns the property and the one span of a condition that has the entries of one value.
fn one_value(condition: &Condition) -> Option<(usize, &Span)> {
    match condition {
        Condition::Spans { property, spans } => match spans.as_slice() {
            [only] if only.one_value() => Some((*property, only)),
            _ => None,
        },
        _ => None,
    }
}

/// Up to how many entries are counted before anything is read. So many are read without a statement, too.
const FEW: usize = 250;
/// How many key ranges are counted at most to find out how many entities they have.
const COUNTED_RANGES: usize = 64;
/// So few entries are read without looking how many entities the key ranges have, or have the value.
const AT_ONCE: usize = 16;
/// Up to how many entries are counted if all entities are read. Without statistics it may be a part of the table.
const SOME: usize = 4000;
/// How many entities are read in key order before a decision, if a page may be full soon, or at most if all are read.
const READ_FIRST: u64 = 2000;
/// To find a larger part of all entities through an index and to sort them takes longer than to read them all.
const LARGE: f64 = 0.3;
/// How many entities of a part of the table are read in key order before a decision. To count a few entries, or to look at the
/// statistics, takes as long as to read some 30 entities.
const SMALL: u64 = 200;
/// To find an entity through an index and to sort it takes about as long as to read so many in key order.
const SORTED: usize = 3;
/// To plan a statement takes about as long as to read so many entities in key order.
const PLANNED: usize = 400;
/// How many entities are read in vain for each that is sorted afterwards. It keeps a query from taking much longer than
/// without the index: at most 1.2 times as long is the aim. It also keeps the time limit of a page, because a sort cannot
/// be interrupted: it takes a small part of the time that the page has read.
const PER_ENTRY: usize = 20;
/// How many entities are read for each entry that is counted afterwards. To count an entry takes about a fifth of the time to
/// read an entity in key order.
const PER_COUNTED: usize = 4;
/// To read an entity that was found by its keys takes about as long as to read so many entries of an index beside them.
const BESIDE_KEYS: usize = 4;

/// How to read the entities of key ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// In key order, testing each.
    Keys,
    /// Those that meet the condition, through indexes and sorted. The planner may choose any plan.
    Planned,
    /// Those that meet the condition, whose entries are so many, through indexes and sorted.
    Sorted(usize),
    /// So many in key order at first, whether they pass or not. Then decide again for the rest.
    KeysFirst(u64),
}

/// How far a query is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// How many entities suffice. `None` says that all are read.
    pub wanted: Option<u64>,
    /// How many entities were read in vain.
    pub read: u64,
    /// How many key ranges they fill.
    pub ranges: usize,
}

/// Decides how to read the entities of key ranges whose entries meet a condition. `is_direct` says whether few entries are
/// read without a statement.
///
/// PostgreSQL's planner cannot decide this alone. It has no statistics of a new index, it does not know where in the key
/// order the entities stand, and a wrong guess costs a scan of the table or a sort of half of it. So the entries are
/// counted, up to a number that takes little time, unless the statistics say that they are very many. If a page may be full
/// soon, entities are read in key order first, and sorted only when that takes much less time than was already spent. Of a
/// part of the table some are read first too: it may be small. The more were read, the more entries are counted.
pub fn choose(
    knowledge: &Knowledge<'_>,
    ranges: &[KeyRange],
    condition: &Condition,
    progress: Progress,
    is_direct: bool,
) -> Way {
    let Progress { wanted, read, .. } = progress;
    let Ok(rows) = usize::try_from(read) else {
        return Way::Keys;
    };
    // The whole table is the only range of its filter.
    if rows == 0 && !ranges.iter().any(KeyRange::is_all) {
        return Way::KeysFirst(SMALL);
    }
    if read <= SMALL && wanted.is_some() && knowledge.is_large(condition) {
        return Way::KeysFirst(READ_FIRST);
    }
    let most = match wanted.map(usize::try_from) {
        // If there are no more entries than entities wanted, reading in key order goes to the end of the ranges.
        Some(Ok(wanted)) => wanted.saturating_add(1),
        None if rows == 0 && knowledge.count(condition, FEW) >= FEW => {
            if knowledge.have_fewer(ranges, SOME) {
                return Way::Keys;
            }
            // Without statistics the planner does not know whether they are few.
            match knowledge.has_statistics(condition) {
                true => SOME,
                false => knowledge.small_part(),
            }
        }
        _ => SOME,
    };
    let limit = match (wanted, rows) {
        (None, 0) => most,
        (Some(_), 0) => FEW.min(most),
        (None, rows) => most.min(rows / PER_COUNTED),
        (Some(_), rows) => most.min(rows / PER_COUNTED).max(rows / PER_ENTRY),
    };
    let entries = knowledge.count(condition, limit);
    if entries < limit {
        let without_statement = is_direct && entries < FEW;
        let planned = if without_statement { 0 } else { PLANNED };
        let may_be_small = !without_statement || entries > AT_ONCE;
        return if may_be_small && knowledge.have_fewer(ranges, SORTED * entries + planned) {
            Way::Keys
        } else {
            Way::Sorted(entries)
        };
    }
    // Twice as many altogether.
    let more = Way::KeysFirst(if rows == 0 { READ_FIRST } else { read });
    let is_all_counted = limit == most;
    if wanted.is_some() || !is_all_counted && read < READ_FIRST {
        return more;
    }
    let undecided = if is_all_counted { Way::Keys } else { more };
    if !knowledge.has_statistics(condition) {
        return undecided;
    }
    if knowledge.is_large(condition) {
        return Way::Keys;
    }
    if ranges.len() == 1 {
        return Way::Planned;
    }
    // The planner sees only the first and the last of several ranges. So their entities are counted, but not before those
    // that were read say that they may be enough.
    let Some(expected) = knowledge.estimate(condition) else {
        return Way::Keys;
    };
    let enough = 2 * SORTED * expected + PLANNED;
    if rows / (progress.ranges + 1) * ranges.len() < enough {
        return more;
    }
    let entries = knowledge.count(condition, 2 * expected);
    if entries >= 2 * expected {
        // The statistics are old.
        undecided
    } else if knowledge.have_fewer(ranges, enough) {
        Way::Keys
    } else {
        Way::Sorted(entries)
    }
}
