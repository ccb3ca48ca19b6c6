//! Work that no request asks for.

pub mod feed_watch;
pub mod sweeper;
