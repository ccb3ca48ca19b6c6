//! Property indexes: which a table has, their names, and what they know about a filter.

use std::rc::Rc;

use md5::{Digest, Md5};
use pgrx::pg_sys;
use table_service_model::Error;
use table_service_model::filter::{Filter, KeyRange};
use table_service_model::property_index::{Condition, Span, condition};

use super::direct::may_read;
use super::table::{Table, relation_in_data_schema};
use crate::postgres::catalog::PropertyIndex;
use crate::postgres::property_index::{
    ColumnCondition, Comparison, count_entries, has_statistics, of_table, primary_key,
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
/// the name.
///
/// # Errors
/// `ResourceAlreadyExists` if other relations have all the names.
pub fn free_index_name(table: &Table, property: &str) -> Result<String, Error> {
    let full = format!("{}_{property}", table.name().name());
    let suffixes = (0..NAMES).map(|number| match number {
        0 => String::new(),
        _ => format!("_{number}"),
    });
    suffixes
        .map(|suffix| {
            if full.len() + suffix.len() <= NAME_BYTES {
                return format!("{full}{suffix}");
            }
            let hash = format!("_{:x}{suffix}", Md5::digest(&full));
            let mut end = NAME_BYTES - hash.len();
            while !full.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}{hash}", &full[..end])
        })
        .find(|name| relation_in_data_schema(name).is_none())
        .ok_or_else(|| Error::PropertyIndexExists {
            property: property.to_owned(),
        })
}

/// What the property indexes of a table know about a filter.
pub struct Knowledge<'f> {
    pub filter: &'f Filter,
    table: pg_sys::Oid,
    /// One index for each property.
    indexes: Vec<PropertyIndex>,
    /// The properties, by their numbers in the condition.
    pub properties: Vec<Rc<str>>,
    condition: Condition,
}

impl<'f> Knowledge<'f> {
    /// Returns `None` if the table has no index on a property that the filter compares, or if the caller must not know how
    /// many entries there are. The caller must have locked the table.
    pub fn new(table: &Table, filter: Option<&'f Filter>) -> Option<Knowledge<'f>> {
        let filter = filter?;
        let mut indexes: Vec<PropertyIndex> = Vec::new();
        for index in all(table).iter().filter(|index| index.is_valid) {
            if indexes.iter().all(|other| other.property != index.property) {
                indexes.push(index.clone());
            }
        }
        if indexes.is_empty() {
            return None;
        }
        let properties: Vec<Rc<str>> = indexes.iter().map(|index| Rc::clone(&index.property)).collect();
        let condition = condition(filter, &properties)?;
        if !may_count(table) {
            return None;
        }
        Some(Knowledge {
            filter,
            table: table.oid(),
            indexes,
            properties,
            condition,
        })
    }

    /// Returns what the entries of the entities meet that are in a key range and pass the filter.
    pub fn within(&self, range: &KeyRange) -> Condition {
        self.condition.within(range)
    }

    /// Returns what the entries of all entities meet that pass the filter.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Returns the index on the property with this number.
    pub fn index(&self, property: usize) -> Option<pg_sys::Oid> {
        self.indexes.get(property).map(|index| index.oid)
    }

    /// The indexes, by their properties' numbers.
    pub fn indexes(&self) -> Vec<pg_sys::Oid> {
        self.indexes.iter().map(|index| index.oid).collect()
    }

    /// Returns whether the entities that meet the condition are those of one value, which stand in key order.
    pub fn is_one_value(condition: &Condition) -> bool {
        terms(condition).iter().any(|term| one_value(term).is_some())
    }

    /// Returns the span of entries of one value that have all entities that meet the condition, if there is such a span.
    /// `wanted` and `read` are those of [`choose`]. The more were read, the closer this looks.
    pub fn in_order<'c>(&self, condition: &'c Condition, wanted: Option<u64>, read: u64) -> Option<InOrder<'c>> {
        let terms = terms(condition);
        let mut spans: Vec<(usize, &Span)> = terms.iter().filter_map(one_value).collect();
        let mut rows = None;
        if terms.len() > 1 && !spans.is_empty() {
            let most = match (wanted, usize::try_from(read)) {
                (Some(_), Ok(read)) => FEW.max(read),
                _ => SOME,
            };
            spans.sort_by_cached_key(|&(property, span)| self.count_span(property, span, most));
            let shortest = spans
                .first()
                .map(|&(property, span)| self.count_span(property, span, most))?;
            if shortest >= most {
                // Other conditions may say much more than this one.
                if self.count(condition, most / 4) < most / 4 {
                    return None;
                }
                rows = wanted.map(|_| READ_FIRST.max(read));
            }
        }
        let (property, span) = *spans.first()?;
        Some(InOrder { property, span, rows })
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
        let bounds = [&span.lower, &span.upper].map(|bytes| Varlena::new(bytes));
        let conditions = ColumnCondition::between(bounds.each_ref().map(Value::bytea));
        count_entries(self.table, index.oid, &conditions, limit)
    }

    /// Returns the condition without what would make it read many more entries than there are entities that meet it.
    fn narrow(&self, condition: &Condition, most: usize) -> Condition {
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

    /// Returns whether key ranges have together fewer entities than this.
    fn have_fewer(&self, ranges: &[KeyRange], limit: usize) -> bool {
        let mut count = 0;
        for range in ranges {
            count += self.count_range(range, limit - count);
            if count >= limit {
                return false;
            }
        }
        true
    }

    /// Counts the entities of a key range, up to a limit.
    fn count_range(&self, range: &KeyRange, limit: usize) -> usize {
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
        let conditions: Vec<_> = bounds
            .iter()
            .map(|(column, comparison, key)| ColumnCondition {
                column: *column,
                comparison: *comparison,
                value: key.value(),
            })
            .collect();
        count_entries(self.table, index, &conditions, limit)
    }

    /// Returns whether the planner can estimate the conditions.
    pub fn has_statistics(&self) -> bool {
        self.indexes.iter().all(|index| has_statistics(self.table, index.oid))
    }
}

