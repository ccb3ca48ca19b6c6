//! A reader of a change feed. While clients work and servers are killed, it applies the changes to a copy of the tables, and
//! is itself interrupted between reading, applying and confirming. When all is over, the copy must equal the tables.
//!
//! Beside the clients of the histories, writers fill a table of their own in every way that there is. Nobody checks the
//! answers that they get: only the feed does.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use system_tests::random::Random;
use system_tests::{Failure, Session, Texts, wait_until};

use crate::faults::Service;
use crate::workload::TABLE;

const FEED: &str = "histories";

/// The table of the writers.
const FREE: &str = "Free";

const WRITERS: usize = 2;

/// Of each writer.
const TRANSACTIONS: usize = 60;

/// Table, PartitionKey and RowKey.
pub type Key = (String, String, String);

/// A version of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// In microseconds.
    pub timestamp: i64,
    pub properties: String,
}

/// A row of a feed. A clear has empty keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub position: u64,
    pub kind: String,
    pub key: Key,
    pub timestamp: Option<i64>,
    pub properties: Option<String>,
}

/// The copy that a reader makes by the changes.
#[derive(Debug, Default)]
pub struct Copy {
    entities: BTreeMap<Key, Entity>,
    /// The last Timestamp of each entity of the clients, deleted ones included.
    latest: HashMap<Key, i64>,
    /// The transactions that are applied.
    transactions: BTreeMap<u64, Vec<Change>>,
}

impl Copy {
    /// Applies the transactions of a page that are not applied yet.
    ///
    /// # Errors
    /// If the page is not in the order of commits, a transaction is not the same when it comes again, a change does not fit to
    /// those before it, or a Timestamp does not rise.
    pub fn apply(&mut self, page: &[Change]) -> Result<(), String> {
        let mut before = 0;
        for transaction in page.chunk_by(|one, next| one.position == next.position) {
            let position = transaction[0].position;
            let last = self.transactions.last_key_value().map_or(0, |(last, _)| *last);
            match self.transactions.get(&position) {
                _ if position <= before => return Err(format!("positions do not rise: {position} follows {before}")),
                Some(known) if known == transaction => {}
                Some(known) => {
                    return Err(format!(
                        "a transaction is another one when it comes again:\n  {known:?}\n  {transaction:?}"
                    ));
                }
                None if position < last => return Err(format!("a transaction is late: {transaction:?} after {last}")),
                None => {
                    let mut deleted = None;
                    for change in transaction {
                        let applied = self.change(change, deleted);
                        deleted = applied.map_err(|problem| format!("{problem}: {change:?} of\n  {transaction:?}"))?;
                    }
                    self.rise(transaction)?;
                    self.transactions.insert(position, transaction.to_vec());
                }
            }
            before = position;
        }
        Ok(())
    }

    /// Applies a change. Returns the entity that it deletes; `deleted` is the one of the change before.
    fn change(&mut self, change: &Change, deleted: Option<Entity>) -> Result<Option<Entity>, String> {
        let old = self.entities.get(&change.key);
        match (change.kind.as_str(), old) {
            ("clear", _) => {
                self.entities.retain(|(table, ..), _| *table != change.key.0);
                Ok(None)
            }
            ("delete", Some(_)) => Ok(self.entities.remove(&change.key)),
            ("insert", None) | ("update", Some(_)) => {
                // NULL is the old value: PostgreSQL does not write large properties again. A change of a key is a
                // delete and an insert, so the entity with the old value has just been deleted.
                let before = old.cloned().or(deleted);
                let properties = change.properties.clone().or_else(|| Some(before?.properties));
                let (Some(properties), Some(timestamp)) = (properties, change.timestamp) else {
                    return Err("a change has no version".to_owned());
                };
                if old.is_some_and(|old| timestamp <= old.timestamp) {
                    return Err("a Timestamp does not rise".to_owned());
                }
                self.entities
                    .insert(change.key.clone(), Entity { timestamp, properties });
                Ok(None)
            }
            (kind, Some(old)) => Err(format!("{kind} of an entity that is there, {old:?}")),
            (kind, None) => Err(format!("{kind} of an entity that is not there")),
        }
    }

