//! Reads entities by their keys, and through property indexes.

use pgrx::itemptr::item_pointer_to_u64;
use pgrx::prelude::*;
use table_service_model::filter::KeyRange;
use table_service_model::property_index::Span;

use super::eligibility::{Access, EveryRow, is_whole};
use crate::postgres::btree::{ScanCondition, each_row, is_complete};
use crate::postgres::memory::new_context;
use crate::postgres::relation::Relation;
use crate::postgres::snapshot::active_snapshot;
use crate::postgres::types::TextArg;
use crate::postgres::types::value::Value;
use crate::postgres::varlena::Varlena;
use crate::storage::arguments::EntityKeys;
use crate::storage::primary_key::KeyIndex;
use crate::storage::row::Row;
use crate::storage::statement::{Kind, Statement};
use crate::storage::table::Table;

const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// The way to entities.
#[derive(Clone, Copy)]
pub enum Lookup<'k> {
    /// Their keys, or entries in property indexes.
    Keys,
    /// The keys of one partition, also in a shard of a distributed table.
    KeysOf(TextArg<'k>),
    /// Entries in property indexes alone.
    Entries(EveryRow),
}

/// A table opened to read entities.
pub struct Reader<'r> {
    relation: Relation<'r>,
    /// `None` for [`Lookup::Entries`].
    keys: Option<KeyIndex>,
    /// The slot that holds the row of the last look-up.
    stored: *mut pg_sys::TupleTableSlot,
}

/// Runs `f` on a table that the caller has locked. Returns `None` if only a statement can do the work.
pub fn with_reader<R>(table: &Table, lookup: Lookup<'_>, f: impl FnOnce(&mut Reader<'_>) -> Option<R>) -> Option<R> {
    let access = Access {
        rights: match lookup {
            Lookup::Keys | Lookup::KeysOf(_) => pg_sys::ACL_SELECT,
            // `reads_every_row` has checked the caller's privileges.
            Lookup::Entries(_) => 0,
        },
        is_plain: |relation, _| is_whole(relation),
        statement: |keys, _| Statement::of_keys(Kind::Get, keys),
        node: pg_sys::NodeTag::T_IndexScan,
    };
    let partition_key = match lookup {
        Lookup::KeysOf(partition_key) => Some(partition_key),
        Lookup::Keys | Lookup::Entries(_) => None,
    };
    access.run(
        table,
        || table.relation_of(partition_key),
        |relation| {
            if !table.shows_own_writes() {
                return None;
            }
            let keys = match lookup {
                Lookup::Keys | Lookup::KeysOf(_) => {
                    Some(KeyIndex::open_for_snapshots(relation, pg_sys::AccessShareLock)?)
                }
                Lookup::Entries(_) => None,
            };
            // SAFETY: the relation is open.
            let stored = unsafe { pg_sys::table_slot_create(relation.as_ptr(), std::ptr::null_mut()) };
            let mut reader = Reader { relation, keys, stored };
            let result = f(&mut reader);
            reader.close();
            result
        },
    )
}

