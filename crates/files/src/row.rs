//! Rows of CSV (RFC 4180). These are errors: text behind a closing quote, a quote within a field that does not begin with a quote,
//! the end of the file within a field.

use std::collections::HashSet;

use table_service_command_line::printable::said;

use crate::input::{Fault, Input, LineColumn};

/// Why an empty line of a spreadsheet is no entity.
pub const BLANK: &str = "The row has delimiters only; an entity whose keys are empty has them in quotes";
/// The most columns of a file, and members of an object.
pub const MOST_COLUMNS: usize = 20_000;

/// A field of a row.
struct Field {
    end: usize,
    position: LineColumn,
}

#[derive(Default)]
pub struct Row {
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Where the row ends.
    end: Option<LineColumn>,
    /// Whether a line end is behind it.
    pub has_line_end: bool,
    /// Whether it has a character or a quote that is no delimiter.
    has_text: bool,
}

impl Row {
    /// Reads the next row that has any character; false at the end.
    ///
    /// # Errors
    /// A text that is no row, or is too long to be an entity.
    pub fn read(&mut self, input: &mut Input<'_>, delimiter: u8) -> Result<bool, Fault> {
        self.text.clear();
        self.fields.clear();
        self.has_text = false;
        while let Some(b'\r' | b'\n') = input.peek()? {
            input.advance(1);
        }
        if input.peek()?.is_none() {
            return Ok(false);
        }
        input.begin_record();
        loop {
            if self.fields.len() == MOST_COLUMNS {
                return Err(input.fault(format!("the row has more than {MOST_COLUMNS} fields")));
            }
            let position = input.position();
            let quoted = input.peek()? == Some(b'"');
            if quoted {
                self.quoted(input)?;
            } else {
                self.plain(input, delimiter)?;
            }
            self.has_text |= quoted || !self.text.is_empty();
            self.fields.push(Field {
                end: self.text.len(),
                position,
            });
            self.end = Some(input.position());
            match input.peek()? {
                Some(byte) if byte == delimiter => input.advance(1),
                Some(b'\r') => {
                    input.advance(1);
                    if input.peek()? == Some(b'\n') {
                        input.advance(1);
                    }
                    self.has_line_end = true;
                    return Ok(true);
                }
                Some(b'\n') => {
                    input.advance(1);
                    self.has_line_end = true;
                    return Ok(true);
                }
                None => {
                    self.has_line_end = false;
                    return Ok(true);
                }
                Some(_) if quoted => return Err(input.fault("text stands behind the closing quote of a field")),
                Some(_) => {
                    return Err(input.fault(
                        "a quote stands within a field that does not begin with one; such a field is written in \
                         quotes, with every quote in it twice",
                    ));
                }
            }
        }
    }

    fn plain(&mut self, input: &mut Input<'_>, delimiter: u8) -> Result<(), Fault> {
        loop {
            let available = input.fill()?;
            let ends = |byte: &u8| *byte == delimiter || matches!(byte, b'\r' | b'\n' | b'"');
            let end = available.iter().position(ends);
            let count = end.unwrap_or(available.len());
            input.keep(&mut self.text, count)?;
            if end.is_some() || count == 0 {
                return Ok(());
            }
        }
    }

    fn quoted(&mut self, input: &mut Input<'_>) -> Result<(), Fault> {
        let begin = input.position();
        input.advance(1);
        loop {
            let available = input.fill()?;
            if available.is_empty() {
                return Err(begin.fault("the file ends within the field that begins here"));
            }
            let quote = available.iter().position(|&byte| byte == b'"');
            let count = quote.unwrap_or(available.len());
            input.keep(&mut self.text, count)?;
            if quote.is_some() {
                input.advance(1);
                if input.peek()? != Some(b'"') {
                    return Ok(());
                }
                input.keep(&mut self.text, 1)?;
            }
        }
    }

