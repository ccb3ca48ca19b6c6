//! Batches and single writes from several sessions at once, against a model in memory.
//!
//! Some entities belong to one session, which knows their contents and so the outcome of every operation. Some are
//! shared and only merged into: no merge is lost. The rest is open to all; a trigger logs every change of those, so
//! that each acknowledged operation can be tried on the very version that it met. Batches never deadlock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use system_tests::{Database, Failure, Session, wait_until};

use system_tests::random::{Random, seeds};

const PARTITIONS: [&str; 2] = ["p", "q"];

/// Numbers by name: all that the entities of this test hold.
type Bag = BTreeMap<String, i64>;
/// PartitionKey and RowKey.
type Key = (&'static str, String);

fn json(bag: &Bag) -> String {
    let members: Vec<_> = bag.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{{}}}", members.join(", "))
}

fn bag(json: &str) -> Bag {
    let members = json.trim_start_matches('{').trim_end_matches('}');
    members
        .split(',')
        .filter(|member| !member.is_empty())
        .map(|member| {
            let (name, value) = member.split_once(':').unwrap();
            (name.trim().trim_matches('"').to_owned(), value.trim().parse().unwrap())
        })
        .collect()
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Insert,
    Replace,
    Merge,
    InsertOrReplace,
    InsertOrMerge,
    Delete,
}

const ACTIONS: [Action; 6] = [
    Action::Insert,
    Action::Replace,
    Action::Merge,
    Action::InsertOrReplace,
    Action::InsertOrMerge,
    Action::Delete,
];

impl Action {
    fn name(self) -> &'static str {
        match self {
            Action::Insert => "insert",
            Action::Replace => "replace",
            Action::Merge => "merge",
            Action::InsertOrReplace => "insert_or_replace",
            Action::InsertOrMerge => "insert_or_merge",
            Action::Delete => "delete",
        }
    }

    fn is_conditional(self) -> bool {
        matches!(self, Action::Replace | Action::Merge | Action::Delete)
    }
}

#[derive(Clone, Debug)]
struct Operation {
    action: Action,
    row_key: String,
    bag: Bag,
    /// `*` for inserts and upserts, where it is not given.
    if_match: String,
}

/// A version of an entity: its ETag and its properties.
type Version = (String, Bag);

impl Operation {
    /// Its effect on an entity: its new properties, `None` for a delete. Or the code of the error.
    fn apply(&self, stored: Option<&Version>) -> Result<Option<Bag>, &'static str> {
        let Some((etag, old)) = stored else {
            return match self.action.is_conditional() {
                true => Err("ResourceNotFound"),
                false => Ok(Some(self.bag.clone())),
            };
        };
        if self.if_match != "*" && self.if_match != *etag {
            return Err("UpdateConditionNotSatisfied");
        }
        match self.action {
            Action::Insert => Err("EntityAlreadyExists"),
            Action::Delete => Ok(None),
            Action::Replace | Action::InsertOrReplace => Ok(Some(self.bag.clone())),
            Action::Merge | Action::InsertOrMerge => {
                let mut merged = old.clone();
                merged.extend(self.bag.clone());
                Ok(Some(merged))
            }
        }
    }

    fn single(&self, partition_key: &str) -> String {
        let mut sql = format!(
            "SELECT {}_entity('Orders', '{partition_key}', '{}'",
            self.action.name(),
            self.row_key
        );
        self.rest(&mut sql);
        sql
    }

    fn constructor(&self) -> String {
        let mut sql = format!("batch_{}('{}'", self.action.name(), self.row_key);
        self.rest(&mut sql);
        sql
    }

    fn rest(&self, sql: &mut String) {
        if self.action != Action::Delete {
            write!(sql, ", '{}'", json(&self.bag)).unwrap();
        }
        if self.action.is_conditional() {
            write!(sql, ", {}", quote(&self.if_match)).unwrap();
        }
        sql.push(')');
    }

    fn member(&self) -> String {
        let mut entity = format!("{{\"RowKey\": \"{}\"", self.row_key);
        for (name, value) in &self.bag {
            write!(entity, ", \"{name}\": {value}").unwrap();
        }
        let if_match = match self.action.is_conditional() {
            true => format!(", \"if_match\": \"{}\"", self.if_match.replace('"', "\\\"")),
            false => String::new(),
        };
        format!("{{\"{}\": {entity}}}{if_match}}}", self.action.name())
    }
}

