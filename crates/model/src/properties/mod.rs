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

mod bag;
mod builder;
mod stored;

pub use bag::{Properties, PropertiesBuf};
pub use builder::PropertiesBuilder;

#[cfg(test)]
mod tests;
