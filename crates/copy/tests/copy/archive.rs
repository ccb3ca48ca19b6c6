//! Archives: kept, listed, looked at, restored, damaged.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use system_tests::{Cluster, Database, Session, wait_until};

use crate::program::{End, command, database_url, ends_with, output, start, succeeds, text};

/// The Timestamps and properties of a table's entities, by their keys.
pub type Entities = BTreeMap<(String, String), String>;

/// A database with an archive beside it.
pub struct Kept {
    pub database: Database,
    pub session: Session,
    pub directory: tempfile::TempDir,
}

impl Kept {
    pub fn new(tables: &[&str]) -> Kept {
        let database = Database::new();
        let session = database.session("writer");
        session.run("SET search_path = public, table_service");
        for table in tables {
            session.run(&format!("SELECT create_table('{table}')"));
        }
        Kept {
            database,
            session,
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("archive")
    }

    pub fn archive(&self, more: &[&str]) -> String {
        let (from, path) = (database_url(&self.database), self.path());
        succeeds(&[&["archive", "--from", &from, "--to", text(&path)], more].concat())
    }

    /// Runs a statement and returns a moment after it.
    pub fn then(&self, statement: &str) -> String {
        self.session.run(statement);
        moment(&self.session)
    }

    /// The entities of a table as they are now.
    pub fn now(&self, table: &str) -> Entities {
        entities(&self.session, table)
    }

    /// The entities of a table at a moment, restored into another database.
    pub fn at(&self, moment: &str, table: &str) -> Entities {
        let target = Database::new();
        let (to, path) = (database_url(&target), self.path());
        succeeds(&[
            "restore",
            "--quiet",
            "--from",
            text(&path),
            "--at",
            moment,
            "--table",
            table,
            "--to",
            &to,
        ]);
        let session = target.session("reader");
        session.run("SET search_path = public, table_service");
        entities(&session, table)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The server keeps no log for it.
        let _ = self
            .session
            .sql("SELECT drop_change_feed(feed_name) FROM query_change_feeds()");
    }
}

pub fn moment(session: &Session) -> String {
    let moment =
        session.text("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')");
    // The next change is later.
    session.run("SELECT pg_sleep(0.002)");
    moment
}

pub fn entities(session: &Session, table: &str) -> Entities {
    let rows = session.run(&format!(
        "SELECT partition_key, row_key, \"timestamp\"::text || properties::text FROM table_service_data.\"{table}\""
    ));
    let column = |row: &[Option<String>], index: usize| row[index].clone().unwrap();
    rows.iter()
        .map(|row| ((column(row, 0), column(row, 1)), column(row, 2)))
        .collect()
}

#[test]
fn every_moment_can_be_restored() {
    let kept = Kept::new(&["Orders"]);
    let mut states = Vec::new();
    let mut note = |statement: &str| {
        let moment = kept.then(statement);
        states.push((moment, kept.now("Orders")));
    };
    kept.session
        .run("SELECT insert_entity('Orders', 'p', 'before', '{\"A@odata.type\": \"Edm.Int64\", \"A\": \"1\"}')");
    kept.archive(&[]);
    note("SELECT insert_entity('Orders', 'p', 'é\"', '{\"B\": \"\\u0001\", \"D\": 1.0}')");
    note("SELECT merge_entity('Orders', 'p', 'before', '{\"A\": 2}', '*')");
    note(
        "BEGIN; SELECT insert_entity('Orders', 'q', '1', '{}'); SELECT delete_entity('Orders', 'p', 'before'); COMMIT",
    );
    kept.archive(&[]);
    note("UPDATE table_service_data.\"Orders\" SET partition_key = 'r' WHERE partition_key = 'q'");
    note("SELECT count(insert_entity('Orders', 's', n::text, '{\"N\": 1}')) FROM generate_series(1, 3000) AS n");
    note("SELECT clear_table('Orders')");
    note("SELECT insert_entity('Orders', 's', '1', '{\"N\": 2}')");
    // Large properties that an update leaves as they were are not in the feed.
    let large = "SELECT insert_entity('Orders', 'l', '1', json_build_object('L', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 500) AS n)))";
    note(large);
    note("UPDATE table_service_data.\"Orders\" SET \"timestamp\" = \"timestamp\" + '1 s' WHERE partition_key = 'l'");
    // Nor are those of an entity with a key that is changed, once and again.
    note("UPDATE table_service_data.\"Orders\" SET row_key = row_key || '2' WHERE partition_key = 'l'");
    note(
        "BEGIN; UPDATE table_service_data.\"Orders\" SET row_key = row_key || '3' WHERE partition_key = 'l'; UPDATE table_service_data.\"Orders\" SET partition_key = 'm' WHERE partition_key = 'l'; COMMIT",
    );
    kept.archive(&[]);
    for (moment, state) in &states {
        assert_eq!(&kept.at(moment, "Orders"), state, "{moment}");
    }
    assert_eq!(kept.at("latest", "Orders"), kept.now("Orders"));

    let path = kept.path();
    let restore = |at: &str, more: &[&str]| {
        [&["restore", "--quiet", "--from", text(&path), "--at", at], more]
            .concat()
            .iter()
            .map(|&argument| argument.to_owned())
            .collect::<Vec<String>>()
    };
    let arguments = restore("2001-01-01T00:00:00Z", &["--to", "-"]);
    let said = ends_with(1, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(said.contains("first moment") && said.contains("last one"), "{said}");
}

#[test]
fn a_partition_is_restored_beside_the_table_or_into_it() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&["--feed", "Mine"]);
    assert_eq!(kept.session.text("SELECT feed_name FROM query_change_feeds()"), "mine");
    kept.then("SELECT insert_entity('Orders', p, r, '{\"A\": 1}') FROM unnest('{p,p,q}'::text[], '{1,2,1}'::text[]) AS k (p, r)");
    let moment = kept.then("SELECT merge_entity('Orders', 'p', '1', '{\"A\": 2}', '*')");
    let before = kept.now("Orders");
    kept.then("DELETE FROM table_service_data.\"Orders\" WHERE partition_key = 'p'");
    kept.then("SELECT merge_entity('Orders', 'q', '1', '{\"A\": 3}', '*')");
    kept.archive(&[]);
    let (path, to) = (kept.path(), database_url(&kept.database));
    let restore = [
        "restore",
        "--quiet",
        "--from",
        text(&path),
        "--at",
        &moment,
        "--table",
        "orders",
        "--to",
        &to,
    ];
    let more = |more: &[&'static str]| [&restore[..], more].concat();

    succeeds(&more(&["--as", "Orders2", "--filter", "PartitionKey eq 'p'"]));
    let mut partition = before.clone();
    partition.retain(|(partition, _), _| partition == "p");
    assert_eq!(kept.now("Orders2"), partition);
    succeeds(&more(&["--filter", "PartitionKey eq 'p'"]));
    assert_eq!(kept.now("Orders").len(), 3);
    // The one that is there has changed since then.
    let said = ends_with(1, &restore);
    assert!(said.contains("EntityAlreadyExists"), "{said}");
    succeeds(&more(&["--on-conflict", "newer"]));
    assert_ne!(kept.now("Orders"), before);
    succeeds(&more(&["--on-conflict", "replace"]));
    // An entity that was there has got a new Timestamp, as with every update.
    let properties = |entities: &Entities| -> Vec<String> {
        let bags = entities.values();
        bags.map(|text| text.split_once('{').unwrap().1.to_owned()).collect()
    };
    assert_eq!(properties(&kept.now("Orders")), properties(&before));

    assert!(ends_with(2, &more(&["--as", "../x"])).contains("--as"));
    assert!(ends_with(2, &more(&["--on-conflict", "merge"])).contains("--on-conflict"));
    assert!(
        ends_with(
            1,
            &[
                "restore",
                "--from",
                text(&path),
                "--at",
                &moment,
                "--table",
                "Nothing",
                "--to",
                &to
            ]
        )
        .contains("no table Nothing")
    );
    for format in ["jsonl", "rest"] {
        let end = End::of(format);
        let argument = end.argument();
        succeeds(&[
            "restore",
            "--quiet",
            "--from",
            text(&path),
            "--at",
            &moment,
            "--to",
            &argument,
        ]);
        let counted = succeeds(&["count", "--quiet", "--from", &argument, "--table", "Orders"]);
        assert!(counted.contains("3 entities"), "{counted}");
    }
}

#[test]
fn files_can_be_read_with_other_programs_and_only_by_their_user() {
    let kept = Kept::new(&["Orders"]);
    kept.session
        .run("SELECT insert_entity('Orders', 'p', '1', '{\"A@odata.type\": \"Edm.Int64\", \"A\": \"1\"}')");
    kept.archive(&[]);
    kept.then("SELECT merge_entity('Orders', 'p', '1', '{\"B\": 2}', '*')");
    kept.archive(&[]);
    let path = kept.path();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let mut lines = BTreeMap::new();
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        assert!(name.starts_with("v1-") && !name.contains("Orders"), "{name}");
        assert_eq!(entry.metadata().unwrap().mode() & 0o777, 0o600, "{name}");
        if name.ends_with(".zst") {
            let unpacked = zstd_text(&entry.path());
            let documents: Vec<serde_json::Value> = unpacked
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            lines.insert(name, documents);
        }
    }
    let of = |kind: &str| lines.iter().find(|(name, _)| name.contains(kind)).unwrap().1;
    assert_eq!(of("-base-")[0]["A@odata.type"], "Edm.Int64");
    let change = &of("-segment-")[0];
    assert_eq!(change["kind"], "update");
    assert_eq!(change["table_name"], "Orders");
    assert_eq!(change["properties"]["A@odata.type"], "Edm.Int64");
    assert!(change["position"].is_string() && change["committed"].is_string() && change["timestamp"].is_string());
    // A base is a file that a copy reads.
    let base = file_of(&path, "-base-");
    assert!(succeeds(&["count", "--quiet", "--from", text(&base), "--table", "Orders"]).contains("1 entities"));
}

