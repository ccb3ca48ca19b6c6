//! The order in which the tables of a database are swept, and the beginning of each sweep.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The time after which a sweep of a table begins at the beginning again, and not at the end of the last sweep. It finds entities that
/// were locked then, or had expired when they were written. Beside a long transaction, each such sweep reads past all entities that
/// were removed since that began.
const FULL: Duration = Duration::from_secs(60);

/// The rounds of one database. Each round visits all tables and begins behind the last table of the round before, so that every table
/// is visited, however long the visits of others take.
#[derive(Default)]
pub struct Rounds {
    tables: BTreeMap<String, Table>,
    /// The visits that are left in this round.
    waiting: VecDeque<Visit>,
    /// The last table.
    last: Option<String>,
}

#[derive(Default)]
struct Table {
    /// The furthest end of a sweep.
    since: Option<SystemTime>,
    /// The moment when the last sweep from the beginning began.
    full: Option<Instant>,
}

/// A visit of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct Visit {
    pub table: String,
    /// The beginning of the sweep; `None` is that of the table.
    pub from: Option<SystemTime>,
}

impl Rounds {
    /// Begins a round with the tables that there are now.
    pub fn begin(&mut self, mut names: Vec<String>) {
        self.tables.retain(|table, _| names.contains(table));
        names.sort();
        // A table with several indexes is named for each.
        names.dedup();
        let behind = names.partition_point(|name| self.last.as_ref().is_some_and(|last| name <= last));
        names.rotate_left(behind);
        self.waiting = names.into_iter().map(|table| Visit { table, from: None }).collect();
    }

    /// Returns the next visit of this round.
    pub fn next(&mut self, now: Instant) -> Option<Visit> {
        let mut visit = self.waiting.pop_front()?;
        self.last = Some(visit.table.clone());
        let table = self.tables.entry(visit.table.clone()).or_default();
        if visit.from.is_none() && table.full.is_some_and(|full| now.duration_since(full) < FULL) {
            visit.from = table.since;
        } else if visit.from.is_none() {
            table.full = Some(now);
        }
        Some(visit)
    }

    /// Takes the end of a sweep. If entities are left, the table is visited again behind the others.
    pub fn swept(&mut self, table: String, oldest: Option<SystemTime>, is_left: bool) {
        if let Some(known) = self.tables.get_mut(&table) {
            // A sweep from the beginning may end early.
            known.since = known.since.max(oldest);
        }
        if is_left {
            self.waiting.push_back(Visit { table, from: oldest });
        }
    }

    /// Returns whether tables wait for a visit in this round.
    pub fn is_unfinished(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &str) -> Vec<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    fn moment(seconds: u64) -> Option<SystemTime> {
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    /// Returns the tables of the next visits.
    fn visits(rounds: &mut Rounds, number: usize) -> Vec<String> {
        (0..number)
            .filter_map(|_| rounds.next(Instant::now()))
            .map(|visit| visit.table)
            .collect()
    }

    #[test]
    fn a_round_begins_where_the_last_one_ended() {
        let mut rounds = Rounds::default();
        rounds.begin(names("c a d a b"));
        assert_eq!(visits(&mut rounds, 2), ["a", "b"]);
        assert!(rounds.is_unfinished());
        rounds.begin(names("d c b a"));
        assert_eq!(visits(&mut rounds, 9), ["c", "d", "a", "b"]);
        assert!(!rounds.is_unfinished());
        // Also if the table is gone that was the last one.
        rounds.begin(names("a c d"));
        assert_eq!(visits(&mut rounds, 1), ["c"]);
        rounds.begin(names("a b"));
        assert_eq!(visits(&mut rounds, 2), ["a", "b"]);
        rounds.begin(Vec::new());
        assert_eq!(rounds.next(Instant::now()), None);
    }

    #[test]
    fn tables_that_take_their_whole_share_keep_no_other_waiting() {
        let mut rounds = Rounds::default();
        let mut swept = Vec::new();
        // Of twelve tables eleven take so long that a round has time for three.
        for _ in 0..4 {
            rounds.begin(('a'..='l').map(String::from).collect());
            swept.extend(visits(&mut rounds, 3));
        }
        assert_eq!(swept, ('a'..='l').map(String::from).collect::<Vec<_>>());
    }

    #[test]
    fn each_table_goes_on_where_its_own_sweep_has_ended() {
        let (mut rounds, start) = (Rounds::default(), Instant::now());
        let visit = |table: &str, from| {
            Some(Visit {
                table: table.to_owned(),
                from,
            })
        };
        rounds.begin(names("a b c"));
        assert_eq!(rounds.next(start), visit("a", None));
        rounds.swept("a".to_owned(), moment(10), true);
        assert_eq!(rounds.next(start), visit("b", None));
        rounds.swept("b".to_owned(), moment(70), false);
        // This one had no result.
        assert_eq!(rounds.next(start), visit("c", None));
        assert_eq!(rounds.next(start), visit("a", moment(10)));
        rounds.swept("a".to_owned(), moment(20), false);
        assert_eq!(rounds.next(start), None);

        rounds.begin(names("a b c"));
        let soon = start + FULL / 2;
        assert_eq!(rounds.next(soon), visit("b", moment(70)));
        assert_eq!(rounds.next(soon), visit("c", None));
        assert_eq!(rounds.next(soon), visit("a", moment(20)));

        // A sweep from the beginning that ends early is continued, and the known moments stay.
        rounds.begin(names("a"));
        let later = start + FULL;
        assert_eq!(rounds.next(later), visit("a", None));
        rounds.swept("a".to_owned(), moment(5), true);
        assert_eq!(rounds.next(later), visit("a", moment(5)));
        rounds.begin(names("a"));
        assert_eq!(rounds.next(later), visit("a", moment(20)));

        // A table that is dropped is forgotten, and so is where its sweep has ended.
        rounds.begin(names("b"));
        rounds.begin(names("a"));
        assert_eq!(rounds.next(later), visit("a", None));
    }
}
