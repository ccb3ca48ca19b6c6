//! The domain of the Azure Table service: entities, Edm types, the binary property bag, JSON payloads, ETags, limits
//! and the error catalog; and rules that depend only on their arguments, for example the election of the primary.
//!
//! This crate has no I/O, no clock and no `unsafe`. Every function that takes text or bytes from outside returns an [`Error`] of
//! the catalog for bad input and never panics.

pub mod access;
pub mod batch;
pub mod change_feed;
pub mod code_of_tables;
pub mod edm;
pub mod entity;
pub mod error;
pub mod etag;
pub mod expiry;
pub mod extension;
pub mod filter;
pub mod json;
pub mod key;
pub mod lexer;
pub mod limits;
mod lsn;
pub mod partition_hash;
pub mod patch;
pub mod pgoutput;
pub mod projection;
pub mod properties;
pub mod property_index;
pub mod property_name;
pub mod read_strategy;
pub mod replication;
pub mod retry;
pub mod secret;
pub mod table_filter;
pub mod table_name;
mod text;
pub mod ticks;
pub mod token;

pub use access::Grant;
pub use edm::{EdmType, Value};
pub use entity::Entity;
pub use error::{Code, Error, RequestError};
pub use etag::IfMatch;
pub use expiry::Expiry;
pub use filter::{Dialect, Filter, KeyRange, Predicate};
pub use json::ParsedEntity;
pub use lsn::Lsn;
pub use patch::Patch;
pub use projection::Projection;
pub use properties::{Properties, PropertiesBuf, PropertiesBuilder};
pub use secret::Secret;
pub use ticks::Ticks;
pub use token::ContinuationToken;
