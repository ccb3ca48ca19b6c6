//! Change feeds: their names, and the changes in PostgreSQL's messages.
//!
//! A feed is a publication and a logical replication slot. The publication belongs to a database, and its name follows
//! from the feed's. A slot belongs to the whole server, so its name also has the database's OID.
//!
//! ```
//! use table_service_model::change_feed::FeedName;
//!
//! let feed = FeedName::parse("Orders")?;
//! assert_eq!(feed.publication(), "table_service_orders");
//! assert_eq!(feed.slot(16_384), "table_service_16384_orders");
//! # Ok::<(), table_service_model::Error>(())
//! ```

mod decoder;
mod notes;

pub use decoder::{Boundary, Change, Decoder, Gap, Kind};
pub use notes::{MARK_BYTES, NOTE_PREFIX, Notary, Note};

use crate::Error;

/// The prefix of the names of slots and publications.
pub const PREFIX: &str = "table_service_";

/// The number of characters that a feed's name may have. PostgreSQL's names have 63, and a slot's name also has the
/// prefix, an OID of up to ten digits, and a line between them.
pub const FEED_NAME_CHARACTERS: usize = 63 - PREFIX.len() - 11;

/// The name of a change feed. As with tables, two names that differ only in the case of letters are one. The
/// publication and the slot have it in lower case.
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

    /// Returns the name as it was given.
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

/// Returns the prefix of the names of slots that the feeds of a database have.
pub fn slot_prefix(database: u32) -> String {
    format!("{PREFIX}{database}_")
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
}
