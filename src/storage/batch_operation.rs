//! `table_service.batch_operation` and arrays of it.

use pgrx::PgTupleDesc;
use pgrx::prelude::*;

use crate::postgres::catalog;
use crate::postgres::types::composite::composite;
use crate::postgres::types::value::{Text, Value};
use crate::postgres::types::{PropertiesArg, TextArg, argument, result, sql_type};
use crate::postgres::varlena::unpacked;

/// The operations of a batch, read in place.
pub struct BatchOperationsArg<'a>(Vec<Option<BatchOperationRow<'a>>>);

sql_type!(BatchOperationsArg<'_>, "table_service.batch_operation[]");
argument!(BatchOperationsArg);

/// The attributes of one operation.
#[derive(Clone, Copy)]
pub struct BatchOperationRow<'a> {
    pub operation: Option<TextArg<'a>>,
    pub row_key: Option<TextArg<'a>>,
    pub properties: Option<PropertiesArg<'a>>,
    pub if_match: Option<TextArg<'a>>,
}

impl<'a> BatchOperationsArg<'a> {
    /// Returns the operations in order, with `None` for NULL.
    pub fn rows(&self) -> &[Option<BatchOperationRow<'a>>] {
        &self.0
    }
}

impl FromDatum for BatchOperationsArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller promises an array of `batch_operation` that lives long enough. Composite types have the
        // length -1 and double alignment, and are not passed by value. `deconstruct_array` allocates both results with
        // `count` elements.
        let (row_type, elements, nulls) = unsafe {
            let (mut elements, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
            let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            let row_type = (*array).elemtype;
            pg_sys::deconstruct_array(
                array,
                row_type,
                -1,
                false,
                pg_sys::TYPALIGN_DOUBLE as std::ffi::c_char,
                &mut elements,
                &mut nulls,
                &mut count,
            );
            match usize::try_from(count) {
                Ok(count) if count > 0 => (
                    row_type,
                    std::slice::from_raw_parts(elements, count),
                    std::slice::from_raw_parts(nulls, count),
                ),
                _ => return Some(BatchOperationsArg(Vec::new())),
            }
        };
        let mut rows = Vec::with_capacity(elements.len());
        // SAFETY: the function returns a descriptor with a reference, which `PgTupleDesc` releases when it is dropped.
        let descriptor = unsafe { PgTupleDesc::from_pg(pg_sys::lookup_rowtype_tupdesc(row_type, -1)) };
        let types: Vec<_> = descriptor.iter().map(|attribute| attribute.atttypid).collect();
        let (text, properties) = (pg_sys::TEXTOID, catalog::properties_type());
        if types != [text, text, properties, text] {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                "the attributes of batch_operation do not match this version of the library"
            );
        }
        rows.extend(elements.iter().zip(nulls).map(|(&element, &is_null)| {
            // SAFETY: the datum is an element of the array that is not NULL, and the descriptor is that of the
            // elements.
            (!is_null).then(|| unsafe { BatchOperationRow::of(element, &descriptor) })
        }));
        Some(BatchOperationsArg(rows))
    }
}

impl BatchOperationRow<'_> {
    /// Reads the attributes of an operation.
    ///
    /// # Safety
    /// `datum` must be a `batch_operation` that is not NULL and lives long enough. `descriptor` must be that of the
    /// type, with the types that the caller has compared.
    unsafe fn of(datum: pg_sys::Datum, descriptor: &PgTupleDesc<'_>) -> Self {
        let mut values = [pg_sys::Datum::null(); 4];
        let mut nulls = [true; 4];
        // SAFETY: the datum is a row of this descriptor, which has four attributes of these types. Both arrays have
        // room for four.
        unsafe {
            let header = unpacked(datum);
            let mut tuple = pg_sys::HeapTupleData {
                t_len: pgrx::varsize(header) as u32,
                t_data: header.cast(),
                ..Default::default()
            };
            pg_sys::heap_deform_tuple(&mut tuple, descriptor.as_ptr(), values.as_mut_ptr(), nulls.as_mut_ptr());
            Self {
                operation: TextArg::from_datum(values[0], nulls[0]),
                row_key: TextArg::from_datum(values[1], nulls[1]),
                properties: PropertiesArg::from_datum(values[2], nulls[2]),
                if_match: TextArg::from_datum(values[3], nulls[3]),
            }
        }
    }
}

/// An operation to return.
pub struct BatchOperationOut(pg_sys::Datum);

sql_type!(BatchOperationOut, "table_service.batch_operation");
result!(BatchOperationOut, this => this.0);

impl BatchOperationOut {
    pub fn new(
        operation: &str,
        row_key: Option<TextArg<'_>>,
        properties: Option<PropertiesArg<'_>>,
        if_match: Option<TextArg<'_>>,
    ) -> Self {
        let operation = Text::new(operation);
        BatchOperationOut(composite(
            catalog::batch_operation_type(),
            [
                Some(operation.value()),
                row_key.map(Value::text),
                properties.map(Value::properties),
                if_match.map(Value::text),
            ],
        ))
    }
}
