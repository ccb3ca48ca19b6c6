//! The JSON of Azure Storage Explorer: types are in `Name@type`, as in its CSV, and values may be strings.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use table_service_model::json::{ParsedEntity, parse_entity};
use table_service_model::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};

use crate::{MOST_COLUMNS, TYPE, reason};

/// The members of an object in their order. The reader of the entity refuses a name that comes twice.
pub struct Members<'j>(pub Vec<(String, &'j RawValue)>);

impl<'de: 'j, 'j> Deserialize<'de> for Members<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'j>, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    if members.len() == MOST_COLUMNS {
                        return Err(A::Error::custom(format_args!(
                            "the object has more than {MOST_COLUMNS} members"
                        )));
                    }
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Of)
    }
}

/// Appends a member to an object.
pub fn append(object: &mut String, name: &str, raw: &str) {
    object.push(if object.is_empty() { '{' } else { ',' });
    object.push_str(&serde_json::Value::from(name).to_string());
    object.push(':');
    object.push_str(raw);
}

/// Appends a property. A list or an object, which the service lacks, becomes the text of its JSON.
pub fn append_value(object: &mut String, name: &str, raw: &str) {
    match raw.as_bytes().first() {
        Some(b'[' | b'{') => append(object, name, &serde_json::Value::from(raw).to_string()),
        _ => append(object, name, raw),
    }
}

/// The entity in the payload form of the service; `None` if it is in that form already, or is none.
fn payload(json: &str) -> Option<String> {
    let may_be_nested = json.get(1..).is_some_and(|behind| behind.contains(['[', '{']));
    if !may_be_nested && !json.contains("@type\"") {
        return None;
    }
    let Members(members) = serde_json::from_str(json).ok()?;
    let mut object = String::with_capacity(json.len());
    for (name, raw) in members {
        let Some(property) = name.strip_suffix(TYPE) else {
            match [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name.as_str()) {
                true => append(&mut object, &name, raw.get()),
                false => append_value(&mut object, &name, raw.get()),
            }
            continue;
        };
        let edm: String = serde_json::from_str(raw.get()).unwrap_or_default();
        match edm.trim_start_matches("Edm.") {
            "" | "Null" => {}
            edm => append(
                &mut object,
                &format!("{property}@odata.type"),
                &serde_json::Value::from(format!("Edm.{edm}")).to_string(),
            ),
        }
    }
    object.push('}');
    Some(object)
}

/// Reads an entity in either form.
pub fn entity(text: &[u8]) -> Result<ParsedEntity, String> {
    let text = std::str::from_utf8(text).map_err(|_| "The text is not UTF-8".to_owned())?;
    let payload = payload(text);
    parse_entity(payload.as_deref().unwrap_or(text)).map_err(|error| reason(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_beside_values() {
        let json = r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2020-01-01T00:00:00Z","Timestamp@type":"DateTime","A":"5","A@type":"Int32","B":"true","B@type":"Edm.Boolean","C":"1.5","C@type":"Double","D":"x","D@type":"String","E":"9","E@type":"Int64","F":7}"#;
        assert_eq!(
            entity(json.as_bytes()).unwrap().to_json(),
            r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2020-01-01T00:00:00Z","A":5,"B":true,"C":1.5,"D":"x","E@odata.type":"Edm.Int64","E":"9","F":7}"#
        );
        assert!(payload(r#"{"A@odata.type":"Edm.Int64","A":"1"}"#).is_none());
        let twice = r#"{"PartitionKey":"p","RowKey":"r","A":"1","A":"2","A@type":"Int32"}"#;
        assert!(entity(twice.as_bytes()).is_err());
    }

    #[test]
    fn nested_values_become_texts() {
        let nested = r#"{"PartitionKey":"p","RowKey":"r","A":{"x":[1]},"B":["[{"],"C":"[{"}"#;
        assert_eq!(
            entity(nested.as_bytes()).unwrap().to_json(),
            r#"{"PartitionKey":"p","RowKey":"r","A":"{\"x\":[1]}","B":"[\"[{\"]","C":"[{"}"#
        );
        assert!(entity(br#"{"PartitionKey":["p"],"RowKey":"r"}"#).is_err());
    }
}
