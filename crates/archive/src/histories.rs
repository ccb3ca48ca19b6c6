//! Random histories of a server and of its archive, without either: for a moment, the law gives the tables that were
//! there then, or says that they are unknown. Never a third.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::base::Folded;
use crate::law::{At, Point, needed, point, prune};
use crate::ledger::{Expected, Follower};
use crate::manifest::tests::contents;
use crate::manifest::{Base, Epoch, Manifest, Moment, Seen, Segment, Until};
use table_service_model::Lsn;

/// A generator of Numerical Recipes.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len().max(1) as u64);
        all.get(usize::try_from(at).unwrap()).cloned()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Row {
    /// A change of a table, which no other change is like.
    Change(u32, u64),
    Name(u32, Option<String>, Option<String>),
    Gap(u32),
    Mark(u64),
}

#[derive(Debug, Clone)]
struct Transaction {
    position: Lsn,
    committed: Moment,
    rows: Vec<Row>,
}

/// A table's name and its changes.
type Content = (String, Vec<u64>);
type Tables = BTreeMap<u32, Content>;

/// The contents of a cold copy.
#[derive(Clone, Default)]
struct Server {
    position: u64,
    next_oid: u32,
    tables: Tables,
    /// The tables that the feed has.
    published: BTreeSet<u32>,
    /// The tables with changes that cannot be read.
    unreadable: BTreeSet<u32>,
    feed: Vec<Transaction>,
}

#[derive(Default)]
struct World {
    server: Server,
    clock: i64,
    next_change: u64,
    /// The tables that there were, by the moment from which on they were there.
    truth: Vec<(Moment, Tables)>,
    copies: Vec<Server>,

    /// The tables with a creation that the feed has told, by their first change. Nobody need know of the others.
    told: BTreeSet<u64>,
}

impl World {
    fn now(&mut self) -> Moment {
        self.clock += 10;
        Moment(self.clock)
    }

    fn move_on(&mut self) -> Lsn {
        self.server.position += 8;
        Lsn(self.server.position)
    }

    fn commit(&mut self, random: &mut Random) {
        let names = ["Ants", "Bees", "Cats", "Dogs"].map(str::to_owned);
        let mut rows = Vec::new();
        for _ in 0..=random.below(4) {
            let server = &mut self.server;
            let oids: Vec<u32> = server.tables.keys().copied().collect();
            let is_told = random.chance(93);
            let name = random.pick(&names).unwrap();
            let mut tell = |oid, before: Option<&String>, name: Option<&String>| {
                if is_told {
                    rows.push(Row::Name(oid, before.cloned(), name.cloned()));
                }
            };
            let owner = server
                .tables
                .iter()
                .find(|(_, (taken, _))| *taken == name)
                .map(|(oid, _)| *oid);
            match (random.below(12), random.pick(&oids)) {
                (0, _) if owner.is_none() => {
                    server.next_oid += 1;
                    tell(server.next_oid, None, Some(&name));
                    // No feed has the entity that a table begins with.
                    self.next_change += 1;
                    self.told.extend(is_told.then_some(self.next_change));
                    server.tables.insert(server.next_oid, (name, vec![self.next_change]));
                }
                (1, Some(oid)) => {
                    tell(oid, Some(&server.tables[&oid].0), None);
                    server.tables.remove(&oid);
                    server.published.remove(&oid);
                }
                // One that gets its name back without a word leaves no trace.
                (2, Some(oid)) if !is_told || server.tables[&oid].0.starts_with("New") => {
                    self.next_change += 1;
                    let now = format!("New{}", self.next_change);
                    let table = server.tables.get_mut(&oid).unwrap();
                    tell(oid, Some(&table.0), Some(&now));
                    table.0 = now;
                }
                (2, Some(oid)) => {
                    // It takes the name of another one, which gets its name.
                    let old = server.tables[&oid].0.clone();
                    if let Some(owner) = owner.filter(|owner| *owner != oid) {
                        tell(owner, Some(&name), Some(&old));
                        server.tables.get_mut(&owner).unwrap().0.clone_from(&old);
                    }
                    tell(oid, Some(&old), Some(&name));
                    server.tables.get_mut(&oid).unwrap().0 = name;
                }
                (3, Some(oid)) if random.chance(10) => {
                    let is_new = server.unreadable.insert(oid);
                    if !is_new {
                        server.unreadable.remove(&oid);
                    }
                }
                (_, Some(oid)) => {
                    self.next_change += 1;
                    server.tables.get_mut(&oid).unwrap().1.push(self.next_change);
                    if server.published.contains(&oid) {
                        let is_readable = !server.unreadable.contains(&oid);
                        rows.push(if is_readable {
                            Row::Change(oid, self.next_change)
                        } else {
                            Row::Gap(oid)
                        });
                    }
                }
                _ => {}
            }
        }
        let (committed, position) = (self.now(), self.move_on());
        self.truth.push((committed, self.server.tables.clone()));
        if !rows.is_empty() {
            self.server.feed.push(Transaction {
                position,
                committed,
                rows,
            });
        }
    }

