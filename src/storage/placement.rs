//! The differences of a table that Citus distributes: its entities are in shards, relations on several servers. The table itself is empty.
//!
//! Only statements reach all shards. Those that this server has can be read as a plain table, and written after a statement has written them,
//! or by the only call of a transaction.

use std::cell::Cell;

use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::partition_hash::partition_hash;

use super::known::{self, LocalShard};
use super::table::Table;
use crate::postgres::citus;
use crate::postgres::relation::{Relation, is_locked_to_write, with_relation};
use crate::postgres::settings;
use crate::postgres::spi::connect;
use crate::postgres::types::TextArg;

impl Table {
    /// Returns whether Citus keeps the entities on other servers.
    pub fn is_distributed(&self) -> bool {
        self.is_distributed
    }

    /// Runs `f` with the relation, if it has the entities itself. The caller has locked the table.
    pub fn with_relation<R>(&self, f: impl FnOnce(Relation<'_>) -> R) -> Option<R> {
        (!self.is_distributed).then(|| with_relation(self.oid(), f))
    }

    /// Returns the relation that has the entities of a partition, locked to be read: the table itself, or the shard of a distributed table if
    /// this server has it and no other one. Citus locks no more than that to read. The caller has locked the table.
    pub(super) fn relation_of(&self, partition_key: Option<TextArg<'_>>) -> Option<pg_sys::Oid> {
        if !self.is_distributed {
            return Some(self.oid());
        }
        self.locked_shard(partition_hash(partition_key?.get()), pg_sys::AccessShareLock)
    }

    /// Returns the relation that has the entities of a partition, locked to write one of them: the table itself, or the local shard of a
    /// distributed table. A shard is written so by the only call of a transaction, because Citus does not learn of it: what it
    /// did in other sessions for the transaction would neither see the write nor end with it. The caller has locked the table.
    pub(super) fn relation_to_write(&self, partition_key: TextArg<'_>) -> Option<pg_sys::Oid> {
        if !self.is_distributed {
            return Some(self.oid());
        }
        let is_only_call = || is_single_call() && has_not_begun() && !citus::coordinates_transaction();
        let partition = partition_hash(partition_key.get());
        let lock = self.local_shard(partition, |shard| shard.is_lock_known.get().then_some(shard.lock));
        let lock = lock.flatten().filter(|_| is_only_call())?;
        // A shard that moves keeps its writers waiting here, as it does those of Citus.
        lock.take();
        let shard = self.locked_shard(partition, pg_sys::RowExclusiveLock)?;
        // The split of another shard gives the locks other names.
        let is_its_lock = self.local_shard(partition, |shard| shard.is_lock_known.get() && shard.lock == lock);
        (is_its_lock == Some(true)).then_some(shard)
    }

    /// Notes after a statement that wrote an entity whether Citus has written it in this session, and keeps shards from moving as this file
    /// does.
    pub fn note_write(&self, partition_key: TextArg<'_>) {
        // In a longer transaction the lock could be that of another shard.
        if !self.is_distributed || !is_single_call() || is_in_block() {
            return;
        }
        let partition = partition_hash(partition_key.get());
        if self.local_shard(partition, |shard| shard.is_lock_known.get()) == Some(false)
            && let Some(shard) = self.locked_shard(partition, pg_sys::AccessShareLock)
            && with_relation(shard, is_locked_to_write)
        {
            self.local_shard(partition, |shard| shard.is_lock_known.set(shard.lock.is_held()));
        }
    }

    /// Locks the local shard of a partition. `None` if there is none, also since this transaction locked it first.
    fn locked_shard(&self, partition: i32, mode: u32) -> Option<pg_sys::Oid> {
        let mode = mode as pg_sys::LOCKMODE;
        let relation = |shard: &LocalShard| shard.relation;
        let shard = self.local_shard(partition, relation)?;
        // SAFETY: the functions lock any OID, and invalidation messages may be accepted at any time in a transaction.
        unsafe {
            pg_sys::LockRelationOid(shard, mode);
            pg_sys::AcceptInvalidationMessages();
            if self.local_shard(partition, relation) == Some(shard) {
                return Some(shard);
            }
            pg_sys::UnlockRelationOid(shard, mode);
        }
        None
    }

    fn local_shard<R>(&self, partition: i32, take: impl Fn(&LocalShard) -> R) -> Option<R> {
        let look_up = || {
            let (mut shards, citus_major) = (Vec::new(), citus::major_for_direct_access());
            connect(|spi| {
                citus::local_shards(spi, self.oid(), |hashes, relation, lock| {
                    shards.push(LocalShard {
                        hashes,
                        relation,
                        lock,
                        citus_major,
                        is_lock_known: Cell::new(false),
                    });
                });
            });
            shards.into()
        };
        let newest = settings::direct_access_citus_major();
        known::shards(self.oid(), look_up, |shards| {
            let has = |shard: &&LocalShard| shard.hashes.contains(&partition) && shard.citus_major <= newest;
            shards.iter().find(has).map(&take)
        })
    }

    /// Returns whether a read of a shard in this session finds what this transaction has written. Citus may have written it in another session.
    pub(super) fn shows_own_writes(&self) -> bool {
        !self.is_distributed || !citus::coordinates_transaction()
    }

    /// Returns whether the entities of a partition may be written in this relation, which [`Table::relation_of`] has returned. In a shard they
    /// may after a statement of Citus has written there in this session: then Citus has the locks that keep the shard from moving, and lets
    /// all further statements of this transaction on the shard run in this session.
    pub(super) fn is_writable(&self, relation: Relation<'_>, partition_key: TextArg<'_>) -> bool {
        !self.is_distributed
            || is_locked_to_write(relation) && self.relation_of(Some(partition_key)) == Some(relation.oid())
    }

    /// Returns whether a lock on an entity lasts until this transaction writes it. It does not if Citus moves the shard meanwhile: then the
    /// new placement is written, which nobody has locked. So only the version that was locked may be written.
    pub fn keeps_locks(&self) -> bool {
        !self.is_distributed
    }

    /// Returns whether statements that insert take arrays. Citus would move the rows of arrays through files, and count wrongly how many it
    /// inserted.
    pub fn inserts_arrays(&self) -> bool {
        !self.is_distributed
    }

    /// Refuses a distributed table.
    ///
    /// # Errors
    /// `NotImplemented`, with this reason.
    pub fn require_local(&self, reason: impl FnOnce() -> String) -> Result<(), Error> {
        match self.is_distributed {
            true => Err(Error::NotImplemented { reason: reason() }),
            false => Ok(()),
        }
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
