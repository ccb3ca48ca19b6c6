//! Entities that have expired, found by an expiry index without a plan: nothing that is stored with the table is evaluated.

use std::ffi::c_char;

use pgrx::prelude::*;
use table_service_model::Expiry;
use table_service_model::filter::Operator;

use super::columns::ColumnNumbers;
use super::known::ExpiryIndex;
use super::property_index::{self, Part, Wait};
use super::row::bag;
use super::table::Table;
use crate::postgres::guarded::guarded;
use crate::postgres::{
    Index, OpenTable, Relation, Scan, ScanCondition, Slot, Value, active_snapshot, new_context, with_relation,
};

const READ: u32 = pg_sys::AccessShareLock;
const WRITE: u32 = pg_sys::RowExclusiveLock;

/// The action on an entity that has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    Delete,
    /// It is locked as a DELETE locks it, so that a statement can delete it.
    Lock,
}

/// The result of [`remove`].
#[derive(Default)]
pub struct Removed {
    /// How many entities were deleted or locked.
    pub count: u64,
    /// The positions of those that were locked.
    pub positions: Vec<pg_sys::ItemPointerData>,
    /// When the last one of them expired.
    pub last: Option<i64>,
    /// Whether there may be more expired entities than the limit.
    pub more: bool,
}

/// How many entities are locked for a statement. Their positions are in memory.
const LOCKED_AT_ONCE: u64 = 1 << 20;

/// Returns the first moment of expiry in a table, by an index that is valid, in microseconds since 2000-01-01. The
/// inner `None` says that no entity expires. Returns `None` if the index cannot tell now: another session has locked a
/// part of the table, the index is younger than the snapshot, or the entities are in shards. The caller has locked the
/// table, and may read all of it.
pub fn oldest(table: &Table, index: &ExpiryIndex) -> Option<Option<i64>> {
    let mut oldest = None;
    for part in parts_with(table, index, READ)? {
        let mut moment = None;
        each_expiring(part, READ, &index.expiry, &mut [], |_, _, at| {
            moment = Some(at);
            false
        })?;
        oldest = oldest.into_iter().chain(moment).min();
    }
    Some(oldest)
}

/// Locks and returns the parts of a table to remove entities from. Returns `None` if another session has locked one of
/// them, or the entities are in shards. The caller has locked the table, and the index is valid.
pub fn parts(table: &Table, index: &ExpiryIndex) -> Option<Vec<Part>> {
    parts_with(table, index, WRITE)
}

fn parts_with(table: &Table, index: &ExpiryIndex, lock: u32) -> Option<Vec<Part>> {
    table.with_relation(|_| property_index::parts(table.oid(), index.oid, lock, Wait::No))?
}

/// Deletes or locks at most `limit` entities that expired from `since` to `until`, in microseconds since 2000-01-01, in
/// the order of their expiry. It skips entities that other transactions have locked or changed, so that it never waits.
/// The active snapshot sees all writes of this transaction. Returns `None` in the same cases as [`oldest`].
///
/// [`Removal::Delete`] is only for tables in which a delete runs no other code ([`deletes_run_nothing`]).
///
/// Raises PostgreSQL's error for a table that lacks a replica identity for its publications.
pub fn remove(
    part: Part,
    expiry: &Expiry,
    (since, until): (i64, i64),
    limit: u64,
    removal: Removal,
) -> Option<Removed> {
    let mut removed = Removed::default();
    let limit = match removal {
        Removal::Delete => limit,
        Removal::Lock => limit.min(LOCKED_AT_ONCE),
    };
    let mut conditions = [ScanCondition::new(1, Operator::Ge, Value::timestamptz(since))];
    each_expiring(part, WRITE, expiry, &mut conditions, |relation, slot, moment| {
        if moment > until {
            return false;
        }
        removed.more = removed.count >= limit;
        if removed.more {
            return false;
        }
        // SAFETY: the table is open and locked, and the slot has a row of it that the active snapshot sees.
        if let Some(position) = unsafe { take(relation, slot, removal) } {
            removed.count += 1;
            removed.last = Some(moment);
            if removal == Removal::Lock {
                removed.positions.push(position);
            }
        }
        true
    })?;
    Some(removed)
}

