//! Spans of index entries.

use crate::filter::Bound;
use crate::property_index::encode::SEPARATOR;
use crate::{KeyRange, limits};

/// The entries `lower <= entry < upper`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Span {
    pub lower: Vec<u8>,
    pub upper: Vec<u8>,
    /// How many bytes the value has that all the entries begin with, if that is a whole value.
    value: Option<usize>,
}

impl Span {
    pub(super) fn new(lower: Vec<u8>, upper: Vec<u8>) -> Span {
        Span {
            lower,
            upper,
            value: None,
        }
    }

    /// Returns all entries with this value.
    pub(super) fn of_value(value: Vec<u8>) -> Span {
        Span {
            upper: successor(value.clone()),
            value: Some(value.len()),
            lower: value,
        }
    }

    /// Returns whether all the entries have the same value. Then they are in the order of their keys, except for keys
    /// that are cut: those are beyond 2000 bytes.
    pub fn one_value(&self) -> bool {
        self.value.is_some()
    }

    /// Returns how many bytes the keys of an entity in the span may have together if its entry is surely not cut;
    /// `None` if the span has several values.
    pub fn uncut_keys(&self) -> Option<usize> {
        // A character that is cut has up to three bytes that are held.
        self.room().map(|room| room.saturating_sub(1 + 4))
    }

    /// Returns the parts of these keys that an entry of the span holds. Every entity with the same entry has these keys
    /// or greater ones. The span must have one value.
    pub fn held_keys(&self, partition_key: &str, row_key: &str) -> (String, String) {
        let held = |key: &str, room: usize| key[..key.floor_char_boundary(room)].to_owned();
        let room = self.room().unwrap_or_default();
        match room.checked_sub(partition_key.len() + 1) {
            Some(room) => (partition_key.to_owned(), held(row_key, room)),
            None => (held(partition_key, room), String::new()),
        }
    }

    /// Returns how many bytes an entry of the span has for the keys.
    fn room(&self) -> Option<usize> {
        self.value.map(|value| limits::INDEX_ENTRY_BYTES.saturating_sub(value))
    }

    /// Returns the part of the span that has the entities in a range of keys; `None` if there is none.
    ///
    /// If the span has one value, it shrinks to the keys of the range and perhaps a few others that are cut as theirs
    /// are. Else it stays as it is.
    pub fn within(&self, range: &KeyRange) -> Option<Span> {
        let Some(value) = self.value.and_then(|length| self.lower.get(..length)) else {
            return Some(self.clone());
        };
        let mut span = self.clone();
        if let Some(bound) = &range.lower {
            span.lower = span.lower.max(place(value, bound, false));
        }
        if let Some(bound) = &range.upper {
            span.upper = span.upper.min(place(value, bound, true));
        }
        // A cut entry is at the cut bound, whichever side of the bound its keys are.
        span.lower.truncate(limits::INDEX_ENTRY_BYTES);
        if span.upper.len() > limits::INDEX_ENTRY_BYTES {
            span.upper.truncate(limits::INDEX_ENTRY_BYTES);
            span.upper.push(0);
        }
        (span.lower < span.upper).then_some(span)
    }
}

/// Returns the end of a range as the first entry that is inside (`upper` is false), or behind it (`upper` is true).
fn place(value: &[u8], bound: &Bound, upper: bool) -> Vec<u8> {
    let (partition_key, partition_is_cut) = without_separator(&bound.partition_key);
    let (row_key, row_is_cut) = match &bound.row_key {
        Some(row_key) if !partition_is_cut => {
            let (row_key, is_cut) = without_separator(row_key);
            (Some(row_key), is_cut)
        }
        _ => (None, false),
    };
    // Whether the place is behind the key. If the key is cut, the range may begin before its bound, or end after it.
    let after = if partition_is_cut || row_is_cut {
        upper
    } else {
        bound.inclusive == upper
    };
    let mut place = Vec::with_capacity(value.len() + partition_key.len() + row_key.map_or(0, str::len) + 2);
    place.extend_from_slice(value);
    place.extend_from_slice(partition_key.as_bytes());
    match row_key {
        // No key has a character less than U+0020.
        None => place.push(if after { SEPARATOR + 1 } else { SEPARATOR }),
        Some(row_key) => {
            place.push(SEPARATOR);
            place.extend_from_slice(row_key.as_bytes());
            if after {
                place.push(0);
            }
        }
    }
    place
}

/// Returns the text before the first separator, and whether there is one: a literal can have one, a key cannot.
fn without_separator(key: &str) -> (&str, bool) {
    key.split_once(char::from(SEPARATOR))
        .map_or((key, false), |(start, _)| (start, true))
}

/// Returns the first bytes after all that begin with these. They do not begin with FF.
pub(super) fn successor(mut bytes: Vec<u8>) -> Vec<u8> {
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            break;
        }
    }
    bytes
}
