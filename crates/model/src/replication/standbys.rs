//! Which standbys serve reads, and the moment up to which all that was acknowledged is visible there.

use super::{Note, Notes, Role, ServerStatus, Timeline};
use crate::Lsn;

/// The answer of the secondary endpoint about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Writes that were acknowledged before this second are visible, in seconds since 1970.
    Live(i64),
    /// The standbys follow, but their positions are not known yet.
    Bootstrap,
    Unavailable,
}

/// Why a standby does not serve reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// It cannot be reached or used.
    Away,
    /// Nothing is known of the primary that it should follow.
    PrimaryUnknown,
    NotAStandby,
    /// It is a copy of another primary.
    OtherSystem,
    OtherTimeline {
        own: u32,
        primary: u32,
    },
    /// It has not replayed any note yet, so its moment is not known.
    NoMomentYet,
    /// It is behind the last answer.
    CatchingUp,
    /// It is further behind than `max_staleness` allows.
    TooFarBehind,
}

/// The standbys of one primary.
#[derive(Debug, Clone)]
pub struct Standbys {
    timeline: Option<Timeline>,
    notes: Notes,
    /// The last answer.
    answered: Option<Note>,
    standbys: Vec<Standby>,
    /// In microseconds.
    max_staleness: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
struct Standby {
    status: Option<ServerStatus>,
    state: Result<Note, Problem>,
}

impl Standbys {
    /// Makes the state of so many standbys. Nothing is known of them yet.
    #[must_use]
    pub fn new(count: usize, max_staleness: Option<i64>) -> Standbys {
        let unseen = Standby {
            status: None,
            state: Err(Problem::Away),
        };
        Standbys {
            timeline: None,
            notes: Notes::default(),
            answered: None,
            standbys: vec![unseen; count],
            max_staleness,
        }
    }

    /// Takes the answer of the primary. A new timeline of history begins anew: positions that standbys have replayed of
    /// another timeline say nothing about it.
    pub fn primary(&mut self, timeline: Timeline, note: Note) {
        if self.timeline != Some(timeline) {
            self.timeline = Some(timeline);
            self.notes = Notes::default();
            self.answered = None;
            for standby in &mut self.standbys {
                standby.state = Err(Problem::NoMomentYet);
            }
        }
        self.notes.take(note);
        for index in 0..self.standbys.len() {
            self.judge(index);
        }
    }

    /// Takes the status of a standby; `None` if it cannot be reached or used.
    pub fn standby(&mut self, index: usize, status: Option<ServerStatus>) {
        if let Some(standby) = self.standbys.get_mut(index) {
            standby.status = status;
        }
        self.judge(index);
    }

    /// Returns whether a standby serves reads, and the last note that it has replayed.
    pub fn state(&self, index: usize) -> Result<Note, Problem> {
        self.standbys
            .get(index)
            .map_or(Err(Problem::Away), |standby| standby.state)
    }

    /// Returns how far a standby is behind the primary, as far as both are known, in microseconds.
    #[must_use]
    pub fn behind(&self, index: usize) -> Option<i64> {
        let newest = self.notes.newest()?;
        let replayed = self.replayed(self.standbys.get(index)?.status?).ok()?;
        let note = self.notes.latest_before(replayed)?;
        Some(newest.clock.saturating_sub(note.clock))
    }

    /// Returns the last note that the server of a connection has replayed, if the server may serve a read. `status` is
    /// its answer over that connection: one name may lead to several servers, and the answer of one says nothing of the
    /// others. Call this when the read begins: then the read sees all writes that were acknowledged before any answer
    /// given until then, because the replay of a server never goes back as long as its connections last.
    pub fn admits(&self, status: ServerStatus) -> Result<Note, Problem> {
        let replayed = self.replayed(status)?;
        let note = self.notes.latest_before(replayed).ok_or(Problem::NoMomentYet)?;
        let is_behind_answer = self.answered.is_some_and(|answered| replayed < answered.position);
        if is_behind_answer {
            return Err(Problem::CatchingUp);
        }
        let newest = self.notes.newest().map_or(note.clock, |newest| newest.clock);
        match self.max_staleness {
            Some(limit) if newest.saturating_sub(note.clock) > limit => Err(Problem::TooFarBehind),
            _ => Ok(note),
        }
    }

