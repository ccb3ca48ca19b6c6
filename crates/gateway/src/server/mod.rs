//! The process: its start and end, the port for clients, and that for operators.

pub mod admin;
pub mod clients;
mod explorer;
pub mod run;
mod service_manager;
