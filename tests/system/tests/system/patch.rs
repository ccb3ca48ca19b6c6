//! Patches: many sessions that increment the same counters lose nothing, and random patches do the same as the model,
//! by direct access and by statements, alone and in batches.

use std::fmt::Write;

use system_tests::random::{Random, rounds, seeds};
use system_tests::{Database, Failure, Session};
use table_service_model::entity::Entity;
use table_service_model::filter::{Dialect, Filter};
use table_service_model::json::{parse_properties, properties_to_json};
use table_service_model::{Properties, PropertiesBuf, PropertiesBuilder, Value};

const SESSIONS: usize = 20;

/// A trigger that changes nothing takes direct access away from a table.
const TRIGGER: &str = "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$";

fn by_statements(session: &Session, table: &str) {
    session.run(&format!(
        "CREATE TRIGGER nothing BEFORE INSERT OR UPDATE ON table_service_data.\"{table}\" FOR EACH ROW EXECUTE FUNCTION nothing()"
    ));
}

/// Each session increments so often, each time in a transaction of its own.
fn increments() -> u64 {
    rounds(50)
}

/// Runs a call again and again in many sessions at once.
fn in_many_sessions(db: &Database, call: &str) {
    let sessions: Vec<_> = (0..SESSIONS).map(|n| db.session(&format!("writer {n}"))).collect();
    let times = increments();
    let pending: Vec<_> = sessions
        .iter()
        .enumerate()
        .map(|(n, session)| {
            session.start(&format!(
                "DO $$ BEGIN FOR i IN 1..{times} LOOP PERFORM {}; COMMIT; END LOOP; END $$",
                call.replace("SESSION", &n.to_string())
            ))
        })
        .collect();
    for session in pending {
        session.finish().unwrap();
    }
}

#[test]
fn many_sessions_lose_no_increment() {
    let db = Database::new();
    let owner = db.session("owner");
    owner.run("SELECT table_service.create_table(name) FROM unnest(ARRAY['Direct', 'Statements']) AS name");
    owner.run(TRIGGER);
    by_statements(&owner, "Statements");
    let expected = format!("{{\"N\":{}}}", increments() * SESSIONS as u64);
    for table in ["Direct", "Statements"] {
        let stored = |row_key: &str| {
            owner.text(&format!(
                "SELECT properties FROM table_service.get_entity('{table}', 'p', '{row_key}')"
            ))
        };
        // The counter does not exist in the beginning.
        in_many_sessions(
            &db,
            &format!(
                "table_service.patch_entity('{table}', 'p', 'one', increment => '{{\"N\": 1}}', create_missing => true)"
            ),
        );
        assert_eq!(stored("one"), expected, "{table}");
        // Batches name two counters in either order, and one of them is there.
        owner.run(&format!(
            "SELECT table_service.insert_entity('{table}', 'p', 'b', '{{}}')"
        ));
        let patch = |key: &str| {
            format!(
                "table_service.batch_patch('{key}', increment => '{{\"N\": 1}}', create_missing => SESSION % 3 > 0 OR '{key}' = 'a')"
            )
        };
        in_many_sessions(
            &db,
            &format!(
                "count(*) FROM table_service.execute_batch('{table}', 'p', VARIADIC CASE WHEN SESSION % 2 = 0 THEN ARRAY[{a}, {b}] ELSE ARRAY[{b}, {a}] END)",
                a = patch("a"),
                b = patch("b")
            ),
        );
        assert_eq!(
            [stored("a"), stored("b")],
            [expected.clone(), expected.clone()],
            "{table}"
        );
    }
}

