//! The differences of a table that Citus distributes: its entities are in shards, relations on several servers. The table itself is empty.
//!
//! Only statements reach all shards. Those that this server has can be read as a plain table, and written after a statement has written them.

use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::partition_hash::partition_hash;

use super::known::{self, LocalShard};
use super::table::Table;
use crate::postgres::citus;
use crate::postgres::relation::{Relation, is_locked_to_write, with_relation};
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
        const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        if !self.is_distributed {
            return Some(self.oid());
        }
        let partition = partition_hash(partition_key?.get());
        let shard = self.local_shard(partition)?;
        // SAFETY: the functions lock any OID, and invalidation messages may be accepted at any time in a transaction.
        unsafe {
            pg_sys::LockRelationOid(shard, LOCK);
            // The shard may have moved, also since this transaction locked it first.
            pg_sys::AcceptInvalidationMessages();
            if self.local_shard(partition) == Some(shard) {
                return Some(shard);
            }
            pg_sys::UnlockRelationOid(shard, LOCK);
        }
        None
    }

    fn local_shard(&self, partition: i32) -> Option<pg_sys::Oid> {
        let look_up = || {
            let mut shards = Vec::new();
            connect(|spi| {
                citus::local_shards(spi, self.oid(), |hashes, relation| {
                    shards.push(LocalShard { hashes, relation });
                });
            });
            shards.into()
        };
        known::shards(self.oid(), look_up, |shards| {
            let has = |shard: &&LocalShard| shard.hashes.contains(&partition);
            shards.iter().find(has).map(|shard| shard.relation)
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
