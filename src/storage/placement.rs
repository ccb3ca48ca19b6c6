//! The differences of a table that Citus distributes: its entities are on other servers, and only statements reach them. The table itself is
//! empty here.

use table_service_model::Error;

use super::indexes;
use super::table::{Table, TableLock};
use crate::postgres::relation::{Relation, with_relation};

impl Table {
    /// Returns whether Citus keeps the entities on other servers.
    pub fn is_distributed(&self) -> bool {
        self.is_distributed
    }

    /// Runs `f` with the relation, if it has the entities itself. The caller has locked the table.
    pub fn with_relation<R>(&self, f: impl FnOnce(Relation<'_>) -> R) -> Option<R> {
        (!self.is_distributed).then(|| with_relation(self.oid(), f))
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

    /// Refuses to read and write entities of a distributed table that has an expiry. Somebody has made one of the other by hand:
    /// the functions refuse both.
    pub(super) fn with_expiry_it_keeps(self, lock: TableLock) -> Result<Table, Error> {
        let is_defined = matches!(lock, TableLock::Define | TableLock::Drop);
        if !is_defined && self.is_distributed && !indexes::expiries(self.oid()).is_empty() {
            self.require_local(|| {
                "Entities of distributed tables do not expire. Call drop_expiry for this table".to_owned()
            })?;
        }
        Ok(self)
    }
}
