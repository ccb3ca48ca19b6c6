//! Corrects the Timestamps of entities after inserts that had to wait.

use pgrx::prelude::*;
use table_service_model::ticks;

use super::eligibility::{is_changeable_after_insert, is_heap};
use super::index_entries::are_known;
use super::updater::Updater;
use crate::postgres::guarded::guarded;
use crate::postgres::{OpenTable, Relation, Slot, now, with_new_snapshot, with_relation};
use crate::storage::arguments::EntityKeys;
use crate::storage::expiry::Expiries;
use crate::storage::primary_key::KeyIndex;
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
/// It checks only tables with the primary key of `create_table`.
pub fn settle(table: &Table, keys: EntityKeys<'_>, written: i64) -> Result<i64, i64> {
    let settle = |relation: Relation<'_>| {
        let Some((own, latest)) = versions(relation, keys, written).filter(|(_, latest)| *latest >= written) else {
            return Ok(written);
        };
        match can_restamp(relation) {
            true => Ok(restamp(relation, keys, own, latest)),
            false => Err(latest),
        }
    };
    table.with_relation(settle).unwrap_or(Ok(written))
}

/// Returns whether an entity of this table cannot get another Timestamp in place after its insert: triggers have seen the
/// first one, subscribers could not apply the change, or the table has indexes that direct access does not maintain. Then
/// an insert must be an attempt in a subtransaction, so that it can be tried again.
pub fn needs_attempts(table: &Table) -> bool {
    with_relation(table.oid(), |relation| {
        relation.is(pg_sys::RELKIND_RELATION) && !can_restamp(relation)
    })
}

fn can_restamp(relation: Relation<'_>) -> bool {
    is_changeable_after_insert(relation) && are_known(relation)
}

/// Returns the position of the row that this transaction has inserted with the Timestamp `written`, and the latest Timestamp of another
/// version of the entity.
fn versions(relation: Relation<'_>, keys: EntityKeys<'_>, written: i64) -> Option<(pg_sys::ItemPointerData, i64)> {
    if !is_heap(relation) {
        return None;
    }
    let index = KeyIndex::open(relation, pg_sys::RowExclusiveLock)?;
    let (mut own, mut latest) = (None, None);
    let slot = Slot::of(relation);
    // SAFETY: `SnapshotAnyData` is a static snapshot that sees all versions. The slot fits the table, which has the columns of an entity,
    // and it holds the row that was found until the next one.
    unsafe {
        let mut versions = index.versions(relation, &raw mut pg_sys::SnapshotAnyData, keys);
        while versions.next(&slot) {
            if let Some(row) = Row::without_nulls(slot.as_ptr()) {
                if row.timestamp() == written && is_own_version(slot.as_ptr()) {
                    own = Some((*slot.as_ptr()).tts_tid);
                } else {
                    latest = latest.max(Some(row.timestamp()));
                }
            }
            pgrx::check_for_interrupts!();
        }
    }
    own.zip(latest)
}

/// Writes a Timestamp later than `latest` into the row at a position, which this transaction has inserted.
fn restamp(relation: Relation<'_>, keys: EntityKeys<'_>, own: pg_sys::ItemPointerData, latest: i64) -> i64 {
    // Nobody else sees the row, so it cannot have expired for others.
    let relation = OpenTable::open(relation.oid());
    let written = Updater::of(relation, Expiries::default()).and_then(|mut updater| {
        let timestamp = ticks::next_timestamp(latest, now());
        // SAFETY: `seek` fills the slot, which has the columns of an entity. `write_version` runs only if it found a row, with values of
        // that row and a Timestamp.
        let is_written = with_new_snapshot(|| unsafe {
            let stored = updater.stored.as_ptr();
            let row = updater.seek(keys).then(|| Row::without_nulls(stored)).flatten();
            row.is_some_and(|row| {
                let [partition_key, row_key, _, properties] = *row.values();
                (*stored).tts_tid.ip_posid == own.ip_posid
                    && updater.write_version([partition_key, row_key, timestamp.into(), properties])
                        == Some(pg_sys::TM_Result::TM_Ok)
            })
        });
        is_written.then_some(timestamp)
    });
    let Some(timestamp) = written else {
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            "could not insert an entity after a concurrent delete of a later version"
        );
    };
    timestamp
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
