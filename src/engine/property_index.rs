//! Property indexes: the indexes of a table, their names, and their knowledge about a filter.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pgrx::pg_sys;
use table_service_model::property_index::{Condition, Span, condition};
use table_service_model::read_strategy::{Count, Decision, Evidence, FEW, Finding, Left, Look, PlannedCall, Strategy};
use table_service_model::{Filter, KeyRange};

use crate::postgres::{Value, Varlena, btree};
use crate::storage::direct::{EveryRow, reads_every_row};
use crate::storage::indexes;
use crate::storage::known::PropertyIndex;
use crate::storage::names::numbered;
use crate::storage::primary_key::{KeyConditions, primary_key};
use crate::storage::property_index::{
    can_count, count_entries, count_pages, estimate_rows, has_statistics, part_between,
};
use crate::storage::table::{Table, hash};

/// The longest name of a relation, in bytes.
const NAME_BYTES: usize = 63;

/// Returns the property indexes of a table that the caller has locked, also those that are not valid.
pub fn all(table: &Table) -> Rc<[PropertyIndex]> {
    indexes::property_indexes(table.oid())
}

/// Returns an index on a property that queries can use. The caller must have locked the table.
pub fn find(table: &Table, property: &str) -> Option<PropertyIndex> {
    all(table)
        .iter()
        .find(|index| index.is_valid && *index.property == *property)
        .cloned()
}

/// Returns the first name for a new index that passes a test, for example that it is free: table and property, cut if
/// they are too long, and numbered.
pub fn index_name(table: &Table, property: &str, test: fn(&str) -> bool) -> String {
    let full = format!("{}_{property}", table.name().name());
    let name = |suffix: &str| {
        if full.len() + suffix.len() <= NAME_BYTES {
            return format!("{full}{suffix}");
        }
        let hashed = format!("_{}{suffix}", hash(&full));
        let mut end = NAME_BYTES - hashed.len();
        while !full.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{hashed}", &full[..end])
    };
    numbered(name, test)
}

/// The knowledge of a table's property indexes about a filter.
pub struct FilterIndexes<'f> {
    pub filter: &'f Filter,
    pub every_row: EveryRow,
    table: pg_sys::Oid,
    /// One index for each property, by the numbers of the properties in the condition.
    pub indexes: Rc<[PropertyIndex]>,
    condition: Condition,
    /// The counts so far.
    counts: RefCell<HashMap<Counted, Count>>,
}

/// The things that [`FilterIndexes`] counts: the entries of the index on a property in a span, or the entities in a key
/// range.
#[derive(PartialEq, Eq, Hash)]
enum Counted {
    Entries(usize, Span),
    Entities(KeyRange),
}

impl<'f> FilterIndexes<'f> {
    /// Returns `None` if the table has no index on a property that the filter compares, or if the caller must not know how
    /// many entries there are. The caller must have locked the table. Of a distributed table nothing can be counted: the
    /// entries are on other servers.
    pub fn new(table: &Table, filter: Option<&'f Filter>) -> Option<FilterIndexes<'f>> {
        let filter = filter?;
        let indexes = usable(all(table));
        if indexes.is_empty() {
            return None;
        }
        let condition = condition(filter, &indexes)?;
        // Callers can see whether a query counts entries: in the result of `explain_query`, and by the time it takes.
        // With row-level security PostgreSQL reads no index on an expression anyway: it tests policies first.
        let every_row = reads_every_row(table)?;
        Some(FilterIndexes {
            filter,
            every_row,
            table: table.oid(),
            indexes,
            condition,
            counts: RefCell::default(),
        })
    }

    /// Returns the condition on the entries of the entities that are in key ranges and pass the filter.
    pub fn within(&self, ranges: &[KeyRange]) -> Cow<'_, Condition> {
        match ranges {
            [only] if !only.is_all() => Cow::Owned(self.condition.within(only)),
            _ => Cow::Borrowed(&self.condition),
        }
    }

    /// Returns the condition on the entries of all entities that pass the filter.
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

    /// Returns whether the entities that meet the condition are those of one value, which are in key order.
    pub fn is_one_value(condition: &Condition) -> bool {
        terms(condition).iter().any(|term| one_value(term).is_some())
    }

    /// Returns whether the entities that meet the condition are those of some values, for example of a list.
    pub fn is_some_values(condition: &Condition) -> bool {
        match condition {
            Condition::Spans { spans, .. } => spans.iter().all(Span::one_value),
            Condition::All(terms) => terms.iter().any(Self::is_some_values),
            Condition::Any(terms) => terms.iter().all(Self::is_some_values),
        }
    }

    /// Decides the next step of a query on the rest of the key ranges that it was given. The entries in these meet
    /// `condition`. The caller has taken `taken` entities.
    pub fn decide(
        &self,
        strategy: &Strategy,
        (given, left): (&[KeyRange], &[KeyRange]),
        condition: &Condition,
        taken: usize,
    ) -> Decision {
        let looked_at = if strategy.has_tried_value() { given } else { left };
        let terms = terms(condition);
        let values = terms.iter().filter(|term| one_value(term).is_some()).count();
        let what_is_left = Left {
            ranges: left.len(),
            is_whole_table: looked_at.iter().any(KeyRange::is_all),
            values,
            is_only_value: values == 1 && terms.len() == 1,
        };
        let ranges_read = given.len() - left.len();
        self.until_known(looked_at, condition, |evidence| {
            strategy.next(&what_is_left, taken, ranges_read, evidence)
        })
    }

