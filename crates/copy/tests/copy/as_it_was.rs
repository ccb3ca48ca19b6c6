//! `restore --as-it-was`: tables of a database get their earlier state, and entities that are the same stay.

use std::collections::{BTreeMap, BTreeSet};

use system_tests::random::{Random, seeds};
use system_tests::{Database, wait_until};

use crate::archive::{Entities, Kept, entities};
use crate::program::{End, database_url, ends_with, text};

/// The arguments of a restore into the database of the archive.
fn restored(kept: &Kept, at: &str, more: &[&str]) -> Vec<String> {
    let (path, to) = (kept.path(), database_url(&kept.database));
    let arguments = [
        "restore",
        "--quiet",
        "--from",
        text(&path),
        "--at",
        at,
        "--to",
        &to,
        "--as-it-was",
    ];
    [&arguments[..], more]
        .concat()
        .iter()
        .map(|&argument| argument.to_owned())
        .collect()
}

fn run(status: i32, arguments: &[String]) -> String {
    ends_with(status, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The entities without their Timestamps.
fn properties(entities: &Entities) -> BTreeMap<(String, String), String> {
    let bag = |text: &String| text.split_once('{').unwrap().1.to_owned();
    entities.iter().map(|(key, text)| (key.clone(), bag(text))).collect()
}

#[test]
fn a_table_becomes_what_it_was_and_what_is_the_same_stays() {
    let kept = Kept::new(&["Orders", "Others"]);
    kept.archive(&[]);
    let moment = kept.then(
        "SELECT insert_entity('Orders', p, r, json_build_object('A', 1, 'L', repeat('x', 3000))) FROM unnest('{p,p,p,q}'::text[], '{1,2,é,1}'::text[]) AS k (p, r)",
    );
    let before = kept.now("Orders");
    kept.then("SELECT merge_entity('Orders', 'p', '1', '{\"A\": 2}', '*')");
    kept.then("SELECT delete_entity('Orders', 'p', 'é')");
    kept.then("SELECT insert_entity('Orders', 'p', 'new', '{}'); SELECT insert_entity('Others', 'p', '1', '{}')");
    // Its Timestamp alone is another one.
    kept.then(
        "UPDATE table_service_data.\"Orders\" SET \"timestamp\" = \"timestamp\" + '1 s' WHERE partition_key = 'q'",
    );
    let now = kept.now("Orders");
    kept.archive(&[]);
    kept.session.run("SELECT create_table('Later')");
    let said = run(0, &restored(&kept, &moment, &[]));
    assert!(
        said.contains("Orders: 2 written, 1 deleted, 2 left as they were, 0 changed by others"),
        "{said}"
    );
    assert!(said.contains("Others: 0 written, 1 deleted, 0 left"), "{said}");
    assert!(said.contains("The table Later was not there at that moment"), "{said}");
    let key = |partition: &str, row: &str| (partition.to_owned(), row.to_owned());
    let after = kept.now("Orders");
    assert_eq!(properties(&after), properties(&before));
    assert_eq!(after[&key("p", "2")], before[&key("p", "2")], "untouched");
    assert_eq!(after[&key("q", "1")], now[&key("q", "1")], "untouched");
    assert_eq!(after[&key("p", "é")], before[&key("p", "é")], "with its old ETag");
    assert!(after[&key("p", "1")] != before[&key("p", "1")] && after[&key("p", "1")] != now[&key("p", "1")]);
    assert!(kept.now("Others").is_empty() && kept.now("Later").is_empty());
    // Once more: nothing is to be done.
    let said = run(0, &restored(&kept, &moment, &["--table", "orders"]));
    assert!(said.contains("Orders: 0 written, 0 deleted, 4 left"), "{said}");
    assert_eq!(kept.now("Orders"), after);
    // A table beside it that is not there.
    run(0, &restored(&kept, &moment, &["--table", "Orders", "--as", "Beside"]));
    assert_eq!(kept.now("Beside"), before);
}

#[test]
fn only_what_a_filter_selects_becomes_what_it_was() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    let moment = kept.then("SELECT insert_entity('Orders', 'p', n::text, json_build_object('Open', n < 3)) FROM generate_series(1, 4) AS n");
    let before = kept.now("Orders");
    kept.then("SELECT merge_entity('Orders', 'p', '1', '{\"Open\": false}', '*')");
    kept.then("SELECT merge_entity('Orders', 'p', '3', '{\"Open\": true}', '*')");
    kept.then("SELECT merge_entity('Orders', 'p', '4', '{\"N\": 1}', '*')");
    kept.then(
        "SELECT insert_entity('Orders', 'p', '5', '{\"Open\": true}'); SELECT insert_entity('Orders', 'p', '6', '{}')",
    );
    kept.archive(&[]);
    // The entities that pass now were also there, in another state.
    let said = run(0, &restored(&kept, &moment, &["--filter", "Open eq true"]));
    assert!(said.contains("Orders: 2 written, 1 deleted, 1 left"), "{said}");
    let mut after = properties(&kept.now("Orders"));
    let key = |row: &str| ("p".to_owned(), row.to_owned());
    assert!(after.remove(&key("6")).is_some());
    assert_eq!(
        after.insert(key("4"), "\"Open\":false}".to_owned()).unwrap(),
        "\"N\":1,\"Open\":false}"
    );
    assert_eq!(after, properties(&before));
}

/// Of one partition the others are not read.
#[test]
fn a_partition_becomes_what_it_was_whatever_the_others_have() {
    let kept = Kept::new(&[]);
    kept.session.run(
        "CREATE TABLE table_service_data.\"Orders\" OF table_service.entity (PRIMARY KEY (partition_key, row_key))",
    );
    kept.session
        .run("SELECT insert_entity('Orders', p, '1', '{}') FROM unnest('{a,b,c}'::text[]) AS p");
    kept.archive(&[]);
    let moment = kept.then("SELECT 1");
    kept.then("DELETE FROM table_service_data.\"Orders\" WHERE partition_key = 'b'");
    kept.then("SELECT insert_entity('Orders', 'b', '2', '{}')");
    kept.archive(&[]);
    // It is no entity, so a program that reads it ends.
    kept.session
        .run("UPDATE table_service_data.\"Orders\" SET properties = NULL WHERE partition_key = 'a'");
    ends_with(
        1,
        &restored(&kept, &moment, &[])
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    let said = run(
        0,
        &restored(&kept, &moment, &["--filter", "PartitionKey eq 'b' and RowKey lt '3'"]),
    );
    assert!(said.contains("Orders: 1 written, 1 deleted, 0 left"), "{said}");
}

/// A copy that replaces gives each entity a new Timestamp, and says how not to.
#[test]
fn a_restore_that_replaces_points_to_as_it_was() {
    let kept = Kept::new(&["Orders"]);
    kept.session.run("SELECT insert_entity('Orders', 'p', '1', '{}')");
    kept.archive(&[]);
    let arguments = restored(&kept, "latest", &["--on-conflict", "replace"]);
    let arguments: Vec<String> = arguments
        .into_iter()
        .filter(|argument| argument != "--as-it-was")
        .collect();
    let said = run(0, &arguments);
    assert!(
        said.contains("1 of 1 entities have a new Timestamp") && said.contains("--as-it-was leaves"),
        "{said}"
    );
    let before = kept.now("Orders");
    let said = run(0, &restored(&kept, "latest", &[]));
    assert!(!said.contains("new Timestamp"), "{said}");
    assert_eq!(kept.now("Orders"), before);
}

#[test]
fn many_batches_become_what_they_were() {
    let kept = Kept::new(&["Orders"]);
    kept.session.run(
        "SELECT count(insert_entity('Orders', 'p' || n % 7, n::text, '{\"N\": 1}')) FROM generate_series(1, 5000) AS n",
    );
    kept.archive(&[]);
    let moment = kept.then("SELECT 1");
    let before = kept.now("Orders");
    kept.then("DELETE FROM table_service_data.\"Orders\" WHERE length(row_key) = 3");
    kept.then("UPDATE table_service_data.\"Orders\" SET properties = '{\"N\": 2}' WHERE partition_key = 'p3'");
    kept.then("SELECT count(insert_entity('Orders', 'p2', 'x' || n::text, '{}')) FROM generate_series(1, 3000) AS n");
    kept.archive(&[]);
    run(0, &restored(&kept, &moment, &[]));
    assert_eq!(properties(&kept.now("Orders")), properties(&before));
}

/// Others write while it runs: entities that they have written since the restore has looked stay, and are named.
#[test]
fn what_others_write_meanwhile_is_not_overwritten() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    let moment =
        kept.then("SELECT insert_entity('Orders', 'p', n::text, '{\"N\": 1}') FROM generate_series(1, 4) AS n");
    kept.then("UPDATE table_service_data.\"Orders\" SET properties = '{\"N\": 2}'");
    kept.then("SELECT delete_entity('Orders', 'p', '4'); SELECT insert_entity('Orders', 'p', 'new', '{}')");
    kept.archive(&[]);
    let other = kept.database.session("other");
    other.run("SET search_path = public, table_service");
    // One is replaced, one is deleted, one comes back, one is changed: all of it commits when the restore has compared them, and waits.
    other.run(
        "BEGIN; SELECT merge_entity('Orders', 'p', '1', '{\"N\": 9}', '*'); SELECT delete_entity('Orders', 'p', '2')",
    );
    other.run("SELECT insert_entity('Orders', 'p', '4', '{\"N\": 9}'); SELECT merge_entity('Orders', 'p', 'new', '{\"N\": 9}', '*')");
    let arguments = restored(&kept, &moment, &["--json"]);
    let output = kept.directory.path().join("said");
    let mut child = crate::program::command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut child = child.stdout(std::fs::File::create(&output).unwrap()).spawn().unwrap();
    wait_until("the restore waits", || {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        kept.session.text(waiting) == "1"
    });
    other.run("COMMIT");
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let said = std::fs::read_to_string(&output).unwrap();
    assert!(
        said.contains("\"changed\":4") && said.contains("was written by others meanwhile"),
        "{said}"
    );
    let key = |row: &str| ("p".to_owned(), row.to_owned());
    let bags = properties(&kept.now("Orders"));
    let expected = [("1", 9), ("3", 1), ("4", 9), ("new", 9)].map(|(row, n)| (key(row), format!("\"N\":{n}}}")));
    assert_eq!(bags, BTreeMap::from(expected));
    // Again, when nobody writes.
    run(0, &arguments);
    assert_eq!(properties(&kept.now("Orders")).len(), 4);
}

#[test]
fn what_a_table_refuses_is_named_and_the_rest_is_done() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    let moment = kept.then(
        "SELECT insert_entity('Orders', 'p', n::text, json_build_object('N', n)) FROM generate_series(1, 9) AS n",
    );
    kept.then("DELETE FROM table_service_data.\"Orders\"");
    kept.archive(&[]);
    kept.session
        .run("ALTER TABLE table_service_data.\"Orders\" ADD CHECK (row_key <> '5')");
    let said = run(1, &restored(&kept, &moment, &[]));
    assert!(said.contains("RowKey '5'") && said.contains("--rejects"), "{said}");
    let rejects = kept.directory.path().join("rejects");
    let said = run(3, &restored(&kept, &moment, &["--rejects", text(&rejects)]));
    assert!(said.contains("1 rejected"), "{said}");
    assert_eq!(kept.now("Orders").len(), 8);
}

