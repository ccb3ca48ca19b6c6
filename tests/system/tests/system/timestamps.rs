//! Timestamps and ETags over real connections.

use system_tests::{Database, Expect, Session};

fn tag(session: &Session) -> String {
    session.text("SELECT table_service.etag(e) FROM table_service.get_entity('Clock', 'p', 'r') AS e")
}

fn timestamp(session: &Session) -> i64 {
    session.value(
        "SELECT (extract(epoch FROM \"timestamp\") * 1000000)::bigint FROM table_service.get_entity('Clock', 'p', 'r')",
        &[],
    )
}

#[test]
fn every_write_of_an_entity_raises_its_timestamp() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Clock')");
    session.run("SELECT table_service.insert_entity('Clock', 'p', 'r', '{}')");
    let mut last = timestamp(&session);
    for _ in 0..40 {
        for write in [
            "SELECT table_service.replace_entity('Clock', 'p', 'r', '{}', '*')",
            "SELECT table_service.merge_entity('Clock', 'p', 'r', '{}', '*')",
            "SELECT table_service.insert_or_replace_entity('Clock', 'p', 'r', '{}')",
            "SELECT table_service.insert_or_merge_entity('Clock', 'p', 'r', '{}')",
        ] {
            // The tag that a write returns is the one that a read shows.
            assert_eq!(session.text(write), tag(&session));
            let next = timestamp(&session);
            assert!(next > last, "{write}: {last}, then {next}");
            last = next;
        }
    }
}

#[test]
fn all_writes_of_one_transaction_have_different_etags() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Clock')");
    session.run("SELECT table_service.insert_entity('Clock', 'p', 'r', '{}')");
    assert_eq!(
        session.text(
            "SELECT count(DISTINCT tag) FROM (
                SELECT table_service.merge_entity('Clock', 'p', 'r', '{}', '*') AS tag
                FROM generate_series(1, 3000)) AS writes"
        ),
        "3000"
    );
}

#[test]
fn timestamps_rise_when_the_clock_stands_still_or_goes_back() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Clock')");
    // After a clock was set back, an entity has a Timestamp in the future.
    session.run("INSERT INTO table_service_data.\"Clock\" VALUES ('p', 'r', '2999-12-31 23:59:59.999998Z', '{}')");
    let writes = [
        "SELECT table_service.merge_entity('Clock', 'p', 'r', '{\"A\": 1}', '*')",
        "SELECT table_service.replace_entity('Clock', 'p', 'r', '{}', '*')",
        "SELECT table_service.insert_or_replace_entity('Clock', 'p', 'r', '{}')",
        "SELECT table_service.insert_or_merge_entity('Clock', 'p', 'r', '{}')",
        "UPDATE table_service_data.\"Clock\" SET properties = '{\"B\": 2}'",
        "UPDATE table_service_data.\"Clock\" SET \"timestamp\" = now()",
    ];
    for (before, write) in (timestamp(&session)..).zip(writes) {
        session.run(write);
        assert_eq!(timestamp(&session), before + 1, "{write}");
    }
    assert_eq!(tag(&session), "W/\"datetime'3000-01-01T00%3A00%3A00.000004Z'\"");
    // Conditions work there as well.
    let current = tag(&session);
    let next: String = session.value(
        "SELECT table_service.merge_entity('Clock', 'p', 'r', '{}', $1)",
        &[&current],
    );
    session
        .query(
            "SELECT table_service.merge_entity('Clock', 'p', 'r', '{}', $1)",
            &[&current],
        )
        .fails_with("40002", "UpdateConditionNotSatisfied");
    assert_eq!(next, tag(&session));
}

#[test]
fn the_last_timestamp_has_no_successor() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Clock')");
    session.run("INSERT INTO table_service_data.\"Clock\" VALUES ('p', 'r', '9998-12-31 23:59:59.999999Z', '{}')");
    for write in [
        "SELECT table_service.merge_entity('Clock', 'p', 'r', '{\"A\": 1}', '*')",
        "UPDATE table_service_data.\"Clock\" SET properties = '{\"B\": 2}'",
    ] {
        session.sql(write).fails_with("22003", "OutOfRangeInput");
    }
    session.run("SELECT table_service.delete_entity('Clock', 'p', 'r')");
}

#[test]
fn etags_are_the_same_in_every_session() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Clock')");
    let written = session.text("SELECT table_service.insert_entity('Clock', 'p', 'r', '{}')");
    for settings in [
        "SET timezone = 'Asia/Kathmandu'; SET datestyle = 'German, DMY'; SET extra_float_digits = -15",
        "SET timezone = 'America/New_York'; SET datestyle = 'SQL, MDY'; SET bytea_output = 'escape'",
        "SET intervalstyle = 'sql_standard'; SET lc_messages = 'C'; SET search_path = ''",
    ] {
        let other = db.session("other");
        other.run(settings);
        assert_eq!(tag(&other), written);
        let next: String = other.value(
            "SELECT table_service.merge_entity('Clock', 'p', 'r', '{}', $1)",
            &[&written],
        );
        let same: String = session.value(
            "SELECT table_service.replace_entity('Clock', 'p', 'r', '{}', $1)",
            &[&next],
        );
        session.run("SELECT table_service.delete_entity('Clock', 'p', 'r')");
        assert_eq!(tag_of_copy(&session, &written), written);
        assert_ne!(same, written);
    }
}

/// The ETag of an entity that is written with the Timestamp in a tag, as a restore does.
fn tag_of_copy(session: &Session, tag: &str) -> String {
    let time = tag.replace("%3A", ":");
    let time = time
        .trim_start_matches("W/\"datetime'")
        .trim_end_matches("'\"")
        .to_owned();
    session
        .query(
            "INSERT INTO table_service_data.\"Clock\" VALUES ('p', 'r', $1::text::timestamptz, '{}')",
            &[&time],
        )
        .unwrap();
    self::tag(session)
}
