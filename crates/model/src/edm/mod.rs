//! The eight Edm types of the Table service (semantics 1.6).

mod double;
mod text;

pub use double::{format_double, write_double};
pub use text::{parse_binary, parse_boolean, parse_double, parse_guid, write_binary, write_guid};

use crate::ticks::Ticks;

/// The type of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EdmType {
    String,
    Int32,
    Int64,
    Double,
    Boolean,
    DateTime,
    Guid,
    Binary,
}

impl EdmType {
    pub const ALL: [EdmType; 8] = [
        EdmType::String,
        EdmType::Int32,
        EdmType::Int64,
        EdmType::Double,
        EdmType::Boolean,
        EdmType::DateTime,
        EdmType::Guid,
        EdmType::Binary,
    ];

    /// The name in annotations, e.g. `Edm.Int32`.
    pub const fn name(self) -> &'static str {
        match self {
            EdmType::String => "Edm.String",
            EdmType::Int32 => "Edm.Int32",
            EdmType::Int64 => "Edm.Int64",
            EdmType::Double => "Edm.Double",
            EdmType::Boolean => "Edm.Boolean",
            EdmType::DateTime => "Edm.DateTime",
            EdmType::Guid => "Edm.Guid",
            EdmType::Binary => "Edm.Binary",
        }
    }

    /// The type that an annotation names.
    pub fn from_name(name: &str) -> Option<EdmType> {
        EdmType::ALL.into_iter().find(|edm| edm.name() == name)
    }
}

/// The value of a property, borrowed from where it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
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

    /// The value's text, without quotes or a type: what `->>` shows and a JSON payload holds.
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        crate::json::write_text(&mut out, *self);
        String::from_utf8(out).unwrap_or_default()
    }
}