fn zstd_text(path: &Path) -> String {
    String::from_utf8(zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()).unwrap()
}

/// The arguments for the history of all entities of Orders.
pub fn history_of(archive: &Path) -> [&str; 7] {
    [
        "history",
        "--from",
        text(archive),
        "--table",
        "Orders",
        "--filter",
        "true",
    ]
}

/// The only file of an archive that has this in its name.
pub fn file_of(archive: &Path, part: &str) -> PathBuf {
    let mut names = std::fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().path());
    names.find(|path| text(path).contains(part)).unwrap()
}

#[test]
fn tables_come_and_go() {
    let kept = Kept::new(&["First"]);
    kept.archive(&[]);
    kept.then("SELECT insert_entity('First', 'p', '1', '{}')");
    let early = kept.then("SELECT create_table('Second'); SELECT insert_entity('Second', 'p', '1', '{\"A\": 1}')");
    kept.archive(&[]);
    let second = kept.then("SELECT merge_entity('Second', 'p', '1', '{\"A\": 2}', '*')");
    let state = kept.now("Second");
    kept.archive(&[]);
    kept.then("SELECT delete_table('Second')");
    let gone = moment(&kept.session);
    kept.archive(&[]);
    let later = moment(&kept.session);
    kept.then("SELECT create_table('Second'); SELECT insert_entity('Second', 'p', '9', '{\"A\": 9}')");
    kept.archive(&[]);
    let now = kept.then("SELECT insert_entity('Second', 'p', '10', '{\"A\": 10}')");
    kept.archive(&[]);
    assert_eq!(kept.at(&second, "Second"), state);
    assert_eq!(kept.at(&now, "Second"), kept.now("Second"));
    assert_eq!(kept.at("latest", "First").len(), 1);
    let path = kept.path();
    for (moment, says) in [
        (&early, "was not in the archive yet"),
        (&later, "was not there at that moment"),
    ] {
        let said = ends_with(
            1,
            &[
                "restore",
                "--from",
                text(&path),
                "--at",
                moment,
                "--table",
                "second",
                "--to",
                "-",
            ],
        );
        assert!(said.contains(says), "{said}");
    }
    let _ = gone;
    // All tables of a moment are those that were there.
    let to = kept.directory.path().join("all");
    succeeds(&[
        "restore",
        "--quiet",
        "--from",
        text(&path),
        "--at",
        &later,
        "--to",
        text(&to),
    ]);
    assert!(to.join("First.jsonl").exists() && !to.join("Second.jsonl").exists());
    let listed = succeeds(&["archive", "--list", text(&path)]);
    assert!(
        listed.contains("First: ") && listed.matches("Second: ").count() == 2 && listed.contains("dropped at"),
        "{listed}"
    );
}

