//! Archives on days that are not quiet: servers that are put back, tables that exchange names, full disks, killed first runs, strangers.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use system_tests::gateway::url;
use system_tests::{Cluster, Database, Session, Standby, wait_until};

use crate::archive::{Kept, entities, file_of, history_of, moment};
use crate::memory::most_of;
use crate::program::{command, database_url, ends_with, output, start, succeeds, text};

fn run(kept: &Kept, more: &[&str]) -> (Option<i32>, String) {
    let (from, path) = (database_url(&kept.database), kept.path());
    let done = output(&[&["archive", "--from", &from, "--to", text(&path)], more].concat());
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8(said).unwrap())
}

/// The result of a restore of all tables at a moment: the names of the tables, with the row keys of their entities.
fn restored(path: &Path, at: &str) -> (Option<i32>, Vec<String>) {
    let to = tempfile::tempdir().unwrap();
    let out = to.path().join("out");
    let done = output(&[
        "restore",
        "--quiet",
        "--from",
        text(path),
        "--at",
        at,
        "--to",
        text(&out),
    ]);
    let mut tables = Vec::new();
    for entry in std::fs::read_dir(&out).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".jsonl") else {
            continue;
        };
        let lines = std::fs::read_to_string(entry.path()).unwrap();
        let mut rows: Vec<String> = lines
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["RowKey"].as_str().unwrap().to_owned())
            .collect();
        rows.sort();
        tables.push(format!("{name}: {}", rows.join(" ")));
    }
    tables.sort();
    (done.status.code(), tables)
}

fn insert(session: &Session, table: &str, row: &str) -> String {
    session.run(&format!("SELECT insert_entity('{table}', 'p', '{row}', '{{}}')"));
    moment(session)
}

fn session(cluster: &Cluster) -> Session {
    let session = cluster.session();
    session.run("SET search_path = public, table_service");
    session
}

#[test]
fn a_server_that_was_put_back_is_another_source() {
    let cluster = Cluster::start(&["wal_level=logical"]);
    let first = session(&cluster);
    first.run("CREATE EXTENSION table_service; SELECT create_table('Orders')");
    let directory = tempfile::tempdir().unwrap();
    let (from, path) = (url(&cluster, "postgres", "postgres"), directory.path().join("archive"));
    let once = ["archive", "--from", &from, "--to", text(&path)];
    insert(&first, "Orders", "1");
    succeeds(&once);
    cluster.cold_copy("earlier");
    let first = session(&cluster);
    let before = insert(&first, "Orders", "2");
    insert(&first, "Orders", "3");
    succeeds(&once);
    cluster.put_back("earlier");
    // The log becomes longer than it was.
    let second = session(&cluster);
    second.run("SELECT count(insert_entity('Orders', 'q', n::text, '{}')) FROM generate_series(1, 2000) AS n");
    let said = ends_with(1, &once);
    assert!(
        said.contains("does not have the log") && said.contains("--new-source"),
        "{said}"
    );
    assert_eq!(restored(&path, "latest"), (Some(0), vec!["Orders: 1 2 3".to_owned()]));
    let said = succeeds(&[&once[..], &["--new-source"]].concat());
    assert!(said.contains("gap from"), "{said}");
    let after = insert(&second, "Orders", "4");
    succeeds(&once);
    assert_eq!(restored(&path, &before).1, ["Orders: 1 2"]);
    let (status, tables) = restored(&path, &after);
    assert_eq!(status, Some(0));
    assert!(tables[0].starts_with("Orders: 1 1 10 100 "), "{tables:?}");
    assert_eq!(tables[0].split(' ').count(), 2003);

    // While it follows.
    cluster.cold_copy("later");
    let third = session(&cluster);
    let mut following = start(&[&once[..], &["--follow", "0.05"]].concat());
    insert(&third, "Orders", "last");
    wait_until("the change is there", || {
        restored(&path, "latest").1.iter().any(|table| table.contains(" last"))
    });
    cluster.put_back("later");
    wait_until("it ends", || following.try_wait().unwrap().is_some());
    assert_eq!(following.wait().unwrap().code(), Some(1));
    succeeds(&["archive", "--verify", text(&path)]);
}

