//! The attempts of a batch: the reasons for another attempt, and the rule for the last one.
//!
//! Other sessions write meanwhile, and each statement has its own snapshot. So an attempt can fail where the batch
//! would not. The next attempt uses its findings. Attempts are limited if a policy or a trigger can be the cause.

use super::Operation;
use crate::Error;

/// The index of an operation, and the Timestamp of the entity that it found.
pub type Version = (usize, i64);

/// Why an attempt is undone, and another one made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// These versions were found, but could not be locked or written: the entities were deleted and inserted again meanwhile, or the locks
    /// did not last. Only a new attempt can lock them in key order.
    Moved(Vec<Version>),
    /// An insert wrote a Timestamp that is not later than this one, which an earlier version of the entity has.
    Late(i64),
    /// The operation with this index failed, but would not fail any more.
    Outdated(usize),
}

/// How often an attempt is made again because one operation failed that would not fail any more.
const OUTDATED: usize = 3;

/// The findings of the attempts so far.
#[derive(Debug)]
pub struct Attempts {
    is_undoable: bool,
    has_one_state: bool,
    /// The versions that the last attempt found, but could not lock or write.
    seen: Vec<Version>,
    /// The latest Timestamp of an earlier version.
    latest: Option<i64>,
    /// The operation that failed in the last attempts, but would not fail any more; and how many attempts that were.
    outdated: Option<(usize, usize)>,
}

