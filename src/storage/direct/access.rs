//! A table opened with its indexes, to read, insert and update entities.

use std::ffi::c_int;
use std::panic::AssertUnwindSafe;

use pgrx::itemptr::item_pointer_to_u64;
use pgrx::prelude::*;
use table_service_model::property_index::Span;
use table_service_model::{Error, Properties, PropertiesBuf, ticks};

use super::eligibility::{Purpose, has_no_nulls, is_allowed, is_plain, is_planned_plainly, primary_key};
use super::index_entries::{IndexEntries, entry_insertion};
use crate::postgres::btree::{Comparison, ScanCondition, each_row};
use crate::postgres::catalog;
use crate::postgres::clock::now;
use crate::postgres::guarded::{guarded, without_guards};
use crate::postgres::memory::new_context;
use crate::postgres::settings;
use crate::postgres::types::value::{Bag, Value};
use crate::postgres::types::{PropertiesArg, TextArg};
use crate::postgres::varlena::{Varlena, Varlenas};
use crate::storage::arguments::EntityKeys;
use crate::storage::contract;
use crate::storage::expiry::Expiries;
use crate::storage::property_index::{has_our_keys, is_complete};
use crate::storage::row::Row;
use crate::storage::table::Table;

const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

without_guards! {
    fn ExecDropSingleTupleTableSlot(slot: *mut pg_sys::TupleTableSlot);
    fn index_close(index: pg_sys::Relation, lock: pg_sys::LOCKMODE);
    fn table_close(table: pg_sys::Relation, lock: pg_sys::LOCKMODE);
    // It raises no error.
    fn GetActiveSnapshot() -> pg_sys::Snapshot;
}

/// A table opened with the indexes that the purpose needs.
pub struct Direct {
    pub(super) relation: pg_sys::Relation,
    /// The primary key's index. Null for [`Purpose::Find`].
    index: pg_sys::Relation,
    /// The property indexes and expiry indexes, to which writes add entries. `None` if there are other indexes too.
    pub(super) entries: Option<IndexEntries>,
    /// When the entities to update expire. `None` if never.
    expiries: Option<Expiries>,
    /// The slot that holds the row of the last look-up. Null for inserts, which look up nothing.
    pub(super) stored: *mut pg_sys::TupleTableSlot,
}

/// Runs `f` on a table that the caller has locked. Returns `None` if only a statement can do the work.
///
/// If an error passes through, PostgreSQL closes the table and the index at the end of the (sub)transaction.
pub fn with<R>(table: &Table, purpose: Purpose, f: impl FnOnce(&mut Direct) -> Option<R>) -> Option<R> {
    if table.is_distributed() || (!settings::direct_access() && purpose != Purpose::Stamp) {
        return None;
    }
    let mut direct = Direct::open(table, purpose)?;
    let result = if is_planned_plainly(table, purpose) {
        f(&mut direct)
    } else {
        None
    };
    direct.close();
    result
}

/// The properties that an entity gets.
pub enum NewProperties<'p> {
    /// Those of an argument, which are written without a copy.
    Given(PropertiesArg<'p>),
    Made(PropertiesBuf),
}

/// The outcome of an attempt to write.
enum DirectWrite<T> {
    Done(T),
    /// A concurrent transaction has written the entity: retry.
    Again,
    /// Only a statement can do the work.
    Statement,
}

impl Direct {
    /// Opens a table that the caller has locked. Returns `None` if only a statement can do the work.
    fn open(table: &Table, purpose: Purpose) -> Option<Direct> {
        let own = catalog::own_objects();
        if !is_allowed(table.oid(), own.data_schema, purpose) {
            return None;
        }
        // SAFETY: the caller holds a lock on the table, so it can be opened. The slot fits the relation. A relation that
        // is not returned is closed.
        unsafe {
            let relation = pg_sys::table_open(table.oid(), NO_LOCK);
            let indexes = match is_plain(relation, &own, purpose) {
                true => open_indexes(relation, purpose),
                false => None,
            };
            let Some((index, entries)) = indexes else {
                pg_sys::table_close(relation, NO_LOCK);
                return None;
            };
            let stored = match purpose {
                Purpose::Insert => std::ptr::null_mut(),
                _ => pg_sys::table_slot_create(relation, std::ptr::null_mut()),
            };
            Some(Direct {
                relation,
                index,
                entries,
                expiries: (purpose == Purpose::Update)
                    .then(|| Expiries::of(table))
                    .filter(|expiries| !expiries.is_empty()),
                stored,
            })
        }
    }

