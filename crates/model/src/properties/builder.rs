//! Making a bag of properties that come one by one.

use std::borrow::Cow;

use super::bag::{Entry, PropertiesBuf};
use super::stored::{check_size, check_value, contribution, encode, tag};
use crate::key::is_system_property;
use crate::{Error, Value, limits, property_name};

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
    /// Begins a bag without properties.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a builder with room for so many properties.
    pub fn with_capacity(properties: usize) -> Self {
        Self {
            entries: Vec::with_capacity(properties),
            values: Vec::with_capacity(properties * 16),
            ..Self::default()
        }
    }

    /// Adds a property. A system property is ignored: no bag has one.
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

    /// Returns the bag. A duplicate is reported before any limit: the front end of the service finds it (semantics
    /// 0.2).
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
