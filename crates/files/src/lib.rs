//! Files of entities, as the copy program and the explorer read and write them: lines and documents of JSON, and the CSV of Azure
//! Storage Explorer. Other JSON and CSV is read by a [`mapping`].

mod columns;
pub mod formula;
mod guess;
pub mod input;
pub mod json;
pub mod lines;
pub mod mapping;
mod names;
pub mod payload;
mod row;

pub use columns::Columns;
pub use guess::Guess;
pub use input::{Fault, Input, LineColumn};
pub use names::{Names, writer};
pub use row::{MOST_COLUMNS, Row};
pub use table_service_model::json::ParsedEntity;

use table_service_model::Error;

/// The ending of the name of a column, or of a member, that has the type of a property.
const TYPE: &str = "@type";

/// Returns an error of the catalog with its hint, in one line.
#[must_use]
pub fn reason(error: &Error) -> String {
    match error.hint() {
        Some(hint) => format!("{} {hint}", error.report()),
        None => error.report(),
    }
}
