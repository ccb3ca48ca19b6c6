//! Continuation tokens: where the next page begins.
//!
//! A token is base64url text without padding of
//!
//! ```text
//! u8   version
//! u8   kind, and by kind:
//!      entity   u16 length of the PartitionKey, PartitionKey, RowKey
//!      table    name
//!      step     16 bytes that stand for the operation, then as for an entity
//! u32  CRC-32 of all before it
//! ```
//!
//! with little-endian integers and UTF-8 text. The checksum finds a token that was cut short or altered on its way; it
//! is not a signature. A token grants nothing: it only says where reading begins.
//!
//! ```
//! use table_service_model::token::ContinuationToken;
//!
//! let next = ContinuationToken::Entity {
//!     partition_key: "Sales".to_owned(),
//!     row_key: "00011".to_owned(),
//! };
//! let (partition_key, row_key) = ContinuationToken::parse_entity(&next.encode())?;
//! assert_eq!((partition_key.as_str(), row_key.as_str()), ("Sales", "00011"));
//! # Ok::<(), table_service_model::Error>(())
//! ```

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::limits::KEYS_BYTES;
use crate::{Error, key};

const VERSION: u8 = 1;
const ENTITY: u8 = b'e';
const TABLE: u8 = b't';
const STEP: u8 = b's';
const CHECKSUM_BYTES: usize = 4;

/// Longest text of a query's token, in bytes: that for the longest keys.
pub const TOKEN_BYTES: usize = text_bytes(4 + KEYS_BYTES + CHECKSUM_BYTES);
/// Longest text of a step's token, in bytes.
pub const STEP_TOKEN_BYTES: usize = text_bytes(4 + size_of::<Operation>() + KEYS_BYTES + CHECKSUM_BYTES);

const fn text_bytes(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}

/// The identity of an operation that is done in steps: two operations that differ have different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation([u8; 16]);

impl Operation {
    /// Returns the operation that these parts define, in their order. A part may be missing.
    pub fn new<'p>(parts: impl IntoIterator<Item = Option<&'p [u8]>>) -> Operation {
        let mut hash = Sha256::new();
        for part in parts {
            match part {
                Some(part) => {
                    hash.update([1]);
                    hash.update((part.len() as u64).to_le_bytes());
                    hash.update(part);
                }
                None => hash.update([0]),
            }
        }
        let hash: [u8; 32] = hash.finalize().into();
        let [bytes, _] = *hash.as_chunks().0 else {
            return Operation([0; 16]);
        };
        Operation(bytes)
    }
}

/// Where the next page begins. If the entity or table is gone by then, the page begins with the one after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContinuationToken {
    /// An entity, for [`crate::filter::Plan::ranges_from`].
    Entity { partition_key: String, row_key: String },
    /// A table, by its lower-case name.
    Table { name: String },
    /// An entity, for the next step of an operation.
    Step {
        operation: Operation,
        partition_key: String,
        row_key: String,
    },
}

