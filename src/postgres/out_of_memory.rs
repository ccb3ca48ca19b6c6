//! A failed allocation becomes an error of the statement, `out_of_memory`. Without this module it would end the process,
//! and with it all sessions.
//!
//! Five parts need it.
//!
//! - Rust ends the process when it has no memory for a value. A hook panics with 53200 instead: the values on the stack
//!   are dropped, and `pgrx` reports the error. No code that allocates needs to care.
//! - Raising and reporting an error need memory themselves. [`reserve`] has it for Rust's values, and a memory context that is
//!   filled in advance has it for PostgreSQL's. The reserve opens where every unwinding starts, also that of an error that
//!   was caught and is raised again.
//! - `pgrx` copies an error of PostgreSQL while `PG_exception_stack` still points to a frame that has ended, and reports it
//!   outside of every guard. Another error at one of these moments would end the process. So the linker replaces the functions
//!   that it calls there (`build.rs`), for this library alone: an error that does not fit becomes 53200. A changed copy of
//!   `pgrx` would do the same with 12 MB of source to carry through every release.
//! - The loader ends the process if it has no memory for thread-local values. So it places this library's when it loads it
//!   (`thread_local.c`).
//! - The C library ends the process if it cannot note a destructor of a thread-local value. A server process has one thread,
//!   which ends with the process, so this library registers none.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use pgrx::pg_sys;
use pgrx::pg_sys::elog::PgLogLevel;
use pgrx::pg_sys::errcodes::PgSqlErrorCode;
use pgrx::pg_sys::panic::ErrorReport;

use super::reserve;

/// How many bytes of a message, a detail or a hint reach the client when an error passes through this library.
pub const LONGEST_TEXT: usize = 16 * 1024;

/// How much memory the context for errors has in advance. An error's texts fit into it, with those that are not passed on.
const IN_ADVANCE: usize = 256 * 1024;

/// The memory context in which errors are copied and reported. It keeps its first block when it is reset.
static ERRORS: AtomicPtr<pg_sys::MemoryContextData> = AtomicPtr::new(null_mut());

unsafe extern "C" {
    /// Makes the loader place the library's thread-local values where they need no allocation (`thread_local.c`).
    safe fn table_service_place_thread_local_values() -> *const c_void;
}

/// Prepares for failed allocations. If a step fails, the next call goes on with it.
pub fn prepare() {
    table_service_place_thread_local_values();
    if ERRORS.load(Ordering::Relaxed).is_null() {
        // SAFETY: the top context is valid, and the name lives as long as the process.
        let context = unsafe {
            pg_sys::GenerationContextCreate(
                pg_sys::TopMemoryContext,
                c"table_service errors".as_ptr(),
                IN_ADVANCE,
                IN_ADVANCE,
                // The context puts values of up to an eighth of this into the block that it keeps.
                16 * IN_ADVANCE,
            )
        };
        ERRORS.store(context, Ordering::Relaxed);
    }
    table_service_alloc_error::set_hook(raise);
    static TRANSACTIONS: Once = Once::new();
    TRANSACTIONS.call_once_force(|_| {
        // SAFETY: the callback exists as long as the process, because PostgreSQL unloads no library.
        unsafe { pg_sys::RegisterXactCallback(Some(transaction_ended), null_mut()) };
    });
    static SUBTRANSACTIONS: Once = Once::new();
    SUBTRANSACTIONS.call_once_force(|_| {
        // SAFETY: as above.
        unsafe { pg_sys::RegisterSubXactCallback(Some(subtransaction_ended), null_mut()) };
    });
}

/// The library has been loaded without an error.
pub fn prepared() {
    reserve::loaded();
}

/// Raises `out_of_memory`. Rust calls this when there is no memory for a value.
fn raise(_: Layout) {
    reserve::open();
    ErrorReport::new(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory", "table_service").report(PgLogLevel::ERROR);
}

/// After an error PostgreSQL ends the transaction or a subtransaction: then nothing of the error is on its way any more.
unsafe extern "C-unwind" fn transaction_ended(event: pg_sys::XactEvent::Type, _: *mut c_void) {
    if matches!(
        event,
        pg_sys::XactEvent::XACT_EVENT_ABORT | pg_sys::XactEvent::XACT_EVENT_PARALLEL_ABORT
    ) {
        reserve::close();
    }
}

unsafe extern "C-unwind" fn subtransaction_ended(
    event: pg_sys::SubXactEvent::Type,
    _: pg_sys::SubTransactionId,
    _: pg_sys::SubTransactionId,
    _: *mut c_void,
) {
    if event == pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB {
        reserve::close();
    }
}

/// Cuts a text at a character, so that it and its copies fit into the memory that is kept for them.
pub fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}

/// The functions by which the linker replaces those that `pgrx` and the standard library call. The test's own program
/// has no PostgreSQL to link with.
#[cfg_attr(test, allow(dead_code, non_snake_case))]
pub mod replaced {
    use std::ffi::{c_char, c_int};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::postgres::guarded::{guarded, without_guards};

    without_guards! {
        fn MemoryContextReset(context: pg_sys::MemoryContext);
    }

    unsafe extern "C-unwind" {
        fn __real_CopyErrorData() -> *mut pg_sys::ErrorData;
        fn __real_FreeErrorData(error: *mut pg_sys::ErrorData);
        fn __real_errstart(level: c_int, domain: *const c_char) -> bool;
        fn __real__Unwind_RaiseException(exception: *mut c_void) -> c_int;
    }

