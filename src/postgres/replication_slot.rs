//! The changes of replication slots when a transaction ends.
//!
//! PostgreSQL's functions change slots at once, whatever becomes of their transaction. Here they follow it: a rollback
//! removes a slot that the transaction has made, keeps a slot that it drops, and undoes its confirmations.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_void};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use table_service_model::Lsn;

use super::privileges::current_role;
use super::raised::{caught, message};
use super::types::name_of;

/// The change of a slot by a transaction.
#[derive(Clone)]
struct Pending {
    slot: CString,
    action: Action,
    subtransaction: pg_sys::SubTransactionId,
}

/// An action of a transaction on a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It was made: a rollback drops it.
    Made,
    /// It was made, and begins where the transaction commits.
    MadeFromCommit,
    Dropped,
    /// It moves to this position.
    Confirmed(Lsn),
    /// It moves to this position, unless another session uses it then. Nothing of the feed is before that, so it does no harm if the
    /// slot stays where it is.
    Passed(Lsn),
}

impl Action {
    /// Returns whether the transaction must not commit without it.
    fn is_promised(self) -> bool {
        matches!(self, Action::Dropped | Action::Confirmed(_))
    }
}

thread_local! {
    static PENDING: RefCell<Vec<Pending>> = const { RefCell::new(Vec::new()) };
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static FAILED_READS: Cell<u32> = const { Cell::new(0) };
}

/// Makes a slot for `pgoutput`. From PostgreSQL 17 on, standbys can also have it. With `from_commit` it has no changes
/// of transactions that commit before this one.
///
/// Raises PostgreSQL's own errors: of a transaction that has written, of a caller without REPLICATION, of a server without logical
/// decoding or without a free slot.
pub fn make(slot: &str, from_commit: bool) {
    let (name, plugin) = (name_of(slot), name_of("pgoutput"));
    let [name, plugin] = [&raw const name, &raw const plugin].map(pg_sys::Datum::from);
    let function = pg_sys::Oid::from(pg_sys::F_PG_CREATE_LOGICAL_REPLICATION_SLOT);
    let (no, collation) = (pg_sys::Datum::from(false), pg_sys::InvalidOid);
    // SAFETY: the function takes two names and booleans: temporary, two-phase and, since version 17, failover. It reads the log in
    // subtransactions, and leaves the resource owner of another one behind, so it is not called by a statement.
    unsafe {
        let (owner, context) = (pg_sys::CurrentResourceOwner, pg_sys::CurrentMemoryContext);
        #[cfg(not(since_pg17))]
        pg_sys::OidFunctionCall4Coll(function, collation, name, plugin, no, no);
        #[cfg(since_pg17)]
        pg_sys::OidFunctionCall5Coll(function, collation, name, plugin, no, no, pg_sys::Datum::from(true));
        pg_sys::CurrentResourceOwner = owner;
        pg_sys::MemoryContextSwitchTo(context);
    }
    let made = if from_commit {
        Action::MadeFromCommit
    } else {
        Action::Made
    };
    at_commit(slot, made);
}

/// Returns whether a slot is dropped when this transaction commits.
pub fn is_dropped(slot: &str) -> bool {
    actions(slot).contains(&Action::Dropped)
}

/// Returns the last position of a slot that this transaction has confirmed.
pub fn confirmed(slot: &str) -> Option<Lsn> {
    let positions = actions(slot).into_iter().filter_map(|action| match action {
        Action::Confirmed(position) => Some(position),
        _ => None,
    });
    positions.max()
}

fn actions(slot: &str) -> Vec<Action> {
    PENDING.with_borrow(|pending| {
        let of_slot = pending
            .iter()
            .filter(|pending| pending.slot.as_bytes() == slot.as_bytes());
        of_slot.map(|pending| pending.action).collect()
    })
}

/// Performs an action on a slot when this transaction commits.
pub fn at_commit(slot: &str, action: Action) {
    watch();
    let pending = Pending {
        slot: CString::new(slot).unwrap_or_default(),
        action,
        // SAFETY: the function reads the state of this process's transaction.
        subtransaction: unsafe { pg_sys::GetCurrentSubTransactionId() },
    };
    PENDING.with_borrow_mut(|all| all.push(pending));
}

