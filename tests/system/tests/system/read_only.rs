//! Transactions and servers that only read.

use system_tests::{Cluster, Database, Expect, Session, Standby};

const READS: [&str; 12] = [
    "SELECT row_key, properties FROM table_service.query_entities('Reads', $$A ne 'x'$$)",
    "SELECT row_key, properties FROM table_service.query_page('reads', $$PartitionKey eq 'p'$$, top => 1)",
    "SELECT table_service.query_page_json('Reads', 'A ge 0', 'A')",
    "SELECT properties FROM table_service.get_entity('Reads', 'p', 'r')",
    "SELECT row_key, table_service.etag(e) FROM table_service.get_entities('READS', 'p', '{r,s}', 'A') AS e",
    "SELECT table_service.entity_to_json(e, 'full') FROM table_service_data.\"Reads\" AS e ORDER BY row_key",
    "SELECT * FROM table_service.query_tables()",
    "SELECT table_service.get_access_policies('reads')",
    "SELECT table_service.hold_table('reads')",
    "SELECT table_service.get_service_properties()",
    "SELECT e.properties OPERATOR(table_service.->>) 'A' FROM table_service.get_entity('reads', 'p', 's') AS e",
    "SELECT row_key, access FROM table_service.query_entities('reads', 'A eq 1'), table_service.explain_query('reads', 'A eq 1')",
];

const WRITES: [&str; 14] = [
    "SELECT table_service.execute_batch('Reads', 'p', table_service.batch_insert('new', '{}'))",
    "SELECT table_service.execute_batch_json('Reads', 'p', '[{\"delete\": {\"RowKey\": \"r\"}}]')",
    "SELECT table_service.insert_entity('Reads', 'p', 'new', '{}')",
    "SELECT table_service.replace_entity('Reads', 'p', 'r', '{}', '*')",
    "SELECT table_service.merge_entity('Reads', 'p', 'r', '{}', '*')",
    "SELECT table_service.insert_or_replace_entity('Reads', 'p', 'r', '{}')",
    "SELECT table_service.insert_or_merge_entity('Reads', 'p', 'r', '{}')",
    "SELECT table_service.delete_entity('Reads', 'p', 'r')",
    "SELECT table_service.create_table('Another')",
    "SELECT table_service.delete_table('Reads')",
    "SELECT table_service.set_access_policies('Reads', '[]')",
    "SELECT table_service.set_service_properties('{\"Cors\": []}')",
    "SELECT table_service.create_property_index('Reads', 'B')",
    "SELECT table_service.drop_property_index('Reads', 'A')",
];

/// Writes that would find nothing to do elsewhere.
const IDLE_WRITES: [&str; 4] = [
    "SELECT table_service.delete_entity('Reads', 'p', 'absent', if_exists => true)",
    "SELECT table_service.insert_entity('Reads', 'p', 'r', '{}')",
    "SELECT table_service.replace_entity('Reads', 'p', 'r', '{}', 'W/\"another\"')",
    "SELECT table_service.merge_entity('Reads', 'p', 'absent', '{}', '*')",
];

fn fill(session: &Session) {
    session.run(
        "SELECT table_service.create_table('Reads');
        SELECT table_service.insert_entity('Reads', 'p', 'r', '{\"A\": 1, \"B\": 2}');
        SELECT table_service.insert_entity('Reads', 'p', 's', jsonb_build_object('A', repeat(md5('a'), 1000)));
        SELECT table_service.create_property_index('Reads', 'A')",
    );
}

#[test]
fn a_read_only_transaction_reads_and_does_not_write() {
    let db = Database::new();
    let session = db.session("s");
    fill(&session);
    let expected: Vec<_> = READS.iter().map(|read| session.run(read)).collect();
    for level in [
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
        "SERIALIZABLE DEFERRABLE",
    ] {
        let (level, deferrable) = level
            .split_once(" DEFERRABLE")
            .map_or((level, ""), |(level, _)| (level, "DEFERRABLE"));
        session.run(&format!("BEGIN ISOLATION LEVEL {level} READ ONLY {deferrable}"));
        for (read, expected) in READS.iter().zip(&expected) {
            assert_eq!(session.run(read), *expected, "{read}");
        }
        for write in WRITES.iter().chain(&IDLE_WRITES) {
            session.run("SAVEPOINT s");
            session.sql(write).fails_in_postgres("25006");
            session.run("ROLLBACK TO s");
        }
        session.run("COMMIT");
    }
    // A read assigns no transaction number, so it costs nothing at commit.
    session.run("BEGIN");
    for read in READS {
        session.run(read);
    }
    assert_eq!(session.run("SELECT pg_current_xact_id_if_assigned()"), [[None]]);
    session.run("COMMIT");
}

#[test]
fn a_hot_standby_reads_and_does_not_write() {
    let primary = Cluster::start(&["wal_level=replica"]);
    let session = primary.session();
    session.run("CREATE EXTENSION table_service");
    fill(&session);
    let standby = Standby::of(&primary, &[]);
    let replica = standby.session();
    assert_eq!(replica.text("SELECT pg_is_in_recovery()"), "t");
    standby.catches_up(&session);
    for read in READS {
        assert_eq!(replica.run(read), session.run(read), "{read}");
    }
    for write in WRITES.iter().chain(&IDLE_WRITES) {
        replica.sql(write).fails_in_postgres("25006");
    }

    // Changes on the primary arrive, also for the plans that the session on the standby has kept.
    session.run(
        "SELECT table_service.merge_entity('Reads', 'p', 'r', '{\"A\": 10}', '*');
        SELECT table_service.delete_entity('Reads', 'p', 's')",
    );
    standby.catches_up(&session);
    for read in READS {
        assert_eq!(replica.run(read), session.run(read), "{read}");
    }
    session.run("ALTER TABLE table_service_data.\"Reads\" RENAME TO \"Moved\"");
    standby.catches_up(&session);
    replica.sql(READS[3]).fails_with("42P01", "TableNotFound");
    assert_eq!(
        replica.run("SELECT table_service.get_entity('moved', 'p', 'r')").len(),
        1
    );
    session.run("SELECT table_service.delete_table('Moved'); SELECT table_service.create_table('READS')");
    standby.catches_up(&session);
    assert_eq!(replica.run(READS[3]).len(), 0);
    assert!(!primary.log().contains(" XX000 "));
    let log = standby.log();
    assert!(!log.contains(" XX000 "), "{log}");
}
