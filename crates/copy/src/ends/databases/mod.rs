//! Databases with the extension: read and written by COPY, counted, deleted and made as they were by statements.

mod archived;
mod as_it_was;
mod bulk;
mod changes;
mod connect;
mod definitions;
mod owners;
mod rows;
mod source;
mod target;
mod visit;

pub use archived::{FeedStatus, Freeze, Frozen, Probe};
pub use as_it_was::{Leveller, Step};
pub use bulk::{LARGEST_STEP, SqlDeleter, count};
pub use changes::{Change, ChangeFeed, Event, Images, PAGE, StoredTable};
pub use connect::{Database, DatabaseOptions};
pub use source::SqlSource;
pub use target::SqlWriter;
pub use visit::Known;
