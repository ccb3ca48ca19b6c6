//! The REST protocol: the Table service, emulators and the gateway.

mod advance;
mod batch;
mod client;
mod delete;
mod documents;
mod keys;
mod source;
mod target;

pub use client::RestClient;
pub use delete::RestDeleter;
pub use keys::KeyReader;
pub use source::RestSource;
pub use target::{RestTarget, RestWriter};