/// One write of an entity, or one batch.
#[derive(Clone, Debug)]
struct Statement {
    partition_key: &'static str,
    operations: Vec<Operation>,
    is_batch: bool,
    as_json: bool,
}

impl Statement {
    fn sql(&self) -> String {
        let partition_key = self.partition_key;
        if !self.is_batch {
            return self.operations[0].single(partition_key);
        }
        let call = if self.as_json {
            let members: Vec<_> = self.operations.iter().map(Operation::member).collect();
            let members = quote(&format!("[{}]", members.join(", ")));
            format!("execute_batch_json('Orders', '{partition_key}', {members})")
        } else {
            let operations: Vec<_> = self.operations.iter().map(Operation::constructor).collect();
            format!("execute_batch('Orders', '{partition_key}', {})", operations.join(", "))
        };
        format!("SELECT index, row_key, etag FROM {call}")
    }

    /// The new ETags in the order of the operations, `None` for deletes.
    fn run(&self, session: &Session) -> Result<Vec<Option<String>>, Failure> {
        let rows = session.sql(&self.sql())?;
        if !self.is_batch {
            let etag = rows[0][0].clone();
            return Ok(vec![etag.filter(|_| self.operations[0].action != Action::Delete)]);
        }
        assert_eq!(rows.len(), self.operations.len());
        let etags = self
            .operations
            .iter()
            .zip(rows)
            .enumerate()
            .map(|(index, (operation, row))| {
                assert_eq!(row[0], Some(index.to_string()));
                assert_eq!(row[1].as_ref(), Some(&operation.row_key));
                assert_eq!(row[2].is_none(), operation.action == Action::Delete);
                row[2].clone()
            });
        Ok(etags.collect())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Own,
    Shared,
    Open,
}

/// The work of the sessions of a seed.
#[derive(Clone, Copy)]
struct Plan {
    sessions: usize,
    steps: usize,
    own: usize,
    shared: usize,
    open: usize,
    /// Some sessions work at the higher isolation levels.
    levels: bool,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        // Every other seed looks for deadlocks: few entities, and every session writes all of them.
        let hunt = seed % 2 == 1;
        Plan {
            sessions: 8,
            steps: 60,
            own: if hunt { 1 } else { 4 },
            shared: if hunt { 1 } else { 3 },
            open: if hunt { 4 } else { 6 },
            levels: seed.is_multiple_of(3),
        }
    }

    fn level(&self, worker: usize) -> &'static str {
        match (self.levels, worker % 4) {
            (true, 2) => "REPEATABLE READ",
            (true, 3) => "SERIALIZABLE",
            _ => "READ COMMITTED",
        }
    }

    /// The RowKeys that a session writes. The number comes first, so that the classes alternate in key order.
    fn row_keys(&self, worker: usize) -> Vec<(Class, String)> {
        let own = (0..self.own).map(|i| (Class::Own, format!("{i}-own-{worker}")));
        let shared = (0..self.shared).map(|i| (Class::Shared, format!("{i}-shared")));
        let open = (0..self.open).map(|i| (Class::Open, format!("{i}-open")));
        own.chain(shared).chain(open).collect()
    }
}

/// The knowledge of a session.
#[derive(Clone, Default)]
struct Knowledge {
    /// Its own entities.
    own: HashMap<Key, Version>,
    /// The last number that it has merged into each shared entity, and its name there.
    merged: HashMap<Key, (String, i64)>,
    /// ETags of entities that are not its own, which may be old.
    seen: HashMap<Key, String>,
    /// Its operations on open entities, with the new ETags.
    done: HashMap<Key, Vec<(Operation, Option<String>)>>,
    /// The versions that its writes have asked for, and got.
    consumed: Vec<(Key, String)>,
    operations: usize,
    batches: usize,
    singles: usize,
    refused: usize,
    serialization_failures: usize,
}

