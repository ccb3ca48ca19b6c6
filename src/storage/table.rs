//! The table handle: finds and locks a table of the service.
//!
//! The tables of the service are the relations in `table_service_data` that are `OF table_service.entity`. On the workers
//! of a Citus cluster, a distributed table is not `OF` a type, and is known by its columns. There is no second catalog.

use std::ffi::CStr;

use md5::{Digest, Md5};
use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::table_name::{self, Slips};

use super::known::{self, KnownTable};
use super::name::QualifiedName;
use super::names;
use crate::postgres::catalog_scan::scan;
use crate::postgres::citus::{self, is_table};
use crate::postgres::relation::is_before_row;
use crate::postgres::types::name_bytes;
use crate::postgres::{Relation, Rows, catalog, privileges, with_relation};

/// A table of the service.
pub struct Table(KnownTable);

impl Table {
    /// Returns the OID.
    pub fn oid(&self) -> pg_sys::Oid {
        self.0.oid
    }

    /// Returns the name as it is stored.
    pub fn name(&self) -> &QualifiedName {
        &self.0.name
    }

    /// Returns whether Citus keeps the entities in shards. [`super::placement`] has most of the differences.
    pub fn is_distributed(&self) -> bool {
        self.0.is_distributed
    }

    /// Runs `f` with the relation, if it has the entities itself. The caller has locked the table.
    pub fn with_relation<R>(&self, f: impl FnOnce(Relation<'_>) -> R) -> Option<R> {
        (!self.is_distributed()).then(|| with_relation(self.oid(), f))
    }

    /// Returns the table with this OID, if it is a table of the service. The caller has named it in a statement, which has locked it.
    pub fn of(oid: pg_sys::Oid) -> Option<Table> {
        table_by_oid(oid)
    }

    /// Returns the table with this OID, if it is a table of the service. The caller has not named it, so nothing that is stored with it
    /// may run as the caller ([`visit`](crate::postgres::visit)).
    pub fn in_catalog(oid: pg_sys::Oid) -> Option<Table> {
        table_by_oid(oid)
    }

    /// Returns the tables of the service in the first column of rows, as [`Table::in_catalog`] does.
    pub fn all_in_catalog(rows: &Rows<'_>) -> Vec<Table> {
        let relations = rows.iter().filter_map(|row| row.relation(1));
        relations.filter_map(Table::in_catalog).collect()
    }

    /// Returns whether a trigger or a rule may prevent an insert. The caller must have locked the table.
    pub fn may_suppress_inserts(&self) -> bool {
        with_relation(self.oid(), |relation| {
            relation.has_rules() || relation.has_trigger(pg_sys::TRIGGER_TYPE_INSERT, is_before_row)
        })
    }

    /// Returns whether the caller may read or write entities of the table.
    pub fn has_any_right_to_entities(&self) -> bool {
        const RIGHTS: u32 = pg_sys::ACL_SELECT | pg_sys::ACL_INSERT | pg_sys::ACL_UPDATE | pg_sys::ACL_DELETE;
        privileges::has_any(self.oid(), RIGHTS)
    }

    /// Finds the table with this name in any case, and locks it. It takes the lock of a statement that reads or writes
    /// the table, so that the table still exists when the statement runs.
    ///
    /// # Errors
    /// `InvalidResourceName` or `OutOfRangeInput` for an invalid table name, `TableNotFound`, and `AmbiguousTableName`.
    pub fn open(name: &str, lock: TableLock) -> Result<Table, Error> {
        Table::open_checked(name, lock, |_| {})
    }

    /// Does the same as [`Table::open`], for the owner only. Others get PostgreSQL's own error (42501) before they wait
    /// for the lock, because sessions that come later wait behind them.
    pub fn open_as_owner(name: &str, lock: TableLock) -> Result<Table, Error> {
        Table::open_checked(name, lock, |table| privileges::require_owner(table.oid()))
    }

    /// Does the same as [`Table::open`] with the lock of TRUNCATE, for callers that may truncate the table. Others get
    /// PostgreSQL's own error (42501) before they wait for the lock, because sessions that come later wait behind them.
    pub fn open_to_truncate(name: &str) -> Result<Table, Error> {
        Table::open_checked(name, TableLock::Drop, |table| {
            privileges::require(table.oid(), pg_sys::ACL_TRUNCATE)
        })
    }

    /// Does the same as [`Table::open`] with the lock of DROP TABLE, for callers that may drop the table. Others get
    /// PostgreSQL's own error (42501) before they wait for the lock.
    pub fn open_to_drop(name: &str) -> Result<Table, Error> {
        Table::open_checked(name, TableLock::Drop, |table| {
            if !privileges::owns_schema(catalog::data_schema()) {
                privileges::require_owner(table.oid());
            }
        })
    }

    fn open_checked(name: &str, lock: TableLock, check: impl Fn(&Table)) -> Result<Table, Error> {
        let mode = lock.mode();
        table_name::check_form(name)?;
        loop {
            let table = Table::find(name)?.ok_or_else(|| not_found(Error::TableNotFound, name))?;
            check(&table);
            // SAFETY: the functions lock any OID, and the counter is a global of this process. PostgreSQL opens
            // relations by name in the same way: if the catalogs have changed during the wait for the lock, it looks
            // the name up again.
            unsafe {
                let before = pg_sys::SharedInvalidMessageCounter;
                pg_sys::LockRelationOid(table.oid(), mode);
                if before == pg_sys::SharedInvalidMessageCounter {
                    return Ok(table);
                }
                // The table may have been renamed to another spelling.
                if let Some(again) = Table::find(name)?.filter(|again| again.oid() == table.oid()) {
                    return Ok(again);
                }
                pg_sys::UnlockRelationOid(table.oid(), mode);
            }
        }
    }

    /// Does the same as [`Table::open`] to write, if nobody has to wait for that. Returns `None` if somebody holds
    /// another lock, or has just renamed or dropped it.
    ///
    /// # Errors
    /// Those of [`Table::open`].
    pub fn open_without_waiting(name: &str) -> Result<Option<Table>, Error> {
        table_name::check_form(name)?;
        let table = Table::find(name)?.ok_or_else(|| not_found(Error::TableNotFound, name))?;
        let locked = table.try_lock(TableLock::Write);
        Ok(locked.filter(|locked| same_name(locked.name().name(), name)))
    }

    /// Locks the table if nobody has to wait for that. Returns it as it is now; `None` if somebody holds another lock, or if it is gone.
    pub fn try_lock(&self, lock: TableLock) -> Option<Table> {
        // SAFETY: the function locks any OID.
        let is_locked = unsafe { pg_sys::ConditionalLockRelationOid(self.oid(), lock.mode()) };
        is_locked.then(|| table_by_oid(self.oid())).flatten()
    }

    /// Gives back a lock that [`Table::open`] took, before the transaction ends.
    pub fn unlock(&self, lock: TableLock) {
        // SAFETY: the caller holds the lock.
        unsafe { pg_sys::UnlockRelationOid(self.oid(), lock.mode()) };
    }

    /// Locks this table again, even if it was renamed.
    ///
    /// # Errors
    /// `TableNotFound` if it is gone.
    pub fn lock(&self, lock: TableLock) -> Result<Table, Error> {
        // SAFETY: the function locks any OID.
        unsafe { pg_sys::LockRelationOid(self.oid(), lock.mode()) };
        table_by_oid(self.oid()).ok_or_else(|| not_found(Error::TableNotFound, self.name().name()))
    }

    /// Finds the table with this name in any case, as the catalogs are now.
    ///
    /// # Errors
    /// `AmbiguousTableName` if several tables have it. None of them is taken, even if one has this spelling.
    pub fn find(name: &str) -> Result<Option<Table>, Error> {
        let look_up = || {
            let mut tables = names::spellings_of(name);
            tables.retain(|&(oid, _)| is_table(oid));
            match tables.as_slice() {
                [] => Ok(None),
                [(oid, stored)] => Ok(Some(known(*oid, stored.as_str()))),
                [..] => Err(ambiguous(&tables)),
            }
        };
        Ok(known::table(name, look_up)?.map(Table))
    }
}

fn ambiguous(tables: &[(pg_sys::Oid, String)]) -> Error {
    let names: Vec<String> = tables.iter().map(|(_, name)| format!("\"{name}\"")).collect();
    Error::TableNameAmbiguous {
        names: names.join(" and "),
    }
}

/// The lock that a function takes on a table. The function's statements take the same lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableLock {
    Read,
    Write,
    /// To create an index. CREATE INDEX and ANALYZE need no other lock afterwards, so two sessions cannot deadlock.
    Define,
    /// To drop an index, or to truncate the table.
    Drop,
}

