//! The emulator: one command that starts a throwaway PostgreSQL with the extension table_service, and the gateway for the
//! development account in front of it.

pub mod azurite;
pub mod command_line;
pub mod emulator;
pub mod health;
pub mod installation;
pub mod keeper;
pub mod owner;
pub mod parent;
pub mod place;
pub mod postgres;
pub mod voice;
pub mod wanted;
