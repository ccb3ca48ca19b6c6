//! Counts of entities: how many there were, and how many were written, skipped, deleted or rejected, for example.

use std::ops::AddAssign;

use serde::Serialize;

use super::record::Reject;

/// Counts of entities. Each program fills those that it can say.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// Those that were looked at.
    pub read: u64,
    /// Those that the target has now because of it.
    pub written: u64,
    /// Written with another Timestamp than the source has. A source may have none.
    pub new_timestamps: u64,
    /// The target has kept its own.
    pub skipped: u64,
    /// Those that are gone because of it.
    pub deleted: u64,
    /// Somebody else has deleted them.
    pub gone: u64,
    /// Somebody else has written them meanwhile, and they stay.
    pub changed: u64,
    /// They were as they are to be.
    pub left: u64,
    /// Those that could not be written or deleted, but for the next ones.
    pub rejected: u64,
    /// Such entities, and why.
    #[serde(skip)]
    pub rejects: Vec<Reject>,
}

impl Outcome {
    /// Zeros, except for the counts that `set` sets.
    pub fn of(set: impl FnOnce(&mut Outcome)) -> Outcome {
        let mut outcome = Outcome::default();
        set(&mut outcome);
        outcome
    }

    /// Adds the counts of another one. Its rejects are only counted.
    pub fn count(&mut self, other: &Outcome) {
        self.read += other.read;
        self.written += other.written;
        self.new_timestamps += other.new_timestamps;
        self.skipped += other.skipped;
        self.deleted += other.deleted;
        self.gone += other.gone;
        self.changed += other.changed;
        self.left += other.left;
        self.rejected += other.rejected + other.rejects.len() as u64;
    }
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, mut other: Outcome) {
        self.rejects.append(&mut other.rejects);
        self.count(&other);
    }
}
