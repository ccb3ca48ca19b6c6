//! The index of a table's primary key, which finds rows by their keys. Only the primary key of `create_table` is used:
//! users may make a table of the service with another key, with columns of other types.

use pgrx::prelude::*;
use table_service_model::KeyRange;
use table_service_model::filter::{Key, Operator};

use super::arguments::EntityKeys;
use crate::postgres::{Index, Relation, Scan, ScanCondition, Slot, Text, Value, with_relation};

/// The open index of a primary key.
pub struct KeyIndex(Index);

/// Returns the index of the primary key of a table that the caller has locked.
pub fn primary_key(table: pg_sys::Oid) -> Option<pg_sys::Oid> {
    with_relation(table, |relation| {
        let index = KeyIndex::open(relation, pg_sys::AccessShareLock)?;
        // SAFETY: the index is open.
        Some(unsafe { (*index.as_ptr()).rd_id })
    })
}

/// Conditions on the keys in the index of a primary key, with their values.
pub struct KeyConditions(Vec<(i16, Operator, Text)>);

impl KeyConditions {
    /// Returns the conditions that the keys in a range meet. Of several partitions, whole partitions may meet them.
    pub fn of(range: &KeyRange) -> KeyConditions {
        let column = |key| match key {
            Key::Partition => 1,
            Key::Row => 2,
        };
        let conditions = range.comparisons().into_iter();
        KeyConditions(
            conditions
                .map(|(key, operator, value)| (column(key), operator, Text::new(value)))
                .collect(),
        )
    }

    /// Returns the conditions for a scan of the index.
    pub fn get(&self) -> Vec<ScanCondition<'_>> {
        let conditions = self.0.iter();
        conditions
            .map(|(column, operator, key)| ScanCondition::new(*column, *operator, key.value()))
            .collect()
    }
}

impl KeyIndex {
    /// Opens the index of a table that the caller has locked, and locks it.
    pub fn open(table: Relation<'_>, lock: u32) -> Option<KeyIndex> {
        let index = KeyIndex(Index::open(table.primary_key()?, lock));
        index.has_our_keys().then_some(index)
    }

    /// Does the same for rows that this transaction's snapshots see. Also returns `None` if the index lacks some.
    pub fn open_for_snapshots(table: Relation<'_>, lock: u32) -> Option<KeyIndex> {
        KeyIndex::open(table, lock).filter(|index| index.0.is_complete())
    }

    /// Returns PostgreSQL's own relation.
    pub fn as_ptr(&self) -> pg_sys::Relation {
        self.0.as_ptr()
    }

    /// Looks up the row with these keys, and puts it into the slot. Returns whether the snapshot sees one.
    ///
    /// # Safety
    /// It must be the index of this table. The snapshot must be valid until this function returns, and the slot must fit the table.
    pub unsafe fn seek(
        &self,
        table: Relation<'_>,
        snapshot: pg_sys::Snapshot,
        keys: EntityKeys<'_>,
        slot: &Slot,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.versions(table, snapshot, keys).next(slot) }
    }

    /// Begins a scan of the rows with these keys that the snapshot sees.
    ///
    /// # Safety
    /// It must be the index of this table. The index, the table, the snapshot and the keys must outlive the scan.
    pub unsafe fn versions(&self, table: Relation<'_>, snapshot: pg_sys::Snapshot, keys: EntityKeys<'_>) -> Scan {
        let mut conditions = [(1, keys.partition_key), (2, keys.row_key)]
            .map(|(column, key)| ScanCondition::new(column, Operator::Eq, Value::text(key)));
        // SAFETY: the caller's promise. `open` checked that the index has these two columns, of type text with the collation "C".
        unsafe { Scan::begin(table, &self.0, snapshot, &mut conditions) }
    }

    /// Begins a scan, in key order, of the rows that the snapshot sees and that meet conditions on their keys.
    ///
    /// # Safety
    /// As for [`KeyIndex::versions`].
    pub unsafe fn range(&self, table: Relation<'_>, snapshot: pg_sys::Snapshot, conditions: &KeyConditions) -> Scan {
        // SAFETY: as above. The index of a primary key has the order of its keys.
        unsafe { Scan::begin(table, &self.0, snapshot, &mut conditions.get()) }
    }

    /// Returns whether this is the index of a primary key that `create_table` has made.
    fn has_our_keys(&self) -> bool {
        let index = self.as_ptr();
        // SAFETY: an open index has its catalog row, with `indnatts` columns, and a collation for each column of its key.
        unsafe {
            let row = &*(*index).rd_index;
            let columns = row
                .indkey
                .values
                .as_slice(usize::try_from(row.indnatts).unwrap_or_default());
            let collations = || std::slice::from_raw_parts((*index).rd_indcollation, 2);
            row.indimmediate
                && row.indnkeyatts == 2
                && columns == [1, 2]
                && collations() == [pg_sys::C_COLLATION_OID; 2]
        }
    }
}
