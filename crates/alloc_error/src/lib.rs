//! What happens when memory for a Rust value cannot be allocated.
//!
//! A crate of its own, because the standard library's function for it is unstable: `.cargo/config.toml` allows unstable
//! features to this crate alone. `ARCHITECTURE.md` says why no stable way is as good.

#![feature(alloc_error_hook)]

use std::alloc::Layout;

/// Sets the function that is called when memory cannot be allocated. It may panic. If it returns, the process aborts.
pub fn set_hook(hook: fn(Layout)) {
    std::alloc::set_alloc_error_hook(hook);
}
