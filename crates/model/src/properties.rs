//! The property bag of one entity: a versioned, byte-aligned binary format.
//!
//! ```text
//! u8   format       FORMAT_NARROW or FORMAT_WIDE: version 1 with directory offsets of two or four bytes
//! u8   count        number of properties, at most 252
//! u32  size         what the properties contribute to the entity's size (semantics 1.5)
//! u8   type         × count
//! (u16|u32 end of name, u16|u32 end of value)   × count; a property starts where the one before it ends
//! names             UTF-8, in ascending byte order
//! values            in the order of the names
//! ```
//!
//! Integers are little-endian and unaligned, so a value can be read in place from anywhere. One bag has exactly one
//! representation: equal bags are equal bytes. A value is UTF-8 text, the bytes of an integer, double or tick count,
//! one byte for a Boolean, the 16 bytes of a Guid in text order, or the bytes of a Binary.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::edm::{EdmType, Value};
use crate::error::Error;
use crate::key::is_system_property;
use crate::limits;
use crate::property_name;
use crate::text::utf16_len;
use crate::ticks::Ticks;

const FORMAT_NARROW: u8 = 0x01;
const FORMAT_WIDE: u8 = 0x81;
const HEADER: usize = 6;
/// What the size formula counts for a property beside its name and value.
const PROPERTY_BASE_BYTES: usize = 8;

const EMPTY: [u8; HEADER] = [FORMAT_NARROW, 0, 0, 0, 0, 0];

/// A property bag, borrowed. Look-up takes O(log n) steps and decodes nothing else.
#[derive(Clone, Copy)]
pub struct Properties<'a> {
    count: usize,
    size: u32,
    wide: bool,
    types: &'a [u8],
    ends: &'a [u8],
    names: &'a [u8],
    values: &'a [u8],
    bytes: &'a [u8],
}

/// One property where it stands in a bag.
#[derive(Clone, Copy)]
struct Entry<'a> {
    name: &'a [u8],
    tag: u8,
    value: &'a [u8],
}

