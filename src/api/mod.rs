//! The functions that SQL users call, one file for each topic.

pub mod access;
pub mod bag;
pub mod batch;
pub mod bulk;
pub mod change_feeds;
pub mod contract;
pub mod distribution;
pub mod entities;
pub mod event_triggers;
pub mod expiry;
pub mod filters;
pub mod property_indexes;
pub mod queries;
pub mod reads;
pub mod results;
pub mod tables;
pub mod time_keys;
pub mod write_groups;
pub mod writes;