#[test]
fn only_a_database_becomes_what_it_was() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    let path = kept.path();
    let restore = ["restore", "--from", text(&path), "--at", "latest", "--as-it-was"];
    for format in ["jsonl", "rest"] {
        let end = End::of(format).argument();
        let said = ends_with(2, &[&restore[..], &["--to", &end]].concat());
        assert!(said.contains("--as-it-was is for a database"), "{said}");
    }
    for other in [&["--allow-gaps"][..], &["--on-conflict", "skip"]] {
        ends_with(2, &[&restore[..], &["--to", "-"], other].concat());
    }
}

/// Policies hide nothing that would be written or deleted for that.
#[test]
fn hidden_entities_are_not_taken_for_missing() {
    let kept = Kept::new(&["Orders"]);
    kept.session
        .run("SELECT insert_entity('Orders', p, '1', '{}') FROM unnest('{a,b}'::text[]) AS p");
    kept.archive(&[]);
    let role = kept.database.role("reader");
    kept.session.run(&format!("GRANT ALL ON table_service_data.\"Orders\" TO {role}; ALTER TABLE table_service_data.\"Orders\" ENABLE ROW LEVEL SECURITY"));
    kept.session.run(&format!(
        "CREATE POLICY a ON table_service_data.\"Orders\" TO {role} USING (partition_key = 'a')"
    ));
    let path = kept.path();
    let to = system_tests::gateway::url(kept.database.cluster(), kept.database.name(), &role);
    let restore = [
        "restore",
        "--from",
        text(&path),
        "--at",
        "latest",
        "--as-it-was",
        "--to",
        &to,
        "--trust-owners",
        "all",
    ];
    let said = ends_with(1, &restore);
    assert!(said.contains("left out"), "{said}");
    assert_eq!(kept.now("Orders").len(), 2);
}

