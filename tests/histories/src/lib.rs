//! Histories: clients use a partition over HTTP and SQL while PostgreSQL, gateways and connections are killed, stopped and
//! cut. Each operation is recorded with its begin, its end and its answer. Afterwards there must be one order of the
//! operations of a partition that explains all answers (linearizability), and no ETag may name two versions.
//!
//! - [`model`]: the effect of one operation after the other on a partition
//! - [`history`]: the recorded operations
//! - [`check`]: whether the model explains a history, and if not, which operation it does not explain
//! - [`workload`]: random operations
//! - [`client`]: operations as HTTP requests and SQL statements
//! - [`faults`]: servers, and their faults
//! - [`run`]: all of it for one seed
//! - [`feed`]: a reader of a change feed beside all of that, with a copy that must equal the tables

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod check;
pub mod client;
pub mod faults;
pub mod feed;
pub mod history;
pub mod model;
pub mod run;
pub mod workload;
