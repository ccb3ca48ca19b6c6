//! The allocator of every program with the gateway in it.
//!
//! The C library's keeps memory that was used once, as long as something small lives behind it. This one gives free memory back to the
//! system: a thread of its own does so, so it does not depend on further requests. `.cargo/config.toml` says after what time.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;