#[test]
fn history_shows_what_changed() {
    let kept = Kept::new(&["Orders"]);
    kept.session
        .run("SELECT insert_entity('Orders', 'p', '1', '{\"A\": 1, \"B\": \"x\"}')");
    kept.archive(&[]);
    let since = moment(&kept.session);
    kept.then("SELECT merge_entity('Orders', 'p', '1', '{\"A\": 2}', '*')");
    kept.then("SELECT insert_entity('Orders', 'q', '1', '{\"A\": 7}')");
    let until = kept.then("SELECT delete_entity('Orders', 'p', '1')");
    kept.then("SELECT insert_entity('Orders', 'p', '1', '{\"C\": true}')");
    kept.then("SELECT clear_table('Orders')");
    kept.archive(&[]);
    let path = kept.path();
    let history = |more: &[&str]| {
        let shown = output(
            &[
                &["history", "--from", text(&path), "--table", "orders", "--filter"],
                more,
            ]
            .concat(),
        );
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        String::from_utf8(shown.stdout).unwrap()
    };
    let shown = history(&["PartitionKey eq 'p'"]);
    let kinds: Vec<serde_json::Value> = shown
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["kind"].clone())
        .collect();
    assert_eq!(kinds, ["update", "delete", "insert", "clear"]);
    let shown = history(&[
        "PartitionKey eq 'p'",
        "--since",
        &since,
        "--until",
        &until,
        "--format",
        "text",
    ]);
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert!(
        shown.contains("update (\"p\", \"1\") A: 1 -> 2\n") && shown.contains("-B: \"x\""),
        "{shown}"
    );
    // Before the change or after it.
    assert_eq!(history(&["A eq 1"]).lines().count(), 1);
    assert_eq!(history(&["RowKey eq 'none'"]), "");
    assert!(
        ends_with(
            1,
            &[
                "history",
                "--from",
                text(&path),
                "--table",
                "Nothing",
                "--filter",
                "true"
            ]
        )
        .contains("no table Nothing")
    );
}