    /// Returns the answer of the secondary endpoint now. A later answer is not before it, as long as the primary stays.
    pub fn answer(&mut self) -> Answer {
        let answer = self.peek();
        if let Answer::Live(_) = answer {
            let furthest = self.furthest();
            self.answered = self.answered.into_iter().chain(furthest).max_by_key(|note| note.clock);
        }
        answer
    }

    /// Returns the same, without a promise that later answers are not before it.
    #[must_use]
    pub fn peek(&self) -> Answer {
        let latest = self
            .furthest()
            .map(|furthest| furthest.clock.max(self.answered.map_or(i64::MIN, |note| note.clock)));
        let begins = || {
            let mut states = self.standbys.iter().map(|standby| standby.state);
            states.any(|state| state == Err(Problem::NoMomentYet))
        };
        match latest {
            Some(clock) => Answer::Live(clock.div_euclid(1_000_000)),
            None if begins() => Answer::Bootstrap,
            None => Answer::Unavailable,
        }
    }

    /// Returns the note of the standby that is furthest behind, of those that serve reads.
    fn furthest(&self) -> Option<Note> {
        let serving = self.standbys.iter().filter_map(|standby| standby.state.ok());
        serving.min_by_key(|note| note.position)
    }

    /// Returns how far a server has replayed the log of the primary.
    fn replayed(&self, status: ServerStatus) -> Result<Lsn, Problem> {
        let Role::Standby(replayed) = status.role else {
            return Err(Problem::NotAStandby);
        };
        let timeline = self.timeline.ok_or(Problem::PrimaryUnknown)?;
        if status.timeline.system != timeline.system {
            return Err(Problem::OtherSystem);
        }
        if status.timeline.number != timeline.number {
            return Err(Problem::OtherTimeline {
                own: status.timeline.number,
                primary: timeline.number,
            });
        }
        Ok(replayed)
    }

