//! Reads entities by their keys, and through property indexes.

use std::ops::Range;
use std::vec::IntoIter;

use pgrx::itemptr::item_pointer_to_u64;
use pgrx::prelude::*;
use table_service_model::KeyRange;
use table_service_model::property_index::Span;

use super::eligibility::{Access, EveryRow, is_whole};
use crate::postgres::guarded::without_guards;
use crate::postgres::{
    Index, OpenTable, Scan, ScanCondition, Slot, TextArg, Value, Varlena, active_snapshot, new_context,
};
use crate::storage::arguments::EntityKeys;
use crate::storage::primary_key::{KeyConditions, KeyIndex};
use crate::storage::row::Row;
use crate::storage::statement::{Kind, Statement};
use crate::storage::table::Table;

without_guards! {
    // It raises no error for a slot of heap tuples.
    fn ExecStoreHeapTuple(tuple: pg_sys::HeapTuple, slot: *mut pg_sys::TupleTableSlot, shouldFree: bool) -> *mut pg_sys::TupleTableSlot;
}

/// How a reader finds entities.
#[derive(Clone, Copy)]
pub enum Lookup<'k> {
    /// Their keys, or entries in property indexes. With a PartitionKey, the keys of that partition, also in a shard of
    /// a distributed table.
    Keys(Option<TextArg<'k>>),
    /// Entries in property indexes alone.
    Entries(EveryRow),
}

/// A table opened to read entities: a single entity, or the entities of a search, one after the other.
pub struct Reader {
    search: Search,
    /// The slot that holds the row of the last look-up.
    stored: Slot,
    /// `None` for [`Lookup::Entries`].
    keys: Option<KeyIndex>,
    relation: OpenTable,
}

/// The entities that a reader searches for. The parts are closed in this order.
enum Search {
    None,
    ByKeys(Scan, #[expect(dead_code, reason = "the scan reads them")] KeyConditions),
    ByEntries(
        Scan,
        #[expect(dead_code, reason = "the scan reads it")] Index,
        #[expect(dead_code, reason = "the scan reads them")] Box<[Varlena; 2]>,
    ),
    Sorted(Sorted),
}

/// Copies of rows that were found, in the order of their keys.
struct Sorted {
    rows: IntoIter<pg_sys::HeapTuple>,
    slot: Slot,
    /// The memory of the rows.
    context: pg_sys::MemoryContext,
}

impl Drop for Sorted {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: nothing refers to the rows any more. A slot that holds one of them does not look at it when it is dropped.
            unsafe {
                pg_sys::ExecClearTuple(self.slot.as_ptr());
                pg_sys::MemoryContextDelete(self.context);
            }
        }
    }
}

impl Reader {
    /// Opens a table that the caller has locked. Returns `None` if only a statement can do the work.
    pub fn open(table: &Table, lookup: Lookup<'_>) -> Option<Reader> {
        let (rights, partition_key) = match lookup {
            Lookup::Keys(partition_key) => (pg_sys::ACL_SELECT, partition_key),
            // `reads_every_row` has checked the caller's privileges.
            Lookup::Entries(_) => (0, None),
        };
        let access = Access {
            rights,
            is_plain: |relation, _| is_whole(relation),
            statement: |keys, _| Statement::of_keys(Kind::Get, keys),
            node: pg_sys::NodeTag::T_IndexScan,
        };
        let relation = access.open(table, || table.relation_to_read(partition_key))?;
        let keys = match lookup {
            Lookup::Entries(_) => None,
            _ => Some(KeyIndex::open_for_snapshots(relation.get(), pg_sys::AccessShareLock)?),
        };
        Some(Reader {
            search: Search::None,
            stored: Slot::of(relation.get()),
            keys,
            relation,
        })
    }

    /// Returns whether entities can be looked up by their keys.
    pub fn finds_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns whether no row has NULL in a column.
    pub fn has_no_nulls(&self) -> bool {
        let descriptor = self.relation.get().descriptor();
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

    /// Looks up the entity with these keys. Returns false if the snapshot sees none, or the reader cannot find keys.
    pub fn seek(&mut self, keys: EntityKeys<'_>) -> bool {
        self.search = Search::None;
        // SAFETY: PostgreSQL sets an active snapshot before it calls an SQL function. The slot was made for this relation.
        self.keys
            .as_ref()
            .is_some_and(|index| unsafe { index.seek(self.relation.get(), active_snapshot(), keys, &self.stored) })
    }

    /// Returns the row of the last look-up.
    ///
    /// Raises an internal error if the look-up found no row.
    pub fn row(&self) -> Row<'_> {
        let slot = match &self.search {
            Search::Sorted(sorted) => &sorted.slot,
            _ => &self.stored,
        };
        // SAFETY: `is_whole` checked that the relation has the columns of an entity. The slot keeps its row until the next look-up, which
        // needs `&mut self` and so ends the row's borrow.
        unsafe { Row::of(slot.with_row()) }
    }

