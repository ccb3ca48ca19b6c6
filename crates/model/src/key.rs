//! PartitionKey and RowKey (semantics 1.3).

use crate::Error;
use crate::limits::{KEY_UTF16_UNITS, KEYS_BYTES};
use crate::text::utf16_len;

/// The spelling of the two keys in payloads and messages.
pub const PARTITION_KEY: &str = "PartitionKey";
/// The name of the RowKey in payloads and messages.
pub const ROW_KEY: &str = "RowKey";
/// The third system property.
pub const TIMESTAMP: &str = "Timestamp";

/// Returns whether a payload member of this name is a system property and not one of the bag.
pub fn is_system_property(name: &str) -> bool {
    matches!(name, PARTITION_KEY | ROW_KEY | TIMESTAMP)
}

/// Refuses a key with a character that no key may have: `/ \ # ?` and control characters.
///
/// # Errors
/// `OutOfRangeInput`, which names `key` and quotes the value; its hint names the character.
///
/// ```
/// use table_service_model::key::{ROW_KEY, check_characters};
///
/// assert!(check_characters(ROW_KEY, "O'Brien 50%").is_ok());
/// let error = check_characters(ROW_KEY, "a/b").unwrap_err();
/// assert_eq!(error.report(), "OutOfRangeInput: The 'RowKey' parameter of value 'a/b' is out of range.");
/// ```
pub fn check_characters(key: &'static str, value: &str) -> Result<(), Error> {
    let forbidden = |c: char| matches!(c, '/' | '\\' | '#' | '?' | '\0'..='\x1F' | '\x7F'..='\u{9F}');
    match value.chars().find(|&c| forbidden(c)) {
        Some(character) => Err(Error::key_character(key, value, character)),
        None => Ok(()),
    }
}

/// Checks both keys of an entity as [`check_characters`] does.
pub fn check_characters_of_both(partition_key: &str, row_key: &str) -> Result<(), Error> {
    check_characters(PARTITION_KEY, partition_key)?;
    check_characters(ROW_KEY, row_key)
}

/// Returns whether both keys are within their limits. If not, an insert raises [`Error::KeyTooLong`], and every other
/// operation finds no such entity.
///
/// A key has at most 1024 UTF-16 units, and both have at most 2680 bytes of UTF-8 together (semantics 1.3).
///
/// ```
/// use table_service_model::key::within_limits;
///
/// assert!(within_limits("", &"k".repeat(1024)));
/// assert!(!within_limits("", &"k".repeat(1025)));
/// ```
pub fn within_limits(partition_key: &str, row_key: &str) -> bool {
    let fits = |key: &str| key.len() <= KEY_UTF16_UNITS || utf16_len(key.as_bytes()) <= KEY_UTF16_UNITS;
    partition_key.len() + row_key.len() <= KEYS_BYTES && fits(partition_key) && fits(row_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_characters_are_out_of_range() {
        for c in "/\\#?\t\n\r\0\u{1}\u{1f}\u{7f}\u{80}\u{9f}".chars() {
            let value = format!("a{c}b");
            assert_eq!(
                check_characters(ROW_KEY, &value).unwrap_err().report(),
                format!("OutOfRangeInput: The 'RowKey' parameter of value '{value}' is out of range.")
            );
        }
    }

    #[test]
    fn the_hint_names_the_character() {
        for (value, character) in [
            ("a/b", "/"),
            ("a\\b?", "\\"),
            ("\t", "U+0009"),
            ("é\u{85}", "U+0085"),
            ("a\0", "U+0000"),
        ] {
            assert_eq!(
                check_characters(PARTITION_KEY, value).unwrap_err().hint().unwrap(),
                format!("A key must not contain {character}. Forbidden are / \\ # ? and control characters.")
            );
        }
    }

    #[test]
    fn everything_else_is_a_key() {
        for value in [
            "",
            " ",
            "O'Brien",
            "%",
            "a+b@c*$!&,:;",
            "é",
            "日本",
            "😀",
            "\u{a0}",
            "\"|<>",
        ] {
            assert_eq!(check_characters_of_both(value, value), Ok(()), "{value}");
            assert!(within_limits(value, value));
        }
    }

    #[test]
    fn limits_are_units_for_each_key_and_bytes_for_both() {
        let units = |c: &str, n: usize| c.repeat(n);
        assert!(within_limits(&units("a", 1024), &units("a", 1024)));
        assert!(!within_limits(&units("a", 1025), ""));
        assert!(!within_limits("", &units("é", 1025)));
        assert!(within_limits(&units("é", 1024), &units("é", 316)));
        assert!(!within_limits(&units("é", 1024), &units("é", 317)));
        assert!(within_limits("", &units("😀", 512)), "two units each");
        assert!(!within_limits("", &units("😀", 513)));
        assert!(!within_limits("", &units("日", 1024)), "3072 bytes");
        assert!(within_limits("a", &units("日", 893)), "2680 bytes");
    }

    #[test]
    fn a_message_does_not_quote_megabytes() {
        let error = check_characters(PARTITION_KEY, &"/".repeat(1_000_000)).unwrap_err();
        assert!(error.report().len() < 2000);
    }
}
