//! Calls of PostgreSQL's functions without the guard that `pg_sys` puts around each of them.

use pgrx::pg_sys;

/// Runs `f`, which calls functions of PostgreSQL through pointers or [`without_guards`]. An error becomes a panic, as in
/// the functions of `pg_sys`.
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

/// Declares functions of PostgreSQL without guards, for several calls in one [`guarded`], or for functions that raise no
/// error. A guard takes about 100 instructions, longer than many of these functions.
///
/// The compiler compares the declarations with those of this major version in `pg_sys`.
macro_rules! without_guards {
    ($($(#[$version:meta])? fn $name:ident($($(#[$of:meta])? $argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern "C-unwind" {
            $($(#[$version])? fn $name($($(#[$of])? $argument: $type),*) $(-> $result)?;)*
        }
        $($(#[$version])? const _: unsafe fn($($(#[$of])? $type),*) $(-> $result)? = pgrx::pg_sys::$name;)*
    };
}
pub(crate) use without_guards;
