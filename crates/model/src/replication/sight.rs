//! What servers say of themselves.

use super::notes::Note;
use super::{Line, Position};

/// What a server says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    pub line: Line,
    pub role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It takes writes. What it had acknowledged at the note's moment is before the note's position.
    Primary(Note),
    /// It is in recovery, and has replayed the log up to here.
    Standby(Position),
}
