//! Calls of PostgreSQL's functions through function pointers.

use pgrx::pg_sys;

/// Runs `f`, which calls functions of PostgreSQL through function pointers. An error becomes a panic, as in the
/// functions of `pg_sys`.
///
/// # Safety
/// `f` must not panic, and it must not create values that need dropping: an error leaves it with a `longjmp`. The
/// compiler checks that its captures need no dropping either.
pub unsafe fn guarded<T, F: FnOnce() -> T>(f: F) -> T {
    const {
        assert!(
            !std::mem::needs_drop::<F>(),
            "the closure must not capture values that need dropping"
        )
    };
    // SAFETY: the caller promises that `f` does not panic and that a `longjmp` out of it skips no destructor.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(f) }
}
