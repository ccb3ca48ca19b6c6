//! Values and keys as the bytes of an index entry.

use crate::{EdmType, Properties, Value, limits};

const CLASS_BOOLEAN: u8 = 1;
const CLASS_NUMBER: u8 = 2;
const CLASS_DATETIME: u8 = 3;
const CLASS_GUID: u8 = 4;
const CLASS_BINARY: u8 = 5;
const CLASS_STRING: u8 = 6;

/// The byte between two keys, and after a String. No key and no stored String has it.
pub(super) const SEPARATOR: u8 = 0;

/// Returns the entry of an entity in an index on a property; `None` if the entity lacks the property.
pub fn entry(properties: Properties<'_>, property: &str, partition_key: &str, row_key: &str) -> Option<Vec<u8>> {
    let value = properties.get(property)?;
    let mut out = Vec::with_capacity(longest(value) + partition_key.len() + 1 + row_key.len());
    write_value(value, &mut out);
    out.extend_from_slice(partition_key.as_bytes());
    out.push(SEPARATOR);
    out.extend_from_slice(row_key.as_bytes());
    out.truncate(limits::INDEX_ENTRY_BYTES);
    Some(out)
}

/// Returns the first byte of the entries with a value of this type.
pub(super) fn class(edm: EdmType) -> u8 {
    match edm {
        EdmType::Boolean => CLASS_BOOLEAN,
        EdmType::Int32 | EdmType::Int64 | EdmType::Double => CLASS_NUMBER,
        EdmType::DateTime => CLASS_DATETIME,
        EdmType::Guid => CLASS_GUID,
        EdmType::Binary => CLASS_BINARY,
        EdmType::String => CLASS_STRING,
    }
}

/// Returns the bytes with which the entries of this value begin.
pub(super) fn value_bytes(value: Value<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(longest(value));
    write_value(value, &mut out);
    out
}

/// Returns the most bytes that a value takes: its class, itself, and its end.
fn longest(value: Value<'_>) -> usize {
    match value {
        Value::String(text) => text.len().min(limits::INDEXED_STRING_BYTES) + 2,
        Value::Binary(bytes) => 2 * bytes.len().min(limits::INDEXED_BINARY_BYTES) + 3,
        _ => 17,
    }
}

/// Returns whether no other value that compares with this one has the same bytes, among those of type `among`.
pub(super) fn is_exact(value: Value<'_>, among: EdmType) -> bool {
    match value {
        Value::String(text) => text.len() < limits::INDEXED_STRING_BYTES && !text.as_bytes().contains(&SEPARATOR),
        Value::Binary(bytes) => bytes.len() < limits::INDEXED_BINARY_BYTES,
        // From 2^53 on, integers share the double that they are rounded to. Doubles are compared with that double.
        Value::Int64(n) => among != EdmType::Int64 || n.unsigned_abs() < 1 << f64::MANTISSA_DIGITS,
        _ => true,
    }
}

fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    out.push(class(value.edm_type()));
    match value {
        Value::Boolean(b) => out.push(u8::from(b)),
        Value::Int32(n) => write_number(f64::from(n), out),
        // To the nearest double, as a literal is widened for a comparison with a Double.
        Value::Int64(n) => write_number(n as f64, out),
        Value::Double(n) => write_number(n, out),
        // Ticks are not negative.
        Value::DateTime(ticks) => out.extend_from_slice(&ticks.get().to_be_bytes()),
        Value::Guid(guid) => out.extend_from_slice(&guid),
        Value::Binary(bytes) => write_binary(bytes, out),
        Value::String(text) => write_string(text, out),
    }
}

fn write_number(n: f64, out: &mut Vec<u8>) {
    let sortable = if n.is_nan() {
        u64::MAX
    } else if n < 0.0 {
        !n.to_bits()
    } else {
        // Also of -0.0, which has it already.
        n.to_bits() | 1 << 63
    };
    out.extend_from_slice(&sortable.to_be_bytes());
}

fn write_binary(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes.iter().take(limits::INDEXED_BINARY_BYTES) {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut bytes = bytes.get(..limits::INDEXED_STRING_BYTES).unwrap_or(bytes);
    if bytes.contains(&SEPARATOR) {
        // A literal can have U+0000; it is cut there.
        bytes = bytes.split(|&byte| byte == SEPARATOR).next().unwrap_or_default();
    }
    let start = out.len();
    out.extend_from_slice(bytes);
    for byte in out.get_mut(start..).unwrap_or_default() {
        // The order of UTF-16.
        if matches!(byte, 0xEE | 0xEF) {
            *byte |= 0xF0;
        }
    }
    out.push(SEPARATOR);
}
