//! Reads requests. Nothing here does I/O.

pub mod batch;
pub mod body;
pub mod forwarded;
mod head;
mod headers;
mod host;
pub mod media_type;
pub mod multipart;
pub mod negotiation;
pub mod operation;
pub mod options;
mod peer;
pub mod query;
pub mod resource;
pub mod target;
pub mod token;
mod trace;

pub use head::Head;
pub use headers::{MERGE, header, if_match, meant_method};
pub use host::Host;
pub use peer::Peer;
pub use trace::Trace;
