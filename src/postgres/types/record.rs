//! `record`: a row of any type.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;

use pgrx::PgTupleDesc;
use pgrx::prelude::*;
use table_service_model::edm::parse_double;
use table_service_model::{Error, Value};

use super::text::{name_bytes, utf8};
use super::{argument, sql_type};
use crate::postgres::clock::ticks_of;
use crate::postgres::guarded::guarded;
use crate::postgres::varlena;

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A value of any row type.
pub struct RecordArg<'a> {
    header: pg_sys::HeapTupleHeader,
    source: PhantomData<&'a ()>,
}

sql_type!(RecordArg<'_>, "record", External);
argument!(RecordArg, datum => RecordArg {
    // SAFETY: it is a row.
    header: unsafe { header(datum) },
    source: PhantomData,
});

/// The values of the columns of a row. They live as long as the row.
pub struct Deformed<'a> {
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
    source: PhantomData<&'a ()>,
}

impl Deformed<'_> {
    /// Returns a column, counted from zero. `None` means NULL.
    pub fn value(&self, column: usize) -> Option<pg_sys::Datum> {
        match self.nulls.get(column) {
            Some(false) => self.values.get(column).copied(),
            _ => None,
        }
    }
}

/// One column of a row.
pub struct Column<'a> {
    pub name: String,
    type_oid: pg_sys::Oid,
    /// A value of that type, or `None` for NULL.
    value: Option<pg_sys::Datum>,
    source: PhantomData<&'a ()>,
}

impl<'a> Column<'a> {
    /// Returns the value as that of a property, or `None` for NULL. If no type of a property fits, it is a String, in
    /// its text form. A domain's values are those of its base type. Raises the errors of the type's output function.
    ///
    /// # Errors
    /// `OutOfRangeInput` for a numeric or a timestamp outside the range of its property type.
    pub fn value(&self) -> Result<Option<Value<'a>>, Error> {
        let Some(datum) = self.value else {
            return Ok(None);
        };
        // SAFETY: the datum is not NULL and of the column's type. A domain's values are represented like those of its
        // base type. So each arm reads the representation that the type has.
        Ok(Some(unsafe {
            let base_type = pg_sys::getBaseType(self.type_oid);
            match base_type {
                pg_sys::INT2OID => Value::Int32((datum.value() as i16).into()),
                pg_sys::INT4OID => Value::Int32(datum.value() as i32),
                pg_sys::INT8OID => Value::Int64(datum.value() as i64),
                pg_sys::BOOLOID => Value::Boolean(datum.value() & 0xFF != 0),
                pg_sys::FLOAT8OID => Value::Double(f64::from_bits(datum.value() as u64)),
                pg_sys::FLOAT4OID => Value::Double(double_of(f32::from_bits(datum.value() as u32))),
                pg_sys::NUMERICOID => {
                    let text = output(base_type, datum);
                    Value::Double(parse_double(text).ok_or_else(|| Error::out_of_range(&self.name, text))?)
                }
                pg_sys::TIMESTAMPTZOID => Value::DateTime(ticks_of(&self.name, datum.value() as i64)?),
                pg_sys::UUIDOID => Value::Guid(*datum.cast_mut_ptr::<[u8; 16]>()),
                pg_sys::BYTEAOID => Value::Binary(varlena::bytes(datum)),
                _ => Value::String(output(self.type_oid, datum)),
            }
        }))
    }
}

/// Returns the double that prints like the float4: 0.1 stays 0.1.
fn double_of(n: f32) -> f64 {
    n.to_string().parse().unwrap_or_else(|_| f64::from(n))
}

/// Returns the text form of a value.
///
/// # Safety
/// `datum` must be a value of the type. The text must not be used after the running call.
unsafe fn output<'a>(type_oid: pg_sys::Oid, datum: pg_sys::Datum) -> &'a str {
    // SAFETY: the caller promises that the output function of the type takes the datum. The function returns a
    // palloc'ed C string, which lives as long as the running call.
    unsafe {
        let mut function = pg_sys::InvalidOid;
        let mut is_varlena = false;
        pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut is_varlena);
        let text = pg_sys::OidOutputFunctionCall(function, datum);
        utf8(CStr::from_ptr(text).to_bytes())
    }
}

/// Returns the header of a row, which is in place.
///
/// # Safety
/// The datum must be a row that is not NULL.
unsafe fn header(datum: pg_sys::Datum) -> pg_sys::HeapTupleHeader {
    type Header = unsafe extern "C-unwind" fn(pg_sys::Datum) -> pg_sys::HeapTupleHeader;
    // A row may be older than a change of its type's columns. PostgreSQL looks at that when it takes a row apart, but not for rows of
    // minor releases before November 2026 (CVE-2026-6460). This function marks those. Older servers lack it, so the library must not
    // need it to be loaded.
    static MARKS: OnceLock<Option<Header>> = OnceLock::new();
    let marks = MARKS.get_or_init(|| {
        // SAFETY: the name is a C string. The function has this type in all servers that have it.
        unsafe {
            let symbol = dlsym(std::ptr::null_mut(), c"DatumGetHeapTupleHeader".as_ptr());
            (!symbol.is_null()).then(|| std::mem::transmute::<*mut c_void, Header>(symbol))
        }
    });
    // SAFETY: the caller's promise.
    unsafe {
        match *marks {
            Some(marks) => guarded(|| marks(datum)),
            None => pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast(),
        }
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

    /// Returns the values of the columns by the descriptor of the row.
    pub fn deform_by(&self, descriptor: &PgTupleDesc<'_>) -> Deformed<'a> {
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
    pub fn deform(&self) -> Deformed<'a> {
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
