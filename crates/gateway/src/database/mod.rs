//! The databases behind the accounts.

mod connection;
mod error;
mod node;
mod nodes;
mod session;
mod statements;
mod together;
mod types;
mod version;

pub use node::{Node, NodeStatus, PoolSettings};
pub use nodes::Database;
pub use session::{ChangeFeed, Page, PageSink, Session, Swept, check_table_name, column};
pub use statements::{Effect, Place, READY, Statement};
pub use types::{Bag, BagParameter, BatchOperation, Json, JsonParameter, Timestamp};
pub use version::usable;
