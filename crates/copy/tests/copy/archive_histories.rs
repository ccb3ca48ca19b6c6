//! Random histories of two tables, with expiry, tables that are dropped and made anew or exchange names while an archive follows, and kills of the
//! archive, also of its first run, and of the server. Every moment is restored as it was, or a new table is named that was not read yet.

use std::process::Child;
use std::time::Duration;

use system_tests::gateway::url;
use system_tests::random::{Random, seeds};
use system_tests::{Cluster, Session};

use crate::archive::{Entities, entities};
use crate::program::{ends_with, output, start, succeeds, text};

const TABLES: [&str; 2] = ["Orders", "Others"];

/// The result that a restore of a moment must have.
struct State {
    moment: String,
    tables: [Entities; 2],
}

fn session(cluster: &Cluster) -> Session {
    let session = cluster.session();
    session.run("SET search_path = public, table_service");
    session
}

/// A statement that changes rows in partitions that begin with this letter.
fn statement(random: &mut Random, letter: char, number: usize, may_clear: bool) -> String {
    let table = random.pick(&TABLES);
    let relation = format!("table_service_data.\"{table}\"");
    let (partition, row) = (format!("{letter}{}", random.below(3)), random.below(8));
    let key = format!("partition_key = '{partition}' AND row_key = '{row}'");
    let write = |function: &str, bag: &str| format!("SELECT {function}('{table}', '{partition}', '{row}', {bag})");
    match random.below(13) {
        0..4 => write(
            "insert_or_replace_entity",
            &format!("'{{\"N\": {number}, \"D\": 1.5, \"L@odata.type\": \"Edm.Int64\", \"L\": \"7\"}}'"),
        ),
        4 => write(
            "insert_or_merge_entity",
            &format!("'{{\"M{}\": \"é\\u0001\"}}'", number % 3),
        ),
        5 => format!("DELETE FROM {relation} WHERE {key}"),
        6 => write(
            "insert_or_replace_entity",
            &format!(
                "json_build_object('L', (SELECT string_agg(md5(n::text || '{number}'), '') FROM generate_series(1, 300) AS n))"
            ),
        ),
        // Large properties stay as they were.
        7 => format!("UPDATE {relation} SET \"timestamp\" = \"timestamp\" + '1 s' WHERE partition_key = '{partition}'"),
        8 | 9 => format!("UPDATE {relation} SET row_key = row_key || 'k{number}' WHERE {key}"),
        10 => format!(
            "UPDATE {relation} SET partition_key = partition_key || 'm{number}' WHERE partition_key LIKE '{letter}%' AND length(properties::text) > 5000"
        ),
        // Its first entities have expired from the beginning.
        11 => write(
            "insert_or_replace_entity",
            "'{\"E@odata.type\": \"Edm.DateTime\", \"E\": \"2020-01-01T00:00:00Z\"}'",
        ),
        _ if may_clear && random.chance(30) => format!("TRUNCATE {relation}"),
        _ => format!("DELETE FROM {relation} WHERE partition_key = '{partition}'"),
    }
}