    /// Reads the header: the first row behind the lines of Excel (`sep=;`, which says the delimiter) and of PowerShell (`#TYPE …`); false if
    /// there is none.
    ///
    /// # Errors
    /// As for [`Row::read`].
    pub fn read_header(&mut self, input: &mut Input<'_>, delimiter: &mut u8) -> Result<bool, Fault> {
        while self.read(input, *delimiter)? {
            let rest = (1..self.count()).any(|index| self.field(index) != Some(""));
            match self.field(0).map(str::as_bytes) {
                Some([b's', b'e', b'p', b'=', said]) if self.count() == 1 => *delimiter = *said,
                Some(b"sep=") if self.count() == 2 && !rest => {}
                Some([b'#', b'T', b'Y', b'P', b'E', b' ', ..]) => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Returns the names of the columns, if this is a header. They are all different, but for those that are empty.
    ///
    /// # Errors
    /// A name that comes twice or is not UTF-8.
    pub fn names(&self) -> Result<Vec<String>, Fault> {
        let mut names: Vec<String> = Vec::with_capacity(self.count());
        let mut known = HashSet::with_capacity(self.count());
        for index in 0..self.count() {
            let position = self.position(index);
            let Some(name) = self.field(index).map(str::trim) else {
                return Err(position.fault("the name of a column is not UTF-8"));
            };
            if !name.is_empty() && !known.insert(name) {
                return Err(position.fault(format!("the header has the column {} twice", said(name))));
            }
            names.push(name.to_owned());
        }
        Ok(names)
    }

    /// Returns whether it has delimiters only, as spreadsheets write empty lines. An entity with empty keys has them in quotes.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        !self.has_text
    }

    /// Returns the number of fields.
    pub fn count(&self) -> usize {
        self.fields.len()
    }

    /// The text of a field; `None` if it is not UTF-8.
    pub fn field(&self, index: usize) -> Option<&str> {
        let Some(field) = self.fields.get(index) else {
            return Some("");
        };
        let before = index.checked_sub(1).and_then(|before| self.fields.get(before));
        let text = self.text.get(before.map_or(0, |before| before.end)..field.end);
        std::str::from_utf8(text.unwrap_or_default()).ok()
    }

    /// Where a field begins, or else where the row ends.
    pub fn position(&self, index: usize) -> LineColumn {
        let position = self.fields.get(index).map(|field| field.position).or(self.end);
        position.unwrap_or(LineColumn { line: 1, column: 1 })
    }

    /// The row for a message, not longer than this.
    pub fn shown(&self, most: usize) -> String {
        let mut shown = String::new();
        for index in 0..self.fields.len() {
            if shown.len() >= most {
                break;
            }
            if index > 0 {
                shown.push(',');
            }
            shown.extend(self.field(index).unwrap_or("\u{fffd}").chars().take(most));
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Result<Vec<Vec<String>>, String> {
        let mut input = Input::new(text.as_bytes()).unwrap();
        let (mut row, mut rows) = (Row::default(), Vec::new());
        while row.read(&mut input, b',').map_err(|fault| fault.to_string())? {
            rows.push(
                (0..row.count())
                    .map(|field| row.field(field).unwrap().to_owned())
                    .collect(),
            );
        }
        Ok(rows)
    }

    #[test]
    fn rows_of_every_form() {
        for text in [
            "a,\"b\"\"\r\n,\",\r\n\r\n,,c\r\n",
            "a,\"b\"\"\r\n,\",\n,,c",
            "a,\"b\"\"\r\n,\",\r\r,,c\r",
        ] {
            assert_eq!(rows(text).unwrap(), [["a", "b\"\r\n,", ""], ["", "", "c"]], "{text}");
        }
        assert_eq!(rows("").unwrap(), Vec::<Vec<String>>::new());
    }

    #[test]
    fn what_is_no_row_says_where() {
        for (text, says) in [
            (
                "a\n\"b\"c,d\n",
                "line 2, column 4: text stands behind the closing quote",
            ),
            (
                "a\n\"b\" ,d\n",
                "line 2, column 4: text stands behind the closing quote",
            ),
            (
                "a\nb,\"c\nd",
                "line 2, column 3: the file ends within the field that begins here",
            ),
            ("a\nb\"c", "line 2, column 2: a quote stands within a field"),
            (&",".repeat(MOST_COLUMNS), "the row has more than 20000 fields"),
        ] {
            let fault = rows(text).unwrap_err();
            assert!(fault.contains(says), "{text}: {fault}");
        }
    }
}
