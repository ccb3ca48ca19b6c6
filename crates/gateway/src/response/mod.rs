//! Writes responses.

pub mod batch;
pub mod error;
pub mod odata;
mod reply;

pub use reply::{DATA_SERVICE_ID, Echo, Reply};
