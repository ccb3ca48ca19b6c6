//! The REST protocol: the Table service, emulators and the gateway.

mod advance;
mod answers;
mod batch;
mod client;
mod delete;
mod documents;
mod endpoint;
mod keys;
mod pages;
mod reading;
mod source;
mod target;

pub use client::RestClient;
pub use delete::RestDeleter;
pub use endpoint::Endpoint;
pub use keys::KeyReader;
pub use reading::{AnswerKind, read};
pub use source::RestSource;
pub use target::RestWriter;
