//! Groups of point reads that share a connection.
//!
//! To wake a process of PostgreSQL, and to be woken by its answer, takes longer than to read an entity. So reads that come
//! while groups are under way wait for a moment, and then form a group: one read leads it, and gets a connection, over which all
//! of them are sent at once. Each read is still a statement of its own, with its own transaction, moment and error.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;

use super::error::Diagnosis;

/// The most reads of a group. One process of PostgreSQL executes them one after the other.
const GROUP: usize = 16;
/// The groups under way before a read waits. While PostgreSQL executes one, the gateway prepares another.
const UNDER_WAY: usize = 2;
/// A read waits only for groups that began less long ago. Older ones wait for a disk or a lock themselves.
const SHORT: Duration = Duration::from_micros(300);
/// The time that a read waits for its group. Then it goes alone, because another read of the group may wait for a lock.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// The time that a group has its connection. It is longer than [`PATIENCE`], because a new connection costs a slow server more than
/// the rest of a few reads.
pub const GROUP_TIME: Duration = Duration::from_secs(1);

/// Table, PartitionKey and RowKey of an entity.
pub type EntityAddress<'k> = [&'k str; 3];

/// The point reads of an account.
#[derive(Default)]
pub struct GroupedReads(Mutex<Reads>);

#[derive(Default)]
struct Reads {
    waiting: VecDeque<WaitingRead>,
    /// The groups under way, with their numbers and beginnings.
    groups: Vec<(u64, Instant)>,
    /// The number of groups so far.
    count: u64,
}

/// A read that waits.
pub struct WaitingRead {
    pub keys: [String; 3],
    pub outcome: oneshot::Sender<GroupedAnswer>,
}

/// The end of a read's wait.
pub enum GroupedAnswer {
    Answer(Result<Vec<Row>, Diagnosis>),
    Lead(LeadPermit),
}

/// The permit to lead a group. When it is dropped, the group has ended, and the read that has waited longest leads the next one.
pub struct LeadPermit {
    all: Arc<GroupedReads>,
    number: u64,
}

/// The beginning of a read.
pub enum Begin {
    Lead(LeadPermit),
    Wait(oneshot::Receiver<GroupedAnswer>),
}

impl GroupedReads {
    /// Lets a read lead a group, or wait for one.
    pub fn begin(self: &Arc<Self>, keys: EntityAddress<'_>) -> Begin {
        let mut reads = self.0.lock();
        let now = Instant::now();
        let short = reads.groups.iter().filter(|(_, begun)| now - *begun < SHORT);
        if short.count() < UNDER_WAY {
            return Begin::Lead(reads.permit(self.clone(), now));
        }
        let (sender, receiver) = oneshot::channel();
        reads.waiting.push_back(WaitingRead {
            keys: keys.map(str::to_owned),
            outcome: sender,
        });
        Begin::Wait(receiver)
    }
}

impl Reads {
    /// Begins a group.
    fn permit(&mut self, all: Arc<GroupedReads>, now: Instant) -> LeadPermit {
        let number = self.count;
        self.count += 1;
        self.groups.push((number, now));
        LeadPermit { all, number }
    }

    /// Returns the read that has waited longest, of those that still wait.
    fn next(&mut self) -> Option<WaitingRead> {
        loop {
            let next = self.waiting.pop_front()?;
            if !next.outcome.is_closed() {
                return Some(next);
            }
        }
    }
}

impl LeadPermit {
    /// Takes the other reads of the group.
    pub fn others(&self) -> Vec<WaitingRead> {
        let mut reads = self.all.0.lock();
        std::iter::from_fn(|| reads.next()).take(GROUP - 1).collect()
    }
}

impl Drop for LeadPermit {
    fn drop(&mut self) {
        let mut reads = self.all.0.lock();
        reads.groups.retain(|(number, _)| *number != self.number);
        let Some(next) = reads.next() else { return };
        let permit = reads.permit(self.all.clone(), Instant::now());
        drop(reads);
        // If the read has just ended, its permit is dropped here, and the next read gets one.
        drop(next.outcome.send(GroupedAnswer::Lead(permit)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(all: &Arc<GroupedReads>, row_key: &str) -> Begin {
        all.begin(["Things", "p", row_key])
    }

    fn lead(all: &Arc<GroupedReads>) -> LeadPermit {
        match begin(all, "leader") {
            Begin::Lead(permit) => permit,
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

    fn permit(outcome: &mut oneshot::Receiver<GroupedAnswer>) -> LeadPermit {
        match outcome.try_recv() {
            Ok(GroupedAnswer::Lead(permit)) => permit,
            _ => panic!("it has no permit"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reads_wait_while_groups_are_under_way_and_then_form_one() {
        let all = Arc::new(GroupedReads::default());
        let (first, second) = (lead(&all), lead(&all));
        assert!(first.others().is_empty());
        let mut waiting: Vec<_> = (0..20).map(|number| wait(&all, &number.to_string())).collect();
        drop(second);
        let third = permit(&mut waiting[0]);
        let others = third.others();
        assert_eq!(row_keys(&others), (1..16).map(|n| n.to_string()).collect::<Vec<_>>());
        drop(first);
        assert_eq!(row_keys(&permit(&mut waiting[16]).others()), ["17", "18", "19"]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_read_waits_for_groups_that_take_long() {
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
    async fn a_permit_is_not_lost_when_reads_end() {
        let all = Arc::new(GroupedReads::default());
        let permits = [lead(&all), lead(&all)];
        let ended = wait(&all, "ended");
        let mut next = wait(&all, "next");
        let ended_later = wait(&all, "ended later");
        drop(ended);
        drop(permits);
        let led = permit(&mut next);
        // It has got the other permit, and ends without it.
        drop(ended_later);
        drop(led);
        let _under_way = [lead(&all), lead(&all)];
        wait(&all, "another");
    }
}
