//! The Timestamps of entities that were inserted after a wait.

use pgrx::prelude::*;
use table_service_model::ticks;

use super::access::{Direct, with};
use super::eligibility::{Purpose, count_of_indexes};
use crate::engine::table::Table;
use crate::postgres::arguments::Keys;
use crate::postgres::clock::now;
use crate::postgres::guarded::guarded;
use crate::postgres::row::Row;

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
