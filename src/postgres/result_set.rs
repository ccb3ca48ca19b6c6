//! Set-returning functions in materialize mode: rows are written into a tuplestore.

use std::cell::OnceCell;
use std::marker::PhantomData;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::prelude::*;
use table_service_model::projection::Projection;

use super::descriptor::type_of;
use super::guarded::{guarded, without_guards};
use super::row::{Row, is_entity};
use super::types::value::{Bag, Text, Value};
use super::types::{external_sql_type, sql_type};

without_guards! {
    fn tuplestore_puttuple(store: *mut pg_sys::Tuplestorestate, row: pg_sys::HeapTuple);
    fn heap_freetuple(row: pg_sys::HeapTuple);
}

/// The rows that a function has returned so far.
pub struct ResultSet<'f> {
    store: *mut pg_sys::Tuplestorestate,
    descriptor: pg_sys::TupleDesc,
    /// The types of the columns, after the first look-up.
    types: OnceCell<Vec<pg_sys::Oid>>,
    /// Whether the columns are those of an entity and at most one more.
    takes_entities: OnceCell<bool>,
    /// What lives until the query has ended.
    context: pg_sys::MemoryContext,
    /// The row of [`ResultSet::keep`]. NULL if there is none.
    kept: pg_sys::HeapTuple,
    /// For kept rows that need changes. NULL until it is used.
    slot: *mut pg_sys::TupleTableSlot,
    call: PhantomData<&'f ()>,
}

impl<'f> ResultSet<'f> {
    /// Opens the result of the running function.
    ///
    /// # Safety
    /// `fcinfo` must be that of the running function, and the function must be declared to return a set of rows. The
    /// call must last as long as `'f`.
    pub unsafe fn open(fcinfo: pg_sys::FunctionCallInfo) -> ResultSet<'f> {
        // SAFETY: `fcinfo` is that of the running function. `resultinfo` is used only if it is a ReturnSetInfo. Then
        // PostgreSQL has set its expression context and its expected descriptor, which are valid during the call.
        unsafe {
            let info = (*fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            if info.is_null() || (*info).type_ != pg_sys::NodeTag::T_ReturnSetInfo {
                refuse("set-valued function called in context that cannot accept a set");
            }
            let modes = (*info).allowedModes as u32;
            if modes & pg_sys::SetFunctionReturnMode::SFRM_Materialize == 0 {
                refuse("materialize mode required, but it is not allowed in this context");
            }
            let random_access = modes & pg_sys::SetFunctionReturnMode::SFRM_Materialize_Random != 0;
            let context = (*(*info).econtext).ecxt_per_query_memory;
            let caller = pg_sys::MemoryContextSwitchTo(context);
            let store = pg_sys::tuplestore_begin_heap(random_access, false, pg_sys::work_mem);
            pg_sys::MemoryContextSwitchTo(caller);
            (*info).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
            (*info).setResult = store;
            // The descriptor is the one that the caller expects, from the function's declaration. No other descriptor
            // is set, so PostgreSQL has none to compare it with.
            ResultSet {
                store,
                descriptor: (*info).expectedDesc,
                types: OnceCell::new(),
                takes_entities: OnceCell::new(),
                context,
                kept: std::ptr::null_mut(),
                slot: std::ptr::null_mut(),
                call: PhantomData,
            }
        }
    }

    /// Returns the types of the columns.
    fn types(&self) -> &[pg_sys::Oid] {
        self.types.get_or_init(|| {
            // SAFETY: the descriptor is valid during the call, and the columns are counted by `natts`.
            unsafe {
                let count = usize::try_from((*self.descriptor).natts).unwrap_or_default();
                (0..count).map(|column| type_of(self.descriptor, column)).collect()
            }
        })
    }

    /// Raises an error if the columns are not those of an entity and at most one more.
    fn check_columns(&self) {
        let takes_entities = self.takes_entities.get_or_init(|| {
            // SAFETY: the descriptor is valid during the call.
            unsafe { matches!((*self.descriptor).natts, 4 | 5) && is_entity(self.descriptor) }
        });
        if !takes_entities {
            does_not_fit();
        }
    }