/// A standby that takes over has no feed before PostgreSQL 17, and perhaps not the end of the log.
#[test]
fn a_failover_that_lost_log_is_a_gap() {
    let cluster = Cluster::start(&["wal_level=logical"]);
    let first = session(&cluster);
    first.run("CREATE EXTENSION table_service; SELECT create_table('Orders')");
    let directory = tempfile::tempdir().unwrap();
    let (from, path) = (url(&cluster, "postgres", "postgres"), directory.path().join("archive"));
    insert(&first, "Orders", "1");
    succeeds(&["archive", "--from", &from, "--to", text(&path)]);
    let standby = Standby::of(&cluster, &[]);
    standby.catches_up(&first);
    standby.follow("/nowhere", 1);
    wait_until("the standby is cut off", || {
        first.text("SELECT count(*)::text FROM pg_stat_replication") == "0"
    });
    let lost = insert(&first, "Orders", "2");
    let before = insert(&first, "Orders", "3");
    succeeds(&["archive", "--from", &from, "--to", text(&path)]);

    cluster.kill();
    standby.promote();
    let second = standby.session();
    second.run("SET search_path = public, table_service");
    // The log becomes longer than the log of the old primary was.
    second.run("SELECT count(insert_entity('Orders', 'q', n::text, '{}')) FROM generate_series(1, 2000) AS n");
    let between = insert(&second, "Orders", "4");
    let host = standby.host().replace('/', "%2F");
    let from = format!("postgresql://postgres@{host}:{}/postgres", standby.port());
    let once = ["archive", "--from", &from, "--to", text(&path)];
    let said = succeeds(&once);
    assert!(said.contains("gap from"), "{said}");
    let after = insert(&second, "Orders", "5");
    succeeds(&once);
    assert_eq!(restored(&path, &lost), (Some(0), vec!["Orders: 1 2".to_owned()]));
    assert_eq!(restored(&path, &before), (Some(0), vec!["Orders: 1 2 3".to_owned()]));
    assert_ne!(restored(&path, &between).0, Some(0));
    let (status, tables) = restored(&path, &after);
    assert_eq!(status, Some(0));
    let rows: Vec<&str> = tables[0].split(' ').skip(1).collect();
    assert_eq!(rows.len(), 2003);
    assert!(rows.contains(&"5") && rows.iter().filter(|row| **row == "2").count() == 1);
}

#[test]
fn another_database_is_taken_only_on_purpose() {
    let (kept, other) = (Kept::new(&["Orders"]), Kept::new(&["Orders"]));
    insert(&kept.session, "Orders", "1");
    kept.archive(&[]);
    insert(&other.session, "Orders", "2");
    let (from, path) = (database_url(&other.database), kept.path());
    let once = ["archive", "--from", &from, "--to", text(&path)];
    let said = ends_with(1, &once);
    assert!(
        said.contains("another server or database") && said.contains("--new-source"),
        "{said}"
    );
    assert_eq!(
        other.session.text("SELECT count(*)::text FROM query_change_feeds()"),
        "0"
    );
    assert_eq!(restored(&path, "latest").1, ["Orders: 1"]);
    succeeds(&[&once[..], &["--new-source"]].concat());
    assert_eq!(restored(&path, "latest").1, ["Orders: 2"]);
    // The first one was not dropped: it is the table of another source.
    let listed = succeeds(&["archive", "--list", text(&path)]);
    assert!(
        listed.contains("the archive did not find it any more at") && !listed.contains("dropped"),
        "{listed}"
    );
    assert!(!ends_with(4, &history_of(&path)).contains("\"drop\""));
}

