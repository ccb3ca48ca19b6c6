//! Values of composite types.

use pgrx::prelude::*;

use super::value::Value;

/// Makes a datum of a composite type in the current memory context. `None` stands for NULL.
///
/// Raises `datatype_mismatch` if the number or the types of the values are not those of the attributes.
pub(super) fn composite<const N: usize>(type_oid: pg_sys::Oid, values: [Option<Value<'_>>; N]) -> pg_sys::Datum {
    let mut datums = values.map(|value| value.map_or(pg_sys::Datum::null(), Value::datum));
    let mut nulls = values.map(|value| value.is_none());
    // SAFETY: the function returns a descriptor with a reference, which `PgTupleDesc` releases when it is dropped. The
    // number and types of the values are compared with it before they are used.
    unsafe {
        let descriptor = pgrx::PgTupleDesc::from_pg(pg_sys::lookup_rowtype_tupdesc(type_oid, -1));
        let fits = descriptor.len() == N
            && descriptor
                .iter()
                .zip(values)
                .all(|(attribute, value)| value.is_none_or(|value| value.type_oid() == attribute.atttypid));
        if !fits {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                "the attributes of a type of table_service do not match this version of the library"
            );
        }
        let tuple = pg_sys::heap_form_tuple(descriptor.as_ptr(), datums.as_mut_ptr(), nulls.as_mut_ptr());
        pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
    }
}