impl<'a> Properties<'a> {
    /// The bag in bytes that this crate wrote, without looking at more than the header.
    ///
    /// For other bytes the contents are unspecified, but reading them is safe and does not panic. Use
    /// [`Properties::validate`] for bytes from outside.
    pub fn from_stored(bytes: &'a [u8]) -> Properties<'a> {
        Self::split(bytes).unwrap_or(Properties {
            count: 0,
            size: 0,
            wide: false,
            types: &[],
            ends: &[],
            names: &[],
            values: &[],
            bytes: &EMPTY,
        })
    }

    /// The bag in stored bytes, if they have a known format; only the header is looked at, as in [`Properties::from_stored`].
    pub fn of_known_format(bytes: &'a [u8]) -> Option<Properties<'a>> {
        Self::split(bytes)
    }

    /// The bag in bytes from outside, every part of which is checked.
    ///
    /// # Errors
    /// `InvalidInput` for bytes that are no bag in its only representation, and the errors of the limits.
    pub fn validate(bytes: &'a [u8]) -> Result<Properties<'a>, Error> {
        let malformed = |reason| Error::MalformedBinary { reason };
        let bag = Self::split(bytes).ok_or(malformed("These bytes are no property bag of a known version"))?;
        if bag.count > limits::PROPERTIES {
            return Err(Error::TooManyProperties);
        }
        let (mut name_end, mut value_end, mut size) = (0, 0, 0usize);
        let mut previous: Option<&[u8]> = None;
        for index in 0..bag.count {
            let (next_name, next_value) = bag.ends_at(index);
            if next_name < name_end || next_value < value_end {
                return Err(malformed("The directory of the property bag is not in order"));
            }
            let outside = malformed("A property lies outside the property bag");
            let name = bag.names.get(name_end..next_name).ok_or(outside.clone())?;
            let value = bag.values.get(value_end..next_value).ok_or(outside)?;
            if previous.is_some_and(|previous| previous >= name) {
                return Err(malformed("The property names are not in ascending order"));
            }
            let text = std::str::from_utf8(name).map_err(|_| malformed("A property name is not UTF-8"))?;
            property_name::check(text)?;
            if is_system_property(text) {
                return Err(malformed(
                    "PartitionKey, RowKey and Timestamp are no properties of a bag",
                ));
            }
            let tag = bag.types.get(index).copied().unwrap_or_default();
            let value = decode_checked(tag, value).ok_or(malformed("A value does not fit its type"))?;
            check_value(text, value)?;
            size += contribution(name, value);
            previous = Some(name);
            (name_end, value_end) = (next_name, next_value);
        }
        if name_end != bag.names.len() || value_end != bag.values.len() {
            return Err(malformed("The property bag is longer than its properties"));
        }
        check_size(size)?;
        if usize::try_from(bag.size) != Ok(size) || bag.wide != needs_wide(name_end, value_end) {
            return Err(malformed("The header of the property bag does not fit its contents"));
        }
        Ok(bag)
    }

    fn split(bytes: &'a [u8]) -> Option<Properties<'a>> {
        let (&[format, count, a, b, c, d], rest) = bytes.split_first_chunk::<HEADER>()?;
        let wide = match format {
            FORMAT_NARROW => false,
            FORMAT_WIDE => true,
            _ => return None,
        };
        let count = usize::from(count);
        let (types, rest) = rest.split_at_checked(count)?;
        let (ends, rest) = rest.split_at_checked(count * end_width(wide) * 2)?;
        let mut bag = Properties {
            count,
            size: u32::from_le_bytes([a, b, c, d]),
            wide,
            types,
            ends,
            names: &[],
            values: &[],
            bytes,
        };
        let names = count.checked_sub(1).map_or(0, |last| bag.ends_at(last).0);
        (bag.names, bag.values) = rest.split_at_checked(names)?;
        Some(bag)
    }

    /// The bag as it is stored and sent.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many properties it has.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What the properties contribute to the size of an entity, in bytes of the formula of semantics 1.5.
    pub fn size(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }

    /// Where the name and the value of a property end, from the start of the names and of the values.
    fn ends_at(&self, index: usize) -> (usize, usize) {
        let width = end_width(self.wide);
        let read = |at: usize| match self.ends.get(at..at + width) {
            Some(&[a, b]) => usize::from(u16::from_le_bytes([a, b])),
            Some(&[a, b, c, d]) => usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX),
            _ => 0,
        };
        let at = index * width * 2;
        (read(at), read(at + width))
    }

    fn entry(&self, index: usize) -> Entry<'a> {
        let starts = index.checked_sub(1).map_or((0, 0), |before| self.ends_at(before));
        self.entry_between(index, starts, self.ends_at(index))
    }

    fn entry_between(
        &self,
        index: usize,
        (name_start, value_start): (usize, usize),
        (name_end, value_end): (usize, usize),
    ) -> Entry<'a> {
        Entry {
            name: self.names.get(name_start..name_end).unwrap_or_default(),
            tag: self.types.get(index).copied().unwrap_or_default(),
            value: self.values.get(value_start..value_end).unwrap_or_default(),
        }
    }

    fn name_at(&self, index: usize) -> &'a [u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends_at(before).0);
        self.names.get(start..self.ends_at(index).0).unwrap_or_default()
    }

