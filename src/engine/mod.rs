//! How the SQL functions work: access to entities, filters, and pages. It is the storey between `api` and `storage`.

pub mod attempts;
pub mod batch;
pub mod bulk;
pub mod change_feed;
pub mod deadline;
pub mod distribution;
pub mod explain;
pub mod fan_out;
pub mod feed_messages;
pub mod feed_notes;
pub mod gateway_access;
pub mod inlining;
pub mod matches;
pub mod page;
pub mod policies;
pub mod property_index;
pub mod rewrite;
pub mod scan;
pub mod sweep;
pub mod write;
pub mod write_group;
