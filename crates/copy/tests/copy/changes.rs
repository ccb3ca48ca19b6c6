//! The changes of a feed as lines, and copies that follow a feed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use system_tests::gateway::url;
use system_tests::random::{Random, seeds};
use system_tests::{Cluster, Database, Log, OtherReader, Session, wait_until};

use crate::memory::most_of;
use crate::program::{
    End, command, connection_string, database_url, ends_with, output, quietly, start, succeeds, text, verifying,
};

fn prepared(database: &Database) -> Session {
    let session = database.session("writer");
    session.run("SET search_path = public, table_service; SELECT create_table('Orders')");
    session
}

fn slots(session: &Session) -> String {
    session.text("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
}

#[test]
fn changes_are_lines_that_are_confirmed_when_they_are_written() {
    let database = Database::new();
    let session = prepared(&database);
    session.run("SELECT create_change_feed('f', '{Orders}', old_images => true)");
    let directory = tempfile::tempdir().unwrap();
    let (from, path) = (database_url(&database), directory.path().join("changes.jsonl"));
    let to = path.to_str().unwrap();
    let arguments = ["changes", "--from", &from, "--feed", "F", "--to", to];
    let lines = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };

    session.run("SELECT insert_entity('Orders', 'p', 'é\"', '{\"A@odata.type\": \"Edm.Int64\", \"A\": \"1\"}')");
    session.run("SELECT merge_entity('Orders', 'p', 'é\"', '{\"B\": \"\\u0001\"}', '*')");
    assert!(succeeds(&arguments).contains("2 changes"));
    session.run("SELECT clear_table('Orders')");
    // A part of a line that an earlier run has left, and that was not confirmed.
    let mut text = std::fs::read(&path).unwrap();
    text.extend_from_slice(b"{\"position\":");
    std::fs::write(&path, text).unwrap();
    assert!(succeeds(&arguments).contains("1 changes"));
    assert!(succeeds(&arguments).contains("0 changes"));

    let lines = lines();
    assert_eq!(lines.len(), 3);
    let names: BTreeSet<&str> = lines[0].as_object().unwrap().keys().map(String::as_str).collect();
    let columns = session.run("SELECT unnest(proargnames[3:]) FROM pg_proc WHERE proname = 'query_changes'");
    let columns: BTreeSet<&str> = columns.iter().map(|row| row[0].as_deref().unwrap()).collect();
    assert_eq!(names, columns);
    assert_eq!(lines[0]["kind"], "insert");
    assert_eq!(lines[0]["row_key"], "é\"");
    assert_eq!(lines[0]["old_properties"], serde_json::Value::Null);
    assert_eq!(lines[1]["properties"]["B"], "\u{1}");
    assert_eq!(lines[1]["old_properties"], lines[0]["properties"]);
    assert_eq!(lines[2]["kind"], "clear");
    assert!(lines[0]["committed"].as_str().unwrap().ends_with('Z'));

    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    let said = output(&["changes", "--quiet", "--from", &from, "--feed", "f", "--to", "-"]);
    assert!(said.status.success());
    let line: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(line["row_key"], "r");
    session.run("SELECT drop_change_feed('f')");

    assert!(ends_with(1, &arguments).contains("no change feed"));
    assert!(ends_with(2, &["changes", "--from", to, "--feed", "f", "--to", "-"]).contains("postgresql://"));
    assert!(ends_with(2, &["changes", "--from", &from, "--feed", "f", "--to", &from]).contains("JSON lines"));
}

