//! Notes in the log about tables, for its later readers.

use pgrx::prelude::*;
use table_service_model::change_feed::Note;

use crate::postgres::{notes, replication_slot};
use crate::storage::names;

/// Notes the name that a relation has as a table of the service, and the one that it had before this transaction. It does nothing for a
/// relation that this transaction has not locked: others could change it before the note counts.
pub fn note_definition(relation: pg_sys::Oid) {
    if !replication_slot::is_log_logical() || !notes::is_locked(relation) {
        return;
    }
    let [now, before] =
        names::now_and_before(relation).map(|seen| seen.filter(|seen| seen.is_table).map(|seen| seen.name));
    notes::write(&Note::Definition {
        relation: relation.to_u32(),
        before: before.as_deref(),
        now: now.as_deref(),
    });
}
