//! Tables on the servers of a Citus cluster.

use pgrx::prelude::*;

use table_service_model::partition_hash;

use super::results::ShardMap;
use crate::engine::distribution;
use crate::postgres::{Call, OrRaise, TextArg, citus, connect, raising};
use crate::storage::arguments::{prevent_if_read_only, required};
use crate::storage::result_set::ResultSet;
use crate::storage::table::{Table, TableLock};

/// Distributes the tables of the service over the servers of a Citus cluster: those that exist, with their entities, and
/// those that `create_table` will create. Each has `shard_count` shards. A later call keeps the number of the first one.
///
/// Raises `NotImplemented` if Citus is not in the database or is older than 14, and on a worker. The caller needs the
/// rights of the tables' owners, and may create tables in the schema `table_service`.
#[pg_extern]
fn enable_citus(shard_count: default!(Option<i32>, "32")) {
    prevent_if_read_only(c"enable_citus()");
    required("shard_count", shard_count)
        .and_then(distribution::enable)
        .or_raise();
}

/// Makes all tables of the service tables of the coordinator again, with their entities, and those that `create_table`
/// will create.
///
/// Raises `NotImplemented` as `enable_citus`.
#[pg_extern]
fn disable_citus() {
    prevent_if_read_only(c"disable_citus()");
    distribution::disable().or_raise();
}

/// Returns which server of a Citus cluster has which partitions of a table: for each range of hashes the server, by the name and the
/// port that the other servers use, and whether it is this one. `partition_hash` gives the hash of a partition. A table that
/// is not distributed has no rows. The map is a hint: every server reads and writes all partitions.
///
/// Raises `TableNotFound`.
#[pg_extern(stable, parallel_restricted)]
fn shard_map(table_name: Option<TextArg<'_>>, call: Call<'_>) -> ShardMap {
    raising(|| {
        let table = Table::open(required("table_name", table_name)?.get(), TableLock::Read)?;
        let mut result = ResultSet::open(call);
        connect(|spi| citus::placements(spi, table.oid(), |placement| result.push(placement)));
        Ok(ShardMap)
    })
}

/// Returns the hash of a PartitionKey, by which Citus distributes partitions: the ranges of `shard_map` are of such hashes.
#[pg_extern(immutable, strict, parallel_safe)]
fn partition_hash(partition_key: TextArg<'_>) -> i32 {
    partition_hash::partition_hash(partition_key.get())
}
