//! Groups of point reads, and of writes, that are one statement.
//!
//! To wake a process of PostgreSQL, and to be woken by its answer, takes longer than to read or to write an entity.
//! So calls that come while groups of their table are under way wait for a moment, and then form a group: one call
//! leads it, and gets a connection, over which one statement executes all of them. A call that finds at most one group
//! under way leads at once, and is alone.
//!
//! A call does not wait only for the end of a group, because a commit may wait for a disk, and commits that wait for it
//! at the same time share one flush. Each group under way doubles the calls that form the next one: 1, 1, 2, 4, 8, 16.
//! So on a slow disk nearly all calls are under way, as they were without groups, and on a fast one groups are large.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::Diagnosis;
use super::statements::Statement;

/// The most calls of a group. One process of PostgreSQL executes them one after the other.
const MOST: usize = 16;
/// The time that a call waits. Then it leads a group, because those under way may wait for a lock or a disk.
pub const PATIENCE: Duration = Duration::from_millis(10);
/// The time without groups for a table, after a group in which each call had to go alone.
const APART: Duration = Duration::from_secs(5);
/// The most tables that have no groups for a time.
const MOST_APART: usize = 64;

/// The second and the third parameter of a group's statement: an element for each call.
pub type Arrays<'a> = [Box<dyn ToSql + Sync + Send + 'a>; 2];

/// A call that groups can execute.
pub trait GroupedCall: Send + Sync + Sized + 'static {
    /// The value of its success.
    type Value: Send;
    /// The statement of a group. Its first parameter is the table.
    const STATEMENT: Statement;
    /// A call waits only for groups that began less long ago. Older ones wait for a disk or a lock themselves.
    const SHORT: Duration;

    /// Returns the parameters behind the table.
    fn arrays(group: &[Waiting<Self>]) -> Arrays<'_>;

    /// Returns the outcomes of so many calls.
    fn outcomes(rows: Vec<Row>, calls: usize) -> Vec<Outcome<Self>>;
}

/// The outcome of a call in a group; `None` if it has to go alone.
pub type Outcome<C> = Option<Result<<C as GroupedCall>::Value, Diagnosis>>;

/// The calls of one kind that go to a node.
pub struct Groups<C: GroupedCall> {
    state: Mutex<State<C>>,
    /// Whether the database has the function that executes groups, as far as it is known.
    is_possible: AtomicBool,
    /// The calls that groups have executed, since the start.
    executed: AtomicU64,
}

struct State<C: GroupedCall> {
    /// The tables that have groups under way.
    tables: HashMap<Arc<str>, Queue<C>>,
    /// The numbers given so far.
    count: u64,
    /// The tables that have no groups, and until when.
    apart: HashMap<Arc<str>, Instant>,
}

/// The calls of a table. None waits unless two groups are under way.
struct Queue<C: GroupedCall> {
    waiting: VecDeque<Waiting<C>>,
    groups: Vec<Group>,
}

/// A group under way.
struct Group {
    /// That of the call that leads it.
    number: u64,
    begun: Instant,
    /// Whether it has not yet got a connection, and taken its other calls.
    is_forming: bool,
}

/// A call that waits. It owns all that it needs, because its request may end before it.
pub struct Waiting<C: GroupedCall> {
    pub call: C,
    /// The end of its request.
    pub deadline: Instant,
    turn: oneshot::Sender<Turn<C>>,
    number: u64,
}

impl<C: GroupedCall> Waiting<C> {
    /// Gives the call its outcome.
    pub fn end(self, outcome: Outcome<C>) {
        // Its request may have ended.
        drop(self.turn.send(Turn::Outcome(outcome)));
    }
}

/// The end of a call's wait.
pub enum Turn<C: GroupedCall> {
    Outcome(Outcome<C>),
    Lead(LeadPermit<C>),
}

/// The permit to lead a group. When it is dropped, the group has ended, and the call that has waited longest leads
/// the next one.
pub struct LeadPermit<C: GroupedCall> {
    all: Arc<Groups<C>>,
    table: Arc<str>,
    number: u64,
}

