//! The gateway: the REST protocol of the Azure Table service, so that its SDKs work unmodified, over databases with the
//! extension table_service. It is an ordinary client of the SQL API.

pub mod account;
pub mod admin;
pub mod auth;
pub mod clock;
pub mod config;
pub mod cors;
pub mod database;
pub mod failure;
pub mod gateway;
pub mod observe;
pub mod operations;
pub mod request;
pub mod response;
pub mod run;
pub mod server;
pub mod tls;
pub mod write_limit;
