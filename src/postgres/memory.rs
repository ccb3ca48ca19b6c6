//! Memory: allocations of Rust whose size depends on input, and memory contexts of PostgreSQL.

use std::ffi::CStr;

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

/// Makes a memory context below the current one, so that PostgreSQL frees both together after an error.
pub fn new_context(name: &'static CStr) -> pg_sys::MemoryContext {
    // SAFETY: the current context is valid, and the name lives as long as the process.
    unsafe {
        pg_sys::AllocSetContextCreateExtended(
            pg_sys::CurrentMemoryContext,
            name.as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        )
    }
}