/// Raises PostgreSQL's own error if another session uses the slot (55006), or if there is none.
pub fn require_free(slot: &str) {
    let slot = CString::new(slot).unwrap_or_default();
    // SAFETY: the name is a C string. The slot is released at once.
    unsafe {
        acquire(&slot);
        pg_sys::ReplicationSlotRelease();
    }
}

/// Returns whether the transaction may write.
pub fn may_write() -> bool {
    // SAFETY: it is a global of this process.
    !unsafe { pg_sys::XactReadOnly } && !is_standby()
}

/// Returns whether this server replays the log of a primary.
pub fn is_standby() -> bool {
    // SAFETY: the function reads the state of this process.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Returns whether the caller may use replication slots.
pub fn may_use() -> bool {
    may_be_used_by(current_role())
}

/// Returns whether a role may use replication slots.
pub fn may_be_used_by(role: pg_sys::Oid) -> bool {
    // SAFETY: the functions take any OID. They look up catalogs, which needs a transaction, and SQL functions run in one.
    unsafe { pg_sys::superuser_arg(role) || pg_sys::has_rolreplication(role) }
}

/// Writes the log up to its end to the disk. Decoding ends with the log on the disk; committed changes may lie behind
/// it with `synchronous_commit = off`.
pub fn flush_log() {
    // SAFETY: the function reads shared memory. The setting is a global of this process.
    let (end, segment) = unsafe { (pg_sys::GetXLogInsertRecPtr(), pg_sys::wal_segment_size) };
    // SAFETY: the log is written up to this position: it is not behind the last record.
    unsafe { pg_sys::XLogFlush(end_of_records(end, u64::from(segment.unsigned_abs()))) };
}

/// Returns where the last record ends, if the next one will begin at `next`: before the header of a page that has no record yet.
fn end_of_records(next: u64, segment: u64) -> u64 {
    const PAGE: u64 = pg_sys::XLOG_BLCKSZ as u64;
    let first = size_of::<pg_sys::XLogLongPageHeaderData>() as u64;
    let other = size_of::<pg_sys::XLogPageHeaderData>() as u64;
    let header = if next % segment < PAGE { first } else { other };
    if next % PAGE == header { next - header } else { next }
}

/// Returns whether the server logs the data that logical decoding needs, or does so as long as there is a slot.
pub fn is_log_logical() -> bool {
    #[cfg(not(since_pg19))]
    let needed = pg_sys::WalLevel::WAL_LEVEL_LOGICAL;
    #[cfg(since_pg19)]
    let needed = pg_sys::WalLevel::WAL_LEVEL_REPLICA;
    // SAFETY: the setting is a global of this process, which has one thread.
    unsafe { pg_sys::wal_level >= needed as i32 }
}

/// Ends the session if `MOST` reads of the log have failed in it. PostgreSQL keeps a file of the log open for each
/// until the session ends, and a server restarts when a session needs a file and can have no more.
pub fn release_after_failed_read() {
    const MOST: u32 = 100;
    // SAFETY: the pointer is a global of this process.
    let has_read = !unsafe { pg_sys::MyReplicationSlot.is_null() };
    release();
    let failures = FAILED_READS.get() + u32::from(has_read);
    FAILED_READS.set(failures);
    if failures >= MOST {
        let message = format!("terminating connection because {MOST} reads of change feeds have failed in it");
        ErrorReport::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_RESOURCES, message, "table_service")
            .set_detail("PostgreSQL keeps a file of its log open for each of them until the session ends.")
            .set_hint("Connect again.")
            .report(PgLogLevel::FATAL);
    }
}

/// Releases the slot that this process has acquired, if there is one: also after an error, as PostgreSQL itself does so only after
/// errors that no function catches.
fn release() {
    // SAFETY: the pointer is a global of this process. It is NULL or that of a slot that this process has acquired.
    unsafe {
        if !pg_sys::MyReplicationSlot.is_null() {
            pg_sys::ReplicationSlotRelease();
        }
    }
}

