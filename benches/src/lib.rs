//! The common parts of the measuring programs: sessions, load, and the printed results.

pub mod data;
pub mod instructions;
pub mod load;
pub mod operation;
pub mod plot;
pub mod process;
pub mod report;
pub mod session;

/// An error, which ends the measurement.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