    fn judge(&mut self, index: usize) {
        let Some(standby) = self.standbys.get(index).copied() else {
            return;
        };
        let state = standby
            .status
            .ok_or(Problem::Away)
            .and_then(|status| self.admits(status));
        if let Some(standby) = self.standbys.get_mut(index) {
            standby.state = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const TIMELINE: Timeline = Timeline { system: 7, number: 1 };

    fn note(second: i64, position: u64) -> Note {
        Note {
            clock: second * SECOND,
            position: Lsn(position),
        }
    }

    fn at(position: u64) -> Option<ServerStatus> {
        on(TIMELINE, position)
    }

    fn on(timeline: Timeline, position: u64) -> Option<ServerStatus> {
        Some(ServerStatus {
            timeline,
            role: Role::Standby(Lsn(position)),
        })
    }

    #[test]
    fn the_one_furthest_behind_of_those_that_serve_counts() {
        let mut all = Standbys::new(2, None);
        assert_eq!(all.answer(), Answer::Unavailable);
        all.standby(0, at(10));
        assert_eq!(all.state(0), Err(Problem::PrimaryUnknown));
        all.primary(TIMELINE, note(1, 20));
        assert_eq!(all.answer(), Answer::Bootstrap);
        all.primary(TIMELINE, note(2, 30));
        all.standby(0, at(30));
        all.standby(1, at(25));
        assert_eq!(all.answer(), Answer::Live(1));
        assert_eq!((all.behind(0), all.behind(1)), (Some(0), Some(SECOND)));
        all.standby(1, None);
        assert_eq!(all.answer(), Answer::Live(2));
        // It comes back, but only when it has replayed the note of the answer.
        all.standby(1, at(29));
        assert_eq!(all.state(1), Err(Problem::CatchingUp));
        assert_eq!(all.answer(), Answer::Live(2));
        all.standby(1, at(30));
        assert_eq!(all.state(1), Ok(note(2, 30)));
        all.standby(0, None);
        all.standby(1, None);
        assert_eq!(all.answer(), Answer::Unavailable);
    }

    #[test]
    fn what_nobody_was_told_keeps_nobody_out() {
        let mut all = Standbys::new(2, None);
        all.primary(TIMELINE, note(1, 20));
        all.primary(TIMELINE, note(2, 30));
        all.standby(0, at(30));
        assert_eq!(all.peek(), Answer::Live(2));
        all.standby(1, at(20));
        assert_eq!(all.state(1), Ok(note(1, 20)));
        assert_eq!(all.answer(), Answer::Live(1));
    }

    #[test]
    fn a_promotion_begins_anew() {
        let mut all = Standbys::new(2, None);
        all.primary(TIMELINE, note(1, 20));
        all.standby(0, at(20));
        all.standby(1, at(20));
        assert_eq!(all.answer(), Answer::Live(1));
        let next = Timeline { number: 2, ..TIMELINE };
        all.primary(next, note(0, 25));
        let old = Problem::OtherTimeline { own: 1, primary: 2 };
        assert_eq!((all.state(0), all.state(1)), (Err(old), Err(old)));
        assert_eq!(all.answer(), Answer::Unavailable);
        // A standby that has stayed on the old timeline replays no note of the new one, however far it comes.
        all.standby(0, at(1000));
        assert_eq!(all.state(0), Err(old));
        all.standby(1, on(next, 22));
        assert_eq!(all.answer(), Answer::Bootstrap);
        all.standby(1, on(next, 25));
        assert_eq!(all.answer(), Answer::Live(0));
        all.standby(0, on(Timeline { system: 8, ..next }, 1000));
        assert_eq!(all.state(0), Err(Problem::OtherSystem));
        let promoted = ServerStatus {
            timeline: next,
            role: Role::Primary(note(3, 30)),
        };
        all.standby(0, Some(promoted));
        assert_eq!(all.state(0), Err(Problem::NotAStandby));
    }

    #[test]
    fn notes_of_an_old_timeline_say_nothing_of_a_new_one() {
        let mut all = Standbys::new(1, None);
        all.primary(TIMELINE, note(1, 20));
        let next = Timeline { number: 2, ..TIMELINE };
        all.primary(next, note(5, 25));
        all.standby(0, on(next, 22));
        assert_eq!(all.state(0), Err(Problem::NoMomentYet));
    }

    #[test]
    fn one_that_is_too_far_behind_is_taken_out_as_long_as_it_is() {
        let mut all = Standbys::new(1, Some(2 * SECOND));
        all.primary(TIMELINE, note(1, 10));
        all.standby(0, at(10));
        all.primary(TIMELINE, note(3, 30));
        assert_eq!(all.answer(), Answer::Live(1));
        all.primary(TIMELINE, note(4, 40));
        assert_eq!(all.state(0), Err(Problem::TooFarBehind));
        assert_eq!(all.answer(), Answer::Unavailable);
        all.standby(0, at(30));
        assert_eq!(all.answer(), Answer::Live(3));
    }

    #[test]
    fn a_connection_is_judged_by_its_own_server() {
        let mut all = Standbys::new(1, Some(2 * SECOND));
        let status = |position| at(position).unwrap();
        assert_eq!(all.admits(status(10)), Err(Problem::PrimaryUnknown));
        all.primary(TIMELINE, note(1, 10));
        all.primary(TIMELINE, note(2, 20));
        all.standby(0, at(25));
        // Another server behind the same name. Nobody was told of more than it has.
        assert_eq!(all.admits(status(9)), Err(Problem::NoMomentYet));
        assert_eq!(all.admits(status(10)), Ok(note(1, 10)));
        assert_eq!(all.answer(), Answer::Live(2));
        assert_eq!(all.admits(status(19)), Err(Problem::CatchingUp));
        assert_eq!(all.admits(status(20)), Ok(note(2, 20)));
        all.primary(TIMELINE, note(5, 50));
        assert_eq!(all.admits(status(49)), Err(Problem::TooFarBehind));
        let other = Timeline { number: 2, ..TIMELINE };
        let refused = all.admits(on(other, 50).unwrap());
        assert_eq!(refused, Err(Problem::OtherTimeline { own: 2, primary: 1 }));
        // A standby that was promoted takes writes of its own.
        let promoted = ServerStatus {
            timeline: TIMELINE,
            role: Role::Primary(note(5, 50)),
        };
        assert_eq!(all.admits(promoted), Err(Problem::NotAStandby));
    }

    #[test]
    fn a_clock_that_is_set_back_takes_no_answer_back() {
        let mut all = Standbys::new(1, None);
        all.primary(TIMELINE, note(10, 10));
        all.standby(0, at(10));
        assert_eq!(all.answer(), Answer::Live(10));
        all.primary(TIMELINE, note(5, 20));
        all.standby(0, at(20));
        assert_eq!(all.answer(), Answer::Live(10));
        all.primary(TIMELINE, note(11, 30));
        all.standby(0, at(30));
        assert_eq!(all.answer(), Answer::Live(11));
    }
}