/// Every byte of every file, with a stride that STRIDE sets.
#[test]
fn damage_is_named_wherever_it_is() {
    let kept = Kept::new(&["Orders"]);
    kept.session
        .run("SELECT insert_entity('Orders', 'p', '1', '{\"A\": 1}')");
    kept.archive(&[]);
    kept.then("SELECT insert_entity('Orders', 'p', '2', '{\"A\": 1}')");
    kept.archive(&[]);
    let expected = kept.now("Orders");
    let path = kept.path();
    let verify = ["archive", "--verify", text(&path)];
    succeeds(&verify);
    let history = history_of(&path);
    let versions = output(&history).stdout;
    let text_of = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(versions.split(|&byte| byte == b'\n').count(), 2);
    let stride: usize = std::env::var("STRIDE").map_or(11, |stride| stride.parse().unwrap());
    let names: Vec<PathBuf> = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let restore = || {
        let to = kept.directory.path().join("out.jsonl");
        let _ = std::fs::remove_file(&to);
        let restored = output(&[
            "restore",
            "--quiet",
            "--from",
            text(&path),
            "--at",
            "latest",
            "--to",
            text(&to),
        ]);
        let entities = std::fs::read_to_string(&to).map_or(0, |text| text.lines().count());
        (restored.status.code(), entities)
    };
    for name in names {
        let whole = std::fs::read(&name).unwrap();
        let is_manifest = text(&name).contains("manifest");
        let shown = name.file_name().unwrap().to_str().unwrap();
        let looked_at = |what: &str| {
            let verified = output(&verify);
            let said = String::from_utf8_lossy(&verified.stdout).into_owned();
            let is_named = verified.status.code() == Some(4) && said.contains(shown);
            // A manifest's contents may be the same, if the changed byte does not say anything.
            let is_irrelevant = verified.status.code() == Some(0) && (is_manifest || whole.is_empty());
            assert!(is_named || is_irrelevant, "{shown} {what}: {said}");
            let (code, count) = restore();
            match code {
                Some(0) => assert!(count == expected.len() || is_manifest && is_named, "{shown} {what}"),
                code => assert_eq!((code, count), (Some(4), 0), "{shown} {what}"),
            }
            // Nothing is shown as if it were all.
            let seen = output(&history);
            match seen.status.code() {
                Some(0) => assert_eq!(seen.stdout, versions, "{shown} {what}"),
                code => assert!(
                    code == Some(4) && (is_manifest || text_of(&seen).contains(r#""kind":"gap""#)),
                    "{shown} {what}: {}",
                    text_of(&seen)
                ),
            }
        };
        for at in (0..whole.len()).step_by(stride) {
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            std::fs::write(&name, &changed).unwrap();
            looked_at(&format!("changed at {at}"));
            std::fs::write(&name, &whole[..at]).unwrap();
            looked_at(&format!("cut at {at}"));
        }
        std::fs::remove_file(&name).unwrap();
        if !is_manifest && !whole.is_empty() {
            looked_at("missing");
        }
        std::fs::write(&name, &whole).unwrap();
    }
    succeeds(&verify);
    for foreign in ["notes.txt", "v1-base-000000000000.jsonl.zst", "v2-manifest.jsonl.zst"] {
        std::fs::write(path.join(foreign), "x").unwrap();
        assert!(ends_with(4, &verify).contains(foreign));
        std::fs::remove_file(path.join(foreign)).unwrap();
    }
}

#[test]
fn nothing_is_restored_past_a_damaged_segment() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    let before = moment(&kept.session);
    kept.then("SELECT insert_entity('Orders', 'p', '1', '{\"A\": 1}')");
    kept.archive(&[]);
    let path = kept.path();
    std::fs::remove_file(file_of(&path, "-segment-")).unwrap();
    let said = ends_with(4, &["archive", "--verify", text(&path)]);
    assert!(said.contains("it is missing") && said.contains("Orders: "), "{said}");
    let restore = ["restore", "--quiet", "--from", text(&path), "--to", "-", "--at"];
    succeeds(&[&restore[..], &[&before]].concat());
    let said = ends_with(4, &[&restore[..], &["latest"]].concat());
    assert!(
        said.contains("--allow-gaps") && said.contains("can be restored"),
        "{said}"
    );
    succeeds(&[&restore[..], &["latest", "--allow-gaps"]].concat());
}

#[test]
fn a_lost_feed_is_a_gap() {
    let kept = Kept::new(&["Orders"]);
    let first = kept.then("SELECT insert_entity('Orders', 'p', '1', '{\"A\": 1}')");
    let _ = first;
    kept.archive(&[]);
    let known = moment(&kept.session);
    kept.archive(&[]);
    kept.session
        .run("SELECT drop_change_feed(feed_name) FROM query_change_feeds()");
    let inside = kept.then("SELECT insert_entity('Orders', 'p', '2', '{\"A\": 1}')");
    let said = kept.archive(&[]);
    assert!(said.contains("gap from"), "{said}");
    let after = kept.then("SELECT insert_entity('Orders', 'p', '3', '{\"A\": 1}')");
    kept.archive(&[]);
    assert_eq!(kept.at(&known, "Orders").len(), 1);
    assert_eq!(kept.at(&after, "Orders").len(), 3);
    let path = kept.path();
    let restore = [
        "restore",
        "--quiet",
        "--from",
        text(&path),
        "--to",
        "-",
        "--at",
        &inside,
    ];
    assert!(ends_with(1, &restore).contains("gap from"));
    succeeds(&[&restore[..], &["--allow-gaps"]].concat());
    let listed = succeeds(&["archive", "--list", text(&path)]);
    assert!(
        listed.contains("gap: ") && listed.contains("the feed was dropped"),
        "{listed}"
    );

    // Somebody else has confirmed changes that the archive has not read.
    kept.session.run("SELECT insert_entity('Orders', 'p', '4', '{}')");
    kept.session
        .run("SELECT confirm_changes(feed_name, pg_current_wal_flush_lsn()::text) FROM query_change_feeds()");
    let said = kept.archive(&[]);
    assert!(said.contains("confirmed by somebody else"), "{said}");
    assert_eq!(kept.at("latest", "Orders").len(), 4);
}

#[test]
fn one_run_is_enough_where_the_server_flushes_late() {
    let cluster = Cluster::start(&["wal_level=logical", "wal_writer_delay=10s"]);
    let session = cluster.session();
    session
        .run("CREATE EXTENSION table_service; SET search_path = public, table_service; SELECT create_table('Orders')");
    session.run("SELECT insert_entity('Orders', 'p', '1', '{}')");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("archive");
    let url = system_tests::gateway::url(&cluster, "postgres", "postgres");
    succeeds(&["archive", "--from", &url, "--to", text(&path)]);
    session.run("SELECT insert_entity('Orders', 'p', '2', '{}')");
    // The table is read again, and the log ends in a record that nobody waits for.
    session.run("SELECT confirm_changes(feed_name, pg_current_wal_flush_lsn()::text) FROM query_change_feeds()");
    session.run("SELECT pg_logical_emit_message(false, 'test', '')");
    let said = succeeds(&["archive", "--from", &url, "--to", text(&path)]);
    let restored = succeeds(&[
        "restore",
        "--quiet",
        "--from",
        text(&path),
        "--at",
        "latest",
        "--to",
        "-",
    ]);
    assert!(restored.contains("\"RowKey\":\"2\""), "{said}{restored}");
}

/// An archive knows its log by the last transaction that it has read, so a long one comes again. A mark comes with it, so that it does not
/// come a third time.
#[test]
fn a_long_transaction_is_read_twice() {
    let kept = Kept::new(&["Orders"]);
    kept.session.run("SELECT create_change_feed('other', '{Orders}')");
    kept.archive(&[]);
    let read = |feed: &str| {
        let slot = format!(
            "'table_service_' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '_{feed}'"
        );
        let bytes = kept.session.text(&format!(
            "SELECT total_bytes FROM pg_stat_replication_slots WHERE slot_name = {slot}"
        ));
        bytes.parse::<u64>().unwrap()
    };
    let of_archive = "SELECT feed_name FROM query_change_feeds() WHERE feed_name <> 'other'";
    let of_archive = kept.session.text(of_archive);
    let before = (read("other"), read(&of_archive));
    kept.session
        .run("SELECT count(insert_entity('Orders', 's', n::text, '{\"N\": 1}')) FROM generate_series(1, 5000) AS n");
    kept.session.run("SELECT count(*) FROM query_feed('other', 1)");
    kept.archive(&[]);
    let (once, all) = (read("other") - before.0, read(&of_archive) - before.1);
    assert!(once > 5000 * 50, "{once}");
    assert!(all < once * 5 / 2, "{all} for {once}");
}

#[test]
fn changes_that_cannot_be_read_are_a_gap_of_their_table() {
    let kept = Kept::new(&["Orders", "Others"]);
    kept.archive(&[]);
    let known = kept.then("SELECT insert_entity('Orders', 'p', '1', '{\"A\": 1}')");
    kept.session
        .run("CREATE UNIQUE INDEX rows ON table_service_data.\"Orders\" (row_key); ALTER TABLE table_service_data.\"Orders\" REPLICA IDENTITY USING INDEX rows");
    let inside = kept.then("DELETE FROM table_service_data.\"Orders\"; SELECT insert_entity('Orders', 'p', '2', '{}'); SELECT insert_entity('Others', 'p', '1', '{}')");
    kept.session.run("DELETE FROM table_service_data.\"Orders\"");
    kept.session
        .run("ALTER TABLE table_service_data.\"Orders\" REPLICA IDENTITY DEFAULT");
    let said = kept.archive(&[]);
    assert!(said.contains("changes of the table Orders are missing"), "{said}");
    kept.archive(&[]);
    let after = kept.then("SELECT insert_entity('Orders', 'p', '3', '{\"A\": 1}')");
    kept.archive(&[]);
    assert_eq!(kept.at(&known, "Orders").len(), 1);
    assert_eq!(kept.at(&after, "Orders"), kept.now("Orders"));
    assert_eq!(kept.at(&inside, "Others").len(), 1);
    let path = kept.path();
    let restore = [
        "restore",
        "--quiet",
        "--from",
        text(&path),
        "--to",
        "-",
        "--at",
        &inside,
        "--table",
    ];
    assert!(ends_with(1, &[&restore[..], &["Orders"]].concat()).contains("changes since"));
    succeeds(&[&restore[..], &["Orders", "--allow-gaps"]].concat());
}

#[test]
fn a_directory_has_one_writer_and_is_an_archive() {
    let kept = Kept::new(&["Orders"]);
    let (from, path) = (database_url(&kept.database), kept.path());
    let arguments = ["archive", "--from", &from, "--to", text(&path)];
    let mut first = start(&[&arguments[..], &["--follow", "0.05"]].concat());
    wait_until("it is there", || {
        let listed = output(&["archive", "--list", text(&path)]).stdout;
        String::from_utf8(listed).unwrap().contains("Orders: 2")
    });
    assert!(ends_with(1, &arguments).contains("another run"));
    kept.session.run("SELECT insert_entity('Orders', 'p', '1', '{}')");
    wait_until("the change is there", || {
        let history = [
            "history",
            "--from",
            text(&path),
            "--table",
            "Orders",
            "--filter",
            "true",
        ];
        !output(&history).stdout.is_empty()
    });
    first.kill().unwrap();
    first.wait().unwrap();
    succeeds(&arguments);
    succeeds(&["archive", "--verify", text(&path)]);

    let other = kept.directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("precious"), "x").unwrap();
    assert!(ends_with(1, &["archive", "--from", &from, "--to", text(&other)]).contains("stays as it is"));
    let link = kept.directory.path().join("link");
    std::fs::create_dir(&link).unwrap();
    symlink(other.join("precious"), link.join("v1-lock")).unwrap();
    ends_with(1, &["archive", "--from", &from, "--to", text(&link)]);
    assert_eq!(std::fs::read_to_string(other.join("precious")).unwrap(), "x");
    assert!(ends_with(1, &["archive", "--list", text(&other)]).contains("there is no archive"));
    assert!(ends_with(2, &["archive", "--from", &from, "--to", text(&path), "--feed", "x"]).contains("--feed"));
    assert!(ends_with(2, &["archive", "--from", &from, "--to", text(&path), "--table", "a/b"]).contains("--table"));
    let none = kept.directory.path().join("none");
    assert!(
        ends_with(
            1,
            &["archive", "--from", &from, "--to", text(&none), "--table", "Nothing"]
        )
        .contains("no table Nothing")
    );
}