    fn close(self) {
        if let Some(entries) = &self.entries {
            entries.close();
        }
        let (slot, index, relation) = (self.stored, self.index, self.relation);
        // SAFETY: `open` opened these relations and the slot, and `self` is not used any more.
        unsafe {
            guarded(|| {
                if !slot.is_null() {
                    ExecDropSingleTupleTableSlot(slot);
                }
                if !index.is_null() {
                    index_close(index, NO_LOCK);
                }
                table_close(relation, NO_LOCK);
            });
        }
    }

    /// Returns whether entities can be looked up by their keys.
    pub fn finds_keys(&self) -> bool {
        !self.index.is_null()
    }

    /// Returns whether no row has NULL in a column.
    pub fn has_no_nulls(&self) -> bool {
        // SAFETY: the relation is open.
        unsafe { has_no_nulls((*self.relation).rd_att) }
    }

    /// Returns the entity with these keys, if the caller's snapshot sees one.
    pub fn get(&mut self, keys: EntityKeys<'_>) -> Option<Row<'_>> {
        // SAFETY: PostgreSQL sets an active snapshot before it calls an SQL function.
        let is_found = unsafe { self.seek(GetActiveSnapshot(), keys) };
        // SAFETY: `open` checked that the table has the columns of an entity. The slot keeps its row until the next
        // look-up, which needs `&mut self` and so ends the row's borrow.
        is_found.then(|| unsafe { Row::of(self.stored) })
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
        let stored = self.stored;
        // SAFETY: the table is open and locked, and the slot fits it. The caller names a valid property index of the table:
        // it has one column, of type bytea. `open` checked that the table has the columns of an entity. A snapshot is active
        // while an SQL function runs.
        unsafe {
            let index = pg_sys::index_open(index, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
            let is_complete = is_complete(index);
            if is_complete {
                let snapshot = GetActiveSnapshot();
                each_row(self.relation, index, snapshot, &mut conditions, stored, || {
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
        // has the columns of the table, of which `open` checked that they are those of an entity.
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
                found.dedup_by_key(|&mut (.., place, _)| place);
                let slot =
                    pg_sys::MakeSingleTupleTableSlot((*self.relation).rd_att, &raw const pg_sys::TTSOpsHeapTuple);
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

    /// Inserts an entity.
    ///
    /// # Errors
    /// `EntityAlreadyExists`, and the errors of the CHECK constraint.
    pub fn insert(&self, keys: EntityKeys<'_>, clock: i64, properties: PropertiesArg<'_>) -> Result<(), Error> {
        check(keys, clock, properties.get())?;
        // SAFETY: the relation and its index are open and locked, and the values have the types of the columns. The
        // table is plain (`is_plain`), so an INSERT statement would do no more than this.
        let insert = || unsafe {
            let values = [
                keys.partition_key.datum(),
                keys.row_key.datum(),
                clock.into(),
                properties.datum(),
            ];
            let slot = new_version((*self.relation).rd_att, values);
            pg_sys::simple_table_tuple_insert(self.relation, slot);
            self.index_versions(pg_sys::BuildIndexInfo(self.index), &[slot], false);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            pg_sys::CommandCounterIncrement();
            Ok(())
        };
        PgTryBuilder::new(AssertUnwindSafe(insert))
            .catch_when(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, |_| {
                Err(Error::EntityAlreadyExists)
            })
            .execute()
    }

    /// Inserts entities whose keys are in order, filling page after page. Returns `None` if one of them is not valid.
    ///
    /// Raises 23505 for the first existing key, in key order. Call it in a subtransaction.
    pub fn insert_many(
        &self,
        partition_key: TextArg<'_>,
        entities: &[(&str, Properties<'_>)],
        clock: i64,
    ) -> Option<()> {
        for &(row_key, properties) in entities {
            contract::check(partition_key.get(), row_key, clock, properties).ok()?;
        }
        let values = Varlenas::new(
            entities
                .iter()
                .flat_map(|(row_key, properties)| [row_key.as_bytes(), properties.as_bytes()]),
        );
        let mut slots = Vec::new();
        slots.reserve(entities.len());
        // SAFETY: the relation is open and locked, and the table is plain. The table access method gets the arguments
        // that COPY gives it: as many slots as it is told, each with values of the columns' types. `values` and `slots`
        // live until the end of the block. The slots and what the access method allocates are freed with the context:
        // virtual slots hold nothing but memory, and a copied descriptor is not counted.
        unsafe {
            let multi_insert = (*(*self.relation).rd_tableam).multi_insert?;
            let context = new_context(c"table_service batch");
            let caller = pg_sys::MemoryContextSwitchTo(context);
            // A hundred references to the table's own descriptor cost more than the copy.
            let descriptor = pg_sys::CreateTupleDescCopy((*self.relation).rd_att);
            let mut datums = values.datums();
            while let (Some(row_key), Some(properties)) = (datums.next(), datums.next()) {
                let values = [partition_key.datum(), row_key, clock.into(), properties];
                slots.push(new_version(descriptor, values));
            }
            let command = pg_sys::GetCurrentCommandId(true);
            guarded(|| {
                multi_insert(
                    self.relation,
                    slots.as_mut_ptr(),
                    slots.len() as c_int,
                    command,
                    0,
                    std::ptr::null_mut(),
                );
            });
            self.index_versions(pg_sys::BuildIndexInfo(self.index), &slots, false);
            pg_sys::MemoryContextSwitchTo(caller);
            pg_sys::MemoryContextDelete(context);
            pg_sys::CommandCounterIncrement();
            Some(())
        }
    }

    /// Changes the properties of an entity if it has the Timestamp `version`, or any for `None`. `change` makes the new
    /// properties from the stored row. It may be called several times, with the row as it is then; the row that it was
    /// called with last is the one that is replaced. Returns the new Timestamp and properties, or `None` if only a
    /// statement can do the work, as `change` may say too.
    ///
    /// # Errors
    /// `ResourceNotFound`, also for an entity that has expired; `UpdateConditionNotSatisfied`, and the errors of `change` and of
    /// the CHECK constraint.
    pub fn update<'p>(
        &mut self,
        keys: EntityKeys<'_>,
        version: Option<i64>,
        change: impl Fn(&Row<'_>) -> Result<Option<NewProperties<'p>>, Error>,
    ) -> Result<Option<(i64, NewProperties<'p>)>, Error> {
        loop {
            // SAFETY: the relation is open, a transaction is running, and `seek` gets the snapshot that was just made
            // active. The calls are those that PostgreSQL makes before it executes an UPDATE. The first one raises if a
            // publication needs a replica identity that the table lacks. The new snapshot sees what this transaction
            // has done so far and what others have committed.
            let is_found = unsafe {
                pg_sys::CheckCmdReplicaIdentity(self.relation, pg_sys::CmdType::CMD_UPDATE);
                pg_sys::CommandCounterIncrement();
                pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
                self.seek(GetActiveSnapshot(), keys)
            };
            let attempt = if is_found {
                self.update_row(keys, version, &change)
            } else {
                Err(Error::EntityNotFound)
            };
            // SAFETY: this pops the snapshot that was pushed above. PostgreSQL does the same after it executes a
            // statement.
            unsafe {
                pg_sys::PopActiveSnapshot();
                pg_sys::CommandCounterIncrement();
            }
            match attempt? {
                DirectWrite::Done(done) => return Ok(Some(done)),
                DirectWrite::Again => {
                    pgrx::check_for_interrupts!();
                }
                DirectWrite::Statement => return Ok(None),
            }
        }
    }

    /// Changes the row of the last look-up.
    fn update_row<'p>(
        &mut self,
        keys: EntityKeys<'_>,
        version: Option<i64>,
        change: impl Fn(&Row<'_>) -> Result<Option<NewProperties<'p>>, Error>,
    ) -> Result<DirectWrite<(i64, NewProperties<'p>)>, Error> {
        // SAFETY: `open` checked that the table has the columns of an entity. The slot keeps its row until the next
        // look-up.
        let Some(row) = (unsafe { Row::without_nulls(self.stored) }) else {
            return Ok(DirectWrite::Statement);
        };
        self.require_alive(&row)?;
        if version.is_some_and(|version| version != row.timestamp()) {
            return Err(Error::UpdateConditionNotSatisfied);
        }
        let row = if self.expiries.is_some() {
            // The entity may expire while this waits for the lock.
            // SAFETY: the last look-up found a row. The lock puts it into the slot again.
            let row = unsafe {
                match self.lock_row() {
                    Some(pg_sys::TM_Result::TM_Ok) => Row::of(self.stored),
                    result => return Ok(self.not_written(result)),
                }
            };
            self.require_alive(&row)?;
            row
        } else {
            row
        };
        let timestamp = ticks::next_timestamp(row.timestamp(), now());
        let Some(changed) = change(&row)? else {
            return Ok(DirectWrite::Statement);
        };
        let made;
        let properties = match &changed {
            NewProperties::Given(given) => *given,
            NewProperties::Made(bag) => {
                made = Bag::new(bag.as_properties());
                made.arg()
            }
        };
        check(keys, timestamp, properties.get())?;
        let values = [
            keys.partition_key.datum(),
            keys.row_key.datum(),
            timestamp.into(),
            properties.datum(),
        ];
        // SAFETY: the last look-up found a row, and the values have the types of the columns.
        match unsafe { self.write_version(values) } {
            Some(pg_sys::TM_Result::TM_Ok) => Ok(DirectWrite::Done((timestamp, changed))),
            result => Ok(self.not_written(result)),
        }
    }

    /// Refuses the entity in a row if it has expired.
    fn require_alive(&self, row: &Row<'_>) -> Result<(), Error> {
        match &self.expiries {
            Some(expiries) if expiries.have_passed(row.timestamp(), row.properties()) => Err(Error::EntityNotFound),
            _ => Ok(()),
        }
    }

    /// Says what follows from the result of an attempt to write or to lock that was in vain.
    fn not_written<T>(&self, result: Option<pg_sys::TM_Result::Type>) -> DirectWrite<T> {
        match result {
            Some(pg_sys::TM_Result::TM_Updated) => {
                prevent_lost_update("could not serialize access due to concurrent update");
                DirectWrite::Again
            }
            Some(pg_sys::TM_Result::TM_Deleted) => {
                prevent_lost_update("could not serialize access due to concurrent delete");
                DirectWrite::Again
            }
            _ => DirectWrite::Statement,
        }
    }

    /// Locks the row of the last look-up as an update does, and waits for others who have locked it.
    ///
    /// # Safety
    /// The last look-up must have found a row.
    unsafe fn lock_row(&mut self) -> Option<pg_sys::TM_Result::Type> {
        // SAFETY: the relation is open and locked. The table access method gets the arguments that the executor gives it for
        // FOR NO KEY UPDATE: the row's place, which the caller promises, the active snapshot, and a slot for the row.
        unsafe {
            let tuple_lock = (*(*self.relation).rd_tableam).tuple_lock?;
            let mut failure = pg_sys::TM_FailureData::default();
            let mut place = (*self.stored).tts_tid;
            let (command, snapshot) = (pg_sys::GetCurrentCommandId(true), GetActiveSnapshot());
            let (relation, slot) = (self.relation, self.stored);
            Some(guarded(|| {
                tuple_lock(
                    relation,
                    &mut place,
                    snapshot,
                    slot,
                    command,
                    pg_sys::LockTupleMode::LockTupleNoKeyExclusive,
                    pg_sys::LockWaitPolicy::LockWaitBlock,
                    0,
                    &mut failure,
                )
            }))
        }
    }

    /// Writes a new version of the row of the last look-up.
    ///
    /// # Safety
    /// The last look-up must have found a row, and the values must have the types of the columns.
    pub(super) unsafe fn write_version(&mut self, values: [pg_sys::Datum; 4]) -> Option<pg_sys::TM_Result::Type> {
        // SAFETY: the relation is open and locked. The table access method gets the arguments that the executor gives
        // it: the row's place, which the caller promises, a slot with values of the columns' types, and the active
        // snapshot.
        unsafe {
            let tuple_update = (*(*self.relation).rd_tableam).tuple_update?;
            let slot = new_version((*self.relation).rd_att, values);
            let (mut failure, mut lock, mut update_indexes) =
                (pg_sys::TM_FailureData::default(), 0, Default::default());
            let (command, snapshot) = (pg_sys::GetCurrentCommandId(true), GetActiveSnapshot());
            let result = guarded(|| {
                tuple_update(
                    self.relation,
                    &mut (*self.stored).tts_tid,
                    slot,
                    command,
                    #[cfg(since_pg19)]
                    0,
                    snapshot,
                    std::ptr::null_mut(),
                    true,
                    &mut failure,
                    &mut lock,
                    &mut update_indexes,
                )
            });
            if result == pg_sys::TM_Result::TM_Ok && needs_index_entry(update_indexes) {
                self.index_versions(pg_sys::BuildIndexInfo(self.index), &[slot], true);
            }
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            Some(result)
        }
    }

    /// Looks up the row with these keys. Returns whether the snapshot sees one.
    ///
    /// # Safety
    /// The snapshot must be active.
    pub(super) unsafe fn seek(&mut self, snapshot: pg_sys::Snapshot, keys: EntityKeys<'_>) -> bool {
        let mut is_found = false;
        // SAFETY: an active snapshot is valid.
        unsafe {
            self.versions(snapshot, keys, |_| {
                is_found = true;
                false
            });
        }
        is_found
    }

    /// Calls `take` for the rows with these keys that the snapshot sees, until it wants no more. The slot keeps the last
    /// one.
    ///
    /// # Safety
    /// The snapshot must be valid until this function returns.
    pub(super) unsafe fn versions(
        &mut self,
        snapshot: pg_sys::Snapshot,
        keys: EntityKeys<'_>,
        mut take: impl FnMut(*mut pg_sys::TupleTableSlot) -> bool,
    ) {
        let mut conditions = [(1, keys.partition_key), (2, keys.row_key)]
            .map(|(column, key)| ScanCondition::new(column, Comparison::Equal, Value::text(key)));
        let stored = self.stored;
        // SAFETY: the caller promises that the snapshot is valid. `open` checked that the index has these two columns, of
        // type text with the collation "C". The slot was made for this relation.
        unsafe {
            each_row(self.relation, self.index, snapshot, &mut conditions, stored, || {
                take(stored)
            })
        };
    }

    /// Adds rows that were just written to the indexes, in their order. Raises 23505 if another row has the same keys.
    /// Before that it waits for a transaction that is inserting or deleting such a row.
    ///
    /// # Safety
    /// `index` must describe the table's index, and each slot must hold a row that was just written.
    unsafe fn index_versions(
        &self,
        index: *mut pg_sys::IndexInfo,
        slots: &[*mut pg_sys::TupleTableSlot],
        is_update: bool,
    ) {
        // SAFETY: the index's columns are the first two of the table, so a slot's first two values are those of the
        // index entry. The index of a primary key is a B-tree, which locks predicates itself, so `index_insert` would
        // do no more than this call.
        unsafe {
            let insert = entry_insertion((*(*self.index).rd_indam).aminsert);
            guarded(|| {
                for &slot in slots {
                    insert(
                        self.index,
                        (*slot).tts_values,
                        (*slot).tts_isnull,
                        &mut (*slot).tts_tid,
                        self.relation,
                        pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES,
                        is_update,
                        index,
                    );
                }
            });
            if let Some(entries) = &self.entries {
                for &slot in slots {
                    entries.insert(self.relation, slot);
                }
            }
        }
    }
}

/// Opens the index of the primary key, and the property indexes to which writes add entries. Returns `None` if only a
/// statement can do the work.
///
/// # Safety
/// The relation must be open and locked.
unsafe fn open_indexes(
    relation: pg_sys::Relation,
    purpose: Purpose,
) -> Option<(pg_sys::Relation, Option<IndexEntries>)> {
    let lock = match purpose {
        Purpose::Find(_) => return Some((std::ptr::null_mut(), None)),
        Purpose::Get => pg_sys::AccessShareLock,
        Purpose::Insert | Purpose::Update | Purpose::Stamp => pg_sys::RowExclusiveLock,
    } as pg_sys::LOCKMODE;
    // SAFETY: the caller holds a lock on the table, so its indexes exist.
    unsafe {
        let index = pg_sys::index_open(primary_key(relation)?, lock);
        if has_our_keys(index) {
            let entries = IndexEntries::open(relation, purpose);
            if entries.is_some() || purpose == Purpose::Stamp {
                return Some((index, entries));
            }
        }
        pg_sys::index_close(index, NO_LOCK);
        None
    }
}

fn check(keys: EntityKeys<'_>, timestamp: i64, properties: Properties<'_>) -> Result<(), Error> {
    contract::check(keys.partition_key.get(), keys.row_key.get(), timestamp, properties)
}

/// Makes the slot of a row to write.
///
/// # Safety
/// The descriptor must be that of a table with the columns of an entity, and the values must have their types.
unsafe fn new_version(descriptor: pg_sys::TupleDesc, values: [pg_sys::Datum; 4]) -> *mut pg_sys::TupleTableSlot {
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

#[cfg(not(since_pg16))]
fn needs_index_entry(update_indexes: bool) -> bool {
    update_indexes
}

#[cfg(since_pg16)]
fn needs_index_entry(update_indexes: pg_sys::TU_UpdateIndexes::Type) -> bool {
    update_indexes == pg_sys::TU_UpdateIndexes::TU_All
}

/// Raises if the transaction has one snapshot. At REPEATABLE READ and above, a transaction must not overwrite what
/// others have written since it began.
fn prevent_lost_update(message: &'static str) {
    if has_one_snapshot() {
        ereport!(ERROR, PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE, message);
    }
}

/// Returns whether this transaction keeps one snapshot from its beginning to its end.
pub fn has_one_snapshot() -> bool {
    // SAFETY: `XactIsoLevel` is a global of this process, which has one thread.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as c_int }
}