impl Knowledge {
    fn learn(&mut self, statement: &Statement, classes: &HashMap<String, Class>, etags: &[Option<String>]) {
        for (operation, etag) in statement.operations.iter().zip(etags) {
            let key = (statement.partition_key, operation.row_key.clone());
            if operation.if_match != "*" {
                self.consumed.push((key.clone(), operation.if_match.clone()));
            }
            match classes[&operation.row_key] {
                Class::Own => match operation.apply(self.own.get(&key)).unwrap() {
                    Some(bag) => {
                        self.own.insert(key, (etag.clone().unwrap(), bag));
                    }
                    None => {
                        self.own.remove(&key);
                    }
                },
                Class::Shared => {
                    let last = operation.bag.first_key_value().unwrap();
                    self.merged.insert(key.clone(), (last.0.clone(), *last.1));
                    self.seen.insert(key, etag.clone().unwrap());
                }
                Class::Open => {
                    if let Some(etag) = etag {
                        self.seen.insert(key.clone(), etag.clone());
                    }
                    self.done
                        .entry(key)
                        .or_default()
                        .push((operation.clone(), etag.clone()));
                }
            }
        }
        self.operations += etags.len();
        self.batches += usize::from(statement.is_batch);
        self.singles += usize::from(!statement.is_batch);
    }

    /// Predicts the outcome of an operation by the content of an own entity.
    fn predict(&self, partition_key: &'static str, operation: &Operation) -> Result<(), &'static str> {
        let key = (partition_key, operation.row_key.clone());
        operation.apply(self.own.get(&key)).map(|_| ())
    }
}

struct Worker {
    number: usize,
    plan: Plan,
    session: Session,
    random: Random,
    classes: HashMap<String, Class>,
    row_keys: Vec<(Class, String)>,
    knowledge: Knowledge,
    counter: i64,
}

impl Worker {
    fn new(number: usize, plan: Plan, session: Session, seed: u64) -> Worker {
        session.run(&format!(
            "SET search_path = table_service; SET default_transaction_isolation = '{}'",
            plan.level(number)
        ));
        let row_keys = plan.row_keys(number);
        Worker {
            number,
            plan,
            session,
            random: Random::new(seed * 1000 + number as u64),
            classes: row_keys.iter().map(|(class, key)| (key.clone(), *class)).collect(),
            row_keys,
            knowledge: Knowledge::default(),
            counter: 0,
        }
    }

    fn run(mut self) -> (i32, Knowledge) {
        for _ in 0..self.plan.steps {
            match self.random.below(10) {
                0 => self.look(),
                1 | 2 => self.transaction(),
                _ => {
                    let partition_key = PARTITIONS[self.random.below(2)];
                    let statement = self.statement(partition_key);
                    match statement.run(&self.session) {
                        Ok(etags) => self.succeeded(&statement, &etags),
                        Err(failure) => self.failed(&statement, &failure),
                    }
                }
            }
        }
        (self.session.pid(), self.knowledge)
    }

    /// Reads the ETag of an entity that others also write.
    fn look(&mut self) {
        let (_, row_key) = self.random.pick(&self.row_keys).clone();
        let partition_key = PARTITIONS[self.random.below(2)];
        let rows = self.session.sql(&format!(
            "SELECT etag(e) FROM get_entity('Orders', '{partition_key}', '{row_key}') AS e"
        ));
        match rows {
            Ok(rows) => {
                if let [row] = rows.as_slice() {
                    self.knowledge
                        .seen
                        .insert((partition_key, row_key), row[0].clone().unwrap());
                }
            }
            // Even a single read may fail to serialize.
            Err(failure) => self.check_serialization_failure(&failure),
        }
    }

