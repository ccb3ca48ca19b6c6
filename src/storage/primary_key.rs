//! The index of a table's primary key, which finds rows by their keys. Only that of `create_table` is used: users may make a table of the
//! service with another key, whose columns have other types.

use pgrx::prelude::*;
use table_service_model::filter::KeyRange;

use super::arguments::EntityKeys;
use crate::postgres::btree::{Comparison, ScanCondition, each_row, is_complete};
use crate::postgres::relation::{Relation, with_relation};
use crate::postgres::types::TextArg;
use crate::postgres::types::value::{Text, Value};

const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// The open index of a primary key.
pub struct KeyIndex(pg_sys::Relation);

/// Returns the index of the primary key of a table that the caller has locked.
pub fn primary_key(table: pg_sys::Oid) -> Option<pg_sys::Oid> {
    with_relation(table, |relation| {
        let index = KeyIndex::open(relation, pg_sys::AccessShareLock)?;
        // SAFETY: the index is open.
        let oid = unsafe { (*index.0).rd_id };
        index.close();
        Some(oid)
    })
}

impl KeyIndex {
    /// Opens the index of a table that the caller has locked, and locks it.
    pub fn open(table: Relation<'_>, lock: u32) -> Option<KeyIndex> {
        // SAFETY: the caller holds a lock on the table, so its indexes exist.
        unsafe {
            let index = pg_sys::index_open(table.primary_key()?, lock as pg_sys::LOCKMODE);
            if !has_our_keys(index) {
                pg_sys::index_close(index, NO_LOCK);
                return None;
            }
            Some(KeyIndex(index))
        }
    }

    /// Does the same for rows that a snapshot of this transaction sees. Returns `None`, too, if the index lacks some of them.
    pub fn open_for_snapshots(table: Relation<'_>, lock: u32) -> Option<KeyIndex> {
        let index = KeyIndex::open(table, lock)?;
        // SAFETY: the index is open, and a snapshot is active while an SQL function runs.
        if unsafe { is_complete(index.0) } {
            return Some(index);
        }
        index.close();
        None
    }

    /// Closes the index. Its lock is kept until the end of the transaction.
    pub fn close(self) {
        // SAFETY: `open` opened the index.
        unsafe { pg_sys::index_close(self.0, NO_LOCK) };
    }

    /// Returns PostgreSQL's own relation.
    pub fn as_ptr(&self) -> pg_sys::Relation {
        self.0
    }

    /// Looks up the row with these keys, and puts it into the slot. Returns whether the snapshot sees one.
    ///
    /// # Safety
    /// As for [`KeyIndex::each_version`].
    pub unsafe fn seek(
        &self,
        table: Relation<'_>,
        snapshot: pg_sys::Snapshot,
        keys: EntityKeys<'_>,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> bool {
        let mut is_found = false;
        // SAFETY: the caller's promise.
        unsafe {
            self.each_version(table, snapshot, keys, slot, || {
                is_found = true;
                false
            });
        }
        is_found
    }

    /// Puts the rows with these keys that the snapshot sees into the slot, and calls `take` for each until it wants no more. The slot
    /// keeps the last one.
    ///
    /// # Safety
    /// It must be the index of this table. The snapshot must be valid until this function returns, and the slot must fit the table.
    pub unsafe fn each_version(
        &self,
        table: Relation<'_>,
        snapshot: pg_sys::Snapshot,
        keys: EntityKeys<'_>,
        slot: *mut pg_sys::TupleTableSlot,
        take: impl FnMut() -> bool,
    ) {
        let mut conditions = [(1, keys.partition_key), (2, keys.row_key)]
            .map(|(column, key)| ScanCondition::new(column, Comparison::Equal, Value::text(key)));
        // SAFETY: the caller's promise. `open` checked that the index has these two columns, of type text with the collation "C".
        unsafe { each_row(table.as_ptr(), self.0, snapshot, &mut conditions, slot, take) };
    }

    /// Puts the rows of a range in this partition that the snapshot sees into the slot, in the order of their keys, and calls `take` for each
    /// until it wants no more.
    ///
    /// # Safety
    /// As for [`KeyIndex::each_version`].
    pub unsafe fn each_of_partition(
        &self,
        table: Relation<'_>,
        snapshot: pg_sys::Snapshot,
        (partition_key, range): (TextArg<'_>, &KeyRange),
        slot: *mut pg_sys::TupleTableSlot,
        take: impl FnMut() -> bool,
    ) {
        let ends = [
            (&range.lower, Comparison::GreaterOrEqual, Comparison::Greater),
            (&range.upper, Comparison::LessOrEqual, Comparison::Less),
        ];
        let ends = ends.map(|(bound, including, excluding)| {
            let bound = bound.as_ref()?;
            let comparison = if bound.inclusive { including } else { excluding };
            Some((comparison, Text::new(bound.row_key.as_deref()?)))
        });
        let rows = ends.iter().flatten();
        let rows = rows.map(|(comparison, row_key)| ScanCondition::new(2, *comparison, row_key.value()));
        let partition = ScanCondition::new(1, Comparison::Equal, Value::text(partition_key));
        let mut conditions: Vec<_> = std::iter::once(partition).chain(rows).collect();
        // SAFETY: as above. The index of a primary key has the order of its keys.
        unsafe { each_row(table.as_ptr(), self.0, snapshot, &mut conditions, slot, take) };
    }
}

/// Returns whether an index is that of a primary key that `create_table` has made.
///
/// # Safety
/// The index must be open.
unsafe fn has_our_keys(index: pg_sys::Relation) -> bool {
    // SAFETY: an open index has its catalog row, with `indnatts` columns, and a collation for each column of its key.
    unsafe {
        let row = &*(*index).rd_index;
        let columns = row
            .indkey
            .values
            .as_slice(usize::try_from(row.indnatts).unwrap_or_default());
        let collations = || std::slice::from_raw_parts((*index).rd_indcollation, 2);
        row.indimmediate && row.indnkeyatts == 2 && columns == [1, 2] && collations() == [pg_sys::C_COLLATION_OID; 2]
    }
}
