//! Entities in memory.

use serde::{Deserialize, Serialize};
use table_service_model::entity::Entity;
use table_service_model::json::{Metadata, ParsedEntity, append_members, parse_entity};
use table_service_model::projection::Projection;
use table_service_model::{Error, PropertiesBuf, Ticks};

/// How many tables a place may have, so that the list of them fits into memory.
pub const MOST_TABLES: usize = 100_000;

/// One entity.
#[derive(Debug, Clone)]
pub struct Record {
    pub partition_key: String,
    pub row_key: String,
    pub timestamp: Option<Ticks>,
    pub properties: PropertiesBuf,
}

impl Record {
    /// Reads an entity in the payload form of the service.
    pub fn from_json(json: &str) -> Result<Record, Error> {
        parse_entity(json).map(Record::from)
    }

    /// The bytes that it takes in memory, roughly.
    pub fn weight(&self) -> usize {
        self.partition_key.len() + self.row_key.len() + self.properties.as_bytes().len() + 128
    }

    /// Its PartitionKey and its RowKey, which are the order of entities.
    pub fn keys(&self) -> (&str, &str) {
        (&self.partition_key, &self.row_key)
    }

    pub fn key(&self) -> Key {
        Key {
            partition_key: self.partition_key.clone(),
            row_key: self.row_key.clone(),
        }
    }

    pub fn as_entity(&self) -> Entity<'_> {
        Entity {
            partition_key: Some(&self.partition_key),
            row_key: Some(&self.row_key),
            timestamp: self.timestamp,
            properties: self.properties.as_properties(),
        }
    }

    /// Appends the entity as a JSON object with its types, from which it can be read back.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        append_members(out, &self.as_entity(), &Projection::All, Metadata::Minimal);
        out.push(b'}');
    }

    pub fn json(&self) -> String {
        let mut out = Vec::new();
        self.write_json(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// A number that is spread evenly over all keys and does not depend on any order of keys.
    pub fn key_hash(&self) -> u64 {
        key_hash(&self.partition_key, Some(&self.row_key))
    }

    pub fn partition_hash(&self) -> u64 {
        key_hash(&self.partition_key, None)
    }
}

impl From<ParsedEntity> for Record {
    fn from(parsed: ParsedEntity) -> Record {
        Record {
            partition_key: parsed.partition_key,
            row_key: parsed.row_key,
            timestamp: parsed.timestamp,
            properties: parsed.properties,
        }
    }
}

/// FNV-1a with a final mix: it is for spreading, not for comparing.
fn key_hash(partition_key: &str, row_key: Option<&str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    partition_key.bytes().for_each(&mut add);
    if let Some(row_key) = row_key {
        add(0xff);
        row_key.bytes().for_each(&mut add);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// The key of an entity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    pub partition_key: String,
    pub row_key: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_back_exactly() {
        let json = r#"{"PartitionKey":"p","RowKey":"r 😀'","Timestamp":"2020-01-01T00:00:00.1234567Z","B@odata.type":"Edm.Binary","B":"AAE=","D":1.0,"I":1,"L@odata.type":"Edm.Int64","L":"-9223372036854775808","N@odata.type":"Edm.Double","N":"NaN","Z":-0.0}"#;
        let record = Record::from_json(json).unwrap();
        assert_eq!(record.json(), json);
    }
}
