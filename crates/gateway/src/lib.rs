//! The gateway. It serves the REST protocol of the Azure Table service from databases with the extension table_service, so
//! that unmodified SDKs work. It is an ordinary client of the SQL API.

pub mod accounts;
mod background;
pub mod clock;
pub mod config;
pub mod connection;
pub mod database;
pub mod failure;
pub mod gateway;
pub mod limits;
pub mod observe;
pub mod operations;
mod reminder;
pub mod request;
pub mod response;
pub mod server;

/// The allocator of every program with the gateway in it.
///
/// The C library's allocator keeps memory that was used once, as long as a small object lives behind it. This one gives free memory back
/// to the system, in a thread of its own, so without further requests. The time is in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