#[test]
fn tables_are_held_by_their_oids() {
    let kept = Kept::new(&["First", "Second"]);
    insert(&kept.session, "First", "1");
    insert(&kept.session, "Second", "2");
    kept.archive(&[]);
    let rename = |from: &str, to: &str| {
        kept.session
            .run(&format!("ALTER TABLE table_service_data.\"{from}\" RENAME TO \"{to}\""));
    };
    let mut states = Vec::new();
    let mut note = |expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|&table| table.to_owned()).collect();
        states.push((moment(&kept.session), expected));
    };
    // Between two runs.
    note(&["First: 1", "Second: 2"]);
    kept.session.run("BEGIN");
    rename("First", "Middle");
    rename("Second", "First");
    rename("Middle", "Second");
    kept.session.run("COMMIT");
    note(&["First: 2", "Second: 1"]);
    insert(&kept.session, "First", "3");
    note(&["First: 2 3", "Second: 1"]);
    rename("Second", "Third");
    note(&["First: 2 3", "Third: 1"]);
    kept.session.run("SELECT delete_table('First')");
    note(&["Third: 1"]);
    kept.archive(&[]);
    // Dropped and made anew: the new one is not known before it was read, and the old one is not taken for it.
    let before = kept.then(
        "SELECT delete_table('Third'); SELECT create_table('Third'); SELECT insert_entity('Third', 'p', '9', '{}')",
    );
    kept.archive(&[]);
    note(&["Third: 9"]);
    kept.archive(&[]);
    let path = kept.path();
    for (moment, expected) in &states {
        assert_eq!(restored(&path, moment), (Some(0), expected.clone()), "{moment}");
    }
    assert_eq!(restored(&path, &before), (Some(1), vec![]));
    let listed = succeeds(&["archive", "--list", text(&path)]);
    assert!(listed.contains("dropped at"), "{listed}");
}

/// Definitions that no trigger has told.
#[test]
fn what_nobody_has_told_is_unknown() {
    let kept = Kept::new(&["Orders", "Others", "Travelled"]);
    kept.archive(&[]);
    insert(&kept.session, "Orders", "1");
    insert(&kept.session, "Travelled", "2");
    kept.archive(&[]);
    kept.session.run("CREATE SCHEMA away");
    without_event_triggers(&kept.session, true);
    let inside = kept.then(
        "ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Renamed\"; DROP TABLE table_service_data.\"Others\";
        ALTER TABLE table_service_data.\"Travelled\" SET SCHEMA away; DELETE FROM away.\"Travelled\";
        ALTER TABLE away.\"Travelled\" SET SCHEMA table_service_data",
    );
    without_event_triggers(&kept.session, false);
    let told = "SELECT count(*)::text FROM query_feed((SELECT feed_name FROM query_change_feeds())) WHERE kind IN ('rename', 'drop')";
    assert_eq!(kept.session.text(told), "0");
    kept.archive(&[]);
    let path = kept.path();
    assert_eq!(restored(&path, &inside), (Some(1), vec![]));
    let now = vec!["Renamed: 1".to_owned(), "Travelled: ".to_owned()];
    assert_eq!(restored(&path, "latest"), (Some(0), now));
}

/// Turns event triggers off or on: by a setting of a superuser since PostgreSQL 17. Before, one can disable them.
fn without_event_triggers(session: &Session, is_off: bool) {
    let has_setting = session.text("SELECT count(*) FROM pg_settings WHERE name = 'event_triggers'") == "1";
    let state = if is_off { "DISABLE" } else { "ENABLE ALWAYS" };
    session.run(&match has_setting {
        true => format!("SET event_triggers = {}", if is_off { "off" } else { "on" }),
        false => format!(
            "ALTER EVENT TRIGGER table_service_definitions {state}; ALTER EVENT TRIGGER table_service_drops {state}"
        ),
    });
}

/// A first run that is killed leaves at most the feed that the next one uses.
#[test]
fn a_killed_first_run_leaves_one_feed() {
    let kept = Kept::new(&["Orders"]);
    kept.session
        .run("SELECT count(insert_entity('Orders', 'p', n::text, '{}')) FROM generate_series(1, 3000) AS n");
    let (from, path) = (database_url(&kept.database), kept.path());
    let feeds = || -> u32 {
        let count = "SELECT count(*)::text FROM pg_replication_slots AS s JOIN pg_database AS d ON d.oid = s.datoid WHERE d.datname = current_database()";
        kept.session.text(count).parse().unwrap()
    };
    for wait in [5, 20, 40, 60, 80, 120, 160, 240] {
        let mut run = start(&["archive", "--from", &from, "--to", text(&path)]);
        std::thread::sleep(Duration::from_millis(wait));
        let _ = run.kill();
        run.wait().unwrap();
        assert!(feeds() <= 1, "{wait}");
    }
    kept.archive(&[]);
    assert_eq!(feeds(), 1);
    assert_eq!(kept.at("latest", "Orders").len(), 3000);
    succeeds(&["archive", "--verify", text(&path)]);
}

