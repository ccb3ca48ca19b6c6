//! The limits that requests share: permits, memory, and the threads.

pub mod blocking;
pub mod buffer;
pub mod needs;
pub mod shares;
