//! Texts that a spreadsheet would take for formulas, in CSV.
//!
//! Whoever opens a file of entities in a spreadsheet must not execute what somebody else has stored. So the explorer writes an
//! apostrophe before such a text. In a file of another program the apostrophe may belong to the text. So a file in which apostrophes
//! were written has the column [`COLUMN`], and only there a reader takes them away.

use std::borrow::Cow;

/// The column, without values, of a file whose texts were [escaped](escape). Its name is one that readers ignore.
pub const COLUMN: &str = "odata.apostrophes";

/// What a formula begins with (OWASP, CSV injection), and the apostrophe, so that [`unescape`] is exact.
const BEGINNINGS: [char; 12] = ['=', '+', '-', '@', '\t', '\r', '\n', '\'', '＝', '＋', '－', '＠'];

/// Returns whether [`escape`] changes a text.
pub fn is_escaped(text: &str) -> bool {
    text.starts_with(BEGINNINGS)
}

/// The text for a cell: with an apostrophe before it if it begins as a formula or with an apostrophe.
pub fn escape(text: &str) -> Cow<'_, str> {
    match is_escaped(text) {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

/// The text of a cell of a file that has [`COLUMN`]. An apostrophe before anything but a beginning of a formula was written by
/// somebody else, and stays.
pub fn unescape(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|text| is_escaped(text)).unwrap_or(cell)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_and_apostrophes_get_one_and_others_none() {
        for (text, cell) in [
            ("", ""),
            ("x", "x"),
            ("a=1", "a=1"),
            ("=1", "'=1"),
            ("'", "''"),
            ("'=1", "''=1"),
            ("''x", "'''x"),
            ("＝1", "'＝1"),
        ] {
            assert_eq!(escape(text), cell);
            assert_eq!(unescape(cell), text);
        }
        assert_eq!(unescape("'x"), "'x");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn each_text_comes_back_and_none_is_a_formula(text in "['=+@\\-\t\r\n＝＋－＠]{0,4}.{0,4}") {
            let cell = escape(&text);
            prop_assert_eq!(unescape(&cell), text.as_str());
            prop_assert!(cell.starts_with('\'') || !is_escaped(&cell));
        }
    }
}
