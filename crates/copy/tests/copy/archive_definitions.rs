//! The definition of a table is in the archive, and a restore that makes the table gives it back or says which part is missing.

use system_tests::gateway::url;
use system_tests::{Cluster, Database, Session, wait_until};

use crate::archive::{Kept, moment};
use crate::program::{End, database_url, ends_with, start, text};

const DEFINE: &str = "SELECT set_access_policies('Orders', '[{\"Id\": \"readers\", \"Permission\": \"r\"}]'); \
                      SELECT create_property_index('Orders', 'Total'); SELECT create_property_index('Orders', 'Größe'); \
                      SELECT set_expiry('Orders', 'E', '30 days')";

/// The policies, property indexes and expiries of a table.
fn definition(session: &Session, table: &str) -> String {
    session.text(&format!(
        "SELECT concat_ws(' ', get_access_policies('{table}'), \
         (SELECT string_agg(property, ',' ORDER BY property) FROM query_property_indexes('{table}')), \
         (SELECT string_agg(concat(property, time_to_live), ',') FROM query_expiry('{table}')))"
    ))
}

fn restored(kept: &Kept, status: i32, at: &str, to: &str, more: &[&str]) -> String {
    let path = kept.path();
    let restore = ["restore", "--quiet", "--from", text(&path), "--at", at, "--to", to];
    ends_with(status, &[&restore[..], more].concat())
}

fn session(database: &Database) -> Session {
    let session = database.session("reader");
    session.run("SET search_path = public, table_service");
    session
}

#[test]
fn a_table_that_is_made_again_has_its_policies_indexes_and_expiry() {
    let kept = Kept::new(&["Orders", "Plain"]);
    kept.session.run(DEFINE);
    kept.session
        .run("SELECT insert_entity('Orders', 'p', '1', '{\"Total\": 1}')");
    kept.archive(&[]);
    let first = kept.then("SELECT merge_entity('Orders', 'p', '1', '{\"Total\": 2}', '*')");
    let before = definition(&kept.session, "Orders");
    assert!(
        before.contains("readers") && before.contains("Total") && before.contains("E30 days"),
        "{before}"
    );
    kept.archive(&[]);
    kept.session.run("SELECT set_access_policies('Orders', '[]'); SELECT drop_property_index('Orders', 'Total'); SELECT drop_expiry('Orders')");
    kept.archive(&[]);
    let second = kept.then("SELECT merge_entity('Orders', 'p', '1', '{\"Total\": 3}', '*')");
    kept.archive(&[]);
    let after = definition(&kept.session, "Orders");
    kept.then("SELECT delete_table('Orders')");
    kept.archive(&[]);

    let other = Database::new();
    let (there, to) = (session(&other), database_url(&other));
    let said = restored(&kept, 0, &first, &to, &[]);
    assert!(!said.contains("lacks"), "{said}");
    assert_eq!(definition(&there, "Orders"), before);
    assert_eq!(definition(&there, "Plain"), definition(&kept.session, "Plain"));
    restored(&kept, 0, &second, &to, &["--table", "Orders", "--as", "Second"]);
    assert_eq!(definition(&there, "Second"), after);
    // Into the database itself, under its name, and as it was.
    restored(
        &kept,
        0,
        &first,
        &database_url(&kept.database),
        &["--table", "Orders", "--as-it-was"],
    );
    assert_eq!(definition(&kept.session, "Orders"), before);
    // A table that is there keeps its definition.
    restored(
        &kept,
        0,
        &second,
        &to,
        &["--table", "Orders", "--on-conflict", "replace"],
    );
    assert_eq!(definition(&there, "Orders"), before);
}

