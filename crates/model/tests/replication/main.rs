//! A primary and its standbys, simulated: whatever happens to them, writes that were acknowledged before the moment of the
//! answer are visible wherever reads are served, and the answers do not go back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod copies;
mod secondary;

use proptest::collection::vec;
use proptest::prelude::*;
use table_service_model::Lsn;
use table_service_model::replication::{Answer, Note, Role, ServerStatus, Standbys, Timeline};

const STANDBYS: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The primary acknowledges a write of that length.
    Write(u64),
    /// Time passes, in microseconds.
    Wait(i64),
    /// The primary is asked: first the clock is read, then something is written, and then comes the position.
    Note(u64),
    /// A standby replays, as far as there is something.
    Replay(usize, u64),
    /// A standby is asked.
    See(usize),
    /// A standby cannot be reached when it is asked.
    Lose(usize),
    /// A standby starts again, behind where it was. It loses its connections.
    Restart(usize, u64),
    /// A connection for reads is opened.
    Connect(usize),
    Answer,
    /// A standby is promoted, and the others follow it if they can.
    Promote(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let standby = 0..STANDBYS;
    prop_oneof![
        4 => (1..50u64).prop_map(Event::Write),
        3 => (1..900_000i64).prop_map(Event::Wait),
        3 => (0..20u64).prop_map(Event::Note),
        5 => (standby.clone(), 1..200u64).prop_map(|(standby, bytes)| Event::Replay(standby, bytes)),
        5 => standby.clone().prop_map(Event::See),
        1 => standby.clone().prop_map(Event::Lose),
        1 => (standby.clone(), 1..100u64).prop_map(|(standby, bytes)| Event::Restart(standby, bytes)),
        3 => standby.clone().prop_map(Event::Connect),
        3 => Just(Event::Answer),
        1 => standby.prop_map(Event::Promote),
    ]
}

#[derive(Debug, Clone)]
struct Server {
    timeline: u32,
    replayed: u64,
    /// Its answer over a connection for reads, when that was opened.
    connection: Option<ServerStatus>,
}

struct World {
    clock: i64,
    timeline: u32,
    position: u64,
    /// The moment when each write was acknowledged, and where it ends, on the primary's timeline.
    writes: Vec<(i64, u64)>,
    servers: Vec<Server>,
    rules: Standbys,
    /// The timeline that the rules know.
    known: u32,
    answered: Option<i64>,
}

impl World {
    fn new(max_staleness: Option<i64>) -> World {
        let server = Server {
            timeline: 1,
            replayed: 0,
            connection: None,
        };
        World {
            clock: 0,
            timeline: 1,
            position: 0,
            writes: Vec::new(),
            servers: vec![server; STANDBYS],
            rules: Standbys::new(STANDBYS, max_staleness),
            known: 0,
            answered: None,
        }
    }

    fn status(&self, standby: usize) -> ServerStatus {
        let server = &self.servers[standby];
        ServerStatus {
            timeline: timeline(server.timeline),
            role: Role::Standby(Lsn(server.replayed)),
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Write(bytes) => {
                self.position += bytes;
                self.clock += 1;
                self.writes.push((self.clock, self.position));
            }
            Event::Wait(time) => self.clock += time,
            Event::Note(bytes) => {
                let clock = self.clock;
                if bytes > 0 {
                    self.happens(Event::Write(bytes));
                }
                if self.known != self.timeline {
                    (self.known, self.answered) = (self.timeline, None);
                }
                let position = Lsn(self.position);
                self.rules.primary(timeline(self.timeline), Note { clock, position });
            }
            Event::Replay(standby, bytes) => {
                let server = &mut self.servers[standby];
                // One on an old timeline gets nothing more.
                if server.timeline == self.timeline {
                    server.replayed = (server.replayed + bytes).min(self.position);
                }
            }
            Event::See(standby) => self.rules.standby(standby, Some(self.status(standby))),
            Event::Lose(standby) => self.rules.standby(standby, None),
            Event::Restart(standby, bytes) => {
                let server = &mut self.servers[standby];
                server.replayed = server.replayed.saturating_sub(bytes);
                server.connection = None;
            }
            Event::Connect(standby) => {
                let status = self.status(standby);
                let connection = &mut self.servers[standby].connection;
                *connection = connection.or(Some(status).filter(|status| self.rules.admits(*status).is_ok()));
            }
            Event::Answer => {
                if let Answer::Live(second) = self.rules.answer() {
                    assert!(self.answered.is_none_or(|before| before <= second), "it goes back");
                    self.answered = Some(second);
                }
            }
            Event::Promote(promoted) => {
                let end = self.servers[promoted].replayed;
                if self.servers[promoted].timeline != self.timeline {
                    return;
                }
                self.timeline += 1;
                self.position = end;
                self.writes.retain(|(_, written)| *written <= end);
                // The promoted one is replaced by a new standby, a copy of it.
                for (number, server) in self.servers.iter_mut().enumerate() {
                    if number == promoted {
                        server.connection = None;
                    }
                    if server.timeline + 1 == self.timeline && server.replayed <= end {
                        server.timeline = self.timeline;
                    }
                }
            }
        }
    }

    /// Reads on every connection that serves. Each read is judged when it begins: by the last status over the
    /// connection, or else by a new one.
    fn check(&self) {
        let (Some(answered), true) = (self.answered, self.known == self.timeline) else {
            return;
        };
        for (number, server) in self.servers.iter().enumerate() {
            let is_admitted = |status: ServerStatus| self.rules.admits(status).is_ok();
            let Some(connection) = server.connection else { continue };
            if self.rules.state(number).is_err() || !(is_admitted(connection) || is_admitted(self.status(number))) {
                continue;
            }
            assert_eq!(server.timeline, self.timeline, "standby {number} has other data");
            for &(acknowledged, end) in &self.writes {
                assert!(
                    acknowledged >= answered * 1_000_000 || end <= server.replayed,
                    "standby {number} lacks a write of {acknowledged} with {answered} answered"
                );
            }
        }
    }
}

fn timeline(number: u32) -> Timeline {
    Timeline { system: 7, number }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_before_the_answer_is_visible(
        events in vec(event(), 0..200),
        max_staleness in proptest::option::of(0..5_000_000i64),
    ) {
        let mut world = World::new(max_staleness);
        for event in events {
            world.happens(event);
            world.check();
        }
    }
}
