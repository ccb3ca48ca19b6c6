//! The databases behind the accounts.

mod error;
mod pool;
mod session;
mod statements;
mod types;
mod version;

pub use pool::{Database, PoolSettings, PoolStatus};
pub use session::{Session, check_table_name, column};
pub use statements::{Effect, READY, Statement};
pub use types::{Bag, BagParameter, BatchOperation, Json, JsonParameter, Timestamp};
pub use version::mismatch;
