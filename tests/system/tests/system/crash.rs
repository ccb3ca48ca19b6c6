//! The server is killed while sessions write. Acknowledged writes survive, batches are there as a whole or not at all, and
//! no ETag goes backwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use system_tests::{Cluster, Failure, Session, wait_until};

use system_tests::random::{Random, rounds};

const WRITERS: usize = 4;
const ENTITIES: usize = 12;

/// A point in time as an ETag has it, in a form that has the order of time.
type Version = String;

fn version(etag: &str) -> Version {
    let time = etag
        .strip_prefix("W/\"datetime'")
        .and_then(|rest| rest.strip_suffix("Z'\""))
        .unwrap();
    let (seconds, fraction) = time.split_once('.').unwrap_or((time, ""));
    format!("{seconds}.{fraction:0<7}")
}

/// The entities of a partition: the number of each, and its version.
type Partition = BTreeMap<String, (i64, Version)>;

fn read(session: &Session, partition_key: &str) -> Partition {
    let rows = session.run(&format!(
        "SELECT row_key, properties ->> 'n', etag(\"timestamp\") FROM table_service_data.\"Orders\" WHERE partition_key = '{partition_key}'"
    ));
    rows.into_iter()
        .map(|row| {
            let text = |column: usize| row[column].as_deref().unwrap();
            (text(0).to_owned(), (text(1).parse().unwrap(), version(text(2))))
        })
        .collect()
}

/// A batch, and the numbers after it: `None` for an entity that it deletes.
struct Batch {
    sql: String,
    numbers: BTreeMap<String, Option<i64>>,
}

/// A session that writes one partition of its own in batches, and its number into entities that all writers share.
struct Writer {
    number: usize,
    random: Random,
    counter: i64,
    /// The entities of its own partition.
    known: Partition,
    /// The highest version of each entity that it has seen, deleted ones included.
    highest: BTreeMap<String, Version>,
    /// The batch that ran when the server died: it may have been committed or not.
    doubtful_batch: Option<Batch>,
    /// The last acknowledged number in each shared entity, and the one that may have been written.
    shared: BTreeMap<String, (i64, Option<i64>, Version)>,
    acknowledged: usize,
}

impl Writer {
    fn new(number: usize) -> Writer {
        Writer {
            number,
            random: Random::new(number as u64),
            counter: 0,
            known: Partition::new(),
            highest: BTreeMap::new(),
            doubtful_batch: None,
            shared: BTreeMap::new(),
            acknowledged: 0,
        }
    }

    fn partition_key(&self) -> String {
        format!("writer{}", self.number)
    }

