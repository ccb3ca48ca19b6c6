//! Tests inside PostgreSQL: `cargo pgrx test`. Each file except `internals` is a part of a specification: the behaviour
//! that users of SQL see, one sentence a test. All cases are in `tests/pg_regress`.
// In a helper of tests, as in tests, a failure may panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod batches;
mod change_feed;
mod entities;
mod expiry;
mod filters;
mod internals;
mod pages;
mod patch;
mod property_index;
mod support;
mod tables;
mod types;
