//! Texts that a spreadsheet would take for formulas, in CSV.
//!
//! A user who opens a file of entities in a spreadsheet must not execute text that somebody else has stored. So the explorer
//! writes an apostrophe before each character that would begin a formula. In a file of another program the apostrophe may belong
//! to the text. So a file in which apostrophes were written has the column [`COLUMN`], and only there a reader takes them away.
//!
//! Some spreadsheets separate cells by semicolons or tabs, and then take quotes within a line for text. So a cell may begin behind
//! each of these and behind a line end, also within a quoted text.

use std::borrow::Cow;

/// The column, without values, of a file whose texts were [escaped](escape). Its name is one that readers ignore.
pub const COLUMN: &str = "odata.apostrophes";

/// The beginnings of a formula (OWASP, CSV injection), and the apostrophe, so that [`unescape`] is exact.
const BEGINNINGS: [char; 9] = ['=', '+', '-', '@', '\'', '＝', '＋', '－', '＠'];

/// The ends of a cell for one program or another, beside the comma: fields with a comma are quoted.
const ENDS: [char; 4] = [';', '\t', '\r', '\n'];

/// Whether a cell may begin with the next character.
struct Place {
    is_beginning: bool,
}

impl Place {
    const FIRST: Place = Place { is_beginning: true };

    /// Returns whether a formula, or an apostrophe, begins a cell with this character, and moves behind it.
    fn begins_formula(&mut self, character: char) -> bool {
        let begins = self.is_beginning && BEGINNINGS.contains(&character);
        // A quote before it may be that of the cell.
        self.is_beginning = ENDS.contains(&character) || self.is_beginning && character == '"';
        begins
    }
}

/// Returns whether [`escape`] changes a text.
pub fn is_escaped(text: &str) -> bool {
    let mut place = Place::FIRST;
    text.chars().any(|character| place.begins_formula(character))
}

/// Returns the text for a cell: with an apostrophe before each formula and apostrophe that may begin a cell.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !is_escaped(text) {
        return Cow::Borrowed(text);
    }
    let (mut cell, mut place) = (String::with_capacity(text.len() + 1), Place::FIRST);
    for character in text.chars() {
        if place.begins_formula(character) {
            cell.push('\'');
        }
        cell.push(character);
    }
    Cow::Owned(cell)
}

/// Returns the text of a cell of a file that has [`COLUMN`]. An apostrophe before anything but a beginning of a formula was written
/// by somebody else, and stays.
pub fn unescape(cell: &str) -> Cow<'_, str> {
    if !is_escaped(cell) {
        return Cow::Borrowed(cell);
    }
    let (mut text, mut place) = (String::with_capacity(cell.len()), Place::FIRST);
    let mut characters = cell.chars().peekable();
    while let Some(character) = characters.next() {
        let is_apostrophe = place.begins_formula(character) && character == '\'';
        match characters.next_if(|next| is_apostrophe && BEGINNINGS.contains(next)) {
            Some(escaped) => text.push(escaped),
            None => text.push(character),
        }
    }
    Cow::Owned(text)
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
            ("\t=1", "\t'=1"),
            ("x;=1+1", "x;'=1+1"),
            ("x; =1", "x; =1"),
            ("x;'=1", "x;''=1"),
            ("x;\"=1", "x;\"'=1"),
            ("x\"=1", "x\"=1"),
            ("1\r\n-2\t@3;x", "1\r\n'-2\t'@3;x"),
            ("=;=", "'=;'="),
        ] {
            assert_eq!(escape(text), cell);
            assert_eq!(unescape(cell), text);
            assert_eq!(is_escaped(text), text != cell);
        }
        assert_eq!(unescape("'x;'y"), "'x;'y");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn each_text_comes_back_and_no_part_is_a_formula(text in "['=+@\\-\t\r\n＝＋－＠;\"x]{0,8}.{0,4}") {
            let cell = escape(&text);
            let back = unescape(&cell);
            prop_assert_eq!(back.as_ref(), text.as_str());
            for part in cell.split(ENDS) {
                let part = part.trim_start_matches('"');
                prop_assert!(part.starts_with('\'') || !part.starts_with(BEGINNINGS), "{}", part);
            }
        }
    }
}