    fn entries(self) -> impl ExactSizeIterator<Item = Entry<'a>> {
        let mut starts = (0, 0);
        (0..self.count).map(move |index| {
            let ends = self.ends_at(index);
            let entry = self.entry_between(index, starts, ends);
            starts = ends;
            entry
        })
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name_at(middle).cmp(name) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// Whether there is a property of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name.as_bytes()).is_some()
    }

    /// The value of the property of this name.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.find(name.as_bytes()).map(|index| self.entry(index).decode())
    }

    /// The type of the property of this name.
    pub fn type_of(&self, name: &str) -> Option<EdmType> {
        self.find(name.as_bytes())
            .and_then(|index| self.types.get(index).copied())
            .and_then(edm_type)
    }

    /// The place of the property of this name, its type and the bytes that hold its value. It is looked for at the
    /// place `hint` first: bags of one table tend to have the same names.
    pub(crate) fn stored(&self, name: &[u8], hint: usize) -> Option<(usize, EdmType, &'a [u8])> {
        let index = if hint < self.count && self.name_at(hint) == name {
            hint
        } else {
            self.find(name)?
        };
        let entry = self.entry(index);
        Some((index, edm_type(entry.tag)?, entry.value))
    }

    /// The properties in ascending order of their names.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'a str, Value<'a>)> {
        // All names at once: most are short.
        let names = std::str::from_utf8(self.names).unwrap_or_default();
        let mut start = 0;
        self.entries().map(move |entry| {
            let end = start + entry.name.len();
            let name = names.get(start..end).unwrap_or_default();
            start = end;
            (name, entry.decode())
        })
    }

    /// Both bags in one; where both have a property, that of `other` stays.
    ///
    /// # Errors
    /// `TooManyProperties` and `EntityTooLarge` when the result is beyond a limit.
    pub fn merge(self, other: Properties<'_>) -> Result<PropertiesBuf, Error> {
        let mut size = self.size() + other.size();
        let mut merged = Vec::with_capacity(self.count + other.count);
        let (mut left, mut right) = (self.entries().peekable(), other.entries().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(l), Some(r)) => l.name.cmp(r.name),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            if order == Ordering::Equal
                && let Some(replaced) = left.next()
            {
                size = size.saturating_sub(replaced.contribution());
            }
            merged.extend(if order == Ordering::Less {
                left.next()
            } else {
                right.next()
            });
        }
        if merged.len() > limits::PROPERTIES {
            return Err(Error::TooManyProperties);
        }
        check_size(size)?;
        Ok(PropertiesBuf::assemble(merged.into_iter(), size))
    }

    /// The properties whose name is not among `names`.
    pub fn without(self, names: &[&str]) -> PropertiesBuf {
        self.pick((0..self.count).filter(|&index| !names.iter().any(|name| name.as_bytes() == self.name_at(index))))
    }

    /// The properties whose name is among `names`.
    pub fn project<N: AsRef<str>>(self, names: &[N]) -> PropertiesBuf {
        let mut found: Vec<usize> = names
            .iter()
            .filter_map(|name| self.find(name.as_ref().as_bytes()))
            .collect();
        found.sort_unstable();
        found.dedup();
        self.pick(found.into_iter())
    }

    /// `indexes` are in ascending order.
    fn pick(self, indexes: impl Iterator<Item = usize>) -> PropertiesBuf {
        let picked: Vec<_> = indexes.map(|index| self.entry(index)).collect();
        let size = if picked.len() == self.count {
            self.size()
        } else {
            picked.iter().map(Entry::contribution).sum()
        };
        PropertiesBuf::assemble(picked.into_iter(), size)
    }

    pub fn to_buf(self) -> PropertiesBuf {
        PropertiesBuf(self.bytes.to_vec())
    }
}

impl PartialEq for Properties<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl std::fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'a> Entry<'a> {
    fn decode(&self) -> Value<'a> {
        decode(self.tag, self.value)
    }

    fn contribution(&self) -> usize {
        contribution(self.name, self.decode())
    }
}

/// A property bag that owns its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct PropertiesBuf(Vec<u8>);

impl PropertiesBuf {
    /// The bag without properties.
    pub fn empty() -> PropertiesBuf {
        PropertiesBuf(EMPTY.to_vec())
    }

    pub fn as_properties(&self) -> Properties<'_> {
        Properties::from_stored(&self.0)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// `entries` are in ascending order of their names and within all limits.
    fn assemble<'e>(entries: impl ExactSizeIterator<Item = Entry<'e>> + Clone, size: usize) -> PropertiesBuf {
        let (names, values) = entries.clone().fold((0, 0), |(names, values), entry| {
            (names + entry.name.len(), values + entry.value.len())
        });
        let wide = needs_wide(names, values);
        let directory = entries.len() * (1 + end_width(wide) * 2);
        let mut bytes = Vec::with_capacity(HEADER + directory + names + values);
        bytes.push(if wide { FORMAT_WIDE } else { FORMAT_NARROW });
        // Within the limits all of these fit their fields.
        bytes.push(u8::try_from(entries.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(entries.clone().map(|entry| entry.tag));
        let (mut name_end, mut value_end) = (0, 0);
        for entry in entries.clone() {
            name_end += entry.name.len();
            value_end += entry.value.len();
            for end in [name_end, value_end] {
                if wide {
                    bytes.extend_from_slice(&u32::try_from(end).unwrap_or(u32::MAX).to_le_bytes());
                } else {
                    bytes.extend_from_slice(&u16::try_from(end).unwrap_or(u16::MAX).to_le_bytes());
                }
            }
        }
        for entry in entries.clone() {
            bytes.extend_from_slice(entry.name);
        }
        for entry in entries {
            bytes.extend_from_slice(entry.value);
        }
        PropertiesBuf(bytes)
    }
}

impl std::fmt::Debug for PropertiesBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_properties().fmt(f)
    }
}