impl TableLock {
    fn mode(self) -> pg_sys::LOCKMODE {
        let lock = match self {
            TableLock::Read => pg_sys::AccessShareLock,
            TableLock::Write => pg_sys::RowExclusiveLock,
            TableLock::Define => pg_sys::ShareRowExclusiveLock,
            TableLock::Drop => pg_sys::AccessExclusiveLock,
        };
        lock as pg_sys::LOCKMODE
    }
}

/// Returns this error, which says that no table has this name. It adds the nearest name of a table with entities that
/// the caller may read or write.
pub fn not_found(error: Error, name: &str) -> Error {
    let (mut all, mut nearest) = (Slips::of(name), None);
    let each = |class: &pg_sys::FormData_pg_class| {
        // A name that is not UTF-8 is not the name of a table of the service.
        let stored = std::str::from_utf8(name_bytes(&class.relname)).unwrap_or_default();
        if let Some(slips) = all.to(stored) {
            let found = Some((slips, stored.to_owned()));
            if (nearest.is_none() || found < nearest)
                && table_by_oid(class.oid).is_some_and(|table| table.has_any_right_to_entities())
            {
                nearest = found;
            }
        }
        all.is_over().then_some(())
    };
    let in_schema = (pg_sys::Anum_pg_class_relnamespace, catalog::data_schema());
    // SAFETY: the rows of `pg_class` are of this type.
    unsafe { scan(pg_sys::RelationRelationId, None, in_schema, each) };
    error.of_missing_table(name, nearest.as_ref().map(|(_, name)| name.as_str()))
}

