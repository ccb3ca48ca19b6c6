//! How the programs reach PostgreSQL. No other crate reads the URL of a database or opens a connection.

mod error;
mod url;

pub use error::{is_refused_by_tls, with_sources};
pub use url::{DatabaseUrl, is_host};
