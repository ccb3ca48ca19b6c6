//! The extension's SQL types as arguments and results of Rust functions.

use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;

use pgrx::PgTupleDesc;
use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::prelude::*;
use table_service_model::entity::Entity;
use table_service_model::{Properties, PropertiesBuf, Ticks};

use crate::catalog;
use crate::unguarded::{self, guarded};

/// Says which SQL type a Rust type stands for.
macro_rules! sql_type {
    ($rust:ty, $sql:literal) => {
        // SAFETY: the conversions in this module are between exactly these two types.
        unsafe impl SqlTranslatable for $rust {
            const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!($rust);
            const TYPE_ORIGIN: TypeOrigin = TypeOrigin::ThisExtension;
            const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal($sql));
            const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal($sql)));
        }
    };
}

/// A type that exists before the extension: nothing has to be created first.
macro_rules! external_sql_type {
    ($rust:ty, $sql:literal) => {
        // SAFETY: the conversions are between exactly these two types.
        unsafe impl SqlTranslatable for $rust {
            const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!($rust);
            const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
            const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal($sql));
            const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal($sql)));
        }
    };
}

pub(crate) use {external_sql_type, sql_type};

sql_type!(PropertiesArg<'_>, "table_service.properties");
sql_type!(PropertiesOut, "table_service.properties");
sql_type!(EntityArg<'_>, "table_service.entity");
sql_type!(EntityOut, "table_service.entity");
sql_type!(BatchOperationsArg<'_>, "table_service.batch_operation[]");
sql_type!(BatchOperationOut, "table_service.batch_operation");
// sql/schemas.sql, which comes before everything, declares the shell type. As a type of the extension, pgrx would put the
// schema of the tests before its name.
external_sql_type!(ShellIn<'_>, "table_service.properties");
external_sql_type!(ShellOut, "table_service.properties");
external_sql_type!(TextArg<'_>, "text");
external_sql_type!(TextOut, "cstring");
external_sql_type!(TextBytes, "text");
external_sql_type!(RegClass, "regclass");
external_sql_type!(JsonArg<'_>, "json");
external_sql_type!(JsonOut, "json");
external_sql_type!(JsonbArg<'_>, "jsonb");
external_sql_type!(JsonbOut, "jsonb");
external_sql_type!(RecordArg<'_>, "record");

/// An argument type whose datum is converted by `FromDatum`.
macro_rules! argument {
    ($rust:ident) => {
        // SAFETY: the datum is of the SQL type that the type stands for.
        unsafe impl<'fcx> ArgAbi<'fcx> for $rust<'fcx> {
            unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
                // SAFETY: as promised by the caller. PostgreSQL calls with NULL only where the argument is an Option.
                match unsafe { arg.unbox_arg_using_from_datum() } {
                    Some(value) => value,
                    None => crate::error::raise(table_service_model::Error::null_argument("the argument")),
                }
            }
        }
    };
}

argument!(TextArg);
argument!(PropertiesArg);
argument!(ShellIn);
argument!(EntityArg);
argument!(RecordArg);
argument!(JsonArg);
argument!(JsonbArg);
argument!(BatchOperationsArg);

/// A result that is a non-null datum.
macro_rules! result {
    ($rust:ty, $this:ident => $datum:expr) => {
        // SAFETY: the datum is of the SQL type that the type stands for and was allocated in the caller's context.
        unsafe impl BoxRet for $rust {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
                let $this = self;
                // SAFETY: see above.
                unsafe { fcinfo.return_raw_datum($datum) }
            }
        }
    };
}

result!(PropertiesOut, this => varlena(this.0.as_bytes()));
result!(ShellOut, this => varlena(this.0.as_bytes()));
result!(JsonOut, this => varlena(&this.0));
result!(JsonbOut, this => this.into_datum());
result!(TextOut, this => this.into_datum());
result!(TextBytes, this => varlena(&this.0));
result!(RegClass, this => pg_sys::Datum::from(this.0));
result!(EntityOut, this => this.into_datum());
result!(BatchOperationOut, this => this.0);

/// A copy of `bytes` as a varlena, which is what a bag, json and text are.
pub fn varlena(bytes: &[u8]) -> pg_sys::Datum {
    // SAFETY: nothing has to be dropped.
    unsafe { guarded(|| varlena_unguarded(bytes)) }
}

/// Copies of many.
pub fn varlenas(all: &[&[u8]]) -> Vec<pg_sys::Datum> {
    let mut datums = vec![pg_sys::Datum::null(); all.len()];
    let copy = || {
        for (datum, bytes) in datums.iter_mut().zip(all) {
            // SAFETY: within the guard.
            *datum = unsafe { varlena_unguarded(bytes) };
        }
    };
    // SAFETY: nothing within has to be dropped.
    unsafe { guarded(copy) };
    datums
}

/// As [`varlena`], within a guard.
///
/// # Safety
/// An error jumps out of it.
pub unsafe fn varlena_unguarded(bytes: &[u8]) -> pg_sys::Datum {
    let size = pg_sys::VARHDRSZ + bytes.len();
    // SAFETY: there is room for the header and the bytes; what is larger than a header can say is not allocated.
    unsafe {
        let varlena = unguarded::palloc(size).cast::<pg_sys::varlena>();
        pgrx::set_varsize_4b(varlena, size as i32);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), varlena.cast::<u8>().add(pg_sys::VARHDRSZ), bytes.len());
        pg_sys::Datum::from(varlena)
    }
}

/// The bytes of a varlena, which is copied only if it is compressed or stored elsewhere.
///
/// # Safety
/// `datum` is a non-null varlena that lives as long as `'a`.
pub unsafe fn varlena_bytes<'a>(datum: pg_sys::Datum) -> (pg_sys::Datum, &'a [u8]) {
    // SAFETY: the caller promises a varlena; the packed form has its header and its length in place.
    unsafe {
        let mut packed = datum.cast_mut_ptr::<pg_sys::varlena>();
        if !is_in_place(packed) {
            packed = pg_sys::pg_detoast_datum_packed(packed);
        }
        let length = pgrx::varsize_any_exhdr(packed);
        let data = pgrx::vardata_any(packed);
        (
            pg_sys::Datum::from(packed),
            std::slice::from_raw_parts(data.cast(), length),
        )
    }
}

/// The length of a varlena's bytes, without fetching them.
///
/// # Safety
/// `datum` is a non-null varlena.
pub unsafe fn varlena_size(datum: pg_sys::Datum) -> usize {
    // SAFETY: as promised.
    unsafe {
        let varlena = datum.cast_mut_ptr::<pg_sys::varlena>();
        if is_in_place(varlena) {
            pgrx::varsize_any_exhdr(varlena)
        } else {
            pg_sys::toast_raw_datum_size(datum).saturating_sub(pg_sys::VARHDRSZ)
        }
    }
}

/// Whether the bytes stand behind the header as they are. A call into PostgreSQL costs more than this test, and this is
/// asked for every row of a scan.
///
/// # Safety
/// A valid varlena.
unsafe fn is_in_place(varlena: *const pg_sys::varlena) -> bool {
    // SAFETY: as promised; only the header is read.
    unsafe { pgrx::varatt_is_4b_u(varlena) || (pgrx::varatt_is_1b(varlena) && !pgrx::varatt_is_1b_e(varlena)) }
}

/// A text, read in place.
#[derive(Clone, Copy)]
pub struct TextArg<'a> {
    datum: pg_sys::Datum,
    text: &'a str,
}

impl<'a> TextArg<'a> {
    pub fn new(text: &'a str) -> TextArg<'a> {
        TextArg {
            datum: varlena(text.as_bytes()),
            text,
        }
    }

    /// The text as a parameter of a statement.
    pub fn datum(self) -> pg_sys::Datum {
        self.datum
    }

    pub fn get(self) -> &'a str {
        self.text
    }
}

impl FromDatum for TextArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, oid: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller promises a text. In this encoding PostgreSQL lets only valid ones in.
        unsafe {
            let (datum, bytes) = varlena_bytes(datum);
            let text = if unguarded::GetDatabaseEncoding() == pg_sys::pg_enc::PG_UTF8 as c_int {
                std::str::from_utf8_unchecked(bytes)
            } else {
                <&str>::from_polymorphic_datum(datum, is_null, oid)?
            };
            Some(TextArg { datum, text })
        }
    }
}

