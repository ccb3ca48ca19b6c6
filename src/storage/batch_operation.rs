//! `table_service.batch_operation` and arrays of it.

use pgrx::PgTupleDesc;
use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::batch::Operation;

use crate::postgres::types::composite::composite;
use crate::postgres::types::{argument, result, sql_type};
use crate::postgres::{Elements, PropertiesArg, RecordArg, Text, TextArg, Value, catalog, filter_dialect};

/// The operations of a batch in order, read in place, with `None` for NULL.
pub struct BatchOperationsArg<'a>(pub Vec<Option<BatchOperationRow<'a>>>);

sql_type!(BatchOperationsArg<'_>, "table_service.batch_operation[]", ThisExtension);
argument!(BatchOperationsArg, datum => {
    // SAFETY: it is an array of rows, which have double alignment.
    let array = unsafe { Elements::of(datum, pg_sys::TYPALIGN_DOUBLE) };
    if array.datums.is_empty() {
        return Some(BatchOperationsArg(Vec::new()));
    }
    // SAFETY: the function returns a descriptor with a reference, which `PgTupleDesc` releases when it is dropped.
    let descriptor = unsafe { PgTupleDesc::from_pg(pg_sys::lookup_rowtype_tupdesc(array.type_oid, -1)) };
    let types: Vec<_> = descriptor.iter().map(|attribute| attribute.atttypid).collect();
    let (text, properties) = (pg_sys::TEXTOID, catalog::properties_type());
    if types != [text, text, properties, text] {
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
            "the attributes of batch_operation do not match this version of the library"
        );
    }
    let elements = array.datums.iter().zip(array.nulls);
    // SAFETY: the datum is an element of the array, and the descriptor describes it. Its attributes have these types.
    let row = |(&element, &is_null)| unsafe {
        let row = RecordArg::from_datum(element, is_null)?.deform_by(&descriptor);
        let text = |column| row.value(column).and_then(|datum| TextArg::from_datum(datum, false));
        Some(BatchOperationRow {
            operation: text(0),
            row_key: text(1),
            properties: row.value(2).and_then(|datum| PropertiesArg::from_datum(datum, false)),
            if_match: text(3),
        })
    };
    BatchOperationsArg(elements.map(row).collect())
});

/// The attributes of one operation.
#[derive(Clone, Copy)]
pub struct BatchOperationRow<'a> {
    pub operation: Option<TextArg<'a>>,
    pub row_key: Option<TextArg<'a>>,
    pub properties: Option<PropertiesArg<'a>>,
    pub if_match: Option<TextArg<'a>>,
}

impl<'a> BatchOperationRow<'a> {
    /// Reads and checks the operation.
    pub fn operation(&self) -> Result<Operation<'a>, Error> {
        let [operation, row_key, if_match] =
            [self.operation, self.row_key, self.if_match].map(|text| text.map(TextArg::get));
        let properties = self.properties.map(|properties| properties.get());
        Operation::new(operation, row_key, properties, if_match, filter_dialect())
    }
}

/// An operation to return.
pub struct BatchOperationOut(pg_sys::Datum);

sql_type!(BatchOperationOut, "table_service.batch_operation", ThisExtension);
result!(BatchOperationOut, this => this.0);

impl BatchOperationOut {
    /// Makes an operation from its attributes.
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