#[test]
fn a_signal_ends_what_follows() {
    let kept = Kept::new(&["Orders"]);
    let (from, path) = (database_url(&kept.database), kept.path());
    let mut following = command(&["archive", "--from", &from, "--to", text(&path), "--follow", "--quiet"])
        .spawn()
        .unwrap();
    wait_until("it is there", || {
        output(&["archive", "--list", text(&path)]).status.success()
    });
    kept.session
        .run("SELECT create_table('New'); SELECT insert_entity('New', 'p', '1', '{}')");
    wait_until("the new table is there", || {
        succeeds(&["archive", "--list", text(&path)]).contains("New: 2")
    });
    let killed = std::process::Command::new("kill")
        .arg(following.id().to_string())
        .status();
    assert!(killed.unwrap().success());
    assert_eq!(following.wait().unwrap().code(), Some(0));
    assert_eq!(kept.at("latest", "New").len(), 1);
}

/// Anybody may create a table.
#[test]
fn a_table_of_a_stranger_does_not_stop_the_others() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    let stranger = kept.database.role("stranger");
    kept.session.run(&format!(
        "SELECT create_table('Strange'); ALTER TABLE table_service_data.\"Strange\" OWNER TO {stranger}"
    ));
    kept.session.run("SELECT insert_entity('Orders', 'p', '1', '{}')");
    let (from, path) = (database_url(&kept.database), kept.path());
    let once = ["archive", "--from", &from, "--to", text(&path)];
    let said = ends_with(1, &once);
    assert!(
        said.contains("the table Strange is not archived now") && said.contains(&stranger),
        "{said}"
    );
    assert_eq!(kept.at("latest", "Orders").len(), 1);
    // Nor when all tables are read again.
    kept.session
        .run("SELECT drop_change_feed(feed_name) FROM query_change_feeds()");
    let said = ends_with(1, &once);
    assert!(
        said.contains("All tables are read again") && said.contains("Strange is not archived"),
        "{said}"
    );
    assert_eq!(kept.at("latest", "Orders").len(), 1);
    kept.archive(&["--trust-owners", &stranger]);
    assert_eq!(kept.at("latest", "Strange").len(), 0);
}

