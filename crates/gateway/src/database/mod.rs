//! The databases behind the accounts.

mod connection;
mod error;
mod failover;
mod grouped_calls;
mod groups;
mod manager;
mod membership;
mod node;
mod nodes;
mod probe;
mod probing;
mod session;
mod shard_maps;
mod standbys;
mod statements;
mod text;
mod types;
mod version;

pub use error::{Diagnosis, column};
pub use membership::Membership;
pub use node::{Node, NodeStatus, PoolSettings};
pub use nodes::{Database, Endpoint};
pub use session::{ChangeFeed, Page, PageSink, Session, Swept, check_table_name};
pub use standbys::{OF_CITUS, Secondary, StandbyStatus};
pub use statements::{Effect, LIBRARY, Nodes, PROBE, Statement};
pub use text::query_text;
pub use types::{Bag, BagParameter, BatchOperation, Parameters, Timestamp};
