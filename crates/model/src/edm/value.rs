//! Values and their types.

use strum::{EnumString, EnumTryAs, IntoStaticStr, VariantArray};

use super::double::write_double;
use super::text::{write_binary, write_guid};
use crate::Ticks;

/// The type of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, EnumString, IntoStaticStr, VariantArray)]
pub enum EdmType {
    #[strum(serialize = "Edm.String")]
    String,
    #[strum(serialize = "Edm.Int32")]
    Int32,
    #[strum(serialize = "Edm.Int64")]
    Int64,
    #[strum(serialize = "Edm.Double")]
    Double,
    #[strum(serialize = "Edm.Boolean")]
    Boolean,
    #[strum(serialize = "Edm.DateTime")]
    DateTime,
    #[strum(serialize = "Edm.Guid")]
    Guid,
    #[strum(serialize = "Edm.Binary")]
    Binary,
}

impl EdmType {
    /// Every type. Stored bags name a type by its place here, so the order stays.
    pub const ALL: &[EdmType] = EdmType::VARIANTS;

    /// Returns the name in annotations, e.g. `Edm.Int32`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the type that an annotation names; `None` for a name that no type has.
    pub fn from_name(name: &str) -> Option<EdmType> {
        name.parse().ok()
    }
}

/// The value of a property. Its text or bytes are borrowed.
#[derive(Debug, Clone, Copy, PartialEq, EnumTryAs)]
pub enum Value<'a> {
    String(&'a str),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    /// Within 1601..=9999.
    DateTime(Ticks),
    /// The 16 bytes in the order of the text form.
    Guid([u8; 16]),
    Binary(&'a [u8]),
}

impl Value<'_> {
    /// Returns the Edm type.
    pub const fn edm_type(&self) -> EdmType {
        match self {
            Value::String(_) => EdmType::String,
            Value::Int32(_) => EdmType::Int32,
            Value::Int64(_) => EdmType::Int64,
            Value::Double(_) => EdmType::Double,
            Value::Boolean(_) => EdmType::Boolean,
            Value::DateTime(_) => EdmType::DateTime,
            Value::Guid(_) => EdmType::Guid,
            Value::Binary(_) => EdmType::Binary,
        }
    }

    /// Returns the value's text, without quotes or a type, as `->>` shows it and a JSON payload holds it.
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        self.write_text(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the text of [`Value::text`].
    pub(crate) fn write_text(self, out: &mut Vec<u8>) {
        match self {
            Value::String(text) => out.extend_from_slice(text.as_bytes()),
            Value::Int32(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
            Value::Int64(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
            Value::Double(n) => write_double(out, n),
            Value::Boolean(b) => out.extend_from_slice(if b { b"true" } else { b"false" }),
            Value::DateTime(ticks) => ticks.write(out, ":"),
            Value::Guid(guid) => write_guid(out, guid),
            Value::Binary(bytes) => write_binary(out, bytes),
        }
    }
}
