//! The explorer: a page on the admin port that shows and changes the tables of the accounts.
//!
//! The files of the page hold no data and need no credentials. Its calls ([`calls`]) do: each is one statement of the SQL API,
//! over a pool of the explorer's own, so that it keeps no client from the database. With `--explorer read` the connections
//! themselves refuse to write.

mod address;
mod answer;
mod calls;
mod csv;
mod database;
mod download;
mod guard;
mod page;
mod paths;
mod token;

pub use address::{print, write};
pub use answer::Body;
pub use calls::{CALLS, Call};
pub use download::EXPORTS;
pub use paths::Explorer;
