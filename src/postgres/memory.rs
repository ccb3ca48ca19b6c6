//! Allocation of memory that Rust owns, for sizes that depend on input.

use pgrx::prelude::*;

/// Makes room for `count` more elements.
///
/// Raises `out_of_memory`, as PostgreSQL's own functions do. Without this, Rust would abort the process, and PostgreSQL
/// would end all sessions.
pub fn reserve<T>(vec: &mut Vec<T>, count: usize) {
    if vec.try_reserve(count).is_err() {
        ereport!(ERROR, PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory");
    }
}
