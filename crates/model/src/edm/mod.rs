//! The eight Edm types of the Table service and the texts of their values (semantics 1.6).

mod double;
mod text;
mod value;

pub use double::{format_double, write_double};
pub use text::{parse_binary, parse_boolean, parse_double, parse_guid, write_binary, write_guid};
pub use value::{EdmType, Value};
