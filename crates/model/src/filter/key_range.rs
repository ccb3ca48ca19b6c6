//! Ranges of keys, as the index on the keys reads them.

use std::fmt::{self, Display, Formatter};

use crate::filter::Operator;
use crate::filter::print::write_quoted;

/// How much of a table a range makes the index read, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessClass {
    /// No entity can pass.
    Nothing,
    /// Both keys are exact.
    PointQuery,
    /// The PartitionKey is exact.
    RowRangeScan,
    /// The keys say less than that, but an index on a property finds the entities.
    PropertyIndexScan,
    /// The PartitionKey is bounded, on one side at least.
    PartitionRangeScan,
    TableScan,
}

impl Display for AccessClass {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessClass::Nothing => "nothing",
            AccessClass::PointQuery => "point query",
            AccessClass::RowRangeScan => "row range scan",
            AccessClass::PropertyIndexScan => "property index scan",
            AccessClass::PartitionRangeScan => "partition range scan",
            AccessClass::TableScan => "table scan",
        })
    }
}

/// All keys between two bounds. A bound that is `None` is open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    pub lower: Option<Bound>,
    pub upper: Option<Bound>,
}

/// An end of a range: a key, or a whole partition if `row_key` is `None`.
///
/// An inclusive bound belongs to the range. So an inclusive lower bound on a partition is before its first row, an
/// exclusive one after its last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bound {
    pub partition_key: String,
    pub row_key: Option<String>,
    pub inclusive: bool,
}

/// A place between keys: partition, whether after all of its rows, row, whether after that row.
pub(super) type KeyPlace<'b> = (&'b str, bool, &'b str, bool);

impl Bound {
    pub(super) fn as_lower(&self) -> KeyPlace<'_> {
        self.place(!self.inclusive)
    }

    pub(super) fn as_upper(&self) -> KeyPlace<'_> {
        self.place(self.inclusive)
    }

    fn place(&self, after: bool) -> KeyPlace<'_> {
        match &self.row_key {
            Some(row_key) => (&self.partition_key, false, row_key, after),
            None => (&self.partition_key, after, "", false),
        }
    }

    fn keys(&self) -> (&str, Option<&str>) {
        (&self.partition_key, self.row_key.as_deref())
    }

    fn write(&self, f: &mut Formatter<'_>, infinity: &str) -> fmt::Result {
        f.write_str("(")?;
        write_quoted(f, &self.partition_key)?;
        f.write_str(",")?;
        match &self.row_key {
            Some(row_key) => write_quoted(f, row_key)?,
            None => f.write_str(infinity)?,
        }
        f.write_str(")")
    }
}

/// A key of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The PartitionKey.
    Partition,
    /// The RowKey.
    Row,
}

impl KeyRange {
    /// All keys.
    pub const ALL: KeyRange = KeyRange {
        lower: None,
        upper: None,
    };

    /// Returns whether the range has all keys.
    pub fn is_all(&self) -> bool {
        self.lower.is_none() && self.upper.is_none()
    }

    /// Returns whether these keys are in the range.
    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let key = (partition_key, false, row_key, false);
        self.lower.as_ref().is_none_or(|lower| lower.as_lower() <= key)
            && self.upper.as_ref().is_none_or(|upper| key < upper.as_upper())
    }

    /// Returns whether all keys of the range are before these.
    pub fn is_before(&self, partition_key: &str, row_key: &str) -> bool {
        let key = (partition_key, false, row_key, false);
        self.upper.as_ref().is_some_and(|upper| upper.as_upper() <= key)
    }

    /// Returns the one partition that the range lies in, if its bounds say so.
    pub fn partition(&self) -> Option<&str> {
        match (&self.lower, &self.upper) {
            (Some(lower), Some(upper)) if lower.partition_key == upper.partition_key => Some(&lower.partition_key),
            _ => None,
        }
    }

    /// Returns the PartitionKey and RowKey of the one entity that the range can have, if it is a point.
    pub fn point(&self) -> Option<(&str, &str)> {
        match (&self.lower, &self.upper) {
            (Some(lower), Some(upper)) if lower == upper && lower.inclusive => {
                let (partition_key, row_key) = lower.keys();
                Some((partition_key, row_key?))
            }
            _ => None,
        }
    }

    /// Returns comparisons of single keys that all keys in the range meet, those of the PartitionKey first. They may also hold for other
    /// keys, if not [`KeyRange::is_of_comparisons`].
    pub fn comparisons(&self) -> Vec<(Key, Operator, &str)> {
        let partition = self.partition();
        let mut found: Vec<_> = partition
            .map(|key| (Key::Partition, Operator::Eq, key))
            .into_iter()
            .collect();
        if let Some((_, row_key)) = self.point() {
            found.push((Key::Row, Operator::Eq, row_key));
            return found;
        }
        let ends = [
            (&self.lower, Operator::Ge, Operator::Gt),
            (&self.upper, Operator::Le, Operator::Lt),
        ];
        for (bound, including, excluding) in ends {
            let Some(bound) = bound else { continue };
            let operator = if bound.inclusive { including } else { excluding };
            match (partition, &bound.row_key) {
                (Some(_), Some(row_key)) => found.push((Key::Row, operator, row_key)),
                (Some(_), None) => {}
                (None, Some(_)) => found.push((Key::Partition, including, &bound.partition_key)),
                (None, None) => found.push((Key::Partition, operator, &bound.partition_key)),
            }
        }
        found
    }

    /// Returns whether [`KeyRange::comparisons`] hold for the keys in the range alone.
    pub fn is_of_comparisons(&self) -> bool {
        let bounds = [&self.lower, &self.upper];
        self.partition().is_some() || bounds.into_iter().flatten().all(|bound| bound.row_key.is_none())
    }

    /// Returns how much of a table the range makes the index read.
    pub fn access(&self) -> AccessClass {
        if self.point().is_some() {
            AccessClass::PointQuery
        } else if self.partition().is_some() {
            AccessClass::RowRangeScan
        } else if self.is_all() {
            AccessClass::TableScan
        } else {
            AccessClass::PartitionRangeScan
        }
    }
}

impl Display for KeyRange {
    /// As `[('a','1'), ('a','5'))`, with `-∞` and `+∞` for open ends. The round parenthesis is the exclusive one; for
    /// a whole partition, the row is the infinity on the side where the range begins or ends.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.lower {
            None => f.write_str("(-∞")?,
            Some(bound) => {
                f.write_str(if bound.inclusive { "[" } else { "(" })?;
                bound.write(f, if bound.inclusive { "-∞" } else { "+∞" })?;
            }
        }
        f.write_str(", ")?;
        match &self.upper {
            None => f.write_str("+∞)"),
            Some(bound) => {
                bound.write(f, if bound.inclusive { "+∞" } else { "-∞" })?;
                f.write_str(if bound.inclusive { "]" } else { ")" })
            }
        }
    }
}
