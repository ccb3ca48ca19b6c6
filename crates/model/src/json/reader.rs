//! A pull reader over JSON text. Its errors are those of the catalog.
//!
//! The parser is jiter: it pulls, keeps the text of numbers, and builds nothing that is not asked for. It was measured
//! against `serde_json` with raw values and took three quarters of its time on payloads of entities.

use std::borrow::Cow;
use std::ops::Range;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

use crate::Error;

/// The kind of the next value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Boolean(bool),
    Number,
    String,
    Array,
    Object,
}

pub(crate) struct Reader<'j> {
    json: &'j str,
    jiter: Jiter<'j>,
    peeked: Option<Peek>,
    /// The name of the member of the next or the last value.
    member: Option<Range<usize>>,
}

impl<'j> Reader<'j> {
    pub(crate) fn new(json: &'j str) -> Reader<'j> {
        Reader {
            json,
            jiter: Jiter::new(json.as_bytes()),
            peeked: None,
            member: None,
        }
    }

    /// Returns the kind of the next value, without reading it.
    pub(crate) fn peek(&mut self) -> Result<Kind, Error> {
        let peek = match self.peeked {
            Some(peek) => peek,
            None => self.jiter.peek().map_err(|e| self.malformed(&e))?,
        };
        self.peeked = Some(peek);
        Ok(match peek {
            Peek::Null => Kind::Null,
            Peek::True => Kind::Boolean(true),
            Peek::False => Kind::Boolean(false),
            Peek::String => Kind::String,
            Peek::Array => Kind::Array,
            Peek::Object => Kind::Object,
            // Anything else is a number or malformed, and reading it tells which.
            _ => Kind::Number,
        })
    }

    /// Enters the object that comes next; the name of its first member, if it has one.
    pub(crate) fn first_member(&mut self) -> Result<Option<Cow<'j, str>>, Error> {
        self.peeked = None;
        self.member = None;
        let range = match self.jiter.next_object_bytes() {
            Ok(raw) => raw.map(|raw| range_within(self.json, raw)),
            Err(e) => return Err(self.malformed(&e)),
        };
        self.name(range)
    }

    /// Returns the name of the next member, if there is one more.
    pub(crate) fn next_member(&mut self) -> Result<Option<Cow<'j, str>>, Error> {
        self.member = None;
        let range = match self.jiter.next_key_bytes() {
            Ok(raw) => raw.map(|raw| range_within(self.json, raw)),
            Err(e) => return Err(self.malformed(&e)),
        };
        self.name(range)
    }

    /// Enters the array that comes next; whether it has an element.
    pub(crate) fn first_element(&mut self) -> Result<bool, Error> {
        self.peeked = None;
        let first = self.jiter.next_array().map_err(|e| self.malformed(&e))?;
        Ok(first.is_some())
    }

    /// Returns whether the array has one more element.
    pub(crate) fn next_element(&mut self) -> Result<bool, Error> {
        let next = self.jiter.array_step().map_err(|e| self.malformed(&e))?;
        Ok(next.is_some())
    }

    /// Returns the string that comes next.
    pub(crate) fn string(&mut self) -> Result<Cow<'j, str>, Error> {
        self.peeked = None;
        let range = match self.jiter.next_bytes() {
            Ok(raw) => range_within(self.json, raw),
            Err(e) => return Err(self.malformed(&e)),
        };
        self.unescape(range)
    }

    /// Returns the text of the number that comes next.
    pub(crate) fn number(&mut self) -> Result<&'j str, Error> {
        self.peeked = None;
        let range = match self.jiter.next_number_bytes() {
            Ok(raw) => range_within(self.json, raw),
            Err(e) => return Err(self.malformed(&e)),
        };
        Ok(self.json.get(range).unwrap_or_default())
    }

    /// Skips the value that comes next. The parser bounds how deep it nests.
    pub(crate) fn skip(&mut self) -> Result<(), Error> {
        self.peeked = None;
        self.jiter.next_skip().map_err(|e| self.malformed(&e))
    }

    /// Checks that nothing follows but white space.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.jiter.finish().map_err(|e| self.malformed(&e))
    }

    /// Returns the name of a member in this range.
    fn name(&mut self, range: Option<Range<usize>>) -> Result<Option<Cow<'j, str>>, Error> {
        let Some(range) = range else { return Ok(None) };
        let name = self.unescape(range.clone())?;
        self.member = Some(range);
        Ok(Some(name))
    }

    /// Returns the string in this range. The parser has found its escapes well-formed, and has not decoded them.
    fn unescape(&self, range: Range<usize>) -> Result<Cow<'j, str>, Error> {
        let raw = self.json.get(range.clone()).unwrap_or_default();
        if !raw.as_bytes().contains(&b'\\') {
            return Ok(Cow::Borrowed(raw));
        }
        let quoted = self.json.get(range.start - 1..range.end + 1).unwrap_or_default();
        let mut jiter = Jiter::new(quoted.as_bytes());
        match jiter.next_str() {
            Ok(text) => Ok(Cow::Owned(text.to_owned())),
            Err(e) => Err(self.malformed_at(&e, range.start - 1 + e.index)),
        }
    }

    fn malformed(&self, error: &JiterError) -> Error {
        self.malformed_at(error, error.index)
    }

    fn malformed_at(&self, error: &JiterError, index: usize) -> Error {
        let position = self.jiter.error_position(index);
        let place = format!("at line {}, column {}", position.line, position.column);
        let reason = if self.is_half_of_a_pair(error, index) {
            let name = self.member.clone().and_then(|range| self.json.get(range));
            let name = name.map_or_else(|| "A string".to_owned(), |name| format!("\"{}\"", Error::quoted(name)));
            format!("{name} has half of a pair of surrogates {place}, which PostgreSQL's text cannot hold")
        } else {
            format!("The JSON is malformed: {} {place}", error.error_type)
        };
        Error::MalformedJson { reason }
    }

    /// Returns whether an escape is half of a pair of surrogates, without the other half.
    fn is_half_of_a_pair(&self, error: &JiterError, index: usize) -> bool {
        match error.error_type {
            JiterErrorType::JsonError(JsonErrorType::LoneLeadingSurrogateInHexEscape) => true,
            // The escape is incomplete, or no other half follows it.
            JiterErrorType::JsonError(JsonErrorType::UnexpectedEndOfHexEscape) => {
                let until = self.json.floor_char_boundary(index);
                let before = self.json.get(..until).unwrap_or_default();
                let digits = before.rfind("\\u").and_then(|at| before.get(at + 2..at + 6));
                let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
                unit.is_some_and(|unit| (0xD800..=0xDFFF).contains(&unit))
            }
            _ => false,
        }
    }
}

/// Returns the range of `part`, which is a slice of `whole`, in `whole`.
fn range_within(whole: &str, part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}
