//! `regclass`.

use pgrx::prelude::*;

use super::{result, sql_type};

/// A relation to return.
pub struct RegClass(pub pg_sys::Oid);

sql_type!(RegClass, "regclass", External);
result!(RegClass, this => pg_sys::Datum::from(this.0));
