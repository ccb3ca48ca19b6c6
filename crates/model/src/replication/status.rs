//! The answers of servers about themselves.

use super::Timeline;
use super::notes::Note;
use crate::Lsn;

/// The answer of a server about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerStatus {
    pub timeline: Timeline,
    pub role: Role,
}

/// The part of a server in replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It takes writes. Transactions that it had acknowledged at the note's moment are before the note's position.
    Primary(Note),
    /// It is in recovery, and has replayed the log up to here.
    Standby(Lsn),
}
