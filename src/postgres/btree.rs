//! Scans of a B-tree index without a statement.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;

use pgrx::prelude::*;

use super::guarded::{guarded, without_guards};
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The scan keys of conditions, still without column and value: those on texts, those on `bytea` and those on moments, in the order of
/// [`Comparison`]. They are made once in a session, because that takes longer than their use. They are not thread-local:
/// the room for such values is small (`thread_local.c`).
static KEYS: ScanKeyTemplates = ScanKeyTemplates([const { [const { Cell::new(None) }; 5] }; 3]);

struct ScanKeyTemplates([[Cell<Option<pg_sys::ScanKeyData>>; 5]; 3]);

// SAFETY: a server process has one thread.
unsafe impl Sync for ScanKeyTemplates {}

impl<'v> ScanCondition<'v> {
    /// `column` is the number of the column in the index, counted from 1.
    pub fn new(column: i16, comparison: Comparison, value: Value<'v>) -> ScanCondition<'v> {
        let of = match value.type_oid() {
            pg_sys::TEXTOID => Compared::Text,
            pg_sys::TIMESTAMPTZOID => Compared::Moment,
            _ => Compared::Bytes,
        };
        let kept = &KEYS.0[of as usize][comparison as usize];
        let mut key = kept.get().unwrap_or_else(|| {
            let key = comparison.key(of);
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
            ScanCondition::new(1, Comparison::GreaterOrEqual, lower),
            ScanCondition::new(1, Comparison::Less, upper),
        ]
    }
}

impl Comparison {
    /// Returns the scan key of a comparison, still without column and value.
    fn key(self, of: Compared) -> pg_sys::ScanKeyData {
        let (strategy, functions) = match self {
            Comparison::Equal => (
                pg_sys::BTEqualStrategyNumber,
                [pg_sys::F_TEXTEQ, pg_sys::F_BYTEAEQ, pg_sys::F_TIMESTAMPTZ_EQ],
            ),
            Comparison::Less => (
                pg_sys::BTLessStrategyNumber,
                [pg_sys::F_TEXT_LT, pg_sys::F_BYTEALT, pg_sys::F_TIMESTAMPTZ_LT],
            ),
            Comparison::LessOrEqual => (
                pg_sys::BTLessEqualStrategyNumber,
                [pg_sys::F_TEXT_LE, pg_sys::F_BYTEALE, pg_sys::F_TIMESTAMPTZ_LE],
            ),
            Comparison::Greater => (
                pg_sys::BTGreaterStrategyNumber,
                [pg_sys::F_TEXT_GT, pg_sys::F_BYTEAGT, pg_sys::F_TIMESTAMPTZ_GT],
            ),
            Comparison::GreaterOrEqual => (
                pg_sys::BTGreaterEqualStrategyNumber,
                [pg_sys::F_TEXT_GE, pg_sys::F_BYTEAGE, pg_sys::F_TIMESTAMPTZ_GE],
            ),
        };
        let function = functions[of as usize];
        let collation = match of {
            Compared::Text => pg_sys::C_COLLATION_OID,
            Compared::Bytes | Compared::Moment => pg_sys::InvalidOid,
        };
        let mut key = pg_sys::ScanKeyData::default();
        // SAFETY: the call fills the key. It refers to one of PostgreSQL's own functions, and to a memory context that
        // exists as long as the process.
        unsafe {
            pg_sys::ScanKeyEntryInitialize(
                &mut key,
                0,
                1,
                strategy as pg_sys::StrategyNumber,
                pg_sys::InvalidOid,
                collation,
                pg_sys::RegProcedure::from(function),
                pg_sys::Datum::null(),
            );
            key.sk_func.fn_mcxt = pg_sys::TopMemoryContext;
        }
        key
    }
}

/// A scan of the entries of an index that meet conditions.
struct Scan(pg_sys::IndexScanDesc);

impl Scan {
    /// # Safety
    /// The table and its index must be open, the index must have columns of the types of the values, and the snapshot and
    /// the values must outlive the scan. It must be ended, unless an error is raised.
    unsafe fn begin(
        table: pg_sys::Relation,
        index: pg_sys::Relation,
        snapshot: pg_sys::Snapshot,
        conditions: &mut [ScanCondition<'_>],
    ) -> Scan {
        let number = conditions.len() as c_int;
        // A condition has the form of its key.
        let keys = conditions.as_mut_ptr().cast::<pg_sys::ScanKeyData>();
        // SAFETY: the caller's promise. The scan copies its keys.
        Scan(unsafe {
            guarded(|| {
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
            })
        })
    }

    fn end(self) {
        // SAFETY: the scan has not ended.
        unsafe { guarded(|| index_endscan(self.0)) };
    }
}

/// Puts the rows whose entries in an index meet conditions into the slot, in the ascending order of the first column, and
/// calls `take` for each until it wants no more. The slot keeps the last one.
///
/// # Safety
/// The table and its index must be open, and the index must have columns of the types of the values. The snapshot must be
/// valid as long as this function runs, and the slot must fit the table.
pub unsafe fn each_row(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    conditions: &mut [ScanCondition<'_>],
    slot: *mut pg_sys::TupleTableSlot,
    mut take: impl FnMut() -> bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let is_descending = *(*index).rd_indoption & pg_sys::INDOPTION_DESC as i16 != 0;
        let direction = if is_descending { BACKWARD } else { FORWARD };
        let scan = Scan::begin(table, index, snapshot, conditions);
        let descriptor = scan.0;
        while guarded(|| index_getnext_slot(descriptor, direction, slot)) && take() {
            pgrx::check_for_interrupts!();
        }
        scan.end();
    }
}

/// Returns whether an index has an entry for every row that the snapshots of this transaction may see. It lacks those of
/// versions that were updated before it was made, so only snapshots taken since then may read it. The planner does not use
/// it for others either (`get_relation_info`).
///
/// # Safety
/// The index must be open, and a snapshot must be active.
pub unsafe fn is_complete(index: pg_sys::Relation) -> bool {
    // SAFETY: an open index has its row of `pg_index`, as a tuple and as a structure.
    unsafe {
        !(*(*index).rd_index).indcheckxmin
            || pg_sys::TransactionIdPrecedes(
                pg_sys::htup::HeapTupleHeaderGetXmin((*(*index).rd_indextuple).t_data),
                pg_sys::TransactionXmin,
            )
    }
}

/// How many entries are counted before a look for interrupts.
const COUNTED_AT_ONCE: usize = 1000;

/// Counts the entries of an index that meet conditions, up to a limit. It counts entries of rows that nobody sees any
/// more, too.
///
/// # Safety
/// As for [`each_row`].
pub unsafe fn count(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    conditions: &mut [ScanCondition<'_>],
    limit: usize,
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        let scan = Scan::begin(table, index, snapshot, conditions);
        let descriptor = scan.0;
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
        scan.end();
        count
    }
}
