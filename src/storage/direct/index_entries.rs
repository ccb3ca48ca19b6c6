//! The entries of written entities in the property indexes and expiry indexes of their table.

use pgrx::prelude::*;
use table_service_model::expiry::Expiry;
use table_service_model::property_index;

use super::eligibility::Purpose;
use crate::postgres::guarded::guarded;
use crate::postgres::relation::indexes;
use crate::postgres::types::{PropertiesArg, TextArg};
use crate::postgres::varlena::Varlena;
use crate::storage::indexes::of_table;

const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// The content of an index's entry.
enum Entry {
    /// The value of a property and the keys.
    Property(std::rc::Rc<str>),
    /// The moment at which it expires.
    Expiry(Expiry),
}

/// The open indexes of a table but the primary key's.
pub struct IndexEntries(Vec<(pg_sys::Relation, Entry)>);

impl IndexEntries {
    /// Opens the indexes to which a write adds entries. Returns `None` if one of them is neither a property index nor an expiry
    /// index, or is one that needs more than its entry.
    ///
    /// # Safety
    /// The relation must be open and locked.
    pub unsafe fn open(relation: pg_sys::Relation, purpose: Purpose) -> Option<IndexEntries> {
        // SAFETY: the caller promises an open relation.
        let (others, table) = unsafe { (indexes(relation).len().saturating_sub(1), (*relation).rd_id) };
        if others == 0 || purpose == Purpose::Get {
            return Some(IndexEntries(Vec::new()));
        }
        let known = of_table(table);
        let properties = known.properties.iter().filter(|index| index.is_plain);
        let properties = properties.map(|index| (index.oid, Entry::Property(index.property.clone())));
        let expiries = known.expiries.iter().filter(|index| index.is_plain);
        let expiries = expiries.map(|index| (index.oid, Entry::Expiry(index.expiry.clone())));
        let plain: Vec<_> = properties.chain(expiries).collect();
        if plain.len() != others {
            return None;
        }
        let lock = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
        // SAFETY: the caller holds a lock on the table, so its indexes exist.
        let open = |(index, entry)| unsafe { (pg_sys::index_open(index, lock), entry) };
        Some(IndexEntries(plain.into_iter().map(open).collect()))
    }

    /// Adds the entries of a row that was just written.
    ///
    /// # Safety
    /// The relation must be the table of these indexes. The slot must hold the row and its place, with the columns of an
    /// entity.
    pub unsafe fn insert(&self, relation: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) {
        for (index, entry) in &self.0 {
            // SAFETY: the caller promises the columns of an entity, and a row that was written has no NULL in them. The
            // index is open and has one column, of the type of its entries. An index that is not ready is being made: the
            // session that makes it adds the entries later. These indexes are B-trees: those lock predicates themselves, so
            // `index_insert` would do no more, and they do not read the description of the index, which takes longer to
            // make than an entry.
            unsafe {
                if !(*(**index).rd_index).indisready {
                    continue;
                }
                let column = |number: usize| *(*slot).tts_values.add(number);
                let Some(properties) = PropertiesArg::from_datum(column(3), false) else {
                    continue;
                };
                let bytes;
                let value = match entry {
                    Entry::Property(property) => {
                        bytes = TextArg::from_datum(column(0), false)
                            .zip(TextArg::from_datum(column(1), false))
                            .and_then(|(partition_key, row_key)| {
                                property_index::entry(properties.get(), property, partition_key.get(), row_key.get())
                            })
                            .map(|entry| Varlena::new(&entry));
                        Some(bytes.as_ref().map(Varlena::datum))
                    }
                    Entry::Expiry(expiry) => {
                        let timestamp = column(2).value() as i64;
                        expiry
                            .expires_at(timestamp, properties.get())
                            .map(|moment| Some(moment.into()))
                    }
                };
                // An expiry index has only the entities that expire.
                let Some(value) = value else { continue };
                let mut is_null = value.is_none();
                let mut value = value.unwrap_or(pg_sys::Datum::null());
                let insert = entry_insertion((*(**index).rd_indam).aminsert);
                let (index, value, is_null) = (*index, &raw mut value, &raw mut is_null);
                guarded(|| {
                    insert(
                        index,
                        value,
                        is_null,
                        &mut (*slot).tts_tid,
                        relation,
                        pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
                        false,
                        std::ptr::null_mut(),
                    )
                });
            }
        }
    }

    /// Closes the indexes. Their locks are kept until the end of the transaction.
    pub fn close(&self) {
        for (index, _) in &self.0 {
            // SAFETY: `open` opened the index, and the caller does not use it any more.
            unsafe { pg_sys::index_close(*index, NO_LOCK) };
        }
    }
}

/// Returns the function of an index's access method that adds an entry. A B-tree has one.
pub(super) fn entry_insertion<F>(insert: Option<F>) -> F {
    let Some(insert) = insert else {
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            "an index of the table takes no entries"
        );
    };
    insert
}
