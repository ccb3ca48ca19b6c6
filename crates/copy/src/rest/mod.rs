//! The REST protocol: the Table service, emulators and the gateway.

mod advance;
mod batch;
mod client;
mod documents;
mod source;
mod target;

pub use client::RestClient;
pub use source::RestSource;
pub use target::{RestTarget, RestWriter};
