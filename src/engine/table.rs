//! The table handle: how a table of the service is found and locked.
//!
//! The tables of the service are the relations in `table_service_data` that are `OF table_service.entity`. There is no second
//! catalog.

use std::ffi::{CStr, CString};

use md5::{Digest, Md5};
use pgrx::prelude::*;
use table_service_model::{Error, table_name};

use crate::postgres::catalog;
use crate::postgres::name::QualifiedName;
use crate::postgres::types::name_bytes;

/// A table of the service as it is stored.
pub struct Table {
    oid: pg_sys::Oid,
    name: QualifiedName,
}

impl Table {
    pub fn oid(&self) -> pg_sys::Oid {
        self.oid
    }

    /// The name as it is stored.
    pub fn name(&self) -> &QualifiedName {
        &self.name
    }

    /// Whether a trigger may keep an entity from being inserted. The table is locked.
    pub fn has_insert_trigger(&self) -> bool {
        // SAFETY: the table is locked, and closed again; the part of its entry in the relation cache is there or NULL.
        unsafe {
            let relation = pg_sys::table_open(self.oid, pg_sys::NoLock as pg_sys::LOCKMODE);
            let has_trigger = (*relation)
                .trigdesc
                .as_ref()
                .is_some_and(|triggers| triggers.trig_insert_before_row);
            pg_sys::table_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
            has_trigger
        }
    }

    /// Finds the table of this name in any case, and locks it as a statement that reads or writes it would, so that it
    /// is still there when the statement runs.
    ///
    /// # Errors
    /// `InvalidResourceName` and `OutOfRangeInput` for what cannot be a table's name, `TableNotFound`.
    pub fn open(name: &str, lock: TableLock) -> Result<Table, Error> {
        let lock = match lock {
            TableLock::Read => pg_sys::AccessShareLock,
            TableLock::Write => pg_sys::RowExclusiveLock,
        } as pg_sys::LOCKMODE;
        table_name::check_form(name)?;
        loop {
            let table = Table::find(name).ok_or(Error::TableNotFound)?;
            // SAFETY: PostgreSQL's own way to open by name: if the catalogs changed while we waited for the lock, look
            // again.
            unsafe {
                let before = pg_sys::SharedInvalidMessageCounter;
                pg_sys::LockRelationOid(table.oid, lock);
                if before == pg_sys::SharedInvalidMessageCounter {
                    return Ok(table);
                }
                // It may be spelled differently now.
                if let Some(again) = Table::find(name).filter(|again| again.oid == table.oid) {
                    return Ok(again);
                }
                pg_sys::UnlockRelationOid(table.oid, lock);
            }
        }
    }