/// A stock is sold in many sessions at once, until nothing is left, and never more than there was.
#[test]
fn a_condition_holds_beside_others() {
    let db = Database::new();
    let owner = db.session("owner");
    owner.run("SELECT table_service.create_table(name) FROM unnest(ARRAY['Direct', 'Statements']) AS name");
    owner.run(TRIGGER);
    by_statements(&owner, "Statements");
    let stock = increments() * SESSIONS as u64 / 2;
    owner.run(
        "CREATE TABLE sold (n bigint);
        CREATE PROCEDURE sell(name text) LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM table_service.patch_entity(name, 'p', 'r', increment => '{\"N\": -1}', condition => 'N gt 0');
            INSERT INTO sold VALUES (1);
        EXCEPTION WHEN SQLSTATE '40002' THEN
        END $$",
    );
    for table in ["Direct", "Statements"] {
        owner.run(&format!(
            "TRUNCATE sold; SELECT table_service.insert_entity('{table}', 'p', 'r', '{{\"N\": {stock}}}')"
        ));
        let sessions: Vec<_> = (0..SESSIONS).map(|n| db.session(&format!("seller {n}"))).collect();
        let times = increments();
        let pending: Vec<_> = sessions
            .iter()
            .map(|session| {
                session.start(&format!(
                    "DO $$ BEGIN FOR i IN 1..{times} LOOP CALL sell('{table}'); COMMIT; END LOOP; END $$"
                ))
            })
            .collect();
        for session in pending {
            session.finish().unwrap();
        }
        let left = owner.text(&format!(
            "SELECT properties FROM table_service.get_entity('{table}', 'p', 'r')"
        ));
        assert_eq!(left, "{\"N\":0}", "{table}");
        assert_eq!(owner.text("SELECT count(*) FROM sold"), stock.to_string(), "{table}");
    }
}

const NAMES: [&str; 4] = ["A", "B", "C", "D"];
const KEYS: [&str; 3] = ["r", "s", "t"];
const CONDITIONS: [&str; 8] = [
    "",
    "A gt 0",
    "not (B eq 1) and RowKey ne 't'",
    "C lt 1.5 or D",
    "A eq 1L or B eq 'x'",
    "PartitionKey eq 'p' and A ge -1",
    "Timestamp gt datetime'2000-01-01T00:00:00Z'",
    "false",
];

/// The value of a property, one of few.
fn value(random: &mut Random, is_number: bool) -> Value<'static> {
    let small = [-1, 0, 1, 2][random.below(4)];
    match random.below(if is_number { 9 } else { 12 }) {
        0..4 => Value::Int32(small),
        4 => Value::Int32(*random.pick(&[i32::MIN, i32::MAX])),
        5 => Value::Int64(small.into()),
        6 => Value::Int64(*random.pick(&[i64::MIN, i64::MAX])),
        7 => Value::Double(f64::from(small) / 2.0),
        8 => Value::Double(*random.pick(&[f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN])),
        9 => Value::Boolean(true),
        _ => Value::String("x"),
    }
}

fn bag(random: &mut Random, percent: usize, is_number: bool) -> PropertiesBuf {
    let mut builder = PropertiesBuilder::new();
    for name in NAMES {
        if random.chance(percent) {
            builder.push(name.into(), value(random, is_number)).unwrap();
        }
    }
    builder.finish().unwrap()
}

#[derive(Debug)]
struct Patch {
    row_key: &'static str,
    set: Option<PropertiesBuf>,
    increment: Option<PropertiesBuf>,
    remove: Option<Vec<&'static str>>,
    condition: &'static str,
    create_missing: bool,
}

impl Patch {
    fn any(random: &mut Random) -> Patch {
        let names = |random: &mut Random| NAMES.into_iter().filter(|_| random.chance(15)).collect();
        Patch {
            row_key: KEYS[random.below(KEYS.len())],
            set: random.chance(60).then(|| bag(random, 20, false)),
            increment: random.chance(80).then(|| bag(random, 25, true)),
            remove: random.chance(30).then(|| names(random)),
            condition: CONDITIONS[random.below(CONDITIONS.len())],
            create_missing: random.chance(60),
        }
    }

