//! Values as bags store them: their limits, their size by the formula, their bytes.

use crate::text::utf16_len;
use crate::{EdmType, Error, Ticks, Value, limits};

/// The bytes that the size formula counts for a property beside its name and value.
const PROPERTY_BASE_BYTES: usize = 8;

/// Returns the bytes of a property in the size of an entity (semantics 1.5).
pub(super) fn contribution(name: &[u8], value: Value<'_>) -> usize {
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

/// Refuses properties that are too large for an entity, whatever its keys.
pub(super) fn check_size(size: usize) -> Result<(), Error> {
    if limits::ENTITY_BASE_BYTES + size > limits::ENTITY_BYTES {
        return Err(Error::EntityTooLarge);
    }
    Ok(())
}

pub(super) fn check_value(name: &str, value: Value<'_>) -> Result<(), Error> {
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

pub(crate) const fn tag(edm: EdmType) -> u8 {
    edm as u8 + 1
}

pub(super) fn edm_type(tag: u8) -> Option<EdmType> {
    EdmType::ALL.get(usize::from(tag).checked_sub(1)?).copied()
}

pub(crate) fn encode(out: &mut Vec<u8>, value: Value<'_>) {
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

/// Returns the value in bytes that [`encode`] could have written, or `None`.
pub(crate) fn decode_checked(tag: u8, bytes: &[u8]) -> Option<Value<'_>> {
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

/// Returns the value in stored bytes. Bytes that [`encode`] cannot have written give an empty String.
pub(super) fn decode(tag: u8, bytes: &[u8]) -> Value<'_> {
    decode_checked(tag, bytes).unwrap_or(Value::String(""))
}