    fn mark(&mut self) -> u64 {
        self.next_change += 1;
        let mark = self.next_change;
        let (committed, position) = (self.now(), self.move_on());
        self.server.feed.push(Transaction {
            position,
            committed,
            rows: vec![Row::Mark(mark)],
        });
        mark
    }

    fn listed(&self) -> Vec<(String, u32)> {
        self.server
            .tables
            .iter()
            .map(|(oid, (name, _))| (name.clone(), *oid))
            .collect()
    }

    /// The tables that there were at a moment.
    fn at(&self, moment: Moment) -> &Tables {
        let then = self.truth.partition_point(|(from, _)| *from <= moment);
        &self.truth[then.saturating_sub(1)].1
    }
}

/// The files of an archive on the disk.
#[derive(Clone)]
struct Disk {
    manifest: Manifest,
    /// The changes of segments: their positions and moments, their tables and their numbers.
    segments: HashMap<u64, Vec<(Lsn, Moment, u32, u64)>>,
    bases: HashMap<u64, Vec<u64>>,
}

impl Disk {
    /// Returns whether a server's log has the transaction that was read last.
    fn knows(&self, server: &Server) -> bool {
        let seen = self.manifest.epoch().unwrap().seen.clone().unwrap();
        let mut follower = Follower::new(Expected::Seen(seen), Lsn(0));
        for transaction in &server.feed {
            for row in &transaction.rows {
                follower.take(
                    transaction.position,
                    || format!("{:?} {row:?}", transaction.committed),
                    None,
                );
            }
        }
        follower.finish().is_some()
    }
}

struct Keeper {
    disk: Disk,
    saved: Disk,
    /// Bases, by their marks.
    pending: HashMap<u64, Base>,
    is_beginning: bool,
    damaged: HashSet<u64>,
}

impl Keeper {
    fn begin(&mut self, world: &mut World, is_same: bool, reason: Option<&str>, random: &mut Random) {
        let mark = world.mark();
        let mut follower = Follower::new(Expected::Mark(mark.to_string()), Lsn(0));
        for transaction in &world.server.feed {
            for row in &transaction.rows {
                let mark = match row {
                    Row::Mark(mark) => Some(mark.to_string()),
                    _ => None,
                };
                follower.take(
                    transaction.position,
                    || format!("{:?} {row:?}", transaction.committed),
                    mark.as_deref(),
                );
            }
        }
        let seen = follower.finish().unwrap().expected;
        if random.chance(30) {
            world.commit(random);
        }
        let listed = world.listed();
        if random.chance(30) {
            world.commit(random);
        }
        let now = world.now();
        let epoch = Epoch {
            number: 0,
            server: String::new(),
            from: seen.position,
            begins: now,
            through: Lsn(0),
            reached: now,
            seen: Some(seen),
            reason: reason.map(str::to_owned),
        };
        self.disk.manifest.begin_epoch(epoch, is_same, &listed);
        self.pending.clear();
        self.is_beginning = true;
        self.save();
    }

