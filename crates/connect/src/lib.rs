//! How the programs reach PostgreSQL. No other crate reads the URL of a database or opens a connection.

mod error;
mod server;
mod tls;
mod url;

pub use error::{is_refused_by_tls, with_sources};
pub use server::{Opened, Server, Unreachable, Wire, extension_in, open_socket};
pub use tls::{Certificates, certificates};
pub use url::{DatabaseUrl, is_host};
