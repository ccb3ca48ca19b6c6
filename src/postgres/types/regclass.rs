//! `regclass`.

use pgrx::prelude::*;

use super::{external_sql_type, result};

/// A relation to return.
pub struct RegClass(pub pg_sys::Oid);

external_sql_type!(RegClass, "regclass");
result!(RegClass, this => pg_sys::Datum::from(this.0));
