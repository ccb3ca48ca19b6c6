//! Ends a backend with an error when memory for a Rust value cannot be allocated.
//!
//! A crate of its own, because the standard library's function for it is unstable: `RUSTC_BOOTSTRAP` in `.cargo/config.toml`
//! allows unstable features to this crate alone, and to no dependency.
//!
//! No stable way is as good. An allocator may not unwind: the compiler relies on it. A reserve for all allocations ends when an
//! argument is larger. `try_reserve` and its like are a convention, which no collection, no `format!` and no dependency keeps.
//! Unwinding from a failed allocation, on the other hand, is allowed by the function that reports it (`handle_alloc_error`).
//!
//! If a later compiler names the feature otherwise, the build fails and says so: then this crate changes, and nothing else. A
//! build from another directory (`--manifest-path`) does not see `.cargo/config.toml`; it sets the variable itself.

#![feature(alloc_error_hook)]

use std::alloc::Layout;

/// Sets the function that is called when memory cannot be allocated. It may panic. If it returns, the process aborts.
pub fn set_hook(hook: fn(Layout)) {
    std::alloc::set_alloc_error_hook(hook);
}
