//! `trigger`: the pseudo-type that trigger functions return.

use pgrx::prelude::*;

use super::{declaration, result};

/// The result of a trigger function: the row to write, a tuple of the table that the trigger fired for.
pub struct TriggerRow(pub(in crate::postgres) pg_sys::Datum);

// It is no argument type.
declaration!(
    TriggerRow,
    External,
    Err(ArgumentError::Datum),
    SqlMappingRef::literal("trigger")
);
result!(TriggerRow, this => this.0);
