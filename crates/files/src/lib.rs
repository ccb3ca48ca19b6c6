//! Files of entities, as the copy program and the explorer read and write them: lines and documents of JSON, and the CSV of Azure
//! Storage Explorer. Other JSON and CSV is read by a [`mapping`].

mod columns;
pub mod formula;
mod guess;
pub mod header;
pub mod input;
pub mod json;
pub mod lines;
pub mod mapping;
mod names;
mod part;
pub mod payload;
mod record;
mod row;

pub use columns::Columns;
pub use guess::Guess;
pub use header::Header;
pub use input::{Fault, Input, LineColumn};
pub use names::{Names, writer};
pub use part::Part;
pub use record::{Key, MOST_TABLES, Record};
pub use row::{MOST_COLUMNS, Row};
pub use table_service_model::json::ParsedEntity;

use table_service_model::Error;

/// The ending of the name of a column, or of a member, that has the type of a property.
const TYPE: &str = "@type";

/// The largest window that a compressed file may ask for, as a power of two: 8 MiB, which every decoder has to have (RFC
/// 8878, 3.1.1.1.2), and which `zstd` does not exceed without --ultra or --long.
pub const WINDOW_LOG: u32 = 23;

/// Returns an error of the catalog with its hint, in one line.
#[must_use]
pub fn reason(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{} {hint}", error.report()),
        None => error.report(),
    }
}
