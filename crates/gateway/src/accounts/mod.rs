//! The accounts, and how their clients prove that they are theirs.

pub mod auth;
pub mod bearer;
pub mod cors;
pub mod tenant;
