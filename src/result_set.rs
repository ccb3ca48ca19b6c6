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
        // SAFETY: as promised; it raises where the caller of the function does not take a set.
        unsafe {
            // With the columns that the caller expects, which are those of the declaration: looking that up costs more, and
            // leaks some of it until the statement ends.
            pg_sys::InitMaterializedSRF(fcinfo, pg_sys::MAT_SRF_USE_EXPECTED_DESC);
            let info = (*fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            ResultSet {
                store: (*info).setResult,
                descriptor: (*info).setDesc,
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
        let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
        let mut nulls = values.map(|value| value.is_none());
        // SAFETY: as promised; the values are copied.
        unsafe { pg_sys::tuplestore_putvalues(self.store, self.descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr()) }
    }
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
