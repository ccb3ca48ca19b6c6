//! Change feeds: their names, the positions in them, and the changes that PostgreSQL's messages stand for.
//!
//! A feed is a publication and a logical replication slot. The publication belongs to a database, and its name follows from the
//! feed's. The names of slots are those of the whole server, so the slot's name has the database's OID too.
//!
//! ```
//! use table_service_model::change_feed::{FeedName, Position};
//!
//! let feed = FeedName::parse("Orders")?;
//! assert_eq!(feed.publication(), "table_service_orders");
//! assert_eq!(feed.slot(16_384), "table_service_16384_orders");
//! assert_eq!(Position::parse("0/16B3748")?.to_string(), "0/16B3748");
//! # Ok::<(), table_service_model::Error>(())
//! ```

mod decoder;
mod notes;

use std::fmt;

pub use decoder::{Boundary, Change, Decoder, Gap, Kind};
pub use notes::{MARK_BYTES, NOTE_PREFIX, Notary, Note};

use crate::error::Error;
use crate::pgoutput::Lsn;

/// With what the names of slots and publications begin.
pub const PREFIX: &str = "table_service_";

/// How many characters a feed's name may have. PostgreSQL's names have 63, and a slot's name also has the prefix, an OID of up to
/// ten digits, and a line between them.
pub const FEED_NAME_CHARACTERS: usize = 63 - PREFIX.len() - 11;

/// The name of a change feed. As with tables, two names that differ only in the case of letters are one. Its publication and its slot
/// have it in lower case.
#[derive(Debug, Clone, Copy)]
pub struct FeedName<'n>(&'n str);

impl<'n> FeedName<'n> {
    /// Checks a feed's name.
    ///
    /// # Errors
    /// `InvalidInput` for another name than one of letters, digits and `_` (ASCII).
    pub fn parse(name: &'n str) -> Result<FeedName<'n>, Error> {
        let is_name = (1..=FEED_NAME_CHARACTERS).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name {
            return Ok(FeedName(name));
        }
        Err(Error::argument(format!(
            "The name of a change feed has 1 to {FEED_NAME_CHARACTERS} letters, digits and _ (ASCII)"
        )))
    }

    pub fn get(self) -> &'n str {
        self.0
    }

    /// Returns the name in lower case.
    pub fn fold(self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// Returns the name of the feed's publication. No other one is the feed's, such as one in another case.
    pub fn publication(self) -> String {
        format!("{PREFIX}{}", self.fold())
    }

    /// Returns the name of the feed's slot in the database with this OID.
    pub fn slot(self, database: u32) -> String {
        format!("{}{}", slot_prefix(database), self.fold())
    }
}

/// Returns with what the names of the slots of a database's feeds begin.
pub fn slot_prefix(database: u32) -> String {
    format!("{PREFIX}{database}_")
}

/// A place in the order of transactions: the end of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub Lsn);

impl Position {
    /// Reads PostgreSQL's form of a place in its log: two hexadecimal numbers of up to eight digits.
    ///
    /// # Errors
    /// `InvalidInput` for any other text.
    pub fn parse(text: &str) -> Result<Position, Error> {
        let part = |digits: &str| {
            let is_hexadecimal = digits.len() <= 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hexadecimal.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(high, low)| Some(Position(u64::from(part(high)?) << 32 | u64::from(part(low)?))))
            .ok_or_else(|| Error::argument("A position is one that query_changes has returned, such as 0/16B3748"))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_and_lines() {
        let longest = "x".repeat(FEED_NAME_CHARACTERS);
        for name in ["a", "Orders", "0", "_", "a_1", &longest] {
            let feed = FeedName::parse(name).unwrap();
            assert!(feed.slot(u32::MAX).len() <= 63);
            let is_of_slot = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(feed.slot(u32::MAX).bytes().all(is_of_slot), "{name}");
        }
        let too_long = "x".repeat(FEED_NAME_CHARACTERS + 1);
        for name in ["", " ", "a b", "a-b", "a\"b", "a'b", "ä", "a\0", "a;b", &too_long] {
            assert_eq!(FeedName::parse(name).unwrap_err().sqlstate(), "22023", "{name}");
        }
    }

    #[test]
    fn positions_are_read_as_they_are_written() {
        for lsn in [0, 1, 0xFFFF_FFFF, 0x1_0000_0000, 0x16_B374_D848, u64::MAX] {
            assert_eq!(Position::parse(&Position(lsn).to_string()).unwrap(), Position(lsn));
        }
        assert_eq!(Position(0x16_B374_D848).to_string(), "16/B374D848");
        assert_eq!(Position::parse("00000016/b374d848").unwrap(), Position(0x16_B374_D848));
        for text in [
            "",
            "/",
            "0",
            "0/",
            "/0",
            "0/0/0",
            "g/0",
            "0/+1",
            "0/-1",
            " 0/1",
            "0/1 ",
            "000000001/0",
            "0/123456789",
        ] {
            assert!(Position::parse(text).is_err(), "{text}");
        }
    }
}