impl Attempts {
    /// Returns the state before the first attempt. `expires` says whether entities of the table may expire, `has_room` whether the
    /// transaction has room for subtransactions, and `is_needed` whether the table does not let a Timestamp be written again in place.
    ///
    /// Operations on existing entities may need another attempt. Others need one so that a refused batch names the first operation that
    /// fails, or for a later Timestamp.
    #[must_use]
    pub fn new(
        operations: &[Operation<'_>],
        expires: bool,
        has_room: bool,
        is_needed: impl FnOnce() -> bool,
    ) -> Attempts {
        let is_conditional = |operation: &Operation<'_>| operation.action.is_conditional();
        let is_one = operations.len() == 1;
        Attempts {
            is_undoable: operations.iter().any(is_conditional) || expires || (!is_one && has_room) || is_needed(),
            // A single operation failed in a real state. But it may have waited until an old entity had expired.
            has_one_state: is_one && !expires,
            seen: Vec::new(),
            latest: None,
            outdated: None,
        }
    }

    /// Returns whether each attempt must run so that it can be undone, with its locks.
    #[must_use]
    pub fn are_undoable(&self) -> bool {
        self.is_undoable
    }

    /// Returns the Timestamp that new ones must follow, if there is one.
    #[must_use]
    pub fn latest(&self) -> Option<i64> {
        self.latest
    }

    /// Takes in why an attempt was undone.
    pub fn undo(&mut self, undone: Undone) {
        match undone {
            Undone::Moved(versions) => self.seen = versions,
            Undone::Late(latest) => self.latest = self.latest.max(Some(latest)),
            Undone::Outdated(index) => {
                let before = self.outdated.filter(|(before, _)| *before == index);
                self.outdated = Some((index, before.map_or(1, |(_, attempts)| attempts + 1)));
            }
        }
    }

    /// Returns whether the last attempt found the same version, and could not lock or write it either. Then no concurrent write is the
    /// cause.
    #[must_use]
    pub fn have_seen(&self, version: Version) -> bool {
        self.seen.contains(&version)
    }

    /// Returns whether there is no further attempt because of this operation.
    #[must_use]
    pub fn are_over(&self, index: usize) -> bool {
        self.outdated
            .is_some_and(|(before, attempts)| before == index && attempts >= OUTDATED)
    }

    /// Returns whether a look at the entity must find that it exists, for this failure of an operation to be the
    /// batch's. `None` says that the failure is final.
    ///
    /// All operations with a lower index have succeeded, and hold their locks, so they would also succeed now. So if
    /// this one fails now, it is the first one that fails in a state that is real.
    #[must_use]
    pub fn in_doubt(&self, index: usize, error: &Error) -> Option<bool> {
        let exists = match error {
            Error::EntityAlreadyExists => true,
            Error::EntityNotFound => false,
            // The entity is locked, so nothing has changed.
            _ => return None,
        };
        (self.is_undoable && !self.has_one_state && !self.are_over(index)).then_some(exists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Dialect;

    fn operations(actions: &[&'static str]) -> Vec<Operation<'static>> {
        let bag = crate::Properties::from_stored(&[]);
        let operation = |action: &&'static str| {
            let if_match = matches!(*action, "merge" | "delete").then_some("*");
            Operation::new(Some(action), Some("r"), Some(bag), if_match, Dialect::Service).unwrap()
        };
        actions.iter().map(operation).collect()
    }

    fn several() -> Attempts {
        Attempts::new(&operations(&["insert", "merge"]), false, true, || false)
    }

    #[test]
    fn an_attempt_can_be_undone_if_another_may_be_needed() {
        let are_undoable = |actions: &[&'static str], expires, has_room, is_needed| {
            Attempts::new(&operations(actions), expires, has_room, || is_needed).are_undoable()
        };
        assert!(!are_undoable(&["insert"], false, true, false));
        assert!(!are_undoable(&["insert", "insert"], false, false, false));
        assert!(are_undoable(&["insert", "insert"], false, true, false));
        assert!(are_undoable(&["delete"], false, false, false));
        assert!(are_undoable(&["insert"], true, false, false));
        assert!(are_undoable(&["insert"], false, false, true));
    }

    #[test]
    fn only_failures_of_what_may_have_changed_are_in_doubt() {
        assert_eq!(several().in_doubt(0, &Error::EntityAlreadyExists), Some(true));
        assert_eq!(several().in_doubt(1, &Error::EntityNotFound), Some(false));
        assert_eq!(several().in_doubt(1, &Error::UpdateConditionNotSatisfied), None);
        // Without a subtransaction there is no other attempt.
        let fixed = Attempts::new(&operations(&["insert", "insert"]), false, false, || false);
        assert_eq!(fixed.in_doubt(0, &Error::EntityAlreadyExists), None);
        let one = |expires| Attempts::new(&operations(&["delete"]), expires, true, || false);
        assert_eq!(one(false).in_doubt(0, &Error::EntityNotFound), None);
        assert_eq!(one(true).in_doubt(0, &Error::EntityNotFound), Some(false));
    }

    #[test]
    fn an_operation_that_never_fails_when_one_looks_fails_in_the_end() {
        let mut attempts = several();
        let mut made = 1;
        while attempts.in_doubt(1, &Error::EntityNotFound).is_some() {
            assert!(!attempts.are_over(1));
            attempts.undo(Undone::Outdated(1));
            made += 1;
        }
        assert_eq!(made, 1 + OUTDATED);
        assert!(attempts.are_over(1) && !attempts.are_over(0));
        // Another one has its own attempts, and then the first one has them again.
        attempts.undo(Undone::Outdated(0));
        assert!(attempts.in_doubt(0, &Error::EntityNotFound).is_some());
        assert!(attempts.in_doubt(1, &Error::EntityNotFound).is_some());
    }

    #[test]
    fn a_version_counts_if_the_last_attempt_found_it() {
        let mut attempts = several();
        assert!(!attempts.have_seen((0, 7)));
        attempts.undo(Undone::Moved(vec![(0, 7), (1, 8)]));
        assert!(attempts.have_seen((1, 8)) && !attempts.have_seen((1, 7)));
        attempts.undo(Undone::Late(3));
        assert!(attempts.have_seen((0, 7)));
        attempts.undo(Undone::Moved(vec![(1, 9)]));
        assert!(attempts.have_seen((1, 9)) && !attempts.have_seen((1, 8)) && !attempts.have_seen((0, 7)));
    }

    #[test]
    fn new_timestamps_follow_the_latest_that_was_found() {
        let mut attempts = several();
        assert_eq!(attempts.latest(), None);
        for (found, latest) in [(5, 5), (3, 5), (9, 9)] {
            attempts.undo(Undone::Late(found));
            assert_eq!(attempts.latest(), Some(latest));
        }
    }
}
