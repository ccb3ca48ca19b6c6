//! Direct access: one entity read or written through the primary key's index and the table themselves, where a statement
//! would do just that. It saves setting up and tearing down the executor, which costs more than the work.
//!
//! "Just that" is a table that has what `create_table` gave it and nothing else that a statement would have to respect, and a
//! caller who has the privileges on the whole table. Everything else is done by statements, which know how.

use std::ffi::{CStr, c_char, c_int};
use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;
use table_service_model::{Error, Properties, ticks};

use super::contract;
use super::table::Table;
use crate::postgres::arguments::Keys;
use crate::postgres::catalog::{self, Known};
use crate::postgres::clock::now;
use crate::postgres::guarded::guarded;
use crate::postgres::row::{Row, is_entity};
use crate::postgres::settings;
use crate::postgres::spi;
use crate::postgres::statement::{Change, Statement};
use crate::postgres::types::value::{Bag, Text};
use crate::postgres::types::{PropertiesArg, TextArg};

/// What is going to be done with the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Get,
    Insert,
    Update,
    /// What [`settle`] does with an entity that the caller has just inserted, whoever may do what else.
    Stamp,
}

const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// A table, opened with its index.
pub struct Direct {
    relation: pg_sys::Relation,
    index: pg_sys::Relation,
    /// Where a row that is looked up is put, if any is.
    stored: *mut pg_sys::TupleTableSlot,
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

/// Whether the caller has the privileges on the whole table and may name it, and no library wants to be asked. If not, a statement
/// says so, or finds that privileges on the columns are enough.
fn is_allowed(table: pg_sys::Oid, schema: pg_sys::Oid, purpose: Purpose) -> bool {
    let rights = match purpose {
        Purpose::Get => pg_sys::ACL_SELECT,
        Purpose::Insert => pg_sys::ACL_INSERT,
        Purpose::Update => pg_sys::ACL_SELECT | pg_sys::ACL_UPDATE,
        Purpose::Stamp => return true,
    } as pg_sys::AclMode;
    // SAFETY: catalog look-ups in a transaction, and a pointer that other libraries set when they are loaded.
    unsafe {
        let user = pg_sys::GetUserId();
        let has_rights = || pg_sys::pg_class_aclmask(table, user, rights, pg_sys::AclMaskHow::ACLMASK_ALL) == rights;
        { pg_sys::ExecutorCheckPerms_hook }.is_none() && has_rights() && may_use(schema, user)
    }
}

/// Whether a user may name what is in a schema.
fn may_use(schema: pg_sys::Oid, user: pg_sys::Oid) -> bool {
    let usage = pg_sys::ACL_USAGE as pg_sys::AclMode;
    // SAFETY: a catalog look-up in a transaction.
    let result = unsafe {
        #[cfg(feature = "pg15")]
        {
            pg_sys::pg_namespace_aclcheck(schema, user, usage)
        }
        #[cfg(not(feature = "pg15"))]
        {
            pg_sys::object_aclcheck(pg_sys::NamespaceRelationId, schema, user, usage)
        }
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether the table is a heap that has nothing but what `create_table` makes.
///
/// # Safety
/// An open relation.
unsafe fn is_plain(relation: pg_sys::Relation, known: &Known, purpose: Purpose) -> bool {
    // SAFETY: an entry of the relation cache, whose parts are there or NULL.
    unsafe {
        let class = &*(*relation).rd_rel;
        let is_heap = class.relkind == pg_sys::RELKIND_RELATION as c_char
            && class.relam == pg_sys::HEAP_TABLE_AM_OID
            && (*(*relation).rd_att).natts == 4
            && is_entity((*relation).rd_att)
            && has_only_stored_columns((*relation).rd_att);
        let is_all = || {
            !class.relispartition && !class.relhassubclass && !class.relrowsecurity && (*relation).rd_rules.is_null()
        };
        is_heap
            && match purpose {
                Purpose::Stamp => true,
                Purpose::Get => is_all(),
                Purpose::Insert | Purpose::Update => {
                    is_all() && has_only_our_check(relation, known) && has_only_our_trigger(relation, known, purpose)
                }
            }
    }
}

/// Whether every row has all its columns as they are stored: none is generated, and none was added with a default that older rows do
/// not have.
///
/// # Safety
/// The descriptor of an open relation.
unsafe fn has_only_stored_columns(descriptor: pg_sys::TupleDesc) -> bool {
    // SAFETY: as promised; the constraints are there or NULL.
    unsafe {
        (*descriptor).constr.as_ref().is_none_or(|constraints| {
            #[cfg(feature = "pg18")]
            let is_generated = constraints.has_generated_stored || constraints.has_generated_virtual;
            #[cfg(not(feature = "pg18"))]
            let is_generated = constraints.has_generated_stored;
            !is_generated && constraints.missing.is_null()
        })
    }
}

/// # Safety
/// An open relation.
unsafe fn has_only_our_check(relation: pg_sys::Relation, known: &Known) -> bool {
    // SAFETY: as in `is_plain`. The expression is text, which begins with the function that is called.
    unsafe {
        let Some(constraints) = (*(*relation).rd_att).constr.as_ref() else {
            return true;
        };
        let ours = || {
            let expression = CStr::from_ptr((*constraints.check).ccbin).to_bytes();
            let rest = expression.strip_prefix(b"{FUNCEXPR :funcid ").unwrap_or_default();
            let digits = rest.split(|&byte| byte == b' ').next().unwrap_or_default();
            std::str::from_utf8(digits).is_ok_and(|oid| oid.parse() == Ok(known.check_function.to_u32()))
        };
        constraints.num_check == 0 || constraints.num_check == 1 && ours()
    }
}

/// Whether nothing fires that does more than set the Timestamp.
///
/// # Safety
/// An open relation.
unsafe fn has_only_our_trigger(relation: pg_sys::Relation, known: &Known, purpose: Purpose) -> bool {
    // SAFETY: as in `is_plain`.
    unsafe {
        let Some(all) = (*relation).trigdesc.as_ref() else {
            return true;
        };
        match purpose {
            Purpose::Get | Purpose::Stamp => true,
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
                    trigger.tgtype as u32 & pg_sys::TRIGGER_TYPE_UPDATE != 0 && trigger.tgfoid != known.trigger_function
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
    // What the statement would be given makes no difference to its plan.
    let (key, bag) = (Text::new(""), Bag::new(Properties::from_stored(&[])));
    let keys = Keys {
        partition_key: key.arg(),
        row_key: key.arg(),
    };
    let (statement, node) = match purpose {
        Purpose::Get => (Statement::get(keys), pg_sys::NodeTag::T_IndexScan),
        Purpose::Insert => (Statement::insert(keys, 0, bag.arg()), pg_sys::NodeTag::T_ModifyTable),
        Purpose::Update => (
            Statement::update(Change::Replace, keys, 0, bag.arg(), None),
            pg_sys::NodeTag::T_ModifyTable,
        ),
        Purpose::Stamp => return true,
    };
    spi::connect(|spi| spi.is_planned_as(table.name(), &statement, node))
}

/// The primary key's index. Where rows are written, there must be no other index: others are not kept up here.
///
/// # Safety
/// An open relation.
unsafe fn primary_key(relation: pg_sys::Relation, purpose: Purpose) -> Option<pg_sys::Oid> {
    // SAFETY: as in `count_of_indexes`.
    unsafe {
        let count = count_of_indexes(relation);
        let primary_key = (*relation).rd_pkindex;
        let suffices = count == 1 || purpose == Purpose::Stamp;
        (suffices && primary_key != pg_sys::InvalidOid).then_some(primary_key)
    }
}

/// # Safety
/// An open relation.
unsafe fn count_of_indexes(relation: pg_sys::Relation) -> c_int {
    // SAFETY: an entry of the relation cache. Its list is made when it is first asked for, as a copy, and there is one from then
    // on.
    unsafe {
        if !(*relation).rd_indexvalid {
            pg_sys::list_free(pg_sys::RelationGetIndexList(relation));
        }
        (*relation).rd_indexlist.as_ref().map_or(0, |indexes| indexes.length)
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
    unsafe fn write_version(&mut self, values: [pg_sys::Datum; 4]) -> Option<pg_sys::TM_Result::Type> {
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
    unsafe fn seek(&mut self, snapshot: pg_sys::Snapshot, keys: Keys<'_>) -> bool {
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
    unsafe fn begin_scan(&mut self, snapshot: pg_sys::Snapshot, keys: Keys<'_>) -> pg_sys::IndexScanDesc {
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

/// How many transactions have come to an end that wrote something, of all sessions.
pub fn completed_transactions() -> u64 {
    // SAFETY: a counter in shared memory, which only grows. Whoever waited for a transaction sees that it has ended.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        let variables = pg_sys::ShmemVariableCache;
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        let variables = pg_sys::TransamVariables;
        std::ptr::read_volatile(&raw const (*variables).xactCompletionCount)
    }
}

/// The Timestamp of an entity that was just inserted with `written`, so that it is later than those of all earlier versions.
///
/// An insert takes the clock before it waits for the lock on its key. Whoever held that has perhaps written and deleted an entity with
/// a later Timestamp meanwhile. Its versions are still there as long as our snapshot is. So an insert compares, if a
/// transaction has ended since it took the clock ([`completed_transactions`]), and writes a later Timestamp where it must.
///
/// Raises `serialization_failure` where that takes more than the table and its primary key.
pub fn settle(table: &Table, keys: Keys<'_>, written: i64) -> i64 {
    with(table, Purpose::Stamp, |direct| Some(direct.settle(keys, written))).unwrap_or(written)
}

impl Direct {
    fn settle(&mut self, keys: Keys<'_>, written: i64) -> i64 {
        let (mut own, mut latest) = (None, None);
        // SAFETY: the snapshot sees all versions. The slot keeps its row until the next look-up.
        unsafe {
            self.versions(&raw mut pg_sys::SnapshotAnyData, keys, |slot| {
                let Some(row) = Row::without_nulls(slot) else { return };
                if row.timestamp() == written && is_own_version(slot) {
                    own = Some((*slot).tts_tid);
                } else {
                    latest = latest.max(Some(row.timestamp()));
                }
            });
        }
        match (own, latest) {
            (Some(own), Some(latest)) if latest >= written => self.restamp(keys, own, latest),
            _ => written,
        }
    }

    /// Writes a Timestamp later than `latest` into the row at `place`, which the caller has inserted.
    fn restamp(&mut self, keys: Keys<'_>, place: pg_sys::ItemPointerData, latest: i64) -> i64 {
        // SAFETY: the row is there: this transaction has inserted it, and nobody else sees it.
        unsafe {
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let is_found = count_of_indexes(self.relation) == 1 && self.seek(pg_sys::GetActiveSnapshot(), keys);
            let row = if is_found {
                Row::without_nulls(self.stored)
            } else {
                None
            };
            let timestamp = ticks::next_timestamp(latest, now());
            let is_written = row.is_some_and(|row| {
                let [partition_key, row_key, _, properties] = *row.values();
                (*self.stored).tts_tid.ip_posid == place.ip_posid
                    && self.write_version([partition_key, row_key, timestamp.into(), properties])
                        == Some(pg_sys::TM_Result::TM_Ok)
            });
            if !is_written {
                ereport!(
                    ERROR,
                    PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                    "could not insert an entity after a concurrent delete of a later version"
                );
            }
            pg_sys::PopActiveSnapshot();
            pg_sys::CommandCounterIncrement();
            timestamp
        }
    }

    /// Gives all rows with these keys that the snapshot sees to `take`.
    ///
    /// # Safety
    /// The snapshot is valid.
    unsafe fn versions(
        &mut self,
        snapshot: pg_sys::Snapshot,
        keys: Keys<'_>,
        mut take: impl FnMut(*mut pg_sys::TupleTableSlot),
    ) {
        // SAFETY: as promised.
        unsafe {
            let scan = self.begin_scan(snapshot, keys);
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            while pg_sys::index_getnext_slot(scan, forward, self.stored) {
                take(self.stored);
            }
            pg_sys::index_endscan(scan);
        }
    }
}

/// Whether a row was inserted by this transaction and not deleted since.
///
/// # Safety
/// The slot holds a row of a heap.
unsafe fn is_own_version(slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: as promised; a slot of a heap has both system columns.
    unsafe {
        let Some(system_column) = (*(*slot).tts_ops).getsysattr else {
            return false;
        };
        let mut is_null = false;
        let [inserted_by, deleted_by] = [
            pg_sys::MinTransactionIdAttributeNumber,
            pg_sys::MaxTransactionIdAttributeNumber,
        ]
        .map(|column| {
            let datum = guarded(|| system_column(slot, column, &mut is_null));
            pg_sys::TransactionId::from(datum.value() as u32)
        });
        deleted_by == pg_sys::InvalidTransactionId && pg_sys::TransactionIdIsCurrentTransactionId(inserted_by)
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
