//! The law of the secondary endpoint: a read sees whatever was acknowledged before any LastSyncTime that was answered before the read
//! began. Random histories of several servers behind one name test it: with lag, pauses, restarts and promotions.

use proptest::prelude::*;
use proptest::test_runner::TestRng;

use table_service_model::Lsn;
use table_service_model::replication::{Answer, Note, Role, ServerStatus, Standbys, Timeline};

const SECOND: i64 = 1_000_000;
const SYSTEM: i64 = 7;
/// A connection is used for so long by the last answer of its server.
const FRESH: i64 = SECOND;
const MAX_STALENESS: i64 = 5 * SECOND;
/// The servers that each name leads to.
const NAMES: [&[usize]; 2] = [&[0, 1, 2], &[3]];
const SERVERS: usize = 4;

struct Server {
    /// How often it has started. Connections last as long as it runs.
    starts: u32,
    timeline: u32,
    replayed: u64,
    /// Where it begins again after a restart.
    restartpoint: u64,
    is_paused: bool,
    promoted: Option<i64>,
}

struct Write {
    acknowledged: i64,
    position: u64,
    timeline: u32,
}

struct Connection {
    server: usize,
    starts: u32,
    status: ServerStatus,
    seen: i64,
}

/// PostgreSQL's side.
struct World {
    now: i64,
    writes: Vec<Write>,
    /// The end of the primary's log.
    end: u64,
    timeline: u32,
    /// Where each timeline of the primary began, the first one without an end before it.
    branches: Vec<(u32, u64)>,
    newest_timeline: u32,
    servers: Vec<Server>,
}

impl World {
    fn write(&mut self) {
        self.end += 10;
        self.now += 1;
        self.writes.push(Write {
            acknowledged: self.now,
            position: self.end,
            timeline: self.timeline,
        });
    }

    /// Returns whether the history that ends with a timeline has a write.
    fn has(&self, timeline: u32, write: &Write) -> bool {
        let later = |(branch, _): &&(u32, u64)| *branch > write.timeline && *branch <= timeline;
        write.timeline <= timeline
            && self
                .branches
                .iter()
                .filter(later)
                .all(|(_, begin)| write.position <= *begin)
    }

    /// The clock first; meanwhile others may write.
    fn note(&mut self, writes_between: bool) -> (Timeline, Note) {
        let clock = self.now;
        if writes_between {
            self.write();
        }
        let position = Lsn(self.end);
        (self.timeline(), Note { clock, position })
    }

    fn timeline(&self) -> Timeline {
        Timeline {
            system: SYSTEM,
            number: self.timeline,
        }
    }

    fn replay(&mut self, server: usize, share: u64) {
        let (end, timeline) = (self.end, self.timeline);
        let branch = self.branches.last().map_or(0, |(_, begin)| *begin);
        let server = &mut self.servers[server];
        if server.is_paused || server.promoted.is_some() {
            return;
        }
        if server.timeline != timeline {
            // It cannot follow if it has more than there was when the new timeline began.
            if server.replayed > branch {
                return;
            }
            server.timeline = timeline;
        }
        server.replayed += (end - server.replayed) * share / 8;
    }

    fn restart(&mut self, server: usize) {
        let server = &mut self.servers[server];
        server.starts += 1;
        server.replayed = server.restartpoint;
        server.is_paused = false;
    }

    /// The server takes writes from now on; with `takes_over` it is the primary.
    fn promote(&mut self, server: usize, takes_over: bool) {
        let now = self.now;
        let promoted = &mut self.servers[server];
        if promoted.promoted.is_some() || promoted.timeline != self.timeline {
            return;
        }
        self.newest_timeline += 1;
        promoted.promoted = Some(now);
        promoted.timeline = self.newest_timeline;
        if takes_over {
            self.timeline = self.newest_timeline;
            self.end = promoted.replayed;
            self.branches.push((self.timeline, self.end));
        }
    }

    fn status(&self, server: usize) -> ServerStatus {
        let Server {
            timeline,
            replayed,
            promoted,
            ..
        } = self.servers[server];
        let position = Lsn(replayed);
        let role = match promoted {
            Some(clock) => Role::Primary(Note { clock, position }),
            None => Role::Standby(position),
        };
        ServerStatus {
            timeline: Timeline {
                system: SYSTEM,
                number: timeline,
            },
            role,
        }
    }
}

/// The gateway's side, as its pools and its looks work.
struct Gateway {
    rules: Standbys,
    watchers: [Option<Connection>; NAMES.len()],
    pools: [Vec<Connection>; NAMES.len()],
    /// The timeline of the primary as the gateway knows it, and the latest answer since then.
    timeline: Option<Timeline>,
    promised: i64,
    answers: u32,
    reads: u32,
}

impl Gateway {
    fn look_at_primary(&mut self, (timeline, note): (Timeline, Note)) {
        if self.timeline != Some(timeline) {
            self.timeline = Some(timeline);
            self.promised = i64::MIN;
        }
        self.rules.primary(timeline, note);
    }

