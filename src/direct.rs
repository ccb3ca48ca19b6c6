//! Direct access: one entity read or written through the primary key's index and the table themselves, where a statement
//! would do just that. It saves setting up and tearing down the executor, which costs more than the work.
//!
//! "Just that" is a table that has what `create_table` gave it and nothing else that a statement would have to respect, and a
//! caller who has the privileges on the whole table. Everything else is done by statements, which know how.

use std::ffi::{CStr, c_int};
use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;
use table_service_model::{Error, Properties, ticks};

use crate::catalog;
use crate::clock::now;
use crate::guard;
use crate::scan::Row;
use crate::settings;
use crate::spi::{self, Statement};
use crate::tables::Table;
use crate::types::varlena;

/// What a look-up in the index takes, without the guard that `pg_sys` puts around each call and that costs as much as the
/// small ones of them do. They are called within one guard.
#[allow(non_snake_case)]
mod unguarded {
    use std::ffi::c_int;

    use pgrx::pg_sys::{
        AttrNumber, Datum, IndexScanDesc, Oid, RegProcedure, Relation, ScanDirection, ScanKey, Snapshot,
        StrategyNumber, TupleTableSlot,
    };

    unsafe extern "C-unwind" {
        pub fn ScanKeyEntryInitialize(
            entry: ScanKey,
            flags: c_int,
            attribute: AttrNumber,
            strategy: StrategyNumber,
            subtype: Oid,
            collation: Oid,
            procedure: RegProcedure,
            argument: Datum,
        );
        pub fn index_beginscan(
            heap: Relation,
            index: Relation,
            snapshot: Snapshot,
            #[cfg(feature = "pg18")] instrument: *mut pgrx::pg_sys::IndexScanInstrumentation,
            keys: c_int,
            order_bys: c_int,
        ) -> IndexScanDesc;
        pub fn index_rescan(
            scan: IndexScanDesc,
            keys: ScanKey,
            keys_count: c_int,
            order_bys: ScanKey,
            order_bys_count: c_int,
        );
        pub fn index_getnext_slot(
            scan: IndexScanDesc,
            direction: ScanDirection::Type,
            slot: *mut TupleTableSlot,
        ) -> bool;
        pub fn index_endscan(scan: IndexScanDesc);
    }
}

/// What is going to be done with the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Get,
    Insert,
    Update,
}

/// A table, opened with its index.
pub struct Direct {
    relation: pg_sys::Relation,
    index: pg_sys::Relation,
}

/// The keys of an entity.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    pub partition_key: &'a str,
    pub row_key: &'a str,
}

impl Keys<'_> {
    fn datums(self) -> [pg_sys::Datum; 2] {
        [self.partition_key, self.row_key].map(|key| varlena(key.as_bytes()))
    }
}

/// What an update does to the properties.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    Replace(Properties<'a>),
    Merge(Properties<'a>),
}

/// Does `f` on a table that is locked already; `None` if that takes a statement.
///
/// When an error passes through, PostgreSQL closes what is open.
pub fn with<R>(table: &Table, purpose: Purpose, f: impl FnOnce(&Direct) -> Option<R>) -> Option<R> {
    if !settings::direct_access() {
        return None;
    }
    // SAFETY: the table is locked; what is opened is closed.
    unsafe {
        let relation = pg_sys::table_open(table.oid(), pg_sys::NoLock as pg_sys::LOCKMODE);
        let index =
            if is_allowed(table.oid(), purpose) && is_plain(relation, purpose) && is_planned_plainly(table, purpose) {
                only_index(relation)
            } else {
                None
            };
        let result = index.and_then(|index| {
            let lock = match purpose {
                Purpose::Get => pg_sys::AccessShareLock,
                Purpose::Insert | Purpose::Update => pg_sys::RowExclusiveLock,
            };
            let index = pg_sys::index_open(index, lock as pg_sys::LOCKMODE);
            let result = if has_our_keys(index) {
                if purpose == Purpose::Update {
                    // Raises what a statement would: publications need to know which row it was.
                    pg_sys::CheckCmdReplicaIdentity(relation, pg_sys::CmdType::CMD_UPDATE);
                }
                f(&Direct { relation, index })
            } else {
                None
            };
            pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
            result
        });
        pg_sys::table_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
        result
    }
}