    /// Adds an entity with the properties that the projection selects. The result's columns are those of an entity and
    /// at most one more, which is `last`.
    pub fn push_entity(&mut self, row: &Row<'_>, projection: &Projection, last: Option<&Text>) {
        self.check_columns();
        let projected = match projection {
            Projection::All if last.is_none() => {
                // SAFETY: the slot holds the row, which the tuplestore copies. The types of its columns are those of the
                // result. If the result has one column more, PostgreSQL reads it as NULL, like a column that was added
                // after the row was written.
                unsafe { pg_sys::tuplestore_puttupleslot(self.store, row.slot()) };
                return;
            }
            Projection::All => None,
            projection => Some(Bag::new(projection.apply(row.properties()).as_properties())),
        };
        let [partition_key, row_key, timestamp, stored] = *row.values();
        let properties = projected.as_ref().map_or(stored, |bag| bag.value().datum());
        let token = last.map_or(pg_sys::Datum::null(), |text| text.value().datum());
        let mut values = [partition_key, row_key, timestamp, properties, token];
        let mut nulls = [false, false, false, false, last.is_none()];
        // SAFETY: the descriptor has the columns of an entity and at most one more, which is a text if the caller has one
        // for it. Both arrays have five elements of these types, and the tuplestore copies the values.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }

    /// Keeps a copy of an entity until [`ResultSet::push_kept`]. PostgreSQL frees the row itself when the next one arrives.
    pub fn keep(&mut self, row: &Row<'_>) {
        // SAFETY: the context outlives the call.
        unsafe {
            let caller = pg_sys::MemoryContextSwitchTo(self.context);
            self.kept = row.copy();
            pg_sys::MemoryContextSwitchTo(caller);
        }
    }

    /// Adds the entity that was kept, as [`ResultSet::push_entity`] does. Returns false if there is none.
    pub fn push_kept(&mut self, projection: &Projection, last: Option<&Text>) -> bool {
        let kept = std::mem::replace(&mut self.kept, std::ptr::null_mut());
        if kept.is_null() {
            return false;
        }
        if matches!(projection, Projection::All) && last.is_none() {
            self.check_columns();
            let store = self.store;
            // SAFETY: the tuplestore copies the row that `keep` has made, whose columns are those of the result.
            unsafe {
                guarded(|| {
                    tuplestore_puttuple(store, kept);
                    heap_freetuple(kept);
                });
            }
            return true;
        }
        // SAFETY: the context and the descriptor outlive the call. The row has the columns of an entity, which are the first
        // ones of the result. The slot frees it.
        unsafe {
            if self.slot.is_null() {
                let caller = pg_sys::MemoryContextSwitchTo(self.context);
                // The slot would hold a descriptor that is counted longer than the caller lets it.
                let descriptor = match (*self.descriptor).tdrefcount {
                    ..0 => self.descriptor,
                    _ => pg_sys::CreateTupleDescCopy(self.descriptor),
                };
                self.slot = pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsHeapTuple);
                pg_sys::MemoryContextSwitchTo(caller);
            }
            pg_sys::ExecStoreHeapTuple(kept, self.slot, true);
            self.push_entity(&Row::of(self.slot), projection, last);
            pg_sys::ExecClearTuple(self.slot);
        }
        true
    }

    /// Adds a row of values, with `None` for NULL.
    pub fn push<const N: usize>(&mut self, values: [Option<Value<'_>>; N]) {
        let types = self.types();
        let fits = |(value, type_oid): (&Option<Value<'_>>, &pg_sys::Oid)| {
            value.as_ref().is_none_or(|value| value.type_oid() == *type_oid)
        };
        if types.len() != N || !values.iter().zip(types).all(fits) {
            does_not_fit();
        }
        let mut datums = values.map(|value| value.map_or(pg_sys::Datum::null(), Value::datum));
        let mut nulls = values.map(|value| value.is_none());
        // SAFETY: the number and types of the values are those of the descriptor, and the tuplestore copies the values.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }
}

/// Raises an error for a function whose declaration in this database does not match this version of the library.
fn does_not_fit() -> ! {
    refuse("the columns of the result do not match this version of the library of table_service")
}

fn refuse(message: &'static str) -> ! {
    ereport!(ERROR, PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message);
}

/// Defines the Rust type for `RETURNS SETOF` or `RETURNS TABLE`. The rows are in the tuplestore already.
macro_rules! set_of {
    ($(#[$doc:meta])* $name:ident, $sql_type:ident, $sql:literal) => {
        $(#[$doc])*
        pub struct $name;
        $sql_type!($name, $sql);
        // SAFETY: in materialize mode PostgreSQL ignores the returned datum.
        unsafe impl BoxRet for $name {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
                fcinfo.return_null()
            }
        }
    };
}

set_of!(
    /// Entities, in key order.
    Entities,
    sql_type,
    "SETOF table_service.entity"
);
set_of!(
    /// The tables of the service.
    Tables,
    external_sql_type,
    "TABLE (table_name text, relation regclass, continuation_token text)"
);
set_of!(
    /// The properties of a bag.
    EachProperty,
    external_sql_type,
    "TABLE (name text, type text, value text)"
);
set_of!(
    /// The results of the operations of a batch.
    BatchResults,
    external_sql_type,
    "TABLE (index integer, row_key text, etag text)"
);
set_of!(
    /// One page of entities.
    Page,
    external_sql_type,
    "TABLE (partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, continuation_token text)"
);
set_of!(
    /// One page of entities, as text.
    PageChunks,
    external_sql_type,
    "TABLE (chunk text, continuation_token text)"
);
set_of!(
    /// What a step of a delete has done.
    DeletedStep,
    external_sql_type,
    "TABLE (deleted bigint, continuation_token text)"
);
set_of!(
    /// What a step of an update has done.
    UpdatedStep,
    external_sql_type,
    "TABLE (updated bigint, continuation_token text)"
);
set_of!(
    /// How a query runs.
    Explanation,
    external_sql_type,
    "TABLE (access text, key_ranges text[], residual text, sql text, plan text)"
);
set_of!(
    /// The partitions of a table.
    PartitionStatistics,
    external_sql_type,
    "TABLE (partition_key text, entities bigint, bytes bigint)"
);
set_of!(
    /// The property indexes of tables.
    PropertyIndexes,
    external_sql_type,
    "TABLE (table_name text, property text, index regclass, is_valid boolean, bytes bigint, scans bigint)"
);
set_of!(
    /// The expiries of tables.
    ExpiryIndexes,
    external_sql_type,
    "TABLE (table_name text, property text, time_to_live interval, index regclass, is_valid boolean, oldest timestamptz)"
);
set_of!(
    /// What a sweep has deleted.
    Sweeps,
    external_sql_type,
    "TABLE (table_name text, deleted bigint, more boolean, oldest timestamptz)"
);
set_of!(
    /// The change feeds of a database.
    ChangeFeeds,
    external_sql_type,
    "TABLE (feed_name text, table_names text[], is_active boolean, wal_status text, retained_bytes bigint, \"position\" text)"
);
set_of!(
    /// Changes of entities, in the order of commits.
    Changes,
    external_sql_type,
    "TABLE (\"position\" text, committed timestamptz, table_name text, kind text, partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, old_properties table_service.properties)"
);
