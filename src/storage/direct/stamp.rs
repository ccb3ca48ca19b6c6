//! Corrects the Timestamps of entities whose insert had to wait.

use pgrx::prelude::*;
use table_service_model::ticks;

use super::access::{Direct, with};
use super::eligibility::{Purpose, is_changeable_after_insert};
use super::index_entries::IndexEntries;
use crate::postgres::clock::now;
use crate::postgres::guarded::guarded;
use crate::storage::arguments::EntityKeys;
use crate::storage::row::Row;
use crate::storage::table::Table;

/// Returns how many transactions that wrote something have ended, in all sessions.
pub fn completed_transactions() -> u64 {
    // SAFETY: the variable is in shared memory, which exists as long as this process. The counter only grows. A process
    // that has waited for a transaction's end sees it counted: the transaction is counted before it releases its locks.
    unsafe {
        #[cfg(not(since_pg17))]
        let variables = pg_sys::ShmemVariableCache;
        #[cfg(since_pg17)]
        let variables = pg_sys::TransamVariables;
        std::ptr::read_volatile(&raw const (*variables).xactCompletionCount)
    }
}

/// Makes the Timestamp of an entity that was just inserted later than those of all earlier versions, and returns it.
/// `written` is the Timestamp that the insert wrote.
///
/// # Errors
/// The latest Timestamp of an earlier version, if only another attempt can write a later one ([`needs_attempts`]).
///
/// An insert reads the clock before it waits for the lock on its key. While it waits, the holder of the lock may write
/// an entity with a later Timestamp and delete it. Those versions remain in the table as long as our snapshot exists.
/// So if a transaction has ended since the insert read the clock ([`completed_transactions`]), the insert looks for
/// such versions and writes a later Timestamp if there are any.
///
/// Only tables with the primary key of `create_table` are looked at.
pub fn settle(table: &Table, keys: EntityKeys<'_>, written: i64) -> Result<i64, i64> {
    with(table, Purpose::Stamp, |direct| Some(direct.settle(keys, written))).unwrap_or(Ok(written))
}

/// Returns whether an entity of this table cannot get another Timestamp in place after its insert: triggers have seen the
/// first one, subscribers could not apply the change, or the table has indexes that direct access does not maintain. Then
/// an insert must be an attempt in a subtransaction, so that it can be tried again.
pub fn needs_attempts(table: &Table) -> bool {
    // SAFETY: the caller has locked the table, so it can be opened without a lock.
    unsafe {
        let relation = pg_sys::table_open(table.oid(), pg_sys::NoLock as pg_sys::LOCKMODE);
        let is_table = (*(*relation).rd_rel).relkind == pg_sys::RELKIND_RELATION as std::ffi::c_char;
        let needs_attempts = is_table && !can_restamp(relation);
        pg_sys::table_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
        needs_attempts
    }
}

/// # Safety
/// The relation must be open and locked.
unsafe fn can_restamp(relation: pg_sys::Relation) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if !is_changeable_after_insert(relation) {
            return false;
        }
        let entries = IndexEntries::open(relation, Purpose::Stamp);
        if let Some(entries) = &entries {
            entries.close();
        }
        entries.is_some()
    }
}

impl Direct {
    fn settle(&mut self, keys: EntityKeys<'_>, written: i64) -> Result<i64, i64> {
        let (mut own, mut latest) = (None, None);
        // SAFETY: `SnapshotAnyData` is a static snapshot that sees all versions. The slot holds the row that `versions`
        // found until this closure returns.
        unsafe {
            self.versions(&raw mut pg_sys::SnapshotAnyData, keys, |slot| {
                if let Some(row) = Row::without_nulls(slot) {
                    if row.timestamp() == written && is_own_version(slot) {
                        own = Some((*slot).tts_tid);
                    } else {
                        latest = latest.max(Some(row.timestamp()));
                    }
                }
                true
            });
        }
        match (own, latest) {
            (Some(own), Some(latest)) if latest >= written => {
                // SAFETY: the relation is open.
                match unsafe { can_restamp(self.relation) } {
                    true => Ok(self.restamp(keys, own, latest)),
                    false => Err(latest),
                }
            }
            _ => Ok(written),
        }
    }

    /// Writes a Timestamp later than `latest` into the row at `place`, which this transaction has inserted.
    fn restamp(&mut self, keys: EntityKeys<'_>, place: pg_sys::ItemPointerData, latest: i64) -> i64 {
        // SAFETY: a transaction is running. `seek` gets the snapshot that was just made active. `write_version` runs
        // only if `seek` found a row, with values of that row and a Timestamp. No other transaction sees the row.
        unsafe {
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let row = if self.seek(pg_sys::GetActiveSnapshot(), keys) {
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
}

/// Returns whether this transaction inserted a row that nobody has deleted since.
///
/// # Safety
/// The slot must hold a row of a heap.
unsafe fn is_own_version(slot: *mut pg_sys::TupleTableSlot) -> bool {
    // SAFETY: a slot that holds a row of a heap has both system columns. `getsysattr` is its own function for them. The
    // closure captures nothing that needs dropping.
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