/// A bag, read in place.
#[derive(Clone, Copy)]
pub struct PropertiesArg<'a> {
    datum: pg_sys::Datum,
    bytes: &'a [u8],
}

impl<'a> PropertiesArg<'a> {
    /// The bag as a parameter of a statement.
    pub fn datum(&self) -> pg_sys::Datum {
        self.datum
    }

    pub fn get(&self) -> Properties<'a> {
        // Every bag was checked where it came in: text input, binary receive, casts.
        Properties::from_stored(self.bytes)
    }
}

impl FromDatum for PropertiesArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller promises a datum of the type `properties`.
        let (datum, bytes) = unsafe { varlena_bytes(datum) };
        Some(PropertiesArg { datum, bytes })
    }
}

/// A bag to return.
pub struct PropertiesOut(pub PropertiesBuf);

/// The type `properties` before `CREATE TYPE` has its input and output functions: only these name it so early.
pub struct ShellIn<'a>(pub PropertiesArg<'a>);
pub struct ShellOut(pub PropertiesBuf);

impl FromDatum for ShellIn<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, oid: pg_sys::Oid) -> Option<Self> {
        // SAFETY: as promised by the caller.
        unsafe { PropertiesArg::from_polymorphic_datum(datum, is_null, oid).map(ShellIn) }
    }
}