/// The beginning of a call.
pub enum Begin<C: GroupedCall> {
    Lead(LeadPermit<C>),
    /// With the number for [`Groups::lead`].
    Wait(oneshot::Receiver<Turn<C>>, u64),
    /// The table has no groups.
    Alone,
}

impl<C: GroupedCall> Default for Groups<C> {
    fn default() -> Groups<C> {
        Groups {
            state: Mutex::new(State {
                tables: HashMap::new(),
                count: 0,
                apart: HashMap::new(),
            }),
            is_possible: AtomicBool::new(true),
            executed: AtomicU64::new(0),
        }
    }
}

impl<C: GroupedCall> Groups<C> {
    /// Lets a call lead a group, or wait for one.
    pub fn begin(self: &Arc<Self>, table: &str, deadline: Instant, call: impl FnOnce() -> C) -> Begin<C> {
        if !self.is_possible.load(Ordering::Relaxed) {
            return Begin::Alone;
        }
        let mut state = self.state.lock();
        let State { tables, count, apart } = &mut *state;
        let now = Instant::now();
        if apart.get(table).is_some_and(|end| now < *end) {
            return Begin::Alone;
        }
        let table = Arc::<str>::from(table);
        let queue = tables.entry(table.clone()).or_insert_with(Queue::new);
        *count += 1;
        let number = *count;
        if queue.are_enough(now) {
            queue.begin(number, now);
            let all = self.clone();
            return Begin::Lead(LeadPermit { all, table, number });
        }
        let (turn, receiver) = oneshot::channel();
        queue.waiting.push_back(Waiting {
            call: call(),
            deadline,
            turn,
            number,
        });
        Begin::Wait(receiver, number)
    }

    /// Lets a call lead a group that has waited long enough. Returns `None` if a group has it already.
    pub fn lead(self: &Arc<Self>, table: &str, number: u64) -> Option<LeadPermit<C>> {
        let mut state = self.state.lock();
        let queue = state.tables.get_mut(table)?;
        let place = queue.waiting.iter().position(|waiting| waiting.number == number)?;
        queue.waiting.remove(place)?;
        queue.begin(number, Instant::now());
        let (all, table) = (self.clone(), table.into());
        Some(LeadPermit { all, table, number })
    }

    /// Notes whether the database has the function that executes groups.
    pub fn note(&self, is_possible: bool) {
        if self.is_possible.load(Ordering::Relaxed) != is_possible {
            self.is_possible.store(is_possible, Ordering::Relaxed);
        }
    }

    /// The calls that groups have executed, since the start.
    pub fn executed(&self) -> u64 {
        self.executed.load(Ordering::Relaxed)
    }
}

impl<C: GroupedCall> Queue<C> {
    fn new() -> Queue<C> {
        Queue {
            waiting: VecDeque::new(),
            groups: Vec::new(),
        }
    }

    /// Returns whether the calls that wait are enough for a group, with one more, and without those that other groups will take.
    fn are_enough(&self, now: Instant) -> bool {
        let short = self.groups.iter().filter(|group| now - group.begun < C::SHORT).count();
        let forming = self.groups.iter().filter(|group| group.is_forming).count();
        let doublings = short.saturating_sub(1).min(MOST);
        doublings == 0 || self.waiting.len() + 1 >= MOST.min(1 << doublings) + forming * (MOST - 1)
    }

    fn begin(&mut self, number: u64, now: Instant) {
        self.groups.push(Group {
            number,
            begun: now,
            is_forming: true,
        });
    }

    /// Takes the call that has waited longest, of those that still wait.
    fn next(&mut self) -> Option<Waiting<C>> {
        loop {
            let next = self.waiting.pop_front()?;
            if !next.turn.is_closed() {
                return Some(next);
            }
        }
    }
}

impl<C: GroupedCall> LeadPermit<C> {
    /// Takes the other calls of the group.
    pub fn others(&self) -> Vec<Waiting<C>> {
        let mut state = self.all.state.lock();
        let Some(queue) = state.tables.get_mut(&self.table) else {
            return Vec::new();
        };
        if let Some(group) = queue.groups.iter_mut().find(|group| group.number == self.number) {
            group.is_forming = false;
        }
        std::iter::from_fn(|| queue.next()).take(MOST - 1).collect()
    }

