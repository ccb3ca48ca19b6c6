//! `table_service.properties`, the typed property bag.

use pgrx::prelude::*;
use table_service_model::{Properties, PropertiesBuf};

use super::{argument, external_sql_type, result, sql_type};
use crate::postgres::varlena;

/// A bag, read in place.
#[derive(Clone, Copy)]
pub struct PropertiesArg<'a> {
    datum: pg_sys::Datum,
    bytes: &'a [u8],
}

sql_type!(PropertiesArg<'_>, "table_service.properties");
argument!(PropertiesArg);

impl<'a> PropertiesArg<'a> {
    /// Makes an argument of a datum and its bytes.
    ///
    /// # Safety
    /// `datum` must be a bag with these bytes and live as long as `'a`.
    pub unsafe fn from_parts(datum: pg_sys::Datum, bytes: &'a [u8]) -> PropertiesArg<'a> {
        PropertiesArg { datum, bytes }
    }

    pub fn datum(&self) -> pg_sys::Datum {
        self.datum
    }

    /// Returns the bag. It was validated when it entered the database: by text input, binary input, or a cast.
    pub fn get(&self) -> Properties<'a> {
        Properties::from_stored(self.bytes)
    }
}

impl FromDatum for PropertiesArg<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller promises a datum of the type `properties`, a varlena, that lives long enough.
        let (datum, bytes) = unsafe { varlena::plain(datum) };
        Some(PropertiesArg { datum, bytes })
    }
}

/// A bag to return.
pub struct PropertiesOut(pub PropertiesBuf);

sql_type!(PropertiesOut, "table_service.properties");
result!(PropertiesOut, this => varlena::palloc(this.0.as_bytes()));

/// The type `properties` before `CREATE TYPE` gives it its input and output functions. Only these functions use it.
///
/// `sql/schemas.sql`, which runs first, declares the shell type. If it were declared as a type of the extension, pgrx
/// would qualify its name with the schema of the tests.
pub struct ShellIn<'a>(pub PropertiesArg<'a>);
pub struct ShellOut(pub PropertiesBuf);

external_sql_type!(ShellIn<'_>, "table_service.properties");
external_sql_type!(ShellOut, "table_service.properties");
argument!(ShellIn);
result!(ShellOut, this => varlena::palloc(this.0.as_bytes()));

impl FromDatum for ShellIn<'_> {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, oid: pg_sys::Oid) -> Option<Self> {
        // SAFETY: the caller makes the same promise.
        unsafe { PropertiesArg::from_polymorphic_datum(datum, is_null, oid).map(ShellIn) }
    }
}
