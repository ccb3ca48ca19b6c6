//! The notes of feeds on relations: definitions of tables, in the order of commits, which nobody forges.

use system_tests::Session;

use crate::change_feeds::{Feeds, failure};

/// The rows of a feed: kind, name, keys and properties, and which relation it is, if it is one of these.
fn rows(session: &Session, feed: &str, relations: &[(&str, &str)]) -> Vec<String> {
    let rows = session.run(&format!(
        "SELECT relation, concat_ws(' ', kind, table_name, partition_key, row_key, properties) FROM query_feed('{feed}')"
    ));
    let line = |row: &Vec<Option<String>>| {
        let of = relations.iter().find(|(oid, _)| row[0].as_deref() == Some(*oid));
        let of = of.map_or(String::new(), |(_, which)| format!("{which}: "));
        of + row[1].as_deref().unwrap_or_default()
    };
    rows.iter().map(line).collect()
}

fn oid(session: &Session, table: &str) -> String {
    session.text(&format!("SELECT 'table_service_data.\"{table}\"'::regclass::oid"))
}

/// Returns a session of a role that may create tables of the service, and nothing else.
fn stranger(feeds: &Feeds) -> Session {
    let session = feeds.session("set-up");
    let role = session.text("SELECT 'stranger_of_' || current_database()");
    session.run(&format!(
        "CREATE ROLE {role} LOGIN; GRANT CREATE, USAGE ON SCHEMA table_service_data TO {role}; ALTER ROLE {role} SET search_path = public, table_service"
    ));
    feeds.session_as(&role, "stranger")
}

#[test]
fn a_name_that_goes_to_a_strangers_table_takes_no_relation_along() {
    let feeds = Feeds::new();
    let (owner, stranger) = (feeds.session("owner"), stranger(&feeds));
    owner.run("SELECT create_table('Orders'); SELECT insert_entity('Orders', 'p', '40', '{}')");
    stranger.run("SELECT create_table('Strange'); SELECT insert_entity('Strange', 'p', '666', '{}')");
    owner.run("SELECT create_change_feed('f')");
    let (of_owner, of_stranger) = (oid(&owner, "Orders"), oid(&owner, "Strange"));
    // For a moment, in one transaction, the stranger's table has the other one's name.
    owner.run(
        "BEGIN; ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Away\"; ALTER TABLE table_service_data.\"Strange\" RENAME TO \"Orders\";
        TRUNCATE table_service_data.\"Orders\"; SELECT insert_entity('Orders', 'p', '667', '{}');
        ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Strange\"; ALTER TABLE table_service_data.\"Away\" RENAME TO \"Orders\"; COMMIT",
    );
    owner.run("SELECT delete_entity('Orders', 'p', '40')");
    let relations = [(of_owner.as_str(), "own"), (of_stranger.as_str(), "stranger's")];
    assert_eq!(
        rows(&owner, "f", &relations),
        [
            "own: rename Away {\"Before\":\"Orders\"}",
            "stranger's: rename Orders {\"Before\":\"Strange\"}",
            "stranger's: clear Orders",
            "stranger's: insert Orders p 667 {}",
            "stranger's: rename Strange {\"Before\":\"Orders\"}",
            "own: rename Orders {\"Before\":\"Away\"}",
            "own: delete Orders p 40",
        ]
    );
}

#[test]
fn definitions_come_in_the_order_of_commits() {
    let feeds = Feeds::new();
    let (first, second) = (feeds.session("first"), feeds.session("second"));
    first.run("SELECT create_table('Orders')");
    first.run("SELECT create_change_feed('f')");
    first.run("BEGIN; SELECT create_table('Late')");
    // Event triggers also fire with this setting.
    second.run("SET session_replication_role = replica; ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Early\"");
    second.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
    first.run("ALTER TABLE table_service_data.\"Late\" RENAME TO \"Later\"; COMMIT");
    // A transaction with a snapshot that is older than the name.
    second.run("ALTER TABLE table_service_data.\"Later\" RENAME TO \"Latest\"; COMMIT");
    second.run("BEGIN; SELECT delete_table('Early'); PREPARE TRANSACTION 'drops'");
    first.run("SELECT create_table('Between')");
    first.run("COMMIT PREPARED 'drops'");
    assert_eq!(
        rows(&first, "f", &[]),
        [
            "rename Early {\"Before\":\"Orders\"}",
            "create Late",
            "rename Later {\"Before\":\"Late\"}",
            "rename Latest {\"Before\":\"Later\"}",
            "create Between",
            "drop Early",
        ]
    );
}

#[test]
fn an_extension_that_moves_takes_tables_along() {
    let feeds = Feeds::new();
    let owner = feeds.session("owner");
    owner.run("SELECT create_table('Orders')");
    owner.run("SELECT create_change_feed('f')");
    owner.run(
        "CREATE SCHEMA away;
        INSERT INTO pg_extension SELECT 4294967293, 'mover', extowner, 'table_service_data'::regnamespace, true, '1.0' FROM pg_extension WHERE extname = 'table_service';
        INSERT INTO pg_depend VALUES ('pg_extension'::regclass, 4294967293, 0, 'pg_namespace'::regclass, 'table_service_data'::regnamespace, 0, 'n');
        ALTER EXTENSION mover ADD TABLE table_service_data.\"Orders\"; ALTER EXTENSION mover SET SCHEMA away",
    );
    // The feed has a gap in place of this change.
    owner.run("INSERT INTO away.\"Orders\" VALUES ('p', 'r', now(), '{}')");
    owner.run("ALTER EXTENSION mover SET SCHEMA table_service_data");
    let rows = rows(&owner, "f", &[]);
    let kinds: Vec<&str> = rows
        .iter()
        .map(|row| row.split_once(" {").map_or(row.as_str(), |(kind, _)| kind))
        .collect();
    assert_eq!(kinds, ["drop Orders", "gap Orders", "create Orders"]);
}