/// The text of a value, without a NUL, for an output function to return.
pub struct TextOut(pub Vec<u8>);

impl TextOut {
    fn into_datum(self) -> pg_sys::Datum {
        // SAFETY: there is room for the text and its NUL.
        unsafe {
            let text = pg_sys::palloc(self.0.len() + 1).cast::<u8>();
            std::ptr::copy_nonoverlapping(self.0.as_ptr(), text, self.0.len());
            *text.add(self.0.len()) = 0;
            pg_sys::Datum::from(text)
        }
    }
}

/// A text to return, in the encoding of the database.
pub struct TextBytes(pub Vec<u8>);

pub struct RegClass(pub pg_sys::Oid);

/// The text of a json value, which PostgreSQL has found well-formed.
pub struct JsonArg<'a>(pub &'a str);

impl FromDatum for JsonArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, oid: pg_sys::Oid) -> Option<Self> {
        // SAFETY: json is stored as text is.
        unsafe { <&str>::from_polymorphic_datum(datum, is_null, oid) }.map(JsonArg)
    }
}

/// JSON text, which the writer made well-formed.
pub struct JsonOut(pub Vec<u8>);

/// A jsonb, as it came.
pub struct JsonbArg<'a> {
    datum: pg_sys::Datum,
    lifetime: PhantomData<&'a ()>,
}

impl FromDatum for JsonbArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        (!is_null).then_some(JsonbArg {
            datum,
            lifetime: PhantomData,
        })
    }
}

impl JsonbArg<'_> {
    /// Its text, with the numbers as jsonb keeps them.
    pub fn text(&self) -> String {
        // SAFETY: jsonb's own output function on a jsonb; the text is palloc'ed and copied.
        unsafe {
            match pgrx::direct_function_call::<&CStr>(pg_sys::jsonb_out, &[Some(self.datum)]) {
                Some(text) => text.to_string_lossy().into_owned(),
                None => String::new(),
            }
        }
    }
}

/// JSON text to return as jsonb.
pub struct JsonbOut(pub Vec<u8>);

