//! Values of composite types.

use pgrx::prelude::*;

use super::value::Value;
use crate::postgres::descriptor::type_of;

/// Makes a datum of a composite type in the current memory context. `None` means NULL.
///
/// Raises `datatype_mismatch` if the number or the types of the values are not those of the attributes.
pub fn composite<const N: usize>(type_oid: pg_sys::Oid, values: [Option<Value<'_>>; N]) -> pg_sys::Datum {
    let mut datums = values.map(|value| value.map_or(pg_sys::Datum::null(), Value::datum));
    let mut nulls = values.map(|value| value.is_none());
    // SAFETY: an entry of the type cache stays where it is. Its descriptor is NULL if the type is not composite, and valid
    // until PostgreSQL receives invalidation messages, which `heap_form_tuple` does not. The number and types of the
    // values are compared with it before they are used. A new tuple has the header of a datum. `HeapTupleHeaderGetDatum`
    // has to make another only if an attribute is stored out of line.
    unsafe {
        let descriptor = (*pg_sys::lookup_type_cache(type_oid, pg_sys::TYPECACHE_TUPDESC as i32)).tupDesc;
        let fits = !descriptor.is_null()
            && usize::try_from((*descriptor).natts) == Ok(N)
            && values
                .iter()
                .enumerate()
                .all(|(column, value)| value.is_none_or(|value| value.type_oid() == type_of(descriptor, column)));
        if !fits {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                "the attributes of a type of table_service do not match this version of the library"
            );
        }
        let tuple = pg_sys::heap_form_tuple(descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
        let header = (*tuple).t_data;
        if u32::from((*header).t_infomask) & pg_sys::HEAP_HASEXTERNAL == 0 {
            pg_sys::Datum::from(header)
        } else {
            pg_sys::HeapTupleHeaderGetDatum(header)
        }
    }
}
