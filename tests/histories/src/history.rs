//! The operations of clients, and the answers to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use crate::model::{Key, Properties, Refusal, Timestamp, Write};

/// An operation that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// One write by itself, or a batch of at least two.
    Write(Vec<Write>),
    Get(Key),
    /// All entities of the partition.
    Query,
}

/// A version of an entity, as a client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub properties: Properties,
    pub timestamp: Timestamp,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Success, with the Timestamps of the new versions; a delete has none.
    Written(Vec<Option<Timestamp>>),
    /// Nothing is written, because of the write with this index.
    Refused(usize, Refusal),
    /// The entities that are there.
    Found(BTreeMap<Key, Seen>),
    /// Nobody knows whether it was done: the connection was lost, or the server reported that it was busy.
    Unknown,
    /// It was certainly rolled back.
    RolledBack,
}

/// An operation and its answer. Begin and end are numbers that rise through a history.
#[derive(Clone)]
pub struct Record {
    pub client: String,
    pub operation: Operation,
    pub outcome: Outcome,
    pub begin: usize,
    /// Beyond all others, if the outcome is not known.
    pub end: usize,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record {
            client,
            operation,
            outcome,
            begin,
            end,
        } = self;
        match end {
            &usize::MAX => write!(f, "[{begin:>4}   ∞] {client:<6} {operation:?} → {outcome:?}"),
            end => write!(f, "[{begin:>4} {end:>3}] {client:<6} {operation:?} → {outcome:?}"),
        }
    }
}

/// The operations of one partition, in the order of their begin.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub records: Vec<Record>,
    /// When PostgreSQL was killed.
    pub kills: Vec<usize>,
    /// Whether the table is distributed. Then an insert that waits for a deletion may get a Timestamp before the one of
    /// the deleted version (docs/guide/scale-out.md).
    pub is_distributed: bool,
}

/// Where clients record.
#[derive(Default)]
pub struct Recorder {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clock: usize,
    history: History,
    /// How many operations have ended.
    ended: usize,
}

impl State {
    fn tick(&mut self) -> usize {
        self.clock += 1;
        self.clock
    }
}

impl Recorder {
    /// Records that a client begins. Returns the number of the record.
    pub fn begin(&self, client: &str, operation: &Operation) -> usize {
        let mut state = self.state.lock().unwrap();
        let begin = state.tick();
        state.history.records.push(Record {
            client: client.to_owned(),
            operation: operation.clone(),
            outcome: Outcome::Unknown,
            begin,
            end: usize::MAX,
        });
        state.history.records.len() - 1
    }

    /// Records the answer.
    pub fn end(&self, number: usize, outcome: Outcome) {
        let mut state = self.state.lock().unwrap();
        let end = match outcome {
            Outcome::Unknown => usize::MAX,
            _ => state.tick(),
        };
        state.ended += 1;
        let record = &mut state.history.records[number];
        record.outcome = outcome;
        record.end = end;
    }

    /// Records that PostgreSQL is killed.
    pub fn killed(&self) {
        let mut state = self.state.lock().unwrap();
        let now = state.tick();
        state.history.kills.push(now);
    }

    pub fn ended(&self) -> usize {
        self.state.lock().unwrap().ended
    }

    pub fn history(&self) -> History {
        self.state.lock().unwrap().history.clone()
    }
}