/// Deletes or locks the row in a slot, and returns its position. Returns `None` if others have locked or changed it.
///
/// # Safety
/// The table must be open and locked, and the slot must have a row of it that the active snapshot sees.
unsafe fn take(relation: Relation<'_>, slot: &Slot, removal: Removal) -> Option<pg_sys::ItemPointerData> {
    let (relation, slot) = (relation.as_ptr(), slot.as_ptr());
    // SAFETY: the table access method gets the arguments that the executor gives it for a DELETE, and for FOR UPDATE SKIP LOCKED. The
    // lock puts the row into the slot again.
    unsafe {
        let method = (*relation).rd_tableam;
        let (delete, lock) = ((*method).tuple_delete?, (*method).tuple_lock?);
        let mut failure = pg_sys::TM_FailureData::default();
        let mut position = (*slot).tts_tid;
        if removal == Removal::Delete {
            pg_sys::CheckCmdReplicaIdentity(relation, pg_sys::CmdType::CMD_DELETE);
        }
        let (command, snapshot) = (pg_sys::GetCurrentCommandId(true), active_snapshot());
        let no_check = std::ptr::null_mut();
        let result = guarded(|| match removal {
            Removal::Delete => delete(
                relation,
                &mut position,
                command,
                #[cfg(since_pg19)]
                0,
                snapshot,
                no_check,
                false,
                &mut failure,
                #[cfg(not(since_pg19))]
                false,
            ),
            Removal::Lock => lock(
                relation,
                &mut position,
                snapshot,
                slot,
                command,
                pg_sys::LockTupleMode::LockTupleExclusive,
                pg_sys::LockWaitPolicy::LockWaitSkip,
                0,
                &mut failure,
            ),
        });
        (result == pg_sys::TM_Result::TM_Ok).then_some(position)
    }
}

/// Calls `take` for the expiring entities of a part that meet the conditions, in the order of their expiry, until it
/// returns false. Returns `None` if the index cannot tell now.
fn each_expiring(
    part: Part,
    lock: u32,
    expiry: &Expiry,
    conditions: &mut [ScanCondition<'_>],
    mut take: impl FnMut(Relation<'_>, &Slot, i64) -> bool,
) -> Option<()> {
    let columns = ColumnNumbers::of(part.table)?;
    // SAFETY: the functions lock any OID, and take any OID.
    let may_be_read = unsafe {
        // The owner can lock or drop the index without the table.
        pg_sys::ConditionalLockRelationOid(part.index, lock as pg_sys::LOCKMODE)
            && pg_sys::get_rel_relkind(part.index) == pg_sys::RELKIND_INDEX as c_char
    };
    if !may_be_read {
        return None;
    }
    let relation = OpenTable::open(part.table);
    let index = Index::open(part.index, pg_sys::NoLock);
    if !index.is_complete() {
        return None;
    }
    let slot = Slot::of(relation.get());
    // The memory of one bag is freed before the next one: a compressed bag is larger in memory than in its table.
    let context = new_context(c"table_service expiry");
    // SAFETY: the index belongs to the table, and has moments. The slot fits the table, and has the columns of an
    // entity, with the types that `expires_at` takes.
    unsafe {
        let mut scan = Scan::begin(relation.get(), &index, active_snapshot(), conditions);
        while scan.next(&slot) {
            let caller = pg_sys::MemoryContextSwitchTo(context);
            let value = |column: i16| {
                let mut is_null = false;
                let datum = pg_sys::slot_getattr(slot.as_ptr(), column.into(), &mut is_null);
                (!is_null).then_some(datum)
            };
            let columns = value(columns.timestamp).zip(value(columns.properties));
            let moment = columns.and_then(|(timestamp, properties)| {
                let properties = bag(properties, || "of a table with an expiry".to_owned());
                expiry.expires_at(timestamp.value() as i64, properties)
            });
            pg_sys::MemoryContextSwitchTo(caller);
            pg_sys::MemoryContextReset(context);
            if !moment.is_none_or(|moment| take(relation.get(), &slot, moment)) {
                break;
            }
            pgrx::check_for_interrupts!();
        }
        pg_sys::MemoryContextDelete(context);
    }
    Some(())
}

/// Returns whether a DELETE on a table runs no other code: no trigger, not even of a foreign key, and no rule. Tables
/// that inherit from it would also lose rows, so they count as code. The caller has locked the table and its parts.
pub fn deletes_run_nothing(table: pg_sys::Oid) -> bool {
    with_relation(table, |relation| {
        let is_table = relation.is(pg_sys::RELKIND_RELATION) && !relation.class().relhassubclass;
        (is_table || relation.is(pg_sys::RELKIND_PARTITIONED_TABLE))
            && !relation.has_triggers(pg_sys::TRIGGER_TYPE_DELETE)
            && !relation.has_rules()
    })
}
