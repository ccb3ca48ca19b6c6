//! Change feeds of a primary and its standbys: the answers of a standby, and its feeds when it takes over.

use system_tests::{Cluster, Session, Standby, wait_until};

use super::change_feeds::{State, apply, changes, confirm, failure, state};

/// A server with the feed `f` of the table Orders.
fn primary() -> Cluster {
    let primary = Cluster::start(&["wal_level=logical"]);
    primary
        .session()
        .run("CREATE EXTENSION table_service; ALTER DATABASE postgres SET search_path = public, table_service");
    let session = primary.session();
    session.run("SELECT create_table('Orders')");
    session.run("SELECT create_change_feed('f')");
    primary
}

fn major(session: &Session) -> i32 {
    session.value("SELECT current_setting('server_version_num')::int / 10000", &[])
}

#[test]
fn a_standby_says_where_the_feed_is_and_a_new_primary_that_it_is_gone() {
    let primary = primary();
    let session = primary.session();
    let standby = Standby::of(&primary, &[]);
    session.run("SELECT insert_entity('Orders', 'p', '1', '{}')");
    let replica = standby.session();
    standby.catches_up(&session);
    for read in ["query_changes", "query_feed"] {
        let of_standby = failure(&replica, &format!("SELECT * FROM {read}('f')"));
        assert_eq!(of_standby.sqlstate, "42704", "{of_standby:?}");
        assert!(of_standby.hint.contains("on the primary"), "{of_standby:?}");
    }
    for write in [
        "create_change_feed('g')",
        "mark_change_feed('f', 'm')",
        "confirm_changes('f', '0/1')",
        "drop_change_feed('f')",
    ] {
        assert_eq!(
            failure(&replica, &format!("SELECT {write}")).sqlstate,
            "25006",
            "{write}"
        );
    }
    let listed = "SELECT feed_name, table_names, wal_status IS NULL FROM query_change_feeds()";
    let expected = ["f", "{Orders}", "t"].map(|text| Some(text.to_owned()));
    assert_eq!(replica.run(listed), std::slice::from_ref(&expected));

    primary.kill();
    standby.promote();
    assert_eq!(replica.run(listed), [expected]);
    for call in [
        "query_changes('f')",
        "query_feed('f')",
        "mark_change_feed('f', 'm')",
        "confirm_changes('f', '0/1')",
    ] {
        let gone = failure(&replica, &format!("SELECT * FROM {call}"));
        assert_eq!(gone.sqlstate, "42704", "{gone:?}");
        assert!(gone.hint.contains("copy the tables again"), "{gone:?}");
    }
    replica.run("SELECT create_change_feed('f', if_not_exists => true)");
    replica.run("SELECT insert_entity('Orders', 'p', '2', '{}')");
    assert_eq!(changes(&replica, "f"), ["insert Orders p 2 {}"]);
    replica.run("ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Bills\"");
    assert_eq!(
        replica.text("SELECT properties FROM query_feed('f') WHERE kind = 'rename'"),
        "{\"Before\":\"Orders\"}"
    );
}

#[test]
fn a_failover_slot_goes_on_after_a_promotion_without_loss() {
    let primary = primary();
    let session = primary.session();
    if major(&session) < 17 {
        return;
    }
    session.run("SELECT pg_create_physical_replication_slot('standby')");
    // With this, a reader sees nothing that the standby does not have.
    session.run("ALTER SYSTEM SET synchronized_standby_slots = 'standby'");
    session.run("SELECT pg_reload_conf()");
    let connection = format!(
        "primary_conninfo = 'host={} port={} user=postgres dbname=postgres'",
        primary.host(),
        primary.port()
    );
    let standby = Standby::of(
        &primary,
        &[
            &connection,
            "primary_slot_name = 'standby'",
            "hot_standby_feedback = on",
            "sync_replication_slots = on",
        ],
    );
    let replica = standby.session();
    let mut copy = State::new();
    let write = |n: u32| {
        session.run(&format!(
            "SELECT insert_or_replace_entity('Orders', 'p', '{}', '{{\"N\": {n}}}')",
            n % 40
        ));
        if n.is_multiple_of(7) {
            session.run(&format!(
                "SELECT delete_entity('Orders', 'p', '{}', if_exists => true)",
                n % 11
            ));
        }
    };
    // The reader goes on while the slot comes to the standby.
    let mut count = 0;
    wait_until("the standby has the slot", || {
        count += 1;
        write(count);
        if let Some(position) = apply(&session, "f", 1, &mut copy) {
            session.run(&format!("SELECT confirm_changes('f', '{position}')"));
        }
        session.run("SELECT pg_log_standby_snapshot()");
        replica.text("SELECT count(*) FROM pg_replication_slots WHERE synced AND NOT temporary") == "1"
    });
    let mut of_standby = failure(&replica, "SELECT * FROM query_changes('f')");
    wait_until("the worker that synchronizes slots has left this one", || {
        of_standby = failure(&replica, "SELECT * FROM query_changes('f')");
        of_standby.sqlstate != "55006"
    });
    assert_eq!(of_standby.sqlstate, "55000", "{of_standby:?}");
    assert!(of_standby.hint.contains("on the primary"), "{of_standby:?}");

    // Some changes are confirmed, some are read only, and some are not read. Then come a name and a mark.
    (0..100).for_each(|n| write(count + n));
    for _ in 0..20 {
        let position = apply(&session, "f", 2, &mut copy).unwrap();
        session.run(&format!("SELECT confirm_changes('f', '{position}')"));
    }
    apply(&session, "f", 5, &mut copy);
    session.run("ALTER TABLE table_service_data.\"Orders\" RENAME TO \"orders\"");
    session.run("ALTER TABLE table_service_data.\"orders\" RENAME TO \"Orders\"");
    session.run("SELECT mark_change_feed('f', 'of the old primary')");
    standby.catches_up(&session);
    let written = state(&session, &["Orders"]);
    primary.kill();
    standby.promote();
    assert_eq!(state(&replica, &["Orders"]), written);
    // It came with the copy of the primary's directory, and would make readers wait for a slot that is not here.
    replica.run("ALTER SYSTEM RESET synchronized_standby_slots");
    replica.run("SELECT pg_reload_conf()");
    // The new primary has the secret of the old one.
    let notes = "SELECT string_agg(kind, ' ') FROM query_feed('f', 1000000) WHERE kind IN ('rename', 'mark')";
    assert_eq!(replica.text(notes), "rename rename mark");
    assert!(apply(&replica, "f", 1_000_000, &mut copy).is_some());
    assert_eq!(copy, written);
    confirm(&replica, "f");
    replica.run("SELECT insert_entity('Orders', 'p', 'new', '{}')");
    assert_eq!(changes(&replica, "f"), ["insert Orders p new {}"]);
}
