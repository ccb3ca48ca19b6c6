//! Writes CSV: columns for the keys and the Timestamp, then for each property one with its value and one with its type.

use std::collections::BTreeSet;
use std::io::Write;

use table_service_model::entity::Entity;
use table_service_model::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};

use crate::TYPE;

/// The names of the properties in a file, in the order of their columns.
#[derive(Default)]
pub struct Names(BTreeSet<String>);

impl Names {
    /// Adds those of an entity. Returns how many there are.
    pub fn add(&mut self, entity: &Entity<'_>) -> usize {
        for (name, _) in entity.properties.iter() {
            if !self.0.contains(name) {
                self.0.insert(name.to_owned());
            }
        }
        self.0.len()
    }

    /// Returns whether each property of an entity has its columns.
    #[must_use]
    pub fn have(&self, entity: &Entity<'_>) -> bool {
        entity.properties.iter().all(|(name, _)| self.0.contains(name))
    }

    /// Writes the header.
    pub fn write_header<W: Write>(&self, rows: &mut csv::Writer<W>) -> csv::Result<()> {
        for name in [PARTITION_KEY, ROW_KEY, TIMESTAMP] {
            rows.write_field(name)?;
        }
        for name in &self.0 {
            rows.write_field(name)?;
            rows.write_field(format!("{name}{TYPE}"))?;
        }
        rows.write_record(None::<&[u8]>)
    }

    /// Writes the row of an entity.
    pub fn write<W: Write>(&self, rows: &mut csv::Writer<W>, entity: &Entity<'_>) -> csv::Result<()> {
        rows.write_field(entity.partition_key.unwrap_or_default())?;
        rows.write_field(entity.row_key.unwrap_or_default())?;
        rows.write_field(entity.timestamp.map(|time| time.to_string()).unwrap_or_default())?;
        for name in &self.0 {
            match entity.properties.get(name) {
                Some(value) => {
                    rows.write_field(&*value.text())?;
                    rows.write_field(value.edm_type().name())?;
                }
                None => {
                    rows.write_field("")?;
                    rows.write_field("")?;
                }
            }
        }
        rows.write_record(None::<&[u8]>)
    }
}

/// Returns a writer of rows that end as RFC 4180 says.
pub fn writer<W: Write>(output: W, delimiter: u8, buffer: usize) -> csv::Writer<W> {
    csv::WriterBuilder::new()
        .delimiter(delimiter)
        .terminator(csv::Terminator::CRLF)
        .buffer_capacity(buffer)
        .from_writer(output)
}
