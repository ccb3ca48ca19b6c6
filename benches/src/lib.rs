//! What the measuring programs share: sessions, load, and the printed results.

pub mod data;
pub mod load;
pub mod mix;
pub mod report;
pub mod session;
pub mod work;

/// What ends a measurement early.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