/// Acquires a slot, and releases another one that this process has acquired. Raises PostgreSQL's error 55006 if another session uses
/// it.
fn hold(slot: &CStr) {
    if is_held(slot) {
        return;
    }
    release();
    // SAFETY: this process has acquired no slot.
    unsafe { acquire(slot) };
}

/// Returns whether this process has acquired the slot.
fn is_held(slot: &CStr) -> bool {
    // SAFETY: the pointer is a global of this process. It is NULL or that of a slot that this process has acquired, and nobody changes
    // the name of a slot.
    unsafe {
        let held = pg_sys::MyReplicationSlot;
        !held.is_null() && CStr::from_ptr((*held).data.name.data.as_ptr()) == slot
    }
}

/// Returns whether no session uses the slot. It may change at any time.
fn is_free(slot: &CStr) -> bool {
    // SAFETY: the name is a C string. Slots are in shared memory that is never freed.
    unsafe {
        let found = pg_sys::SearchNamedReplicationSlot(slot.as_ptr(), true);
        if found.is_null() {
            return false;
        }
        #[cfg(not(since_pg19))]
        let (user, nobody) = ((*found).active_pid, 0);
        #[cfg(since_pg19)]
        let (user, nobody) = ((*found).active_proc, pg_sys::INVALID_PROC_NUMBER);
        user == nobody
    }
}

/// Acquires a slot, which must not be in use.
///
/// # Safety
/// This process must not have acquired another one.
unsafe fn acquire(slot: &CStr) {
    // SAFETY: the name is a C string, and the caller promises the rest.
    unsafe {
        #[cfg(not(since_pg18))]
        pg_sys::ReplicationSlotAcquire(slot.as_ptr(), true);
        #[cfg(since_pg18)]
        pg_sys::ReplicationSlotAcquire(slot.as_ptr(), true, false);
    }
}

