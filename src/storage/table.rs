//! The table handle: finds and locks a table of the service.
//!
//! The tables of the service are the relations in `table_service_data` that are `OF table_service.entity`. On the workers
//! of a Citus cluster, a distributed table is not `OF` a type, and is known by its columns. There is no second catalog.

use std::ffi::{CStr, CString};
use std::rc::Rc;

use md5::{Digest, Md5};
use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::table_name::{self, Slips};

use super::known::{self, KnownTable};
use super::name::QualifiedName;
use crate::postgres::catalog;
use crate::postgres::citus::{self, is_table};
use crate::postgres::privileges;
use crate::postgres::relation::{is_before_row, with_relation};
use crate::postgres::spi::Rows;
use crate::postgres::types::name_bytes;

/// A table of the service.
pub struct Table {
    oid: pg_sys::Oid,
    name: QualifiedName,
    pub(super) is_distributed: bool,
}

impl Table {
    fn new(table: KnownTable, name: Rc<str>) -> Table {
        Table {
            oid: table.oid,
            name: QualifiedName::new(name),
            is_distributed: table.is_distributed,
        }
    }

    pub fn oid(&self) -> pg_sys::Oid {
        self.oid
    }

    /// Returns the name as it is stored.
    pub fn name(&self) -> &QualifiedName {
        &self.name
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
        with_relation(self.oid, |relation| {
            relation.has_rules() || relation.has_trigger(pg_sys::TRIGGER_TYPE_INSERT, is_before_row)
        })
    }

    /// Returns whether the caller may read or write entities of the table.
    pub fn has_any_right_to_entities(&self) -> bool {
        const RIGHTS: u32 = pg_sys::ACL_SELECT | pg_sys::ACL_INSERT | pg_sys::ACL_UPDATE | pg_sys::ACL_DELETE;
        privileges::has_any(self.oid, RIGHTS)
    }

    /// Finds the table with this name in any case, and locks it. It takes the lock of a statement that reads or writes
    /// the table, so that the table still exists when the statement runs.
    ///
    /// # Errors
    /// `InvalidResourceName` or `OutOfRangeInput` for an invalid table name, and `TableNotFound`.
    pub fn open(name: &str, lock: TableLock) -> Result<Table, Error> {
        Table::open_checked(name, lock, |_| {})
    }

    /// Does what [`Table::open`] does, for the owner only. Others get PostgreSQL's own error (42501) before they wait for
    /// the lock, because sessions that come later wait behind them.
    pub fn open_as_owner(name: &str, lock: TableLock) -> Result<Table, Error> {
        Table::open_checked(name, lock, |table| privileges::require_owner(table.oid))
    }

    /// Does what [`Table::open`] does with the lock of TRUNCATE, for callers that may truncate the table. Others get
    /// PostgreSQL's own error (42501) before they wait for the lock, because sessions that come later wait behind them.
    pub fn open_to_truncate(name: &str) -> Result<Table, Error> {
        Table::open_checked(name, TableLock::Drop, |table| {
            privileges::require(table.oid, pg_sys::ACL_TRUNCATE)
        })
    }

    fn open_checked(name: &str, lock: TableLock, check: impl Fn(&Table)) -> Result<Table, Error> {
        let mode = lock.mode();
        table_name::check_form(name)?;
        loop {
            let table = Table::find(name).ok_or_else(|| not_found(Error::TableNotFound, name))?;
            check(&table);
            // SAFETY: the functions lock any OID, and the counter is a global of this process. PostgreSQL opens
            // relations by name in the same way: if the catalogs have changed during the wait for the lock, it looks
            // the name up again.
            unsafe {
                let before = pg_sys::SharedInvalidMessageCounter;
                pg_sys::LockRelationOid(table.oid, mode);
                if before == pg_sys::SharedInvalidMessageCounter {
                    return Ok(table);
                }
                // The table may have been renamed to another spelling.
                if let Some(again) = Table::find(name).filter(|again| again.oid == table.oid) {
                    return Ok(again);
                }
                pg_sys::UnlockRelationOid(table.oid, mode);
            }
        }
    }

