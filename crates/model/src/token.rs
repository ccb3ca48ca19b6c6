//! Continuation tokens: where the next page begins.
//!
//! A token is base64url text without padding of
//!
//! ```text
//! u8   version
//! u8   kind, and by kind:
//!      entity   u16 length of the PartitionKey, PartitionKey, RowKey
//!      table    name
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

use crate::error::Error;
use crate::key;
use crate::limits::KEYS_BYTES;

const VERSION: u8 = 1;
const ENTITY: u8 = b'e';
const TABLE: u8 = b't';
const CHECKSUM_BYTES: usize = 4;

/// Longest text of a token, in bytes: that for the longest keys.
pub const TOKEN_BYTES: usize = ((4 + KEYS_BYTES + CHECKSUM_BYTES) * 4).div_ceil(3);

/// Where the next page begins. If the entity or table is gone by then, the page begins with the one after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContinuationToken {
    /// An entity, for [`crate::filter::Plan::ranges_from`].
    Entity { partition_key: String, row_key: String },
    /// A table, by its lower-case name.
    Table { name: String },
}

impl ContinuationToken {
    /// Returns the opaque text. Keys beyond the limits of stored entities make a token that is refused.
    pub fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        match self {
            ContinuationToken::Entity { partition_key, row_key } => {
                bytes.push(ENTITY);
                let length = u16::try_from(partition_key.len()).unwrap_or(u16::MAX);
                bytes.extend_from_slice(&length.to_le_bytes());
                bytes.extend_from_slice(partition_key.as_bytes());
                bytes.extend_from_slice(row_key.as_bytes());
            }
            ContinuationToken::Table { name } => {
                bytes.push(TABLE);
                bytes.extend_from_slice(name.as_bytes());
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

    fn parse(text: &str) -> Option<ContinuationToken> {
        if text.len() > TOKEN_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let text = |bytes: &[u8]| Some(std::str::from_utf8(bytes).ok()?.to_owned());
        match content {
            [VERSION, ENTITY, a, b, keys @ ..] => {
                let (partition_key, row_key) = keys.split_at_checked(usize::from(u16::from_le_bytes([*a, *b])))?;
                let (partition_key, row_key) = (text(partition_key)?, text(row_key)?);
                key::within_limits(&partition_key, &row_key)
                    .then_some(ContinuationToken::Entity { partition_key, row_key })
            }
            [VERSION, TABLE, name @ ..] => Some(ContinuationToken::Table { name: text(name)? }),
            _ => None,
        }
    }
}

fn invalid() -> Error {
    Error::ArgumentInvalid {
        reason: "A continuation token is the text that the page before gave, unchanged, for a query of the same kind; \
                 to begin again, leave it out"
            .to_owned(),
    }
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