impl JsonbOut {
    fn into_datum(self) -> pg_sys::Datum {
        let text = CString::new(self.0).unwrap_or_default();
        // SAFETY: jsonb's own input function on well-formed JSON.
        unsafe {
            pgrx::direct_function_call_as_datum(pg_sys::jsonb_in, &[Some(text.as_ptr().into())])
                .unwrap_or(pg_sys::Datum::null())
        }
    }
}

/// A value of any row type.
pub struct RecordArg<'a> {
    header: pg_sys::HeapTupleHeader,
    lifetime: PhantomData<&'a ()>,
}

/// A row taken apart. By-reference values live as long as the row.
struct Deformed {
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

impl Deformed {
    fn value(&self, column: usize) -> Option<pg_sys::Datum> {
        let row = DeformedRow {
            values: &self.values,
            is_null: &self.nulls,
        };
        row.value(column)
    }
}

/// One column of a row.
pub struct Column {
    pub name: String,
    pub type_oid: pg_sys::Oid,
    pub value: Option<pg_sys::Datum>,
}

impl FromDatum for RecordArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        (!is_null).then(|| RecordArg {
            // SAFETY: the caller promises a datum of a composite type.
            header: unsafe { pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast() },
            lifetime: PhantomData,
        })
    }
}

impl RecordArg<'_> {
    /// What the columns are.
    fn descriptor(&self) -> PgTupleDesc<'static> {
        // SAFETY: the header is that of a composite datum, which names its row type; the descriptor is released when
        // it is dropped.
        unsafe {
            let fields = (*self.header).t_choice.t_datum;
            PgTupleDesc::from_pg(pg_sys::lookup_rowtype_tupdesc(fields.datum_typeid, fields.datum_typmod))
        }
    }

    /// The values of the columns, which the descriptor describes.
    fn deform(&self, descriptor: &PgTupleDesc<'_>) -> Deformed {
        let count = descriptor.len();
        // SAFETY: the arrays have room for as many columns as the descriptor names.
        unsafe {
            let mut values = vec![pg_sys::Datum::null(); count];
            let mut nulls = vec![true; count];
            let mut tuple = pg_sys::HeapTupleData {
                t_len: pgrx::varsize(self.header.cast()) as u32,
                t_self: pg_sys::ItemPointerData::default(),
                t_tableOid: pg_sys::InvalidOid,
                t_data: self.header,
            };
            pg_sys::heap_deform_tuple(&mut tuple, descriptor.as_ptr(), values.as_mut_ptr(), nulls.as_mut_ptr());
            Deformed { values, nulls }
        }
    }

    /// The columns that are not dropped, in order.
    pub fn columns(&self) -> Vec<Column> {
        let descriptor = self.descriptor();
        let row = self.deform(&descriptor);
        descriptor
            .iter()
            .enumerate()
            .filter(|(_, attribute)| !attribute.attisdropped)
            .map(|(index, attribute)| Column {
                name: pgrx::name_data_to_str(&attribute.attname).to_owned(),
                type_oid: attribute.atttypid,
                value: row.value(index),
            })
            .collect()
    }
}

/// An entity, read in place.
pub struct EntityArg<'a> {
    partition_key: Option<&'a str>,
    row_key: Option<&'a str>,
    timestamp: Option<i64>,
    properties: Option<PropertiesArg<'a>>,
}

impl FromDatum for EntityArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, oid: pg_sys::Oid) -> Option<Self> {
        // SAFETY: the caller promises a datum of the type `entity`, whose attributes have these types; they live as
        // long as the datum.
        unsafe {
            let record = RecordArg::from_polymorphic_datum(datum, is_null, oid)?;
            let row = record.deform(&record.descriptor());
            let text = |index| row.value(index).and_then(|datum| <&str>::from_datum(datum, false));
            Some(EntityArg {
                partition_key: text(0),
                row_key: text(1),
                timestamp: row.value(2).and_then(|datum| i64::from_datum(datum, false)),
                properties: row.value(3).and_then(|datum| PropertiesArg::from_datum(datum, false)),
            })
        }
    }
}

