//! An archive: a directory from which every table can be had as it was at any moment.
//!
//! It has bases (all entities of a table at one position of a change feed, in the order of keys) and segments (the changes of all
//! tables in the order of commits). The manifest says which files there are, with their lengths and their digests. It
//! is replaced by renaming, so it is the truth: a file that it does not name is not there. A segment grows at its end,
//! and the manifest says up to where it counts.
//!
//! [`ledger`] takes the news of a server into the manifest. [`law`] finds in it the tables of a moment, or that they are unknown.
//!
//! An archive may come from a stranger. Nothing in it is a path, a record has a limit, and sorting uses a file.

mod base;
mod check;
mod definition;
mod directory;
mod fold;
#[cfg(test)]
mod histories;
mod history;
mod law;
mod ledger;
mod manifest;
mod open;
mod read;
mod seen;
mod sort;
mod state;
mod write;

pub use base::{Fold, Folded, pruned};
pub use check::{check, list};
pub use definition::{Definition, Expiry};
pub use directory::Directory;
pub use history::Version;
pub use law::At;
pub use ledger::{Expected, Followed, Follower, Listed};
pub use manifest::{Base, Contents, Epoch, Manifest, Moment, Seen, Table, Until, is_selected, is_selection};
pub use open::{Archive, Restored, Wanted};
pub use state::State;
pub use write::{BaseWriter, SegmentWriter};