    /// Makes the leader's call one of its group. The calls are in the order in which they have come.
    pub fn join(&self, others: &mut Vec<Waiting<C>>, call: C, deadline: Instant) -> oneshot::Receiver<Turn<C>> {
        let (turn, receiver) = oneshot::channel();
        let number = self.number;
        others.push(Waiting {
            call,
            deadline,
            turn,
            number,
        });
        others.sort_unstable_by_key(|waiting| waiting.number);
        receiver
    }

    /// Notes that the group was executed, and that so many of its calls have an outcome.
    pub fn ended(&self, executed: usize) {
        self.all.executed.fetch_add(executed as u64, Ordering::Relaxed);
        if executed > 0 {
            return;
        }
        let apart = &mut self.all.state.lock().apart;
        let now = Instant::now();
        if apart.len() >= MOST_APART {
            apart.retain(|_, end| now < *end);
        }
        if apart.len() < MOST_APART {
            apart.insert(self.table.clone(), now + APART);
        }
    }
}

impl<C: GroupedCall> Drop for LeadPermit<C> {
    fn drop(&mut self) {
        let mut state = self.all.state.lock();
        let Some(queue) = state.tables.get_mut(&self.table) else {
            return;
        };
        queue.groups.retain(|group| group.number != self.number);
        let Some(next) = queue.next() else {
            if queue.groups.is_empty() {
                state.tables.remove(&self.table);
            }
            return;
        };
        queue.begin(next.number, Instant::now());
        drop(state);
        let permit = LeadPermit {
            all: self.all.clone(),
            table: self.table.clone(),
            number: next.number,
        };
        // If the call has just ended, its permit is dropped here, and the next call gets one.
        drop(next.turn.send(Turn::Lead(permit)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that names itself.
    struct Named(String);

    impl GroupedCall for Named {
        type Value = ();
        const STATEMENT: Statement = Statement::WriteEntities;
        const SHORT: Duration = Duration::from_millis(1);

        fn arrays(_: &[Waiting<Named>]) -> Arrays<'_> {
            [Box::new(0), Box::new(0)]
        }

        fn outcomes(_: Vec<Row>, _: usize) -> Vec<Outcome<Named>> {
            Vec::new()
        }
    }

    type Turns = oneshot::Receiver<Turn<Named>>;

    fn begin(all: &Arc<Groups<Named>>, table: &str, name: &str) -> Begin<Named> {
        all.begin(table, Instant::now(), || Named(name.to_owned()))
    }

    fn lead(all: &Arc<Groups<Named>>) -> LeadPermit<Named> {
        match begin(all, "Things", "leader") {
            Begin::Lead(permit) => permit,
            _ => panic!("it does not lead"),
        }
    }

    fn wait_in(all: &Arc<Groups<Named>>, table: &str, name: &str) -> (Turns, u64) {
        match begin(all, table, name) {
            Begin::Wait(turn, number) => (turn, number),
            _ => panic!("it does not wait"),
        }
    }

    fn wait(all: &Arc<Groups<Named>>, name: &str) -> Turns {
        wait_in(all, "Things", name).0
    }

    /// The groups that so many calls form, while none of them ends.
    fn form(all: &Arc<Groups<Named>>, calls: usize) -> Vec<(LeadPermit<Named>, usize)> {
        let (mut groups, mut turns) = (Vec::new(), Vec::new());
        for _ in 0..calls {
            match begin(all, "Things", "under way") {
                Begin::Lead(permit) => {
                    let size = permit.others().len() + 1;
                    groups.push((permit, size));
                }
                Begin::Wait(turn, _) => turns.push(turn),
                Begin::Alone => panic!("it goes alone"),
            }
        }
        groups
    }

    /// So many groups under way that the next one has the most calls.
    fn busy(all: &Arc<Groups<Named>>) -> Vec<LeadPermit<Named>> {
        let groups = form(all, 1 + 1 + 2 + 4 + 8);
        groups.into_iter().map(|(permit, _)| permit).collect()
    }

    fn others(permit: &LeadPermit<Named>) -> Vec<String> {
        permit.others().into_iter().map(|waiting| waiting.call.0).collect()
    }

    fn permit(turn: &mut Turns) -> LeadPermit<Named> {
        match turn.try_recv() {
            Ok(Turn::Lead(permit)) => permit,
            _ => panic!("it has no permit"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_group_under_way_doubles_the_next_one() {
        let all = Arc::default();
        let groups = form(&all, 3 * MOST);
        let sizes: Vec<usize> = groups.iter().map(|(_, size)| *size).collect();
        assert_eq!(sizes, [1, 1, 2, 4, 8, 16, 16]);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_form_groups_in_their_order() {
        let all = Arc::default();
        let mut under_way = busy(&all);
        let names: Vec<String> = (1..MOST).map(|number| number.to_string()).collect();
        let mut turns: Vec<_> = names.iter().map(|name| wait(&all, name)).collect();
        under_way.pop();
        let next = permit(&mut turns[0]);
        assert_eq!(others(&next), names[1..]);
        let mut last = wait(&all, "last");
        drop(next);
        assert!(others(&permit(&mut last)).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_has_come_last_is_the_last_of_its_group() {
        let all = Arc::default();
        let _under_way = form(&all, 2);
        let _first = wait(&all, "first");
        let leader = lead(&all);
        let mut group = leader.others();
        let _turn = leader.join(&mut group, Named("leader".to_owned()), Instant::now());
        let names: Vec<String> = group.into_iter().map(|waiting| waiting.call.0).collect();
        assert_eq!(names, ["first", "leader"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_waits_for_no_other_one_and_is_forgotten() {
        let all = Arc::default();
        let under_way = [lead(&all), lead(&all)];
        let _turn = wait(&all, "waiting");
        assert!(matches!(begin(&all, "Others", "leads"), Begin::Lead(_)));
        assert_eq!(others(&under_way[0]), ["waiting"]);
        assert_eq!(all.state.lock().tables.len(), 1);
        drop(under_way);
        assert!(all.state.lock().tables.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn no_call_waits_for_groups_that_take_long() {
        let all = Arc::default();
        let _long = [lead(&all), lead(&all)];
        let _waiting = wait(&all, "waiting");
        tokio::time::advance(Named::SHORT).await;
        let short = lead(&all);
        assert_eq!(others(&short), ["waiting"]);
        drop(short);
        let _short = [lead(&all), lead(&all)];
        wait(&all, "waits for these");
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_is_not_lost_when_requests_end() {
        let all = Arc::default();
        let mut under_way = busy(&all);
        let ended = wait(&all, "ended");
        let mut next = wait(&all, "next");
        let ended_later = wait(&all, "ended later");
        drop(ended);
        under_way.truncate(3);
        let led = permit(&mut next);
        // It has got the other permit, and ends without it.
        drop(ended_later);
        drop((led, under_way));
        let _under_way = [lead(&all), lead(&all)];
        wait(&all, "another");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_leads_after_a_time_unless_a_group_has_it() {
        let all = Arc::default();
        let under_way = busy(&all);
        let (_turn, taken) = wait_in(&all, "Things", "taken");
        let group = under_way[0].others();
        assert_eq!(group.len(), 1);
        let (_turn, waiting) = wait_in(&all, "Things", "waiting");
        let _behind = wait(&all, "behind");
        assert!(all.lead("Things", taken).is_none());
        let permit = all.lead("Things", waiting).unwrap();
        assert_eq!(others(&permit), ["behind"]);
        assert!(all.lead("Things", waiting).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_whose_calls_all_had_to_go_alone_has_no_groups_for_a_time() {
        let all = Arc::default();
        lead(&all).ended(0);
        assert!(matches!(begin(&all, "Things", "alone"), Begin::Alone));
        assert!(matches!(begin(&all, "Others", "leads"), Begin::Lead(_)));
        tokio::time::advance(APART).await;
        lead(&all).ended(1);
        lead(&all);
        assert_eq!(all.executed(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn databases_without_the_function_have_no_groups() {
        let all = Arc::<Groups<Named>>::default();
        all.note(false);
        assert!(matches!(begin(&all, "Things", "alone"), Begin::Alone));
        all.note(true);
        lead(&all);
    }
}
