//! Bodies with JSON (semantics 3.2).

use serde::Deserialize;
use table_service_model::{Error, ParsedEntity, PropertiesBuf, json};

/// Returns the text of a body.
///
/// # Errors
/// `InvalidInput` for bytes that are not UTF-8.
pub fn text(body: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(body)
        .map(|text| text.trim_start_matches('\u{FEFF}'))
        .map_err(|_| Error::MalformedJson {
            reason: "The body is not UTF-8".to_owned(),
        })
}

/// Returns the name of a table to be created.
///
/// # Errors
/// `InvalidInput` without JSON, `PropertiesNeedValue` if there is no name.
pub fn table_name(body: &[u8]) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct NewTable {
        #[serde(rename = "TableName")]
        name: Option<String>,
    }
    let table: NewTable = serde_json::from_str(text(body)?).map_err(|error| Error::MalformedJson {
        reason: error.to_string(),
    })?;
    table.name.ok_or(Error::KeyMissing { key: "TableName" })
}

/// Returns an entity with its keys.
pub fn new_entity(body: &[u8]) -> Result<ParsedEntity, Error> {
    json::parse_new_entity(text(body)?)
}

/// Returns the properties in the body of a write with the keys in its URL. Old clients send nothing for an empty merge.
pub fn properties(body: &[u8]) -> Result<PropertiesBuf, Error> {
    let text = text(body)?;
    if text.trim().is_empty() {
        return Ok(PropertiesBuf::empty());
    }
    json::parse_properties(text)
}
