//! `trigger`: the pseudo-type that trigger functions return.

use pgrx::prelude::*;

use super::{declaration, result};

/// The result of a trigger function: the row to write.
pub struct TriggerRow(pg_sys::Datum);

impl TriggerRow {
    /// Makes a result of a row.
    ///
    /// # Safety
    /// The row must be one of the table that the trigger fired for.
    pub unsafe fn new(row: pg_sys::HeapTuple) -> TriggerRow {
        TriggerRow(pg_sys::Datum::from(row))
    }
}

// It is no argument type.
declaration!(
    TriggerRow,
    External,
    Err(ArgumentError::Datum),
    SqlMappingRef::literal("trigger")
);
result!(TriggerRow, this => this.0);
