//! Tests of the program as a process of its own, with real databases, gateways and files.
//!
//! They need the same environment as the system tests (tests/system).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod archive;
mod archive_cases;
mod archive_definitions;
mod archive_histories;
mod archive_unknown;
mod as_it_was;
mod away;
mod changes;
mod conflicts;
mod damaged;
mod deleting;
mod emulators;
mod entities;
mod explorers;
mod guide;
mod hostile;
mod interrupted;
mod memory;
mod other_side;
mod owners;
mod program;
mod proxy;
mod round_trips;
mod shared_directories;
mod tables;
mod tls;
mod verifying;
