//! Tables in files: JSON lines, CSV as Azure Storage Explorer has it, JSON as AzCopy 7.3 exports it.

mod csv_rows;
mod format;
mod json_array;
mod lines;
mod read;
mod source;
mod target;

pub use format::{Format, POLICIES_ENDING, SERVICE_FILE};
pub use source::FileSource;
pub use target::{FileTarget, Writer};