/// Collects properties in any order and checks them as they come.
#[derive(Default)]
pub struct PropertiesBuilder<'n> {
    entries: Vec<Pending<'n>>,
    values: Vec<u8>,
    size: usize,
    absent: Vec<Cow<'n, str>>,
}

struct Pending<'n> {
    name: Cow<'n, str>,
    tag: u8,
    start: usize,
    end: usize,
}

impl<'n> PropertiesBuilder<'n> {
    pub fn new() -> Self {
        Self::default()
    }

    /// With room for so many properties.
    pub fn with_capacity(properties: usize) -> Self {
        Self {
            entries: Vec::with_capacity(properties),
            values: Vec::with_capacity(properties * 16),
            ..Self::default()
        }
    }

    /// Adds a property. A system property is ignored: it is none of the bag's.
    ///
    /// # Errors
    /// `PropertyNameInvalid`, `PropertyNameTooLong`; `PropertyValueTooLarge` for a String or Binary beyond its limit;
    /// `InvalidInput` for U+0000 in a String; `OutOfRangeInput` for a DateTime before 1601.
    pub fn push(&mut self, name: Cow<'n, str>, value: Value<'_>) -> Result<(), Error> {
        if is_system_property(&name) {
            return Ok(());
        }
        property_name::check(&name)?;
        check_value(&name, value)?;
        self.size += contribution(name.as_bytes(), value);
        let start = self.values.len();
        encode(&mut self.values, value);
        self.entries.push(Pending {
            name,
            tag: tag(value.edm_type()),
            start,
            end: self.values.len(),
        });
        Ok(())
    }

    /// Notes a property that is given without a value: it is not stored, but may not be given again.
    ///
    /// # Errors
    /// `PropertyNameInvalid`, `PropertyNameTooLong`.
    pub fn absent(&mut self, name: Cow<'n, str>) -> Result<(), Error> {
        if is_system_property(&name) {
            return Ok(());
        }
        property_name::check(&name)?;
        self.absent.push(name);
        Ok(())
    }

    /// The bag. A duplicate is reported before any limit: the front end of the service finds it (semantics 0.2).
    ///
    /// # Errors
    /// `DuplicatePropertiesSpecified`, `TooManyProperties`, `EntityTooLarge`.
    pub fn finish(mut self) -> Result<PropertiesBuf, Error> {
        self.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.check_duplicates()?;
        if self.entries.len() > limits::PROPERTIES {
            return Err(Error::TooManyProperties);
        }
        check_size(self.size)?;
        let entries = self.entries.iter().map(|pending| Entry {
            name: pending.name.as_bytes(),
            tag: pending.tag,
            value: self.values.get(pending.start..pending.end).unwrap_or_default(),
        });
        Ok(PropertiesBuf::assemble(entries, self.size))
    }
}

impl PropertiesBuilder<'_> {
    /// The entries are sorted.
    fn check_duplicates(&mut self) -> Result<(), Error> {
        let twice = self.entries.windows(2).find_map(|pair| match pair {
            [a, b] if a.name == b.name => Some(&a.name),
            _ => None,
        });
        self.absent.sort_unstable();
        let absent_twice = self.absent.windows(2).find_map(|pair| match pair {
            [a, b] if a == b => Some(a),
            _ => None,
        });
        let absent_and_present = self
            .absent
            .iter()
            .find(|name| self.entries.binary_search_by(|entry| entry.name.cmp(name)).is_ok());
        match twice.or(absent_twice).or(absent_and_present) {
            Some(name) => Err(Error::DuplicateProperty {
                name: Error::quoted(name),
            }),
            None => Ok(()),
        }
    }
}

fn end_width(wide: bool) -> usize {
    if wide { 4 } else { 2 }
}

fn needs_wide(names: usize, values: usize) -> bool {
    names.max(values) > usize::from(u16::MAX)
}

/// What a property contributes to the size of an entity (semantics 1.5).
fn contribution(name: &[u8], value: Value<'_>) -> usize {
    let value = match value {
        Value::String(text) => utf16_len(text.as_bytes()) * 2 + 4,
        Value::Binary(bytes) => bytes.len() + 4,
        Value::Int32(_) => 4,
        Value::Int64(_) | Value::Double(_) | Value::DateTime(_) => 8,
        Value::Boolean(_) => 1,
        Value::Guid(_) => 16,
    };
    PROPERTY_BASE_BYTES + utf16_len(name) * 2 + value
}

