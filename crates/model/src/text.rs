//! Text measured as the service measures it.

/// Returns the length of UTF-8 text in UTF-16 code units.
///
/// One unit for each character, two for those beyond U+FFFF: every byte that starts a character counts one, every
/// byte that starts a four-byte character one more.
pub(crate) fn utf16_len(utf8: &[u8]) -> usize {
    if utf8.is_ascii() {
        return utf8.len();
    }
    utf8.iter()
        .map(|&b| usize::from(b & 0xC0 != 0x80) + usize::from(b >= 0xF0))
        .sum()
}

/// Returns the first `characters` characters of a value that an error message quotes, and `...` if there are more. A client's encoding
/// may lack `…`.
pub(crate) fn abbreviate(value: &str, characters: usize) -> String {
    match value.char_indices().nth(characters) {
        None => value.to_owned(),
        Some((end, _)) => {
            let mut short = value.get(..end).unwrap_or_default().to_owned();
            short.push_str("...");
            short
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_length_counts_surrogate_pairs_as_two() {
        for text in ["", "abc", "é", "日本", "😀", "a😀é日"] {
            assert_eq!(utf16_len(text.as_bytes()), text.encode_utf16().count(), "{text}");
        }
    }

    #[test]
    fn abbreviates_at_a_character_boundary() {
        assert_eq!(abbreviate("日本語", 2), "日本...");
        assert_eq!(abbreviate("日本", 2), "日本");
    }
}