    fn save(&mut self) {
        let text = self.disk.manifest.to_lines().unwrap();
        assert_eq!(Manifest::read(text.as_slice()).unwrap(), self.disk.manifest);
        self.saved = self.disk.clone();
    }

    fn read_tables(&mut self, world: &mut World, random: &mut Random) -> bool {
        let mut any = false;
        for table in self.disk.manifest.lacking() {
            if random.chance(20) {
                world.commit(random);
            }
            // Some are locked.
            if random.chance(15) {
                continue;
            }
            let Some((_, content)) = world.server.tables.get(&table.oid).cloned() else {
                continue;
            };
            world.server.published.insert(table.oid);
            let (position, moment) = (world.move_on(), world.now());
            let number = self.disk.manifest.take_number();
            self.disk.bases.insert(number, content);
            let epoch = self.disk.manifest.reached().epoch;
            let (table, through) = (table.id, position);
            let contents = contents();
            let base = Base {
                number,
                table,
                epoch,
                position,
                moment,
                through,
                contents,
            };
            self.pending.insert(world.mark(), base);
            any = true;
        }
        any
    }

    /// Reads the feed, all or a part of it. Returns whether the log is the one that was read before, and until when all was read.
    fn read(&mut self, world: &mut World, random: &mut Random) -> (bool, Option<Moment>) {
        let seen: Seen = self.disk.manifest.epoch().unwrap().seen.clone().unwrap();
        let (number, clock) = (self.disk.manifest.reached().epoch, world.now());
        if random.chance(30) {
            world.commit(random);
        }
        let begin = world
            .server
            .feed
            .partition_point(|transaction| transaction.position <= seen.confirmed);
        let rest = world.server.feed.get(begin..).unwrap_or_default();
        let most = usize::try_from(1 + random.below(6)).unwrap();
        let page = if random.chance(60) {
            rest
        } else {
            rest.get(..most).unwrap_or(rest)
        };
        let is_all = page.len() == rest.len();
        let mut follower = Follower::new(Expected::Seen(seen.clone()), seen.confirmed);
        let living: HashMap<u32, u32> = self.disk.manifest.living().map(|table| (table.oid, table.id)).collect();
        let (mut lines, mut told) = (Vec::new(), Vec::new());
        for Transaction {
            position,
            committed,
            rows,
        } in page
        {
            for row in rows {
                if !follower.take(*position, || format!("{committed:?} {row:?}"), None) {
                    continue;
                }
                let at = Until::new(number, *position, *committed);
                match row {
                    Row::Change(oid, change) if living.contains_key(oid) => {
                        lines.push((*position, *committed, *oid, *change))
                    }
                    Row::Change(..) => {}
                    other => told.push((other.clone(), at)),
                }
            }
        }
        let Some(followed) = follower.finish() else {
            return (!is_all, None);
        };
        let manifest = &mut self.disk.manifest;
        if let (Some(first), Some(last)) = (lines.first(), lines.last()) {
            let last_one = manifest
                .segments
                .last()
                .filter(|segment| segment.epoch == number)
                .cloned();
            let mut segment = match last_one.filter(|_| random.chance(60)) {
                Some(segment) => segment,
                None => Segment {
                    number: manifest.take_number(),
                    epoch: number,
                    first: first.0,
                    earliest: first.1,
                    contents: contents(),
                    ..Segment::default()
                },
            };
            (segment.last, segment.latest) = (last.0, last.1);
            manifest.set_segment(&segment);
            self.disk.segments.entry(segment.number).or_default().extend(lines);
        }
        for (row, at) in told {
            match row {
                Row::Gap(oid) => drop(living.get(&oid).map(|id| manifest.note_gap(*id, at, "unreadable"))),
                Row::Name(oid, before, now) => manifest.define(oid, before.as_deref(), now.as_deref(), at),
                Row::Mark(mark) => drop(self.pending.remove(&mark).map(|base| manifest.add_base(base))),
                Row::Change(..) => {}
            }
        }
        manifest.see(followed.last);
        (true, is_all.then_some(clock))
    }