/// From any state to any other one, whole and in part, forwards and back.
#[test]
fn any_state_becomes_any_other_one() {
    for seed in seeds(1) {
        println!("SEED={seed}");
        let mut random = Random::new(seed);
        let kept = Kept::new(&["Orders"]);
        kept.archive(&[]);
        let mut states = Vec::new();
        for _ in 0..8 {
            for _ in 0..=random.below(12) {
                let (key, n) = (
                    format!("'p{}', '{}'", random.below(3), random.below(6)),
                    random.below(4),
                );
                kept.session.run(&match random.below(6) {
                    0 => "SELECT clear_table('Orders')".to_owned(),
                    1 | 2 => {
                        format!("DELETE FROM table_service_data.\"Orders\" WHERE (partition_key, row_key) = ({key})")
                    }
                    _ => format!("SELECT insert_or_replace_entity('Orders', {key}, '{{\"N\": {n}}}')"),
                });
            }
            states.push((kept.then("SELECT 1"), properties(&kept.now("Orders"))));
        }
        kept.archive(&[]);
        let target = Database::new();
        let (session, to, path) = (target.session("target"), database_url(&target), kept.path());
        session.run("SET search_path = public, table_service; SELECT create_table('Orders')");
        let mut now = BTreeMap::new();
        for _ in 0..16 {
            let (moment, then) = random.pick(&states);
            let restore = [
                "restore",
                "--quiet",
                "--as-it-was",
                "--from",
                text(&path),
                "--at",
                moment,
                "--to",
                &to,
            ];
            let is_part = random.chance(50);
            let filter = ["--filter", "N eq 1"];
            ends_with(0, &[&restore[..], if is_part { &filter } else { &[] }].concat());
            let passes = |state: &BTreeMap<_, String>, key: &(String, String)| {
                !is_part || state.get(key).is_some_and(|bag| bag == "\"N\":1}")
            };
            let keys: BTreeSet<(String, String)> = now.keys().chain(then.keys()).cloned().collect();
            for key in keys {
                match then.get(&key) {
                    _ if !passes(&now, &key) && !passes(then, &key) => {}
                    Some(bag) => drop(now.insert(key, bag.clone())),
                    None => drop(now.remove(&key)),
                }
            }
            assert_eq!(properties(&entities(&session, "Orders")), now, "SEED={seed} {moment}");
        }
    }
}
