//! Logical replication of a table.

use system_tests::{Cluster, Database, Session, wait_until};

fn entities(session: &Session) -> Vec<Vec<Option<String>>> {
    session.run(
        "SELECT partition_key, row_key, table_service.etag(e), properties, table_service.properties_send(properties)
        FROM table_service_data.\"Replicated\" AS e ORDER BY partition_key, row_key",
    )
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
    // Both are databases of one server, so the slot has to be there first.
    let slot = format!("slot_{}", source.name());
    publisher.run(&format!(
        "SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"
    ));
    subscriber.run("SELECT table_service.create_table('Replicated')");
    let cluster: &Cluster = source.cluster();
    for binary in ["off", "on"] {
        subscriber.run(&format!(
            "CREATE SUBSCRIPTION s CONNECTION 'host={} port={} user=postgres dbname={}' PUBLICATION entities
                WITH (create_slot = false, slot_name = '{slot}', binary = {binary})",
            cluster.host(),
            cluster.port(),
            source.name()
        ));
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
        // An ETag of the publisher is valid at the subscriber.
        let tag =
            publisher.text("SELECT table_service.etag(e) FROM table_service.get_entity('Replicated', 'p', '6') AS e");
        let merged = subscriber.query(
            "SELECT table_service.merge_entity('Replicated', 'p', '6', '{}', $1)",
            &[&tag],
        );
        assert_eq!(merged.unwrap().len(), 1);
        // Again, from the start.
        subscriber.run("ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE)");
        subscriber.run("DROP SUBSCRIPTION s");
        subscriber.run("TRUNCATE table_service_data.\"Replicated\"");
    }
    wait_until("the slot is free", || {
        publisher.text(&format!(
            "SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{slot}'"
        )) == "t"
    });
    publisher.run(&format!("SELECT pg_drop_replication_slot('{slot}')"));
}
