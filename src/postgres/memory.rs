//! Memory contexts of PostgreSQL.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::guarded::without_guards;

without_guards! {
    // It raises no error.
    fn MemoryContextDelete(context: pg_sys::MemoryContext);
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

/// Memory for the values of one row after the other. The code does the same as PostgreSQL's functions, without calls,
/// because it runs for every row.
pub struct RowMemory {
    context: pg_sys::MemoryContext,
    /// The context that was current before. NULL if PostgreSQL does not allocate here.
    outer: pg_sys::MemoryContext,
}

impl RowMemory {
    /// Makes memory below the current context.
    pub fn new() -> RowMemory {
        RowMemory {
            context: new_context(c"table_service row"),
            outer: std::ptr::null_mut(),
        }
    }

    /// Lets PostgreSQL allocate here from now on.
    pub fn enter(&mut self) {
        // SAFETY: the context is a global of this process, which has one thread.
        self.outer = unsafe { pg_sys::CurrentMemoryContext };
        self.resume();
    }

    /// Lets PostgreSQL allocate here once more, after another context.
    #[inline]
    pub fn resume(&self) {
        // SAFETY: the context is valid.
        unsafe { pg_sys::CurrentMemoryContext = self.context };
    }

    /// Frees what was allocated here.
    #[inline]
    pub fn clear(&self) {
        // SAFETY: the context is valid. A value that was made of a row has the row's lifetime, so nothing refers to it any more.
        unsafe {
            if !(*self.context).isReset {
                pg_sys::MemoryContextReset(self.context);
            }
        }
    }

    /// Lets PostgreSQL allocate where it did before, and frees the memory that was allocated here.
    pub fn leave(&mut self) {
        if !self.outer.is_null() {
            // SAFETY: the context is valid, because it was current when this was entered.
            unsafe { pg_sys::CurrentMemoryContext = std::mem::replace(&mut self.outer, std::ptr::null_mut()) };
            self.clear();
        }
    }
}

impl Drop for RowMemory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.leave();
            // SAFETY: the context still exists, because no error has passed, and it is not the current one.
            unsafe { MemoryContextDelete(self.context) };
        }
    }
}