    /// The properties afterwards, or the code of the error: by the definition, property by property, and without the code
    /// that the extension runs.
    fn apply(&self, stored: Option<&PropertiesBuf>) -> Result<PropertiesBuf, &'static str> {
        let of = |bag: &Option<PropertiesBuf>, name: &str| {
            let bag = bag.as_ref()?.as_properties();
            bag.get(name).map(owned)
        };
        let is_removed = |name: &str| self.remove.as_ref().is_some_and(|names| names.contains(&name));
        let ways = |name: &&&str| {
            [
                of(&self.set, name).is_some(),
                of(&self.increment, name).is_some(),
                is_removed(name),
            ]
            .into_iter()
            .filter(|is| *is)
            .count()
        };
        let is_nothing = self.set.is_none() && self.increment.is_none() && self.remove.is_none();
        if is_nothing || NAMES.iter().any(|name| ways(&name) > 1) {
            return Err("InvalidInput");
        }
        if stored.is_none() && !self.create_missing {
            return Err("ResourceNotFound");
        }
        let before = stored.map_or(Properties::from_stored(&[]), PropertiesBuf::as_properties);
        let passes = Filter::parse(self.condition, None, Dialect::Service)
            .unwrap()
            .matches(&Entity {
                partition_key: Some("p"),
                row_key: Some(self.row_key),
                timestamp: stored.map(|_| table_service_model::Ticks::parse("2026-01-01").unwrap()),
                properties: before,
            });
        if !passes {
            return Err("UpdateConditionNotSatisfied");
        }
        let mut after = PropertiesBuilder::new();
        for name in NAMES {
            let old = before.get(name).map(owned);
            let new = match (of(&self.set, name), of(&self.increment, name)) {
                (Some(set), _) => Some(set),
                (_, Some(by)) => Some(sum(old, by)?),
                _ if is_removed(name) => None,
                _ => old,
            };
            if let Some(new) = new {
                after.push(name.into(), new).unwrap();
            }
        }
        Ok(after.finish().unwrap())
    }

    /// The arguments behind the keys.
    fn arguments(&self) -> String {
        let bag =
            |bag: &Option<PropertiesBuf>| bag.as_ref().map_or("NULL".to_owned(), |bag| format!("'{}'", json(bag)));
        let remove = self.remove.as_ref();
        let remove = remove.map_or("NULL".to_owned(), |names| format!("'{{{}}}'", names.join(",")));
        format!(
            "'{}', {}, {}, {remove}, '{}', create_missing => {}",
            self.row_key,
            bag(&self.set),
            bag(&self.increment),
            self.condition.replace('\'', "''"),
            self.create_missing
        )
    }
}

fn owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::String(_) => Value::String("x"),
        Value::Int32(n) => Value::Int32(n),
        Value::Int64(n) => Value::Int64(n),
        Value::Double(n) => Value::Double(n),
        Value::Boolean(b) => Value::Boolean(b),
        other => panic!("{other:?} is not among the values"),
    }
}

fn sum(old: Option<Value<'static>>, by: Value<'static>) -> Result<Value<'static>, &'static str> {
    let wide = |value: &Value<'_>| match *value {
        Value::Int32(n) => i128::from(n),
        Value::Int64(n) => i128::from(n),
        _ => 0,
    };
    let out = "OutOfRangeInput";
    match (old, by) {
        (None, Value::Int32(_) | Value::Int64(_)) => Ok(by),
        (None, Value::Double(by)) => {
            if by.is_finite() {
                Ok(Value::Double(by))
            } else {
                Err(out)
            }
        }
        (Some(old @ Value::Int32(_)), Value::Int32(_)) => {
            i32::try_from(wide(&old) + wide(&by)).map(Value::Int32).map_err(|_| out)
        }
        (Some(old @ Value::Int64(_)), Value::Int32(_) | Value::Int64(_)) => {
            i64::try_from(wide(&old) + wide(&by)).map(Value::Int64).map_err(|_| out)
        }
        (Some(Value::Double(old)), Value::Int32(_) | Value::Double(_)) => {
            let by = match by {
                Value::Double(by) => by,
                Value::Int32(by) => f64::from(by),
                _ => return Err("InvalidInput"),
            };
            let sum = old + by;
            // A value that was infinite or no number stays so; a sum does not become it.
            let becomes = (sum.is_infinite() && old.is_finite()) || (sum.is_nan() && !old.is_nan());
            if becomes { Err(out) } else { Ok(Value::Double(sum)) }
        }
        _ => Err("InvalidInput"),
    }
}

fn json(bag: &PropertiesBuf) -> String {
    String::from_utf8(properties_to_json(bag.as_properties())).unwrap()
}

/// The code and the index in an error.
fn code(failure: &Failure) -> (&str, Option<usize>) {
    let (code, rest) = failure.message.split_once(": ").unwrap();
    let index = rest.split_once(':').and_then(|(index, _)| index.parse().ok());
    (code, index)
}