/// Escaped in JSON, a character has six bytes, and a change with an old image has two bags.
#[test]
fn the_largest_changes_are_written() {
    let source = Database::new();
    let session = prepared(&source);
    session.run("SELECT create_change_feed('f', '{Orders}', old_images => true)");
    session.run(
        "SELECT count(insert_entity('Orders', 'p', n::text, bag)) FROM generate_series(1, 30) AS n,
        (SELECT jsonb_object_agg('P' || n, repeat(chr(1), 32000)) AS bag FROM generate_series(1, 16) AS n) AS b;
        UPDATE table_service_data.\"Orders\" SET row_key = row_key",
    );
    let mut writing = command(&["changes", "--from", &database_url(&source), "--feed", "f", "--to", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Nobody reads for a while, so changes wait.
    std::thread::sleep(Duration::from_secs(2));
    let most = most_of(writing.id());
    assert!(most > 0 && most < 384 << 20, "{most} bytes");
    let lines = BufReader::new(writing.stdout.take().unwrap()).lines();
    assert_eq!(
        lines
            .map(|line| line.unwrap().len() > 1_000_000)
            .filter(|&is_large| is_large)
            .count(),
        60
    );
    assert!(writing.wait().unwrap().success());
    session.run("SELECT drop_change_feed('f')");
}

#[test]
fn confirmed_changes_are_in_the_file_whenever_the_program_is_killed() {
    let database = Database::new();
    let session = prepared(&database);
    session.run("SELECT create_change_feed('f', '{Orders}')");
    let directory = tempfile::tempdir().unwrap();
    let (from, path) = (database_url(&database), directory.path().join("changes.jsonl"));
    let arguments = [
        "changes",
        "--from",
        &from,
        "--feed",
        "f",
        "--to",
        text(&path),
        "--follow",
        "0.01",
    ];
    for round in 1..=5 {
        let before = session.text("SELECT pg_current_wal_insert_lsn()");
        session.run(&format!(
            "SELECT count(insert_entity('Orders', 'p{round}', n::text, '{{}}')) FROM generate_series(1, 300) AS n"
        ));
        let mut writing = start(&arguments);
        // They are one transaction, and only its end is a position behind this one.
        let is_confirmed = format!("SELECT \"position\"::pg_lsn > '{before}' FROM query_change_feeds()");
        wait_until("all are confirmed", || session.text(&is_confirmed) == "t");
        writing.kill().unwrap();
        writing.wait().unwrap();
        let lines = std::fs::read_to_string(&path).unwrap();
        let keys: BTreeSet<(String, String)> = lines
            .lines()
            .map(|line| {
                let change: serde_json::Value = serde_json::from_str(line).unwrap();
                (change["partition_key"].to_string(), change["row_key"].to_string())
            })
            .collect();
        assert_eq!(keys.len(), 300 * round);
    }
    // The server may not have noticed yet that the last program is gone.
    wait_until("the feed is free", || {
        session.sql("SELECT drop_change_feed('f')").is_ok()
    });
}

#[test]
fn changes_are_not_written_to_a_file_of_something_else() {
    let database = Database::new();
    let session = prepared(&database);
    session.run("SELECT create_change_feed('f', '{Orders}')");
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    let (from, directory) = (database_url(&database), tempfile::tempdir().unwrap());
    let export = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n{\"PartitionKey\"";
    for (status, name, contents) in [
        (1, "notes", "no end of a line"),
        (1, "Orders.jsonl", export),
        (1, "archive.gz", "\u{1f}\u{8b}"),
        (2, "Orders.csv", "PartitionKey,RowKey\n"),
        (2, "Orders.json", "{\"position\":"),
        (2, "Orders.jsonl.zst", ""),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, contents).unwrap();
        ends_with(
            status,
            &["changes", "--from", &from, "--feed", "f", "--to", text(&path)],
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), contents, "{name}");
    }
    // Nothing was confirmed.
    let said = output(&["changes", "--quiet", "--from", &from, "--feed", "f", "--to", "-"]);
    assert_eq!(String::from_utf8(said.stdout).unwrap().lines().count(), 1);
    session.run("SELECT drop_change_feed('f')");
}

#[test]
fn nothing_is_written_to_a_closed_output() {
    let database = Database::new();
    let session = prepared(&database);
    session.run("SELECT create_change_feed('f', '{Orders}')");
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    let from = database_url(&database);
    let changes = ["changes", "--from", &from, "--feed", "f", "--to", "-"];
    let copy = ["--from", &from, "--table", "Orders", "--to", "-"];
    let through_shell = |arguments: &[&str], redirected: &str| {
        let program = command(arguments);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("exec \"$0\" \"$@\" {redirected}")]);
        shell.arg(program.get_program()).args(program.get_args());
        shell.output().unwrap()
    };
    for arguments in [&changes[..], &copy] {
        let closed = through_shell(arguments, ">&-");
        assert_eq!(closed.status.code(), Some(2));
        assert!(
            String::from_utf8(closed.stderr)
                .unwrap()
                .contains("Standard output is closed")
        );
    }
    for says in ["1 changes", "0 changes"] {
        let thrown_away = through_shell(&changes, ">/dev/null");
        assert!(thrown_away.status.success());
        assert!(String::from_utf8(thrown_away.stderr).unwrap().contains(says));
    }
    session.run("SELECT drop_change_feed('f')");
}

#[test]
fn changes_wait_while_another_session_reads_the_feed() {
    let database = Database::new();
    let session = prepared(&database);
    session.run("SELECT create_change_feed('f', '{Orders}')");
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    let other = OtherReader::start(database.cluster(), &session, "f");
    let from = database_url(&database);
    let arguments = ["changes", "--from", &from, "--feed", "f", "--to", "-"];
    let said = ends_with(1, &[&arguments[..], &["--retry-for", "1"]].concat());
    assert!(said.contains("give each reader a feed of its own"), "{said}");
    // Such as the session of a connection that broke, which the server has not noticed.
    let reading = std::thread::scope(|scope| {
        let reading = scope.spawn(|| output(&arguments));
        std::thread::sleep(Duration::from_millis(300));
        drop(other);
        reading.join().unwrap()
    });
    assert!(reading.status.success());
    let line: serde_json::Value = serde_json::from_slice(&reading.stdout).unwrap();
    assert_eq!(line["row_key"], "r");
    session.run("SELECT drop_change_feed('f')");
}

