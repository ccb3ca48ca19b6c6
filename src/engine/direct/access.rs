//! A table opened with its primary key's index, to read, insert and update entities.

use std::cell::Cell;
use std::ffi::c_int;
use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;
use table_service_model::property_index::Span;
use table_service_model::{Error, Properties, ticks};

use super::eligibility::{Purpose, is_allowed, is_plain, is_planned_plainly, primary_key};
use super::property_entries::{PropertyEntries, entry_insertion};
use crate::engine::contract;
use crate::engine::table::Table;
use crate::postgres::arguments::Keys;
use crate::postgres::catalog;
use crate::postgres::clock::now;
use crate::postgres::guarded::guarded;
use crate::postgres::memory::{new_context, reserve};
use crate::postgres::property_index::{ColumnCondition, each_row, has_our_keys};
use crate::postgres::row::Row;
use crate::postgres::settings;
use crate::postgres::statement::Change;
use crate::postgres::types::value::{Bag, Value};
use crate::postgres::types::{PropertiesArg, TextArg};
use crate::postgres::varlena::{Varlena, Varlenas};

const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// A table opened with its primary key's index.
pub struct Direct {
    pub(super) relation: pg_sys::Relation,
    index: pg_sys::Relation,
    /// The property indexes, to which writes add entries. `None` if there are other indexes too.
    pub(super) entries: Option<PropertyEntries>,
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

/// The outcome of an attempt to write.
enum Attempt<T> {
    Done(T),
    /// A concurrent transaction has written the entity: retry.
    Again,
    /// Only a statement can do the work.
    Statement,
}

impl Direct {
    /// Opens a table that the caller has locked. Returns `None` if only a statement can do the work.
    fn open(table: &Table, purpose: Purpose) -> Option<Direct> {
        let lock = match purpose {
            Purpose::Get => pg_sys::AccessShareLock,
            Purpose::Insert | Purpose::Update | Purpose::Stamp => pg_sys::RowExclusiveLock,
        } as pg_sys::LOCKMODE;
        let known = catalog::known();
        if !is_allowed(table.oid(), known.data_schema, purpose) {
            return None;
        }
        // SAFETY: the caller holds a lock on the table, so both relations can be opened with the locks given here. The
        // slot fits the relation. Whatever is not returned is closed.
        unsafe {
            let relation = pg_sys::table_open(table.oid(), NO_LOCK);
            let index = if is_plain(relation, &known, purpose) {
                primary_key(relation)
            } else {
                None
            };
            match index.map(|index| pg_sys::index_open(index, lock)) {
                Some(index) if has_our_keys(index) => {
                    let entries = PropertyEntries::open(relation, purpose);
                    if entries.is_none() && purpose != Purpose::Stamp {
                        pg_sys::index_close(index, NO_LOCK);
                        pg_sys::table_close(relation, NO_LOCK);
                        return None;
                    }
                    let stored = if purpose == Purpose::Insert {
                        std::ptr::null_mut()
                    } else {
                        pg_sys::table_slot_create(relation, std::ptr::null_mut())
                    };
                    return Some(Direct {
                        relation,
                        index,
                        entries,
                        stored,
                    });
                }
                Some(index) => pg_sys::index_close(index, NO_LOCK),
                None => {}
            }
            pg_sys::table_close(relation, NO_LOCK);
            None
        }
    }

    fn close(self) {
        // SAFETY: `open` opened these relations and the slot, and `self` is not used any more.
        unsafe {
            if !self.stored.is_null() {
                pg_sys::ExecDropSingleTupleTableSlot(self.stored);
            }
            if let Some(entries) = &self.entries {
                entries.close();
            }
            pg_sys::index_close(self.index, NO_LOCK);
            pg_sys::table_close(self.relation, NO_LOCK);
        }
    }

