//! Databases with the extension: read and written by COPY.

mod bounded;
mod connect;
mod rows;
mod source;
mod target;

pub use source::SqlSource;
pub use target::{SqlTarget, SqlWriter};
