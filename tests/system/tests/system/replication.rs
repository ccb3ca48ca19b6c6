//! Logical replication of a table.

use system_tests::{Database, Session, wait_until};

fn entities(session: &Session) -> Vec<Vec<Option<String>>> {
    session.run(
        "SELECT partition_key, row_key, table_service.etag(e), properties, table_service.properties_send(properties)
        FROM table_service_data.\"Replicated\" AS e ORDER BY partition_key, row_key",
    )
}

/// Both are databases of one server, so the slot has to be there first.
fn create_slot(source: &Database) -> String {
    let slot = format!("slot_{}", source.name());
    source.session("slot").run(&format!(
        "SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"
    ));
    slot
}

fn subscribe(subscriber: &Session, source: &Database, slot: &str, options: &str) {
    let cluster = source.cluster();
    subscriber.run(&format!(
        "CREATE SUBSCRIPTION s CONNECTION 'host={} port={} user=postgres dbname={}' PUBLICATION entities
            WITH (create_slot = false, slot_name = '{slot}', {options})",
        cluster.host(),
        cluster.port(),
        source.name()
    ));
}

fn unsubscribe(subscriber: &Session) {
    subscriber.run("ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE)");
    subscriber.run("DROP SUBSCRIPTION s");
}

fn drop_slot(source: &Database, slot: &str) {
    let session = source.session("slot");
    wait_until("the slot is free", || {
        session.text(&format!(
            "SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{slot}'"
        )) == "t"
    });
    session.run(&format!("SELECT pg_drop_replication_slot('{slot}')"));
}

#[test]
fn a_subscriber_has_the_same_entities_and_etags() {
    let (source, target) = (Database::new(), Database::new());
    let (publisher, subscriber) = (source.session("publisher"), target.session("subscriber"));
    publisher.run(
        "SELECT table_service.create_table('Replicated');
        SELECT table_service.insert_entity('Replicated', 'p', n::text, jsonb_build_object('N', n, 'Text', repeat('ä', n * 100)))
            FROM generate_series(1, 50) AS n;
        CREATE PUBLICATION entities FOR TABLE table_service_data.\"Replicated\"",
    );
    let slot = create_slot(&source);
    // A subscriber may have indexes of its own.
    subscriber.run("SELECT table_service.create_table('Replicated'); SELECT table_service.create_property_index('Replicated', 'N')");
    let of_numbers = |session: &Session| {
        session.run("SELECT row_key FROM table_service.query_entities('Replicated', 'N ge 1 and N le 10')")
    };
    for binary in ["off", "on"] {
        subscribe(&subscriber, &source, &slot, &format!("binary = {binary}"));
        let arrives = |what: &str| {
            let expected = entities(&publisher);
            wait_until(what, || entities(&subscriber) == expected);
        };
        arrives("the first copy");
        for write in [
            "SELECT table_service.insert_entity('Replicated', 'p', 'new', '{\"A\": 1}')",
            "SELECT table_service.merge_entity('Replicated', 'p', '1', '{\"B@odata.type\": \"Edm.Int64\", \"B\": \"2\"}', '*')",
            "SELECT table_service.replace_entity('Replicated', 'p', '2', '{}', '*')",
            "SELECT table_service.insert_or_replace_entity('Replicated', 'p', '3', '{\"C\": 3.5}')",
            "SELECT table_service.insert_or_merge_entity('Replicated', 'p', '4', '{\"D\": true}')",
            "UPDATE table_service_data.\"Replicated\" SET \"timestamp\" = '2000-01-01' WHERE row_key = '5'",
            "SELECT table_service.delete_entity('Replicated', 'p', 'new')",
            "BEGIN;
            SELECT table_service.delete_entity('Replicated', 'p', '6');
            SELECT table_service.insert_entity('Replicated', 'p', '6', '{\"Again\": true}');
            SELECT table_service.merge_entity('Replicated', 'p', '6', '{\"More\": 1}', '*');
            COMMIT",
        ] {
            publisher.run(write);
            arrives(write);
        }
        assert_eq!(of_numbers(&subscriber), of_numbers(&publisher));
        // An ETag of the publisher is valid at the subscriber.
        let tag =
            publisher.text("SELECT table_service.etag(e) FROM table_service.get_entity('Replicated', 'p', '6') AS e");
        let merged = subscriber.query(
            "SELECT table_service.merge_entity('Replicated', 'p', '6', '{}', $1)",
            &[&tag],
        );
        assert_eq!(merged.unwrap().len(), 1);
        // Again, from the start.
        unsubscribe(&subscriber);
        subscriber.run("TRUNCATE table_service_data.\"Replicated\"");
    }
    drop_slot(&source, &slot);
}

/// An entity that is inserted after a delete it waited for gets its Timestamp late. That must not become an UPDATE, which a
/// subscriber cannot apply without a replica identity.
#[test]
fn an_insert_that_waited_is_one_insert_for_a_subscriber_of_a_table_without_replica_identity() {
    let (source, target) = (Database::new(), Database::new());
    let (publisher, subscriber) = (source.session("publisher"), target.session("subscriber"));
    publisher.run(
        "SELECT table_service.create_table('Replicated');
        ALTER TABLE table_service_data.\"Replicated\" REPLICA IDENTITY NOTHING;
        SELECT table_service.insert_entity('Replicated', 'p', 'r', '{\"By\": 0}');
        CREATE PUBLICATION entities FOR TABLE table_service_data.\"Replicated\" WITH (publish = 'insert, update')",
    );
    let slot = create_slot(&source);
    // Deletes are not published, so it gets more than one entity with these keys.
    subscriber.run("CREATE TABLE table_service_data.\"Replicated\" OF table_service.entity");
    subscribe(&subscriber, &source, &slot, "copy_data = false");
    publisher.run("BEGIN; SELECT table_service.delete_entity('Replicated', 'p', 'r')");
    let waiter = source.session("waiter");
    let inserts = waiter
        .start("SELECT table_service.insert_entity('Replicated', 'p', 'r', '{\"By\": 2}')")
        .waits();
    publisher.run(
        "SELECT table_service.insert_entity('Replicated', 'p', 'r', '{\"By\": 1}');
        SELECT table_service.delete_entity('Replicated', 'p', 'r');
        COMMIT",
    );
    let tag = inserts.text();
    waiter.run("SELECT table_service.insert_entity('Replicated', 'p', 'after', '{}')");
    let newest = "SELECT row_key, properties, table_service.etag(e) FROM table_service_data.\"Replicated\" AS e
        ORDER BY \"timestamp\" DESC LIMIT 2";
    wait_until("what came later arrives", || {
        subscriber.run(newest) == waiter.run(newest)
    });
    assert_eq!(subscriber.run(newest)[1][2].as_deref(), Some(tag.as_str()));
    unsubscribe(&subscriber);
    drop_slot(&source, &slot);
}
