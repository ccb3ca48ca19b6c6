//! Entities of files that are none of the service: rows of CSV and objects of JSON with keys of other names.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use table_service_model::edm::EdmType;
use table_service_model::json::{ParsedEntity, parse_entity};
use table_service_model::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};

use crate::columns::edm_type;
use crate::payload::{append, append_value};
use crate::{TYPE, reason};

/// The ending of the name of a member that has the type of a property in the payload of the service.
const PAYLOAD_TYPE: &str = "@odata.type";

/// The parts of a key.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Key {
    /// The value of this column.
    Column(String),
    /// This text, for all entities.
    Text(String),
}

/// The treatment of a column that is no key. A column that is not mapped becomes the property of its name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    from: String,
    /// The property; `None` if the column is left out.
    to: Option<String>,
    /// The type of values that have none of their own.
    #[serde(rename = "type")]
    edm: Option<String>,
}

/// The keys and the properties that columns become.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Mapping {
    partition_key: Key,
    row_key: Key,
    #[serde(default)]
    columns: Vec<Column>,
}

/// A value of a file.
#[derive(Clone, Copy)]
pub enum Field<'f> {
    /// Of CSV.
    Text(&'f str),
    Json(&'f RawValue),
}

impl Field<'_> {
    /// The text of a key or of a value with a type; `None` for no value.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Field::Text(text) => Some(Cow::Borrowed(*text)),
            Field::Json(raw) => match raw.get().as_bytes().first() {
                Some(b'n') => None,
                Some(b'"') => serde_json::from_str(raw.get()).ok().map(Cow::Owned),
                _ => Some(Cow::Borrowed(raw.get())),
            },
        }
    }
}

/// Returns the name of the property, if a column has the type of one.
#[must_use]
pub fn typed(name: &str) -> Option<&str> {
    name.strip_suffix(PAYLOAD_TYPE).or_else(|| name.strip_suffix(TYPE))
}

