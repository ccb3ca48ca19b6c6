//! Entities and their outcomes: passed from a source to a target, counted, rejected, selected and noted.

mod conflict;
mod journal;
mod outcome;
mod progress;
mod record;
mod rejects;
mod report;
mod selection;

pub use conflict::{OnConflict, WriteMode};
pub use journal::{Followed, Journal, Part};
pub use outcome::Outcome;
pub use progress::{Counters, Progress, Style};
pub use record::{
    CHUNK_BYTES, CHUNK_RECORDS, Chunk, DigestSecret, Key, MOST_TABLES, Position, Range, Record, Reject, reason,
};
pub use rejects::Rejects;
pub use report::{LeftOut, Report, TableReport, rate};
pub use selection::Selection;