impl Reader<'_> {
    fn close(self) {
        // SAFETY: `with_reader` made the slot, and `self` is not used any more.
        unsafe { pg_sys::ExecDropSingleTupleTableSlot(self.stored) };
        if let Some(keys) = self.keys {
            keys.close();
        }
    }

    /// Returns whether entities can be looked up by their keys.
    pub fn finds_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns whether no row has NULL in a column.
    pub fn has_no_nulls(&self) -> bool {
        let descriptor = self.relation.descriptor();
        // SAFETY: the descriptor is that of an open relation, which has the columns of an entity: `is_whole` has checked that.
        (0..4).all(|column| unsafe {
            // Rows that are older than a constraint may not meet it before it is validated.
            #[cfg(since_pg18)]
            let has_no_null = {
                let attribute = &*(*descriptor).compact_attrs.as_ptr().add(column);
                attribute.attnullability as u8 == pg_sys::ATTNULLABLE_VALID
            };
            #[cfg(not(since_pg18))]
            let has_no_null = (*(*descriptor).attrs.as_ptr().add(column)).attnotnull;
            has_no_null
        })
    }

    /// Returns the entity with these keys, if the caller's snapshot sees one. `None`, too, if the reader does not find keys.
    pub fn get(&mut self, keys: EntityKeys<'_>) -> Option<Row<'_>> {
        let index = self.keys.as_ref()?;
        // SAFETY: PostgreSQL sets an active snapshot before it calls an SQL function. The slot was made for this relation, of which
        // `is_whole` checked that it has the columns of an entity. It keeps its row until the next look-up, which needs `&mut self` and so
        // ends the row's borrow.
        unsafe {
            let is_found = index.seek(self.relation, active_snapshot(), keys, self.stored);
            is_found.then(|| Row::of(self.stored))
        }
    }

    /// Gives `take` the entities of a key range in this partition, in the order of their keys, until it wants no more. None, if the reader does
    /// not find keys.
    pub fn each_of_partition(&mut self, range: (TextArg<'_>, &KeyRange), mut take: impl FnMut(&Row<'_>) -> bool) {
        let Some(index) = &self.keys else { return };
        let stored = self.stored;
        // SAFETY: as in `get`. The slot keeps its row until `take` has returned.
        unsafe {
            index.each_of_partition(self.relation, active_snapshot(), range, stored, || {
                take(&Row::of(stored))
            });
        }
    }

    /// Gives `take` the entities whose entries in a property index meet `lower <= entry < upper`, in their order, until it
    /// wants no more. Returns false, without reading, if only a statement can do it.
    pub fn each_between(
        &mut self,
        index: pg_sys::Oid,
        (lower, upper): (&[u8], &[u8]),
        take: &mut dyn FnMut(&Row<'_>) -> bool,
    ) -> bool {
        let bounds = [lower, upper].map(Varlena::new);
        let mut conditions = ScanCondition::between(bounds.each_ref().map(Value::bytea));
        let (relation, stored) = (self.relation.as_ptr(), self.stored);
        // SAFETY: the table is open and locked, and the slot fits it. The caller names a valid property index of the table:
        // it has one column, of type bytea. `is_whole` checked that the table has the columns of an entity. A snapshot is active
        // while an SQL function runs.
        unsafe {
            let index = pg_sys::index_open(index, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
            let is_complete = is_complete(index);
            if is_complete {
                let snapshot = active_snapshot();
                each_row(relation, index, snapshot, &mut conditions, stored, || {
                    take(&Row::of(stored))
                });
            }
            pg_sys::index_close(index, NO_LOCK);
            is_complete
        }
    }

    /// Gives `take` the entities whose entries are in spans of property indexes and that `is_wanted` wants, each once and
    /// in the order of their keys, until it wants no more. All of them are in memory, so they must be few. Returns false,
    /// without giving any, if only a statement can do it.
    pub fn each_sorted(
        &mut self,
        spans: &[(pg_sys::Oid, &Span)],
        is_wanted: &dyn Fn(&Row<'_>) -> bool,
        take: &mut dyn FnMut(&Row<'_>) -> bool,
    ) -> bool {
        let mut found: Vec<(String, String, u64, pg_sys::HeapTuple)> = Vec::new();
        let context = new_context(c"table_service entities");
        // SAFETY: the context is valid until the end of the block, and so are the rows, which are copied into it. The slot
        // has the columns of the table, of which `is_whole` checked that they are those of an entity.
        unsafe {
            let caller = pg_sys::MemoryContextSwitchTo(context);
            let are_read = spans.iter().all(|&(index, span)| {
                self.each_between(index, (&span.lower, &span.upper), &mut |row| {
                    if is_wanted(row) {
                        let keys = (row.partition_key().to_owned(), row.row_key().to_owned());
                        let copy = row.copy();
                        found.push((keys.0, keys.1, item_pointer_to_u64((*copy).t_self), copy));
                    }
                    true
                })
            });
            if are_read {
                found.sort_unstable();
                // Indexes on several properties may have the same entity. Without a primary key several may have the same
                // keys.
                found.dedup_by_key(|&mut (.., position, _)| position);
                let slot =
                    pg_sys::MakeSingleTupleTableSlot(self.relation.descriptor(), &raw const pg_sys::TTSOpsHeapTuple);
                for &(.., tuple) in &found {
                    pg_sys::ExecStoreHeapTuple(tuple, slot, false);
                    if !take(&Row::of(slot)) {
                        break;
                    }
                }
                pg_sys::ExecDropSingleTupleTableSlot(slot);
            }
            pg_sys::MemoryContextSwitchTo(caller);
            pg_sys::MemoryContextDelete(context);
            are_read
        }
    }
}
