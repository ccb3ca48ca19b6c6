//! The entries of written rows in the indexes of their table: the primary key's, property indexes and expiry indexes.

use std::rc::Rc;

use pgrx::prelude::*;
use table_service_model::{Error, Expiry, Properties, property_index};

use crate::postgres::guarded::guarded;
use crate::postgres::{Index, PropertiesArg, Relation, TextArg, Varlena};
use crate::storage::arguments::EntityKeys;
use crate::storage::contract;
use crate::storage::indexes::of_table;
use crate::storage::primary_key::KeyIndex;

/// The open indexes of a table to which a write adds entries.
pub(super) struct WrittenIndexes {
    pub(super) keys: KeyIndex,
    /// All of them except the primary key's.
    others: Vec<(Index, Entry)>,
}

impl WrittenIndexes {
    /// Opens the indexes of a table that the caller has locked. Returns `None` if it has any index except the primary
    /// key of `create_table`, property indexes and expiry indexes.
    pub(super) fn open(table: Relation<'_>) -> Option<WrittenIndexes> {
        let keys = KeyIndex::open_for_snapshots(table, pg_sys::RowExclusiveLock)?;
        let others = other_indexes(table)?;
        Some(WrittenIndexes { keys, others })
    }

    /// Adds rows that were just written to the indexes, in their order. Raises 23505 if another row has the same keys.
    /// Before that it waits for a transaction that is inserting or deleting such a row.
    ///
    /// # Safety
    /// `table` must be the table of these indexes, with the columns of an entity, and each slot must hold a row that
    /// was just written, with its position.
    pub(super) unsafe fn add(&self, table: Relation<'_>, slots: &[*mut pg_sys::TupleTableSlot], is_update: bool) {
        let (table, index) = (table.as_ptr(), self.keys.as_ptr());
        // SAFETY: the index's columns are the first two of the table, so a slot's first two values are those of the
        // index entry. The index of a primary key is a B-tree, which locks predicates itself, so `index_insert` would
        // do no more than this call.
        unsafe {
            let description = pg_sys::BuildIndexInfo(index);
            let insert = entry_insertion((*(*index).rd_indam).aminsert);
            guarded(|| {
                for &slot in slots {
                    insert(
                        index,
                        (*slot).tts_values,
                        (*slot).tts_isnull,
                        &mut (*slot).tts_tid,
                        table,
                        pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES,
                        is_update,
                        description,
                    );
                }
            });
            for &slot in slots {
                self.insert_others(table, slot);
            }
        }
    }

    /// Adds the entries of a row that was just written.
    ///
    /// # Safety
    /// As for [`WrittenIndexes::add`].
    unsafe fn insert_others(&self, table: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) {
        for (index, entry) in &self.others {
            let index = index.as_ptr();
            // SAFETY: the caller promises the columns of an entity, and a row that was written has no NULL in them. The
            // index is open and has one column, of the type of its entries. An index that is not ready is being made: the
            // session that makes it adds the entries later. These indexes are B-trees: those lock predicates themselves, so
            // `index_insert` would do no more, and they do not read the description of the index, which takes longer to
            // make than an entry.
            unsafe {
                if !(*(*index).rd_index).indisready {
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
                let insert = entry_insertion((*(*index).rd_indam).aminsert);
                let (value, is_null) = (&raw mut value, &raw mut is_null);
                guarded(|| {
                    insert(
                        index,
                        value,
                        is_null,
                        &mut (*slot).tts_tid,
                        table,
                        pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
                        false,
                        std::ptr::null_mut(),
                    )
                });
            }
        }
    }
}

/// The content of an index's entry.
enum Entry {
    /// The value of a property and the keys.
    Property(Rc<str>),
    /// The moment at which it expires.
    Expiry(Expiry),
}

/// Returns whether [`WrittenIndexes`] can add entries to all indexes of a table. The caller has locked the table.
pub(super) fn are_known(table: Relation<'_>) -> bool {
    other_indexes(table).is_some()
}

/// Opens the indexes to which a write adds entries, except the primary key's. Returns `None` if one of them is neither
/// a property index nor an expiry index, or needs more than its entry.
fn other_indexes(table: Relation<'_>) -> Option<Vec<(Index, Entry)>> {
    let others = table.count_indexes().saturating_sub(1);
    if others == 0 {
        return Some(Vec::new());
    }
    let known = of_table(table.oid());
    let properties = known.properties.iter().filter(|index| index.is_plain);
    let properties = properties.map(|index| (index.oid, Entry::Property(index.property.clone())));
    let expiries = known.expiries.iter().filter(|index| index.is_plain);
    let expiries = expiries.map(|index| (index.oid, Entry::Expiry(index.expiry.clone())));
    let plain: Vec<_> = properties.chain(expiries).collect();
    let open = |(index, entry)| (Index::open(index, pg_sys::RowExclusiveLock), entry);
    (plain.len() == others).then(|| plain.into_iter().map(open).collect())
}

/// Returns the function of an index's access method that adds an entry. A B-tree has one.
fn entry_insertion<F>(insert: Option<F>) -> F {
    let Some(insert) = insert else {
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            "an index of the table takes no entries"
        );
    };
    insert
}

/// Checks the rules of the table's CHECK constraint.
pub(super) fn check(keys: EntityKeys<'_>, timestamp: i64, properties: Properties<'_>) -> Result<(), Error> {
    contract::check(keys.partition_key.get(), keys.row_key.get(), timestamp, properties)
}

/// Makes the slot of a row to write.
///
/// # Safety
/// The descriptor must describe a table with the columns of an entity, and the values must have their types.
pub(super) unsafe fn new_version(
    descriptor: pg_sys::TupleDesc,
    values: [pg_sys::Datum; 4],
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: a virtual slot has room for a value of each column of the descriptor, which has the four columns of an
    // entity. A new slot is empty, so it needs no more than this to hold a row. `ExecStoreVirtualTuple` does the same.
    unsafe {
        let slot = pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsVirtual);
        for (number, value) in values.into_iter().enumerate() {
            *(*slot).tts_values.add(number) = value;
            *(*slot).tts_isnull.add(number) = false;
        }
        (*slot).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
        (*slot).tts_nvalid = (*descriptor).natts as pg_sys::AttrNumber;
        slot
    }
}