/// Whether the caller has the privileges on the whole table, and nobody else wants to be asked. If not, a statement says so, or
/// finds that privileges on the columns are enough.
fn is_allowed(table: pg_sys::Oid, purpose: Purpose) -> bool {
    let rights = match purpose {
        Purpose::Get => pg_sys::ACL_SELECT,
        Purpose::Insert => pg_sys::ACL_INSERT,
        Purpose::Update => pg_sys::ACL_SELECT | pg_sys::ACL_UPDATE,
    };
    // SAFETY: a catalog look-up in a transaction, and a pointer that other libraries set when they are loaded.
    unsafe {
        let all_of_them = |rights: pg_sys::AclMode| {
            pg_sys::pg_class_aclmask(table, pg_sys::GetUserId(), rights, pg_sys::AclMaskHow::ACLMASK_ALL) == rights
        };
        { pg_sys::ExecutorCheckPerms_hook }.is_none() && all_of_them(rights as pg_sys::AclMode)
    }
}

/// Whether the table is a heap that has nothing but what `create_table` makes.
///
/// # Safety
/// An open relation.
unsafe fn is_plain(relation: pg_sys::Relation, purpose: Purpose) -> bool {
    // SAFETY: an entry of the relation cache, whose parts are there or NULL.
    unsafe {
        let class = &*(*relation).rd_rel;
        let is_table = class.relkind == pg_sys::RELKIND_RELATION as std::ffi::c_char
            && class.relam == pg_sys::HEAP_TABLE_AM_OID
            && !class.relispartition
            && !class.relhassubclass
            && !class.relrowsecurity
            && (*relation).rd_rules.is_null()
            && (*(*relation).rd_att).natts == 4;
        is_table && (purpose == Purpose::Get || has_only_our_check(relation) && has_only_our_trigger(relation, purpose))
    }
}

/// # Safety
/// An open relation.
unsafe fn has_only_our_check(relation: pg_sys::Relation) -> bool {
    // SAFETY: as in `is_plain`. The expression is text, which begins with the function that is called.
    unsafe {
        let Some(constraints) = (*(*relation).rd_att).constr.as_ref() else {
            return true;
        };
        let ours = || {
            let expression = CStr::from_ptr((*constraints.check).ccbin).to_bytes();
            let rest = expression.strip_prefix(b"{FUNCEXPR :funcid ").unwrap_or_default();
            let digits = rest.split(|&byte| byte == b' ').next().unwrap_or_default();
            std::str::from_utf8(digits).is_ok_and(|oid| oid.parse() == Ok(catalog::check_function().to_u32()))
        };
        !constraints.has_generated_stored && (constraints.num_check == 0 || constraints.num_check == 1 && ours())
    }
}

/// Whether nothing fires that does more than set the Timestamp.
///
/// # Safety
/// An open relation.
unsafe fn has_only_our_trigger(relation: pg_sys::Relation, purpose: Purpose) -> bool {
    // SAFETY: as in `is_plain`.
    unsafe {
        let Some(all) = (*relation).trigdesc.as_ref() else {
            return true;
        };
        match purpose {
            Purpose::Get => true,
            Purpose::Insert => {
                !(all.trig_insert_before_row
                    || all.trig_insert_after_row
                    || all.trig_insert_before_statement
                    || all.trig_insert_after_statement
                    || all.trig_insert_new_table)
            }
            Purpose::Update => {
                let others = all.trig_update_after_row
                    || all.trig_update_before_statement
                    || all.trig_update_after_statement
                    || all.trig_update_old_table
                    || all.trig_update_new_table;
                let triggers =
                    std::slice::from_raw_parts(all.triggers, usize::try_from(all.numtriggers).unwrap_or_default());
                let foreign = |trigger: &pg_sys::Trigger| {
                    trigger.tgtype as u32 & pg_sys::TRIGGER_TYPE_UPDATE != 0
                        && trigger.tgfoid != catalog::trigger_function()
                };
                !others && !triggers.iter().any(foreign)
            }
        }
    }
}

