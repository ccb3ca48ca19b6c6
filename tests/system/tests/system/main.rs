//! Tests of the whole system, each of something that a user sees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod access;
mod batches;
mod binary;
mod bulk;
mod change_feeds;
mod concurrency;
mod crash;
mod dump;
mod encodings;
mod errors;
mod expiry;
mod feed_failover;
mod feed_notes;
mod feed_sizes;
mod foreign_code;
mod fuzz;
mod golden;
mod hostile_json;
mod hostile_roles;
mod index_builds;
mod index_entities;
mod inlining;
mod install;
mod install_script;
mod interrupts;
mod names;
mod oracle;
mod out_of_memory;
mod patch;
mod privileges;
mod property_indexes;
mod queries;
mod read_only;
mod replication;
mod robustness;
mod tables;
mod timestamps;
mod upgrade;
