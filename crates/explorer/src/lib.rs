//! The explorer: a page that shows and changes the tables of accounts. A program serves it, and gives it its [`Databases`].
//!
//! The files of the page hold no data and need no credentials. The calls of the page ([`CALLS`]) do: each is one statement of
//! the SQL API.

mod address;
mod answer;
mod calls;
mod databases;
mod download;
mod explorer;
mod guard;
mod import;
mod page;
mod preview;
mod token;

pub use address::{print, write};
pub use answer::{Body, Problem};
pub use calls::{CALLS, Call, EXPORTED};
pub use databases::{Account, Databases, Memory, Rows, Taken};
pub use explorer::Explorer;
