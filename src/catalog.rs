//! OIDs of the extension's own schemas and types, from the system caches.

use std::ffi::CStr;

use pgrx::pg_sys;

const SCHEMA: &CStr = c"table_service";
const DATA_SCHEMA: &CStr = c"table_service_data";

/// The schema of the tables of the service.
pub fn data_schema() -> pg_sys::Oid {
    // SAFETY: a catalog look-up in a transaction; `missing_ok` makes it return InvalidOid instead of raising.
    unsafe { pg_sys::get_namespace_oid(DATA_SCHEMA.as_ptr(), true) }
}

/// The composite type `table_service.entity`.
pub fn entity_type() -> pg_sys::Oid {
    type_oid(c"entity")
}

/// The base type `table_service.properties`.
pub fn properties_type() -> pg_sys::Oid {
    type_oid(c"properties")
}

/// The composite type `table_service.batch_operation`.
pub fn batch_operation_type() -> pg_sys::Oid {
    type_oid(c"batch_operation")
}

fn type_oid(name: &CStr) -> pg_sys::Oid {
    // SAFETY: TYPENAMENSP takes a name and a namespace; the other keys are unused.
    unsafe {
        let schema = pg_sys::get_namespace_oid(SCHEMA.as_ptr(), false);
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::TYPENAMENSP as i32,
            pg_sys::Anum_pg_type_oid as pg_sys::AttrNumber,
            pg_sys::Datum::from(name.as_ptr()),
            pg_sys::Datum::from(schema),
            pg_sys::Datum::null(),
            pg_sys::Datum::null(),
        )
    }
}
