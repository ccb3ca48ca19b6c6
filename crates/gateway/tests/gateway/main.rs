//! Tests of the gateway as a separate process with a separate PostgreSQL, at the level of HTTP and of bytes: requests that
//! no SDK sends, and details of responses that no SDK shows.
//!
//! They need the same environment as the system tests (tests/system).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod access;
mod batches;
mod certificates;
mod clients;
mod entities;
mod expiry;
mod explorer;
mod failover;
mod faults;
mod feeds;
mod gateway;
mod grafana;
mod groups;
mod hostile;
mod http;
mod memory;
mod nodes;
mod operations;
mod pages;
mod shares;
mod soak;
mod standbys;
mod start;
mod statements;
mod tables;
mod tokens;
mod way;
