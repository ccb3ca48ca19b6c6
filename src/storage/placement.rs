//! The differences between a plain table and a table that Citus distributes, in statements and in direct access.
//!
//! The entities of a distributed table are in shards, relations on several servers: the table itself is empty. Only
//! statements reach all shards. Local shards are read as tables, and [written](super::shard_writes).

use pgrx::prelude::*;
use table_service_model::partition_hash::partition_hash;

use super::known::locked_shard;
use super::shard_writes;
use super::statement::IndexScan;
use super::table::Table;
use crate::postgres::{Connection, TextArg, citus};

/// How many entities direct access writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    One,
    /// Several of a partition. Unless [`Table::entities_stay`], a statement writes the first one.
    Many,
}

/// The caller has locked the table.
impl Table {
    /// Returns the relation that has the entities of a partition, or of all for `None`, locked to be read. Returns
    /// `None` if only a statement finds all rows that this transaction sees.
    pub fn relation_to_read(&self, partition_key: Option<TextArg<'_>>) -> Option<pg_sys::Oid> {
        if !self.is_distributed() {
            return Some(self.oid());
        }
        // Citus locks no more than the shard to read. Its other sessions may have written rows that this one must see.
        let partition = partition_hash(partition_key?.get());
        let shard = locked_shard(self.oid(), partition, pg_sys::AccessShareLock)?;
        (!citus::coordinates_transaction()).then_some(shard)
    }

    /// Returns the relation that has the entities of a partition, to write this many. `None` if only a statement may.
    pub fn relation_to_write(&self, partition_key: TextArg<'_>, written: Written) -> Option<pg_sys::Oid> {
        if !self.is_distributed() {
            return Some(self.oid());
        }
        match written {
            Written::One => shard_writes::relation_to_write(self.oid(), partition_key),
            // Citus locks no more before the statement that writes the first entity.
            Written::Many => locked_shard(self.oid(), partition_hash(partition_key.get()), pg_sys::AccessShareLock),
        }
    }

    /// Notes that a statement has written an entity of a partition.
    pub fn note_write(&self, partition_key: TextArg<'_>) {
        if self.is_distributed() {
            shard_writes::note(self.oid(), partition_key);
        }
    }

    /// Returns whether entities stay in their relation while this transaction has locks on them. Otherwise only the
    /// version that was locked may be written: Citus may move the shard, and then statements write the new placement,
    /// which nobody has locked.
    pub fn entities_stay(&self) -> bool {
        !self.is_distributed()
    }

    /// Returns whether statements that insert take arrays. Citus would move the rows of arrays through files, and count
    /// wrongly how many it inserted.
    pub fn inserts_arrays(&self) -> bool {
        !self.is_distributed()
    }

    /// Returns the top node of a plan. `plain` is the top node of the plan on a plain table.
    pub fn top_node(&self, plain: pg_sys::NodeTag) -> pg_sys::NodeTag {
        if !self.is_distributed() {
            return plain;
        }
        pg_sys::NodeTag::T_CustomScan
    }

    /// Counts entities. Returns `None` if the planner would not read one of these indexes.
    pub fn count_through(&self, spi: &Connection, scan: &IndexScan, indexes: &[pg_sys::Oid]) -> Option<i64> {
        if !self.is_distributed() {
            return spi.count_through(scan, indexes);
        }
        // The planner of each server chooses among its indexes.
        spi.read(&scan.text, &scan.values()).first()?.int8(1)
    }
}
