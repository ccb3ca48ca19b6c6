//! `record`: a row of any type.

use std::marker::PhantomData;

use pgrx::PgTupleDesc;
use pgrx::prelude::*;

use super::text::{name_bytes, utf8};
use super::{argument, external_sql_type};

/// A value of any row type.
pub struct RecordArg<'a> {
    header: pg_sys::HeapTupleHeader,
    source: PhantomData<&'a ()>,
}

external_sql_type!(RecordArg<'_>, "record");
argument!(RecordArg);

/// The values of the columns of a row. They live as long as the row.
pub(super) struct Deformed<'a> {
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
    source: PhantomData<&'a ()>,
}

impl Deformed<'_> {
    /// Returns a column, counted from zero. `None` stands for NULL.
    pub(super) fn value(&self, column: usize) -> Option<pg_sys::Datum> {
        match self.nulls.get(column) {
            Some(false) => self.values.get(column).copied(),
            _ => None,
        }
    }
}

/// One column of a row.
pub struct Column<'a> {
    pub name: String,
    pub type_oid: pg_sys::Oid,
    /// A value of that type, or `None` for NULL.
    pub value: Option<pg_sys::Datum>,
    source: PhantomData<&'a ()>,
}

impl FromDatum for RecordArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        (!is_null).then(|| RecordArg {
            // SAFETY: the caller promises a datum of a composite type that is not NULL.
            header: unsafe { pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast() },
            source: PhantomData,
        })
    }
}

impl<'a> RecordArg<'a> {
    /// Returns the descriptor of the row.
    fn descriptor(&self) -> PgTupleDesc<'static> {
        // SAFETY: the header of a composite datum names its row type. `PgTupleDesc` releases the descriptor when it is
        // dropped.
        unsafe {
            let fields = (*self.header).t_choice.t_datum;
            PgTupleDesc::from_pg(pg_sys::lookup_rowtype_tupdesc(fields.datum_typeid, fields.datum_typmod))
        }
    }

    fn deform_by(&self, descriptor: &PgTupleDesc<'_>) -> Deformed<'a> {
        let count = descriptor.len();
        let mut values = vec![pg_sys::Datum::null(); count];
        let mut nulls = vec![true; count];
        // SAFETY: the descriptor describes this row, and both arrays have room for all its columns.
        unsafe {
            let mut tuple = pg_sys::HeapTupleData {
                t_len: pgrx::varsize(self.header.cast()) as u32,
                t_data: self.header,
                ..Default::default()
            };
            pg_sys::heap_deform_tuple(&mut tuple, descriptor.as_ptr(), values.as_mut_ptr(), nulls.as_mut_ptr());
        }
        Deformed {
            values,
            nulls,
            source: PhantomData,
        }
    }

    /// Returns the values of the columns.
    pub(super) fn deform(&self) -> Deformed<'a> {
        self.deform_by(&self.descriptor())
    }

    /// Returns the columns that are not dropped, in order.
    pub fn columns(&self) -> Vec<Column<'a>> {
        let descriptor = self.descriptor();
        let row = self.deform_by(&descriptor);
        descriptor
            .iter()
            .enumerate()
            .filter(|(_, attribute)| !attribute.attisdropped)
            .map(|(index, attribute)| Column {
                name: utf8(name_bytes(&attribute.attname)).to_owned(),
                type_oid: attribute.atttypid,
                value: row.value(index),
                source: PhantomData,
            })
            .collect()
    }
}
