//! The extension's SQL types as arguments and results of Rust functions.

use std::ffi::{CStr, CString};
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
external_sql_type!(TextOut, "cstring");
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
result!(RegClass, this => pg_sys::Datum::from(this.0));
result!(EntityOut, this => this.into_datum());
result!(BatchOperationOut, this => this.0);

/// A copy of `bytes` as a varlena, which is what a bag, json and text are.
pub fn varlena(bytes: &[u8]) -> pg_sys::Datum {
    bytes.into_datum().unwrap_or(pg_sys::Datum::null())
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
    fn value(&self, index: usize) -> Option<pg_sys::Datum> {
        match self.nulls.get(index) {
            Some(false) => self.values.get(index).copied(),
            _ => None,
        }
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
        // SAFETY: the values are those of the attributes of `entity`.
        unsafe { composite(catalog::entity_type(), values) }
    }
}

/// A datum of a composite type, `None` for NULL.
///
/// # Safety
/// The values are of the types of its attributes, and as many.
unsafe fn composite<const N: usize>(type_oid: pg_sys::Oid, values: [Option<pg_sys::Datum>; N]) -> pg_sys::Datum {
    let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
    let mut nulls = values.map(|value| value.is_none());
    // SAFETY: as promised.
    unsafe {
        let descriptor = PgTupleDesc::from_pg(pg_sys::lookup_rowtype_tupdesc(type_oid, -1));
        let tuple = pg_sys::heap_form_tuple(descriptor.as_ptr(), datums.as_mut_ptr(), nulls.as_mut_ptr());
        pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
    }
}

/// The operations of a batch, read in place.
pub struct BatchOperationsArg<'a>(Vec<Option<BatchOperationRow<'a>>>);

/// One operation as it stands in its row.
#[derive(Clone, Copy)]
pub struct BatchOperationRow<'a> {
    pub operation: Option<&'a str>,
    pub row_key: Option<&'a str>,
    pub properties: Option<PropertiesArg<'a>>,
    pub if_match: Option<&'a str>,
}

impl<'a> BatchOperationsArg<'a> {
    /// The rows in order, `None` for NULL.
    pub fn rows(&self) -> &[Option<BatchOperationRow<'a>>] {
        &self.0
    }
}

impl FromDatum for BatchOperationsArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, oid: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        let row = |record: RecordArg<'_>, descriptor| {
            let row = record.deform(descriptor);
            // SAFETY: the attributes of `batch_operation` have these types and live as long as the array.
            unsafe {
                let text = |index| row.value(index).and_then(|datum| <&str>::from_datum(datum, false));
                BatchOperationRow {
                    operation: text(0),
                    row_key: text(1),
                    properties: row.value(2).and_then(|datum| PropertiesArg::from_datum(datum, false)),
                    if_match: text(3),
                }
            }
        };
        // SAFETY: the caller promises an array of `batch_operation`, a varlena type with double alignment, as all
        // composite types.
        unsafe {
            let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            let (mut elements, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
            pg_sys::deconstruct_array(
                array,
                (*array).elemtype,
                -1,
                false,
                pg_sys::TYPALIGN_DOUBLE as std::ffi::c_char,
                &mut elements,
                &mut nulls,
                &mut count,
            );
            let descriptor = PgTupleDesc::from_pg(pg_sys::lookup_rowtype_tupdesc((*array).elemtype, -1));
            let record = |i| RecordArg::from_polymorphic_datum(*elements.add(i), *nulls.add(i), oid);
            let rows = (0..usize::try_from(count).unwrap_or_default())
                .map(|i| record(i).map(|record| row(record, &descriptor)))
                .collect();
            Some(BatchOperationsArg(rows))
        }
    }
}

/// An operation to return.
pub struct BatchOperationOut(pg_sys::Datum);

impl BatchOperationOut {
    pub fn new(operation: &str, row_key: &str, properties: Option<Properties<'_>>, if_match: Option<&str>) -> Self {
        let values = [
            Some(varlena(operation.as_bytes())),
            Some(varlena(row_key.as_bytes())),
            properties.map(|bag| varlena(bag.as_bytes())),
            if_match.map(|tag| varlena(tag.as_bytes())),
        ];
        // SAFETY: the values are those of the attributes of `batch_operation`.
        BatchOperationOut(unsafe { composite(catalog::batch_operation_type(), values) })
    }
}