/// Runs the program where a directory is a file system of this size.
fn with_little_disk(directory: &Path, size: &str, arguments: &[&str]) -> Option<(Option<i32>, String)> {
    let mount = format!("mount -t tmpfs -o size={size} tmpfs {} && exec \"$@\"", text(directory));
    // A user other than root becomes root in a name space.
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let unshare: &[&str] = if is_root {
        &["--mount"]
    } else {
        &["--mount", "--map-root-user"]
    };
    let mut try_it = Command::new("unshare");
    try_it.args(unshare).args(["sh", "-c", &mount, "sh", "true"]);
    if !try_it.status().is_ok_and(|status| status.success()) {
        println!("This machine mounts nothing for this user.");
        return None;
    }
    let program = command(&[]).get_program().to_owned();
    let mut run = Command::new("timeout");
    run.args(["900", "unshare"])
        .args(unshare)
        .args(["sh", "-c", &mount, "sh"]);
    let done = run.arg(program).args(arguments).output().unwrap();
    Some((done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned()))
}

#[test]
fn a_full_disk_ends_the_run() {
    let kept = Kept::new(&["Orders"]);
    let noise = "SELECT count(insert_entity('Orders', 'p', md5(n::text), json_build_object('A', md5(n::text || 'a'), 'B', md5(n::text || 'b'))::text::properties)) FROM generate_series(1, 20000) AS n";
    let (from, little) = (database_url(&kept.database), tempfile::tempdir().unwrap());
    let path = little.path().join("archive");
    let arguments = ["archive", "--from", &from, "--to", text(&path), "--feed", "little"];
    // The changes while it follows do not fit.
    kept.session.run("SELECT create_change_feed('little', '{Orders}')");
    kept.session.run(noise);
    let Some((status, said)) = with_little_disk(little.path(), "600k", &arguments) else {
        return;
    };
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("No space left"), "{said}");
    // Nor does the first base.
    let Some((status, said)) = with_little_disk(little.path(), "200k", &arguments) else {
        return;
    };
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("No space left"), "{said}");
}

#[test]
fn one_tables_trouble_is_its_own() {
    let kept = Kept::new(&["Orders", "Strange"]);
    // An open transaction of a stranger's. PostgreSQL makes no slot meanwhile, so the archive has begun before.
    kept.archive(&["--table", "Orders"]);
    let stranger = kept.database.session("stranger");
    stranger.run("SET search_path = public, table_service");
    stranger.run("BEGIN; SELECT insert_entity('Strange', 'p', '1', '{}')");
    insert(&kept.session, "Orders", "1");
    let (status, said) = run(&kept, &["--table", "*"]);
    stranger.run("COMMIT");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("Strange: left out: others have used it"), "{said}");
    assert_eq!(kept.at("latest", "Orders").len(), 1);
    let (status, tables) = restored(&kept.path(), "latest");
    assert_eq!((status, tables), (Some(1), vec!["Orders: 1".to_owned()]));
    kept.archive(&[]);
    assert_eq!(
        restored(&kept.path(), "latest"),
        (Some(0), vec!["Orders: 1".to_owned(), "Strange: 1".to_owned()])
    );

    // A row that is no entity.
    kept.session.run("CREATE TABLE table_service_data.\"Wrong\" OF table_service.entity; INSERT INTO table_service_data.\"Wrong\" (row_key) VALUES ('r')");
    insert(&kept.session, "Orders", "2");
    let (status, said) = run(&kept, &[]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("Wrong: left out"), "{said}");
    assert_eq!(kept.at("latest", "Orders").len(), 2);
}

