//! The names of the relations in `table_service_data`: no two differ in case only, and none is `Tables`.
//!
//! The event trigger `table_service_definitions` enforces this for every statement of every role. Sessions that want
//! the same name at the same time take turns, by a lock on the name. Sessions that want other names do not wait.

use std::ffi::CString;

use md5::{Digest, Md5};
use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::table_name::{first_spelling, fold, is_reserved};

use crate::postgres::catalog;
use crate::postgres::catalog_scan::{first_relation_name, scan, scan_at};
use crate::postgres::types::name_bytes;

/// Returns all relations of any kind with this name, in any case, as the catalogs are now.
pub fn spellings_of(name: &str) -> Vec<(pg_sys::Oid, String)> {
    let mut found = Vec::new();
    let mut next = first_spelling(name, b"");
    while let Some(there) = next.as_deref().and_then(first_relation_name) {
        pgrx::check_for_interrupts!();
        let mut from = there;
        if from.eq_ignore_ascii_case(name.as_bytes()) {
            let stored = String::from_utf8_lossy(&from).into_owned();
            found.extend(relation_in_data_schema(&stored).map(|oid| (oid, stored)));
            // The next one in the order of bytes: no name has this character.
            from.push(1);
        }
        next = first_spelling(name, &from);
    }
    found
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

/// Returns whether no relation has the name, in any case.
pub fn is_free(name: &str) -> bool {
    spellings_of(name).is_empty()
}

/// Takes a name until the end of the transaction, if no relation has it and no session is about to use it.
pub fn take(name: &str) -> bool {
    is_free(name) && lock(name, true) && is_free(name)
}

/// Returns the first name for which `test` holds: the name with an empty suffix, or with `_1`, `_2` and so on.
pub fn numbered(name: impl Fn(&str) -> String, test: fn(&str) -> bool) -> String {
    let mut free = name("");
    let mut number: u64 = 0;
    while !test(&free) {
        number += 1;
        free = name(&format!("_{number}"));
    }
    free
}

/// Waits until no other transaction may give the name to a relation. The name stays locked until the end of this one.
pub fn wait_for(name: &str) {
    lock(name, false);
}

/// Locks a name in all its spellings. Returns whether it is locked.
fn lock(name: &str, at_once: bool) -> bool {
    let [a, b, c, d, e, f, g, h, i, j, ..]: [u8; 16] = Md5::digest(fold(name)).into();
    // An object of this database that belongs to this hash alone. Other roles lock it only by using the name.
    let tag = pg_sys::LOCKTAG {
        // SAFETY: it is a global of this process.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: u32::from_ne_bytes([a, b, c, d]),
        locktag_field3: u32::from_ne_bytes([e, f, g, h]),
        locktag_field4: u16::from_ne_bytes([i, j]),
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    // SAFETY: a transaction is running, and the function takes any tag. Messages may be accepted at any time in a transaction.
    unsafe {
        let outcome = pg_sys::LockAcquire(&tag, pg_sys::ExclusiveLock as pg_sys::LOCKMODE, false, at_once);
        pg_sys::AcceptInvalidationMessages();
        outcome != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    }
}

/// A relation in `table_service_data`.
pub struct Named {
    pub name: String,
    /// Whether it is a table of the service.
    pub is_table: bool,
}

/// Returns the name and kind of a relation in the schema `table_service_data`, now and before this transaction.
pub fn now_and_before(relation: pg_sys::Oid) -> [Option<Named>; 2] {
    let entity = catalog::entity_type();
    let named = |class: &pg_sys::FormData_pg_class| {
        let name = String::from_utf8_lossy(name_bytes(&class.relname)).into_owned();
        let is_table = class.reloftype == entity;
        Some((class.relnamespace, Named { name, is_table }))
    };
    let is_data_schema = |schema: &pg_sys::FormData_pg_namespace| {
        (name_bytes(&schema.nspname) == catalog::DATA_SCHEMA.as_bytes()).then_some(())
    };
    // The owner of the database may have given the name to another schema.
    let look = |is_before| {
        // SAFETY: the rows of the catalogs are of these types.
        unsafe {
            let index = Some(pg_sys::Oid::from(pg_sys::ClassOidIndexId));
            let by_oid = (pg_sys::Anum_pg_class_oid, relation);
            let (schema, named) = scan_at(is_before, pg_sys::RelationRelationId, index, by_oid, named)?;
            let index = Some(pg_sys::Oid::from(pg_sys::NamespaceOidIndexId));
            let by_oid = (pg_sys::Anum_pg_namespace_oid, schema);
            scan_at(is_before, pg_sys::NamespaceRelationId, index, by_oid, is_data_schema).map(|()| named)
        }
    };
    [look(false), look(true)]
}

/// Refuses a command on an object, if it has given a relation in `table_service_data` a name that it must not have, or
/// has made a relation with such a name a table of the service. Names that two relations had before are not checked.
///
/// # Errors
/// `TableAlreadyExists` for the name of another relation in any case, and `InvalidInput` for the reserved one.
pub fn refuse_taken(class: pg_sys::Oid, object: pg_sys::Oid) -> Result<(), Error> {
    for relation in relations_of(class, object) {
        let (Some(name), is_new) = named(relation) else {
            continue;
        };
        if is_new && is_reserved(&name) {
            return Err(Error::TableNameReserved);
        }
        if is_new {
            wait_for(&name);
        }
        // A name that goes away and comes back in one transaction may have been given to another relation meanwhile.
        let is_twin = |&(other, _): &(pg_sys::Oid, String)| other != relation && (is_new || named(other).1);
        if let Some((_, other)) = spellings_of(&name).into_iter().find(is_twin) {
            return Err(is_taken_by(&other));
        }
    }
    Ok(())
}

/// Returns the name of a relation in `table_service_data`, and whether this transaction has given it. A table of the
/// service is found by its name and others are not, so a new one counts as named now.
fn named(relation: pg_sys::Oid) -> (Option<String>, bool) {
    let [now, before] = now_and_before(relation);
    let Some(now) = now else { return (None, false) };
    let is_old = before.is_some_and(|before| before.name == now.name && (before.is_table || !now.is_table));
    (Some(now.name), !is_old)
}

/// Returns the error for a name that a relation has.
pub fn is_taken_by(other: &str) -> Error {
    Error::TableNameTaken {
        reason: format!("relation \"{other}\" already exists"),
    }
}

/// Returns the relations that a command on an object may have named: for a table, also its indexes and sequences.
fn relations_of(class: pg_sys::Oid, object: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // SAFETY: the functions take any OID. The list is NIL or one of OIDs, and is copied. The rows of `pg_index` are of this type.
    unsafe {
        match class {
            pg_sys::TypeRelationId => vec![pg_sys::get_typ_typrelid(object)],
            pg_sys::ConstraintRelationId => vec![pg_sys::get_constraint_index(object)],
            pg_sys::RelationRelationId => {
                let mut relations = vec![object];
                let take = |row: &pg_sys::FormData_pg_index| -> Option<()> {
                    relations.push(row.indexrelid);
                    None
                };
                let of_table = (pg_sys::Anum_pg_index_indrelid, object);
                let index = pg_sys::Oid::from(pg_sys::IndexIndrelidIndexId);
                scan(pg_sys::IndexRelationId, Some(index), of_table, take);
                if let Some(sequences) = pg_sys::getOwnedSequences(object).as_ref() {
                    let cells =
                        std::slice::from_raw_parts(sequences.elements, sequences.length.unsigned_abs() as usize);
                    relations.extend(cells.iter().map(|cell| cell.oid_value));
                }
                relations
            }
            _ => Vec::new(),
        }
    }
}
