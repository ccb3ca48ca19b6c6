//! The treatment of an entity that a source and a target have.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The treatment of an entity that the target has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// It is rejected
    Fail,
    /// The target keeps its own
    Skip,
    /// The source's replaces it
    Replace,
    /// The source's properties are added to it
    Merge,
    /// The source's replaces it if its Timestamp is later
    Newer,
}

/// How to write.
#[derive(Debug, Clone, Copy)]
pub struct WriteMode {
    pub on_conflict: OnConflict,
    /// An earlier run may have written entities that its resume file does not know of.
    pub resumed: bool,
}
