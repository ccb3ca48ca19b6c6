//! Calls of PostgreSQL's functions through pointers.

use pgrx::pg_sys;

/// Runs `f`, which calls functions of PostgreSQL through pointers; an error comes out as a panic, as it does of the functions of
/// `pg_sys`.
///
/// # Safety
/// An error jumps out of `f`: it makes nothing that has to be dropped, and does not panic. That it holds nothing of the kind is checked
/// when it is compiled.
pub unsafe fn guarded<T, F: FnOnce() -> T>(f: F) -> T {
    const {
        assert!(
            !std::mem::needs_drop::<F>(),
            "an error would jump over what the closure holds"
        )
    };
    // SAFETY: as promised.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(f) }
}