/// A relation of the service's type may have a name that no table can have, such as `a_b`. It is no table meanwhile.
#[test]
fn names_that_no_table_has_stop_nothing() {
    let kept = Kept::new(&["Orders"]);
    let role = kept.database.role("stranger");
    kept.session.run(&format!(
        "GRANT USAGE ON SCHEMA table_service TO {role}; GRANT USAGE, CREATE ON SCHEMA table_service_data TO {role}"
    ));
    let trust = ["--trust-owners", &role];
    let stranger = kept.database.session_as(&role, "stranger");
    stranger.run("SET search_path = table_service_data, table_service; SELECT create_table('Strange')");
    insert(&stranger, "Strange", "1");
    kept.archive(&trust);
    let mut states = Vec::new();
    let mut note = |expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|&table| table.to_owned()).collect();
        insert(&kept.session, "Orders", &(states.len() + 1).to_string());
        kept.archive(&trust);
        states.push((moment(&kept.session), expected));
    };
    stranger.run("CREATE TABLE a_b OF table_service.entity; ALTER TABLE \"Strange\" RENAME TO \"Orders_old\"");
    note(&["Orders: 1"]);
    stranger.run("ALTER TABLE \"Orders_old\" RENAME TO \"Strange\"; DROP TABLE a_b");
    insert(&stranger, "Strange", "2");
    note(&["Orders: 1 2", "Strange: 1 2"]);
    stranger.run("ALTER TABLE \"Strange\" RENAME TO \"Orders_old\"; ALTER TABLE \"Orders_old\" RENAME TO \"Strange\"");
    note(&["Orders: 1 2 3", "Strange: 1 2"]);
    kept.archive(&trust);
    for (moment, expected) in &states {
        assert_eq!(restored(&kept.path(), moment), (Some(0), expected.clone()), "{moment}");
    }
}

/// A restore of all tables does not keep silent about a table that the archive did not select then.
#[test]
fn tables_that_were_not_selected_are_named() {
    let kept = Kept::new(&["Orders", "Others"]);
    let select = |tables: &str, row: &str| {
        kept.archive(&["--table", tables]);
        let moment = insert(&kept.session, "Orders", row);
        kept.archive(&[]);
        moment
    };
    let moments = [("Orders", "1"), ("*", "2"), ("Orders", "3"), ("*", "4")].map(|(tables, row)| select(tables, row));
    let said = |at: &str| {
        let path = kept.path();
        let said = output(&["restore", "--from", text(&path), "--at", at, "--to", "-"]);
        String::from_utf8(said.stderr).unwrap()
    };
    let is = |at: &str, status, tables: &[&str]| {
        assert_eq!(
            restored(&kept.path(), at),
            (Some(status), tables.iter().map(|&table| table.to_owned()).collect())
        );
    };
    is(&moments[0], 0, &["Orders: 1"]);
    assert!(said(&moments[0]).contains("the table Others is in the archive from "));
    is(&moments[1], 0, &["Orders: 1 2", "Others: "]);
    is(&moments[2], 1, &["Orders: 1 2 3"]);
    assert!(said(&moments[2]).contains("Others: left out: ") && said(&moments[2]).contains("was not selected from"));
    is(&moments[3], 0, &["Orders: 1 2 3 4", "Others: "]);
    assert!(!said(&moments[1]).contains("Others is in"));
}

/// Of more than a thousand names only the last ones are kept, and earlier moments of this table are unknown.
#[test]
fn a_table_that_is_renamed_for_ever_stops_nothing() {
    let kept = Kept::new(&["Orders", "Name0"]);
    kept.archive(&[]);
    insert(&kept.session, "Name0", "1");
    let before = insert(&kept.session, "Orders", "1");
    kept.session.run(
        "DO $$BEGIN FOR n IN 1..1005 LOOP
        EXECUTE format('ALTER TABLE table_service_data.%I RENAME TO %I', 'Name' || (n - 1), 'Name' || n); COMMIT; END LOOP; END$$",
    );
    kept.archive(&[]);
    let tables = ["Name1005: 1".to_owned(), "Orders: 1".to_owned()];
    assert_eq!(restored(&kept.path(), "latest"), (Some(0), tables.to_vec()));
    assert_eq!(restored(&kept.path(), &before), (Some(1), tables[1..].to_vec()));
    let listed = succeeds(&["archive", "--list", text(&kept.path())]);
    assert!(listed.contains("it was renamed so often"), "{listed}");
}

