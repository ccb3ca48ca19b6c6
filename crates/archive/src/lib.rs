//! An archive: a directory from which every table can be had as it was at any moment.
//!
//! It has bases (all entities of a table at one position of a change feed, in the order of keys) and segments (the changes of all
//! tables in the order of commits). The manifest says which files there are, how long they are and what their digests are. It is
//! replaced by renaming, so it is the truth: what it does not name is not there. A segment grows at its end, and the manifest
//! says up to where it counts.
//!
//! [`ledger`] is how the manifest takes in what a server says. [`law`] is what a moment's tables are by what it says, or what is unknown.
//!
//! An archive may come from a stranger. Nothing in it is a path, a record has a limit, and what is sorted goes to a file.

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
pub use directory::{Directory, Reading};
pub use fold::Visitor;
pub use history::Version;
pub use law::At;
pub use ledger::{Expected, Followed, Follower, Listed};
pub use manifest::{Base, Contents, Epoch, Manifest, Moment, Seen, Table, Until, is_selected, is_selection};
pub use open::{Archive, Named, Restored, Wanted};
pub use state::State;
pub use write::{BaseWriter, SegmentWriter};