    /// Writes until the server is gone.
    fn run(&mut self, session: &Session, acknowledged: &AtomicUsize) {
        loop {
            self.counter += 1;
            let outcome = match self.random.chance(60) {
                true => self.write_batch(session),
                false => self.merge_shared(session),
            };
            match outcome {
                Ok(()) => {
                    self.acknowledged += 1;
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Err(failure) => {
                    assert!(
                        failure.sqlstate == "08006" || failure.sqlstate.starts_with("57P"),
                        "{failure:?}"
                    );
                    return;
                }
            }
        }
    }

    fn write_batch(&mut self, session: &Session) -> Result<(), Failure> {
        let mut row_keys: Vec<_> = (0..ENTITIES).map(|i| format!("e{i:02}")).collect();
        self.random.shuffle(&mut row_keys);
        row_keys.truncate(2 + self.random.below(ENTITIES - 1));
        let mut batch = Batch {
            sql: format!(
                "SELECT row_key, etag FROM execute_batch('Orders', '{}'",
                self.partition_key()
            ),
            numbers: BTreeMap::new(),
        };
        let n = self.counter;
        for row_key in row_keys {
            let exists = self.known.contains_key(&row_key);
            let (operation, number) = match (self.random.below(4), exists) {
                (0, true) => (format!("batch_delete('{row_key}')"), None),
                (1, true) => (format!("batch_replace('{row_key}', '{{\"n\": {n}}}', '*')"), Some(n)),
                (2, true) => (format!("batch_merge('{row_key}', '{{\"n\": {n}}}', '*')"), Some(n)),
                (0 | 1, false) => (format!("batch_insert('{row_key}', '{{\"n\": {n}}}')"), Some(n)),
                _ => (format!("batch_insert_or_merge('{row_key}', '{{\"n\": {n}}}')"), Some(n)),
            };
            write!(batch.sql, ", {operation}").unwrap();
            batch.numbers.insert(row_key, number);
        }
        batch.sql.push(')');
        let sql = batch.sql.clone();
        self.doubtful_batch = Some(batch);
        let rows = session.sql(&sql)?;
        let batch = self.doubtful_batch.take().unwrap();
        for row in rows {
            let row_key = row[0].clone().unwrap();
            match (&row[1], batch.numbers[&row_key]) {
                (Some(etag), Some(number)) => self.advance(&row_key, number, version(etag)),
                (None, None) => {
                    self.known.remove(&row_key);
                }
                other => panic!("{row_key}: {other:?}"),
            }
        }
        Ok(())
    }

    fn advance(&mut self, row_key: &str, number: i64, version: Version) {
        let highest = self.highest.insert(row_key.to_owned(), version.clone());
        assert!(
            highest.is_none_or(|highest| highest < version),
            "{row_key}: an ETag went backwards"
        );
        self.known.insert(row_key.to_owned(), (number, version));
    }

    /// The merges of all writers survive.
    fn merge_shared(&mut self, session: &Session) -> Result<(), Failure> {
        let row_key = format!("s{}", self.random.below(3));
        let n = self.counter;
        let shared = self
            .shared
            .entry(row_key.clone())
            .or_insert_with(|| (0, None, Version::new()));
        shared.1 = Some(n);
        let etag = session.sql(&format!(
            "SELECT insert_or_merge_entity('Orders', 'shared', '{row_key}', '{{\"by{}\": {n}}}')",
            self.number
        ))?;
        let now = version(etag[0][0].as_deref().unwrap());
        assert!(shared.2 < now, "{row_key}: an ETag went backwards");
        *shared = (n, None, now);
        Ok(())
    }

    /// Compares the entities after a crash with the acknowledged ones. Returns whether the batch in doubt was done.
    fn check(&mut self, session: &Session) -> Option<bool> {
        let found = read(session, &self.partition_key());
        let done = match self.doubtful_batch.take() {
            Some(batch) if found != self.known => {
                let mut expected: BTreeMap<_, _> = self.known.iter().map(|(key, (n, _))| (key.clone(), *n)).collect();
                for (row_key, number) in &batch.numbers {
                    match number {
                        Some(number) => expected.insert(row_key.clone(), *number),
                        None => expected.remove(row_key),
                    };
                }
                let numbers: BTreeMap<_, _> = found.iter().map(|(key, (n, _))| (key.clone(), *n)).collect();
                assert_eq!(
                    numbers, expected,
                    "writer {}: neither before nor after {}",
                    self.number, batch.sql
                );
                for (row_key, (number, version)) in &found {
                    match batch.numbers.contains_key(row_key) {
                        true => self.advance(row_key, *number, version.clone()),
                        false => assert_eq!(self.known.get(row_key), Some(&(*number, version.clone()))),
                    }
                }
                self.known = found;
                Some(true)
            }
            Some(_) => Some(false),
            None => {
                assert_eq!(found, self.known, "writer {}", self.number);
                None
            }
        };
        for (row_key, (last, doubtful, seen)) in &mut self.shared {
            let rows = session.run(&format!(
                "SELECT properties ->> 'by{}', etag(e) FROM get_entity('Orders', 'shared', '{row_key}') AS e",
                self.number
            ));
            let text = |column: usize| rows.first().and_then(|row| row[column].as_deref());
            let number = text(0).map_or(0, |text| text.parse().unwrap());
            assert!(
                number == *last || Some(number) == *doubtful,
                "writer {}: {row_key} has {number}, acknowledged was {last}",
                self.number
            );
            if let Some(etag) = text(1) {
                assert!(*seen <= version(etag), "{row_key}: an ETag went backwards");
                *seen = version(etag);
            }
            (*last, *doubtful) = (number, None);
        }
        done
    }
}

fn session(cluster: &Cluster) -> Session {
    let session = cluster.session();
    session.run("SET search_path = table_service");
    session
}

#[test]
fn what_was_acknowledged_survives_a_crash() {
    // Processes may die in the middle of writing a page.
    let cluster = Cluster::start(&["fsync=on", "full_page_writes=on", "max_wal_size=64MB"]);
    let admin = session(&cluster);
    admin.run("CREATE EXTENSION table_service; SELECT create_table('Orders')");
    drop(admin);
    let kills = match std::env::var_os("SOAK") {
        Some(_) => rounds(0).clamp(20, 50),
        None => 2,
    };
    let mut random = Random::new(kills);
    let mut writers: Vec<_> = (0..WRITERS).map(Writer::new).collect();
    for kill in 0..kills {
        let acknowledged = AtomicUsize::new(0);
        let sessions: Vec<_> = writers.iter().map(|_| session(&cluster)).collect();
        std::thread::scope(|scope| {
            for (writer, session) in writers.iter_mut().zip(&sessions) {
                scope.spawn(|| writer.run(session, &acknowledged));
            }
            let enough = 100 + random.below(400);
            let checkpoint = random.below(enough);
            let wait = |count: usize| {
                wait_until("the writers write", || acknowledged.load(Ordering::Relaxed) >= count);
            };
            wait(checkpoint);
            session(&cluster).run("CHECKPOINT");
            wait(enough);
            cluster.crash();
        });
        let checks = session(&cluster);
        let done: Vec<_> = writers.iter_mut().map(|writer| writer.check(&checks)).collect();
        let count = |outcome: Option<bool>| done.iter().filter(|&&done| done == outcome).count();
        println!(
            "kill {kill}: {} writes acknowledged, all there; of the batches in doubt {} are there as a whole, {} not at all",
            acknowledged.into_inner(),
            count(Some(true)),
            count(Some(false)),
        );
    }
    // Every entity belongs to some session.
    let checks = session(&cluster);
    let owners = checks.run("SELECT DISTINCT partition_key FROM table_service_data.\"Orders\"");
    let owners: BTreeSet<_> = owners.into_iter().map(|row| row[0].clone().unwrap()).collect();
    let expected: BTreeSet<_> = writers
        .iter()
        .map(Writer::partition_key)
        .chain(["shared".to_owned()])
        .collect();
    assert_eq!(owners, expected);
    assert!(writers.iter().all(|writer| writer.acknowledged > 0));
}

/// The last processes of a server that is killed may say anything. Other tests leave that out when they look for faults.
#[test]
fn a_crash_says_which_part_of_the_log_its_processes_have_written() {
    let cluster = Cluster::start(&[]);
    session(&cluster).run("DO $$ BEGIN RAISE LOG 'before the crash'; END $$");
    cluster.crash();
    session(&cluster).run("DO $$ BEGIN RAISE LOG 'after the crash'; END $$");
    let [killed] = &cluster.killed()[..] else {
        panic!("one crash")
    };
    let log = cluster.log();
    assert!(log[..killed.start].contains("before the crash"));
    assert!(!log[killed.clone()].contains("the crash"));
    assert!(log[killed.end..].contains("was interrupted"));
    assert!(log[killed.end..].contains("after the crash"));
}
