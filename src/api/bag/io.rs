//! The text and binary forms of a bag. Text and binary input is validated here.

use std::ffi::CStr;

use pgrx::prelude::*;
use table_service_model::{Error, Properties, json};

use crate::postgres::{CStringOut, MessageArg, OrRaise, ShellIn, ShellOut};

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
pub fn properties_recv(internal: MessageArg<'_>) -> ShellOut {
    Properties::validate(internal.rest())
        .map(|bag| ShellOut(bag.to_buf()))
        .or_raise()
}

/// Writes the stored form.
#[pg_extern(immutable, strict, parallel_safe)]
pub fn properties_send(properties: ShellIn<'_>) -> Vec<u8> {
    properties.0.get().as_bytes().to_vec()
}