#[test]
fn tables_of_another_schema_that_has_the_name_are_told_too() {
    let feeds = Feeds::new();
    let owner = feeds.session("owner");
    owner.run("SELECT create_table('Orders')");
    owner.run("SELECT create_change_feed('f')");
    owner.run("ALTER SCHEMA table_service_data RENAME TO away; CREATE SCHEMA table_service_data");
    owner.run("CREATE TABLE table_service_data.\"New\" OF entity (PRIMARY KEY (partition_key, row_key))");
    owner.run("DROP SCHEMA table_service_data CASCADE; ALTER SCHEMA away RENAME TO table_service_data");
    assert_eq!(rows(&owner, "f", &[]), ["create New", "drop New"]);
}

#[test]
fn nobody_forges_a_definition_or_a_mark() {
    let feeds = Feeds::new();
    let (owner, stranger) = (feeds.session("owner"), stranger(&feeds));
    owner.run("SELECT create_table('Orders'); SELECT create_table('Items')");
    owner.run("SELECT create_change_feed('f')");
    owner.run("SELECT create_change_feed('other')");
    owner.run("ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Bills\"; SELECT mark_change_feed('f', 'mine')");
    let refused = failure(&stranger, "SELECT mark_change_feed('f', 'mine')");
    assert_eq!(refused.sqlstate, "42501", "{refused:?}");
    // A role that has read the notes writes them again. Behind the kind, flags, a position, the prefix and a length is their text.
    let notes = owner.run(&format!(
        "SELECT substr(data, 29)::text FROM pg_logical_slot_peek_binary_changes('{}', NULL, NULL, 'proto_version', '1', 'publication_names', 'table_service_f', 'messages', 'true')
        WHERE get_byte(data, 0) = ascii('M')",
        feeds.slot("f")
    ));
    assert_eq!(notes.len(), 2, "{notes:?}");
    owner.run("ALTER TABLE table_service_data.\"Bills\" RENAME TO \"Orders\"");
    for note in notes {
        let note = note[0].as_deref().unwrap();
        for is_transactional in [true, false] {
            stranger.run(&format!(
                "SELECT pg_logical_emit_message({is_transactional}, 'table_service', '{note}'::bytea)"
            ));
        }
    }
    // A table that others may change before the commit is not noted.
    stranger.run("BEGIN; SELECT table_service_note_definition('table_service_data.\"Items\"'::regclass)");
    owner.run("ALTER TABLE table_service_data.\"Items\" RENAME TO \"Goods\"");
    stranger.run("SELECT table_service_note_definition('table_service_data.\"Goods\"'::regclass)");
    owner.run("ALTER TABLE table_service_data.\"Goods\" RENAME TO \"Stock\"");
    stranger.run("COMMIT; SELECT table_service_note_definition(1); SELECT table_service_note_definition(4294967295)");
    let definitions = [
        "rename Bills {\"Before\":\"Orders\"}",
        "rename Orders {\"Before\":\"Bills\"}",
        "rename Goods {\"Before\":\"Items\"}",
        "rename Stock {\"Before\":\"Goods\"}",
    ];
    assert_eq!(rows(&owner, "other", &[]), definitions);
    let mut with_mark = definitions.to_vec();
    with_mark.insert(1, "mark {\"Mark\":\"mine\"}");
    assert_eq!(rows(&owner, "f", &[]), with_mark);
}

#[test]
fn definitions_without_the_library_fail_for_tables_of_the_service_only() {
    let feeds = Feeds::new();
    let session = feeds.session("set-up");
    session.run("SELECT create_table('Orders')");
    // As if somebody had removed the file.
    session
        .run("UPDATE pg_proc SET probin = '$libdir/no_such_library' WHERE proname = 'table_service_note_definition'");
    let session = feeds.session("without");
    session.run(
        "CREATE TABLE t (a int); ALTER TABLE t RENAME TO u; CREATE INDEX ON u (a); CREATE VIEW v AS SELECT * FROM u; CREATE SCHEMA s; ALTER TABLE u SET SCHEMA s;
        DROP SCHEMA s CASCADE; CREATE ROLE nobody_there; DROP OWNED BY nobody_there; DROP ROLE nobody_there; CREATE TYPE entity AS (a int); CREATE TABLE w OF entity",
    );
    session.run("CREATE TABLE x (a int)");
    session.run("CREATE INDEX CONCURRENTLY i ON x (a)");
    session.run("REINDEX TABLE CONCURRENTLY x");
    let refused = failure(&session, "DROP TABLE table_service_data.\"Orders\"");
    assert_eq!(refused.sqlstate, "58P01", "{refused:?}");
    session.run("DROP EXTENSION table_service CASCADE");
}