/// A transaction that is open when a table is read for the first time.
#[test]
fn who_writes_when_a_table_is_read_first_loses_nothing() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    kept.session.run("SELECT create_table('Busy')");
    let other = kept.database.session("other");
    other.run("SET search_path = public, table_service");
    other.run("BEGIN; SELECT insert_entity('Busy', 'p', '1', '{}')");
    let (from, path) = (database_url(&kept.database), kept.path());
    let mut archiving = start(&["archive", "--from", &from, "--to", text(&path)]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    other.run("SELECT insert_entity('Busy', 'p', '2', '{}'); COMMIT");
    assert!(archiving.wait().unwrap().success());
    assert_eq!(kept.at("latest", "Busy"), kept.now("Busy"));
    assert_eq!(kept.now("Busy").len(), 2);
}

#[test]
fn what_no_kept_moment_needs_goes() {
    let kept = Kept::new(&["Orders", "Still"]);
    kept.session.run("SELECT insert_entity('Still', 'p', '1', '{}')");
    kept.archive(&["--keep", "1h"]);
    let first = kept.then("SELECT insert_entity('Orders', 'p', '1', '{\"A\": 1}')");
    kept.archive(&["--keep", "1h"]);
    assert_eq!(kept.at(&first, "Orders").len(), 1);
    std::thread::sleep(std::time::Duration::from_secs(3));
    let second = kept.then("SELECT insert_entity('Orders', 'p', '2', '{\"A\": 1}')");
    kept.archive(&["--keep", "2s"]);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    kept.archive(&["--keep", "2s"]);
    let files = || {
        let names = std::fs::read_dir(kept.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.contains("manifest")).collect();
        names.sort();
        names
    };
    // A base of each table; the one that has not changed is still the first.
    let names = files();
    assert_eq!(
        names.iter().filter(|name| name.contains("-base-")).count(),
        2,
        "{names:?}"
    );
    assert!(names.iter().all(|name| !name.contains("-segment-")), "{names:?}");
    let path = kept.path();
    succeeds(&["archive", "--verify", text(&path)]);
    for gone in [&first, &second] {
        let said = ends_with(1, &["restore", "--from", text(&path), "--at", gone, "--to", "-"]);
        assert!(said.contains("first moment"), "{said}");
    }
    assert_eq!(kept.at("latest", "Orders"), kept.now("Orders"));
    assert_eq!(kept.at("latest", "Still"), kept.now("Still"));
    let after = kept.then("SELECT delete_entity('Orders', 'p', '1')");
    kept.archive(&[]);
    assert_eq!(kept.at(&after, "Orders"), kept.now("Orders"));
}