fn watch() {
    if !IS_WATCHED.get() {
        // SAFETY: the callbacks exist as long as the process, because PostgreSQL unloads no library.
        unsafe {
            pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(subtransaction_ends), std::ptr::null_mut());
        }
        IS_WATCHED.set(true);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ends(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    match event {
        // The transaction may still fail after this, so the slots stay as they are.
        pg_sys::XactEvent::XACT_EVENT_PRE_COMMIT => {
            let pending = PENDING.with_borrow(Vec::clone);
            let is_promised = |pending: &&Pending| pending.action.is_promised() && is_there(&pending.slot);
            for pending in pending.iter().filter(is_promised) {
                // A process holds one slot. It keeps the last one, so that nobody else has it when the transaction has committed.
                hold(&pending.slot);
            }
        }
        pg_sys::XactEvent::XACT_EVENT_COMMIT => {
            // SAFETY: it is a global of this process, which has just committed.
            let commit = unsafe { Lsn(pg_sys::XactLastCommitEnd) };
            let all = PENDING.take();
            let is_dropped = |slot: &CStr| {
                let mut of_slot = all.iter().filter(|pending| *pending.slot == *slot);
                of_slot.any(|pending| pending.action == Action::Dropped)
            };
            for pending in &all {
                match pending.action {
                    Action::Dropped => or_warn("the replication slot of a dropped change feed stays", || {
                        drop_slot(&pending.slot);
                    }),
                    _ if is_dropped(&pending.slot) => {}
                    Action::MadeFromCommit => advance(&pending.slot, commit),
                    Action::Confirmed(position) => advance(&pending.slot, position),
                    Action::Passed(position) if is_free(&pending.slot) => advance(&pending.slot, position),
                    Action::Passed(_) | Action::Made => {}
                }
            }
        }
        pg_sys::XactEvent::XACT_EVENT_ABORT => {
            let pending = PENDING.take();
            // Only slots of this transaction: a process that sends changes aborts transactions while it holds its slot.
            if pending.iter().any(|pending| pending.action.is_promised()) {
                release();
            }
            undo(pending);
        }
        pg_sys::XactEvent::XACT_EVENT_PRE_PREPARE if PENDING.with_borrow(|pending| !pending.is_empty()) => {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot PREPARE a transaction that has made, dropped or confirmed a change feed"
            );
        }
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_ends(
    event: pg_sys::SubXactEvent::Type,
    subtransaction: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _argument: *mut c_void,
) {
    let is_of_it = |pending: &Pending| pending.subtransaction == subtransaction;
    match event {
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => PENDING.with_borrow_mut(|all| {
            for pending in all.iter_mut().filter(|pending| is_of_it(pending)) {
                pending.subtransaction = parent;
            }
        }),
        pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB => {
            let (undone, kept) = PENDING.take().into_iter().partition(is_of_it);
            PENDING.set(kept);
            undo(undone);
        }
        _ => {}
    }
}

/// Drops the slots that a transaction had made. It is over, so an error is no more than a warning: `drop_change_feed` finds a slot
/// that stays.
fn undo(pending: Vec<Pending>) {
    let is_made = |pending: &&Pending| matches!(pending.action, Action::Made | Action::MadeFromCommit);
    for pending in pending.iter().filter(is_made) {
        or_warn("a replication slot stays after a rollback", || drop_slot(&pending.slot));
    }
}

/// Returns whether there is a slot of this name.
pub fn exists(slot: &str) -> bool {
    CString::new(slot).is_ok_and(|slot| is_there(&slot))
}

fn is_there(slot: &CStr) -> bool {
    // SAFETY: the name is a C string.
    unsafe { !pg_sys::SearchNamedReplicationSlot(slot.as_ptr(), true).is_null() }
}

/// Drops a slot, if there is one.
fn drop_slot(slot: &CStr) {
    if is_there(slot) {
        release();
        // SAFETY: the name is a C string, and this process has acquired no slot.
        unsafe { pg_sys::ReplicationSlotDrop(slot.as_ptr(), true) };
    }
}

/// Moves a slot forward. The transaction has committed, so an error is no more than a warning: changes that are not confirmed
/// come again.
fn advance(slot: &CStr, position: Lsn) {
    // Somebody has dropped it.
    if !is_there(slot) {
        return;
    }
    or_warn(
        "a position of a change feed was not confirmed, so its changes come again",
        || {
            hold(slot);
            // SAFETY: the pointer is that of the slot that this process holds.
            unsafe {
                if (*pg_sys::MyReplicationSlot).data.confirmed_flush < position.0 {
                    pg_sys::LogicalConfirmReceivedLocation(position.0);
                    // PostgreSQL's own functions do not do this. It keeps a crash from bringing back confirmed changes.
                    pg_sys::ReplicationSlotMarkDirty();
                    pg_sys::ReplicationSlotSave();
                }
            }
            release();
        },
    );
}

/// Runs `f` at the end of a transaction, which must not fail any more.
fn or_warn(what: &'static str, f: impl FnOnce()) {
    // PostgreSQL holds interrupts off there, and an error forgets that it does. Then its count would go below zero, and the
    // session would never again be interrupted.
    // SAFETY: the counts are globals of this process, which has one thread.
    let held = unsafe { (pg_sys::InterruptHoldoffCount, pg_sys::QueryCancelHoldoffCount) };
    if let Err(error) = caught(f) {
        // SAFETY: as above.
        unsafe { (pg_sys::InterruptHoldoffCount, pg_sys::QueryCancelHoldoffCount) = held };
        release();
        pgrx::warning!("{what}: {}", message(&error));
    }
}

#[cfg(any(test, feature = "pg_test"))]
#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use super::end_of_records;

    /// PostgreSQL refuses to flush unwritten log, and a header is written with the first record behind it.
    #[pg_test]
    fn the_log_ends_before_the_header_of_a_page_without_records() {
        const SEGMENT: u64 = 16 << 20;
        const PAGE: u64 = 8192;
        for (next, end) in [
            (SEGMENT + 40, SEGMENT),
            (SEGMENT + 48, SEGMENT + 48),
            (SEGMENT + PAGE + 24, SEGMENT + PAGE),
            (SEGMENT + PAGE + 32, SEGMENT + PAGE + 32),
            (SEGMENT + PAGE + 40, SEGMENT + PAGE + 40),
            (2 * SEGMENT - 8, 2 * SEGMENT - 8),
        ] {
            assert_eq!(end_of_records(next, SEGMENT), end, "{next}");
        }
    }
}
