//! Throwaway servers, databases and sessions for the tests of the whole system.
//!
//! All tests of one binary share a server, which starts with the first and stops when the binary ends, however it ends.
//! Each test has a database of its own. Sessions are blocking: a statement that should run beside others is
//! [started](Session::start).
//!
//! Environment: `PG_CONFIG` says which PostgreSQL (the extension is installed there already);
//! `TABLE_SERVICE_CLUSTER_SCRIPT` is the script that starts and stops servers; `TABLE_SERVICE_CLUSTERS` is the directory for them,
//! in place of the system's for temporary files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod cluster;
mod database;
mod failure;
pub mod gateway;
mod log;
mod other_reader;
pub mod planted;
pub mod random;
mod session;
mod standby;
pub mod tls;

pub use cluster::{Cluster, Keeper, as_server, free_directory};
pub use database::Database;
pub use failure::{Expect, Failure};
pub use log::Log;
pub use other_reader::OtherReader;
pub use session::{Pending, Raw, Session, Texts};
pub use standby::Standby;

/// Polls until `condition` holds. The only limit is the one for a hanging test.
///
/// # Panics
/// If it does not become true within ten minutes.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !condition() {
        assert!(begin.elapsed().as_secs() < 600, "{what}: it does not happen");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
