//! The differences between a plain table and a table that Citus distributes, in statements and in direct access.

use pgrx::prelude::*;

use super::statement::IndexScan;
use crate::postgres::{Connection, TextArg};

/// How many entities direct access writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    One,
    /// Several of a partition. Unless [`Placement::entities_stay`], a statement writes the first one.
    Many,
}

/// Where a table, which the caller has locked, has its entities. The defaults are those of a plain table.
pub trait Placement {
    /// Returns the relation that has the entities of a partition, or of all for `None`, locked to be read. Returns
    /// `None` if only a statement finds all rows that this transaction sees.
    fn relation_to_read(&self, table: pg_sys::Oid, _: Option<TextArg<'_>>) -> Option<pg_sys::Oid> {
        Some(table)
    }

    /// Returns the relation that has the entities of a partition, to write this many. `None` if only a statement may.
    fn relation_to_write(&self, table: pg_sys::Oid, _: TextArg<'_>, _: Written) -> Option<pg_sys::Oid> {
        Some(table)
    }

    /// Notes that a statement has written an entity of a partition.
    fn note_write(&self, _table: pg_sys::Oid, _: TextArg<'_>) {}

    /// Returns whether entities stay in their relation while this transaction has locks on them. Otherwise only the
    /// version that was locked may be written.
    fn entities_stay(&self) -> bool {
        true
    }

    /// Returns whether statements that insert take arrays.
    fn inserts_arrays(&self) -> bool {
        true
    }

    /// Returns the top node of a plan. `plain` is the top node of the plan on a plain table.
    fn top_node(&self, plain: pg_sys::NodeTag) -> pg_sys::NodeTag {
        plain
    }

    /// Counts entities. Returns `None` if the planner would not read one of these indexes.
    fn count_through(&self, spi: &Connection, scan: &IndexScan, indexes: &[pg_sys::Oid]) -> Option<i64> {
        spi.count_through(scan, indexes)
    }
}

/// The table itself has its entities, or the parts of a partitioned table have them.
pub struct Plain;

impl Placement for Plain {}
