//! The emulator: one command that starts a throwaway PostgreSQL with the extension table_service, and the gateway for the
//! development account in front of it.

pub mod azurite;
pub mod cleaner;
pub mod command_line;
pub mod control;
pub mod emulator;
pub mod faults;
pub mod health;
pub mod installation;
pub mod messages;
pub mod other_services;
pub mod parent;
pub mod postgres;
pub mod run_directory;
pub mod server_user;
pub mod settings;
mod unsigned_token;
