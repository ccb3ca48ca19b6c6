//! A record: an entity on its way from a source to a target.

use std::path::PathBuf;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
pub use table_service_files::{Key, MOST_TABLES, Record, reason};

use crate::printable;

/// The secret on which the digests of one comparison depend.
pub struct DigestSecret([u8; 64]);

impl DigestSecret {
    /// A new secret.
    pub fn random() -> DigestSecret {
        DigestSecret(rand::random())
    }

    /// The digest of keys and properties under this secret; a bag has one representation. Timestamps count in microseconds, because a
    /// database keeps no more. Without the secret it looks like a random number.
    pub fn digest(&self, record: &Record, with_timestamp: bool) -> u128 {
        let mut hash = Hmac::<Sha256>::new(&self.0.into());
        let micros = record
            .timestamp
            .filter(|_| with_timestamp)
            .map(|time| time.to_postgres_micros().to_le_bytes());
        for part in [
            record.partition_key.as_bytes(),
            record.row_key.as_bytes(),
            record.properties.as_bytes(),
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
    /// The place in the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    pub reason: String,
    /// The entity, or the text that is none.
    pub entity: serde_json::Value,
}

impl Reject {
    fn new(table: &str, place: Option<String>, reason: impl Into<String>, entity: serde_json::Value) -> Reject {
        Reject {
            table: table.to_owned(),
            place,
            reason: printable::said(&reason.into()),
            entity,
        }
    }

    /// An entity, with the reason.
    pub fn of_record(table: &str, record: &Record, reason: impl Into<String>) -> Reject {
        let entity = serde_json::from_str(&record.json()).unwrap_or_default();
        Reject::new(table, None, reason, entity)
    }

    /// An entity by its key alone, with the reason.
    pub fn of_key(table: &str, partition_key: &str, row_key: &str, reason: impl Into<String>) -> Reject {
        let entity = serde_json::json!({ "PartitionKey": partition_key, "RowKey": row_key });
        Reject::new(table, None, reason, entity)
    }

    /// A text that is no entity, with where it was found.
    pub fn of_text(table: &str, place: String, text: &str, reason: impl Into<String>) -> Reject {
        // The text is for finding it again, so the beginning of a very long one is enough.
        let text: String = text.chars().take(4096).collect();
        Reject::new(table, Some(place), reason, text.into())
    }
}

/// Some entities of a range, and where the range goes on behind them.
#[derive(Debug)]
pub struct Chunk {
    pub records: Vec<Record>,
    pub rejects: Vec<Reject>,
    pub position: Position,
    /// Of memory, roughly.
    bytes: usize,
}

impl Chunk {
    /// A chunk without entities.
    pub fn new(position: Position) -> Chunk {
        Chunk {
            records: Vec::new(),
            rejects: Vec::new(),
            position,
            bytes: 0,
        }
    }

    /// Adds an entity.
    pub fn add(&mut self, record: Record) {
        self.bytes += record.weight();
        self.records.push(record);
    }

    /// Adds a reject of so many bytes.
    pub fn reject(&mut self, reject: Reject, bytes: usize) {
        self.bytes += bytes;
        self.rejects.push(reject);
    }

    /// Takes everything, if it is as large as a chunk may become. The range goes on at this position.
    pub fn take_full(&mut self, position: impl FnOnce() -> Position) -> Option<Chunk> {
        let is_full = self.records.len() + self.rejects.len() >= CHUNK_RECORDS || self.bytes >= CHUNK_BYTES;
        is_full.then(|| {
            let full = std::mem::replace(self, Chunk::new(Position::End));
            Chunk {
                position: position(),
                ..full
            }
        })
    }
}

/// How large a chunk may become.
pub const CHUNK_RECORDS: usize = 1000;
/// The same in bytes of memory.
pub const CHUNK_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_tell_types_keys_and_timestamps_apart() {
        let secret = DigestSecret::random();
        let digest = |json: &str, times| secret.digest(&Record::from_json(json).unwrap(), times);
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
        let other = DigestSecret::random().digest(&Record::from_json(base).unwrap(), false);
        assert_ne!(digest(base, false), other, "the next comparison has other digests");
    }
}