    /// Several statements, which keep the order of keys, so that two such transactions cannot deadlock either.
    fn transaction(&mut self) {
        let begin = self.knowledge.clone();
        self.session.run("BEGIN");
        let finish = |worker: &mut Worker, failure: Option<&Failure>| {
            worker.session.run("ROLLBACK");
            let (refused, failures) = (worker.knowledge.refused, worker.knowledge.serialization_failures);
            worker.knowledge = begin.clone();
            (worker.knowledge.refused, worker.knowledge.serialization_failures) = (refused, failures);
            if let Some(failure) = failure {
                worker.check_serialization_failure(failure);
            }
        };
        for partition_key in PARTITIONS {
            // A batch that fails may be undone alone.
            let savepoint = self.random.chance(50);
            if savepoint {
                self.session.run("SAVEPOINT batch");
            }
            let statement = Statement {
                is_batch: true,
                ..self.statement(partition_key)
            };
            match statement.run(&self.session) {
                Ok(etags) => self.succeeded(&statement, &etags),
                Err(failure) => {
                    self.failed(&statement, &failure);
                    if !savepoint || failure.sqlstate == "40001" {
                        return finish(self, None);
                    }
                    self.session.run("ROLLBACK TO batch");
                    continue;
                }
            }
            // This transaction has locked the entities of the batch: writing them again never waits.
            if self.random.chance(50) {
                let first = statement.operations[0].clone();
                let again = Statement {
                    is_batch: false,
                    operations: vec![Operation {
                        action: Action::InsertOrMerge,
                        bag: self.bag(self.classes[&first.row_key]),
                        if_match: "*".to_owned(),
                        row_key: first.row_key,
                    }],
                    ..statement
                };
                match again.run(&self.session) {
                    Ok(etags) => self.succeeded(&again, &etags),
                    Err(failure) => return finish(self, Some(&failure)),
                }
            }
        }
        if self.random.chance(20) {
            return finish(self, None);
        }
        if let Err(failure) = self.session.sql("COMMIT") {
            finish(self, Some(&failure));
        }
    }

    fn statement(&mut self, partition_key: &'static str) -> Statement {
        let is_batch = self.random.chance(70);
        let mut row_keys = self.row_keys.clone();
        self.random.shuffle(&mut row_keys);
        // Either only its own entities, so that the session knows the outcome, or all.
        if self.random.chance(25) {
            row_keys.retain(|(class, _)| *class == Class::Own);
        }
        row_keys.truncate(if is_batch {
            1 + self.random.below(row_keys.len())
        } else {
            1
        });
        // Most batches have a chance to succeed as a whole.
        let careful = self.random.chance(80);
        let mut operations = Vec::new();
        for (class, row_key) in row_keys {
            let key = (partition_key, row_key.clone());
            let mut action = match class {
                Class::Shared => *self.random.pick(&[Action::Merge, Action::InsertOrMerge]),
                _ => *self.random.pick(&ACTIONS),
            };
            let exists = self.knowledge.own.contains_key(&key);
            if careful && class == Class::Open && self.random.chance(70) {
                action = *self.random.pick(&[Action::InsertOrReplace, Action::InsertOrMerge]);
            }
            if careful && class == Class::Own && action.is_conditional() != exists {
                action = if exists { Action::Replace } else { Action::Insert };
            }
            let etag = match class {
                Class::Own => self.knowledge.own.get(&key).map(|(etag, _)| etag.clone()),
                _ => self.knowledge.seen.get(&key).cloned(),
            };
            let if_match = match etag {
                Some(etag) if action.is_conditional() && self.random.chance(40) => etag,
                _ if action.is_conditional() && !careful && self.random.chance(5) => "W/\"wrong\"".to_owned(),
                _ => "*".to_owned(),
            };
            operations.push(Operation {
                bag: if action == Action::Delete {
                    Bag::new()
                } else {
                    self.bag(class)
                },
                action,
                row_key,
                if_match,
            });
        }
        Statement {
            partition_key,
            operations,
            is_batch,
            as_json: self.random.chance(50),
        }
    }

    fn bag(&mut self, class: Class) -> Bag {
        self.counter += 1;
        let own = (format!("by{}", self.number), self.counter);
        match class {
            Class::Shared => Bag::from([own]),
            _ => Bag::from([own, (format!("x{}", self.random.below(3)), self.counter)]),
        }
    }

    fn succeeded(&mut self, statement: &Statement, etags: &[Option<String>]) {
        for operation in &statement.operations {
            if self.classes[&operation.row_key] == Class::Own {
                let predicted = self.knowledge.predict(statement.partition_key, operation);
                assert_eq!(predicted, Ok(()), "{operation:?} in {statement:?}");
            }
        }
        self.knowledge.learn(statement, &self.classes, etags);
    }

