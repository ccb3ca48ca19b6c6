//! The functions that the event triggers of the extension call, with the rights of the role that runs the statement.
//!
//! They are in `pg_catalog`, where only a superuser can replace a function. The owner of a database can replace the
//! schema `table_service`.

use pgrx::prelude::*;

use crate::engine::feed_notes;
use crate::postgres::OrRaise;
use crate::storage::names;

/// Notes in PostgreSQL's log what a relation is as a table of the service, if the transaction has locked it. Event triggers call it for
/// relations that are created, altered or dropped.
#[pg_extern(
    sql = "CREATE FUNCTION pg_catalog.table_service_note_definition(relation oid) RETURNS void
    STRICT LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';"
)]
fn note_definition(relation: pg_sys::Oid) {
    feed_notes::note_definition(relation);
}

/// Refuses a name that the command of an event trigger has given to a relation in `table_service_data`, if another relation there has
/// it in any case, or if it is reserved. `class` and `object` say which object the command was about.
///
/// Raises `TableAlreadyExists` or `InvalidInput`. Called otherwise, it finds only what this transaction has done.
#[pg_extern(
    sql = "CREATE FUNCTION pg_catalog.table_service_refuse_taken_names(class oid, object oid) RETURNS void
    STRICT LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';"
)]
fn refuse_taken_names(class: pg_sys::Oid, object: pg_sys::Oid) {
    names::refuse_taken(class, object).or_raise();
}
