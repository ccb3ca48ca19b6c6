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
//!
//! ```
//! use table_service_model::{Properties, PropertiesBuilder, Value};
//!
//! let mut builder = PropertiesBuilder::new();
//! builder.push("FirstName".into(), Value::String("Don"))?;
//! builder.push("Age".into(), Value::Int32(34))?;
//! let bag = builder.finish()?;
//! assert_eq!(bag.as_properties().get("Age"), Some(Value::Int32(34)));
//!
//! // From outside: every byte is checked.
//! assert_eq!(Properties::validate(bag.as_bytes())?.len(), 2);
//! # Ok::<(), table_service_model::Error>(())
//! ```

mod bag;
mod builder;
mod stored;

pub use bag::{Properties, PropertiesBuf};
pub use builder::PropertiesBuilder;
pub(crate) use stored::{decode_checked, encode, tag};

#[cfg(test)]
mod tests;