impl<'a> EntityArg<'a> {
    /// Its Timestamp in microseconds since 2000-01-01.
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }

    /// The entity; without properties where they are NULL.
    pub fn get(&self) -> Entity<'a> {
        Entity {
            partition_key: self.partition_key,
            row_key: self.row_key,
            timestamp: self.timestamp.and_then(Ticks::from_postgres_micros),
            properties: self
                .properties
                .map_or(Properties::from_stored(&[]), |properties| properties.get()),
        }
    }
}

/// An entity to return. Without a Timestamp its `"timestamp"` is NULL.
pub struct EntityOut {
    pub partition_key: String,
    pub row_key: String,
    pub timestamp: Option<Ticks>,
    pub properties: PropertiesBuf,
}

impl EntityOut {
    fn into_datum(self) -> pg_sys::Datum {
        let values = [
            Some(varlena(self.partition_key.as_bytes())),
            Some(varlena(self.row_key.as_bytes())),
            self.timestamp
                .map(|ticks| pg_sys::Datum::from(ticks.to_postgres_micros())),
            Some(varlena(self.properties.as_bytes())),
        ];
        let entity = catalog::entity_type();
        // SAFETY: the values are those of the attributes of `entity`. Nothing has to be dropped.
        unsafe { guarded(|| composite(entity, values)) }
    }
}

/// A datum of a composite type, `None` for NULL.
///
/// # Safety
/// Within [`guarded`]. The values are of the types of its attributes, and as many.
unsafe fn composite<const N: usize>(type_oid: pg_sys::Oid, values: [Option<pg_sys::Datum>; N]) -> pg_sys::Datum {
    let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
    let mut nulls = values.map(|value| value.is_none());
    // SAFETY: as promised.
    unsafe {
        let descriptor = unguarded::lookup_rowtype_tupdesc(type_oid, -1);
        let tuple = unguarded::heap_form_tuple(descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
        let datum = unguarded::HeapTupleHeaderGetDatum((*tuple).t_data);
        release(descriptor);
        datum
    }
}

/// Gives a descriptor back that `lookup_rowtype_tupdesc` has lent.
///
/// # Safety
/// Within [`guarded`].
unsafe fn release(descriptor: pg_sys::TupleDesc) {
    // SAFETY: the descriptor is not used any more; only some are counted.
    unsafe {
        if (*descriptor).tdrefcount >= 0 {
            unguarded::DecrTupleDescRefCount(descriptor);
        }
    }
}

/// The operations of a batch, read in place.
pub struct BatchOperationsArg<'a>(Vec<Option<BatchOperationRow<'a>>>);

/// One operation as it stands in its row.
#[derive(Clone, Copy)]
pub struct BatchOperationRow<'a> {
    pub operation: Option<TextArg<'a>>,
    pub row_key: Option<TextArg<'a>>,
    pub properties: Option<PropertiesArg<'a>>,
    pub if_match: Option<TextArg<'a>>,
}

impl<'a> BatchOperationsArg<'a> {
    /// The rows in order, `None` for NULL.
    pub fn rows(&self) -> &[Option<BatchOperationRow<'a>>] {
        &self.0
    }
}

impl FromDatum for BatchOperationsArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller promises an array of `batch_operation`. Nothing has to be dropped.
        let deformed = unsafe { guarded(|| DeformedArray::of(datum)) };
        let row = |index| {
            let row = deformed.row(index)?;
            // SAFETY: the attributes of `batch_operation` have these types and live as long as the array.
            unsafe {
                Some(BatchOperationRow {
                    operation: row.value(0).and_then(|datum| TextArg::from_datum(datum, false)),
                    row_key: row.value(1).and_then(|datum| TextArg::from_datum(datum, false)),
                    properties: row.value(2).and_then(|datum| PropertiesArg::from_datum(datum, false)),
                    if_match: row.value(3).and_then(|datum| TextArg::from_datum(datum, false)),
                })
            }
        };
        Some(BatchOperationsArg((0..deformed.count).map(row).collect()))
    }
}