    /// Returns the entity with these keys, if the caller's snapshot sees one.
    pub fn get(&mut self, keys: Keys<'_>) -> Option<Row<'_>> {
        // SAFETY: PostgreSQL sets an active snapshot before it calls an SQL function.
        let is_found = unsafe { self.seek(pg_sys::GetActiveSnapshot(), keys) };
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
        let conditions = ColumnCondition::between(bounds.each_ref().map(Value::bytea));
        let stored = self.stored;
        // SAFETY: the table is open and the slot fits it. The caller names a valid property index of the table: it has
        // one column, of type bytea. `open` checked that the table has the columns of an entity.
        unsafe {
            each_row(self.relation, index, &conditions, stored, &mut || {
                take(&Row::of(stored))
            })
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
        let mut found: Vec<(String, String, pg_sys::HeapTuple)> = Vec::new();
        let context = new_context(c"table_service entities");
        // SAFETY: the context is valid until the end of the block, and so are the rows, which are copied into it. The slot
        // has the columns of the table, of which `open` checked that they are those of an entity.
        unsafe {
            let caller = pg_sys::MemoryContextSwitchTo(context);
            let are_read = spans.iter().all(|&(index, span)| {
                self.each_between(index, (&span.lower, &span.upper), &mut |row| {
                    if is_wanted(row) {
                        let keys = (row.partition_key().to_owned(), row.row_key().to_owned());
                        found.push((keys.0, keys.1, row.copy()));
                    }
                    true
                })
            });
            if are_read {
                found.sort_unstable_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
                // Indexes on several properties may have the same entity.
                found.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
                let slot =
                    pg_sys::MakeSingleTupleTableSlot((*self.relation).rd_att, &raw const pg_sys::TTSOpsHeapTuple);
                for &(_, _, tuple) in &found {
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
    pub fn insert(&self, keys: Keys<'_>, clock: i64, properties: PropertiesArg<'_>) -> Result<(), Error> {
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
        reserve(&mut slots, entities.len());
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

    /// Changes the properties of an entity if it has the Timestamp `version`, or any for `None`. Returns its new
    /// Timestamp, or `None` if only a statement can do the work.
    ///
    /// # Errors
    /// `ResourceNotFound`, `UpdateConditionNotSatisfied`, and the errors of a merge and of the CHECK constraint.
    pub fn update(
        &mut self,
        keys: Keys<'_>,
        version: Option<i64>,
        change: Change,
        properties: PropertiesArg<'_>,
    ) -> Result<Option<i64>, Error> {
        loop {
            // SAFETY: the relation is open, a transaction is running, and `seek` gets the snapshot that was just made
            // active. The calls are those that PostgreSQL makes before it executes an UPDATE. The first one raises if a
            // publication needs a replica identity that the table lacks. The new snapshot sees what this transaction
            // has done so far and what others have committed.
            let is_found = unsafe {
                pg_sys::CheckCmdReplicaIdentity(self.relation, pg_sys::CmdType::CMD_UPDATE);
                pg_sys::CommandCounterIncrement();
                pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
                self.seek(pg_sys::GetActiveSnapshot(), keys)
            };
            let attempt = if is_found {
                self.update_row(keys, version, change, properties)
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
                Attempt::Done(timestamp) => return Ok(Some(timestamp)),
                Attempt::Again => {
                    pgrx::check_for_interrupts!();
                }
                Attempt::Statement => return Ok(None),
            }
        }
    }

    /// Changes the row of the last look-up.
    fn update_row(
        &mut self,
        keys: Keys<'_>,
        version: Option<i64>,
        change: Change,
        given: PropertiesArg<'_>,
    ) -> Result<Attempt<i64>, Error> {
        // SAFETY: `open` checked that the table has the columns of an entity. The slot keeps its row until the next
        // look-up.
        let Some(row) = (unsafe { Row::without_nulls(self.stored) }) else {
            return Ok(Attempt::Statement);
        };
        if version.is_some_and(|version| version != row.timestamp()) {
            return Err(Error::UpdateConditionNotSatisfied);
        }
        let timestamp = ticks::next_timestamp(row.timestamp(), now());
        let merged;
        let properties = match change {
            Change::Replace => {
                check(keys, timestamp, given.get())?;
                given
            }
            Change::Merge => {
                let bag = row.properties().merge(given.get())?;
                check(keys, timestamp, bag.as_properties())?;
                merged = Bag::new(bag.as_properties());
                merged.arg()
            }
        };
        let values = [
            keys.partition_key.datum(),
            keys.row_key.datum(),
            timestamp.into(),
            properties.datum(),
        ];
        // SAFETY: the last look-up found a row, and the values have the types of the columns.
        let result = unsafe { self.write_version(values) };
        Ok(match result {
            Some(pg_sys::TM_Result::TM_Ok) => Attempt::Done(timestamp),
            Some(pg_sys::TM_Result::TM_Updated) => {
                prevent_lost_update("could not serialize access due to concurrent update");
                Attempt::Again
            }
            Some(pg_sys::TM_Result::TM_Deleted) => {
                prevent_lost_update("could not serialize access due to concurrent delete");
                Attempt::Again
            }
            _ => Attempt::Statement,
        })
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
            let (command, snapshot) = (pg_sys::GetCurrentCommandId(true), pg_sys::GetActiveSnapshot());
            let result = guarded(|| {
                tuple_update(
                    self.relation,
                    &mut (*self.stored).tts_tid,
                    slot,
                    command,
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
    pub(super) unsafe fn seek(&mut self, snapshot: pg_sys::Snapshot, keys: Keys<'_>) -> bool {
        // SAFETY: an active snapshot is valid. The slot was made for this relation, and the scan is ended after its
        // last use.
        unsafe {
            let scan = self.begin_scan(snapshot, keys);
            let is_found = pg_sys::index_getnext_slot(scan, pg_sys::ScanDirection::ForwardScanDirection, self.stored);
            // The slot keeps its row.
            pg_sys::index_endscan(scan);
            is_found
        }
    }

    /// Begins a scan of the primary key for these keys.
    ///
    /// # Safety
    /// The snapshot must be valid until the scan ends.
    pub(super) unsafe fn begin_scan(&mut self, snapshot: pg_sys::Snapshot, keys: Keys<'_>) -> pg_sys::IndexScanDesc {
        let mut conditions = conditions();
        conditions[0].sk_argument = keys.partition_key.datum();
        conditions[1].sk_argument = keys.row_key.datum();
        // SAFETY: `open` checked that the index has these two columns, of type text with the collation "C". The scan
        // copies the conditions, so they need not outlive this function.
        unsafe {
            let scan = pg_sys::index_beginscan(
                self.relation,
                self.index,
                snapshot,
                #[cfg(feature = "pg18")]
                std::ptr::null_mut(),
                2,
                0,
            );
            pg_sys::index_rescan(scan, conditions.as_mut_ptr(), 2, std::ptr::null_mut(), 0);
            scan
        }
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

thread_local! {
    static CONDITIONS: Cell<Option<[pg_sys::ScanKeyData; 2]>> = const { Cell::new(None) };
}

/// Returns the conditions of a look-up by both keys, still without the keys. They are made once in a session.
fn conditions() -> [pg_sys::ScanKeyData; 2] {
    if let Some(conditions) = CONDITIONS.get() {
        return conditions;
    }
    let mut conditions = [pg_sys::ScanKeyData::default(); 2];
    for (column, condition) in (1..).zip(&mut conditions) {
        // SAFETY: the function fills the condition. The condition refers to PostgreSQL's own function texteq and to a
        // memory context that exists as long as the process.
        unsafe {
            pg_sys::ScanKeyEntryInitialize(
                condition,
                0,
                column,
                pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
                pg_sys::InvalidOid,
                pg_sys::C_COLLATION_OID,
                pg_sys::RegProcedure::from(pg_sys::F_TEXTEQ),
                pg_sys::Datum::null(),
            );
            condition.sk_func.fn_mcxt = pg_sys::TopMemoryContext;
        }
    }
    CONDITIONS.set(Some(conditions));
    conditions
}

fn check(keys: Keys<'_>, timestamp: i64, properties: Properties<'_>) -> Result<(), Error> {
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

#[cfg(feature = "pg15")]
fn needs_index_entry(update_indexes: bool) -> bool {
    update_indexes
}

#[cfg(not(feature = "pg15"))]
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