impl Mapping {
    /// Returns the entity of a row or an object. Its fields have the names of their columns.
    ///
    /// # Errors
    /// Why it is none.
    pub fn entity(&self, fields: &[(&str, Field<'_>)]) -> Result<ParsedEntity, String> {
        let columns: HashMap<&str, &Column> = self.columns.iter().map(|one| (one.from.as_str(), one)).collect();
        let types: HashMap<&str, Cow<'_, str>> = fields
            .iter()
            .filter_map(|(name, field)| Some((typed(name)?, field.text()?)))
            .collect();
        let mut object = String::new();
        let mut add = |name: &str, value: &str| append(&mut object, name, &serde_json::Value::from(value).to_string());
        add(PARTITION_KEY, &self.partition_key.of(PARTITION_KEY, fields)?);
        add(ROW_KEY, &self.row_key.of(ROW_KEY, fields)?);
        for (name, field) in fields {
            if name.is_empty() && !matches!(field, Field::Text("")) {
                return Err("The header has no name for the column of a value".to_owned());
            }
            let is_key = [&self.partition_key, &self.row_key].into_iter().any(|key| key.is(name));
            if name.is_empty() || is_key || typed(name).is_some() || *name == TIMESTAMP || name.starts_with("odata.") {
                continue;
            }
            let column = columns.get(name);
            let Some(to) = column.map_or(Some(*name), |column| column.to.as_deref()) else {
                continue;
            };
            if [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&to) {
                return Err(format!("A property cannot have the name {to}"));
            }
            let own = types.get(name).map(AsRef::as_ref).filter(|edm| !edm.is_empty());
            let edm = own.or_else(|| column.and_then(|column| column.edm.as_deref()));
            let edm = edm
                .map(|name| edm_type(name).ok_or_else(|| format!("There is no type {name}")))
                .transpose()?;
            match (edm, field) {
                (_, Field::Text("")) if own.is_none() => {}
                // The type of a JSON value is enough.
                (None | Some(EdmType::String), Field::Json(raw)) => match raw.get().as_bytes().first() {
                    Some(b'n') => {}
                    Some(b'-' | b'0'..=b'9' | b't' | b'f') if edm.is_some() => {
                        append(&mut object, to, &serde_json::Value::from(raw.get()).to_string());
                    }
                    _ => append_value(&mut object, to, raw.get()),
                },
                (None | Some(EdmType::String), Field::Text(text)) => {
                    append(&mut object, to, &serde_json::Value::from(*text).to_string());
                }
                (Some(edm), field) => {
                    if let Some(text) = field.text() {
                        let edm = serde_json::Value::from(edm.name()).to_string();
                        append(&mut object, &format!("{to}{PAYLOAD_TYPE}"), &edm);
                        append(&mut object, to, &serde_json::Value::from(text.trim()).to_string());
                    }
                }
            }
        }
        object.push('}');
        parse_entity(&object).map_err(|error| reason(&error))
    }
}

impl Key {
    fn is(&self, column: &str) -> bool {
        matches!(self, Key::Column(name) if name == column)
    }

    fn of(&self, key: &str, fields: &[(&str, Field<'_>)]) -> Result<String, String> {
        match self {
            Key::Text(text) => Ok(text.clone()),
            Key::Column(name) => fields
                .iter()
                .find(|(column, _)| column == name)
                .and_then(|(_, field)| field.text())
                .map(Cow::into_owned)
                .ok_or_else(|| format!("The {key} has no value, because there is no {name}")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::payload::Members;

    fn mapping(json: &str) -> Mapping {
        serde_json::from_str(json).unwrap()
    }

    fn of_json(mapping: &Mapping, json: &str) -> Result<String, String> {
        let Members(members) = serde_json::from_str(json).unwrap();
        let fields: Vec<_> = members
            .iter()
            .map(|(name, raw)| (name.as_str(), Field::Json(raw)))
            .collect();
        mapping.entity(&fields).map(|entity| entity.to_json())
    }

    #[test]
    fn columns_become_keys_and_properties() {
        let mapping = mapping(
            r#"{"partitionKey":{"column":"country"},"rowKey":{"column":"id"},"columns":[
                {"from":"n","to":"Count","type":"Edm.Int64"},{"from":"secret","to":null,"type":null}]}"#,
        );
        assert_eq!(
            of_json(
                &mapping,
                r#"{"id":7,"country":"NO","n":12,"secret":"x","name":"Oslo","open":true,"tags":["a"],"at":{"x":1},"none":null}"#
            ),
            Ok(r#"{"PartitionKey":"NO","RowKey":"7","Count@odata.type":"Edm.Int64","Count":"12","at":"{\"x\":1}","name":"Oslo","open":true,"tags":"[\"a\"]"}"#.to_owned())
        );
        let row = [
            ("id", Field::Text("1")),
            ("country", Field::Text("")),
            ("n", Field::Text(" 5 ")),
            ("empty", Field::Text("")),
            ("d", Field::Text("1.5")),
            ("d@type", Field::Text("Double")),
        ];
        assert_eq!(
            mapping.entity(&row).map(|entity| entity.to_json()),
            Ok(r#"{"PartitionKey":"","RowKey":"1","Count@odata.type":"Edm.Int64","Count":"5","d":1.5}"#.to_owned())
        );
    }

    #[test]
    fn a_key_may_be_the_same_for_all() {
        let mapping = mapping(r#"{"partitionKey":{"text":"all"},"rowKey":{"column":"id"},"columns":[]}"#);
        assert_eq!(
            of_json(&mapping, r#"{"id":"a"}"#),
            Ok(r#"{"PartitionKey":"all","RowKey":"a"}"#.to_owned())
        );
        assert_eq!(
            of_json(&mapping, r#"{"other":"a"}"#),
            Err("The RowKey has no value, because there is no id".to_owned())
        );
    }

    #[test]
    fn what_does_not_fit_says_so() {
        let to = |to: &str, edm: &str| {
            mapping(&format!(
                r#"{{"partitionKey":{{"text":"p"}},"rowKey":{{"text":"r"}},"columns":[{{"from":"x","to":"{to}","type":"{edm}"}}]}}"#
            ))
        };
        for (mapping, says) in [
            (to("x", "Edm.Int32"), "x"),
            (to("x", "Decimal"), "There is no type Decimal"),
            (to("RowKey", "Edm.String"), "A property cannot have the name RowKey"),
        ] {
            let refused = of_json(&mapping, r#"{"x":"a"}"#).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
