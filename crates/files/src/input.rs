//! The text of a file: UTF-8 or UTF-16, with a byte order mark or without, and the position of a reader in it.
//!
//! Every format reads its records through [`Input::keep`], so no record of any format takes more than [`LONGEST`] bytes,
//! whatever the file says.

use std::fmt;
use std::io::{BufReader, Error, ErrorKind, Read};

/// The longest text that can be an entity: 1 MiB as UTF-16 is at most 3 MiB as UTF-8, and every character of it may be
/// written as `\u00xx`.
pub const LONGEST: usize = 8 << 20;

const BUFFER: usize = 1 << 16;

/// A line and a character in it, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineColumn {
    pub line: u64,
    pub column: u64,
}

impl LineColumn {
    const BEGIN: LineColumn = LineColumn { line: 1, column: 1 };

    /// A fault at this position.
    pub fn fault(self, reason: impl fmt::Display) -> Fault {
        format!("{self}: {reason}").into()
    }
}

impl fmt::Display for LineColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The reason why a file cannot be read any further, with its position.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A text that is read from its beginning to its end.
pub struct Input<'r> {
    raw: Box<dyn Read + 'r>,
    buffer: Vec<u8>,
    /// The bytes that are read and not taken.
    begin: usize,
    end: usize,
    ended: bool,
    /// How many bytes are taken.
    taken: usize,
    position: LineColumn,
    record: LineColumn,
}

