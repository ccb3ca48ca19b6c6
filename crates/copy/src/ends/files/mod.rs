//! Tables in files: JSON lines, CSV as Azure Storage Explorer has it, JSON as AzCopy 7.3 exports
//! it, and the database file of an emulator.

mod azurite;
mod format;
mod read;
mod source;
mod target;

pub use format::{FileOptions, Format, Layout, POLICIES_ENDING, ReadOptions, SERVICE_FILE};
pub use read::count;
pub use source::FileSource;
pub use target::{FileTarget, Writer};
