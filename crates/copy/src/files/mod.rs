//! Tables in files: JSON lines, CSV as Azure Storage Explorer has it, JSON as AzCopy 7.3 exports
//! it, and the database file of an emulator.

mod azurite;
mod csv;
mod csv_rows;
mod explorer;
mod format;
mod infer;
mod input;
mod json;
mod lines;
mod read;
mod source;
mod target;

pub use format::{FileOptions, Format, Layout, POLICIES_ENDING, SERVICE_FILE, delimiter};
pub use read::count;
pub use source::FileSource;
pub use target::{FileTarget, Writer};
