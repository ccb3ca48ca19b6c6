//! Set-returning functions in materialise mode: rows go straight into a tuplestore.

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::prelude::*;
use table_service_model::projection::Projection;

use crate::scan::Row;
use crate::types::{external_sql_type, sql_type};
use crate::unguarded::{self, guarded};

/// The rows that a function has returned so far.
pub struct ResultSet {
    store: *mut pg_sys::Tuplestorestate,
    descriptor: pg_sys::TupleDesc,
}

impl ResultSet {
    /// Opens the result of the running function.
    ///
    /// # Safety
    /// `fcinfo` is that of the running function, which is declared to return a set of rows.
    pub unsafe fn open(fcinfo: pg_sys::FunctionCallInfo) -> ResultSet {
        // SAFETY: as promised; what is looked at is there whenever the caller takes a set.
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
            let store = guarded(|| {
                let context = pg_sys::CurrentMemoryContext;
                pg_sys::CurrentMemoryContext = (*(*info).econtext).ecxt_per_query_memory;
                let store = unguarded::tuplestore_begin_heap(random_access, false, pg_sys::work_mem);
                pg_sys::CurrentMemoryContext = context;
                store
            });
            (*info).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
            (*info).setResult = store;
            // The columns are those that the caller expects, which are those of the declaration. Without a description of our
            // own there is none to compare with.
            ResultSet {
                store,
                descriptor: (*info).expectedDesc,
            }
        }
    }

    /// Adds a row that has the columns of the result, as a statement returned it.
    ///
    /// # Safety
    /// `tuple` is a valid tuple of that shape.
    pub unsafe fn push_tuple(&mut self, tuple: pg_sys::HeapTuple) {
        // SAFETY: as promised; the tuple is copied.
        unsafe { pg_sys::tuplestore_puttuple(self.store, tuple) }
    }

    /// Adds an entity, with what is chosen of its properties.
    ///
    /// # Safety
    /// The slot holds the four columns of an entity. The result begins with these, and has at most one more, which will be NULL.
    pub unsafe fn push_entity(&mut self, slot: *mut pg_sys::TupleTableSlot, projection: &Projection) {
        // SAFETY: as promised. A row that has fewer columns than its descriptor is one of the time before they were added, to
        // PostgreSQL; so it can be copied as it is.
        unsafe {
            if matches!(projection, Projection::All) {
                pg_sys::tuplestore_puttupleslot(self.store, slot);
                return;
            }
            let row = Row::of(slot);
            let properties = row.projected(projection);
            let mut values = [
                row.partition_key,
                row.row_key,
                row.timestamp,
                properties,
                pg_sys::Datum::null(),
            ];
            let mut nulls = [false, false, false, false, true];
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }

    /// Adds a row of values, `None` for NULL.
    ///
    /// # Safety
    /// The values are of the types of the result's columns, and as many.
    pub unsafe fn push<const N: usize>(&mut self, values: [Option<pg_sys::Datum>; N]) {
        // SAFETY: as promised.
        unsafe { self.push_all(&[values]) }
    }

    /// Adds rows of values, `None` for NULL.
    ///
    /// # Safety
    /// The values are of the types of the result's columns, and as many.
    pub unsafe fn push_all<const N: usize>(&mut self, rows: &[[Option<pg_sys::Datum>; N]]) {
        let push = || {
            for values in rows {
                let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
                let mut nulls = values.map(|value| value.is_none());
                let (datums, nulls) = (datums.as_mut_ptr(), nulls.as_mut_ptr());
                // SAFETY: as promised; the values are copied.
                unsafe { unguarded::tuplestore_putvalues(self.store, self.descriptor, datums, nulls) }
            }
        };
        // SAFETY: nothing within has to be dropped.
        unsafe { guarded(push) }
    }
}

fn refuse(message: &'static str) -> ! {
    ereport!(ERROR, PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message);
}

/// The Rust side of `RETURNS SETOF` and `RETURNS TABLE`: the rows are in the tuplestore already.
macro_rules! set_of {
    ($(#[$doc:meta])* $name:ident, $sql_type:ident, $sql:literal) => {
        $(#[$doc])*
        pub struct $name;
        $sql_type!($name, $sql);
        // SAFETY: in materialise mode the returned datum is not looked at.
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
    /// What the operations of a batch have done.
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
    /// How a query is run.
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
