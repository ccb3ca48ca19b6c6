//! Property names: C# identifiers of at most 255 characters (semantics 1.4).

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::Error;
use crate::limits::PROPERTY_NAME_UTF16_UNITS;
use crate::text::utf16_len;

/// Refuses a text that is not a property name.
///
/// # Errors
/// `PropertyNameTooLong` beyond 255 UTF-16 units, `PropertyNameInvalid` for anything but an identifier.
pub fn check(name: &str) -> Result<(), Error> {
    // The shortest name beyond 255 units has 256 bytes.
    if name.len() > PROPERTY_NAME_UTF16_UNITS && utf16_len(name.as_bytes()) > PROPERTY_NAME_UTF16_UNITS {
        return Err(Error::PropertyNameTooLong {
            name: Error::quoted(name),
        });
    }
    let mut chars = name.chars();
    if is_ascii_name(name) || chars.next().is_some_and(is_start) && chars.all(is_part) {
        Ok(())
    } else {
        Err(Error::PropertyNameInvalid {
            name: Error::quoted(name),
        })
    }
}

/// Returns whether this is a name of ASCII characters alone. Nearly all names are, and their characters need no decoding.
fn is_ascii_name(name: &str) -> bool {
    let is_part = |byte: &u8| PARTS.get(usize::from(*byte)) == Some(&true);
    name.as_bytes().first().is_some_and(|byte| !byte.is_ascii_digit()) && name.as_bytes().iter().all(is_part)
}

/// Which ASCII characters may be part of a name. A look-up is several times as fast as comparisons.
#[allow(clippy::indexing_slicing, reason = "the compiler evaluates it")]
const PARTS: [bool; 128] = {
    let mut parts = [false; 128];
    let mut byte = 0u8;
    while byte < 128 {
        parts[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
        byte += 1;
    }
    parts
};

pub(crate) fn is_start(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphabetic() || c == '_'
    } else {
        is_utf16_unit(c) && is_letter(c.general_category())
    }
}

pub(crate) fn is_part(c: char) -> bool {
    use GeneralCategory::*;
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || c == '_'
    } else {
        let category = c.general_category();
        is_utf16_unit(c)
            && (is_letter(category)
                || matches!(
                    category,
                    NonspacingMark | SpacingMark | DecimalNumber | ConnectorPunctuation | Format
                ))
    }
}

fn is_letter(category: GeneralCategory) -> bool {
    use GeneralCategory::*;
    matches!(
        category,
        UppercaseLetter | LowercaseLetter | TitlecaseLetter | ModifierLetter | OtherLetter | LetterNumber
    )
}

/// .NET classifies UTF-16 units one by one, and half of a surrogate pair is not a letter.
fn is_utf16_unit(c: char) -> bool {
    c.len_utf16() == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn identifiers_are_names() {
        for name in [
            "a",
            "_",
            "_1",
            "Age",
            "FirstName",
            "été",
            "名前",
            "a\u{300}",
            "a\u{200d}b",
            "ⅷ",
            "timestamp",
            "etag",
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        assert_eq!(check(&"a".repeat(255)), Ok(()));
        assert_eq!(check(&"日".repeat(255)), Ok(()));
    }

    #[test]
    fn other_texts_are_no_names() {
        for name in [
            "",
            "1a",
            "123abc",
            "a-b",
            "a b",
            "a.b",
            "a@b",
            "\u{300}a",
            "😀",
            "a😀",
            "𝒳",
            "Manager Rating",
        ] {
            assert_eq!(check(name).unwrap_err().code(), Code::PropertyNameInvalid, "{name}");
        }
    }

    #[test]
    fn names_end_at_255_characters() {
        for name in ["a".repeat(256), "日".repeat(256), "a".repeat(1_000_000)] {
            let error = check(&name).unwrap_err();
            assert_eq!(error.code(), Code::PropertyNameTooLong);
            assert!(error.hint().unwrap().len() < 300);
        }
    }
}
