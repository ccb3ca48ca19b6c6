//! Memory contexts of PostgreSQL.

use std::ffi::CStr;

use pgrx::prelude::*;

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
