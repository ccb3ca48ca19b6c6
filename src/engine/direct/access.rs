//! A table opened with its index: entities read, inserted and updated.

use std::ffi::c_int;
use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;
use table_service_model::{Error, Properties, ticks};

use super::eligibility::{Purpose, has_our_keys, is_allowed, is_plain, is_planned_plainly, primary_key};
use crate::engine::contract;
use crate::engine::table::Table;
use crate::postgres::arguments::Keys;
use crate::postgres::catalog;
use crate::postgres::clock::now;
use crate::postgres::guarded::guarded;
use crate::postgres::row::Row;
use crate::postgres::settings;
use crate::postgres::statement::Change;
use crate::postgres::types::value::{Bag, Text};
use crate::postgres::types::{PropertiesArg, TextArg};

const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// A table, opened with its index.
pub struct Direct {
    pub(super) relation: pg_sys::Relation,
    index: pg_sys::Relation,
    /// Where a row that is looked up is put, if any is.
    pub(super) stored: *mut pg_sys::TupleTableSlot,
}

/// Does `f` on a table that is locked already; `None` if that takes a statement.
///
/// When an error passes through, PostgreSQL closes what is open.
pub fn with<R>(table: &Table, purpose: Purpose, f: impl FnOnce(&mut Direct) -> Option<R>) -> Option<R> {
    if !settings::direct_access() && purpose != Purpose::Stamp {
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

/// What became of an attempt to write.
enum Attempt<T> {
    Done(T),
    /// Somebody else has written the entity meanwhile.
    Again,
    /// It takes a statement.
    Statement,
}

impl Direct {
    /// Opens a table, which is locked. `None` if what is to be done takes a statement.
    fn open(table: &Table, purpose: Purpose) -> Option<Direct> {
        let lock = match purpose {
            Purpose::Get => pg_sys::AccessShareLock,
            Purpose::Insert | Purpose::Update | Purpose::Stamp => pg_sys::RowExclusiveLock,
        } as pg_sys::LOCKMODE;
        let known = catalog::known();
        if !is_allowed(table.oid(), known.data_schema, purpose) {
            return None;
        }
        // SAFETY: the table is locked; what is not returned is closed.
        unsafe {
            let relation = pg_sys::table_open(table.oid(), NO_LOCK);
            let index = if is_plain(relation, &known, purpose) {
                primary_key(relation, purpose)
            } else {
                None
            };
            match index.map(|index| pg_sys::index_open(index, lock)) {
                Some(index) if has_our_keys(index) => {
                    let stored = if purpose == Purpose::Insert {
                        std::ptr::null_mut()
                    } else {
                        pg_sys::table_slot_create(relation, std::ptr::null_mut())
                    };
                    return Some(Direct {
                        relation,
                        index,
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
        // SAFETY: what `open` opened.
        unsafe {
            if !self.stored.is_null() {
                pg_sys::ExecDropSingleTupleTableSlot(self.stored);
            }
            pg_sys::index_close(self.index, NO_LOCK);
            pg_sys::table_close(self.relation, NO_LOCK);
        }
    }

    /// The entity with these keys, if it exists. Sees the caller's snapshot.
    pub fn get(&mut self, keys: Keys<'_>) -> Option<Row<'_>> {
        // SAFETY: a function that reads runs under a snapshot.
        let is_found = unsafe { self.seek(pg_sys::GetActiveSnapshot(), keys) };
        // SAFETY: the slot is that of a table with the columns of an entity, and keeps its row until the next look-up.
        is_found.then(|| unsafe { Row::of(self.stored) })
    }

    /// Inserts an entity.
    ///
    /// # Errors
    /// `EntityAlreadyExists`, and those of the CHECK.
    pub fn insert(&self, keys: Keys<'_>, clock: i64, properties: PropertiesArg<'_>) -> Result<(), Error> {
        check(keys, clock, properties.get())?;
        // SAFETY: the table is plain, so this is all that an INSERT does.
        let insert = || unsafe {
            let values = [
                keys.partition_key.datum(),
                keys.row_key.datum(),
                clock.into(),
                properties.datum(),
            ];
            let slot = new_version((*self.relation).rd_att, values);
            pg_sys::simple_table_tuple_insert(self.relation, slot);
            self.index_version(pg_sys::BuildIndexInfo(self.index), slot, false);
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

    /// Inserts entities whose keys are in order, page by page. `None` if one of them is not valid.
    ///
    /// Raises 23505 for the first in key order that exists: run it in a subtransaction.
    pub fn insert_many(
        &self,
        partition_key: TextArg<'_>,
        entities: &[(&str, Properties<'_>)],
        clock: i64,
    ) -> Option<()> {
        for &(row_key, properties) in entities {
            contract::check(partition_key.get(), row_key, clock, properties).ok()?;
        }
        let texts: Vec<_> = entities
            .iter()
            .map(|&(row_key, properties)| (Text::new(row_key), Bag::new(properties)))
            .collect();
        // SAFETY: the table is plain, and its own access method is called as COPY calls it.
        unsafe {
            let multi_insert = (*(*self.relation).rd_tableam).multi_insert?;
            // A copy is not counted: a hundred references to the table's own descriptor cost more than the copy.
            let descriptor = pg_sys::CreateTupleDescCopy((*self.relation).rd_att);
            let mut slots: Vec<_> = texts
                .iter()
                .map(|(row_key, bag)| {
                    let values = [
                        partition_key.datum(),
                        row_key.arg().datum(),
                        clock.into(),
                        bag.arg().datum(),
                    ];
                    new_version(descriptor, values)
                })
                .collect();
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
            let index = pg_sys::BuildIndexInfo(self.index);
            for &slot in &slots {
                self.index_version(index, slot, false);
                pg_sys::ExecDropSingleTupleTableSlot(slot);
            }
            pg_sys::CommandCounterIncrement();
            Some(())
        }
    }

    /// Changes the properties of an entity, if it has this Timestamp (or any, for `None`). Returns its new Timestamp, or `None` if that
    /// takes a statement after all.
    ///
    /// # Errors
    /// `ResourceNotFound`, `UpdateConditionNotSatisfied`, those of merging and of the CHECK.
    pub fn update(
        &mut self,
        keys: Keys<'_>,
        version: Option<i64>,
        change: Change,
        properties: PropertiesArg<'_>,
    ) -> Result<Option<i64>, Error> {
        loop {
            // SAFETY: what a statement does before its execution: publications need to know which row it was, and it sees what this
            // transaction has done so far, and what others have committed.
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
            // SAFETY: what a statement does after its execution.
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

    /// Changes the row that was just looked up.
    fn update_row(
        &mut self,
        keys: Keys<'_>,
        version: Option<i64>,
        change: Change,
        given: PropertiesArg<'_>,
    ) -> Result<Attempt<i64>, Error> {
        // SAFETY: the slot is that of a table with the columns of an entity, and keeps its row until the next look-up.
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
        // SAFETY: there is a stored row, and the values are those of a new version of it.
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

    /// Puts a new version in the place of the row that was just looked up.
    ///
    /// # Safety
    /// There is such a row, and the values are of the types of its columns.
    pub(super) unsafe fn write_version(&mut self, values: [pg_sys::Datum; 4]) -> Option<pg_sys::TM_Result::Type> {
        // SAFETY: the table's own access method, called as the executor calls it.
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
                self.index_version(pg_sys::BuildIndexInfo(self.index), slot, true);
            }
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            Some(result)
        }
    }

    /// Looks up the row with these keys; whether the snapshot sees one.
    ///
    /// # Safety
    /// The snapshot is active.
    pub(super) unsafe fn seek(&mut self, snapshot: pg_sys::Snapshot, keys: Keys<'_>) -> bool {
        // SAFETY: as promised.
        unsafe {
            let scan = self.begin_scan(snapshot, keys);
            let is_found = pg_sys::index_getnext_slot(scan, pg_sys::ScanDirection::ForwardScanDirection, self.stored);
            // The slot keeps its row.
            pg_sys::index_endscan(scan);
            is_found
        }
    }

    /// A scan of the primary key for these keys.
    ///
    /// # Safety
    /// The snapshot is valid.
    pub(super) unsafe fn begin_scan(&mut self, snapshot: pg_sys::Snapshot, keys: Keys<'_>) -> pg_sys::IndexScanDesc {
        let mut conditions = [pg_sys::ScanKeyData::default(); 2];
        let keys = [keys.partition_key, keys.row_key].map(TextArg::datum);
        // SAFETY: the index has these two columns, of type text with collation "C". It copies the conditions.
        unsafe {
            for (number, (condition, key)) in conditions.iter_mut().zip(keys).enumerate() {
                pg_sys::ScanKeyEntryInitialize(
                    condition,
                    0,
                    number as pg_sys::AttrNumber + 1,
                    pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
                    pg_sys::InvalidOid,
                    pg_sys::C_COLLATION_OID,
                    pg_sys::RegProcedure::from(pg_sys::F_TEXTEQ),
                    key,
                );
            }
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

    /// Enters a row that was written into the index. Raises 23505 if there is one with its keys, after waiting for whoever is
    /// about to insert or delete it.
    ///
    /// # Safety
    /// `index` describes the table's index. The slot holds a row that was just written.
    unsafe fn index_version(&self, index: *mut pg_sys::IndexInfo, slot: *mut pg_sys::TupleTableSlot, is_update: bool) {
        // SAFETY: the keys are the first two columns of the table and those of the index.
        unsafe {
            pg_sys::index_insert(
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
    }
}

fn check(keys: Keys<'_>, timestamp: i64, properties: Properties<'_>) -> Result<(), Error> {
    contract::check(keys.partition_key.get(), keys.row_key.get(), timestamp, properties)
}

/// A row to write.
///
/// # Safety
/// The descriptor is that of a table with the columns of an entity, and the values are of their types.
unsafe fn new_version(descriptor: pg_sys::TupleDesc, values: [pg_sys::Datum; 4]) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as promised; the slot has as many values.
    unsafe {
        let slot = pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsVirtual);
        for (number, value) in values.into_iter().enumerate() {
            *(*slot).tts_values.add(number) = value;
            *(*slot).tts_isnull.add(number) = false;
        }
        pg_sys::ExecStoreVirtualTuple(slot)
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

/// At REPEATABLE READ and above what others have written since the transaction began cannot be written over.
fn prevent_lost_update(message: &'static str) {
    if has_one_snapshot() {
        ereport!(ERROR, PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE, message);
    }
}

/// Whether this transaction sees the same data from its beginning to its end.
pub fn has_one_snapshot() -> bool {
    // SAFETY: the isolation level of this transaction.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as c_int }
}
