//! Work on all tables: the trouble of one table is reported, and does not stop the others.

use std::process::Stdio;

use system_tests::gateway::url;
use system_tests::{Cluster, Database, Session, wait_until};

use crate::program::{command, database_url, ends_with, file, output, quietly, succeeds, text, verifying};

/// A database with the entity r in each of the partitions a and b of two tables.
fn prepared(database: &Database) -> Session {
    filled(database.session("writer"))
}

fn filled(session: Session) -> Session {
    session.run(
        "SET search_path = public, table_service;
        SELECT create_table('Free'), create_table('Held');
        SELECT insert_entity(t, p, 'r', '{}') FROM unnest('{Free,Held}'::text[]) AS t, unnest('{a,b}'::text[]) AS p",
    );
    session
}

#[test]
fn a_locked_table_is_named_and_the_others_are_served() {
    // While somebody holds such a lock, nobody else makes a feed on a server.
    let (source, target) = (Cluster::start(&[]), Database::new());
    source.session().run("CREATE EXTENSION table_service");
    let session = filled(source.session());
    let (from, to) = (&url(&source, "postgres", "postgres"), &database_url(&target));
    succeeds(&quietly(from, to, &[]));
    let directory = tempfile::tempdir().unwrap();
    let (copied, resume) = (directory.path().join("copied"), directory.path().join("resume"));
    let resumed = ["--resume", text(&resume)];
    session.run("BEGIN; LOCK TABLE table_service_data.\"Held\"");
    // Each waits for the lock.
    std::thread::scope(|scope| {
        for (arguments, served) in [
            (quietly(from, text(&copied), &resumed), "Free: 2 read, 2 written"),
            (quietly(from, text(&copied), &["--dry-run"]), "Free: about"),
            (verifying(from, to, &[]), "Free: equal, 2 entities"),
            (verifying(to, from, &[]), "Free: equal, 2 entities"),
            (vec!["count", "--quiet", "--from", from], "Free: 2 entities"),
        ] {
            scope.spawn(move || {
                let done = output(&arguments);
                let said = [done.stdout, done.stderr].concat();
                let said = String::from_utf8_lossy(&said);
                assert_eq!(done.status.code(), Some(1), "{said}");
                assert!(said.contains(served), "{said}");
                assert!(
                    said.contains("Held: left out: ") && said.contains("has locked table_service_data.\"Held\""),
                    "{said}"
                );
            });
        }
    });
    session.run("COMMIT");
    let said = succeeds(&quietly(from, text(&copied), &resumed));
    assert!(
        said.contains("Held: 2 read, 2 written") && !said.contains("Free:"),
        "{said}"
    );
}

#[test]
fn a_table_that_goes_away_meanwhile_is_named_and_the_others_are_served() {
    let rename = "ALTER TABLE table_service_data.\"Held\" RENAME TO \"Other\"";
    for goes in ["DROP TABLE table_service_data.\"Held\"", rename] {
        // Before the first table is looked at, and while it is written.
        for is_looked_at in [false, true] {
            let (source, target) = (Database::new(), Database::new());
            let session = prepared(&source);
            let (from, to) = (&database_url(&source), &database_url(&target));
            let locked = match is_looked_at {
                true => &target,
                false => &source,
            };
            let holder = locked.session("holder");
            holder.run("SELECT table_service.create_table('Free', if_not_exists => true); BEGIN; LOCK TABLE table_service_data.\"Free\"");
            let said = std::thread::scope(|scope| {
                let copying = scope.spawn(|| ends_with(1, &quietly(from, to, &[])));
                wait_until("the copy waits for the first table", || {
                    let waiting = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND database = \
                        (SELECT oid FROM pg_database WHERE datname = current_database())";
                    holder.text(waiting) == "t"
                });
                session.run(goes);
                holder.run("COMMIT");
                copying.join().unwrap()
            });
            assert!(
                said.contains("Free: 2 read, 2 written") && said.contains("Held: left out: "),
                "{goes} {is_looked_at}: {said}"
            );
        }
    }
}

