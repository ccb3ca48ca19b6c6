//! Which entities of a table have expired. They are gone for every function, whether they are still stored or not.
//!
//! The table's valid expiry indexes say when entities expire; nothing else does. A read takes the clock once, when it
//! begins, and tests every row. A write takes it when it holds the lock on the row: nobody can renew the entity after
//! that, and the write cannot bring back an entity that was already gone.

use std::sync::Arc;

use table_service_model::expiry::{self, Alive};
use table_service_model::{Expiry, Properties};

use super::indexes;
use super::table::Table;
use crate::postgres::now;

/// When the entities of a table expire. With several expiries the earliest counts.
#[derive(Clone, Default)]
pub struct Expiries(Arc<[Expiry]>);

impl Expiries {
    /// Returns the expiries of a table that the caller has locked.
    pub fn of(table: &Table) -> Expiries {
        Expiries(indexes::expiries(table.oid()))
    }

    /// Returns whether entities never expire.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the expiries, each once.
    pub fn iter(&self) -> impl Iterator<Item = &Expiry> {
        self.0.iter()
    }

    /// Returns the test for a read that begins now; `None` if entities never expire.
    pub fn alive(&self) -> Option<Alive> {
        (!self.is_empty()).then(|| Alive::new(self.0.clone(), now()))
    }

    /// Returns whether an entity with this Timestamp, in microseconds since 2000-01-01, has expired by now. A write asks this
    /// under the row's lock.
    pub fn have_passed(&self, timestamp: i64, properties: Properties<'_>) -> bool {
        !self.is_empty() && expiry::have_passed(&self.0, now(), timestamp, properties)
    }
}