    fn round(&mut self, world: &mut World, random: &mut Random) {
        for _ in 0..4 {
            let all = match self.read(world, random) {
                (false, _) => return self.begin(world, false, Some("another history"), random),
                (true, all) => all,
            };
            if random.chance(20) {
                self.save();
            }
            let Some(all) = all else { break };
            if random.chance(20) {
                world.commit(random);
            }
            let (listed, known) = (world.listed(), self.disk.manifest.known());
            if !self.disk.manifest.matches(&listed) {
                match self.read(world, random) {
                    (true, Some(later)) => self.disk.manifest.compare(&listed, known, later),
                    _ => break,
                }
            }
            self.disk.manifest.reach(known, all);
            if random.chance(20) {
                self.save();
            }
            if !self.read_tables(world, random) {
                if std::mem::take(&mut self.is_beginning) {
                    self.disk.manifest.end_beginning();
                }
                break;
            }
        }
        if random.chance(30) {
            self.fold();
        }
        if random.chance(80) {
            self.save();
        }
    }

    fn fold(&mut self) {
        let manifest = &mut self.disk.manifest;
        let epoch = manifest.reached().epoch;
        let Some(position) = manifest.segments_of(epoch).next_back().map(|segment| segment.last) else {
            return;
        };
        let point = Point {
            epoch,
            before: Lsn(position.0 + 1),
            at: None,
        };
        for table in manifest.living().cloned().collect::<Vec<_>>() {
            let Some(content) = self.content(&table, &point) else {
                continue;
            };
            let number = self.disk.manifest.take_number();
            self.disk.bases.insert(number, content);
            let base = Ok(Some((number, contents())));
            Folded {
                table: table.id,
                epoch,
                position,
                base,
            }
            .apply(&mut self.disk.manifest)
            .unwrap();
        }
    }

    fn prune(&mut self, world: &World) {
        let from = Moment(world.clock - 600);
        let Ok(at) = self.point(At::Moment(from), true) else {
            return;
        };
        if let Some((kept, gone)) = prune(&self.disk.manifest, &at) {
            self.disk.manifest = kept;
            self.disk.segments.retain(|number, _| !gone.contains(number));
            self.disk.bases.retain(|number, _| !gone.contains(number));
            self.save();
        }
    }

    fn point(&self, at: At, allow_gaps: bool) -> Result<Point, String> {
        point(&self.disk.manifest, at, allow_gaps, &mut |segment, moment, after| {
            if self.damaged.contains(&segment.number) {
                return if allow_gaps {
                    Ok(None)
                } else {
                    Err("damaged".to_owned())
                };
            }
            let later = |change: &&(Lsn, Moment, u32, u64)| change.0 > after && change.1 > moment;
            Ok(self.disk.segments[&segment.number]
                .iter()
                .find(later)
                .map(|change| change.0))
        })
    }

    /// The contents of a table as the archive has them.
    fn content(&self, table: &crate::manifest::Table, point: &Point) -> Option<Vec<u64>> {
        let is_damaged = |number: u64| self.damaged.contains(&number);
        let found = needed(&self.disk.manifest, table, point, &is_damaged, false).ok()?;
        let mut content = self.disk.bases[&found.base.number].clone();
        for segment in found.segments {
            let of_table = |(position, _, oid, _): &&(Lsn, Moment, u32, u64)| {
                let is_of = *oid == table.oid && table.has_change(segment.epoch, *position);
                is_of && *position > found.base.through && point.includes(*position)
            };
            content.extend(
                self.disk.segments[&segment.number]
                    .iter()
                    .filter(of_table)
                    .map(|change| change.3),
            );
        }
        Some(content)
    }
}