/// An array of rows, all taken apart at once.
struct DeformedArray {
    count: usize,
    columns: usize,
    is_null_row: *const bool,
    values: *const pg_sys::Datum,
    is_null: *const bool,
}

/// One row of it, or of another that was taken apart.
struct DeformedRow<'a> {
    values: &'a [pg_sys::Datum],
    is_null: &'a [bool],
}

impl DeformedRow<'_> {
    fn value(&self, column: usize) -> Option<pg_sys::Datum> {
        match self.is_null.get(column) {
            Some(false) => self.values.get(column).copied(),
            _ => None,
        }
    }
}

impl DeformedArray {
    /// # Safety
    /// Within [`guarded`]. The datum is an array of a composite type, which all have double alignment.
    unsafe fn of(datum: pg_sys::Datum) -> DeformedArray {
        let (mut elements, mut is_null_row, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        // SAFETY: as promised; there is room for the columns of all rows.
        unsafe {
            let array = unguarded::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            let row_type = (*array).elemtype;
            let alignment = pg_sys::TYPALIGN_DOUBLE as std::ffi::c_char;
            unguarded::deconstruct_array(
                array,
                row_type,
                -1,
                false,
                alignment,
                &mut elements,
                &mut is_null_row,
                &mut count,
            );
            let count = usize::try_from(count).unwrap_or_default();
            let descriptor = unguarded::lookup_rowtype_tupdesc(row_type, -1);
            let columns = usize::try_from((*descriptor).natts).unwrap_or_default();
            let cells = count * columns;
            let values = unguarded::palloc(cells * size_of::<pg_sys::Datum>()).cast::<pg_sys::Datum>();
            let is_null = unguarded::palloc(cells).cast::<bool>();
            for row in (0..count).filter(|&row| !*is_null_row.add(row)) {
                let header = unguarded::pg_detoast_datum((*elements.add(row)).cast_mut_ptr());
                let mut tuple = pg_sys::HeapTupleData {
                    t_len: pgrx::varsize(header) as u32,
                    t_data: header.cast(),
                    ..Default::default()
                };
                let first = row * columns;
                unguarded::heap_deform_tuple(&mut tuple, descriptor, values.add(first), is_null.add(first));
            }
            release(descriptor);
            DeformedArray {
                count,
                columns,
                is_null_row,
                values,
                is_null,
            }
        }
    }

    /// `None` for NULL.
    fn row(&self, index: usize) -> Option<DeformedRow<'_>> {
        // SAFETY: there are as many rows, of as many columns, and those that are not NULL are taken apart.
        unsafe {
            let is_there = index < self.count && !*self.is_null_row.add(index);
            is_there.then(|| DeformedRow {
                values: std::slice::from_raw_parts(self.values.add(index * self.columns), self.columns),
                is_null: std::slice::from_raw_parts(self.is_null.add(index * self.columns), self.columns),
            })
        }
    }
}

/// An operation to return.
pub struct BatchOperationOut(pg_sys::Datum);

impl BatchOperationOut {
    pub fn new(
        operation: &str,
        row_key: Option<TextArg<'_>>,
        properties: Option<PropertiesArg<'_>>,
        if_match: Option<TextArg<'_>>,
    ) -> Self {
        let row_type = catalog::batch_operation_type();
        let row_key = row_key.map(TextArg::datum);
        let properties = properties.map(|properties| properties.datum());
        let if_match = if_match.map(TextArg::datum);
        // SAFETY: the values are those of the attributes of `batch_operation`. Nothing has to be dropped.
        BatchOperationOut(unsafe {
            guarded(|| {
                let operation = varlena_unguarded(operation.as_bytes());
                composite(row_type, [Some(operation), row_key, properties, if_match])
            })
        })
    }
}
