//! What passes from a source to a target.

use std::path::PathBuf;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use table_service_model::entity::Entity;
use table_service_model::json::{Metadata, ParsedEntity, append_members, parse_entity};
use table_service_model::projection::Projection;
use table_service_model::{Error, PropertiesBuf, Ticks};

pub use table_service_files::reason;

use crate::printable;

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

    /// The digest of keys and properties under a secret; a bag has one representation. Timestamps count in microseconds, because a
    /// database keeps no more. Without the secret it looks like a random number.
    pub fn digest(&self, secret: &DigestSecret, with_timestamp: bool) -> u128 {
        let mut hash = Hmac::<Sha256>::new(&secret.0.into());
        let micros = self
            .timestamp
            .filter(|_| with_timestamp)
            .map(|time| time.to_postgres_micros().to_le_bytes());
        for part in [
            self.partition_key.as_bytes(),
            self.row_key.as_bytes(),
            self.properties.as_bytes(),
            micros.as_ref().map_or(&[], |micros| micros),
        ] {
            hash.update(&part.len().to_le_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into_bytes().into();
        digest
            .first_chunk::<16>()
            .map_or(0, |bytes| u128::from_le_bytes(*bytes))
    }
}

/// What the digests of one comparison depend on.
pub struct DigestSecret([u8; 64]);

impl DigestSecret {
    pub fn random() -> DigestSecret {
        DigestSecret(rand::random())
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

/// A part of a table that is read on its own, in an order that the source keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Range {
    /// In a database: the keys after one and up to another.
    Keys { after: Option<Key>, until: Option<Key> },
    /// Over REST: the entities that pass a filter on the keys.
    Filter(Option<String>),
    /// One of the files of a table.
    File(PathBuf),
    /// Standard input.
    Stream,
}

impl Range {
    /// A whole table of a database.
    pub const WHOLE: Range = Range::Keys {
        after: None,
        until: None,
    };
}

/// How far a range is read: where to go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// Behind this key.
    After(Key),
    /// A continuation token of the service, as the values of its headers.
    Token {
        next_partition_key: String,
        next_row_key: Option<String>,
    },
    /// A token of `query_page`.
    Page(String),
    /// A token of `delete_entities_step`.
    Step(String),
    /// After so many records of a file, bad ones included.
    Records(u64),
    End,
}

/// Something that cannot be copied.
#[derive(Debug, Clone, Serialize)]
pub struct Reject {
    pub table: String,
    /// Where it stands in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    pub reason: String,
    /// The entity, or the text that is none.
    pub entity: serde_json::Value,
}

impl Reject {
    pub fn of_record(table: &str, record: &Record, reason: impl Into<String>) -> Reject {
        Reject {
            table: table.to_owned(),
            place: None,
            reason: printable::said(&reason.into()),
            entity: serde_json::from_str(&record.json()).unwrap_or_default(),
        }
    }

    pub fn of_key(table: &str, partition_key: &str, row_key: &str, reason: impl Into<String>) -> Reject {
        Reject {
            table: table.to_owned(),
            place: None,
            reason: printable::said(&reason.into()),
            entity: serde_json::json!({ "PartitionKey": partition_key, "RowKey": row_key }),
        }
    }

    pub fn of_text(table: &str, place: String, text: &str, reason: impl Into<String>) -> Reject {
        // The text is for finding the place again, so the beginning of a very long one is enough.
        let text: String = text.chars().take(4096).collect();
        Reject {
            table: table.to_owned(),
            place: Some(place),
            reason: printable::said(&reason.into()),
            entity: serde_json::Value::String(text),
        }
    }
}

/// Some entities of a range, and where the range goes on behind them.
#[derive(Debug)]
pub struct Chunk {
    pub records: Vec<Record>,
    pub rejects: Vec<Reject>,
    pub position: Position,
}

impl Chunk {
    pub fn new(position: Position) -> Chunk {
        Chunk {
            records: Vec::new(),
            rejects: Vec::new(),
            position,
        }
    }
}

/// How large a chunk may become.
pub const CHUNK_RECORDS: usize = 1000;
pub const CHUNK_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_back_exactly() {
        let json = r#"{"PartitionKey":"p","RowKey":"r 😀'","Timestamp":"2020-01-01T00:00:00.1234567Z","B@odata.type":"Edm.Binary","B":"AAE=","D":1.0,"I":1,"L@odata.type":"Edm.Int64","L":"-9223372036854775808","N@odata.type":"Edm.Double","N":"NaN","Z":-0.0}"#;
        let record = Record::from_json(json).unwrap();
        assert_eq!(record.json(), json);
    }

    #[test]
    fn digests_tell_types_keys_and_timestamps_apart() {
        let secret = DigestSecret::random();
        let digest = |json: &str, times| Record::from_json(json).unwrap().digest(&secret, times);
        let base = r#"{"PartitionKey":"a","RowKey":"b","X":0.0}"#;
        for other in [
            r#"{"PartitionKey":"ab","RowKey":"","X":0.0}"#,
            r#"{"PartitionKey":"a","RowKey":"b","X":-0.0}"#,
            r#"{"PartitionKey":"a","RowKey":"b","X":0}"#,
            r#"{"PartitionKey":"a","RowKey":"b"}"#,
        ] {
            assert_ne!(digest(base, false), digest(other, false), "{other}");
        }
        let timed = r#"{"PartitionKey":"a","RowKey":"b","Timestamp":"2020-01-01T00:00:00Z","X":0.0}"#;
        assert_eq!(digest(base, false), digest(timed, false));
        assert_ne!(digest(base, true), digest(timed, true));
        let other = Record::from_json(base).unwrap().digest(&DigestSecret::random(), false);
        assert_ne!(digest(base, false), other, "the next comparison has other digests");
    }
}