/// Nobody can give the name of a new table to another one before the new one has its definition.
#[test]
fn a_table_that_is_made_again_is_seen_when_it_has_all_of_it() {
    let kept = Kept::new(&["Orders"]);
    kept.session.run(DEFINE);
    kept.archive(&[]);
    let other = Database::new();
    let [there, locking] = [(); 2].map(|()| session(&other));
    // The table is there, and its first index is being made.
    there.run("CREATE FUNCTION waits() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); END'");
    there.run("CREATE EVENT TRIGGER waits ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION waits()");
    locking.run("SELECT pg_advisory_lock(1)");
    let (path, to) = (kept.path(), database_url(&other));
    let restore = [
        "restore",
        "--quiet",
        "--from",
        text(&path),
        "--at",
        "latest",
        "--to",
        &to,
    ];
    let mut restoring = start(&restore);
    wait_until("the restore waits", || {
        there.text(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
        ) == "1"
    });
    assert_eq!(there.text("SELECT count(*) FROM query_tables()"), "0");
    locking.run("SELECT pg_advisory_unlock(1)");
    assert_eq!(restoring.wait().unwrap().code(), Some(0));
    assert_eq!(definition(&there, "Orders"), definition(&kept.session, "Orders"));
}

#[test]
fn what_a_target_cannot_have_is_named() {
    let kept = Kept::new(&["Orders"]);
    kept.session.run(DEFINE);
    // Another expiry, which only CREATE INDEX makes.
    kept.session.run("SELECT create_table('Other')");
    let other = kept
        .session
        .text("SELECT replace(replace(expiry_sql('Other', 'F'), 'Other', 'Orders'), '\"Orders_expiry\"', '')");
    let other = other.replace("CONCURRENTLY", "");
    kept.session.run("SELECT delete_table('Other')");
    kept.archive(&[]);
    let moment = moment(&kept.session);
    kept.archive(&[]);
    let end = End::of("rest");
    let said = restored(&kept, 3, &moment, &end.argument(), &[]);
    assert!(
        said.contains("Orders lacks the property index on \"Total\"") && said.contains("Orders lacks its expiry"),
        "{said}"
    );
    let End::Gateway(service) = &end else { panic!() };
    assert!(definition(&session(&service.database), "Orders").starts_with("[{\"Id\":\"readers\""));
    // The table is there now.
    restored(&kept, 0, &moment, &end.argument(), &["--on-conflict", "replace"]);

    let files = End::of("jsonl");
    let said = restored(&kept, 0, &moment, &files.argument(), &[]);
    assert!(said.contains("only a database has"), "{said}");
    let End::Directory(directory, _) = &files else { panic!() };
    let mut names = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let policies = names.find(|path| text(path).contains("policies")).unwrap();
    assert!(std::fs::read_to_string(policies).unwrap().contains("readers"));
    restored(&kept, 0, &moment, "-", &[]);

    kept.session.run(&other);
    kept.archive(&[]);
    let said = restored(&kept, 3, "latest", &database_url(&Database::new()), &[]);
    assert!(
        said.contains("Orders lacks the expiry") && said.contains("ResourceAlreadyExists"),
        "{said}"
    );
}

/// A lock that somebody keeps on one table hides no other table's definition.
#[test]
fn a_locked_table_hides_no_others() {
    // Where somebody has written and stays, nobody makes a feed.
    let cluster = Cluster::start(&["wal_level=logical"]);
    let [keeper, other] = [(); 2].map(|()| cluster.session());
    keeper.run("CREATE EXTENSION table_service");
    for session in [&keeper, &other] {
        session.run("SET search_path = public, table_service");
    }
    keeper.run("SELECT create_table('Orders'); SELECT create_table('Others')");
    let directory = tempfile::tempdir().unwrap();
    let (from, path) = (url(&cluster, "postgres", "postgres"), directory.path().join("archive"));
    let archive = ["archive", "--from", &from, "--to", text(&path)];
    ends_with(0, &archive);
    other.run("BEGIN; SELECT create_property_index('Others', 'A'); REINDEX TABLE table_service_data.\"Others\"");
    keeper.run(DEFINE);
    ends_with(0, &archive);
    other.run("ROLLBACK");
    let to = Database::new();
    ends_with(
        0,
        &[
            "restore",
            "--from",
            text(&path),
            "--at",
            "latest",
            "--to",
            &database_url(&to),
        ],
    );
    assert_eq!(definition(&session(&to), "Orders"), definition(&keeper, "Orders"));
}