    /// Finds the table of this name in any case.
    pub fn find(name: &str) -> Option<Table> {
        let probe = || by_spelling(name).or_else(|| by_index(name));
        probe()
            .or_else(|| {
                // Another session may have committed it since this one last looked at what has changed.
                // SAFETY: a catalog look-up in a transaction may do so at any time; the counter is this process's own.
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

/// The lock that a function takes on a table: that of the statements that it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableLock {
    Read,
    Write,
}

/// The usual case: the name as it is stored.
fn by_spelling(name: &str) -> Option<Table> {
    let (name, oid) = catalog::table(name, || relation_in_data_schema(name).filter(|&oid| is_table(oid)))?;
    Some(Table {
        oid,
        name: QualifiedName::new(name),
    })
}

/// Another spelling: the primary key's name is made of the folded name.
fn by_index(name: &str) -> Option<Table> {
    primary_key_names(name)
        .map_while(|index| relation_in_data_schema(&index))
        .find_map(|index| table_of_index(index).filter(|table| same_name(table.name.name(), name)))
}

/// The table that an index belongs to, if it is one of the service's.
fn table_of_index(index: pg_sys::Oid) -> Option<Table> {
    // SAFETY: the OID is that of a relation; for anything but an index the result is InvalidOid.
    table_by_oid(unsafe { pg_sys::IndexGetRelation(index, true) })
}

/// After a user's RENAME the primary key still has the old name. Also the way to say that there is no such table.
fn by_scan(name: &str) -> Option<Table> {
    let (entity, schema) = (catalog::entity_type(), catalog::data_schema());
    if entity == pg_sys::InvalidOid {
        return None;
    }
    // SAFETY: a scan of pg_class as it is now, whatever the snapshot of the transaction is. The tuples are its rows,
    // and what is opened is closed; an error closes it too.
    unsafe {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let relation = pg_sys::table_open(pg_sys::RelationRelationId, lock);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_class_reloftype as pg_sys::AttrNumber,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::RegProcedure::from(pg_sys::F_OIDEQ),
            entity.into(),
        );
        let scan = pg_sys::systable_beginscan(relation, pg_sys::InvalidOid, false, std::ptr::null_mut(), 1, &mut key);
        let mut found = None;
        while found.is_none() {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let class = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
            // A relation may have a name in another encoding. It is none of the service's.
            let stored = std::str::from_utf8(name_bytes(&(*class).relname));
            if let Ok(stored) = stored
                && (*class).relnamespace == schema
                && same_name(stored, name)
            {
                found = Some(Table {
                    oid: (*class).oid,
                    name: QualifiedName::new(stored.into()),
                });
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(relation, lock);
        found
    }
}

/// The table with this OID, if it is one of the service's.
fn table_by_oid(oid: pg_sys::Oid) -> Option<Table> {
    // SAFETY: a syscache look-up; the name is a palloc'ed copy or NULL.
    let name = unsafe {
        let name = pg_sys::get_rel_name(oid);
        if name.is_null() {
            return None;
        }
        QualifiedName::new(CStr::from_ptr(name).to_str().ok()?.into())
    };
    is_table(oid).then_some(Table { oid, name })
}

/// The relation in the schema of the tables of the service, of whatever kind, that has exactly this name.
fn relation_in_data_schema(name: &str) -> Option<pg_sys::Oid> {
    if name.len() >= pg_sys::NAMEDATALEN as usize {
        return None;
    }
    let name = CString::new(name).ok()?;
    // SAFETY: a syscache look-up with a valid name.
    let oid = unsafe { pg_sys::get_relname_relid(name.as_ptr(), catalog::data_schema()) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// Whether the relation is `OF table_service.entity`.
fn is_table(oid: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up; the tuple is released before the function returns.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::RELOID as i32, pg_sys::Datum::from(oid));
        if tuple.is_null() {
            return false;
        }
        let class = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
        let of_type = (*class).reloftype;
        pg_sys::ReleaseSysCache(tuple);
        of_type != pg_sys::InvalidOid && of_type == catalog::entity_type()
    }
}

/// Whether two spellings mean one table.
pub fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// How many names of a primary key are tried.
const PRIMARY_KEY_NAMES: u32 = 100;

/// The names that the primary key of a table may have: one for all spellings, so that two of them collide in `pg_class` whoever commits
/// first. Only if something else has the first name is there a second: a table that its owner renamed keeps its primary key's name, and
/// anybody may give the name to a relation of theirs.
fn primary_key_names(table: &str) -> impl Iterator<Item = String> {
    let hash = Md5::digest(table_name::fold(table));
    (0..PRIMARY_KEY_NAMES).map(move |number| match number {
        0 => format!("pk_{hash:x}"),
        _ => format!("pk_{hash:x}_{number}"),
    })
}

/// The name that the primary key of a new table gets.
///
/// # Errors
/// `TableAlreadyExists` if others have all of them.
pub fn free_primary_key_name(table: &str) -> Result<String, Error> {
    primary_key_names(table)
        .find(|name| {
            // A table of this name would be found, so what has the name is something else; or another session has just made the table.
            relation_in_data_schema(name)
                .is_none_or(|index| table_of_index(index).is_some_and(|other| same_name(other.name.name(), table)))
        })
        .ok_or_else(|| Error::TableNameTaken {
            reason: "other relations have the names of its primary key".to_owned(),
        })
}