/// Whether the planner, or a library that takes its place (Citus for a distributed table, say), would read or write this very
/// table.
fn is_planned_plainly(table: &Table, purpose: Purpose) -> bool {
    // SAFETY: a pointer that other libraries set when they are loaded.
    if unsafe { pg_sys::planner_hook }.is_none() {
        return true;
    }
    let (statement, node) = match purpose {
        Purpose::Get => (Statement::Get, pg_sys::NodeTag::T_IndexScan),
        Purpose::Insert => (Statement::Insert, pg_sys::NodeTag::T_ModifyTable),
        Purpose::Update => (Statement::Replace, pg_sys::NodeTag::T_ModifyTable),
    };
    spi::connect(|spi| spi.is_planned_as(statement, table, node))
}

/// The primary key's index, if there is no other: others are not kept up here.
///
/// # Safety
/// An open relation.
unsafe fn only_index(relation: pg_sys::Relation) -> Option<pg_sys::Oid> {
    // SAFETY: an entry of the relation cache. Its list is made when it is first asked for, as a copy, and there is one from then
    // on.
    unsafe {
        if !(*relation).rd_indexvalid {
            pg_sys::list_free(pg_sys::RelationGetIndexList(relation));
        }
        let indexes = (*relation).rd_indexlist.as_ref()?;
        let primary_key = (*relation).rd_pkindex;
        (indexes.length == 1 && (*indexes.elements).oid_value == primary_key).then_some(primary_key)
    }
}

