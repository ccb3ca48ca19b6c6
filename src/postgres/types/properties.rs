//! `table_service.properties`, the typed property bag.

use pgrx::prelude::*;
use table_service_model::{Properties, PropertiesBuf};

use super::{argument, result, sql_type};
use crate::postgres::varlena;

/// A bag, read in place.
#[derive(Clone, Copy)]
pub struct PropertiesArg<'a> {
    datum: pg_sys::Datum,
    bytes: &'a [u8],
}

sql_type!(PropertiesArg<'_>, "table_service.properties", ThisExtension);
argument!(PropertiesArg, datum => {
    // SAFETY: a bag is a varlena.
    let (datum, bytes) = unsafe { varlena::plain(datum) };
    PropertiesArg { datum, bytes }
});

impl<'a> PropertiesArg<'a> {
    /// Makes an argument of a datum and its bytes.
    ///
    /// # Safety
    /// `datum` must be a bag with these bytes and live as long as `'a`.
    pub unsafe fn from_parts(datum: pg_sys::Datum, bytes: &'a [u8]) -> PropertiesArg<'a> {
        PropertiesArg { datum, bytes }
    }

    /// Returns PostgreSQL's own value, which has the bytes in place.
    pub fn datum(&self) -> pg_sys::Datum {
        self.datum
    }

    /// Returns the bag. It was validated when it entered the database: by text input, binary input, or a cast.
    pub fn get(&self) -> Properties<'a> {
        Properties::from_stored(self.bytes)
    }
}

/// A bag to return.
pub struct PropertiesOut(pub PropertiesBuf);

sql_type!(PropertiesOut, "table_service.properties", ThisExtension);
result!(PropertiesOut, this => varlena::palloc(this.0.as_bytes()));

/// The type `properties` before `CREATE TYPE` gives it its input and output functions. Only these functions use it.
///
/// `sql/schemas.sql`, which runs first, declares the shell type. If it were declared as a type of the extension, pgrx
/// would qualify its name with the schema of the tests.
pub struct ShellIn<'a>(pub PropertiesArg<'a>);
/// A bag to return as that type.
pub struct ShellOut(pub PropertiesBuf);

sql_type!(ShellIn<'_>, "table_service.properties", External);
sql_type!(ShellOut, "table_service.properties", External);
argument!(ShellIn, datum => {
    // SAFETY: it is a bag.
    let bag = unsafe { PropertiesArg::from_datum(datum, false) };
    ShellIn(bag?)
});
result!(ShellOut, this => varlena::palloc(this.0.as_bytes()));
