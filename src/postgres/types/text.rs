//! `text`, `text[]` and `cstring`.

use std::ffi::CString;

use pgrx::prelude::*;

use super::array::Elements;
use super::{argument, result, sql_type, within_limit};
use crate::postgres::varlena;

/// A text, read in place. Its bytes were checked to be UTF-8.
#[derive(Clone, Copy)]
pub struct TextArg<'a> {
    datum: pg_sys::Datum,
    text: &'a str,
}

sql_type!(TextArg<'_>, "text", External);
argument!(TextArg, datum => {
    // SAFETY: a text is a varlena.
    let (datum, bytes) = unsafe { varlena::plain(within_limit(datum)) };
    let text = utf8(bytes);
    TextArg { datum, text }
});

impl<'a> TextArg<'a> {
    /// Makes an argument of a datum and its text.
    ///
    /// # Safety
    /// `datum` must be a text with these bytes and live as long as `'a`.
    pub unsafe fn from_parts(datum: pg_sys::Datum, text: &'a str) -> TextArg<'a> {
        TextArg { datum, text }
    }

    /// Returns PostgreSQL's own value, which has the bytes in place.
    pub fn datum(self) -> pg_sys::Datum {
        self.datum
    }

    /// Returns the text.
    pub fn get(self) -> &'a str {
        self.text
    }
}

/// Returns the bytes of a text as a `str`.
///
/// The encoding of the database is UTF8, but not of every text in it. Texts from the catalogs that all databases share
/// may be in the encoding of another database.
///
/// Raises PostgreSQL's own error (22021) for bytes that are not UTF-8.
pub fn utf8(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let invalid = bytes.get(error.valid_up_to()..).unwrap_or_default();
            let length = i32::try_from(invalid.len()).unwrap_or(i32::MAX);
            // SAFETY: the pointer and the length are those of a slice. The function raises an error and does not
            // return.
            unsafe { pg_sys::report_invalid_encoding(pg_sys::pg_enc::PG_UTF8 as i32, invalid.as_ptr().cast(), length) };
            // Not every major version declares that the function does not return.
            #[allow(unreachable_code)]
            {
                unreachable!("an ERROR does not return")
            }
        }
    }
}

/// Returns the bytes of a `name`. They may be in another encoding, like those of a text.
pub fn name_bytes(name: &pg_sys::NameData) -> &[u8] {
    // SAFETY: the pointer and the length are those of an array of C characters. A byte has their size and alignment.
    let bytes: &[u8] = unsafe { std::slice::from_raw_parts(name.data.as_ptr().cast(), name.data.len()) };
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Returns a `name`. It has at most 63 bytes of the text.
pub fn name_of(text: &str) -> pg_sys::NameData {
    let (mut name, text) = (pg_sys::NameData::default(), CString::new(text).unwrap_or_default());
    // SAFETY: the text is a C string, and the function writes no further than the name.
    unsafe { pg_sys::namestrcpy(&mut name, text.as_ptr()) };
    name
}

/// A `text[]`, read in place.
pub struct TextArrayArg<'a> {
    datums: &'a [pg_sys::Datum],
    nulls: &'a [bool],
}

sql_type!(TextArrayArg<'_>, "text[]", External);
argument!(TextArrayArg, datum => {
    // SAFETY: it is an array of texts, which have int alignment.
    let Elements { datums, nulls, .. } = unsafe { Elements::of(datum, pg_sys::TYPALIGN_INT) };
    TextArrayArg { datums, nulls }
});

impl<'a> TextArrayArg<'a> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.datums.len()
    }

    /// Returns the elements in order, with `None` for NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<TextArg<'a>>> + use<'a> {
        let (datums, nulls) = (self.datums, self.nulls);
        datums.iter().zip(nulls).map(|(&element, &is_null)| {
            // SAFETY: the elements are texts, which live as long as the array.
            unsafe { TextArg::from_datum(element, is_null) }
        })
    }
}

/// A text to return. Its bytes must be UTF-8.
pub struct TextOut(pub Vec<u8>);

sql_type!(TextOut, "text", External);
result!(TextOut, this => varlena::palloc(&this.0));

/// The text of a value, for an output function to return. It must not contain U+0000.
pub struct CStringOut(pub Vec<u8>);

sql_type!(CStringOut, "cstring", External);
result!(CStringOut, this => this.into_datum());

impl CStringOut {
    fn into_datum(self) -> pg_sys::Datum {
        // SAFETY: the allocation has room for the text and the NUL after it.
        unsafe {
            let text = pg_sys::palloc(self.0.len() + 1).cast::<u8>();
            std::ptr::copy_nonoverlapping(self.0.as_ptr(), text, self.0.len());
            *text.add(self.0.len()) = 0;
            pg_sys::Datum::from(text)
        }
    }
}