impl ContinuationToken {
    /// Returns the opaque text. Keys beyond the limits of stored entities make a token that is refused.
    pub fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        match self {
            ContinuationToken::Entity { partition_key, row_key } => {
                bytes.push(ENTITY);
                append_keys(&mut bytes, partition_key, row_key);
            }
            ContinuationToken::Table { name } => {
                bytes.push(TABLE);
                bytes.extend_from_slice(name.as_bytes());
            }
            ContinuationToken::Step {
                operation,
                partition_key,
                row_key,
            } => {
                bytes.push(STEP);
                bytes.extend_from_slice(&operation.0);
                append_keys(&mut bytes, partition_key, row_key);
            }
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads the token of a query for entities.
    ///
    /// # Errors
    /// `InvalidInput` for any text that is not the token of a query for entities.
    pub fn parse_entity(text: &str) -> Result<(String, String), Error> {
        match ContinuationToken::parse(text) {
            Some(ContinuationToken::Entity { partition_key, row_key }) => Ok((partition_key, row_key)),
            _ => Err(invalid()),
        }
    }

    /// Reads the token of a query for tables.
    ///
    /// # Errors
    /// `InvalidInput` for any text that is not the token of a query for tables.
    pub fn parse_table(text: &str) -> Result<String, Error> {
        match ContinuationToken::parse(text) {
            Some(ContinuationToken::Table { name }) => Ok(name),
            _ => Err(invalid()),
        }
    }

    /// Reads the token of a step of this operation: the keys at which it begins.
    ///
    /// # Errors
    /// `InvalidInput` for any text that is not the token of a step of the same operation.
    pub fn parse_step(text: &str, operation: Operation) -> Result<(String, String), Error> {
        match ContinuationToken::parse(text) {
            Some(ContinuationToken::Step {
                operation: of,
                partition_key,
                row_key,
            }) if of == operation => Ok((partition_key, row_key)),
            Some(ContinuationToken::Step { .. }) => Err(Error::argument(
                "The continuation token is that of another operation. The next step has the same function, table, filter, \
                         parameters, properties, remove and table_service.filter_dialect",
            )),
            _ => Err(invalid()),
        }
    }

    fn parse(text: &str) -> Option<ContinuationToken> {
        if text.len() > STEP_TOKEN_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        match content {
            [VERSION, ENTITY, keys @ ..] => {
                let (partition_key, row_key) = parse_keys(keys)?;
                Some(ContinuationToken::Entity { partition_key, row_key })
            }
            [VERSION, STEP, rest @ ..] => {
                let (&operation, keys) = rest.split_first_chunk()?;
                let (partition_key, row_key) = parse_keys(keys)?;
                Some(ContinuationToken::Step {
                    operation: Operation(operation),
                    partition_key,
                    row_key,
                })
            }
            [VERSION, TABLE, name @ ..] => Some(ContinuationToken::Table { name: utf8(name)? }),
            _ => None,
        }
    }
}

fn append_keys(bytes: &mut Vec<u8>, partition_key: &str, row_key: &str) {
    let length = u16::try_from(partition_key.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(partition_key.as_bytes());
    bytes.extend_from_slice(row_key.as_bytes());
}

fn parse_keys(bytes: &[u8]) -> Option<(String, String)> {
    let (&length, keys) = bytes.split_first_chunk()?;
    let (partition_key, row_key) = keys.split_at_checked(usize::from(u16::from_le_bytes(length)))?;
    let (partition_key, row_key) = (utf8(partition_key)?, utf8(row_key)?);
    key::within_limits(&partition_key, &row_key).then_some((partition_key, row_key))
}

fn utf8(bytes: &[u8]) -> Option<String> {
    Some(std::str::from_utf8(bytes).ok()?.to_owned())
}

fn invalid() -> Error {
    Error::argument(
        "A continuation token is the text that the page before gave, unchanged, for a query of the same kind; \
                 to begin again, leave it out",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entity(partition_key: &str, row_key: &str) -> String {
        ContinuationToken::Entity {
            partition_key: partition_key.to_owned(),
            row_key: row_key.to_owned(),
        }
        .encode()
    }

    fn table(name: &str) -> String {
        ContinuationToken::Table { name: name.to_owned() }.encode()
    }

    #[test]
    fn a_token_is_read_back() {
        for (pk, rk) in [
            ("", ""),
            ("a", ""),
            ("", "a"),
            ("O'Brien", "日本 😀"),
            ("ab", "c"),
            ("a", "bc"),
        ] {
            assert_eq!(
                ContinuationToken::parse_entity(&entity(pk, rk)),
                Ok((pk.to_owned(), rk.to_owned()))
            );
        }
        assert_eq!(
            ContinuationToken::parse_table(&table("employees")),
            Ok("employees".to_owned())
        );
    }

    #[test]
    fn the_text_stays_readable_by_later_versions() {
        assert_eq!(entity("Sales", "000123"), "AWUFAFNhbGVzMDAwMTIzoLWleQ");
        assert_eq!(table("employees"), "AXRlbXBsb3llZXNgnCAJ");
    }

    #[test]
    fn the_longest_keys_fit() {
        let text = entity(&"日".repeat(893), "a");
        assert!(text.len() <= TOKEN_BYTES, "{}", text.len());
        assert!(ContinuationToken::parse_entity(&text).is_ok());
        let long = entity(&"a".repeat(1024), &"é".repeat(828));
        assert_eq!(long.len(), TOKEN_BYTES);
        assert!(ContinuationToken::parse_entity(&long).is_ok());
        assert!(ContinuationToken::parse_entity(&entity(&"a".repeat(1025), "")).is_err());
        assert!(ContinuationToken::parse_entity(&entity(&"a".repeat(100_000), "")).is_err());
    }

    #[test]
    fn a_malformed_token_is_invalid_input_with_a_hint() {
        let valid = entity("Sales", "000123");
        for text in [
            "",
            "x",
            "1!4!MTE-",
            "AAAA",
            "*",
            &format!("{valid}="),
            &format!(" {valid}"),
            &valid.to_lowercase(),
            &"A".repeat(10_000_000),
            &table("employees"),
        ] {
            let error = ContinuationToken::parse_entity(text).unwrap_err();
            assert_eq!(error.report(), "InvalidInput: One of the request inputs is not valid.");
            assert_eq!(error.sqlstate(), "22023");
            assert!(error.hint().is_some());
        }
        assert!(ContinuationToken::parse_table(&valid).is_err());
    }

    #[test]
    fn every_cut_and_every_altered_character_is_seen() {
        let valid = entity("Sales", "empid_000123");
        for end in 0..valid.len() {
            assert!(ContinuationToken::parse_entity(&valid[..end]).is_err(), "{end}");
        }
        for index in 0..valid.len() {
            for c in "AZaz09-_".chars() {
                let mut altered = valid.clone();
                altered.replace_range(index..=index, &c.to_string());
                assert_eq!(
                    ContinuationToken::parse_entity(&altered).is_err(),
                    altered != valid,
                    "{altered}"
                );
            }
        }
    }

    fn step(operation: Operation) -> String {
        ContinuationToken::Step {
            operation,
            partition_key: "a".repeat(1024),
            row_key: "é".repeat(828),
        }
        .encode()
    }

    #[test]
    fn a_step_goes_on_with_the_operation_that_it_is_of() {
        let parts = |parts: [Option<&'static str>; 3]| Operation::new(parts.map(|part| part.map(str::as_bytes)));
        let operation = parts([Some("delete"), Some("ab"), None]);
        let text = step(operation);
        assert_eq!(text.len(), STEP_TOKEN_BYTES);
        let (partition_key, row_key) = ContinuationToken::parse_step(&text, operation).unwrap();
        assert_eq!((partition_key.len(), row_key.len()), (1024, 1656));
        for other in [
            parts([Some("delete"), Some("a"), Some("b")]),
            parts([Some("delete"), Some("ab"), Some("")]),
            parts([Some("deletea"), Some("b"), None]),
            parts([None, Some("delete"), Some("ab")]),
        ] {
            let error = ContinuationToken::parse_step(&text, other).unwrap_err();
            assert!(error.hint().unwrap().contains("another operation"), "{error:?}");
        }
        assert!(ContinuationToken::parse_entity(&text).is_err());
        assert!(ContinuationToken::parse_step(&entity("a", "b"), operation).is_err());
    }

    proptest! {
        #[test]
        fn any_keys_are_read_back(pk in ".{0,40}", rk in ".{0,40}") {
            prop_assert_eq!(ContinuationToken::parse_entity(&entity(&pk, &rk)), Ok((pk, rk)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z0-9_-]{0,60}|.{0,20}") {
            let _ = ContinuationToken::parse_entity(&text);
            let _ = ContinuationToken::parse_table(&text);
        }
    }
}
