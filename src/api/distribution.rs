//! Tables on the servers of a Citus cluster.

use pgrx::prelude::*;

use crate::engine::distribution;
use crate::postgres::error::OrRaise;
use crate::storage::arguments::{prevent_if_read_only, required};

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
