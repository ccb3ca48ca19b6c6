//! Property indexes: the entries of an index on a property, and the part of an index that a filter has to read.
//!
//! An index is an ordinary btree on one `bytea` per entity, its entry. Entries are compared byte by byte. **The format
//! is permanent**: indexes on disk hold it.
//!
//! ```text
//! u8   class of the value    CLASS_BOOLEAN .. CLASS_STRING
//! value
//!   Boolean                  1 byte: 0 or 1
//!   Int32, Int64, Double     8 bytes: the nearest double, as bits that sort: all of them inverted if it is negative,
//!                            else the sign bit alone; -0.0 is 0.0; NaN is FF FF FF FF FF FF FF FF, after everything
//!   DateTime                 8 bytes: ticks, big-endian
//!   Guid                     16 bytes, in the order of the text form
//!   Binary                   the first 256 bytes, each 00 written as 00 FF; then 00 00
//!   String                   the first 512 bytes of its UTF-8, EE and EF written as FE and FF; then 00
//! PartitionKey               UTF-8
//! 00
//! RowKey                     UTF-8
//! ```
//!
//! All of it is cut after 2600 bytes, which an index tuple of PostgreSQL takes without compression (its limit is 2704
//! bytes, 12 of which are headers). An entity without the property has no entry.
//!
//! If a value is before another one, its entry is not behind the other's: values are rounded and cut, but never out of
//! order. (EE and EF become FE and FF because the service orders Strings by UTF-16 units.) The bytes of one value are
//! never the start of another's, so all entries with these bytes are together, in the order of their keys. Stored
//! Strings and keys have no U+0000.
//!
//! [`condition`] says which spans of entries a filter needs. The spans have every entity that passes, and perhaps
//! others: the filter itself decides.

mod condition;
mod encode;
mod span;
mod values;

pub use condition::{Condition, condition};
pub use encode::entry;
pub use span::Span;

#[cfg(test)]
mod tests;
