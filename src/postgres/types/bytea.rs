//! `bytea`.

use super::{external_sql_type, result};
use crate::postgres::varlena;

/// Bytes to return.
pub struct ByteaOut(pub Vec<u8>);

external_sql_type!(ByteaOut, "bytea");
result!(ByteaOut, this => varlena::palloc(&this.0));
