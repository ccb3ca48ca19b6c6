//! The entities that a table SAS reaches (semantics 7.2).

use crate::{Dialect, Error, Filter};

/// A range of keys, in key order, with both ends included: from (`spk`, `srk`) to (`epk`, `erk`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantedRange {
    pub start_partition: Option<String>,
    /// Only with a `start_partition`: from this row on in it.
    pub start_row: Option<String>,
    pub end_partition: Option<String>,
    /// Only with an `end_partition`: up to this row in it.
    pub end_row: Option<String>,
}

impl GrantedRange {
    /// Returns whether every row has its partition.
    pub(super) fn is_complete(&self) -> bool {
        (self.start_row.is_none() || self.start_partition.is_some())
            && (self.end_row.is_none() || self.end_partition.is_some())
    }

    /// Returns whether all entities of the table are in the range.
    pub fn is_everything(&self) -> bool {
        *self == GrantedRange::default()
    }

    /// Returns whether the entity with these keys is in the range.
    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let after_start = self.start_partition.as_deref().is_none_or(|start| {
            let row = self.start_row.as_deref().unwrap_or_default();
            (partition_key, row_key) >= (start, row)
        });
        let before_end = self.end_partition.as_deref().is_none_or(|end| match &self.end_row {
            Some(row) => (partition_key, row_key) <= (end, row.as_str()),
            None => partition_key <= end,
        });
        after_start && before_end
    }

    /// Returns the filter of a query, limited to the range; `None` for all entities.
    ///
    /// # Errors
    /// Those of [`Filter::parse`] for the query's own filter. It is parsed on its own, so that no text in it can change
    /// the meaning of the range's part.
    pub fn clip(&self, filter: Option<&str>, dialect: Dialect) -> Result<Option<String>, Error> {
        let mut terms = Vec::new();
        if let Some(filter) = filter {
            Filter::parse(filter, None, dialect)?;
            if !filter.trim().is_empty() {
                terms.push(format!("({filter})"));
            }
        }
        if let Some(partition) = &self.start_partition {
            terms.push(bound(partition, self.start_row.as_deref(), "gt", "ge"));
        }
        if let Some(partition) = &self.end_partition {
            terms.push(bound(partition, self.end_row.as_deref(), "lt", "le"));
        }
        Ok((!terms.is_empty()).then(|| terms.join(" and ")))
    }
}

/// Returns the condition for the keys from a bound on, with two operators: `gt` and `ge`, or `lt` and `le`.
fn bound(partition: &str, row: Option<&str>, strictly: &str, inclusively: &str) -> String {
    let partition = literal(partition);
    match row {
        None => format!("PartitionKey {inclusively} {partition}"),
        Some(row) => {
            let row = literal(row);
            format!(
                "(PartitionKey {strictly} {partition} or (PartitionKey eq {partition} and RowKey {inclusively} {row}))"
            )
        }
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