    /// Checks that the statement may fail with this.
    fn failed(&mut self, statement: &Statement, failure: &Failure) {
        if failure.sqlstate == "40001" {
            return self.check_serialization_failure(failure);
        }
        let (code, rest) = failure.message.split_once(": ").unwrap_or_default();
        let index = if statement.is_batch {
            let index = rest.split_once(':').and_then(|(index, _)| index.parse::<usize>().ok());
            index.unwrap_or_else(|| panic!("{failure:?} of {statement:?}"))
        } else {
            0
        };
        let class = |operation: &Operation| self.classes[&operation.row_key];
        for operation in &statement.operations[..index] {
            if class(operation) == Class::Own {
                let predicted = self.knowledge.predict(statement.partition_key, operation);
                assert_eq!(
                    predicted,
                    Ok(()),
                    "{operation:?} comes before {failure:?} in {statement:?}"
                );
            }
        }
        let operation = &statement.operations[index];
        let is_right = match class(operation) {
            Class::Own => self.knowledge.predict(statement.partition_key, operation) == Err(code),
            _ => match code {
                "EntityAlreadyExists" => operation.action == Action::Insert,
                "ResourceNotFound" => operation.action.is_conditional() && class(operation) == Class::Open,
                "UpdateConditionNotSatisfied" => operation.if_match != "*",
                _ => false,
            },
        };
        assert!(is_right, "{failure:?} of {operation:?} in {statement:?}");
        self.knowledge.refused += 1;
    }

