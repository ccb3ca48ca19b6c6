//! Entity group transactions: up to 100 operations on one partition, all checks of them that need no data (semantics 5.2), and the law by
//! which they are attempted again.

mod attempts;
mod group;
mod json;
mod operation;
mod patch;

pub use attempts::{Attempts, Undone, Version};
pub use group::Batch;
pub use operation::{Action, Operation};
pub use patch::PatchArguments;

#[cfg(test)]
mod tests;
