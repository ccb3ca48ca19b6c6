//! The text and binary forms of a bag. Text and binary input is validated here.

use std::ffi::CStr;

use pgrx::prelude::*;
use table_service_model::{Error, Properties, json};

use crate::postgres::error::{OrRaise, raise};
use crate::postgres::types::{CStringOut, ShellIn, ShellOut};

/// Reads the JSON payload form.
#[pg_extern(immutable, strict, parallel_safe)]
pub fn properties_in(input: &CStr) -> ShellOut {
    // The encoding of the database is UTF8, so the conversion does not fail.
    let text = input
        .to_str()
        .map_err(|_| Error::MalformedJson {
            reason: "The text is not UTF-8".to_owned(),
        })
        .or_raise();
    json::parse_properties(text).map(ShellOut).or_raise()
}

/// Writes the JSON payload form. It reads back to the same bag under any settings.
#[pg_extern(immutable, strict, parallel_safe)]
pub fn properties_out(properties: ShellIn<'_>) -> CStringOut {
    CStringOut(json::properties_to_json(properties.0.get()))
}

/// Reads the stored form, which starts with its version.
#[pg_extern(immutable, strict, parallel_safe)]
pub fn properties_recv(mut internal: pgrx::datum::Internal) -> ShellOut {
    // SAFETY: PostgreSQL calls a receive function with a StringInfo. `pq_getmsgbytes` checks that the message has
    // `length` more bytes, and the message outlives this call.
    let bytes = unsafe {
        let Some(message) = internal.get_mut::<pg_sys::StringInfoData>() else {
            raise(Error::null_argument("the message"));
        };
        let length = message.len - message.cursor;
        let data = pg_sys::pq_getmsgbytes(message, length);
        std::slice::from_raw_parts(data.cast::<u8>(), usize::try_from(length).unwrap_or_default())
    };
    Properties::validate(bytes).map(|bag| ShellOut(bag.to_buf())).or_raise()
}

/// Writes the stored form.
#[pg_extern(immutable, strict, parallel_safe)]
pub fn properties_send(properties: ShellIn<'_>) -> Vec<u8> {
    properties.0.get().as_bytes().to_vec()
}