/// Returns the table with this OID, if it is a table of the service.
fn table_by_oid(oid: pg_sys::Oid) -> Option<Table> {
    // SAFETY: the function takes any OID. It returns NULL or a palloc'ed C string.
    let name = unsafe {
        let name = pg_sys::get_rel_name(oid);
        if name.is_null() {
            return None;
        }
        CStr::from_ptr(name).to_str().ok()?
    };
    is_table(oid).then(|| Table(known(oid, name)))
}

/// Returns the description of a table of the service from the catalogs.
fn known(oid: pg_sys::Oid, name: &str) -> KnownTable {
    KnownTable {
        oid,
        name: QualifiedName::new(name.into()),
        is_distributed: citus::is_distributed(oid),
    }
}

/// Returns 32 hexadecimal digits for a name that is too long for PostgreSQL.
pub fn hash(name: &str) -> String {
    format!("{:032x}", u128::from_be_bytes(Md5::digest(name).into()))
}

/// Returns whether two spellings mean one table.
pub fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// The longest name that stays valid in PostgreSQL when Citus appends a shard's number.
pub const SHARDED_NAME_BYTES: usize = 50;

/// Returns a name for the primary key of a new table that people can read: `employees_pkey`, or `employees_pkey_1` and
/// so on if somebody has given the name to something else, as PostgreSQL does. A long name is replaced by its hash. The
/// name is taken until the end of the transaction.
pub fn free_primary_key_name(table: &str) -> String {
    let table = table_name::fold(table);
    let readable = format!("{table}_pkey");
    let first = match readable.len() + "_99".len() <= SHARDED_NAME_BYTES {
        true => readable,
        false => format!("pk_{}", hash(&table)),
    };
    names::numbered(|suffix| format!("{first}{suffix}"), names::take)
}
