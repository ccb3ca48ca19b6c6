//! The gateway as a process of its own, before a PostgreSQL of its own, at the level of HTTP and of bytes: what no SDK
//! sends, and what no SDK shows.
//!
//! Environment: as for the tests of the whole system (tests/system).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod access;
mod batches;
mod clients;
mod entities;
mod faults;
mod gateway;
mod hostile;
mod http;
mod operations;
mod pages;
mod statements;
mod tables;