impl<'r> Input<'r> {
    /// Returns a part of a text that begins at this position.
    pub fn of_part(text: &'r str, begin: LineColumn) -> Input<'r> {
        Input::at(Box::new(text.as_bytes()), begin)
    }

    pub fn new(mut raw: impl Read + 'r) -> std::io::Result<Input<'r>> {
        let mut head = [0; 3];
        let mut length = 0;
        while let Some(rest) = head.get_mut(length..).filter(|rest| !rest.is_empty()) {
            match raw.read(rest) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // A text of any format begins with a character of ASCII, so without a mark its other byte shows the encoding.
        let (mark, big_endian) = match head.get(..length).unwrap_or_default() {
            [0xef, 0xbb, 0xbf] => (3, None),
            [0xfe, 0xff, ..] => (2, Some(true)),
            [0xff, 0xfe, ..] => (2, Some(false)),
            [0, second, ..] if *second != 0 => (0, Some(true)),
            [first, 0, ..] if *first != 0 => (0, Some(false)),
            _ => (0, None),
        };
        let kept = head.get(mark..length).unwrap_or_default().to_vec();
        let bytes = std::io::Cursor::new(kept).chain(raw);
        let raw: Box<dyn Read + 'r> = match big_endian {
            None => Box::new(bytes),
            Some(big_endian) => Box::new(Utf16 {
                inner: BufReader::with_capacity(BUFFER, bytes),
                big_endian,
            }),
        };
        Ok(Input::at(raw, LineColumn::BEGIN))
    }

    fn at(raw: Box<dyn Read + 'r>, position: LineColumn) -> Input<'r> {
        Input {
            raw,
            buffer: vec![0; BUFFER],
            begin: 0,
            end: 0,
            ended: false,
            taken: 0,
            position,
            record: position,
        }
    }

    /// Returns the bytes that come next, as far as they are read; empty at the end.
    pub fn fill(&mut self) -> Result<&[u8], Fault> {
        while self.begin == self.end && !self.ended {
            match self.raw.read(&mut self.buffer) {
                Ok(read) => {
                    (self.begin, self.end) = (0, read);
                    self.ended = read == 0;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.position.fault(error)),
            }
        }
        Ok(self.buffer.get(self.begin..self.end).unwrap_or_default())
    }

    pub fn peek(&mut self) -> Result<Option<u8>, Fault> {
        Ok(self.fill()?.first().copied())
    }

    /// Takes so many of the bytes that [`Input::fill`] gave.
    pub fn advance(&mut self, count: usize) {
        let end = self.end.min(self.begin + count);
        for &byte in self.buffer.get(self.begin..end).unwrap_or_default() {
            if byte == b'\n' {
                self.position.line += 1;
                self.position.column = 1;
            } else if byte & 0xc0 != 0x80 {
                self.position.column += 1;
            }
        }
        self.taken += end - self.begin;
        self.begin = end;
    }

    /// Returns how many bytes are taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Takes so many of the bytes that [`Input::fill`] gave, and appends them to the record.
    ///
    /// # Errors
    /// A record that is too long to be an entity.
    pub fn keep(&mut self, record: &mut Vec<u8>, count: usize) -> Result<(), Fault> {
        let end = self.end.min(self.begin + count);
        let bytes = self.buffer.get(self.begin..end).unwrap_or_default();
        if record.len() + bytes.len() > LONGEST {
            return Err(self.record.fault(format!(
                "what begins here goes on for more than {} MiB, which no entity has",
                LONGEST >> 20
            )));
        }
        record.extend_from_slice(bytes);
        self.advance(count);
        Ok(())
    }

    /// Notes that a record begins here.
    pub fn begin_record(&mut self) {
        self.record = self.position;
    }

    /// Where the record begins.
    pub fn record(&self) -> LineColumn {
        self.record
    }

    pub fn position(&self) -> LineColumn {
        self.position
    }

    pub fn fault(&self, reason: impl fmt::Display) -> Fault {
        self.position.fault(reason)
    }
}

/// UTF-16 as UTF-8.
struct Utf16<R> {
    inner: BufReader<R>,
    big_endian: bool,
}

impl<R: Read> Utf16<R> {
    fn byte(&mut self) -> std::io::Result<Option<u8>> {
        self.inner.by_ref().bytes().next().transpose()
    }

    fn unit(&mut self) -> std::io::Result<Option<u16>> {
        let Some(first) = self.byte()? else { return Ok(None) };
        let unit = [first, self.byte()?.ok_or_else(not_utf16)?];
        Ok(Some(match self.big_endian {
            true => u16::from_be_bytes(unit),
            false => u16::from_le_bytes(unit),
        }))
    }

    /// The next character; `None` at the end.
    fn character(&mut self) -> std::io::Result<Option<char>> {
        let Some(first) = self.unit()? else { return Ok(None) };
        let second = match first {
            0xd800..0xdc00 => self.unit()?,
            _ => None,
        };
        let decoded = char::decode_utf16([Some(first), second].into_iter().flatten()).next();
        decoded.transpose().map_err(|_| not_utf16())
    }
}

fn not_utf16() -> Error {
    Error::new(ErrorKind::InvalidData, "the text is not UTF-16")
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let Some(character) = self.character()? else {
            return Ok(0);
        };
        // One at a time: it is given without a wait for more.
        character.encode_utf8(&mut [0; 4]).as_bytes().read(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(bytes: &[u8]) -> Result<String, Fault> {
        let mut input = Input::new(bytes)?;
        let mut text = Vec::new();
        loop {
            let count = input.fill()?.len();
            if count == 0 {
                return Ok(String::from_utf8(text).unwrap());
            }
            input.keep(&mut text, count)?;
        }
    }

    #[test]
    fn every_encoding_gives_the_same_text() {
        let text = "P\u{e9}\n\u{65e5}\u{1f600}\u{feff},";
        let units: Vec<u16> = text.encode_utf16().collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        for bytes in [
            text.as_bytes().to_vec(),
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            [b"\xfe\xff", &*big].concat(),
            [b"\xff\xfe", &*little].concat(),
            big.clone(),
            little.clone(),
        ] {
            assert_eq!(text_of(&bytes).unwrap(), text, "{bytes:?}");
        }
        for bytes in [&little[..little.len() - 1], b"\xff\xfe\x00\xd8P\0", b"\xff\xfe\x00\xd8"] {
            let fault = text_of(bytes).unwrap_err().to_string();
            assert!(
                fault.contains("line ") && fault.ends_with("the text is not UTF-16"),
                "{fault}"
            );
        }
        assert_eq!(text_of(b"").unwrap(), "");
        assert_eq!(text_of(b"P").unwrap(), "P");
    }

    #[test]
    fn places_count_characters() {
        let mut input = Input::new("a\n\u{65e5}b".as_bytes()).unwrap();
        input.fill().unwrap();
        input.advance(5);
        assert_eq!(input.position().to_string(), "line 2, column 2");
    }
}
