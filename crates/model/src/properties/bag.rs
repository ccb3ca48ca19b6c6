//! Reading bags, and putting them together from parts of others.

use std::cmp::Ordering;

use super::stored::{check_size, check_value, contribution, decode, decode_checked, edm_type};
use crate::key::is_system_property;
use crate::{EdmType, Error, Value, limits, property_name};

pub(super) const FORMAT_NARROW: u8 = 0x01;
pub(super) const FORMAT_WIDE: u8 = 0x81;
const HEADER: usize = 6;

/// How many properties are looked at one after the other to find one by its name.
const FEW: usize = 16;

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

/// One property of a bag, as bytes.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a [u8],
    pub(super) tag: u8,
    pub(super) value: &'a [u8],
}

impl<'a> Properties<'a> {
    /// Returns the bag in bytes that this crate wrote. Only the header is looked at.
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

    /// Returns the bag in stored bytes, if they have a known format; only the header is looked at, as in
    /// [`Properties::from_stored`].
    #[inline]
    pub fn of_known_format(bytes: &'a [u8]) -> Option<Properties<'a>> {
        Self::split(bytes)
    }

    /// Returns the bag in bytes from outside. Every part of them is checked.
    ///
    /// # Errors
    /// `InvalidInput` for bytes that are not the one representation of a bag; the errors of the limits.
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

    #[inline]
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

    /// Returns the bag as it is stored and sent.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns how many properties it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is no property.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of the properties in the size of an entity, by the formula of semantics 1.5.
    pub fn size(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }

    /// Returns where the name and the value of a property end, from the start of the names and of the values.
    #[inline]
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
        if self.wide || self.count > FEW {
            return self.search(name);
        }
        // Most names differ in length, so one after the other takes less time.
        let mut start = 0;
        for (index, &[a, b, ..]) in self.ends.as_chunks::<4>().0.iter().enumerate() {
            let end = usize::from(u16::from_le_bytes([a, b]));
            if end.wrapping_sub(start) == name.len() && self.names.get(start..end) == Some(name) {
                return Some(index);
            }
            start = end;
        }
        None
    }

    fn search(&self, name: &[u8]) -> Option<usize> {
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

    /// Returns whether there is a property of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name.as_bytes()).is_some()
    }

    /// Returns whether this bag has every property of `other`, with the same type and value.
    pub fn includes(&self, other: Properties<'_>) -> bool {
        other.count <= self.count
            && other.entries().all(|entry| {
                self.find(entry.name).is_some_and(|index| {
                    let own = self.entry(index);
                    own.tag == entry.tag && own.value == entry.value
                })
            })
    }

    /// Returns the value of the property of this name.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.find(name.as_bytes()).map(|index| self.entry(index).decode())
    }

    /// Returns the type of the property of this name.
    pub fn type_of(&self, name: &str) -> Option<EdmType> {
        self.find(name.as_bytes())
            .and_then(|index| self.types.get(index).copied())
            .and_then(edm_type)
    }

    /// Returns the index of the property of this name, its type and the bytes of its value. The index `hint` is tried first:
    /// bags of one table tend to have the same names.
    pub(crate) fn stored(&self, name: &[u8], hint: usize) -> Option<(usize, EdmType, &'a [u8])> {
        let index = if hint < self.count && self.name_at(hint) == name {
            hint
        } else {
            self.find(name)?
        };
        let entry = self.entry(index);
        Some((index, edm_type(entry.tag)?, entry.value))
    }

    /// Returns the properties in ascending order of their names.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'a str, Value<'a>)> {
        // One check for all names: most of them are short.
        let names = std::str::from_utf8(self.names).unwrap_or_default();
        let mut start = 0;
        self.entries().map(move |entry| {
            let end = start + entry.name.len();
            let name = names.get(start..end).unwrap_or_default();
            start = end;
            (name, entry.decode())
        })
    }

    /// Returns both bags as one. Where both have a property, the value of `other` counts.
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

    /// Returns the properties whose name is not among `names`.
    pub fn without(self, names: &[&str]) -> PropertiesBuf {
        self.pick((0..self.count).filter(|&index| !names.iter().any(|name| name.as_bytes() == self.name_at(index))))
    }

    /// Returns the properties whose name is among `names`.
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

    /// Copies the bag.
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
    /// Returns the bag without properties.
    pub fn empty() -> PropertiesBuf {
        PropertiesBuf(EMPTY.to_vec())
    }

    /// Returns the bag.
    pub fn as_properties(&self) -> Properties<'_> {
        Properties::from_stored(&self.0)
    }

    /// Returns the stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// `entries` are in ascending order of their names and within all limits.
    pub(super) fn assemble<'e>(
        entries: impl ExactSizeIterator<Item = Entry<'e>> + Clone,
        size: usize,
    ) -> PropertiesBuf {
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

fn end_width(wide: bool) -> usize {
    if wide { 4 } else { 2 }
}

fn needs_wide(names: usize, values: usize) -> bool {
    names.max(values) > usize::from(u16::MAX)
}
