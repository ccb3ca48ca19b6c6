//! The databases behind the accounts.

mod connection;
mod error;
mod node;
mod nodes;
mod session;
mod statements;
mod text;
mod together;
mod types;
mod version;

pub use node::{Node, NodeStatus, PoolSettings};
pub use nodes::Database;
pub use session::{ChangeFeed, Page, PageSink, Session, Swept, check_table_name, column};
pub use statements::{Effect, Place, READY, Statement};
pub use text::{QueryError, failure, query_text};
pub use types::{Bag, BagParameter, BatchOperation, Json, JsonParameter, Parameters, Timestamp};
pub use version::usable;