    /// Locks the table if nobody has to wait for that. Returns it as it is now; `None` if somebody holds another lock, or if it is gone.
    pub fn try_lock(&self, lock: TableLock) -> Option<Table> {
        // SAFETY: the function locks any OID.
        let is_locked = unsafe { pg_sys::ConditionalLockRelationOid(self.oid, lock.mode()) };
        is_locked.then(|| table_by_oid(self.oid)).flatten()
    }

    /// Gives back a lock that [`Table::open`] took, before the transaction ends.
    pub fn unlock(self, lock: TableLock) {
        // SAFETY: the caller holds the lock.
        unsafe { pg_sys::UnlockRelationOid(self.oid, lock.mode()) };
    }

    /// Finds the table with this name in any case.
    pub fn find(name: &str) -> Option<Table> {
        let probe = || by_spelling(name).or_else(|| by_index(name));
        probe()
            .or_else(|| {
                // Another session may have committed the table after this session last processed invalidation messages.
                // SAFETY: invalidation messages may be accepted at any time in a transaction. The counter is a global
                // of this process.
                let changed = unsafe {
                    let before = pg_sys::SharedInvalidMessageCounter;
                    pg_sys::AcceptInvalidationMessages();
                    before != pg_sys::SharedInvalidMessageCounter
                };
                if changed { probe() } else { None }
            })
            .or_else(|| by_scan(name))
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

/// Finds a table by the spelling that is stored, the usual case.
fn by_spelling(name: &str) -> Option<Table> {
    let look_up = || relation_in_data_schema(name).filter(|&oid| is_table(oid)).map(known);
    let (name, table) = known::table(name, look_up)?;
    Some(Table::new(table, name))
}

/// Finds a table by another spelling: the primary key's name is derived from the folded name. Tables that versions before
/// 0.3.0 created have a hash there, whatever the length of the name is.
fn by_index(name: &str) -> Option<Table> {
    let first = [readable_primary_key(name), Some(hashed_primary_key(name))];
    first
        .into_iter()
        .flatten()
        .flat_map(|first| numbered(first).map_while(|index| relation_in_data_schema(&index)))
        .find_map(|index| table_of_index(index).filter(|table| same_name(table.name.name(), name)))
}

/// Returns the table that an index belongs to, if it is a table of the service.
fn table_of_index(index: pg_sys::Oid) -> Option<Table> {
    // SAFETY: the function takes any OID. With `missing_ok` it returns InvalidOid if the relation is not an index.
    table_by_oid(unsafe { pg_sys::IndexGetRelation(index, true) })
}

/// Finds a table by a scan of `pg_class`. After a user's RENAME the primary key still has the old name. Only this scan
/// shows that no such table exists.
fn by_scan(name: &str) -> Option<Table> {
    scan(|oid, stored| (same_name(stored, name) && is_table(oid)).then(|| Table::new(known(oid), stored.into())))
}

/// Returns this error, which is that there is no table of this name, with the nearest name of a table whose entities the
/// caller may read or write.
pub fn not_found(error: Error, name: &str) -> Error {
    let (mut all, mut nearest) = (Slips::of(name), None);
    scan(|oid, stored| {
        if let Some(slips) = all.to(stored) {
            let found = Some((slips, stored.to_owned()));
            if (nearest.is_none() || found < nearest)
                && table_by_oid(oid).is_some_and(|table| table.has_any_right_to_entities())
            {
                nearest = found;
            }
        }
        all.is_over().then_some(())
    });
    error.of_missing_table(name, nearest.as_ref().map(|(_, name)| name.as_str()))
}

/// Calls `take` with each relation in `table_service_data` and its name, until it returns something.
fn scan<R>(mut take: impl FnMut(pg_sys::Oid, &str) -> Option<R>) -> Option<R> {
    let schema = catalog::data_schema();
    // SAFETY: a scan without a snapshot reads `pg_class` as it is now, whatever the transaction's snapshot is. Each
    // tuple is a row of `pg_class`, and its name is copied before the next one is fetched. The scan and the relation
    // are closed; after an error PostgreSQL closes them.
    unsafe {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let relation = pg_sys::table_open(pg_sys::RelationRelationId, lock);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_class_relnamespace as pg_sys::AttrNumber,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::RegProcedure::from(pg_sys::F_OIDEQ),
            schema.into(),
        );
        let scan = pg_sys::systable_beginscan(relation, pg_sys::InvalidOid, false, std::ptr::null_mut(), 1, &mut key);
        let mut found = None;
        while found.is_none() {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let class = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
            // A name that is not UTF-8 is not the name of a table of the service.
            let stored = std::str::from_utf8(name_bytes(&(*class).relname));
            found = stored.ok().and_then(|stored| take((*class).oid, stored));
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(relation, lock);
        found
    }
}

/// Returns the table with this OID, if it is a table of the service.
fn table_by_oid(oid: pg_sys::Oid) -> Option<Table> {
    // SAFETY: the function takes any OID. It returns NULL or a palloc'ed C string.
    let name = unsafe {
        let name = pg_sys::get_rel_name(oid);
        if name.is_null() {
            return None;
        }
        CStr::from_ptr(name).to_str().ok()?.into()
    };
    is_table(oid).then(|| Table::new(known(oid), name))
}

/// Returns the relation of any kind in `table_service_data` that has exactly this name.
pub fn relation_in_data_schema(name: &str) -> Option<pg_sys::Oid> {
    if name.len() >= pg_sys::NAMEDATALEN as usize {
        return None;
    }
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string, and the function takes any schema's OID.
    let oid = unsafe { pg_sys::get_relname_relid(name.as_ptr(), catalog::data_schema()) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// Returns what the catalogs say about a table of the service.
fn known(oid: pg_sys::Oid) -> KnownTable {
    KnownTable {
        oid,
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

/// The longest name that stays one of PostgreSQL's when Citus writes a shard's number behind it.
pub const SHARDED_NAME_BYTES: usize = 50;

/// How many names for a primary key are tried.
const PRIMARY_KEY_NAMES: u32 = 100;

/// Returns the first name for the primary key of a table that people can read: `employees_pkey`. `None` if it would be too
/// long. No table of the service has such a name, because tables have no underscore.
fn readable_primary_key(table: &str) -> Option<String> {
    let name = format!("{}_pkey", table_name::fold(table));
    (name.len() + "_99".len() <= SHARDED_NAME_BYTES).then_some(name)
}

/// Returns the first name for the primary key of a table whose name is long.
fn hashed_primary_key(table: &str) -> String {
    format!("pk_{}", hash(&table_name::fold(table)))
}

/// Returns the names that the primary key of a table may have, in the order in which they are tried.
///
/// All spellings of the table's name have the same list. So two concurrent creations collide in `pg_class`, whichever
/// commits first. The later names are used only if something else has the earlier ones: a renamed table keeps its
/// primary key's name, and users may give the name to other relations.
fn numbered(first: String) -> impl Iterator<Item = String> {
    (0..PRIMARY_KEY_NAMES).map(move |number| match number {
        0 => first.clone(),
        _ => format!("{first}_{number}"),
    })
}

/// Returns the name for the primary key of a new table.
///
/// # Errors
/// `TableAlreadyExists` if other relations have all the names.
pub fn free_primary_key_name(table: &str) -> Result<String, Error> {
    numbered(readable_primary_key(table).unwrap_or_else(|| hashed_primary_key(table)))
        .find(|name| {
            // The caller has found no table of this name. So a relation with this name belongs to something else,
            // unless a concurrent session has just created the table.
            relation_in_data_schema(name)
                .is_none_or(|index| table_of_index(index).is_some_and(|other| same_name(other.name.name(), table)))
        })
        .ok_or_else(|| Error::TableNameTaken {
            reason: "other relations have the names of its primary key".to_owned(),
        })
}
