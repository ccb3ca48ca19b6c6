//! Databases with the extension: read and written by COPY, counted and deleted by statements.

mod bulk;
mod changes;
mod connect;
mod owners;
mod rows;
mod source;
mod target;
mod visit;

pub use bulk::{LARGEST_STEP, SqlDeleter, count};
pub use changes::{Change, ChangeFeed, Event, Images, StoredTable};
pub use connect::{Database, DatabaseOptions};
pub use source::SqlSource;
pub use target::{SqlTarget, SqlWriter};
