//! What the log says of tables, for those who read it later.

use pgrx::prelude::*;
use table_service_model::change_feed::Note;

use crate::postgres::types::name_bytes;
use crate::postgres::{catalog, notes, replication_slot};

/// Notes the name that a relation has as a table of the service, and the one that it had before this transaction. It does nothing for a
/// relation that this transaction has not locked: others could change it before the note counts.
pub fn note_definition(relation: pg_sys::Oid) {
    if !replication_slot::is_log_logical() || !notes::is_locked(relation) {
        return;
    }
    let before = notes::row_before_transaction(relation, name_of_table).flatten();
    let now = catalog::row_of(relation, name_of_table).flatten();
    notes::write(&Note::Definition {
        relation: relation.to_u32(),
        before: before.as_deref(),
        now: now.as_deref(),
    });
}

/// Returns the name of a table of the service.
fn name_of_table(class: &pg_sys::FormData_pg_class) -> Option<String> {
    let is_table = class.relnamespace == catalog::data_schema() && class.reloftype == catalog::entity_type();
    is_table.then(|| String::from_utf8_lossy(name_bytes(&class.relname)).into_owned())
}
