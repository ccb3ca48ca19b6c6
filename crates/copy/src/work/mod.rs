//! Work on the tables of ends: they are copied, compared, counted and emptied, several ranges at a time.

mod bulk;
mod pipeline;
mod verify;
mod workers;

pub use bulk::{Bulk, Delete, DeleteReport};
pub use pipeline::{CopyContext, Pace, copy_table};
pub use verify::{Comparison, Verify};
