//! PostgreSQL's functions without the guard that `pg_sys` puts around each call, which makes panics of errors and costs as much
//! as the small functions do. Where many are called in a row, one [`guarded`] is around all of them; those that raise
//! nothing may be called without it.

#![allow(non_snake_case)]

use std::ffi::{c_char, c_int, c_void};

use pgrx::pg_sys;
use pgrx::pg_sys::*;

#[cfg(any(feature = "pg15", feature = "pg16"))]
type Values = *mut Datum;
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
type Values = *const Datum;
#[cfg(any(feature = "pg15", feature = "pg16"))]
type Nulls = *mut bool;
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
type Nulls = *const bool;

/// Declares functions, and has the compiler compare them with those of this major version.
macro_rules! declare {
    ($($(#[$when:meta])? fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern "C-unwind" {
            $($(#[$when])? pub fn $name($($argument: $type),*) $(-> $result)?;)*
        }
        $($(#[$when])? const _: unsafe fn($($type),*) $(-> $result)? = pg_sys::$name;)*
    };
}

declare! {
    fn palloc(size: Size) -> *mut c_void;
    fn pg_detoast_datum(datum: *mut varlena) -> *mut varlena;
    fn GetDatabaseEncoding() -> c_int;
    fn GetUserId() -> Oid;
    fn pg_class_aclmask(table: Oid, role: Oid, mask: AclMode, how: AclMaskHow::Type) -> AclMode;
    #[cfg(feature = "pg15")]
    fn pg_namespace_aclcheck(schema: Oid, role: Oid, mode: AclMode) -> AclResult::Type;
    #[cfg(not(feature = "pg15"))]
    fn object_aclcheck(class: Oid, object: Oid, role: Oid, mode: AclMode) -> AclResult::Type;

    fn GetCurrentTimestamp() -> TimestampTz;
    fn GetCurrentCommandId(used: bool) -> CommandId;
    fn CommandCounterIncrement();
    fn GetActiveSnapshot() -> Snapshot;
    fn GetTransactionSnapshot() -> Snapshot;
    fn PushActiveSnapshot(snapshot: Snapshot);
    fn PopActiveSnapshot();

    fn table_open(table: Oid, lock: LOCKMODE) -> Relation;
    fn table_close(table: Relation, lock: LOCKMODE);
    fn simple_table_tuple_insert(table: Relation, slot: *mut TupleTableSlot);
    fn CheckCmdReplicaIdentity(table: Relation, command: CmdType::Type);
    fn RelationGetIndexList(table: Relation) -> *mut List;
    fn list_free(list: *mut List);

    fn index_open(index: Oid, lock: LOCKMODE) -> Relation;
    fn index_close(index: Relation, lock: LOCKMODE);
    fn BuildIndexInfo(index: Relation) -> *mut IndexInfo;
    fn index_insert(
        index: Relation,
        values: *mut Datum,
        is_null: *mut bool,
        row: ItemPointer,
        table: Relation,
        unique: IndexUniqueCheck::Type,
        is_unchanged: bool,
        info: *mut IndexInfo
    ) -> bool;
    fn ScanKeyEntryInitialize(
        entry: ScanKey,
        flags: c_int,
        attribute: AttrNumber,
        strategy: StrategyNumber,
        subtype: Oid,
        collation: Oid,
        procedure: RegProcedure,
        argument: Datum
    );
    #[cfg(not(feature = "pg18"))]
    fn index_beginscan(
        table: Relation,
        index: Relation,
        snapshot: Snapshot,
        keys: c_int,
        order_bys: c_int
    ) -> IndexScanDesc;
    #[cfg(feature = "pg18")]
    fn index_beginscan(
        table: Relation,
        index: Relation,
        snapshot: Snapshot,
        instrument: *mut IndexScanInstrumentation,
        keys: c_int,
        order_bys: c_int
    ) -> IndexScanDesc;
    fn index_rescan(scan: IndexScanDesc, keys: ScanKey, count: c_int, order_bys: ScanKey, order_bys_count: c_int);
    fn index_getnext_slot(scan: IndexScanDesc, direction: ScanDirection::Type, slot: *mut TupleTableSlot) -> bool;
    fn index_endscan(scan: IndexScanDesc);

    fn slot_getsomeattrs_int(slot: *mut TupleTableSlot, count: c_int);
    fn table_slot_create(table: Relation, list: *mut *mut List) -> *mut TupleTableSlot;
    fn MakeSingleTupleTableSlot(descriptor: TupleDesc, kind: *const TupleTableSlotOps) -> *mut TupleTableSlot;
    fn ExecStoreVirtualTuple(slot: *mut TupleTableSlot) -> *mut TupleTableSlot;
    fn ExecDropSingleTupleTableSlot(slot: *mut TupleTableSlot);

    fn deconstruct_array(
        array: *mut ArrayType,
        element_type: Oid,
        element_length: c_int,
        is_by_value: bool,
        alignment: c_char,
        elements: *mut *mut Datum,
        is_null: *mut *mut bool,
        count: *mut c_int
    );
    fn lookup_rowtype_tupdesc(type_oid: Oid, modifier: int32) -> TupleDesc;
    fn CreateTupleDescCopy(descriptor: TupleDesc) -> TupleDesc;
    fn DecrTupleDescRefCount(descriptor: TupleDesc);
    fn heap_form_tuple(descriptor: TupleDesc, values: Values, is_null: Nulls) -> HeapTuple;
    fn heap_deform_tuple(tuple: HeapTuple, descriptor: TupleDesc, values: *mut Datum, is_null: *mut bool);
    fn HeapTupleHeaderGetDatum(tuple: HeapTupleHeader) -> Datum;
    fn tuplestore_begin_heap(random_access: bool, is_held: bool, kilobytes: c_int) -> *mut Tuplestorestate;
    fn tuplestore_putvalues(store: *mut Tuplestorestate, descriptor: TupleDesc, values: Values, is_null: Nulls);
}

/// Calls them; an error comes out as a panic, as it does of the functions of `pg_sys`.
///
/// # Safety
/// An error jumps out of `f`: it holds nothing that has to be dropped, and does not panic.
pub unsafe fn guarded<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: as promised.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(f) }
}