/// Replaces a file of an archive by another one, and says so in the manifest.
fn exchange(archive: &Path, part: &str, contents: &[u8], raw: u64) {
    use sha2::{Digest, Sha256};
    let file = file_of(archive, part);
    std::fs::write(&file, contents).unwrap();
    let digest: String = Sha256::digest(contents)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let number: u64 = text(&file)
        .rsplit('-')
        .next()
        .unwrap()
        .split('.')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    edit(archive, |line| {
        if line["number"] == number && line["sha256"].is_string() {
            line["bytes"] = contents.len().into();
            line["raw"] = raw.into();
            line["sha256"] = digest.clone().into();
        }
    });
}

/// Changes the lines of a manifest.
fn edit(archive: &Path, mut change: impl FnMut(&mut serde_json::Value)) {
    let file = archive.join("v1-manifest.jsonl.zst");
    let mut out = String::new();
    for line in zstd_text(&file).lines() {
        let mut line = serde_json::from_str(line).unwrap();
        change(&mut line);
        out.push_str(&format!("{line}\n"));
    }
    std::fs::write(&file, zstd::encode_all(out.as_bytes(), 3).unwrap()).unwrap();
}

#[test]
fn a_strangers_archive_is_read_carefully() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    kept.then("SELECT insert_entity('Orders', 'p', '1', '{\"A\": 1}')");
    kept.archive(&[]);
    let fresh = || {
        let directory = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(kept.path()).unwrap() {
            let entry = entry.unwrap();
            // Without the manifest before, which would help.
            if !text(&entry.path()).contains("before") {
                std::fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
            }
        }
        directory
    };
    let refused_with = |status: i32, archive: &tempfile::TempDir| {
        let to = tempfile::tempdir().unwrap();
        let out = to.path().join("out");
        let restore = ["restore", "--quiet", "--from", text(archive.path()), "--at", "latest"];
        let said = ends_with(status, &[&restore[..], &["--to", text(&out)]].concat());
        for entry in std::fs::read_dir(&out).into_iter().flatten() {
            assert!(text(&entry.unwrap().path()).ends_with(".part"));
        }
        said
    };
    let refused = |archive: &tempfile::TempDir| refused_with(1, archive);
    let archive = fresh();
    edit(archive.path(), |line| {
        if line["kind"] == "table" {
            line["names"][0]["name"] = "../../Orders".into();
        }
    });
    assert!(refused_with(4, &archive).contains("no name of a table"));

    let archive = fresh();
    edit(archive.path(), |line| {
        if line["kind"] == "archive" {
            line["format"] = 9.into();
        }
    });
    assert!(refused_with(4, &archive).contains("it has the format 9"));

    // The file that a link leads to is not read.
    let archive = fresh();
    let base = file_of(archive.path(), "-base-");
    let elsewhere = archive.path().join("elsewhere");
    std::fs::rename(&base, &elsewhere).unwrap();
    symlink(&elsewhere, &base).unwrap();
    assert!(refused_with(4, &archive).contains("missing or damaged"));

    // Little that becomes much: a line of 1 GiB.
    let archive = fresh();
    let mut bomb = zstd::Encoder::new(Vec::new(), 3).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(b' '), 1 << 30), &mut bomb).unwrap();
    let bomb = bomb.finish().unwrap();
    exchange(archive.path(), "-base-", &bomb, 1 << 30);
    assert!(refused(&archive).contains("longer than an entity can be"));
    exchange(archive.path(), "-base-", &bomb, 100);
    refused(&archive);

    for lines in [
        "{}\n",
        "no JSON\n",
        "{\"position\":\"0/0\",\"committed\":\"2026-01-01T00:00:00Z\",\"table_name\":\"Orders\",\"kind\":\"insert\"}\n",
    ] {
        let archive = fresh();
        let packed = zstd::encode_all(lines.as_bytes(), 3).unwrap();
        exchange(archive.path(), "-segment-", &packed, lines.len() as u64);
        refused(&archive);
    }
    for line in ["{\"PartitionKey\":\"p\"}\n", "[]\n"] {
        let archive = fresh();
        let packed = zstd::encode_all(line.as_bytes(), 3).unwrap();
        exchange(archive.path(), "-base-", &packed, line.len() as u64);
        refused(&archive);
    }
}