#[test]
fn tables_that_share_a_name_keep_nothing_from_the_others() {
    let (source, target) = (Database::new(), Database::new());
    let session = prepared(&source);
    // As an upgrade from 0.4.0 leaves them.
    session.run(
        "ALTER EVENT TRIGGER table_service_definitions DISABLE;
        CREATE TABLE table_service_data.held OF entity (PRIMARY KEY (partition_key, row_key));
        CREATE TABLE table_service_data.tables OF entity (PRIMARY KEY (partition_key, row_key));
        ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS",
    );
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("archive");
    let (from, to) = (&database_url(&source), &database_url(&target));
    for (arguments, served) in [
        (quietly(from, to, &[]), "Free: 2 read, 2 written"),
        (vec!["count", "--quiet", "--from", from], "Free: 2 entities"),
    ] {
        let said = ends_with(1, &arguments);
        let tables = "tables share its name: table_service_data.\"Held\", table_service_data.held";
        assert!(said.contains(served) && said.contains(tables), "{said}");
    }
    // An archive knows tables by their OIDs.
    let said = succeeds(&["archive", "--from", from, "--to", text(&archive)]);
    assert!(said.contains("4 new bases"), "{said}");
    let restored = directory.path().join("restored");
    let done = output(&[
        "restore",
        "--from",
        text(&archive),
        "--at",
        "latest",
        "--to",
        text(&restored),
    ]);
    assert!(
        restored.join("Free.jsonl").exists(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn nothing_is_read_in_part_because_of_a_policy_unless_the_user_asks_for_it() {
    let database = Database::new();
    let session = prepared(&database);
    let role = database.role("reader");
    session.run(&format!(
        "GRANT USAGE ON SCHEMA table_service_data TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA table_service_data TO {role};
        ALTER TABLE table_service_data.\"Held\" ENABLE ROW LEVEL SECURITY;
        CREATE POLICY p ON table_service_data.\"Held\" USING (partition_key = 'a')"
    ));
    let from = &database_url(&database).replace("postgres@", &format!("{role}@"));
    let directory = tempfile::tempdir().unwrap();
    let (whole, part) = (directory.path().join("whole"), directory.path().join("part"));
    for arguments in [
        quietly(from, text(&whole), &[]),
        vec!["count", "--quiet", "--from", from],
    ] {
        let said = ends_with(1, &arguments);
        assert!(
            said.contains("Held: left out: ") && said.contains("--row-security"),
            "{said}"
        );
    }
    assert!(whole.join("Free.jsonl").exists() && !whole.join("Held.jsonl").exists());
    succeeds(&quietly(from, text(&part), &["--row-security", "--with-policies"]));
    let held = std::fs::read_to_string(part.join("Held.jsonl")).unwrap();
    assert_eq!(held.lines().count(), 1, "{held}");
    assert!(ends_with(1, &verifying(from, text(&part), &[])).contains("--row-security"));
    assert!(succeeds(&verifying(from, text(&part), &["--row-security"])).contains("Held: equal, 1 entities"));
}

/// The policies of a table that was dropped behind its copy are those of no table, and another one may have its name.
#[test]
fn policies_are_of_the_table_that_was_copied() {
    let (source, target) = (Database::new(), Database::new());
    let (session, there) = (prepared(&source), prepared(&target));
    let policies = |table: &str, id: &str| format!("SELECT set_access_policies('{table}', '[{{\"Id\": \"{id}\"}}]')");
    session.run(&policies("Free", "free"));
    session.run(&policies("Held", "held"));
    there.run("SELECT clear_table('Free')");
    there.run("BEGIN; LOCK TABLE table_service_data.\"Held\"");
    let (from, to) = (&database_url(&source), &database_url(&target));
    let mut copy = command(&quietly(from, to, &["--on-conflict", "replace", "--with-policies"]));
    let copy = copy.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let reader = target.session("reader");
    wait_until("the first table is copied", || {
        reader.text("SELECT count(*) FROM table_service_data.\"Free\"") == "2"
    });
    session.run("SELECT delete_table('Free'); SELECT create_table('Free')");
    session.run(&policies("Free", "other"));
    there.run("COMMIT");
    let done = copy.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("Free: left out: its access policies: "), "{said}");
    assert!(
        said.contains("The access policies of 1 tables and the service"),
        "{said}"
    );
    let stored = |table: &str| there.text(&format!("SELECT get_access_policies('{table}')::text"));
    assert_eq!(stored("Free"), "[]");
    assert!(stored("Held").contains("held"));
}

#[test]
fn a_mapping_says_what_the_columns_become() {
    let directory = tempfile::tempdir().unwrap();
    let cities = file(
        &directory,
        "Cities.csv",
        "sep=;\r\nid;country;n;note;\r\n1;NO;1.10;x;\r\n2;SE;7;;\r\n;;;;\r\n",
    );
    let to = directory.path().join("to");
    let said = ends_with(1, &quietly(text(&cities), text(&to), &[]));
    assert!(
        said.contains("no column PartitionKey") && said.contains("--mapping"),
        "{said}"
    );
    let mapping = file(
        &directory,
        "mapping.json",
        r#"{"partitionKey": {"column": "country"}, "rowKey": {"column": "id"},
            "columns": [{"from": "n", "to": "Count", "type": "Edm.Double"}, {"from": "note", "to": null}]}"#,
    );
    let rejects = directory.path().join("rejects");
    let mapped = ["--mapping", text(&mapping), "--rejects", text(&rejects), "--verify"];
    let said = ends_with(4, &quietly(text(&cities), text(&to), &mapped));
    assert!(
        said.contains("Cities: 2 read, 2 written, 0 skipped, 1 rejected"),
        "{said}"
    );
    assert_eq!(
        std::fs::read_to_string(to.join("Cities.jsonl")).unwrap(),
        "{\"PartitionKey\":\"NO\",\"RowKey\":\"1\",\"Count\":1.1}\n{\"PartitionKey\":\"SE\",\"RowKey\":\"2\",\"Count\":7.0}\n"
    );
    assert!(std::fs::read_to_string(&rejects).unwrap().contains("delimiters only"));
    let wrong = file(&directory, "wrong.json", r#"{"rowKey": {"column": "id"}}"#);
    let said = ends_with(2, &quietly(text(&cities), text(&to), &["--mapping", text(&wrong)]));
    assert!(
        said.contains("it is no mapping: missing field `partitionKey`"),
        "{said}"
    );
}

#[test]
fn a_copy_that_is_run_again_names_the_option_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let orders = file(
        &directory,
        "Orders.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n",
    );
    let target = Database::new();
    let to = database_url(&target);
    let arguments = &quietly(text(&orders), &to, &[]);
    succeeds(arguments);
    let said = ends_with(1, arguments);
    assert!(
        said.contains("EntityAlreadyExists") && said.contains("--on-conflict"),
        "{said}"
    );
}