/// Whether the primary key is that of `create_table`, and not one that its user put in its place.
///
/// # Safety
/// An open index.
unsafe fn has_our_keys(index: pg_sys::Relation) -> bool {
    // SAFETY: the catalog's row of the index, whose keys are as many as it says; and their collations.
    unsafe {
        let row = &*(*index).rd_index;
        let columns = row
            .indkey
            .values
            .as_slice(usize::try_from(row.indnatts).unwrap_or_default());
        let collations = std::slice::from_raw_parts((*index).rd_indcollation, columns.len());
        row.indimmediate && columns == [1, 2] && collations == [pg_sys::C_COLLATION_OID; 2]
    }
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
    /// Adds the entity with these keys, if it exists, to a result that has its columns. Sees the caller's snapshot.
    pub fn get(&self, keys: Keys<'_>, take: impl FnOnce(*mut pg_sys::TupleTableSlot)) {
        // SAFETY: a function that reads runs under a snapshot.
        unsafe {
            let slot = pg_sys::table_slot_create(self.relation, std::ptr::null_mut());
            if self.seek(pg_sys::GetActiveSnapshot(), keys, slot) {
                take(slot);
            }
            pg_sys::ExecDropSingleTupleTableSlot(slot);
        }
    }

    /// Inserts an entity.
    ///
    /// # Errors
    /// `EntityAlreadyExists`, and those of the CHECK.
    pub fn insert(&self, keys: Keys<'_>, clock: i64, properties: Properties<'_>) -> Result<(), Error> {
        guard::check(keys.partition_key, keys.row_key, clock, properties)?;
        // SAFETY: the table is plain, so this is all that an INSERT does.
        unsafe {
            let slot = new_version((*self.relation).rd_att, keys.datums(), clock, properties);
            pg_sys::simple_table_tuple_insert(self.relation, slot);
            let inserted = PgTryBuilder::new(AssertUnwindSafe(|| {
                self.index_version(pg_sys::BuildIndexInfo(self.index), slot, false);
                Ok(())
            }))
            .catch_when(PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION, |_| {
                Err(Error::EntityAlreadyExists)
            })
            .execute();
            inserted?;
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            pg_sys::CommandCounterIncrement();
        }
        Ok(())
    }

    /// Inserts entities whose keys are in order, page by page. `None` if one of them is not valid.
    ///
    /// Raises 23505 for the first in key order that exists: run it in a subtransaction.
    pub fn insert_many<'a>(
        &self,
        partition_key: &str,
        entities: impl Iterator<Item = (&'a str, Properties<'a>)>,
        clock: i64,
    ) -> Option<()> {
        // A copy is not counted: a hundred references to the table's own descriptor cost more than the copy.
        // SAFETY: that of an open relation.
        let descriptor = unsafe { pg_sys::CreateTupleDescCopy((*self.relation).rd_att) };
        let partition = varlena(partition_key.as_bytes());
        let slots = entities.map(|(row_key, properties)| {
            guard::check(partition_key, row_key, clock, properties).ok()?;
            let keys = [partition, varlena(row_key.as_bytes())];
            // SAFETY: the table is plain.
            Some(unsafe { new_version(descriptor, keys, clock, properties) })
        });
        let mut slots = slots.collect::<Option<Vec<_>>>()?;
        // SAFETY: the table's own access method, called as COPY calls it.
        unsafe {
            let multi_insert = (*(*self.relation).rd_tableam).multi_insert?;
            let (relation, command) = (self.relation, pg_sys::GetCurrentCommandId(true));
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                multi_insert(
                    relation,
                    slots.as_mut_ptr(),
                    slots.len() as c_int,
                    command,
                    0,
                    std::ptr::null_mut(),
                )
            });
            let index = pg_sys::BuildIndexInfo(self.index);
            for slot in slots {
                self.index_version(index, slot, false);
                pg_sys::ExecDropSingleTupleTableSlot(slot);
            }
            pg_sys::CommandCounterIncrement();
        }
        Some(())
    }

    /// Changes the properties of an entity, if it has this Timestamp (or any, for `None`); its new Timestamp. `None` if that
    /// takes a statement after all.
    ///
    /// # Errors
    /// `ResourceNotFound`, `UpdateConditionNotSatisfied`, those of merging and of the CHECK.
    pub fn update(&self, keys: Keys<'_>, version: Option<i64>, change: Change<'_>) -> Result<Option<i64>, Error> {
        loop {
            // SAFETY: what a statement does before and after its execution: it sees what this transaction has done so far, and
            // what others have committed.
            let attempt = unsafe {
                pg_sys::CommandCounterIncrement();
                pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
                let attempt = self.try_update(pg_sys::GetActiveSnapshot(), keys, version, change);
                pg_sys::PopActiveSnapshot();
                pg_sys::CommandCounterIncrement();
                attempt?
            };
            match attempt {
                Attempt::Done(timestamp) => return Ok(Some(timestamp)),
                Attempt::Again => {
                    pgrx::check_for_interrupts!();
                }
                Attempt::Statement => return Ok(None),
            }
        }
    }

    /// # Safety
    /// `snapshot` is the active one.
    unsafe fn try_update(
        &self,
        snapshot: pg_sys::Snapshot,
        keys: Keys<'_>,
        version: Option<i64>,
        change: Change<'_>,
    ) -> Result<Attempt<i64>, Error> {
        // SAFETY: the slot is this function's.
        unsafe {
            let stored = pg_sys::table_slot_create(self.relation, std::ptr::null_mut());
            let attempt = if self.seek(snapshot, keys, stored) {
                self.update_row(snapshot, stored, keys, version, change)
            } else {
                Err(Error::EntityNotFound)
            };
            pg_sys::ExecDropSingleTupleTableSlot(stored);
            attempt
        }
    }

    /// # Safety
    /// `stored` holds the row with these keys that `snapshot` sees.
    unsafe fn update_row(
        &self,
        snapshot: pg_sys::Snapshot,
        stored: *mut pg_sys::TupleTableSlot,
        keys: Keys<'_>,
        version: Option<i64>,
        change: Change<'_>,
    ) -> Result<Attempt<i64>, Error> {
        // SAFETY: a row of the table, whose values live as long as the slot holds it.
        let row = unsafe { Row::of(stored) };
        if version.is_some_and(|version| version != row.timestamp()) {
            return Err(Error::UpdateConditionNotSatisfied);
        }
        let merged;
        let properties = match change {
            Change::Replace(new) => new,
            Change::Merge(new) => {
                merged = row.properties().merge(new)?;
                merged.as_properties()
            }
        };
        let next = ticks::next_timestamp(row.timestamp(), now());
        guard::check(keys.partition_key, keys.row_key, next, properties)?;
        // SAFETY: as promised.
        Ok(unsafe { self.write_version(snapshot, stored, keys, next, properties) })
    }

    /// Puts a new version in the place of the stored one.
    ///
    /// # Safety
    /// `stored` holds a row that `snapshot` sees.
    unsafe fn write_version(
        &self,
        snapshot: pg_sys::Snapshot,
        stored: *mut pg_sys::TupleTableSlot,
        keys: Keys<'_>,
        timestamp: i64,
        properties: Properties<'_>,
    ) -> Attempt<i64> {
        // SAFETY: the table's own access method, called as the executor calls it.
        unsafe {
            let Some(tuple_update) = (*(*self.relation).rd_tableam).tuple_update else {
                return Attempt::Statement;
            };
            let slot = new_version((*self.relation).rd_att, keys.datums(), timestamp, properties);
            let (mut failure, mut lock, mut update_indexes) =
                (pg_sys::TM_FailureData::default(), 0, Default::default());
            let command = pg_sys::GetCurrentCommandId(true);
            let relation = self.relation;
            let result = pg_sys::ffi::pg_guard_ffi_boundary(|| {
                tuple_update(
                    relation,
                    &mut (*stored).tts_tid,
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
            let attempt = match result {
                pg_sys::TM_Result::TM_Ok => {
                    if needs_index_entry(update_indexes) {
                        self.index_version(pg_sys::BuildIndexInfo(self.index), slot, true);
                    }
                    Attempt::Done(timestamp)
                }
                pg_sys::TM_Result::TM_Updated => {
                    prevent_lost_update("could not serialize access due to concurrent update");
                    Attempt::Again
                }
                pg_sys::TM_Result::TM_Deleted => {
                    prevent_lost_update("could not serialize access due to concurrent delete");
                    Attempt::Again
                }
                _ => Attempt::Statement,
            };
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            attempt
        }
    }

    /// Puts the row with these keys into a slot; whether the snapshot sees one.
    ///
    /// # Safety
    /// The slot was made for this table, and the snapshot is active.
    unsafe fn seek(&self, snapshot: pg_sys::Snapshot, keys: Keys<'_>, slot: *mut pg_sys::TupleTableSlot) -> bool {
        let keys = keys.datums();
        let mut conditions = [pg_sys::ScanKeyData::default(); 2];
        // SAFETY: the index has these two columns, of type text with collation "C". Nothing in the closure needs to be dropped.
        unsafe {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                for (number, (condition, key)) in conditions.iter_mut().zip(keys).enumerate() {
                    unguarded::ScanKeyEntryInitialize(
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
                let scan = unguarded::index_beginscan(
                    self.relation,
                    self.index,
                    snapshot,
                    #[cfg(feature = "pg18")]
                    std::ptr::null_mut(),
                    2,
                    0,
                );
                unguarded::index_rescan(scan, conditions.as_mut_ptr(), 2, std::ptr::null_mut(), 0);
                let found = unguarded::index_getnext_slot(scan, pg_sys::ScanDirection::ForwardScanDirection, slot);
                // The slot keeps its row.
                unguarded::index_endscan(scan);
                found
            })
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

/// A row to write.
///
/// # Safety
/// The descriptor is that of a table with the columns of an entity.
unsafe fn new_version(
    descriptor: pg_sys::TupleDesc,
    [partition_key, row_key]: [pg_sys::Datum; 2],
    timestamp: i64,
    properties: Properties<'_>,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as promised; the slot has as many values.
    unsafe {
        let slot = pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsVirtual);
        let values = [
            partition_key,
            row_key,
            pg_sys::Datum::from(timestamp),
            varlena(properties.as_bytes()),
        ];
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
    // SAFETY: the isolation level of this transaction.
    if unsafe { pg_sys::XactIsoLevel } >= pg_sys::XACT_REPEATABLE_READ as c_int {
        ereport!(ERROR, PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE, message);
    }
}