    /// Looks until a decision can be made.
    fn until_known<D>(
        &self,
        ranges: &[KeyRange],
        condition: &Condition,
        decide: impl Fn(&Evidence) -> Result<D, Look>,
    ) -> D {
        let mut evidence = Evidence::default();
        loop {
            match decide(&evidence) {
                Ok(decision) => return decision,
                Err(look) => evidence.add(self.look(look, ranges, condition)),
            }
        }
    }

    fn look(&self, look: Look, ranges: &[KeyRange], condition: &Condition) -> Finding {
        match look {
            Look::Entries { limit } => Finding::Entries(Count {
                found: self.count(condition, limit),
                limit,
            }),
            Look::EntriesOfValue { value, limit } => {
                let found =
                    value_in(condition, value).map_or(limit, |(property, span)| self.count_span(property, span, limit));
                let count = Count { found, limit };
                Finding::EntriesOfValue { value, count }
            }
            Look::Entities { limit } => Finding::Entities {
                limit,
                are_fewer: self.have_fewer(ranges, limit),
            },
            Look::Part => Finding::Part(self.part(condition)),
            Look::PartOfValue { value } => Finding::PartOfValue {
                value,
                part: value_in(condition, value)
                    .and_then(|(property, span)| self.part_of(property, std::slice::from_ref(span))),
            },
            Look::Rows => Finding::Rows(estimate_rows(self.table)),
            Look::Statistics => Finding::Statistics(self.has_statistics(condition)),
        }
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
            let mut conditions = btree::ScanCondition::between(bounds.each_ref().map(Value::bytea));
            count_entries(self.table, index.oid, &mut conditions, limit)
        })
    }

    /// Returns the result of `count` up to a limit, from memory if it was counted that far before.
    fn counted(&self, what: Counted, limit: usize, count: impl FnOnce() -> usize) -> usize {
        if limit == 0 {
            return 0;
        }
        if let Some(&known) = self.counts.borrow().get(&what)
            && let Some(found) = known.up_to(limit)
        {
            return found;
        }
        let found = count();
        self.counts.borrow_mut().insert(what, Count { found, limit });
        found
    }

    /// Returns spans of entries that together have all entities that meet the condition, each with the number of its
    /// property. Of several conditions that hold together, it takes that with the fewest entries, counted to a limit.
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

    /// Returns the condition without the terms that have many more entries than there are entities that meet it.
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

    /// Returns whether key ranges have together fewer entities than this. Of very many ranges it counts some, because
    /// each takes long to begin, and assumes that the others are like them.
    fn have_fewer(&self, ranges: &[KeyRange], limit: usize) -> bool {
        let step = ranges.len().div_ceil(COUNTED_RANGES).max(1);
        // A few large ranges do not represent the others.
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
        // The entries of the first pages of an index take longer to count than the pages of the table, and nearly each
        // page has an entity.
        if range.is_all() && count_pages(self.table) >= limit {
            return limit;
        }
        let Some(index) = primary_key(self.table) else {
            return limit;
        };
        // If the range is not in one partition, whole partitions are counted: the count is higher, not lower.
        let conditions = KeyConditions::of(range);
        self.counted(Counted::Entities(range.clone()), limit, || {
            count_entries(self.table, index, &mut conditions.get(), limit)
        })
    }

    /// Returns whether the planner should get a condition on entries. `ranges` are the key ranges that it also gets, if
    /// any. `ends_early` says that the query may want only the first entities that are found.
    pub fn helps(&self, condition: &Condition, ranges: Option<&[KeyRange]>, ends_early: bool) -> bool {
        let call = PlannedCall {
            part: self.part(self.condition()),
            can_count: can_count(),
            ranges: ranges.map(<[KeyRange]>::len),
            ends_early,
        };
        self.until_known(ranges.unwrap_or_default(), condition, |evidence| {
            call.tells_entries(evidence)
        })
    }

    /// Estimates which part of all entities has entries with `lower <= entry < upper` in the index on a property.
    pub fn estimate_entries(&self, property: &str, span: [&[u8]; 2]) -> Option<f64> {
        /// The part of all entities that PostgreSQL assumes in a range without statistics. A range that the statistics do
        /// not show has about as many.
        const RANGE: f64 = 0.005;
        let index = self.indexes.iter().find(|index| *index.property == *property)?;
        if let Some(part) = part_between(index.oid, std::iter::once(span)).filter(|&part| part > 0.0) {
            return Some(part);
        }
        if !can_count() {
            return None;
        }
        let bounds = span.map(Varlena::new);
        let mut conditions = btree::ScanCondition::between(bounds.each_ref().map(Value::bytea));
        let found = count_entries(self.table, index.oid, &mut conditions, FEW);
        let part = found as f64 / estimate_rows(self.table).max(1.0);
        Some(if found < FEW { part } else { part.max(RANGE) })
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

/// Returns the property and the span of the value with this number, of those that a condition asks for.
pub fn value_in(condition: &Condition, value: usize) -> Option<(usize, &Span)> {
    terms(condition).iter().filter_map(one_value).nth(value)
}

/// How many key ranges are counted at most to find out how many entities they have.
const COUNTED_RANGES: usize = 64;