    fn check_serialization_failure(&mut self, failure: &Failure) {
        assert!(
            failure.sqlstate == "40001" && self.plan.level(self.number) != "READ COMMITTED",
            "{failure:?} at {}",
            self.plan.level(self.number)
        );
        self.knowledge.serialization_failures += 1;
    }
}

const LOG: &str = "
CREATE TABLE log (n bigserial, pid int, p text, r text, old_etag text, old_bag text, new_etag text, new_bag text);
CREATE FUNCTION log_change() RETURNS trigger LANGUAGE plpgsql SET search_path = public, table_service AS $$
BEGIN
    IF coalesce(new.row_key, old.row_key) LIKE '%open' THEN
        INSERT INTO log (pid, p, r, old_etag, old_bag, new_etag, new_bag)
        VALUES (pg_backend_pid(), coalesce(new.partition_key, old.partition_key), coalesce(new.row_key, old.row_key),
            etag(old.\"timestamp\"), old.properties, etag(new.\"timestamp\"), new.properties);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER log_change AFTER INSERT OR UPDATE OR DELETE ON table_service_data.\"Orders\"
    FOR EACH ROW EXECUTE FUNCTION log_change();
";

fn key(partition_key: &str, row_key: &str) -> Key {
    let partition_key = PARTITIONS.into_iter().find(|&known| known == partition_key);
    (partition_key.unwrap(), row_key.to_owned())
}

/// Every change of an open entity was acknowledged, and is the model's change of the version before it.
fn replay(session: &Session, knowledge: &HashMap<i32, Knowledge>) -> HashMap<Key, Version> {
    let mut entities: HashMap<Key, Version> = HashMap::new();
    let mut position: HashMap<(i32, Key), usize> = HashMap::new();
    for row in session.run("SELECT pid, p, r, old_etag, old_bag, new_etag, new_bag FROM log ORDER BY n") {
        let text = |column: usize| row[column].as_deref();
        let version = |etag: usize| Some((text(etag)?.to_owned(), bag(text(etag + 1)?)));
        let (pid, key) = (
            text(0).unwrap().parse().unwrap(),
            key(text(1).unwrap(), text(2).unwrap()),
        );
        let (old, new) = (version(3), version(5));
        assert_eq!(entities.get(&key), old.as_ref(), "{key:?}: a version is missing");

        let next = position.entry((pid, key.clone())).or_default();
        let done = knowledge[&pid].done.get(&key).and_then(|done| done.get(*next));
        let Some((operation, etag)) = done else {
            panic!("{key:?}: nobody has done {row:?}");
        };
        *next += 1;
        assert_eq!(
            operation.apply(old.as_ref()),
            Ok(new.clone().map(|(_, bag)| bag)),
            "{operation:?}: {row:?}"
        );
        assert_eq!(*etag, new.clone().map(|(etag, _)| etag), "{operation:?}: {row:?}");
        match new {
            Some(new) => entities.insert(key, new),
            None => entities.remove(&key),
        };
    }
    for (pid, knowledge) in knowledge {
        for (key, done) in &knowledge.done {
            let found = position.get(&(*pid, key.clone())).copied().unwrap_or_default();
            assert_eq!(
                found,
                done.len(),
                "{key:?}: acknowledged and lost: {:?}",
                done.get(found)
            );
        }
    }
    entities
}

fn run_seed(seed: u64) -> String {
    let plan = Plan::of(seed);
    let db = Database::new();
    let session = db.session("checks");
    session.run("SELECT table_service.create_table('Orders')");
    session.run(LOG);
    for partition_key in PARTITIONS {
        for (class, row_key) in plan.row_keys(0) {
            if class == Class::Shared {
                session.run(&format!(
                    "SELECT table_service.insert_entity('Orders', '{partition_key}', '{row_key}', '{{}}')"
                ));
            }
        }
    }

    let workers: Vec<_> = (0..plan.sessions)
        .map(|number| {
            Worker::new(
                number,
                plan,
                db.session(&format!("seed {seed}, session {number}")),
                seed,
            )
        })
        .collect();
    let knowledge: HashMap<i32, Knowledge> = std::thread::scope(|scope| {
        let running: Vec<_> = workers.into_iter().map(|worker| scope.spawn(|| worker.run())).collect();
        running
            .into_iter()
            .map(|worker| worker.join())
            .collect::<Result<_, _>>()
    })
    .unwrap_or_else(|_| panic!("seed {seed} failed; SEED={seed} runs it alone"));

    let mut expected = replay(&session, &knowledge);
    for known in knowledge.values() {
        expected.extend(known.own.clone());
    }
    let mut stored: HashMap<Key, Version> = HashMap::new();
    let rows = session.run(
        "SELECT partition_key, row_key, table_service.etag(\"timestamp\"), properties FROM table_service_data.\"Orders\"",
    );
    for row in &rows {
        let text = |column: usize| row[column].as_deref().unwrap();
        stored.insert(key(text(0), text(1)), (text(2).to_owned(), bag(text(3))));
    }
    let (shared, stored): (HashMap<_, _>, HashMap<_, _>) = stored
        .into_iter()
        .partition(|((_, row_key), _)| row_key.ends_with("shared"));
    assert_eq!(stored, expected, "seed {seed}");
    for known in knowledge.values() {
        for (key, (name, value)) in &known.merged {
            assert_eq!(
                shared[key].1.get(name),
                Some(value),
                "seed {seed}: {key:?}: a merge is lost"
            );
        }
    }
    let merged: usize = knowledge.values().map(|known| known.merged.len()).sum();
    assert_eq!(
        shared.values().map(|(_, bag)| bag.len()).sum::<usize>(),
        merged,
        "seed {seed}"
    );

    let consumed: Vec<_> = knowledge.values().flat_map(|known| &known.consumed).collect();
    let distinct: HashSet<_> = consumed.iter().collect();
    assert_eq!(
        consumed.len(),
        distinct.len(),
        "seed {seed}: two writers won with one ETag"
    );

    // The counters of a session arrive when it ends.
    wait_until("the sessions end", || {
        session.text("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'seed %' AND datname = current_database()") == "0"
    });
    assert_eq!(
        session.text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"),
        "0",
        "seed {seed}: deadlocks"
    );
    let sum = |count: fn(&Knowledge) -> usize| knowledge.values().map(count).sum::<usize>();
    format!(
        "seed {seed}: {} operations in {} batches and {} single writes, {} refused, {} not serializable, {} entities, 0 deadlocks",
        sum(|known| known.operations),
        sum(|known| known.batches),
        sum(|known| known.singles),
        sum(|known| known.refused),
        sum(|known| known.serialization_failures),
        rows.len()
    )
}

#[test]
fn batches_and_writes_of_many_sessions_agree_with_the_model() {
    for seed in seeds(6) {
        println!("{}", run_seed(seed));
    }
}
