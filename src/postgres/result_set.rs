//! Set-returning functions in materialise mode: rows go straight into a tuplestore.

use std::cell::OnceCell;
use std::marker::PhantomData;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::prelude::*;
use table_service_model::projection::Projection;

use super::row::{Row, is_entity, type_of};
use super::types::value::{Bag, Value};
use super::types::{external_sql_type, sql_type};

/// The rows that a function has returned so far.
pub struct ResultSet<'f> {
    store: *mut pg_sys::Tuplestorestate,
    descriptor: pg_sys::TupleDesc,
    /// The types of the columns, once they were looked up.
    types: OnceCell<Vec<pg_sys::Oid>>,
    /// Whether the columns are those of an entity and at most one more.
    takes_entities: OnceCell<bool>,
    call: PhantomData<&'f ()>,
}

impl<'f> ResultSet<'f> {
    /// Opens the result of the running function.
    ///
    /// # Safety
    /// `fcinfo` is that of the running function, which is declared to return a set of rows. The call lasts as long as `'f`.
    pub unsafe fn open(fcinfo: pg_sys::FunctionCallInfo) -> ResultSet<'f> {
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
            let caller = pg_sys::MemoryContextSwitchTo((*(*info).econtext).ecxt_per_query_memory);
            let store = pg_sys::tuplestore_begin_heap(random_access, false, pg_sys::work_mem);
            pg_sys::MemoryContextSwitchTo(caller);
            (*info).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
            (*info).setResult = store;
            // The columns are those that the caller expects, which are those of the declaration. Without a descriptor of our own
            // there is none to compare with.
            ResultSet {
                store,
                descriptor: (*info).expectedDesc,
                types: OnceCell::new(),
                takes_entities: OnceCell::new(),
                call: PhantomData,
            }
        }
    }

    /// The types of the columns.
    fn types(&self) -> &[pg_sys::Oid] {
        self.types.get_or_init(|| {
            // SAFETY: the descriptor is valid during the call.
            unsafe {
                let count = usize::try_from((*self.descriptor).natts).unwrap_or_default();
                (0..count).map(|column| type_of(self.descriptor, column)).collect()
            }
        })
    }

    /// Adds an entity, with what is chosen of its properties. The result begins with the columns of an entity, and has at most one
    /// more, which will be NULL.
    pub fn push_entity(&mut self, row: &Row<'_>, projection: &Projection) {
        let takes_entities = self.takes_entities.get_or_init(|| {
            // SAFETY: the descriptor is valid during the call.
            unsafe { matches!((*self.descriptor).natts, 4 | 5) && is_entity(self.descriptor) }
        });
        if !takes_entities {
            does_not_fit();
        }
        if matches!(projection, Projection::All) {
            // SAFETY: the slot holds the row. A row with fewer columns than its descriptor is to PostgreSQL one of the time before they
            // were added, so that it can be copied as it is.
            unsafe { pg_sys::tuplestore_puttupleslot(self.store, row.slot()) };
            return;
        }
        let properties = Bag::new(projection.apply(row.properties()).as_properties());
        let [partition_key, row_key, timestamp, _] = *row.values();
        let mut values = [
            partition_key,
            row_key,
            timestamp,
            properties.value().datum(),
            pg_sys::Datum::null(),
        ];
        let mut nulls = [false, false, false, false, true];
        // SAFETY: the columns were compared; the values are copied.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }

    /// Adds a row of values, `None` for NULL.
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
        // SAFETY: the columns were compared; the values are copied.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }
}

/// For a function whose declaration in this database is not that of this library.
fn does_not_fit() -> ! {
    refuse("the columns of the result are not those that this version of the library of table_service returns")
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
