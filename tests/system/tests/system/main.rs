//! Tests of the whole system, each of something that a user sees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod binary;
mod concurrency;
mod dump;
mod hostile_json;
mod install;
mod interrupts;
mod privileges;
mod read_only;
mod replication;
mod tables;
mod timestamps;
