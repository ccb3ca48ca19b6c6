//! A part of a file: its records, up to the first one that may go on in the next part.

use crate::input::{Fault, Input, LineColumn};
use crate::json::Objects;
use crate::lines;
use crate::row::Row;

/// A part of a file.
pub struct Part<'t> {
    text: &'t str,
    is_last: bool,
    input: Input<'t>,
    taken: usize,
}

impl<'t> Part<'t> {
    /// Returns a part that begins at this position of the file. `is_last` says that nothing follows it.
    pub fn new(text: &'t str, begin: LineColumn, is_last: bool) -> Part<'t> {
        Part {
            text,
            is_last,
            input: Input::of_part(text, begin),
            taken: 0,
        }
    }

    /// Returns how many bytes the records have that were read.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Reads the next object of JSON, of a document or else of lines, and returns its line and its place. `None` behind
    /// the last one that is whole.
    ///
    /// # Errors
    /// A text that is none of objects.
    pub fn object(
        &mut self,
        document: Option<&mut Objects>,
        object: &mut Vec<u8>,
    ) -> Result<Option<(u64, String)>, Fault> {
        let Some(objects) = document else {
            return Ok(self.line(object)?.map(|line| (line, format!("line {line}"))));
        };
        let before = *objects;
        match objects.next(&mut self.input, object) {
            Err(_) if self.is_cut() => {
                *objects = before;
                Ok(None)
            }
            read => {
                let is_object = read?;
                self.taken = self.input.taken();
                let place = self.input.record();
                Ok(is_object.then(|| (place.line, place.to_string())))
            }
        }
    }

    /// Reads the next line that is not blank, and returns its number.
    fn line(&mut self, line: &mut Vec<u8>) -> Result<Option<u64>, Fault> {
        loop {
            let number = self.input.position().line;
            let found = lines::next(&mut self.input, line)?;
            let read = self.text.get(..self.input.taken()).unwrap_or_default();
            if found.is_none() || !(self.is_last || read.ends_with('\n')) {
                return Ok(None);
            }
            self.taken = self.input.taken();
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(number));
            }
        }
    }

    /// Reads the next row of CSV, or the header, which may name another delimiter. Returns false behind the last one
    /// that is whole.
    ///
    /// # Errors
    /// As for [`Row::read`].
    pub fn row(&mut self, row: &mut Row, delimiter: &mut u8, is_header: bool) -> Result<bool, Fault> {
        let read = match is_header {
            true => row.read_header(&mut self.input, delimiter),
            false => row.read(&mut self.input, *delimiter),
        };
        match read {
            Ok(true) if row.has_line_end || self.is_last => {
                self.taken = self.input.taken();
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(_) if self.is_cut() => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Returns whether a record that is broken may be whole with the next part.
    fn is_cut(&mut self) -> bool {
        !self.is_last && self.input.peek().is_ok_and(|next| next.is_none())
    }
}