    fn look(&mut self, world: &World, name: usize, server: usize) {
        let known = self.watchers[name].take().filter(|known| is_open(known, world));
        let known = known.filter(|known| self.rules.admits(world.status(known.server)).is_ok());
        let connection = known.unwrap_or_else(|| open(world, server));
        self.rules.standby(name, Some(world.status(connection.server)));
        self.watchers[name] = Some(connection);
    }

    fn answer(&mut self) {
        if let Answer::Live(second) = self.rules.answer() {
            assert!(second >= self.promised, "it goes back");
            self.promised = second;
            self.answers += 1;
        }
    }

    /// Reads over a connection of the pool, or a new one to this server.
    fn read(&mut self, world: &World, name: usize, server: usize) {
        if self.rules.state(name).is_err() {
            return;
        }
        while let Some(mut connection) = self.pools[name].pop() {
            if !is_open(&connection, world) {
                continue;
            }
            let is_fresh = world.now - connection.seen < FRESH;
            if !(is_fresh && self.rules.admits(connection.status).is_ok()) {
                connection.status = world.status(connection.server);
                connection.seen = world.now;
            }
            if self.read_over(world, &connection) {
                self.pools[name].insert(0, connection);
                return;
            }
        }
        let connection = open(world, server);
        if self.read_over(world, &connection) {
            self.pools[name].insert(0, connection);
        }
    }

    fn read_over(&mut self, world: &World, connection: &Connection) -> bool {
        if self.rules.admits(connection.status).is_err() {
            return false;
        }
        self.reads += 1;
        let server = &world.servers[connection.server];
        if let Some(promoted) = server.promoted {
            assert!(world.now - promoted < FRESH, "a primary serves reads");
            return true;
        }
        let timeline = self.timeline.expect("it is known where reads are served");
        let promised = self.promised.saturating_mul(SECOND);
        for write in &world.writes {
            let was_promised = write.acknowledged < promised && world.has(timeline.number, write);
            let is_seen = write.position <= server.replayed && world.has(server.timeline, write);
            assert!(
                !was_promised || is_seen,
                "acknowledged at {}, answered {promised}",
                write.acknowledged
            );
        }
        true
    }
}

fn open(world: &World, server: usize) -> Connection {
    Connection {
        server,
        starts: world.servers[server].starts,
        status: world.status(server),
        seen: world.now,
    }
}

fn is_open(connection: &Connection, world: &World) -> bool {
    connection.starts == world.servers[connection.server].starts
}

/// Plays a random history. Returns how many answers and reads there were.
fn play(random: &mut TestRng, max_staleness: Option<i64>) -> (u32, u32) {
    let mut below = |limit: usize| random.next_u32() as usize % limit;
    let server = || Server {
        starts: 0,
        timeline: 1,
        replayed: 0,
        restartpoint: 0,
        is_paused: false,
        promoted: None,
    };
    let mut world = World {
        now: SECOND,
        writes: Vec::new(),
        end: 0,
        timeline: 1,
        branches: Vec::new(),
        newest_timeline: 1,
        servers: (0..SERVERS).map(|_| server()).collect(),
    };
    let mut gateway = Gateway {
        rules: Standbys::new(NAMES.len(), max_staleness),
        watchers: [const { None }; NAMES.len()],
        pools: [const { Vec::new() }; NAMES.len()],
        timeline: None,
        promised: i64::MIN,
        answers: 0,
        reads: 0,
    };
    for _ in 0..600 {
        world.now += below(100_000) as i64;
        let name = below(NAMES.len());
        let behind = NAMES[name][below(NAMES[name].len())];
        match below(100) {
            0..20 => world.write(),
            20..35 => {
                let note = world.note(below(2) == 0);
                gateway.look_at_primary(note);
            }
            35..50 => world.replay(below(SERVERS), below(9) as u64),
            50..60 => gateway.look(&world, name, behind),
            60..70 => gateway.answer(),
            70..95 => gateway.read(&world, name, behind),
            95 => world.servers[behind].is_paused ^= true,
            96..98 => {
                let server = &mut world.servers[behind];
                server.restartpoint = server.replayed;
            }
            98 => world.restart(behind),
            _ if below(8) == 0 => world.promote(behind, below(2) == 0),
            _ => {}
        }
    }
    (gateway.answers, gateway.reads)
}

#[test]
fn a_read_sees_whatever_was_acknowledged_before_what_was_answered() {
    let (mut answers, mut reads) = (0, 0);
    let mut random = TestRng::deterministic_rng(prop::test_runner::RngAlgorithm::ChaCha);
    for history in 0..400 {
        let (of_answers, of_reads) = play(&mut random, (history % 2 == 0).then_some(MAX_STALENESS));
        answers += of_answers;
        reads += of_reads;
    }
    // Else nothing was tested.
    assert!(answers > 2000 && reads > 2000, "{answers} answers, {reads} reads");
}
