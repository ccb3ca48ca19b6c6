//! Writes into the shards that this server has, without a statement. Citus does not learn of them: its work in other sessions
//! for the transaction would neither see them nor end with them.
//!
//! Only [`super::placement`] uses this file. Without it these writes would be statements, with the same results.

use pgrx::prelude::*;
use table_service_model::partition_hash::partition_hash;

use super::known::{local_shard, locked_shard};
use crate::postgres::relation::is_locked_to_write;
use crate::postgres::{TextArg, citus, settings, with_relation};

/// Returns the shard of a partition, locked to write one entity in the only call of a transaction.
pub fn relation_to_write(table: pg_sys::Oid, partition_key: TextArg<'_>) -> Option<pg_sys::Oid> {
    let is_only_call = || is_single_call() && has_not_begun() && !citus::coordinates_transaction();
    let partition = partition_hash(partition_key.get());
    let lock = local_shard(table, partition, |shard| {
        shard.is_lock_known.get().then_some(shard.lock)
    });
    let lock = lock.flatten().filter(|_| is_only_call())?;
    // A shard that moves makes its writers wait here, as it makes those of Citus wait.
    lock.take();
    let shard = locked_shard(table, partition, pg_sys::RowExclusiveLock)?;
    // The split of another shard gives the locks other names.
    let is_its_lock = local_shard(table, partition, |shard| {
        shard.is_lock_known.get() && shard.lock == lock
    });
    (is_its_lock == Some(true)).then_some(shard)
}

/// Notes, after a statement that wrote an entity, whether Citus has written it in this session, and has taken the same
/// lock as this file to keep the shard from moving.
pub fn note(table: pg_sys::Oid, partition_key: TextArg<'_>) {
    // In a longer transaction the lock could be that of another shard.
    if !is_single_call() || is_in_block() {
        return;
    }
    let partition = partition_hash(partition_key.get());
    if local_shard(table, partition, |shard| shard.is_lock_known.get()) == Some(false)
        && let Some(shard) = locked_shard(table, partition, pg_sys::AccessShareLock)
        && with_relation(shard, is_locked_to_write)
    {
        local_shard(table, partition, |shard| shard.is_lock_known.set(shard.lock.is_held()));
    }
}

/// Returns whether the session says that its transactions are single calls, and Citus writes local shards in it.
fn is_single_call() -> bool {
    settings::single_call_transactions() && citus::executes_locally()
}

/// Returns whether this transaction has written nothing and ends after the running statement, as far as that is known.
fn has_not_begun() -> bool {
    // SAFETY: the function only looks at the state of the transaction.
    !is_in_block() && unsafe { pg_sys::GetTopTransactionIdIfAny() } == pg_sys::InvalidTransactionId
}

fn is_in_block() -> bool {
    // SAFETY: as above.
    unsafe { pg_sys::IsTransactionBlock() }
}