/// Properties that could not be stored under any keys are refused where they enter.
fn check_size(size: usize) -> Result<(), Error> {
    if limits::ENTITY_BASE_BYTES + size > limits::ENTITY_BYTES {
        return Err(Error::EntityTooLarge);
    }
    Ok(())
}

fn check_value(name: &str, value: Value<'_>) -> Result<(), Error> {
    match value {
        Value::String(text) => {
            if text.len() > limits::STRING_UTF16_UNITS && utf16_len(text.as_bytes()) > limits::STRING_UTF16_UNITS {
                return Err(Error::PropertyValueTooLarge {
                    name: Error::quoted(name),
                });
            }
            if text.as_bytes().contains(&0) {
                return Err(Error::unreadable(format!(
                    "\"{}\" contains U+0000, which PostgreSQL's text cannot hold; store it as Edm.Binary",
                    Error::quoted(name)
                )));
            }
        }
        Value::Binary(bytes) if bytes.len() > limits::BINARY_BYTES => {
            return Err(Error::PropertyValueTooLarge {
                name: Error::quoted(name),
            });
        }
        Value::DateTime(ticks) if !ticks.is_datetime() => return Err(ticks.out_of_range(name)),
        _ => {}
    }
    Ok(())
}

const fn tag(edm: EdmType) -> u8 {
    match edm {
        EdmType::String => 1,
        EdmType::Int32 => 2,
        EdmType::Int64 => 3,
        EdmType::Double => 4,
        EdmType::Boolean => 5,
        EdmType::DateTime => 6,
        EdmType::Guid => 7,
        EdmType::Binary => 8,
    }
}

fn edm_type(tag: u8) -> Option<EdmType> {
    Some(match tag {
        1 => EdmType::String,
        2 => EdmType::Int32,
        3 => EdmType::Int64,
        4 => EdmType::Double,
        5 => EdmType::Boolean,
        6 => EdmType::DateTime,
        7 => EdmType::Guid,
        8 => EdmType::Binary,
        _ => return None,
    })
}

fn encode(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        Value::Int32(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::Int64(n) => out.extend_from_slice(&n.to_le_bytes()),
        // One NaN, so that equal bags are equal bytes.
        Value::Double(n) if n.is_nan() => out.extend_from_slice(&f64::NAN.to_le_bytes()),
        Value::Double(n) => out.extend_from_slice(&n.to_le_bytes()),
        Value::Boolean(b) => out.push(u8::from(b)),
        Value::DateTime(ticks) => out.extend_from_slice(&ticks.get().to_le_bytes()),
        Value::Guid(guid) => out.extend_from_slice(&guid),
        Value::Binary(bytes) => out.extend_from_slice(bytes),
    }
}

/// The value in bytes that [`encode`] could have written, or `None`.
fn decode_checked(tag: u8, bytes: &[u8]) -> Option<Value<'_>> {
    Some(match edm_type(tag)? {
        EdmType::String => Value::String(std::str::from_utf8(bytes).ok()?),
        EdmType::Int32 => Value::Int32(i32::from_le_bytes(bytes.try_into().ok()?)),
        EdmType::Int64 => Value::Int64(i64::from_le_bytes(bytes.try_into().ok()?)),
        EdmType::Double => {
            let n = f64::from_le_bytes(bytes.try_into().ok()?);
            if n.is_nan() && n.to_bits() != f64::NAN.to_bits() {
                return None;
            }
            Value::Double(n)
        }
        EdmType::Boolean => match bytes {
            [0] => Value::Boolean(false),
            [1] => Value::Boolean(true),
            _ => return None,
        },
        EdmType::DateTime => {
            let ticks = Ticks::new(i64::from_le_bytes(bytes.try_into().ok()?))?;
            Value::DateTime(ticks)
        }
        EdmType::Guid => Value::Guid(bytes.try_into().ok()?),
        EdmType::Binary => Value::Binary(bytes),
    })
}

/// The value in stored bytes; an empty String where they are none, which no stored bag has.
fn decode(tag: u8, bytes: &[u8]) -> Value<'_> {
    decode_checked(tag, bytes).unwrap_or(Value::String(""))
}

#[cfg(test)]
mod tests;
