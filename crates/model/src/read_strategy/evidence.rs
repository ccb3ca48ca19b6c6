//! The findings of a query about its entries and its entities.

use super::costs::{LARGE, SOME, sortable};

/// A question of a query that it needs answered before it can decide. The numbers of values are those of
/// [`Left`](super::Left).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// How many entries meet the condition, counted up to a limit.
    Entries { limit: usize },
    /// How many entries a value has, counted up to a limit.
    EntriesOfValue { value: usize, limit: usize },
    /// Whether the key ranges have fewer entities than a limit.
    Entities { limit: usize },
    /// Which part of all entities meets the condition, by the statistics.
    Part,
    /// Which part of all entities has a value, by the statistics.
    PartOfValue { value: usize },
    /// How many entities PostgreSQL thinks that the table has.
    Rows,
    /// Whether PostgreSQL's planner has statistics of the indexes.
    Statistics,
}

/// The finding of a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    Entries(Count),
    EntriesOfValue { value: usize, count: Count },
    Entities { limit: usize, are_fewer: bool },
    Part(Option<f64>),
    PartOfValue { value: usize, part: Option<f64> },
    Rows(f64),
    Statistics(bool),
}

/// How many there are, if that is less than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub found: usize,
    pub limit: usize,
}

impl Count {
    /// Returns how many there are up to a limit, if that is known.
    pub fn up_to(self, limit: usize) -> Option<usize> {
        (self.found < self.limit || limit <= self.limit).then(|| self.found.min(limit))
    }
}

/// The knowledge of the part that is left to read. A step changes that part, so each decision begins without knowledge.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    entries: Option<Count>,
    values: Vec<Value>,
    /// The entities are known to be fewer than the first number, and at least as many as the second one.
    fewer_than: Option<usize>,
    at_least: Option<usize>,
    part: Option<Option<f64>>,
    rows: Option<f64>,
    has_statistics: Option<bool>,
}

/// The knowledge of a value.
#[derive(Debug, Clone, Copy, Default)]
struct Value {
    entries: Option<Count>,
    part: Option<Option<f64>>,
}

impl Evidence {
    /// Adds the finding of a look.
    pub fn add(&mut self, finding: Finding) {
        match finding {
            Finding::Entries(count) => self.entries = Some(count),
            Finding::EntriesOfValue { value, count } => {
                if let Some(value) = self.value_mut(value) {
                    value.entries = Some(count);
                }
            }
            Finding::Entities { limit, are_fewer: true } => {
                self.fewer_than = Some(self.fewer_than.map_or(limit, |least| least.min(limit)));
            }
            Finding::Entities { limit, .. } => self.at_least = self.at_least.max(Some(limit)),
            Finding::Part(part) => self.part = Some(part),
            Finding::PartOfValue { value, part } => {
                if let Some(value) = self.value_mut(value) {
                    value.part = Some(part);
                }
            }
            Finding::Rows(rows) => self.rows = Some(rows),
            Finding::Statistics(has_statistics) => self.has_statistics = Some(has_statistics),
        }
    }

    fn value_mut(&mut self, number: usize) -> Option<&mut Value> {
        if self.values.len() <= number {
            self.values.resize(number + 1, Value::default());
        }
        self.values.get_mut(number)
    }

    fn value(&self, number: usize) -> Value {
        self.values.get(number).copied().unwrap_or_default()
    }

    pub(super) fn entries(&self, limit: usize) -> Result<usize, Look> {
        counted(self.entries, limit, Look::Entries { limit })
    }

    pub(super) fn entries_of_value(&self, value: usize, limit: usize) -> Result<usize, Look> {
        counted(self.value(value).entries, limit, Look::EntriesOfValue { value, limit })
    }

    pub(super) fn has_fewer_entities(&self, limit: usize) -> Result<bool, Look> {
        if self.fewer_than.is_some_and(|known| known <= limit) {
            return Ok(true);
        }
        if self.at_least.is_some_and(|known| known >= limit) {
            return Ok(false);
        }
        Err(Look::Entities { limit })
    }

    pub(super) fn has_statistics(&self) -> Result<bool, Look> {
        self.has_statistics.ok_or(Look::Statistics)
    }

    fn rows(&self) -> Result<f64, Look> {
        self.rows.ok_or(Look::Rows)
    }

    /// Returns whether the statistics say that a large part of all entities meets the condition. Then an index does not help
    /// to find them.
    pub(super) fn is_large(&self) -> Result<bool, Look> {
        Ok(self.part.ok_or(Look::Part)?.is_some_and(|part| part > LARGE))
    }

    /// Returns whether a large part of all entities has a value.
    pub(super) fn is_large_value(&self, value: usize) -> Result<bool, Look> {
        if let Some(part) = self.value(value).part.ok_or(Look::PartOfValue { value })? {
            return Ok(part > LARGE);
        }
        let limit = SOME.max((self.rows()? * LARGE) as usize);
        Ok(self.entries_of_value(value, limit)? >= limit)
    }

    /// Estimates how many entities meet the condition, by the statistics.
    pub(super) fn estimate(&self) -> Result<Option<usize>, Look> {
        Ok(match self.part.ok_or(Look::Part)? {
            Some(part) => Some((part * self.rows()?) as usize),
            None => None,
        })
    }

    /// Returns how many entries are counted if all entities are read and there are no statistics: those of a part of the
    /// entities that may be sorted in vain.
    pub(super) fn small_part(&self) -> Result<usize, Look> {
        Ok(SOME.max(sortable(self.rows()? as usize)))
    }
}

fn counted(known: Option<Count>, limit: usize, look: Look) -> Result<usize, Look> {
    match known.and_then(|count| count.up_to(limit)) {
        Some(found) => Ok(found),
        None if limit == 0 => Ok(0),
        None => Err(look),
    }
}
