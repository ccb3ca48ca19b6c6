//! The emulator: one command that starts a throwaway PostgreSQL with the extension table_service, and the gateway for the
//! development account in front of it.

pub mod command_line;
pub mod emulator;
pub mod health;
pub mod keeper;
pub mod owner;
pub mod place;
pub mod postgres;
