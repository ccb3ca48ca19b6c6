//! The metrics about change feeds.

use system_tests::{Database, wait_until};

use crate::gateway::{Gateway, url};

#[test]
fn the_metrics_say_what_each_change_feed_retains() {
    let database = Database::new();
    let session = database.session("owner");
    session.run("SELECT table_service.create_table('Orders')");
    session.run("SELECT table_service.create_change_feed('orders', '{Orders}')");
    session.run("SELECT table_service.create_change_feed('gone', '{Orders}')");
    let slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE '%gone' AND database = current_database()";
    session.run(slots);
    let gateway = Gateway::start(&["--database-url", &url(database.cluster(), database.name(), "postgres")]);
    let value = |metric: &str, feed: &str| {
        let metrics = gateway.admin("/metrics").expect(200);
        let name = format!("table_service_{metric}{{account=\"devstoreaccount1\",feed=\"{feed}\"}} ");
        let text = metrics.text();
        text.lines()
            .find_map(|line| line.strip_prefix(&name))
            .map(|value| value.parse::<i64>().unwrap())
    };
    wait_until("the feeds are seen", || value("change_feed_lost", "orders") == Some(0));
    assert!(value("change_feed_retained_bytes", "orders") > Some(0));
    assert_eq!(value("change_feed_lost", "gone"), Some(1));
    // A feed that is dropped is no longer there.
    session.run("SELECT table_service.drop_change_feed(feed_name) FROM table_service.query_change_feeds()");
    wait_until("they are gone", || value("change_feed_lost", "orders").is_none());
}
