//! Scans of a B-tree index without a statement.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;

use pgrx::prelude::*;
use table_service_model::filter::Operator;

use super::guarded::{guarded, without_guards};
use super::relation::{Relation, Slot};
use super::types::value::Value;

const FORWARD: pg_sys::ScanDirection::Type = pg_sys::ScanDirection::ForwardScanDirection;
const BACKWARD: pg_sys::ScanDirection::Type = pg_sys::ScanDirection::BackwardScanDirection;

without_guards! {
    fn index_beginscan(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        snapshot: pg_sys::Snapshot,
        #[cfg(since_pg18)]
        instrument: *mut pg_sys::IndexScanInstrumentation,
        number: c_int,
        number_of_orders: c_int,
        #[cfg(since_pg19)]
        flags: u32
    ) -> pg_sys::IndexScanDesc;
    fn index_rescan(
        scan: pg_sys::IndexScanDesc,
        keys: pg_sys::ScanKey,
        number: c_int,
        orders: pg_sys::ScanKey,
        number_of_orders: c_int
    );
    fn index_getnext_tid(scan: pg_sys::IndexScanDesc, direction: pg_sys::ScanDirection::Type) -> pg_sys::ItemPointer;
    fn index_getnext_slot(
        scan: pg_sys::IndexScanDesc,
        direction: pg_sys::ScanDirection::Type,
        slot: *mut pg_sys::TupleTableSlot
    ) -> bool;
    fn index_endscan(scan: pg_sys::IndexScanDesc);
}

/// One condition on a column of an index, which has the type of a value: text, `bytea` or timestamptz.
#[repr(transparent)]
pub struct ScanCondition<'v> {
    key: pg_sys::ScanKeyData,
    value: PhantomData<Value<'v>>,
}

/// The kind of value that an index compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Text,
    Bytes,
    Moment,
}

/// The scan keys of conditions, still without column and value: those on texts, those on `bytea` and those on moments, by the number of
/// their B-tree strategy. They are made once in a session, because that takes longer than their use. They are not thread-local:
/// the room for such values is small (`thread_local.c`).
static KEYS: ScanKeyTemplates = ScanKeyTemplates([const { [const { Cell::new(None) }; 6] }; 3]);

struct ScanKeyTemplates([[Cell<Option<pg_sys::ScanKeyData>>; 6]; 3]);

// SAFETY: a server process has one thread.
unsafe impl Sync for ScanKeyTemplates {}

/// Returns the number of a B-tree's strategy for a comparison. `Ne` has none, and no caller uses it.
pub fn strategy(operator: Operator) -> pg_sys::StrategyNumber {
    let strategy = match operator {
        Operator::Lt => pg_sys::BTLessStrategyNumber,
        Operator::Le => pg_sys::BTLessEqualStrategyNumber,
        Operator::Eq => pg_sys::BTEqualStrategyNumber,
        Operator::Ge => pg_sys::BTGreaterEqualStrategyNumber,
        Operator::Gt => pg_sys::BTGreaterStrategyNumber,
        Operator::Ne => 0,
    };
    strategy as pg_sys::StrategyNumber
}

