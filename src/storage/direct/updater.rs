//! Changes entities.

use pgrx::prelude::*;
use table_service_model::{Error, PropertiesBuf, ticks};

use super::eligibility::{Access, has_only_our_check, has_only_our_trigger, is_whole};
use super::index_entries::{WrittenIndexes, check, new_version};
use crate::postgres::guarded::guarded;
use crate::postgres::{
    Bag, OpenTable, PropertiesArg, Slot, TextArg, active_snapshot, has_one_snapshot, now, with_new_snapshot,
};
use crate::storage::arguments::EntityKeys;
use crate::storage::expiry::Expiries;
use crate::storage::placement::Written;
use crate::storage::row::Row;
use crate::storage::statement::{Statement, UpdateMode};
use crate::storage::table::Table;

/// A table opened to change entities.
pub struct Updater {
    /// The slot that holds the row of the last look-up.
    pub(super) stored: Slot,
    indexes: WrittenIndexes,
    relation: OpenTable,
    /// When the entities expire.
    expiries: Expiries,
}

/// The properties that an entity gets.
pub enum NewProperties<'p> {
    /// The properties of an argument, which are written without a copy.
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

impl Updater {
    /// Opens a table that the caller has locked, to change an entity of a partition. Returns `None` if only a statement can do the work.
    pub fn open(table: &Table, partition_key: TextArg<'_>) -> Option<Updater> {
        const ACCESS: Access = Access {
            rights: pg_sys::ACL_SELECT | pg_sys::ACL_UPDATE,
            is_plain: |relation, own| {
                is_whole(relation) && has_only_our_check(relation, own) && has_only_our_trigger(relation, own)
            },
            statement: |keys, bag| Statement::update(UpdateMode::Replace, keys, 0, bag, None),
            node: pg_sys::NodeTag::T_ModifyTable,
        };
        let relation = ACCESS.open(table, || table.relation_to_write(partition_key, Written::One))?;
        Updater::of(relation, Expiries::of(table))
    }

    /// Makes an updater of an open table with the columns of an entity. The caller has checked that this is allowed.
    pub(super) fn of(relation: OpenTable, expiries: Expiries) -> Option<Updater> {
        Some(Updater {
            stored: Slot::of(relation.get()),
            indexes: WrittenIndexes::open(relation.get())?,
            relation,
            expiries,
        })
    }

    /// Changes the properties of an entity if it has the Timestamp `version`, or any for `None`. `change` makes the new
    /// properties from the stored row. It may run several times, each time with the current row; the row of the last
    /// call is replaced. Returns the new Timestamp and properties, or `None` if only a statement can do the work.
    /// `change` can also return `None` to say so.
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
            // SAFETY: the relation is open. It raises if a publication needs a replica identity that the table lacks.
            unsafe { pg_sys::CheckCmdReplicaIdentity(self.relation.get().as_ptr(), pg_sys::CmdType::CMD_UPDATE) };
            let attempt = with_new_snapshot(|| match self.seek(keys) {
                true => self.update_row(keys, version, &change),
                false => Err(Error::EntityNotFound),
            });
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
        change: &impl Fn(&Row<'_>) -> Result<Option<NewProperties<'p>>, Error>,
    ) -> Result<DirectWrite<(i64, NewProperties<'p>)>, Error> {
        // SAFETY: `open` is given a table that has the columns of an entity. The slot keeps its row until the next
        // look-up.
        let Some(row) = (unsafe { Row::without_nulls(self.stored.as_ptr()) }) else {
            return Ok(DirectWrite::Statement);
        };
        self.require_alive(&row)?;
        if version.is_some_and(|version| version != row.timestamp()) {
            return Err(Error::UpdateConditionNotSatisfied);
        }
        let row = if !self.expiries.is_empty() {
            // The entity may expire while this waits for the lock.
            // SAFETY: the last look-up found a row. The lock puts it into the slot again.
            let row = unsafe {
                match self.lock_row() {
                    Some(pg_sys::TM_Result::TM_Ok) => Row::of(self.stored.as_ptr()),
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
        let expiries = &self.expiries;
        match !expiries.is_empty() && expiries.have_passed(row.timestamp(), row.properties()) {
            true => Err(Error::EntityNotFound),
            false => Ok(()),
        }
    }

    /// Returns the outcome of a failed attempt to write or to lock, or raises a serialization failure.
    fn not_written<T>(&self, result: Option<pg_sys::TM_Result::Type>) -> DirectWrite<T> {
        let how = match result {
            Some(pg_sys::TM_Result::TM_Updated) => "update",
            Some(pg_sys::TM_Result::TM_Deleted) => "delete",
            _ => return DirectWrite::Statement,
        };
        // At REPEATABLE READ and above, a transaction must not overwrite rows that others have written since it began.
        if has_one_snapshot() {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                format!("could not serialize access due to concurrent {how}")
            );
        }
        DirectWrite::Again
    }

    /// Locks the row of the last look-up as an update does, and waits for other transactions that have locked it.
    ///
    /// # Safety
    /// The last look-up must have found a row.
    unsafe fn lock_row(&mut self) -> Option<pg_sys::TM_Result::Type> {
        // SAFETY: the relation is open and locked. The table access method gets the arguments that the executor gives it for
        // FOR NO KEY UPDATE: the row's position, which the caller promises, the active snapshot, and a slot for the row.
        unsafe {
            let relation = self.relation.get().as_ptr();
            let tuple_lock = (*(*relation).rd_tableam).tuple_lock?;
            let mut failure = pg_sys::TM_FailureData::default();
            let slot = self.stored.as_ptr();
            let mut position = (*slot).tts_tid;
            let (command, snapshot) = (pg_sys::GetCurrentCommandId(true), active_snapshot());
            Some(guarded(|| {
                tuple_lock(
                    relation,
                    &mut position,
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
        // it: the row's position, which the caller promises, a slot with values of the columns' types, and the active
        // snapshot.
        unsafe {
            let relation = self.relation.get().as_ptr();
            let tuple_update = (*(*relation).rd_tableam).tuple_update?;
            let (stored, slot) = (
                self.stored.as_ptr(),
                new_version(self.relation.get().descriptor(), values),
            );
            let (mut failure, mut lock, mut update_indexes) =
                (pg_sys::TM_FailureData::default(), 0, Default::default());
            let (command, snapshot) = (pg_sys::GetCurrentCommandId(true), active_snapshot());
            let result = guarded(|| {
                tuple_update(
                    relation,
                    &mut (*stored).tts_tid,
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
                self.indexes.add(self.relation.get(), &[slot], true);
            }
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            Some(result)
        }
    }

    /// Looks up the row with these keys. Returns whether the active snapshot sees one.
    pub(super) fn seek(&mut self, keys: EntityKeys<'_>) -> bool {
        let index = &self.indexes.keys;
        // SAFETY: the index and the slot fit the relation. A snapshot is active while an SQL function runs.
        unsafe { index.seek(self.relation.get(), active_snapshot(), keys, &self.stored) }
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