/// How many tables were compared, and how many of them were known.
fn check(world: &World, keeper: &Keeper, moment: Moment, seed: u64) -> (u64, u64) {
    let Ok(point) = keeper.point(At::Moment(moment), false) else {
        return (1, 0);
    };
    let truth = world.at(moment);
    let there = keeper.disk.manifest.tables.iter().filter(|table| table.is_at(&point));
    let there: Vec<_> = there.collect();
    let mut known = 0;
    for table in &there {
        let Some(content) = keeper.content(table, &point) else {
            continue;
        };
        let said = (table.name_at(&point).to_owned(), content);
        assert_eq!(Some(&said), truth.get(&table.oid), "SEED={seed} {moment:?} {table:?}");
        known += 1;
    }
    for (oid, content) in truth
        .iter()
        .filter(|(_, (_, content))| world.told.contains(&content[0]))
    {
        let is_told = there.iter().any(|table| table.oid == *oid);
        assert!(is_told, "SEED={seed} {moment:?} nothing is said of {oid}: {content:?}");
    }
    (truth.len() as u64, known)
}

fn history(seed: u64) -> (u64, u64) {
    let mut random = Random(seed);
    let mut world = World::default();
    world.truth.push((Moment(0), Tables::new()));
    for _ in 0..6 {
        world.commit(&mut random);
    }
    let disk = Disk {
        manifest: Manifest::new("a".to_owned(), Some("f")),
        segments: HashMap::new(),
        bases: HashMap::new(),
    };
    let mut keeper = Keeper {
        saved: disk.clone(),
        disk,
        pending: HashMap::new(),
        is_beginning: false,
        damaged: HashSet::new(),
    };
    keeper.begin(&mut world, true, None, &mut random);
    for _ in 0..120 {
        match random.below(40) {
            // A run is killed, and the next one begins with the files on the disk.
            0 => {
                keeper.disk = keeper.saved.clone();
                keeper.pending.clear();
                keeper.is_beginning = false;
            }
            1 => world.copies.push(world.server.clone()),
            2 => {
                // Nobody can notice a return to a copy that is later than the last run: no log has the undone changes.
                if let Some(copy) = random.pick(&world.copies).filter(|copy| !keeper.saved.knows(copy)) {
                    world.server = copy;
                    let now = world.now();
                    world.truth.push((now, world.server.tables.clone()));
                }
            }
            3 if random.chance(40) => keeper.begin(&mut world, true, Some("the feed was lost"), &mut random),
            4 => keeper.prune(&world),
            5..25 => world.commit(&mut random),
            _ => keeper.round(&mut world, &mut random),
        }
        let now = Moment(world.clock);
        check(&world, &keeper, now, seed);
    }
    // Files that are not as they were written.
    if random.chance(30) {
        let numbers: Vec<u64> = keeper
            .disk
            .manifest
            .numbers()
            .into_iter()
            .filter(|_| random.chance(10))
            .collect();
        keeper.damaged.extend(numbers);
    }
    let (mut all, mut known) = (0, 0);
    for moment in (0..world.clock).step_by(3) {
        let (of_moment, known_then) = check(&world, &keeper, Moment(moment), seed);
        all += of_moment;
        known += known_then;
    }
    (all, known)
}

#[test]
fn a_moment_is_as_it_was_or_unknown() {
    let seeds = std::env::var("SEEDS").map_or(300, |seeds| seeds.parse().unwrap());
    let (mut all, mut known) = (0, 0);
    for seed in 1..=seeds {
        let (of_seed, known_of_seed) = history(seed);
        all += of_seed;
        known += known_of_seed;
    }
    println!("{known} of {all} tables are known");
    // A law that knows nothing would also be right.
    assert!(known * 4 > all, "{known} of {all}");
}