impl<'v> ScanCondition<'v> {
    /// `column` is the number of the column in the index, counted from 1.
    pub fn new(column: i16, operator: Operator, value: Value<'v>) -> ScanCondition<'v> {
        let of = match value.type_oid() {
            pg_sys::TEXTOID => Compared::Text,
            pg_sys::TIMESTAMPTZOID => Compared::Moment,
            _ => Compared::Bytes,
        };
        let strategy = strategy(operator);
        let kept = &KEYS.0[of as usize][usize::from(strategy)];
        let mut key = kept.get().unwrap_or_else(|| {
            let key = key(of, strategy);
            kept.set(Some(key));
            key
        });
        key.sk_attno = column;
        key.sk_argument = value.datum();
        ScanCondition {
            key,
            value: PhantomData,
        }
    }

    /// Returns the conditions of the entries of a property index with `lower <= entry < upper`.
    pub fn between([lower, upper]: [Value<'v>; 2]) -> [ScanCondition<'v>; 2] {
        [
            ScanCondition::new(1, Operator::Ge, lower),
            ScanCondition::new(1, Operator::Lt, upper),
        ]
    }
}

/// Returns the scan key of a comparison, still without column and value.
fn key(of: Compared, strategy: pg_sys::StrategyNumber) -> pg_sys::ScanKeyData {
    // By the numbers of the strategies: less, at most, equal, at least, greater.
    let (functions, collation) = match of {
        Compared::Text => (
            [
                pg_sys::F_TEXT_LT,
                pg_sys::F_TEXT_LE,
                pg_sys::F_TEXTEQ,
                pg_sys::F_TEXT_GE,
                pg_sys::F_TEXT_GT,
            ],
            pg_sys::C_COLLATION_OID,
        ),
        Compared::Bytes => (
            [
                pg_sys::F_BYTEALT,
                pg_sys::F_BYTEALE,
                pg_sys::F_BYTEAEQ,
                pg_sys::F_BYTEAGE,
                pg_sys::F_BYTEAGT,
            ],
            pg_sys::InvalidOid,
        ),
        Compared::Moment => (
            [
                pg_sys::F_TIMESTAMPTZ_LT,
                pg_sys::F_TIMESTAMPTZ_LE,
                pg_sys::F_TIMESTAMPTZ_EQ,
                pg_sys::F_TIMESTAMPTZ_GE,
                pg_sys::F_TIMESTAMPTZ_GT,
            ],
            pg_sys::InvalidOid,
        ),
    };
    let function = functions[usize::from(strategy) - 1];
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: the call fills the key. It refers to one of PostgreSQL's own functions, and to a memory context that
    // exists as long as the process.
    unsafe {
        pg_sys::ScanKeyEntryInitialize(
            &mut key,
            0,
            1,
            strategy,
            pg_sys::InvalidOid,
            collation,
            pg_sys::RegProcedure::from(function),
            pg_sys::Datum::null(),
        );
        key.sk_func.fn_mcxt = pg_sys::TopMemoryContext;
    }
    key
}

/// An index that is open as long as this lives. Its lock is kept until the end of the transaction. After an error
/// PostgreSQL closes the index then.
pub struct Index(pg_sys::Relation);

impl Index {
    /// Opens an index of a table that the caller has locked, and locks it.
    pub fn open(index: pg_sys::Oid, lock: u32) -> Index {
        // SAFETY: the function opens the index with any OID, or raises PostgreSQL's own error.
        Index(unsafe { pg_sys::index_open(index, lock as pg_sys::LOCKMODE) })
    }

    /// Returns PostgreSQL's own relation. It is open as long as this is.
    pub fn as_ptr(&self) -> pg_sys::Relation {
        self.0
    }

    /// Returns whether the index has an entry for every row that the snapshots of this transaction may see. It lacks those of
    /// versions that were updated before it was made, so only snapshots taken since then may read it. The planner does not use
    /// it for others either (`get_relation_info`).
    pub fn is_complete(&self) -> bool {
        // SAFETY: an open index has its row of `pg_index`, as a tuple and as a structure. A snapshot is active while an SQL function runs.
        unsafe {
            !(*(*self.0).rd_index).indcheckxmin
                || pg_sys::TransactionIdPrecedes(
                    pg_sys::htup::HeapTupleHeaderGetXmin((*(*self.0).rd_indextuple).t_data),
                    pg_sys::TransactionXmin,
                )
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: `open` opened it.
            unsafe { pg_sys::index_close(self.0, pg_sys::NoLock as pg_sys::LOCKMODE) };
        }
    }
}

/// A scan of the entries of an index that meet conditions.
pub struct Scan {
    scan: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
}

impl Scan {
    /// Begins a scan in the ascending order of the first column.
    ///
    /// # Safety
    /// The index must belong to the table and have columns of the types of the values. The table, the index, the
    /// snapshot and the values must outlive the scan.
    pub unsafe fn begin(
        table: Relation<'_>,
        index: &Index,
        snapshot: pg_sys::Snapshot,
        conditions: &mut [ScanCondition<'_>],
    ) -> Scan {
        let (table, index) = (table.as_ptr(), index.0);
        let number = conditions.len() as c_int;
        // A condition has the layout of its key.
        let keys = conditions.as_mut_ptr().cast::<pg_sys::ScanKeyData>();
        // SAFETY: the caller's promise. The scan copies its keys.
        unsafe {
            let is_descending = *(*index).rd_indoption & pg_sys::INDOPTION_DESC as i16 != 0;
            let scan = guarded(|| {
                let scan = index_beginscan(
                    table,
                    index,
                    snapshot,
                    #[cfg(since_pg18)]
                    std::ptr::null_mut(),
                    number,
                    0,
                    #[cfg(since_pg19)]
                    0,
                );
                index_rescan(scan, keys, number, std::ptr::null_mut(), 0);
                scan
            });
            let direction = if is_descending { BACKWARD } else { FORWARD };
            Scan { scan, direction }
        }
    }

    /// Puts the next row into the slot. Returns false if there is none.
    ///
    /// # Safety
    /// The slot must fit the table.
    pub unsafe fn next(&mut self, slot: &Slot) -> bool {
        let (scan, direction, slot) = (self.scan, self.direction, slot.as_ptr());
        // SAFETY: the scan has not ended, and the caller promises a slot.
        unsafe { guarded(|| index_getnext_slot(scan, direction, slot)) }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the scan has not ended.
            unsafe { guarded(|| index_endscan(self.scan)) };
        }
    }
}

/// How many entries are counted before a look for interrupts.
const COUNTED_AT_ONCE: usize = 1000;

/// Counts the entries of an index that meet conditions, up to a limit. It also counts the entries of rows that no
/// transaction sees any more.
///
/// # Safety
/// As for [`Scan::begin`].
pub unsafe fn count(
    table: Relation<'_>,
    index: &Index,
    snapshot: pg_sys::Snapshot,
    conditions: &mut [ScanCondition<'_>],
    limit: usize,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let scan = Scan::begin(table, index, snapshot, conditions);
        let descriptor = scan.scan;
        let mut count = 0;
        while count < limit {
            let part = (limit - count).min(COUNTED_AT_ONCE);
            let found = guarded(|| {
                let is_there = || !index_getnext_tid(descriptor, FORWARD).is_null();
                (0..part).take_while(|_| is_there()).count()
            });
            count += found;
            if found < part {
                break;
            }
            pgrx::check_for_interrupts!();
        }
        count
    }
}
