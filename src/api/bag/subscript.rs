//! The subscripts of bags: `properties['Age']`.

use pgrx::prelude::*;

use crate::postgres::subscript;

/// Tells PostgreSQL how it parses and evaluates subscripts of bags. PostgreSQL calls it without its argument.
#[pg_extern(sql = "
CREATE FUNCTION table_service.properties_subscript(internal) RETURNS internal
IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn properties_subscript() -> pgrx::Internal {
    subscript::routines()
}