/// The entries of one value, which stand in key order.
pub struct InOrder<'c> {
    pub property: usize,
    pub span: &'c Span,
    /// How many of them are read before a decision. `None` stands for all.
    pub rows: Option<u64>,
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

/// Returns whether the caller may read every row of a table. Whether a query counts entries can be seen: by what
/// `explain_query` says, and by the time it takes. With row-level security PostgreSQL would not read an index on an
/// expression anyway, because it tests the policies first.
fn may_count(table: &Table) -> bool {
    // SAFETY: the function looks up catalogs, which needs a transaction, and SQL functions run in one. It raises no error.
    let security = unsafe { pg_sys::check_enable_rls(table.oid(), pg_sys::InvalidOid, true) };
    may_read(table) && security as u32 != pg_sys::CheckEnableRlsResult::RLS_ENABLED
}

/// Up to how many entries are counted before anything is read.
const FEW: usize = 250;
/// Up to how many entries are counted if all entities are read.
const SOME: usize = 4000;
/// How many entities are read in key order before a decision, if a page may be full soon.
const READ_FIRST: u64 = 2000;
/// How many entities of a range are read in key order, whatever the indexes have.
const SMALL: usize = 300;
/// To find an entity through a bitmap and to sort it takes about as long as to read so many in key order.
const SORTED: usize = 3;
/// To plan a statement takes about as long as to read so many entities in key order.
const PLANNED: usize = 400;
/// How many entities are read in vain for each that is sorted afterwards. It keeps a query from taking much longer than
/// without the index: at most 1.2 times as long is the aim.
const PER_ENTRY: usize = 20;

/// How to read the entities of key ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// In key order, testing each.
    Keys,
    /// Those that meet the condition, through indexes and sorted. The planner may choose any plan.
    Planned,
    /// Those that meet this condition, which are few, through bitmaps of indexes and sorted.
    Sorted(Condition),
    /// So many in key order at first. Then decide again for the rest.
    KeysFirst(u64),
}

/// Decides how to read the entities of key ranges whose entries meet a condition. `wanted` says how many of them
/// suffice, and `None` that all are read. `read` says how many entities were read in vain.
///
/// PostgreSQL's planner cannot decide this alone. It has no statistics of a new index, it does not know where in the key
/// order the entities stand, and a wrong guess costs a scan of the table or a sort of half of it. So the entries are
/// counted, up to a number that takes little time. If a page may be full soon, entities are read in key order first, and
/// sorted only when that takes much less time than was already spent.
pub fn choose(
    knowledge: &Knowledge<'_>,
    ranges: &[KeyRange],
    condition: &Condition,
    wanted: Option<u64>,
    read: u64,
) -> Way {
    if read == 0 && knowledge.have_fewer(ranges, SMALL) {
        return Way::Keys;
    }
    let limit = match (wanted, usize::try_from(read)) {
        (None, _) if knowledge.count(condition, FEW) < FEW => FEW,
        (None, _) if knowledge.have_fewer(ranges, SOME) => return Way::Keys,
        (None, _) => SOME,
        (Some(wanted), Ok(0)) => usize::try_from(wanted).map_or(FEW, |wanted| FEW.min(wanted + 1)),
        // If there are no more entries than entities wanted, reading in key order goes to the end of the ranges.
        (Some(wanted), Ok(read)) => usize::try_from(wanted).map_or(FEW, |wanted| (wanted + 1).max(read / PER_ENTRY)),
        (Some(_), Err(_)) => return Way::Keys,
    };
    let entries = knowledge.count(condition, limit);
    if entries < limit {
        return if knowledge.have_fewer(ranges, SORTED * entries + PLANNED) {
            Way::Keys
        } else {
            Way::Sorted(knowledge.narrow(condition, limit))
        };
    }
    match wanted {
        Some(_) => Way::KeysFirst(READ_FIRST.max(read)),
        None if knowledge.has_statistics() => Way::Planned,
        None => Way::Keys,
    }
}