    /// Checks that the clients' entities have later Timestamps than ever before. An INSERT may take its Timestamp before it waits
    /// for a deletion: the service then updates the entity in the same transaction, but nobody does so for an INSERT by hand.
    fn rise(&mut self, transaction: &[Change]) -> Result<(), String> {
        let keys: BTreeSet<&Key> = transaction.iter().map(|change| &change.key).collect();
        for key in keys.into_iter().filter(|(table, ..)| table == TABLE) {
            if let Some(entity) = self.entities.get(key) {
                let latest = self.latest.insert(key.clone(), entity.timestamp);
                if latest.is_some_and(|latest| entity.timestamp <= latest) {
                    return Err(format!(
                        "a Timestamp does not rise: {latest:?} was before\n  {transaction:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Compares the copy with the tables.
    ///
    /// # Errors
    /// An entity that differs.
    pub fn compare(&self, tables: &BTreeMap<Key, Entity>) -> Result<(), String> {
        let mut keys = self.entities.keys().chain(tables.keys());
        match keys.find(|key| self.entities.get(key) != tables.get(key)) {
            Some(key) => Err(format!(
                "the copy is not the table: {key:?} is {:?} in the copy, and {:?} in the table",
                self.entities.get(key),
                tables.get(key)
            )),
            None => Ok(()),
        }
    }
}

/// The first step of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    ApplyThenConfirm,
    /// This loses the changes of a page if it is interrupted in between.
    ConfirmThenApply,
}

/// A reader of a feed of all tables. Its copy outlives its interruptions.
pub struct Reader<'s> {
    service: &'s Service,
    order: Order,
    random: Random,
    session: Option<Session>,
    copy: Copy,
    /// Up to where the server has said that it is confirmed.
    confirmed: u64,
    interruptions: usize,
}

impl<'s> Reader<'s> {
    /// Makes the feed, and the table of the writers. Entities of that one expire soon.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn new(service: &'s Service, order: Order) -> Reader<'s> {
        let session = connect(service).unwrap();
        session.run(&format!("SELECT create_table('{FREE}')"));
        session.run(&format!("SELECT set_expiry('{FREE}', time_to_live => '1 s')"));
        session.run(&format!("SELECT create_change_feed('{FEED}')"));
        Reader {
            service,
            order,
            random: Random::new(0),
            session: None,
            copy: Copy::default(),
            confirmed: 0,
            interruptions: 0,
        }
    }

    /// Reads until `is_over`.
    fn follow(&mut self, is_over: impl Fn() -> bool) -> Result<(), String> {
        while !is_over() {
            self.step()?;
            std::thread::sleep(Duration::from_millis(self.random.below(10) as u64));
        }
        Ok(())
    }

    /// Reads the last changes while nobody can write, and compares the copy with the tables.
    fn finish(&mut self) -> Result<(), String> {
        let writer = connect(self.service).unwrap();
        writer.run(&format!(
            "BEGIN; LOCK TABLE table_service_data.\"{TABLE}\", table_service_data.\"{FREE}\" IN SHARE MODE"
        ));
        let tables = entities(&writer);
        let mut end = Ok(false);
        wait_until("the reader reads all changes", || {
            end = self.step();
            !matches!(end, Ok(false))
        });
        end.and_then(|_| self.copy.compare(&tables))
    }

    /// Reads, applies and confirms a page, unless something interrupts it. Returns whether there were no changes.
    fn step(&mut self) -> Result<bool, String> {
        let top = *self.random.pick(&[1, 3, 10, 100, 1000]);
        let query = format!(
            "SELECT \"position\"::pg_lsn - '0/0'::pg_lsn, kind, table_name, partition_key, row_key,
             (extract(epoch FROM \"timestamp\") * 1000000)::bigint, properties, \"position\" FROM query_changes('{FEED}', {top})"
        );
        let Some(rows) = self.sql(&query)? else {
            return Ok(false);
        };
        let Some(position) = rows.last().and_then(|row| row[7].clone()) else {
            return Ok(true);
        };
        let page: Vec<Change> = rows.into_iter().map(change).collect();
        if page[0].position <= self.confirmed {
            return Err(format!("a change comes again that is confirmed: {:?}", page[0]));
        }
        if self.order == Order::ApplyThenConfirm {
            if self.is_interrupted() {
                return Ok(false);
            }
            self.copy.apply(&page)?;
        }
        if self.is_interrupted() {
            return Ok(false);
        }
        let confirm = format!("SELECT confirm_changes('{FEED}', '{position}')");
        if self.random.chance(10) {
            self.sql(&format!("BEGIN; {confirm}; ROLLBACK"))?;
        } else if self.sql(&confirm)?.is_some() {
            self.confirmed = page[page.len() - 1].position;
        }
        if self.order == Order::ConfirmThenApply && !self.is_interrupted() {
            self.copy.apply(&page)?;
        }
        Ok(false)
    }

    /// Whether the reader is killed now: it loses its session and the changes of the page.
    fn is_interrupted(&mut self) -> bool {
        let is_interrupted = self.random.chance(15);
        if is_interrupted {
            self.interruptions += 1;
            self.session.take().into_iter().for_each(Session::lose);
        }
        is_interrupted
    }

    /// The rows of a statement. `None` if it was interrupted: its effect is unknown.
    fn sql(&mut self, sql: &str) -> Result<Option<Texts>, String> {
        let Some(session) = self.session.take().or_else(|| connect(self.service).ok()) else {
            return Ok(None);
        };
        if self.random.chance(5) {
            self.interruptions += 1;
            drop(session.start(sql));
            std::thread::sleep(Duration::from_micros(self.random.below(3000) as u64));
            session.lose();
            return Ok(None);
        }
        match session.sql(sql) {
            Ok(rows) => {
                self.session = Some(session);
                Ok(Some(rows.into_iter().filter(|row| row.len() > 1).collect()))
            }
            Err(failure) if is_lost(&failure) => Ok(None),
            // The statement of a session that was lost still runs.
            Err(failure) if failure.sqlstate == "55006" => Ok(None),
            Err(failure) => Err(format!("the reader fails: {sql}: {failure:?}")),
        }
    }
}

fn change(row: Vec<Option<String>>) -> Change {
    let text = |column: usize| row[column].clone().unwrap_or_default();
    Change {
        position: text(0).parse().unwrap(),
        kind: text(1),
        key: (text(2), text(3), text(4)),
        timestamp: row[5].as_ref().map(|micros| micros.parse().unwrap()),
        properties: row[6].clone(),
    }
}

/// The entities of both tables.
fn entities(session: &Session) -> BTreeMap<Key, Entity> {
    let of = |table: &str| {
        session.run(&format!(
            "SELECT '{table}', partition_key, row_key, (extract(epoch FROM \"timestamp\") * 1000000)::bigint, properties
             FROM table_service_data.\"{table}\""
        ))
    };
    let rows = [TABLE, FREE].into_iter().flat_map(of);
    rows.map(|row| {
        let text = |column: usize| row[column].clone().unwrap();
        let entity = Entity {
            timestamp: text(3).parse().unwrap(),
            properties: text(4),
        };
        ((text(0), text(1), text(2)), entity)
    })
    .collect()
}

fn connect(service: &Service) -> Result<Session, Failure> {
    let session = service.try_session(0)?;
    session.sql("SET search_path = table_service")?;
    Ok(session)
}

fn is_lost(failure: &Failure) -> bool {
    failure.sqlstate.starts_with("57P") || failure.sqlstate.starts_with("08")
}

/// A client that writes in every way that there is.
struct Writer<'s> {
    service: &'s Service,
    seed: u64,
    number: usize,
    random: Random,
    session: Option<Session>,
    count: usize,
}

impl<'s> Writer<'s> {
    fn new(service: &'s Service, seed: u64, number: usize) -> Writer<'s> {
        Writer {
            service,
            seed,
            number,
            random: Random::new(seed.wrapping_mul(1000).wrapping_add(500 + number as u64)),
            session: None,
            count: 0,
        }
    }

    fn work(&mut self) {
        for _ in 0..TRANSACTIONS {
            self.attempt(Writer::write);
        }
        // A prepared transaction would keep its locks.
        wait_until("a writer ends", || self.attempt(Writer::end_prepared));
    }

    /// Does something in a session. Returns whether it succeeds: the server may be killed, and writers meet.
    fn attempt(&mut self, work: impl Fn(&mut Self, &Session) -> Result<(), Failure>) -> bool {
        wait_until("a writer connects", || {
            self.session = self.session.take().or_else(|| connect(self.service).ok());
            self.session.is_some()
        });
        let Some(session) = self.session.take() else {
            return false;
        };
        let done = work(self, &session);
        match &done {
            Err(failure) if is_lost(failure) => {}
            Err(failure) if ["23505", "40001", "40P01"].contains(&failure.sqlstate.as_str()) => {
                self.session = session.sql("ROLLBACK").is_ok().then_some(session);
            }
            Err(failure) => panic!("a writer fails: {failure:?}"),
            Ok(()) => self.session = Some(session),
        }
        done.is_ok()
    }

    /// Ends the transaction that it has prepared, if there is one, in one of both ways.
    fn end_prepared(&mut self, session: &Session) -> Result<(), Failure> {
        let name = self.prepared();
        let rows = session.sql(&format!("SELECT gid FROM pg_prepared_xacts WHERE gid = '{name}'"))?;
        if rows.is_empty() {
            return Ok(());
        }
        let end = *self.random.pick(&["COMMIT", "ROLLBACK"]);
        session.sql(&format!("{end} PREPARED '{name}'")).map(drop)
    }

    fn prepared(&self) -> String {
        format!("writer {}", self.number)
    }

    fn write(&mut self, session: &Session) -> Result<(), Failure> {
        self.end_prepared(session)?;
        self.count += 1;
        let number = self.count;
        let partition = format!("s{}f{}", self.seed, self.random.below(2));
        let (key, other) = (self.random.below(5), 5 + self.random.below(5));
        let table = format!("table_service_data.\"{FREE}\"");
        let bag = format!(r#"'{{"N": {number}}}'"#);
        let put = |key: usize| format!("SELECT insert_or_replace_entity('{FREE}', '{partition}', '{key}', {bag})");
        let merge = |key: usize| {
            format!(r#"SELECT insert_or_merge_entity('{FREE}', '{partition}', '{key}', '{{"M": {number}}}')"#)
        };
        let (put, merge, put_other) = (put(key), merge(other), put(other));
        let here = format!("partition_key = '{partition}' AND row_key = '{key}'");
        let sql = match self.random.below(15) {
            0 => format!(
                "BEGIN; {put}; SAVEPOINT s; {merge}; DELETE FROM {table} WHERE partition_key = '{partition}'; ROLLBACK TO s;
                 SAVEPOINT r; {merge}; RELEASE r; COMMIT"
            ),
            1 => format!("BEGIN; {put}; {merge}; ROLLBACK"),
            2 => format!(
                "SELECT FROM execute_batch('{FREE}', '{partition}', batch_insert_or_replace('{key}', {bag}), batch_insert_or_merge('{other}', {bag}))"
            ),
            3 => format!(
                "SELECT delete_entities('{FREE}', 'PartitionKey eq ''{partition}'' and N lt {}')",
                number.saturating_sub(5)
            ),
            4 => format!("SELECT update_entities('{FREE}', 'PartitionKey eq ''{partition}''', '{{\"U\": {number}}}')"),
            // A key changes, and sometimes back.
            5 => format!("UPDATE {table} SET row_key = '{other}' WHERE {here}"),
            6 => format!("UPDATE {table} SET row_key = '{key}' WHERE partition_key = '{partition}' AND row_key = '{other}'"),
            7 => format!(
                "INSERT INTO {table} AS t (partition_key, row_key, properties) SELECT '{partition}', i::text, {bag} FROM generate_series(0, 20) AS i
                 ON CONFLICT (partition_key, row_key) DO UPDATE SET properties = EXCLUDED.properties"
            ),
            8 => format!(
                "MERGE INTO {table} AS t USING generate_series(0, 6) AS v (k) ON t.partition_key = '{partition}' AND t.row_key = v.k::text
                 WHEN MATCHED AND v.k % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET properties = {bag}
                 WHEN NOT MATCHED THEN INSERT (partition_key, row_key, properties) VALUES ('{partition}', v.k::text, {bag})"
            ),
            // Properties that are stored out of line, and an update that leaves them as they are.
            9 => format!(
                "SELECT insert_or_replace_entity('{FREE}', '{partition}', '{key}',
                 (SELECT jsonb_build_object('T', string_agg(md5(i::text), '')) FROM generate_series({number}, {number} + 300) AS i));
                 UPDATE {table} SET \"timestamp\" = now() WHERE partition_key = '{partition}'"
            ),
            10 if self.random.chance(30) => {
                let clears = [format!("SELECT clear_table('{FREE}')"), format!("TRUNCATE {table}; {put}")];
                self.random.pick(&clears).clone()
            }
            11 => format!("BEGIN; {put}; {merge}; PREPARE TRANSACTION '{}'", self.prepared()),
            // It begins early and commits late.
            12 => format!("BEGIN; {put}; SELECT FROM pg_sleep(0.03); {put_other}; COMMIT"),
            13 => {
                let copy = format!("COPY {table} (partition_key, row_key, properties) FROM STDIN");
                let row = |key: usize| format!("{partition}\t{key}\t{{\"N\": {number}}}\n");
                return session.copy_in(&copy, (row(key) + &row(other)).into_bytes()).map(drop);
            }
            14 => format!("SELECT FROM expire_entities('{FREE}')"),
            _ => format!("DELETE FROM {table} WHERE {here}"),
        };
        session.sql(&sql).map(drop)
    }
}

/// Lets the reader follow the writers and the work `beside` them; returns the result of that work.
///
/// # Errors
/// The problem, there or in the copy.
///
/// # Panics
/// If the service gives an answer that it should not give.
pub fn follow(
    reader: &mut Reader,
    seed: u64,
    beside: impl FnOnce() -> Result<String, String> + Send,
) -> Result<String, String> {
    let service = reader.service;
    reader.random = Random::new(seed.wrapping_mul(1000).wrapping_add(999));
    let before = (reader.copy.transactions.len(), reader.interruptions);
    let (beside, followed) = std::thread::scope(|scope| {
        let beside = scope.spawn(beside);
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| scope.spawn(move || Writer::new(service, seed, number).work()))
            .collect();
        let followed = reader.follow(|| beside.is_finished() && writers.iter().all(|writer| writer.is_finished()));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        (beside.join().unwrap(), followed)
    });
    let beside = beside?;
    followed
        .and_then(|()| reader.finish())
        .map_err(|problem| format!("seed {seed}: {problem}"))?;
    Ok(format!(
        "{beside}; the feed had {} transactions, and its reader was interrupted {} times",
        reader.copy.transactions.len() - before.0,
        reader.interruptions - before.1
    ))
}
