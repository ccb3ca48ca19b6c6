//! Memory of Rust's own, for sizes that come from input.

use pgrx::prelude::*;

/// Makes room for `count` more elements.
///
/// Raises `out_of_memory`, as PostgreSQL's own functions do, where Rust would end the process and so the whole server.
pub fn reserve<T>(vec: &mut Vec<T>, count: usize) {
    if vec.try_reserve(count).is_err() {
        ereport!(ERROR, PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory");
    }
}