    struct Fixed(pg_sys::ErrorData);

    // SAFETY: a server process has one thread, and nothing writes this.
    unsafe impl Sync for Fixed {}

    /// The error that replaces one that cannot be copied.
    static OUT_OF_MEMORY: Fixed = Fixed(pg_sys::ErrorData {
        elevel: PgLogLevel::ERROR as c_int,
        sqlerrcode: PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int,
        message: c"out of memory".as_ptr().cast_mut(),
        // SAFETY: its other fields are numbers, booleans and pointers.
        ..unsafe { std::mem::zeroed() }
    });

    /// Returns the replacement for an error that could not be copied. It must not be written.
    pub fn out_of_memory() -> *mut pg_sys::ErrorData {
        (&raw const OUT_OF_MEMORY.0).cast_mut()
    }

    /// Copies the current error, or returns [`out_of_memory`] if that needs more memory than there is. `pgrx` asks for a
    /// copy while `PG_exception_stack` points to a frame that has ended, so this must not raise an error.
    pub fn copy_error() -> *mut pg_sys::ErrorData {
        static COPYING: AtomicBool = AtomicBool::new(false);
        let context = ERRORS.load(Ordering::Relaxed);
        // While it copies, the guard below asks for the error that interrupted it.
        if context.is_null() || COPYING.swap(true, Ordering::Relaxed) {
            reserve::open();
            return out_of_memory();
        }
        // SAFETY: nothing lives in the context: errors are copied and reported one after the other. The closure only
        // calls functions of PostgreSQL. The context of before is the current one again afterwards.
        let copied = catch_unwind(AssertUnwindSafe(|| unsafe {
            guarded(|| {
                let before = pg_sys::CurrentMemoryContext;
                MemoryContextReset(context);
                pg_sys::CurrentMemoryContext = context;
                let error = __real_CopyErrorData();
                pg_sys::CurrentMemoryContext = before;
                error
            })
        }));
        COPYING.store(false, Ordering::Relaxed);
        copied.unwrap_or_else(|_| out_of_memory())
    }

    /// Cuts the texts of a copied error, so that Rust's copies of them fit into the reserve, which is open from now on.
    ///
    /// # Safety
    /// It must be a copy.
    pub unsafe fn make_fit(error: *mut pg_sys::ErrorData) {
        reserve::open();
        // SAFETY: the texts of a copy are C strings or NULL.
        unsafe {
            for text in [(*error).message, (*error).detail, (*error).hint] {
                cut_in_place(text);
            }
        }
    }

    /// # Safety
    /// The text must be a C string that may be written, or NULL.
    unsafe fn cut_in_place(text: *mut c_char) {
        if text.is_null() {
            return;
        }
        // SAFETY: a byte is only read if those before it are not the end.
        unsafe {
            if (0..=LONGEST_TEXT).any(|at| *text.add(at) == 0) {
                return;
            }
            let mut end = LONGEST_TEXT;
            // Not within a character.
            while end > 0 && *text.add(end) as u8 & 0xC0 == 0x80 {
                end -= 1;
            }
            *text.add(end) = 0;
        }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    unsafe extern "C-unwind" fn __wrap_FreeErrorData(error: *mut pg_sys::ErrorData) {
        if error != out_of_memory() {
            // SAFETY: it is a copy.
            unsafe { __real_FreeErrorData(error) };
        }
    }

    /// Begins to report an error. `pgrx` copies the error's texts into the current memory context then, where nothing
    /// would catch an error.
    #[cfg_attr(not(test), unsafe(no_mangle))]
    unsafe extern "C-unwind" fn __wrap_errstart(level: c_int, domain: *const c_char) -> bool {
        let context = ERRORS.load(Ordering::Relaxed);
        let mut domain = domain;
        if level >= PgLogLevel::ERROR as c_int {
            if !context.is_null() {
                // SAFETY: nothing lives in the context. An error that is reported leaves the current context anyway.
                unsafe {
                    MemoryContextReset(context);
                    pg_sys::CurrentMemoryContext = context;
                }
            }
            // `pgrx` does not come back to free it. PostgreSQL takes its own domain instead.
            if reserve::contains(domain) {
                reserve::give_back(domain);
                domain = std::ptr::null();
            }
        }
        // SAFETY: the arguments are the caller's, or NULL.
        unsafe { __real_errstart(level, domain) }
    }

    /// Every panic, and every error that was caught and is raised again, begins its way up the stack here. From here to
    /// its report in PostgreSQL nothing catches a failed allocation, so the reserve is open, even if the rollback of a
    /// subtransaction has closed it. (Rust's values for the panic itself have the reserve while they are made.)
    #[cfg_attr(not(test), unsafe(no_mangle))]
    unsafe extern "C-unwind" fn __wrap__Unwind_RaiseException(exception: *mut c_void) -> c_int {
        reserve::open();
        // SAFETY: the exception is the caller's.
        unsafe { __real__Unwind_RaiseException(exception) }
    }

    /// Registers the destructor of a thread-local value: not at all. A server process has one thread, and when that ends,
    /// so does the process. The C library would end the process if it had no memory for the registration.
    #[cfg_attr(not(test), unsafe(no_mangle))]
    extern "C" fn __wrap___cxa_thread_atexit_impl(
        _destructor: *mut c_void,
        _object: *mut c_void,
        _library: *mut c_void,
    ) -> c_int {
        0
    }
}