/// Bases are made, and files that no moment needs go, whatever becomes of one table.
#[test]
fn making_of_bases_goes_on() {
    let kept = Kept::new(&["Orders", "Other"]);
    kept.session.run("SELECT insert_entity('Other', 'p', '1', json_build_object('L', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 500) AS n)))");
    let (from, path) = (database_url(&kept.database), kept.path());
    let mut following = start(&[
        "archive",
        "--from",
        &from,
        "--to",
        text(&path),
        "--follow",
        "0.05",
        "--keep",
        "4s",
    ]);
    let first = || -> String {
        let listed = output(&["archive", "--list", text(&path), "--json"]).stdout;
        let listed = serde_json::from_slice::<serde_json::Value>(&listed).unwrap_or_default();
        listed["first"].as_str().unwrap_or_default().to_owned()
    };
    wait_until("it is there", || !first().is_empty());
    insert(&kept.session, "Orders", "1");
    // Its last change is under another name, and its properties stay as they were.
    kept.session.run("ALTER TABLE table_service_data.\"Other\" RENAME TO \"Another\"; UPDATE table_service_data.\"Another\" SET \"timestamp\" = \"timestamp\" + '1 s'");
    // A table that is made after the last change.
    kept.session.run("SELECT create_table('Late')");
    let mut row = 1;
    let begin = moment(&kept.session);
    wait_until("moments go", || {
        row += 1;
        insert(&kept.session, "Orders", &row.to_string());
        std::thread::sleep(Duration::from_millis(300));
        first() > begin
    });
    assert!(following.try_wait().unwrap().is_none());
    following.kill().unwrap();
    following.wait().unwrap();
    kept.archive(&[]);
    assert_eq!(kept.at("latest", "Orders"), kept.now("Orders"));
    assert_eq!(kept.at("latest", "Another"), kept.now("Another"));
    succeeds(&["archive", "--verify", text(&path)]);
}

/// All files may go but the bases, also the segment that is written to.
#[test]
fn changes_behind_a_deletion_of_files_are_kept() {
    let kept = Kept::new(&["Gone"]);
    let (from, path) = (database_url(&kept.database), kept.path());
    let once = ["archive", "--from", &from, "--to", text(&path)];
    succeeds(&once);
    let mut following = start(&[&once[..], &["--follow", "0.05", "--keep", "1s"]].concat());
    let segments = || {
        let names = std::fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().contains("-segment-"))
            .count()
    };
    insert(&kept.session, "Gone", "1");
    wait_until("it has the change", || segments() == 1);
    kept.session
        .run("SELECT delete_table('Gone'); SELECT create_table('Orders')");
    wait_until("the segment goes", || segments() == 0);
    let after = insert(&kept.session, "Orders", "1");
    wait_until("it has the next change", || {
        let listed = output(&["archive", "--list", text(&path), "--json"]).stdout;
        serde_json::from_slice::<serde_json::Value>(&listed).unwrap()["last"].as_str() > Some(after.as_str())
    });
    assert_eq!(restored(&path, "latest"), (Some(0), vec!["Orders: 1".to_owned()]));
    following.kill().unwrap();
    following.wait().unwrap();
    succeeds(&["archive", "--verify", text(&path)]);
}

#[test]
fn a_damaged_base_is_read_again_from_the_database() {
    let kept = Kept::new(&["Orders", "Others"]);
    kept.archive(&["--keep", "2s"]);
    insert(&kept.session, "Orders", "1");
    insert(&kept.session, "Others", "2");
    kept.archive(&[]);
    let base = file_of(&kept.path(), "-base-");
    std::fs::write(&base, "x").unwrap();
    std::thread::sleep(Duration::from_millis(600));
    insert(&kept.session, "Orders", "3");
    let (_, said) = run(&kept, &["--keep", "2s"]);
    assert!(said.contains("The table is read again"), "{said}");
    kept.archive(&["--keep", "2s"]);
    assert_eq!(kept.at("latest", "Orders"), kept.now("Orders"));
    assert_eq!(kept.at("latest", "Others"), kept.now("Others"));
}

