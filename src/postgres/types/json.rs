//! `json` and `jsonb`.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;

use pgrx::prelude::*;

use super::text::utf8;
use super::{TextArg, argument, result, sql_type, within_limit};
use crate::postgres::varlena;

/// The text of a json value. PostgreSQL has checked that it is well-formed.
pub struct JsonArg<'a>(pub &'a str);

sql_type!(JsonArg<'_>, "json", External);
argument!(JsonArg, datum => {
    // SAFETY: json and text have the same representation.
    let text = unsafe { TextArg::from_datum(datum, false) };
    JsonArg(text?.get())
});

/// JSON text to return as json. Its bytes must be well-formed JSON.
pub struct JsonOut(pub Vec<u8>);

sql_type!(JsonOut, "json", External);
result!(JsonOut, this => varlena::palloc(&this.0));

/// A jsonb value.
pub struct JsonbArg<'a> {
    datum: pg_sys::Datum,
    source: PhantomData<&'a ()>,
}

sql_type!(JsonbArg<'_>, "jsonb", External);
argument!(JsonbArg, datum => {
    // SAFETY: jsonb is a varlena.
    let datum = unsafe { within_limit(datum) };
    JsonbArg { datum, source: PhantomData }
});

impl<'a> JsonbArg<'a> {
    /// Returns its text, with numbers in the form that jsonb keeps.
    pub fn text(&self) -> &'a str {
        // SAFETY: the output function of jsonb gets a jsonb value that is not NULL. PostgreSQL allocates the text,
        // which lives as long as the call that has the argument.
        let text = unsafe { pgrx::direct_function_call::<&CStr>(pg_sys::jsonb_out, &[Some(self.datum)]) };
        text.map_or("", |text| utf8(text.to_bytes()))
    }
}

/// JSON text to return as jsonb.
pub struct JsonbOut(pub Vec<u8>);

sql_type!(JsonbOut, "jsonb", External);
result!(JsonbOut, this => this.into_datum());

impl JsonbOut {
    /// Makes the jsonb value in the current memory context.
    pub fn into_datum(self) -> pg_sys::Datum {
        // JSON contains U+0000 only as an escape, so the text has no NUL.
        let text = CString::new(self.0).unwrap_or_default();
        // SAFETY: the input function of jsonb gets a C string, which lives longer than the call.
        unsafe {
            pgrx::direct_function_call_as_datum(pg_sys::jsonb_in, &[Some(text.as_ptr().into())])
                .unwrap_or(pg_sys::Datum::null())
        }
    }
}
