//! Notes of the positions that a primary had at which moments.

use std::collections::VecDeque;

use crate::Lsn;

/// The most notes that are kept: with one each second, those of half a day one by one, and earlier ones with growing gaps.
const MOST: usize = 65_536;

/// A moment and a position of a primary. Transactions that it had acknowledged at the moment are before the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The primary's clock, read before the position, in microseconds since 1970.
    pub clock: i64,
    pub position: Lsn,
}

/// The notes of one timeline of history. Both clocks and positions rise.
#[derive(Debug, Clone, Default)]
pub struct Notes(VecDeque<Note>);

impl Notes {
    /// Takes the newest note. Earlier ones with a later clock are not true any more, because the clock was set back: writes may be
    /// acknowledged after them at a moment that is before theirs.
    pub fn take(&mut self, note: Note) {
        while self
            .0
            .back()
            .is_some_and(|last| last.clock >= note.clock || last.position >= note.position)
        {
            self.0.pop_back();
        }
        self.0.push_back(note);
        if self.0.len() > MOST {
            self.thin_out();
        }
    }

    /// Returns the latest note at or before a replayed position.
    #[must_use]
    pub fn latest_before(&self, replayed: Lsn) -> Option<Note> {
        let count = self.0.partition_point(|note| note.position <= replayed);
        self.0.get(count.checked_sub(1)?).copied()
    }

    /// Returns the newest note.
    #[must_use]
    pub fn newest(&self) -> Option<Note> {
        self.0.back().copied()
    }

    /// Drops every second note of the earlier half. A standby at a dropped note seems to be further behind.
    fn thin_out(&mut self) {
        let half = self.0.len() / 2;
        let mut index = 0;
        self.0.retain(|_| {
            index += 1;
            index > half || index % 2 == 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(clock: i64, position: u64) -> Note {
        Note {
            clock,
            position: Lsn(position),
        }
    }

    fn notes(all: &[(i64, u64)]) -> Notes {
        let mut notes = Notes::default();
        for &(clock, position) in all {
            notes.take(note(clock, position));
        }
        notes
    }

    #[test]
    fn the_latest_note_that_was_replayed_counts() {
        let notes = notes(&[(1, 10), (2, 20), (3, 30)]);
        assert_eq!(notes.latest_before(Lsn(9)), None);
        assert_eq!(notes.latest_before(Lsn(10)), Some(note(1, 10)));
        assert_eq!(notes.latest_before(Lsn(29)), Some(note(2, 20)));
        assert_eq!(notes.latest_before(Lsn(u64::MAX)), Some(note(3, 30)));
    }

    #[test]
    fn an_idle_primary_has_one_note_that_gets_later() {
        let notes = notes(&[(1, 10), (2, 20), (3, 20), (4, 20)]);
        assert_eq!(notes.latest_before(Lsn(20)), Some(note(4, 20)));
        assert_eq!(notes.0.len(), 2);
    }

    #[test]
    fn a_clock_that_is_set_back_takes_later_notes_away() {
        let notes = notes(&[(1, 10), (5, 20), (9, 30), (4, 40)]);
        assert_eq!(notes.latest_before(Lsn(35)), Some(note(1, 10)));
        assert_eq!(notes.latest_before(Lsn(40)), Some(note(4, 40)));
    }

    #[test]
    fn earlier_notes_are_thinned_out() {
        let mut notes = Notes::default();
        let count = 3 * MOST as u64;
        for number in 0..count {
            notes.take(note(number as i64, number * 10));
        }
        assert!(notes.0.len() <= MOST);
        for replayed in (0..count * 10).step_by(9973) {
            let found = notes.latest_before(Lsn(replayed)).unwrap();
            assert!(found.position.0 <= replayed);
            assert!(replayed - found.position.0 < 1000 || replayed < count * 5);
        }
    }
}