#[test]
fn files_are_looked_at_beside_a_run() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    let (from, path) = (database_url(&kept.database), kept.path());
    let mut following = start(&[
        "archive",
        "--from",
        &from,
        "--to",
        text(&path),
        "--follow",
        "0.01",
        "--keep",
        "1s",
    ]);
    for number in 0..120 {
        kept.session.run(&format!(
            "SELECT insert_or_replace_entity('Orders', 'p', '{}', '{{\"N\": {number}}}')",
            number % 7
        ));
        let looked = output(&["archive", "--verify", text(&path)]);
        let said = String::from_utf8_lossy(&looked.stdout).into_owned();
        assert_eq!(looked.status.code(), Some(0), "{number}: {said}");
    }
    assert!(following.try_wait().unwrap().is_none());
    following.kill().unwrap();
    following.wait().unwrap();
}

/// An archive of some kilobytes that says very much.
#[test]
fn a_small_archive_takes_little_memory() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    let file = kept.path().join("v1-manifest.jsonl.zst");
    std::fs::remove_file(kept.path().join("v1-manifest-before.jsonl.zst")).unwrap();
    let whole = String::from_utf8(zstd::decode_all(std::fs::File::open(&file).unwrap()).unwrap()).unwrap();
    let selected = format!("\"selected\":[{}\"a\"]", "\"a\",".repeat(60_000_000));
    let lines = whole.replacen("\"selected\":[]", &selected, 1);
    let gap = r#"{"from":{"epoch":1,"position":"0/1","moment":"2026-01-01T00:00:00Z"},"reason":"x"},"#;
    let table = r#"{"kind":"table","id":7,"oid":1,"names":[],"since":{"epoch":1,"position":"0/1","moment":"2026-01-01T00:00:00Z"},"gaps":["#;
    let tables = format!(
        "{}\n",
        format!("{table}{}", gap.repeat(20_000))
            .trim_end_matches(',')
            .to_owned()
            + "]}"
    );
    let (head, rest) = whole.split_once('\n').unwrap();
    for text_of in [lines, format!("{head}\n{}{rest}", tables.repeat(120))] {
        std::fs::write(&file, zstd::encode_all(text_of.as_bytes(), 3).unwrap()).unwrap();
        assert!(std::fs::metadata(&file).unwrap().len() < 200_000);
        let path = kept.path();
        let mut listing = command(&["archive", "--list", text(&path)]).spawn().unwrap();
        let mut most = 0;
        while listing.try_wait().unwrap().is_none() {
            most = most.max(most_of(listing.id()));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(listing.wait().unwrap().code(), Some(4));
        assert!(most < 256 << 20, "{most}");
    }
}

#[test]
fn an_archive_is_asked_of_a_new_database_too() {
    // Nothing that an archive has keeps a database without tables from being archived.
    let database = Database::new();
    let directory = tempfile::tempdir().unwrap();
    let (from, path) = (database_url(&database), directory.path().join("archive"));
    let once = ["archive", "--from", &from, "--to", text(&path)];
    succeeds(&once);
    let session = database.session("writer");
    session.run("SET search_path = public, table_service; SELECT create_table('Orders')");
    insert(&session, "Orders", "1");
    succeeds(&once);
    assert_eq!(restored(&path, "latest"), (Some(0), vec!["Orders: 1".to_owned()]));
    assert_eq!(entities(&session, "Orders").len(), 1);
    session.run("SELECT drop_change_feed(feed_name) FROM query_change_feeds()");
}

/// PostgreSQL makes no slot while somebody has a transaction open that has written.
#[test]
fn a_new_archive_does_not_wait_for_ever() {
    let cluster = Cluster::start(&["wal_level=logical"]);
    let stranger = session(&cluster);
    stranger.run("CREATE EXTENSION table_service; SELECT create_table('Strange'); SELECT create_table('Orders')");
    stranger.run("BEGIN; SELECT insert_entity('Strange', 'p', '1', '{}')");
    let directory = tempfile::tempdir().unwrap();
    let (from, path) = (url(&cluster, "postgres", "postgres"), directory.path().join("archive"));
    let once = ["archive", "--from", &from, "--to", text(&path)];
    let said = ends_with(1, &once);
    assert!(said.contains("pg_stat_activity"), "{said}");
    stranger.run("COMMIT");
    succeeds(&once);
    assert_eq!(stranger.text("SELECT count(*)::text FROM pg_replication_slots"), "1");
    assert_eq!(
        restored(&path, "latest"),
        (Some(0), vec!["Orders: ".to_owned(), "Strange: 1".to_owned()])
    );
}