fn killed(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The tables exchange their names.
fn exchange(session: &Session) {
    let rename = |from: &str, to: &str| format!("ALTER TABLE table_service_data.\"{from}\" RENAME TO \"{to}\";");
    let names = [("Orders", "Middle"), ("Others", "Orders"), ("Middle", "Others")];
    let statements: String = names.iter().map(|(from, to)| rename(from, to)).collect();
    session.run(&format!("BEGIN; {statements} COMMIT"));
}

fn create(session: &Session, table: &str) {
    session.run(&format!("SELECT create_table('{table}')"));
    session.run(&format!("SELECT set_expiry('{table}', 'E')"));
}

#[test]
fn every_moment_of_a_random_history_can_be_restored() {
    for seed in seeds(1) {
        history(seed);
    }
}

fn history(seed: u64) {
    println!("SEED={seed}");
    let mut random = Random::new(seed);
    let cluster = Cluster::start(&["wal_level=logical"]);
    let mut first = session(&cluster);
    first.run("CREATE EXTENSION IF NOT EXISTS table_service");
    for table in TABLES {
        create(&first, table);
        first.run(&format!(
            "SELECT count(insert_entity('{table}', 'a' || n % 3, n::text, '{{\"N\": 0}}')) FROM generate_series(1, 20) AS n"
        ));
    }
    let directory = tempfile::tempdir().unwrap();
    let (from, path) = (url(&cluster, "postgres", "postgres"), directory.path().join("archive"));
    let once = [
        "archive",
        "--quiet",
        "--from",
        &from,
        "--to",
        text(&path),
        "--table",
        "Orders",
        "--table",
        "Others",
    ];
    // New bases are made after some seconds.
    let following = [&once[..], &["--follow", "0.02", "--keep", "40s"]].concat();
    // The first runs are killed.
    for _ in 0..random.below(3) {
        let first_run = start(&once);
        std::thread::sleep(Duration::from_millis(random.below(150) as u64));
        killed(first_run);
    }
    succeeds(&once);
    let slots = "SELECT count(*)::text FROM pg_replication_slots";
    assert_eq!(first.text(slots), "1", "SEED={seed}");
    let mut second = session(&cluster);
    let mut is_open = false;
    let mut keeper: Option<Child> = None;
    let mut states: Vec<State> = Vec::new();
    for number in 0..150 {
        match random.below(40) {
            0..6 => {
                // Killed at any moment.
                match keeper.take() {
                    Some(child) => killed(child),
                    None => keeper = Some(start(&following)),
                }
            }
            6 => {
                cluster.crash();
                (first, second, is_open) = (session(&cluster), session(&cluster), false);
            }
            7 if !is_open => {
                first.run("SELECT expire_entities()");
            }
            8 if !is_open => match random.below(3) {
                0 => {
                    let table = random.pick(&TABLES);
                    first.run(&format!("SELECT delete_table('{table}')"));
                    create(&first, table);
                }
                _ => exchange(&first),
            },
            9..15 if !is_open => {
                second.run("BEGIN");
                is_open = true;
            }
            7..22 if is_open => {
                second.run(&statement(&mut random, 'b', number, false));
            }
            22..28 if is_open => {
                second.run(if random.chance(80) { "COMMIT" } else { "ROLLBACK" });
                is_open = false;
            }
            _ => {
                first.run("BEGIN");
                for _ in 0..=random.below(4) {
                    first.run(&statement(&mut random, 'a', number, !is_open));
                }
                first.run(if random.chance(85) { "COMMIT" } else { "ROLLBACK" });
            }
        }
        std::thread::sleep(Duration::from_millis(3 + random.below(150) as u64));
        let moment =
            first.text("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')");
        states.push(State {
            moment,
            tables: TABLES.map(|table| entities(&first, table)),
        });
        std::thread::sleep(Duration::from_millis(3));
    }
    if is_open {
        second.run("COMMIT");
    }
    if let Some(child) = keeper.take() {
        killed(child);
    }
    succeeds(&once);
    succeeds(&["archive", "--verify", text(&path)]);
    let listed: String = succeeds(&["archive", "--list", text(&path), "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let floor = listed["first"].as_str().unwrap().to_owned();
    assert!(listed["gaps"].as_array().unwrap().is_empty(), "{listed}");

    let (mut restored, mut unknown) = (0, 0);
    let mut check = |at: &str, expected: &[Entities; 2]| {
        for (table, expected) in TABLES.iter().zip(expected) {
            restored += 1;
            let name = format!("Restored{restored}");
            let arguments = [
                "restore",
                "--quiet",
                "--from",
                text(&path),
                "--at",
                at,
                "--table",
                table,
                "--as",
                &name,
                "--to",
                &from,
            ];
            let done = output(&arguments);
            if done.status.code() == Some(1) {
                // A new table can be restored from where the archive has read it.
                let said = String::from_utf8_lossy(&done.stderr).into_owned();
                assert!(
                    said.contains("was not in the archive yet"),
                    "SEED={seed} {table} at {at}: {said}"
                );
                unknown += 1;
                continue;
            }
            assert!(done.status.success(), "SEED={seed} {table} at {at}: {done:?}");
            assert_eq!(&entities(&first, &name), expected, "SEED={seed} {table} at {at}");
            first.run(&format!("SELECT delete_table('{name}')"));
        }
    };
    // As many as the issue asks for, if the history has them.
    let step = states
        .len()
        .div_ceil(if std::env::var("SOAK").is_ok() { 150 } else { 30 });
    for state in states.iter().step_by(step) {
        if state.moment < floor {
            let arguments = ["restore", "--from", text(&path), "--at", &state.moment, "--to", "-"];
            assert!(ends_with(1, &arguments).contains("first moment"));
            continue;
        }
        check(&state.moment, &state.tables);
    }
    let now = TABLES.map(|table| entities(&first, table));
    check("latest", &now);
    assert!(
        unknown * 2 < restored,
        "SEED={seed}: {unknown} of {restored} are unknown"
    );
}