    /// Begins to search for the entities of a key range in one partition, in the order of their keys. The reader must find keys.
    pub fn search_range(&mut self, range: &KeyRange) {
        self.search = Search::None;
        if let Some(index) = &self.keys {
            let conditions = KeyConditions::of(range);
            // SAFETY: as in `seek`. The index and the conditions are dropped after the scan; their values do not move.
            let scan = unsafe { index.range(self.relation.get(), active_snapshot(), &conditions) };
            self.search = Search::ByKeys(scan, conditions);
        }
    }

    /// Begins to search for the entities with entries of a property index in a span, in the order of the entries.
    /// Returns false, without reading, if only a statement can do it.
    pub fn search_entries(&mut self, index: pg_sys::Oid, span: &Span) -> bool {
        self.search = Search::None;
        let index = Index::open(index, pg_sys::AccessShareLock);
        if !index.is_complete() {
            return false;
        }
        let bounds = Box::new([&span.lower, &span.upper].map(|bound| Varlena::new(bound)));
        let mut conditions = ScanCondition::between(bounds.each_ref().map(Value::bytea));
        // SAFETY: the table is open and locked. The caller names a valid property index of the table: it has one column, of type bytea. A
        // snapshot is active while an SQL function runs. The index and the bounds are dropped after the scan, and do not move.
        let scan = unsafe { Scan::begin(self.relation.get(), &index, active_snapshot(), &mut conditions) };
        self.search = Search::ByEntries(scan, index, bounds);
        true
    }

    /// Begins to search for the entities that have entries in spans of property indexes and pass `is_wanted`, each once
    /// and in key order. All of them are in memory, so they must be few. Returns false if only a statement can do it.
    pub fn search_sorted(&mut self, spans: &[(pg_sys::Oid, &Span)], is_wanted: impl Fn(&Row<'_>) -> bool) -> bool {
        // One allocation has all keys, because most are short.
        let (mut keys, mut found) = (Vec::new(), Vec::new());
        let mut sorted = Sorted {
            rows: Vec::new().into_iter(),
            slot: Slot::of_copies(self.relation.get()),
            context: new_context(c"table_service entities"),
        };
        for &(index, span) in spans {
            if !self.search_entries(index, span) {
                return false;
            }
            while self.next() {
                let row = self.row();
                if is_wanted(&row) {
                    // SAFETY: the context is valid until the search ends, and so is the copy.
                    let copy = unsafe {
                        let caller = pg_sys::MemoryContextSwitchTo(sorted.context);
                        let copy = row.copy();
                        pg_sys::MemoryContextSwitchTo(caller);
                        copy
                    };
                    // SAFETY: as above.
                    let position = unsafe { item_pointer_to_u64((*copy).t_self) };
                    let begin = keys.len();
                    keys.extend_from_slice(row.partition_key().as_bytes());
                    let middle = keys.len();
                    keys.extend_from_slice(row.row_key().as_bytes());
                    found.push((begin..middle, middle..keys.len(), position, copy));
                }
            }
        }
        found.sort_unstable_by(|(p, r, position, _), (other_p, other_r, other_position, _)| {
            let of = |range: &Range<usize>| keys.get(range.clone());
            (of(p).cmp(&of(other_p)))
                .then_with(|| of(r).cmp(&of(other_r)))
                .then(position.cmp(other_position))
        });
        // Indexes on several properties may have the same entity. Without a primary key several may have the same
        // keys.
        found.dedup_by_key(|&mut (.., position, _)| position);
        let rows: Vec<_> = found.into_iter().map(|(.., tuple)| tuple).collect();
        sorted.rows = rows.into_iter();
        self.search = Search::Sorted(sorted);
        true
    }

    /// Ends the search, and frees its scan or its rows.
    pub fn end_search(&mut self) {
        self.search = Search::None;
    }

    /// Moves to the next entity of the search. Returns false after the last one.
    pub fn next(&mut self) -> bool {
        pgrx::check_for_interrupts!();
        match &mut self.search {
            Search::None => false,
            // SAFETY: the slot fits the table of the index.
            Search::ByKeys(scan, _) | Search::ByEntries(scan, ..) => unsafe { scan.next(&self.stored) },
            Search::Sorted(sorted) => sorted.rows.next().is_some_and(|row| {
                // SAFETY: the slot is made for copies of rows, which live as long as their memory.
                unsafe { ExecStoreHeapTuple(row, sorted.slot.as_ptr(), false) };
                true
            }),
        }
    }
}
