//! Statements that are cancelled, run out of time or lose their client.

use system_tests::{Database, Expect, Session, wait_until};

const WRITES: [&str; 7] = [
    "SELECT table_service.insert_entity('Jobs', 'p', 'contended', '{\"B\": 2}')",
    "SELECT table_service.replace_entity('Jobs', 'p', 'r', '{\"B\": 2}', '*')",
    "SELECT table_service.merge_entity('Jobs', 'p', 'r', '{\"B\": 2}', '*')",
    "SELECT table_service.insert_or_replace_entity('Jobs', 'p', 'r', '{\"B\": 2}')",
    "SELECT table_service.insert_or_merge_entity('Jobs', 'p', 'r', '{\"B\": 2}')",
    "SELECT table_service.delete_entity('Jobs', 'p', 'r')",
    "SELECT table_service.delete_table('Jobs')",
];

fn entities(session: &Session) -> Vec<Vec<Option<String>>> {
    session.run("SELECT e, table_service.etag(e) FROM table_service_data.\"Jobs\" AS e ORDER BY row_key")
}

/// A table in which another session has locked an entity and the key of a new one.
fn contended(db: &Database) -> (Session, Vec<Vec<Option<String>>>) {
    let locker = db.session("locker");
    locker.run("SELECT table_service.create_table('Jobs')");
    locker.run("SELECT table_service.insert_entity('Jobs', 'p', 'r', '{\"A\": 1}')");
    let before = entities(&locker);
    locker.run(
        "BEGIN;
        SELECT table_service.merge_entity('Jobs', 'p', 'r', '{\"C\": 3}', '*');
        SELECT table_service.insert_entity('Jobs', 'p', 'contended', '{}')",
    );
    (locker, before)
}

#[test]
fn a_cancelled_write_has_changed_nothing() {
    let db = Database::new();
    let (locker, before) = contended(&db);
    let session = db.session("s");
    for write in WRITES {
        let pending = session.start(write).waits();
        session.cancel();
        pending.finish().fails_in_postgres("57014");
    }
    // A cancelled write aborts the transaction, or only the savepoint around it.
    session.run("BEGIN; SELECT table_service.insert_entity('Jobs', 'p', 'before', '{}'); SAVEPOINT s");
    let pending = session.start(WRITES[2]).waits();
    session.cancel();
    pending.finish().fails_in_postgres("57014");
    session.sql("SELECT 1").fails_in_postgres("25P02");
    session.run("ROLLBACK TO s; SELECT table_service.insert_entity('Jobs', 'p', 'after', '{}'); ROLLBACK");
    locker.run("ROLLBACK");
    assert_eq!(entities(&session), before);
    // The session goes on, with the plans that it kept.
    for write in WRITES {
        session.run(write);
    }
}

#[test]
fn a_write_that_timed_out_has_changed_nothing() {
    let db = Database::new();
    let (locker, before) = contended(&db);
    let session = db.session("s");
    // OperationTimedOut, and for lock_timeout ServerBusy, as the gateway will call them.
    for (setting, sqlstate) in [("statement_timeout", "57014"), ("lock_timeout", "55P03")] {
        for write in WRITES {
            // The failure takes the setting back.
            session
                .sql(&format!("SET {setting} = '20ms'; {write}"))
                .fails_in_postgres(sqlstate);
        }
    }
    locker.run("ROLLBACK");
    assert_eq!(entities(&session), before);
    session.run(WRITES[2]);
}

#[test]
fn creating_a_table_can_be_cancelled() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for name in ["Created", "CREATED"] {
        a.run("BEGIN; SELECT table_service.create_table('Created')");
        let pending = b.start(&format!("SELECT table_service.create_table('{name}')")).waits();
        b.cancel();
        pending.finish().fails_in_postgres("57014");
        a.run("ROLLBACK");
        b.run(&format!(
            "SELECT table_service.create_table('{name}'); SELECT table_service.delete_table('Created')"
        ));
    }
}

#[test]
fn a_long_statement_is_cancelled_in_the_middle() {
    let db = Database::new();
    let session = db.session("s");
    let watcher = db.session("watcher");
    session.run("SELECT table_service.create_table('Jobs')");
    session.run("SELECT table_service.insert_entity('Jobs', 'p', 'r', '{\"A\": 1}')");
    let before = entities(&session);
    let pending = session.start(
        "SELECT count(table_service.insert_or_merge_entity('Jobs', 'p', n::text, '{}'))
        FROM (SELECT generate_series(1, 1000000000) AS n) AS s",
    );
    // Some entities were written.
    wait_until("the statement writes", || {
        watcher.value("SELECT pg_relation_size('table_service_data.\"Jobs\"') > 100000", &[])
    });
    session.cancel();
    pending.finish().fails_in_postgres("57014");
    assert_eq!(entities(&session), before);
}

#[test]
fn a_lost_connection_leaves_nothing() {
    let db = Database::new();
    let watcher = db.session("watcher");
    watcher.run("SELECT table_service.create_table('Jobs')");
    watcher.run("SELECT table_service.insert_entity('Jobs', 'p', 'r', '{\"A\": 1}')");
    let before = entities(&watcher);
    let is_gone = |pid: i32| {
        wait_until("the server ends the session", || {
            watcher.value("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $1", &[&pid])
        });
    };

    // Between two statements of a transaction …
    let session = db.session("idle");
    session.run(
        "BEGIN;
        SELECT table_service.merge_entity('Jobs', 'p', 'r', '{\"B\": 2}', '*');
        SELECT table_service.insert_entity('Jobs', 'p', 'new', '{}');
        SELECT table_service.create_table('Another')",
    );
    let pid = session.pid();
    session.lose();
    is_gone(pid);
    assert_eq!(entities(&watcher), before);

    // … and while a statement of one waits for another session's lock.
    let locker = db.session("locker");
    locker.run("BEGIN; SELECT table_service.merge_entity('Jobs', 'p', 'r', '{\"C\": 3}', '*')");
    let session = db.session("waiting");
    session.run("BEGIN; SELECT table_service.insert_entity('Jobs', 'p', 'new', '{}')");
    let pid = session.pid();
    let pending = session
        .start("SELECT table_service.delete_entity('Jobs', 'p', 'r')")
        .waits();
    drop(pending);
    session.lose();
    locker.run("ROLLBACK");
    is_gone(pid);
    assert_eq!(entities(&watcher), before);

    // The same when the server itself ends the session.
    let session = db.session("terminated");
    session.run("BEGIN; SELECT table_service.delete_entity('Jobs', 'p', 'r')");
    watcher.value::<bool>("SELECT pg_terminate_backend($1)", &[&session.pid()]);
    let failure = session
        .sql("SELECT table_service.insert_entity('Jobs', 'p', 'new', '{}')")
        .unwrap_err();
    assert!(["57P01", "08006"].contains(&failure.sqlstate.as_str()), "{failure:?}");
    is_gone(session.pid());
    assert_eq!(entities(&watcher), before);
    watcher.run("SELECT table_service.create_table('Another')");
}