#[test]
fn random_patches_do_what_the_model_says() {
    let db = Database::new();
    let session = db.session("session");
    session.run(
        "SELECT table_service.create_table(name) FROM unnest(ARRAY['Direct', 'Statements']) AS name;
        CREATE TABLE table_service_data.\"Parted\" OF table_service.entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
        CREATE TABLE table_service_data.parted_0 PARTITION OF table_service_data.\"Parted\" FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    );
    session.run(TRIGGER);
    by_statements(&session, "Statements");
    for seed in seeds(3) {
        let mut random = Random::new(seed);
        let table = ["Direct", "Statements", "Parted"][(seed % 3) as usize];
        for round in 0..150 {
            let stored = KEYS.map(|_| random.chance(75).then(|| bag(&mut random, 60, false)));
            let mut sql = format!("TRUNCATE table_service_data.\"{table}\";");
            for (key, bag) in KEYS.iter().zip(&stored) {
                if let Some(bag) = bag {
                    write!(
                        sql,
                        "SELECT table_service.insert_entity('{table}', 'p', '{key}', '{}');",
                        json(bag)
                    )
                    .unwrap();
                }
            }
            session.run(&sql);
            let patches = [Patch::any(&mut random), Patch::any(&mut random)];
            let of = |key: &str| stored[KEYS.iter().position(|known| *known == key).unwrap()].as_ref();
            let is_batch = random.chance(50) && patches[0].row_key != patches[1].row_key;
            let patches = if is_batch { &patches[..] } else { &patches[..1] };
            let outcomes: Vec<_> = patches.iter().map(|patch| patch.apply(of(patch.row_key))).collect();
            let context = format!("seed {seed}, round {round}: {stored:?} {patches:?}");
            if is_batch {
                let operations: Vec<_> = patches
                    .iter()
                    .map(|patch| format!("table_service.batch_patch({})", patch.arguments()))
                    .collect();
                let call = format!(
                    "SELECT count(*) FROM table_service.execute_batch('{table}', 'p', {})",
                    operations.join(", ")
                );
                // An operation that cannot be made fails before the batch.
                let unmade = outcomes.iter().zip(patches).find(|(outcome, patch)| {
                    **outcome == Err("InvalidInput") && patch.apply(None) == Err("InvalidInput")
                });
                let failed = outcomes.iter().position(Result::is_err);
                match (session.sql(&call), failed) {
                    (Ok(_), None) => {}
                    (Err(failure), Some(index)) => {
                        let expected = match unmade {
                            Some(_) => ("InvalidInput", code(&failure).1),
                            None => (*outcomes[index].as_ref().unwrap_err(), Some(index)),
                        };
                        assert_eq!(code(&failure), expected, "{context}: {failure:?}");
                    }
                    (got, _) => panic!("{context}: {got:?}, but {outcomes:?}"),
                }
            } else {
                let call = format!(
                    "SELECT properties FROM table_service.patch_entity('{table}', 'p', {})",
                    patches[0].arguments()
                );
                match (session.sql(&call), &outcomes[0]) {
                    (Ok(rows), Ok(bag)) => {
                        assert_eq!(
                            parse_properties(rows[0][0].as_deref().unwrap()).as_ref(),
                            Ok(bag),
                            "{context}"
                        );
                    }
                    (Err(failure), Err(expected)) => assert_eq!(code(&failure).0, *expected, "{context}: {failure:?}"),
                    (got, expected) => panic!("{context}: {got:?}, but {expected:?}"),
                }
            }
            let is_done = outcomes.iter().all(Result::is_ok);
            for (key, before) in KEYS.iter().zip(&stored) {
                let patch = patches
                    .iter()
                    .position(|patch| patch.row_key == *key)
                    .filter(|_| is_done);
                let expected = patch.map_or(before.clone(), |patch| outcomes[patch].clone().ok());
                let rows = session.run(&format!(
                    "SELECT properties FROM table_service.get_entity('{table}', 'p', '{key}')"
                ));
                let now = rows
                    .first()
                    .map(|row| parse_properties(row[0].as_deref().unwrap()).unwrap());
                assert_eq!(now, expected, "{context}: {key}");
            }
        }
    }
}
