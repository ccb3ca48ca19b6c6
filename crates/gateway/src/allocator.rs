//! The allocator of every program with the gateway in it.
//!
//! The C library's allocator keeps memory that was used once, as long as a small object lives behind it. This one gives free memory back
//! to the system, in a thread of its own, so without further requests. The time is in `.cargo/config.toml`.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;
