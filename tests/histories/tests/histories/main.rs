//! Histories, and the faults that a checker of histories must find.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod feed;
mod members;
mod planted;
mod servers;
