//! `trigger`: the pseudo-type that trigger functions return.

use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::prelude::*;

use super::result;

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

// SAFETY: `trigger` is the pseudo-type that PostgreSQL expects of trigger functions, and it is no argument type.
unsafe impl SqlTranslatable for TriggerRow {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(TriggerRow);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Err(ArgumentError::Datum);
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("trigger")));
}

result!(TriggerRow, this => this.0);
