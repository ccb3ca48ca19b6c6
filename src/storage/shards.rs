//! Tables that Citus distributes. Their entities are in shards, relations on several servers: the table itself is
//! empty. Only statements reach all shards. Local shards are read as tables, and [written](super::shard_writes).

use pgrx::prelude::*;
use table_service_model::partition_hash::partition_hash;

use super::known::locked_shard;
use super::placement::{Placement, Written};
use super::shard_writes;
use super::statement::IndexScan;
use crate::postgres::{Connection, TextArg, citus};

/// The entities are in shards.
pub struct Distributed;

impl Placement for Distributed {
    /// Citus locks no more than the shard to read. Its other sessions may have written rows that this one must see.
    fn relation_to_read(&self, table: pg_sys::Oid, partition_key: Option<TextArg<'_>>) -> Option<pg_sys::Oid> {
        let shard = locked_shard(table, partition_hash(partition_key?.get()), pg_sys::AccessShareLock)?;
        (!citus::coordinates_transaction()).then_some(shard)
    }

    fn relation_to_write(&self, table: pg_sys::Oid, key: TextArg<'_>, written: Written) -> Option<pg_sys::Oid> {
        match written {
            Written::One => shard_writes::relation_to_write(table, key),
            // Citus locks no more before the statement that writes the first entity.
            Written::Many => locked_shard(table, partition_hash(key.get()), pg_sys::AccessShareLock),
        }
    }

    fn note_write(&self, table: pg_sys::Oid, partition_key: TextArg<'_>) {
        shard_writes::note(table, partition_key);
    }

    /// Citus may move the shard: then statements write the new placement, which nobody has locked.
    fn entities_stay(&self) -> bool {
        false
    }

    /// Citus would move the rows of arrays through files, and count wrongly how many it inserted.
    fn inserts_arrays(&self) -> bool {
        false
    }

    fn top_node(&self, _: pg_sys::NodeTag) -> pg_sys::NodeTag {
        pg_sys::NodeTag::T_CustomScan
    }

    /// The planner of each server chooses among its indexes.
    fn count_through(&self, spi: &Connection, scan: &IndexScan, _: &[pg_sys::Oid]) -> Option<i64> {
        spi.read(&scan.text, &scan.values()).first()?.int8(1)
    }
}
