//! The common part of access policies and service properties: how the documents are read and refused.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serializer};

use crate::text::abbreviate;
use crate::{Error, Ticks, limits};

/// Reads a document in its JSON form.
///
/// # Errors
/// `InvalidInput` for text that is not JSON (malformed), not this document, or too long.
pub(super) fn parse<T: DeserializeOwned>(json: &str) -> Result<T, Error> {
    if json.len() > limits::DOCUMENT_BYTES {
        return Err(Error::argument(format!(
            "The document has at most {} bytes",
            limits::DOCUMENT_BYTES
        )));
    }
    serde_json::from_str(json).map_err(|error| {
        // It may quote a name of any length.
        let reason = format!("The document cannot be read: {}", abbreviate(&error.to_string(), 256));
        if error.is_syntax() || error.is_eof() {
            Error::MalformedJson { reason }
        } else {
            Error::argument(reason)
        }
    })
}

pub(super) fn invalid(reason: impl Into<String>) -> Error {
    Error::DocumentInvalid { reason: reason.into() }
}

/// Reads a text that may be missing or empty; `otherwise` is the error message for a text that does not parse.
pub(super) fn optional<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    parse: fn(&str) -> Option<T>,
    otherwise: &str,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty());
    text.map(|text| parse(&text).ok_or_else(|| serde::de::Error::custom(otherwise)))
        .transpose()
}

/// A point in time as text with seven fraction digits, as the service gives it back.
pub(super) mod time {
    use super::*;

    /// Writes a time as the documents of the service have it.
    pub fn serialize<S: Serializer>(time: &Option<Ticks>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.serialize_str(&time.with_seven_digits()),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a time of a document.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ticks>, D::Error> {
        optional(
            deserializer,
            Ticks::parse,
            "a time is UTC text such as 2026-01-31T12:00:00Z",
        )
    }
}
