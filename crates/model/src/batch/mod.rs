//! Entity group transactions: up to 100 operations on one partition, and all checks of them that need no data
//! (semantics 5.2).

mod group;
mod json;
mod operation;
mod patch;

pub use group::Batch;
pub use operation::{Action, Operation};
pub use patch::PatchArguments;

#[cfg(test)]
mod tests;
