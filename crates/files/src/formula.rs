//! Texts that a spreadsheet would take for formulas, in CSV.
//!
//! A spreadsheet that opens a file of entities must not execute text that somebody else has stored. Quotes do not help:
//! a spreadsheet takes them away before it looks.
//!
//! Some spreadsheets separate cells by semicolons or tabs, and then take quotes within a line for text. So a cell may begin behind
//! each of these and behind a line end, also within a quoted text.

/// The column, without values, of a file that the explorer of 0.3 has exported: an apostrophe is before each formula
/// and apostrophe that may begin a cell.
pub const ESCAPED: &str = "odata.apostrophes";

/// The ends of a cell for one program or another, beside the comma: fields with a comma are quoted.
const ENDS: [char; 4] = [';', '\t', '\r', '\n'];

/// The beginnings of a formula (OWASP, CSV injection).
const BEGINNINGS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Returns whether a spreadsheet may execute a part of a text. A number, for example of a telephone, executes nothing,
/// unless it begins a line: for some programs the cell goes on behind the comma then.
#[must_use]
pub fn is_formula(text: &str, begins_line: bool) -> bool {
    let is_number = text.chars().all(|c| c.is_ascii_digit() || " +-.,:()/".contains(c));
    // A quote before it may be the quote of the cell.
    let begins = |cell: &str| cell.trim_start_matches('"').starts_with(BEGINNINGS);
    (begins_line || !is_number) && text.split(ENDS).any(begins)
}

/// Returns the text of a cell of a file with the column [`ESCAPED`]. An apostrophe before anything but a beginning of a formula
/// was written by somebody else, and stays.
#[must_use]
pub fn unescape(cell: &str) -> String {
    let plain = |part: &str| {
        let quotes = part.len() - part.trim_start_matches('"').len();
        let (quotes, text) = part.split_at(quotes);
        let escaped = text.strip_prefix('\'');
        let escaped = escaped.filter(|rest| rest.starts_with('\'') || rest.starts_with(BEGINNINGS));
        [quotes, escaped.unwrap_or(text)].concat()
    };
    cell.split_inclusive(ENDS).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::writer;

    /// The cells of a file, as a spreadsheet with this separator reads them: a quote counts where a cell begins.
    fn cells(text: &str, separator: char) -> Vec<String> {
        let mut cells = vec![String::new()];
        let (mut is_beginning, mut is_quoted) = (true, false);
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '"' if is_quoted && characters.next_if_eq(&'"').is_none() => is_quoted = false,
                '"' if is_beginning => is_quoted = true,
                _ if !is_quoted && (character == separator || matches!(character, '\r' | '\n')) => {
                    cells.push(String::new());
                    is_beginning = true;
                    continue;
                }
                _ => cells.last_mut().unwrap().push(character),
            }
            is_beginning = false;
        }
        cells
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_spreadsheet_executes_a_part_of_what_is_no_formula(texts in proptest::collection::vec("[;,=+@\\-\t\r\n\"'x5]{0,8}", 4)) {
            let keep = |(index, text): (usize, &'_ String)| if is_formula(text, index == 0) { "x".to_owned() } else { text.clone() };
            let texts: Vec<String> = texts.iter().enumerate().map(keep).collect();
            let mut file = Vec::new();
            writer(&mut file, b',', 64).write_record(&texts).unwrap();
            let file = String::from_utf8(file).unwrap();
            for cell in [',', ';', '\t'].into_iter().flat_map(|separator| cells(&file, separator)) {
                let cell = cell.trim_start_matches(['\t', '\r', '\n']);
                let is_formula = cell.starts_with(['=', '@']) || cell.starts_with(['+', '-']) && cell.contains(['x', '=', '@']);
                prop_assert!(!is_formula, "{}: {}", file, cell);
            }
        }
    }

    #[test]
    fn a_formula_may_begin_wherever_a_cell_may() {
        for text in [
            "=1",
            "+cmd|' /C calc'!A0",
            "-x",
            "@s",
            "＝1",
            "\t=1",
            "x;=1+1",
            "x;\"=1",
            "1\r\n-2x\t3;x",
            "\"=1",
            "=",
            "＋1",
            "+\tx",
        ] {
            assert!(is_formula(text, false), "{text}");
        }
        for text in ["", "x", "a=1", "'=1", "x; =1", "x\"=1", "-5", "+49 (0)89 123-45"] {
            assert!(!is_formula(text, false), "{text}");
        }
        assert!(is_formula("-5", true) && is_formula("1;-2", false));
    }

    #[test]
    fn what_was_escaped_comes_back() {
        for (text, cell) in [
            ("", ""),
            ("a=1", "a=1"),
            ("=1", "'=1"),
            ("'", "''"),
            ("'=1", "''=1"),
            ("''x", "'''x"),
            ("＝1", "'＝1"),
            ("\t=1", "\t'=1"),
            ("x;=1+1", "x;'=1+1"),
            ("x; =1", "x; =1"),
            ("x;\"=1", "x;\"'=1"),
            ("1\r\n-2\t@3;x", "1\r\n'-2\t'@3;x"),
            ("'x;'y", "'x;'y"),
        ] {
            assert_eq!(unescape(cell), text);
        }
    }
}
