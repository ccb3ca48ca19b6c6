//! Point reads of several requests that go to PostgreSQL together.
//!
//! To wake a process of PostgreSQL, and to be woken by its answer, takes longer than to read an entity. So reads that come
//! while others are under way wait for a moment, and then form a group: one of them leads it, and gives it a connection, over
//! which all of them are sent at once. Each read is still a statement of its own, with its own transaction, moment and error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;

use super::error::Diagnosis;

/// How many reads a group has at most. One process of PostgreSQL executes them one after the other.
const GROUP: usize = 16;
/// How many groups are under way before a read waits. While PostgreSQL executes one, the gateway prepares another.
const UNDER_WAY: usize = 2;
/// Groups that began longer ago are not waited for. They wait for a disk or a lock themselves.
const SHORT: Duration = Duration::from_micros(300);
/// How long a read waits for its answer. Then it goes alone, because another read of its group may wait for a lock.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// How long a group has its connection. It is longer than [`PATIENCE`], because to close a connection and to make another one
/// costs a server that is only slow more than to finish a few reads that nobody waits for.
pub const GROUP_TIME: Duration = Duration::from_secs(1);

/// Table, PartitionKey and RowKey of an entity.
pub type EntityAddress<'k> = [&'k str; 3];

/// The point reads of an account.
#[derive(Default)]
pub struct GroupedReads(Mutex<Reads>);

#[derive(Default)]
struct Reads {
    waiting: VecDeque<WaitingRead>,
    /// When the groups that are under way began, each with its number.
    groups: Vec<(u64, Instant)>,
    /// How many groups there were.
    count: u64,
}

/// A read that waits.
pub struct WaitingRead {
    pub keys: [String; 3],
    pub outcome: oneshot::Sender<GroupedAnswer>,
}

/// What a read that waits gets.
pub enum GroupedAnswer {
    Answer(Result<Vec<Row>, Diagnosis>),
    Turn(Turn),
}

/// The right to lead a group. When it is dropped, the group has ended, and the read that has waited longest leads the next one.
pub struct Turn {
    all: Arc<GroupedReads>,
    number: u64,
}

/// How a read begins.
pub enum Begin {
    Lead(Turn),
    Wait(oneshot::Receiver<GroupedAnswer>),
}

impl GroupedReads {
    pub fn begin(self: &Arc<Self>, keys: EntityAddress<'_>) -> Begin {
        let mut reads = self.reads();
        let now = Instant::now();
        let short = reads.groups.iter().filter(|(_, begun)| now - *begun < SHORT);
        if short.count() < UNDER_WAY {
            return Begin::Lead(reads.turn(self.clone(), now));
        }
        let (sender, receiver) = oneshot::channel();
        reads.waiting.push_back(WaitingRead {
            keys: keys.map(str::to_owned),
            outcome: sender,
        });
        Begin::Wait(receiver)
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reads {
    /// Begins a group.
    fn turn(&mut self, all: Arc<GroupedReads>, now: Instant) -> Turn {
        let number = self.count;
        self.count += 1;
        self.groups.push((number, now));
        Turn { all, number }
    }

    /// The read that has waited longest. Those that do not wait any more are left out.
    fn next(&mut self) -> Option<WaitingRead> {
        loop {
            let next = self.waiting.pop_front()?;
            if !next.outcome.is_closed() {
                return Some(next);
            }
        }
    }
}

impl Turn {
    /// The other reads of the group.
    pub fn others(&self) -> Vec<WaitingRead> {
        let mut reads = self.all.reads();
        std::iter::from_fn(|| reads.next()).take(GROUP - 1).collect()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut reads = self.all.reads();
        reads.groups.retain(|(number, _)| *number != self.number);
        let Some(next) = reads.next() else { return };
        let turn = reads.turn(self.all.clone(), Instant::now());
        drop(reads);
        // If the read has just ended, its turn is dropped here, and the one after it gets one.
        drop(next.outcome.send(GroupedAnswer::Turn(turn)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(all: &Arc<GroupedReads>, row_key: &str) -> Begin {
        all.begin(["Things", "p", row_key])
    }

    fn lead(all: &Arc<GroupedReads>) -> Turn {
        match begin(all, "leader") {
            Begin::Lead(turn) => turn,
            Begin::Wait(_) => panic!("it waits"),
        }
    }

    fn wait(all: &Arc<GroupedReads>, row_key: &str) -> oneshot::Receiver<GroupedAnswer> {
        match begin(all, row_key) {
            Begin::Wait(outcome) => outcome,
            Begin::Lead(_) => panic!("it leads"),
        }
    }

    fn row_keys(others: &[WaitingRead]) -> Vec<&str> {
        others.iter().map(|waiting| waiting.keys[2].as_str()).collect()
    }

    fn turn(outcome: &mut oneshot::Receiver<GroupedAnswer>) -> Turn {
        match outcome.try_recv() {
            Ok(GroupedAnswer::Turn(turn)) => turn,
            _ => panic!("it has no turn"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reads_wait_while_groups_are_under_way_and_then_form_one() {
        let all = Arc::new(GroupedReads::default());
        let (first, second) = (lead(&all), lead(&all));
        assert!(first.others().is_empty());
        let mut waiting: Vec<_> = (0..20).map(|number| wait(&all, &number.to_string())).collect();
        drop(second);
        let third = turn(&mut waiting[0]);
        let others = third.others();
        assert_eq!(row_keys(&others), (1..16).map(|n| n.to_string()).collect::<Vec<_>>());
        drop(first);
        assert_eq!(row_keys(&turn(&mut waiting[16]).others()), ["17", "18", "19"]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_groups_that_take_long() {
        let all = Arc::new(GroupedReads::default());
        let _long = [lead(&all), lead(&all)];
        let _waiting = wait(&all, "waiting");
        tokio::time::advance(SHORT).await;
        let short = lead(&all);
        assert_eq!(row_keys(&short.others()), ["waiting"]);
        drop(short);
        let _short = [lead(&all), lead(&all)];
        wait(&all, "waits for these");
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_not_lost_when_reads_end() {
        let all = Arc::new(GroupedReads::default());
        let turns = [lead(&all), lead(&all)];
        let ended = wait(&all, "ended");
        let mut next = wait(&all, "next");
        let ended_later = wait(&all, "ended later");
        drop(ended);
        drop(turns);
        let led = turn(&mut next);
        // It got the other turn, and ends without a look at it.
        drop(ended_later);
        drop(led);
        let _under_way = [lead(&all), lead(&all)];
        wait(&all, "another");
    }
}
