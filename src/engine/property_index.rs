//! Property indexes: which a table has, their names, and what they know about a filter.

use std::rc::Rc;

use md5::{Digest, Md5};
use pgrx::pg_sys;
use table_service_model::Error;
use table_service_model::filter::{Filter, KeyRange};
use table_service_model::property_index::{Condition, Span, condition};

use super::table::{Table, relation_in_data_schema};
use crate::postgres::catalog::PropertyIndex;
use crate::postgres::property_index::{
    ColumnCondition, Comparison, count_entries, has_statistics, of_table, primary_key,
};
use crate::postgres::spi::Planning;
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
    /// Returns `None` if the table has no index on a property that the filter compares. The caller must have locked the
    /// table.
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

    /// The indexes, by their properties' numbers.
    pub fn indexes(&self) -> Vec<pg_sys::Oid> {
        self.indexes.iter().map(|index| index.oid).collect()
    }

    /// Returns the property and the span of entries of one value that have all entities that meet the condition, if
    /// there is such a span. The entries of one value stand in key order. If there are several such spans, it is the
    /// shortest.
    pub fn in_order<'c>(&self, condition: &'c Condition) -> Option<(usize, &'c Span)> {
        let terms = match condition {
            Condition::All(terms) => terms.as_slice(),
            _ => std::slice::from_ref(condition),
        };
        let mut spans: Vec<(usize, &Span)> = terms
            .iter()
            .filter_map(|term| match term {
                Condition::Spans { property, spans } => match spans.as_slice() {
                    [only] if only.one_value() => Some((*property, only)),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        if terms.len() > 1 {
            spans.sort_by_cached_key(|&(property, span)| self.count_span(property, span, FEW));
            let shortest = spans
                .first()
                .map(|&(property, span)| self.count_span(property, span, FEW))?;
            // Other conditions may say much more than this one.
            if shortest >= FEW && self.count(condition, FEW) < FEW {
                return None;
            }
        }
        spans.first().copied()
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
        let [lower, upper] = bounds.each_ref().map(Value::bytea);
        let conditions = [(Comparison::GreaterOrEqual, lower), (Comparison::Less, upper)].map(|(comparison, value)| {
            ColumnCondition {
                column: 1,
                comparison,
                value,
            }
        });
        count_entries(self.table, index.oid, &conditions, limit)
    }

    /// Returns whether a key range has fewer entities than this.
    pub fn has_fewer(&self, range: &KeyRange, limit: usize) -> bool {
        let Some(index) = primary_key(self.table) else {
            return false;
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
        count_entries(self.table, index, &conditions, limit) < limit
    }

    /// Returns whether the planner can estimate the conditions.
    pub fn has_statistics(&self) -> bool {
        self.indexes.iter().all(|index| has_statistics(index.oid))
    }
}

/// Up to how many entries are counted at first. To count them takes less time than to read a hundred entities.
const FEW: usize = 500;
/// Up to how many entries are counted at all.
const SOME: usize = 4000;
/// How many entities are read in key order before a decision, if a page may be full soon.
const READ_FIRST: u64 = 1000;

/// How to read the entities of a key range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// In key order, testing each.
    Keys,
    /// Through indexes, and sorted.
    Sorted(Planning),
    /// So many in key order at first. Then decide again for the rest.
    KeysFirst(u64),
}

/// Decides how to read the entities of a key range whose entries meet a condition. `wanted` says how many of them
/// suffice, and `None` that all are read. `read` says how many entities of the range were read in vain.
///
/// PostgreSQL's planner cannot decide this alone. It has no statistics of a new index, it does not know where in the key
/// order the entities stand, and a wrong guess costs a scan of the table or a sort of half of it. So the entries are
/// counted, up to a number that takes little time. A query takes hardly longer than without the index: what is read in
/// key order first takes several times as long as what the index may cost afterwards.
pub fn choose(
    knowledge: &Knowledge<'_>,
    range: &KeyRange,
    condition: &Condition,
    wanted: Option<u64>,
    read: u64,
) -> Way {
    let planner = || {
        if knowledge.has_statistics() {
            Way::Sorted(Planning::Free)
        } else {
            Way::Keys
        }
    };
    let small = |entries: usize| knowledge.has_fewer(range, 2 * entries + 64);
    let Some(wanted) = wanted else {
        let some = knowledge.count(condition, SOME);
        return if some >= SOME {
            planner()
        } else if small(some) {
            Way::Keys
        } else {
            Way::Sorted(Planning::ForFewRows)
        };
    };
    if read == 0 {
        // If there are no more entries than entities wanted, reading in key order goes to the end of the range.
        let limit = usize::try_from(wanted).map_or(FEW, |wanted| FEW.min(wanted)) + 1;
        let few = knowledge.count(condition, limit);
        return if few >= limit {
            Way::KeysFirst(READ_FIRST)
        } else if small(few) {
            Way::Keys
        } else {
            Way::Sorted(Planning::ForFewRows)
        };
    }
    let some = knowledge.count(condition, SOME);
    let enough = 4 * some as u64;
    if some >= SOME {
        planner()
    } else if read < enough {
        Way::KeysFirst(enough - read)
    } else {
        Way::Sorted(Planning::ForFewRows)
    }
}