/// A snapshot that is kept keeps the source from cleaning up.
fn no_snapshot_is_held(source: &Session) {
    let held = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND application_name = 'table-service-copy' AND (backend_xmin IS NOT NULL OR state LIKE 'idle in%')";
    wait_until("the copy holds no snapshot", || source.text(held) == "0");
}

/// A copy that follows until it is told to stop.
struct Following {
    program: Child,
    said: Log,
}

impl Following {
    fn start(from: &str, to: &str) -> Following {
        Following::with(&quietly(from, to, &["--on-conflict", "replace", "--follow", "0"]))
    }

    fn with(arguments: &[&str]) -> Following {
        let mut program = command(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Log::of(program.stderr.take().unwrap());
        Following { program, said }
    }

    /// Waits for its work. A copy that has ended brings no more.
    fn brings(&mut self, what: &str, condition: impl Fn() -> bool) {
        wait_until(what, || {
            let ended = self.program.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "{what}: the copy ended, {ended:?}: {}",
                self.said.text()
            );
            condition()
        });
    }

    fn signal(&self, signal: &str) {
        let pid = self.program.id().to_string();
        let sent = std::process::Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Tells it to stop, and returns its standard error.
    fn interrupt(self) -> String {
        interrupt(self.program);
        self.said.whole()
    }
}

/// Tells a copy to stop.
fn interrupt(mut copying: Child) {
    let pid = copying.id().to_string();
    assert!(std::process::Command::new("kill").arg(pid).status().unwrap().success());
    assert_eq!(copying.wait().unwrap().code(), Some(130));
}

#[test]
fn a_copy_follows_deletions_too_and_leaves_no_feed() {
    for kind in ["sql", "rest"] {
        let (source, target) = (Database::new(), End::of(kind));
        let session = prepared(&source);
        session.run(
            "SELECT create_table('Items');
            SELECT count(insert_entity(t, 'p' || n % 7, n::text, jsonb_build_object('N', n, 'T', repeat('x', 20))))
            FROM generate_series(1, 3000) AS n, unnest('{Orders,Items}'::text[]) AS t",
        );
        let (from, to) = (database_url(&source), target.argument());
        // No round takes less than no time, so it goes on until it is stopped.
        let mut copying = Following::start(&from, &to);
        for n in 1..=400 {
            session.run(&format!(
                "SELECT delete_entity('Orders', 'p{0}', '{n}', if_exists => true);
                SELECT insert_or_replace_entity('Orders', 'new', '{1}', '{{\"N\": {n}}}');
                UPDATE table_service_data.\"Items\" SET row_key = row_key || 'x' WHERE partition_key = 'p{0}' AND row_key = '{n}'",
                n % 7,
                n % 50,
            ));
        }
        let are_equal = || output(&verifying(&from, &to, &[])).status.success();
        copying.brings("the changes are there", are_equal);
        no_snapshot_is_held(&session);
        // The first copy has ended for certain.
        session.run("SELECT delete_entities('Orders', 'N lt 1000')");
        copying.brings("the deletions are there", are_equal);
        session.run("SELECT clear_table('Items')");
        session.run("SELECT insert_entity('Items', 'p', 'last', '{}')");
        copying.brings("the cleared table is there", are_equal);
        // The feed is dropped in the middle, at any moment of the copy's work: it says so, and copies again.
        for n in 0..5 {
            copying.brings("the feed is free", || {
                session
                    .sql("SELECT drop_change_feed(feed_name) FROM query_change_feeds()")
                    .is_ok()
            });
            session.run(&format!(
                "SELECT delete_entity('Items', 'p', 'last', if_exists => true), insert_entity('Orders', 'p', 'last{n}', '{{}}')"
            ));
            copying.brings("the tables are copied again", are_equal);
        }
        no_snapshot_is_held(&session);
        assert_eq!(slots(&session), "1");
        let said = copying.interrupt();
        assert!(!said.contains("cannot be followed"), "{said}");
        assert_eq!(slots(&session), "0");
        assert_eq!(session.text("SELECT count(*) FROM pg_publication"), "0");
    }
}

#[test]
fn a_table_whose_changes_cannot_be_read_is_named_and_others_are_followed() {
    let (source, target) = (Database::new(), Database::new());
    let (session, copied) = (prepared(&source), prepared(&target));
    session.run(
        "SELECT create_table('Items'); CREATE UNIQUE INDEX rows ON table_service_data.\"Items\" (row_key);
        SELECT insert_entity('Items', 'p', 'r', '{}'), insert_entity('Orders', 'p', 'r', '{}')",
    );
    let (from, to) = (database_url(&source), database_url(&target));
    let copying = Following::start(&from, &to);
    let are_equal = || output(&verifying(&from, &to, &[])).status.success();
    wait_until("all are copied", are_equal);
    session.run("ALTER TABLE table_service_data.\"Items\" REPLICA IDENTITY USING INDEX rows");
    session.run("UPDATE table_service_data.\"Items\" SET partition_key = 'q'");
    session.run("UPDATE table_service_data.\"Items\" SET partition_key = 'r'");
    session.run("SELECT insert_entity('Orders', 'p', 'last', '{}')");
    let last = "SELECT count(*) FROM table_service_data.\"Orders\" WHERE row_key = 'last'";
    wait_until("the other table is followed", || copied.text(last) == "1");

    let said = copying.interrupt();
    let gap = "Changes of the table Items cannot be followed, and are missing in the target: The table, or a part of it, had a replica";
    // At once, and in the report.
    assert_eq!(said.matches(gap).count(), 2, "{said}");
    assert!(said.contains("Items: left out: "), "{said}");
}

#[test]
fn a_table_that_stays_locked_keeps_no_other_one_from_being_followed() {
    // While somebody holds such a lock, nobody else makes a feed on a server.
    let (source, target) = (Cluster::start(&["wal_level=logical"]), Database::new());
    let (session, copied) = (source.session(), prepared(&target));
    session.run("CREATE EXTENSION table_service; SET search_path = public, table_service");
    session.run("SELECT create_table('Orders'), create_table('Items'), insert_entity('Orders', 'p', 'r', '{}')");
    let (from, to) = (url(&source, "postgres", "postgres"), database_url(&target));
    let copying = Following::start(&from, &to);
    wait_until("all are copied", || {
        output(&verifying(&from, &to, &[])).status.success()
    });
    let owner = source.session();
    // It does not see the change before the lock.
    no_snapshot_is_held(&session);
    copying.signal("-STOP");
    session.run("SELECT insert_entity('Items', 'p', 'r', '{}')");
    owner.run("BEGIN; LOCK TABLE table_service_data.\"Items\"");
    copying.signal("-CONT");
    // Changes of the locked table come before those of the other one.
    session.run("SELECT insert_entity('Orders', 'p', 'last', '{}')");
    copying.said.waits_for("Changes of the table Items cannot be followed");
    let last = "SELECT count(*) FROM table_service_data.\"Orders\" WHERE row_key = 'last'";
    wait_until("the other table is followed", || copied.text(last) == "1");
    owner.run("COMMIT");
    session.run("SELECT insert_entity('Items', 'p', 'later', '{}'), insert_entity('Orders', 'p', 'end', '{}')");
    wait_until("it still is", || copied.text(&last.replace("last", "end")) == "1");
    assert_eq!(copied.text("SELECT count(*) FROM table_service_data.\"Items\""), "0");
    let said = copying.interrupt();
    assert!(
        said.contains("Items: left out: ") && said.contains("has locked table_service_data"),
        "{said}"
    );
}

/// docs/guide/move.md names the limit.
#[test]
fn large_entities_are_followed_some_at_a_time() {
    let (source, target) = (Database::new(), Database::new());
    let (session, copied) = (prepared(&source), prepared(&target));
    let copying = Following::start(&database_url(&source), &database_url(&target));
    wait_until("there is a feed", || slots(&session) == "1");
    session.run(
        "SELECT count(insert_entity('Orders', 'p', n::text, bag)) FROM generate_series(1, 120) AS n,
        (SELECT jsonb_object_agg('P' || n, repeat('€', 32000)) AS bag FROM generate_series(1, 15) AS n) AS b",
    );
    let count = "SELECT count(*) FROM table_service_data.\"Orders\"";
    wait_until("all are copied", || copied.text(count) == "120");
    let most = most_of(copying.program.id());
    assert!(most > 0 && most < 384 << 20, "{most} bytes");
    copying.interrupt();
}

#[test]
fn a_copy_follows_a_table_that_is_dropped_and_created_again() {
    let (source, target) = (Database::new(), Database::new());
    let (session, copied) = (prepared(&source), prepared(&target));
    session.run(
        "SELECT create_table('Items'); SELECT insert_entity('Items', 'p', 'r', '{}');
        SELECT count(insert_entity('Orders', 'p', n::text, '{}')) FROM generate_series(1, 100) AS n",
    );
    let (from, to) = (database_url(&source), database_url(&target));
    let copying = Following::start(&from, &to);
    let are_equal = || output(&verifying(&from, &to, &[])).status.success();
    wait_until("all are copied", are_equal);
    // A table that is emptied would lose this.
    copied.run("SELECT insert_entity('Items', 'own', 'own', '{}')");
    session.run("SELECT delete_table('Orders')");
    // It is also looked at while there is no such table.
    std::thread::sleep(Duration::from_secs(3));
    session.run("SELECT insert_entity('Items', 'p', 'between', '{}')");
    // The target keeps the table that the source no longer has.
    wait_until("the other table is followed", || {
        copied.text("SELECT count(*) FROM table_service_data.\"Items\" WHERE row_key = 'between'") == "1"
    });
    session.run("SELECT create_table('Orders'); SELECT insert_entity('Orders', 'q', 'new', '{}')");
    let orders = "SELECT COALESCE(string_agg(row_key, ','), '') FROM table_service_data.\"Orders\"";
    wait_until("the new table is there", || copied.text(orders) == "new");
    copied.run("SELECT delete_entity('Items', 'own', 'own')");
    session.run("SELECT insert_entity('Orders', 'q', 'newer', '{}')");
    wait_until("the new table is followed", are_equal);
    session.run("SELECT create_table('Later')");
    copying.said.waits_for("new tables, which are not followed: Later.");

    let said = copying.interrupt();
    assert!(
        said.contains("The target's table Orders is emptied and copied again: it was dropped, moved or renamed"),
        "{said}"
    );
    assert_eq!(slots(&session), "0");
}

#[test]
fn a_copy_follows_tables_that_are_renamed() {
    let (source, target) = (Database::new(), Database::new());
    let (session, copied) = (prepared(&source), prepared(&target));
    session.run(
        "SELECT create_table('Items'); SELECT insert_entity('Items', 'p', 'item', '{}');
        SELECT insert_entity('Orders', 'p', 'order', '{}')",
    );
    let (from, to) = (database_url(&source), database_url(&target));
    let copying = Following::start(&from, &to);
    let are_equal = || output(&verifying(&from, &to, &[])).status.success();
    wait_until("all are copied", are_equal);
    session.run(
        "BEGIN; ALTER TABLE table_service_data.\"Items\" RENAME TO \"Other\";
        ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Items\";
        ALTER TABLE table_service_data.\"Other\" RENAME TO \"Orders\"; COMMIT",
    );
    wait_until("both have the entities of the other one", are_equal);

    // Under a name that is not followed it is not there in parts, and under its old one it is whole again.
    session.run("ALTER TABLE table_service_data.\"Items\" RENAME TO \"Away\"");
    session
        .run("SELECT insert_entity('Away', 'p', 'meanwhile', '{}'); SELECT insert_entity('Orders', 'p', 'last', '{}')");
    let last = "SELECT count(*) FROM table_service_data.\"Orders\" WHERE row_key = 'last'";
    wait_until("the other table is followed", || copied.text(last) == "1");
    copying.said.waits_for("new tables, which are not followed: Away.");
    assert_eq!(
        copied.text("SELECT string_agg(table_name, ',') FROM query_tables()"),
        "Items,Orders"
    );
    session.run("ALTER TABLE table_service_data.\"Away\" RENAME TO \"Items\"");
    wait_until("it is whole", are_equal);

    let said = copying.interrupt();
    assert!(
        said.contains("The target's table Items is emptied and copied again: it was dropped, moved or renamed"),
        "{said}"
    );
    assert_eq!(slots(&session), "0");
}

#[test]
fn changes_of_another_table_that_has_the_name_for_a_moment_are_not_applied() {
    let (source, target) = (Database::new(), Database::new());
    let (session, copied) = (prepared(&source), prepared(&target));
    session.run(
        "SELECT create_table('Another'); SELECT insert_entity('Another', 'p', 'other', '{}');
        SELECT insert_entity('Orders', 'p', 'order', '{}')",
    );
    let (from, to) = (database_url(&source), database_url(&target));
    let copying = Following::start(&from, &to);
    wait_until("all are copied", || {
        output(&verifying(&from, &to, &[])).status.success()
    });
    session.run(
        "BEGIN; ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Away\";
        ALTER TABLE table_service_data.\"Another\" RENAME TO \"Orders\";
        TRUNCATE table_service_data.\"Orders\"; SELECT insert_entity('Orders', 'p', 'foreign', '{}');
        ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Another\";
        ALTER TABLE table_service_data.\"Away\" RENAME TO \"Orders\"; COMMIT;
        SELECT insert_entity('Orders', 'p', 'last', '{}')",
    );
    let rows = |table: &str| {
        copied.text(&format!(
            "SELECT COALESCE(string_agg(row_key, ',' ORDER BY row_key), '') FROM table_service_data.\"{table}\""
        ))
    };
    wait_until("the last one is there", || rows("Orders").contains("last"));
    assert_eq!(
        (rows("Orders"), rows("Another")),
        ("last,order".to_owned(), "foreign".to_owned())
    );
    let said = copying.interrupt();
    assert!(!said.contains("emptied"), "{said}");
}

#[test]
fn a_table_that_was_away_is_copied_again() {
    let (source, target) = (Database::new(), Database::new());
    let (session, copied) = (prepared(&source), prepared(&target));
    session.run(
        "CREATE SCHEMA away; SELECT insert_entity('Orders', 'p', '1', '{}'), insert_entity('Orders', 'p', '2', '{}')",
    );
    let (from, to) = (database_url(&source), database_url(&target));
    let copying = Following::start(&from, &to);
    wait_until("all are copied", || {
        output(&verifying(&from, &to, &[])).status.success()
    });
    // Between two looks at the catalog, so that only the feed tells it.
    session.run(
        "BEGIN; ALTER TABLE table_service_data.\"Orders\" SET SCHEMA away; COMMIT;
        DELETE FROM away.\"Orders\" WHERE row_key = '1'; INSERT INTO away.\"Orders\" VALUES ('p', '3', now(), '{}');
        BEGIN; ALTER TABLE away.\"Orders\" SET SCHEMA table_service_data; COMMIT",
    );
    let rows = "SELECT COALESCE(string_agg(row_key, ',' ORDER BY row_key), '') FROM table_service_data.\"Orders\"";
    wait_until("it is copied again", || copied.text(rows) == "2,3");
    let said = copying.interrupt();
    assert!(said.contains("copied again: it was "), "{said}");
}

#[test]
fn signals_that_come_together_are_one() {
    let (source, target) = (Database::new(), Database::new());
    let (session, own) = (prepared(&source), prepared(&target));
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    let (from, to) = (database_url(&source), database_url(&target));
    let mut copying = start(&quietly(&from, &to, &["--on-conflict", "replace", "--follow", "0"]));
    wait_until("all are copied", || own.text(OTHERS) == "1");
    assert_eq!(slots(&session), "1");
    // As `timeout` sends them.
    let pid = copying.id();
    let both = format!("kill -STOP {pid}; kill {pid}; kill -INT {pid}; kill -CONT {pid}");
    assert!(
        std::process::Command::new("sh")
            .args(["-c", &both])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(copying.wait().unwrap().code(), Some(130));
    assert_eq!(slots(&session), "0");
}

#[test]
fn a_copy_without_rights_to_a_feed_says_so_and_follows_by_timestamps() {
    let (source, target) = (Database::new(), Database::new());
    let session = prepared(&source);
    let role = source.role("reader");
    session.run(&format!(
        "SELECT insert_entity('Orders', 'p', 'r', '{{}}'); GRANT SELECT ON table_service_data.\"Orders\" TO {role}"
    ));
    let from = database_url(&source).replace("postgres@", &format!("{role}@"));
    let to = database_url(&target);
    let said = succeeds(&quietly(&from, &to, &["--on-conflict", "replace", "--follow", "60"]));
    assert!(said.contains("Without a change feed"), "{said}");
    assert!(said.contains("must be owner of table Orders. A change feed"), "{said}");
    succeeds(&verifying(&from, &to, &[]));
    assert_eq!(slots(&session), "0");
}

/// Entities that the target has replaced have a Timestamp of its clock, so later writes of the source look older.
#[test]
fn what_the_source_has_counts_once_it_is_followed() {
    for kind in ["sql", "rest"] {
        let (source, target) = (Database::new(), End::of(kind));
        let session = prepared(&source);
        session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
        let (from, to) = (database_url(&source), target.argument());
        let copying = command(&quietly(&from, &to, &["--on-conflict", "newer", "--follow", "0"]))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let are_equal = || output(&verifying(&from, &to, &[])).status.success();
        wait_until("all are copied", are_equal);
        let there = match &target {
            End::Sql(database) => database.session("writer"),
            End::Gateway(service) => service.database.session("writer"),
            End::Directory(..) => unreachable!(),
        };
        there.run("SELECT table_service.insert_entity('Orders', 'p', 'both', '{\"Of\": \"the target\"}')");
        session.run(
            "INSERT INTO table_service_data.\"Orders\" VALUES ('p', 'both', '2020-01-01', '{\"Of\": \"the source\"}')",
        );
        wait_until("the source's is there", are_equal);
        interrupt(copying);
    }
}

#[test]
fn newer_entities_are_followed_only_by_a_feed() {
    let (source, service) = (Database::new(), End::of("rest"));
    let session = prepared(&source);
    let role = source.role("reader");
    session.run(&format!("GRANT SELECT ON table_service_data.\"Orders\" TO {role}"));
    let (url, rest) = (database_url(&source), service.argument());
    let follow = ["--on-conflict", "newer", "--follow", "60"];
    let since = [&follow[..], &["--since", "2020-01-01T00:00:00Z"]].concat();
    let reader = url.replace("postgres@", &format!("{role}@"));
    for (status, arguments) in [
        (2, quietly(&rest, &url, &follow)),
        (2, quietly(&url, &rest, &since)),
        (1, quietly(&reader, &rest, &follow)),
    ] {
        let said = ends_with(status, &arguments);
        assert!(said.contains("--follow needs a change feed"), "{said}");
    }
    assert_eq!(slots(&session), "0");
}

const WAITING: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                       AND application_name = 'table-service-copy' AND wait_event_type = 'Lock'";

#[test]
fn a_feed_that_is_lost_while_its_changes_are_written_is_begun_again() {
    let (source, target) = (Database::new(), Database::new());
    let (session, own) = (prepared(&source), prepared(&target));
    session.run("SELECT insert_entity('Orders', 'p', 'first', '{}')");
    let (from, to) = (database_url(&source), database_url(&target));
    let copying = Following::start(&from, &to);
    wait_until("all are copied", || own.text(OTHERS) == "1");
    own.run("BEGIN; LOCK TABLE table_service_data.\"Orders\" IN EXCLUSIVE MODE");
    session.run("SELECT insert_entity('Orders', 'p', 'second', '{}')");
    let watcher = target.session("watcher");
    wait_until("it is being written", || !watcher.run(WAITING).is_empty());
    session.run("SELECT drop_change_feed(feed_name) FROM query_change_feeds()");
    own.run("COMMIT");
    let again = || session.text("SELECT count(*) FROM query_change_feeds()") == "1";
    wait_until("there is another feed", again);
    session.run("SELECT insert_entity('Orders', 'p', 'third', '{}')");
    wait_until("it is followed", || own.text(OTHERS) == "3");
    let said = copying.interrupt();
    assert!(said.contains("The change feed is gone, so"), "{said}");
}

#[test]
fn a_cancelled_statement_is_tried_again() {
    let (source, target) = (Database::new(), Database::new());
    let (session, own) = (prepared(&source), prepared(&target));
    session.run("SELECT insert_entity('Orders', 'p', 'first', '{}')");
    let (from, to) = (database_url(&source), database_url(&target));
    let copying = Following::start(&from, &to);
    wait_until("all are copied", || own.text(OTHERS) == "1");
    for (key, end, all) in [("second", &source, "2"), ("third", &target, "3")] {
        copying.signal("-STOP");
        session.run(&format!("SELECT insert_entity('Orders', 'p', '{key}', '{{}}')"));
        let locking = end.session("locking");
        locking.run("BEGIN; LOCK TABLE table_service_data.\"Orders\" IN ACCESS EXCLUSIVE MODE");
        copying.signal("-CONT");
        let watcher = end.session("watcher");
        wait_until("it waits", || !watcher.run(WAITING).is_empty());
        let cancelled = format!("SELECT count(pg_cancel_backend(pid)) FROM ({WAITING}) AS w");
        assert_ne!(watcher.text(&cancelled), "0");
        locking.run("COMMIT");
        wait_until("it is followed", || own.text(OTHERS) == all);
    }
    let said = copying.interrupt();
    assert!(!said.contains("emptied"), "{said}");
}

/// A source of 3000 entities, and a target that has one that the source does not have.
fn prepared_with_an_own_entity() -> (Database, Session, Database, Session) {
    let (source, target) = (Database::new(), Database::new());
    let (session, own) = (prepared(&source), prepared(&target));
    session
        .run("SELECT count(insert_entity('Orders', 'p' || n % 7, n::text, '{}')) FROM generate_series(1, 3000) AS n");
    own.run("SELECT insert_entity('Orders', 'own', '', '{}')");
    (source, session, target, own)
}

const OWN: &str = "SELECT count(*) FROM table_service_data.\"Orders\" WHERE partition_key = 'own'";
const OTHERS: &str = "SELECT count(*) FROM table_service_data.\"Orders\" WHERE partition_key <> 'own'";

#[test]
fn a_copy_that_never_had_a_feed_empties_nothing_when_it_gets_one() {
    let (source, session, target, own) = prepared_with_an_own_entity();
    let directory = tempfile::tempdir().unwrap();
    let (from, to, resume) = (
        database_url(&source),
        database_url(&target),
        directory.path().join("resume"),
    );
    let resume = resume.to_str().unwrap();
    let without_feed = ["--on-conflict", "replace", "--resume", resume, "--rate", "30"];
    let copying = start(&quietly(&from, &to, &without_feed));
    wait_until("some are copied", || own.text(OTHERS) != "0");
    interrupt(copying);
    assert_ne!(own.text(OTHERS), "3000");
    // No position of the interrupted copy knows of this one.
    session.run("SELECT insert_entity('Orders', '', '', '{}')");

    let said = succeeds(&quietly(
        &from,
        &to,
        &["--on-conflict", "replace", "--resume", resume, "--follow", "60"],
    ));
    assert!(said.contains("The interrupted copy had no change feed"), "{said}");
    assert!(!said.contains("emptied"), "{said}");
    assert_eq!((own.text(OWN), own.text(OTHERS)), ("1".to_owned(), "3001".to_owned()));
    assert_eq!(slots(&session), "0");
}

#[test]
fn an_interrupted_copy_goes_on_with_its_feed_and_begins_again_only_if_it_is_lost() {
    let (source, session, target, own) = prepared_with_an_own_entity();
    let directory = tempfile::tempdir().unwrap();
    let (from, to, resume) = (
        database_url(&source),
        database_url(&target),
        directory.path().join("resume"),
    );
    let resume = resume.to_str().unwrap();
    let forever = ["--on-conflict", "replace", "--resume", resume, "--follow", "0"];
    let copying = start(&quietly(&from, &to, &forever));
    wait_until("all are copied", || own.text(OTHERS) == "3000");
    interrupt(copying);
    assert_eq!(slots(&session), "1");

    session.run("SELECT delete_entity('Orders', 'p1', '1')");
    let mut copying = Following::with(&quietly(&from, &to, &forever));
    copying.brings("the deletion is followed", || own.text(OTHERS) == "2999");
    let said = copying.interrupt();
    assert!(said.contains("0 rejected, 1 deleted"), "{said}");
    assert_eq!(own.text(OWN), "1");

    session
        .run("SELECT drop_change_feed(feed_name) FROM query_change_feeds(); SELECT delete_entity('Orders', 'p2', '2')");
    let said = succeeds(&quietly(
        &from,
        &to,
        &["--on-conflict", "replace", "--resume", resume, "--follow", "60"],
    ));
    assert!(
        said.contains("emptied and copied again: that of the interrupted copy is not there"),
        "{said}"
    );
    assert!(
        said.contains("Orders: 2998 read, 2998 written, 0 skipped, 0 rejected, 3000 deleted"),
        "{said}"
    );
    succeeds(&verifying(&from, &to, &[]));
    assert_eq!(slots(&session), "0");
}

#[test]
fn a_place_is_not_copied_to_itself() {
    let End::Gateway(service) = End::of("rest") else {
        panic!()
    };
    let session = prepared(&service.database);
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    let directory = tempfile::tempdir().unwrap();
    let resume = directory.path().join("resume");
    let url = database_url(&service.database);
    let gateway = connection_string(service.gateway.address);
    // The directory of the socket, written in another way.
    let other_url = url.replace("@%2F", "@%2F%2F");
    assert_ne!(other_url, url);
    for (from, to) in [(&url, &url), (&url, &other_url), (&gateway, &gateway)] {
        for more in [
            &["--follow", "0", "--resume", text(&resume)][..],
            &["--dry-run"],
            &["--table", "Orders"],
        ] {
            let said = ends_with(2, &quietly(from, to, &[&["--on-conflict", "replace"], more].concat()));
            assert!(said.contains("--from and --to are the same"), "{said}");
        }
    }
    assert!(!resume.exists());
    assert_eq!(slots(&session), "0");
    assert_eq!(session.text("SELECT count(*) FROM table_service_data.\"Orders\""), "1");
}

#[test]
fn a_killed_copy_that_follows_goes_on_where_it_was() {
    for seed in seeds(1) {
        for kind in ["sql", "rest"] {
            let (source, target) = (Database::new(), End::of(kind));
            let session = prepared(&source);
            session.run(
                "SELECT create_table('Items');
                SELECT count(insert_entity(t, 'p' || n % 7, n::text, jsonb_build_object('N', n)))
                FROM generate_series(1, 2000) AS n, unnest('{Orders,Items}'::text[]) AS t",
            );
            let directory = tempfile::tempdir().unwrap();
            let (from, to, resume) = (
                database_url(&source),
                target.argument(),
                directory.path().join("resume"),
            );
            let forever = ["--on-conflict", "replace", "--resume", text(&resume), "--follow", "0"];
            let mut random = Random::new(seed);
            let mut copying = start(&quietly(&from, &to, &forever));
            for _ in 0..10 {
                let until = Instant::now() + Duration::from_millis(20 + random.below(600) as u64);
                while Instant::now() < until {
                    let n = 1 + random.below(2500);
                    let (partition, table) = (n % 7, random.pick(&["Orders", "Items"]));
                    session.run(&match random.below(4) {
                        0 => format!("SELECT delete_entity('{table}', 'p{partition}', '{n}', if_exists => true)"),
                        1 => format!(
                            "SELECT delete_entities('{table}', 'PartitionKey eq ''p{partition}'' and N eq {n}')"
                        ),
                        _ => {
                            format!("SELECT insert_or_merge_entity('{table}', 'p{partition}', '{n}', '{{\"N\": {n}}}')")
                        }
                    });
                }
                copying.kill().unwrap();
                copying.wait().unwrap();
                copying = start(&quietly(&from, &to, &forever));
            }
            wait_until("the changes are there", || {
                let ended = copying.try_wait().unwrap();
                assert!(ended.is_none(), "the copy ended: {ended:?}");
                output(&verifying(&from, &to, &[])).status.success()
            });
            interrupt(copying);
            assert_eq!(slots(&session), "1");
        }
    }
}
