//! Change feeds: their changes, the order of these, and the errors when something is missing.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use system_tests::{Cluster, Failure, OtherReader, Session, wait_until};

/// A database of a server for these tests. A database with a slot cannot be dropped, so the server ends with all of them.
pub struct Feeds {
    database: String,
}

fn cluster() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start(&["max_replication_slots=100", "max_prepared_transactions=10"]))
}

impl Feeds {
    pub fn new() -> Feeds {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let database = format!("feeds{}", COUNT.fetch_add(1, Ordering::Relaxed));
        cluster().session().run(&format!("CREATE DATABASE {database}"));
        cluster().session().run(&format!(
            "ALTER DATABASE {database} SET search_path = public, table_service"
        ));
        let feeds = Feeds { database };
        feeds.session("set-up").run("CREATE EXTENSION table_service");
        feeds
    }

    pub fn session(&self, name: &str) -> Session {
        self.session_as("postgres", name)
    }

    pub fn session_as(&self, role: &str, name: &str) -> Session {
        cluster().try_session(&self.database, role, name).unwrap()
    }

    pub fn slot(&self, feed: &str) -> String {
        let session = self.session("names");
        let oid = session.text("SELECT oid FROM pg_database WHERE datname = current_database()");
        format!("table_service_{oid}_{feed}")
    }
}

/// Starts a server of its own, with a table and a feed of it.
pub fn with_a_feed(settings: &[&str]) -> Cluster {
    let cluster = Cluster::start(settings);
    cluster
        .session()
        .run("CREATE EXTENSION table_service; ALTER DATABASE postgres SET search_path = public, table_service");
    let session = cluster.session();
    session.run("SELECT create_table('Orders')");
    session.run("SELECT create_change_feed('f')");
    cluster
}

/// The changes of a feed: kind, table, keys and bag.
pub fn changes(session: &Session, feed: &str) -> Vec<String> {
    let rows = session.run(&format!(
        "SELECT concat_ws(' ', kind, table_name, partition_key, row_key, properties) FROM query_changes('{feed}')"
    ));
    rows.into_iter().map(|mut row| row.remove(0).unwrap()).collect()
}

/// Confirms everything that a feed has.
pub fn confirm(session: &Session, feed: &str) {
    session.run(&format!(
        "SELECT confirm_changes('{feed}', \"position\") FROM query_changes('{feed}', 1000000) AS c (\"position\") ORDER BY \"position\"::pg_lsn DESC LIMIT 1"
    ));
}

#[track_caller]
pub fn failure(session: &Session, sql: &str) -> Failure {
    session.sql(sql).expect_err(sql)
}

/// The entities of tables by table and keys: Timestamp and bag.
pub type State = BTreeMap<(String, String, String), (String, String)>;

pub fn state(session: &Session, tables: &[&str]) -> State {
    let mut state = State::new();
    for table in tables {
        let rows = session.run(&format!(
            "SELECT partition_key, row_key, \"timestamp\", properties FROM table_service_data.\"{table}\""
        ));
        for row in rows {
            let mut row = row.into_iter().map(Option::unwrap);
            let mut next = || row.next().unwrap();
            let key = ((*table).to_owned(), next(), next());
            state.insert(key, (next(), next()));
        }
    }
    state
}

/// Applies a page of changes in their order, and returns the position of the last one. Timestamps rise.
pub fn apply(session: &Session, feed: &str, top: u32, state: &mut State) -> Option<String> {
    let rows = session.run(&format!(
        "SELECT \"position\", kind, table_name, partition_key, row_key, \"timestamp\", properties FROM query_changes('{feed}', {top})"
    ));
    let mut last = None;
    for row in rows {
        let column = |index: usize| row[index].clone().unwrap_or_default();
        let key = (column(2), column(3), column(4));
        last = row[0].clone();
        match column(1).as_str() {
            "clear" => state.retain(|(table, ..), _| *table != key.0),
            "delete" => {
                state.remove(&key);
            }
            _ => {
                let bag = row[6].clone().unwrap_or_else(|| state[&key].1.clone());
                state.insert(key, (column(5), bag));
            }
        }
    }
    last
}

#[test]
fn changes_come_in_the_order_of_commits_and_without_what_was_rolled_back() {
    let feeds = Feeds::new();
    let (first, second) = (feeds.session("first"), feeds.session("second"));
    first.run("SELECT create_table('Orders')");
    first.run("SELECT create_change_feed('f')");
    first.run("BEGIN; SELECT insert_entity('Orders', 'p', 'late', '{}')");
    second.run("SELECT insert_entity('Orders', 'p', 'early', '{}')");
    first.run("COMMIT");
    second.run(
        "BEGIN; SELECT insert_entity('Orders', 'p', 'a', '{}'); SAVEPOINT s; SELECT insert_entity('Orders', 'p', 'b', '{}');
        ROLLBACK TO s; SELECT insert_entity('Orders', 'p', 'c', '{}'); COMMIT;
        BEGIN; SELECT insert_entity('Orders', 'p', 'd', '{}'); ROLLBACK;
        BEGIN; SELECT insert_entity('Orders', 'p', 'e', '{}'); PREPARE TRANSACTION 'kept';
        BEGIN; SELECT insert_entity('Orders', 'p', 'f', '{}'); PREPARE TRANSACTION 'not kept'",
    );
    first.run("SELECT insert_entity('Orders', 'p', 'g', '{}')");
    second.run("COMMIT PREPARED 'kept'");
    second.run("ROLLBACK PREPARED 'not kept'");
    let keys = ["early", "late", "a", "c", "g", "e"];
    let expected = keys.map(|key| format!("insert Orders p {key} {{}}"));
    assert_eq!(changes(&first, "f"), expected);
    // Reading moves nothing, and both changes of a transaction have its position.
    assert_eq!(changes(&second, "f"), expected);
    let positions = second.run("SELECT count(*), count(DISTINCT \"position\") FROM query_changes('f')");
    assert_eq!(positions, [[Some("6".to_owned()), Some("5".to_owned())]]);
    let are_ordered =
        "SELECT bool_and(p >= before AND c >= earlier) FROM (SELECT \"position\"::pg_lsn AS p, committed AS c,
        lag(\"position\"::pg_lsn, 1, '0/0') OVER w AS before, lag(committed, 1, '-infinity') OVER w AS earlier
        FROM query_changes('f') WITH ORDINALITY AS q WINDOW w AS (ORDER BY ordinality)) AS pairs";
    assert_eq!(first.text(are_ordered), "t");
    confirm(&first, "f");
    assert!(changes(&second, "f").is_empty());
}

#[test]
fn every_way_of_writing_is_in_the_feed() {
    let feeds = Feeds::new();
    let session = feeds.session("writer");
    session.run("SELECT create_table('Orders')");
    session.run("SELECT create_change_feed('f')");
    session
        .copy_in(
            "COPY table_service_data.\"Orders\" (partition_key, row_key, properties) FROM STDIN",
            b"p\ta\t{\"N\":1}\np\tb\t{\"N\":2}\n".to_vec(),
        )
        .unwrap();
    session.run(
        "MERGE INTO table_service_data.\"Orders\" AS o USING (VALUES ('a'), ('c')) AS v (k) ON o.partition_key = 'p' AND o.row_key = v.k
        WHEN MATCHED THEN UPDATE SET properties = '{\"N\":3}' WHEN NOT MATCHED THEN INSERT (partition_key, row_key, properties) VALUES ('p', v.k, '{}')",
    );
    session.run("UPDATE table_service_data.\"Orders\" SET row_key = 'd' WHERE row_key = 'b'");
    session.run("SELECT delete_entities('Orders', 'RowKey eq ''a''')");
    session.run("SELECT * FROM execute_batch('Orders', 'p', batch_insert('e', '{}'), batch_delete('d'))");
    session.run("SELECT clear_table('Orders')");
    let mut of_merge = changes(&session, "f")[2..4].to_vec();
    of_merge.sort();
    assert_eq!(of_merge, ["insert Orders p c {}", "update Orders p a {\"N\":3}"]);
    let mut all = changes(&session, "f");
    all.drain(2..4);
    let of_batch = all.len() - 3..all.len() - 1;
    all[of_batch].sort();
    assert_eq!(
        all,
        [
            "insert Orders p a {\"N\":1}",
            "insert Orders p b {\"N\":2}",
            "delete Orders p b",
            "insert Orders p d {\"N\":2}",
            "delete Orders p a",
            "delete Orders p d",
            "insert Orders p e {}",
            "clear Orders",
        ]
    );
}

#[test]
fn a_bag_that_stays_out_of_line_is_null_unless_the_feed_has_old_images() {
    let feeds = Feeds::new();
    let session = feeds.session("writer");
    session.run("SELECT create_table('Orders')");
    session.run("SELECT create_change_feed('new')");
    let large = "(SELECT jsonb_build_object('T', string_agg(md5(i::text), '')) FROM generate_series(1, 1000) AS i)";
    session.run(&format!("SELECT insert_entity('Orders', 'p', 'r', {large})"));
    let touch = "UPDATE table_service_data.\"Orders\" SET \"timestamp\" = now()";
    session.run(touch);
    let last = |feed: &str| {
        let query = format!(
            "SELECT kind, length(properties::text), length(old_properties::text) FROM query_changes('{feed}') AS c ORDER BY \"position\"::pg_lsn DESC LIMIT 1"
        );
        session
            .run(&query)
            .remove(0)
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect::<Vec<_>>()
    };
    assert_eq!(last("new"), ["update", "", ""]);
    session.run("SELECT create_change_feed('old', old_images => true)");
    session.run(touch);
    assert_eq!(last("old"), ["update", "32008", "32008"]);
    session.run("UPDATE table_service_data.\"Orders\" SET row_key = 's'");
    let moved = session.run("SELECT kind, row_key, length(properties::text), length(old_properties::text) FROM query_changes('old') OFFSET 1");
    let moved: Vec<Vec<String>> = moved
        .into_iter()
        .map(|row| row.into_iter().map(Option::unwrap_or_default).collect())
        .collect();
    assert_eq!(moved, [["delete", "r", "", "32008"], ["insert", "s", "32008", ""]]);
}

#[test]
fn a_page_ends_with_a_transaction_and_has_as_many_changes_as_there_are() {
    let feeds = Feeds::new();
    let session = feeds.session("writer");
    session.run("SELECT create_table('Orders'); CREATE TABLE other (n integer)");
    session.run("SELECT create_change_feed('f')");
    session.run("DO $$ BEGIN FOR n IN 1..700 LOOP INSERT INTO other VALUES (n); PERFORM table_service.insert_entity('Orders', 'small', n::text, '{}'); COMMIT; END LOOP; END $$");
    session.run("INSERT INTO table_service_data.\"Orders\" SELECT 'large', n::text, now(), '{\"Text\": \"some text\"}' FROM generate_series(1, 50000) AS n");
    let count = |top: u32| session.text(&format!("SELECT count(*) FROM query_changes('f', {top})"));
    assert_eq!(count(0), "0");
    assert_eq!(count(1), "1");
    assert_eq!(count(699), "699");
    assert_eq!(count(700), "700");
    assert_eq!(count(701), "50700");
    assert_eq!(
        session.text("SELECT count(*) FROM query_changes('f', 9223372036854775807)"),
        "50700"
    );
    assert_eq!(failure(&session, "SELECT query_changes('f', -1)").sqlstate, "22023");
    // Page after page, nothing is missing and nothing comes twice.
    let mut copy = State::new();
    let mut pages = 0;
    while let Some(position) = apply(&session, "f", 100, &mut copy) {
        session.run(&format!("SELECT confirm_changes('f', '{position}')"));
        pages += 1;
    }
    assert_eq!(pages, 8);
    assert_eq!(copy, state(&session, &["Orders"]));
}

#[test]
fn what_writers_do_beside_a_reader_is_in_the_feed_exactly() {
    let feeds = Feeds::new();
    let session = feeds.session("reader");
    session.run("SELECT create_table('Orders'); SELECT create_table('Items')");
    session.run("SELECT create_property_index('Orders', 'N')");
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let session = feeds.session("writer");
                scope.spawn(move || {
                    for n in 0..300 {
                        let key = (n * 7 + writer) % 23;
                        let table = if n % 3 == 0 { "Items" } else { "Orders" };
                        let write = match n % 8 {
                            0 => format!("SELECT delete_entity('{table}', 'p', '{key}', if_exists => true)"),
                            1 => format!(
                                "BEGIN; SELECT insert_or_replace_entity('{table}', 'p', '{key}', '{{\"N\": {n}}}'); SAVEPOINT s;
                                SELECT insert_or_merge_entity('{table}', 'q', '{key}', '{{\"N\": {n}}}'); ROLLBACK TO s; COMMIT"
                            ),
                            2 if n % 50 == 2 && writer == 0 => format!("SELECT clear_table('{table}')"),
                            3 => format!("UPDATE table_service_data.\"{table}\" SET row_key = row_key || 'x' WHERE row_key = '{key}' AND length(row_key) < 4 AND NOT EXISTS (SELECT FROM table_service_data.\"{table}\" WHERE row_key = '{key}x')"),
                            _ => format!("SELECT insert_or_merge_entity('{table}', 'p', '{key}', '{{\"N{writer}\": {n}}}')"),
                        };
                        // Two writers may give an entity the same key, or wait for each other.
                        if let Err(failure) = session.sql(&write) {
                            assert!(["23505", "40P01", "P0002"].contains(&failure.sqlstate.as_str()), "{write}: {failure:?}");
                            session.run("ROLLBACK");
                        }
                    }
                })
            })
            .collect();
        // The feed is made while they write. The entities of then are copied; the changes make the copy complete.
        session.run("SELECT create_change_feed('f')");
        let mut copy = state(&session, &["Orders", "Items"]);
        let follow = |copy: &mut State| match apply(&session, "f", 10, copy) {
            Some(position) => {
                session.run(&format!("SELECT confirm_changes('f', '{position}')"));
                true
            }
            None => false,
        };
        while writers.iter().any(|writer| !writer.is_finished()) {
            follow(&mut copy);
        }
        while follow(&mut copy) {}
        assert_eq!(copy, state(&session, &["Orders", "Items"]));
    });
}

#[test]
fn tables_are_renamed_dropped_altered_partitioned_and_added() {
    let feeds = Feeds::new();
    let session = feeds.session("writer");
    session.run(
        "SELECT create_table('Orders'); SELECT create_table('Items');
        CREATE TABLE table_service_data.\"Parts\" OF entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
        CREATE TABLE public.part0 PARTITION OF table_service_data.\"Parts\" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE public.part1 PARTITION OF table_service_data.\"Parts\" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        CREATE TABLE other (n integer PRIMARY KEY)",
    );
    session.run("SELECT create_change_feed('f', old_images => true)");
    for write in [
        "SELECT insert_entity('Orders', 'p', '1', '{}')",
        "ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Sales\"",
        "SELECT insert_entity('Sales', 'p', '2', '{}')",
        "ALTER TABLE table_service_data.\"Sales\" NOT OF; ALTER TABLE table_service_data.\"Sales\" ADD COLUMN note text",
        "INSERT INTO table_service_data.\"Sales\" (partition_key, row_key, properties, note) VALUES ('p', '3', '{}', 'a note')",
        "SELECT create_property_index('Items', 'N'); SELECT insert_entity('Items', 'p', '1', '{\"N\": 1}')",
        "SELECT delete_table('Items')",
        "INSERT INTO table_service_data.\"Parts\" SELECT 'p' || n, 'r', now(), '{}' FROM generate_series(1, 4) AS n",
        "UPDATE public.part0 SET properties = '{\"A\": 1}'",
        "ALTER PUBLICATION table_service_f ADD TABLE other; INSERT INTO other VALUES (1)",
        "SELECT create_table('Added'); ALTER PUBLICATION table_service_f ADD TABLE table_service_data.\"Added\"",
        "SELECT insert_entity('Added', 'p', '1', '{}')",
    ] {
        session.run(write);
    }
    let all = changes(&session, "f");
    let (of_parts, others): (Vec<String>, Vec<String>) = all.into_iter().partition(|change| change.contains(" Parts "));
    assert_eq!(
        others,
        [
            "insert Orders p 1 {}",
            "insert Sales p 2 {}",
            "insert Sales p 3 {}",
            "insert Items p 1 {\"N\":1}",
            "insert Added p 1 {}"
        ]
    );
    assert_eq!(of_parts.iter().filter(|change| change.starts_with("insert")).count(), 4);
    assert!(of_parts.len() > 4);
    let without_old = "SELECT count(*) FROM query_changes('f') WHERE kind = 'update' AND old_properties IS NULL";
    assert_eq!(session.text(without_old), "0");
    assert_eq!(
        session.text("SELECT table_names FROM query_change_feeds()"),
        "{Added,Parts,Sales}"
    );
}

#[test]
fn feeds_know_nothing_of_each_other() {
    let feeds = Feeds::new();
    let session = feeds.session("writer");
    session.run("SELECT create_table('Orders'); SELECT create_table('Items')");
    session.run("SELECT create_change_feed('all')");
    session.run("SELECT create_change_feed('items', '{ITEMS, items}')");
    session.run("SELECT insert_entity('Orders', 'p', '1', '{}'); SELECT insert_entity('Items', 'p', '1', '{}')");
    assert_eq!(changes(&session, "items"), ["insert Items p 1 {}"]);
    confirm(&session, "items");
    assert_eq!(
        changes(&session, "ALL"),
        ["insert Orders p 1 {}", "insert Items p 1 {}"]
    );
    let listed = session
        .run("SELECT feed_name, table_names, is_active, wal_status, retained_bytes > 0 FROM query_change_feeds()");
    let listed: Vec<Vec<String>> = listed
        .into_iter()
        .map(|row| row.into_iter().map(Option::unwrap).collect())
        .collect();
    assert_eq!(
        listed,
        [
            ["all", "{Items,Orders}", "f", "reserved", "t"],
            ["items", "{Items}", "f", "reserved", "t"]
        ]
    );
    // A database sees its own feeds only.
    let other = Feeds::new();
    assert!(
        other
            .session("other")
            .run("SELECT * FROM query_change_feeds()")
            .is_empty()
    );
    assert_eq!(
        failure(&other.session("other"), "SELECT * FROM query_changes('all')").sqlstate,
        "42704"
    );
}

#[test]
fn a_feed_has_one_reader() {
    let feeds = Feeds::new();
    let session = feeds.session("reader");
    session.run("SELECT create_table('Orders')");
    let position = session.text("SELECT create_change_feed('f')");
    let consumer = OtherReader::start(cluster(), &session, "f");
    for call in [
        "SELECT * FROM query_changes('f')".to_owned(),
        format!("SELECT confirm_changes('f', '{position}')"),
        "SELECT drop_change_feed('f')".to_owned(),
    ] {
        let failure = failure(&session, &call);
        assert_eq!(failure.sqlstate, "55006", "{call}: {failure:?}");
        assert!(
            failure.hint.contains("give each reader a feed of its own"),
            "{failure:?}"
        );
    }
    drop(consumer);
    wait_until("the feed is free", || {
        session.text("SELECT is_active FROM query_change_feeds()") == "f"
    });
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    assert_eq!(changes(&session, "f"), ["insert Orders p r {}"]);
    session.run("SELECT drop_change_feed('f')");
}

#[test]
fn feeds_follow_their_transaction() {
    let feeds = Feeds::new();
    let session = feeds.session("session");
    session.run("SELECT create_table('Orders')");
    let slots = || session.text("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()");
    session.run("BEGIN; SELECT create_change_feed('f'); ROLLBACK");
    assert_eq!(slots(), "0");
    session.run("BEGIN; SAVEPOINT s; SELECT create_change_feed('f'); ROLLBACK TO s; COMMIT");
    assert_eq!(slots(), "0");
    session.run("BEGIN; SAVEPOINT s; SELECT create_change_feed('g'); RELEASE s; COMMIT");
    assert_eq!(slots(), "1");
    assert_eq!(session.text("SELECT feed_name FROM query_change_feeds()"), "g");
    // An error that a function catches leaves nothing behind either, and the session works on.
    session.run(
        "DO $$ BEGIN BEGIN PERFORM create_change_feed('h'); RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN NULL; END; END $$",
    );
    assert_eq!(slots(), "1");
    let lost = feeds.session("lost");
    lost.run("BEGIN; SELECT create_change_feed('h')");
    lost.lose();
    wait_until("the slot of a lost session is gone", || slots() == "1");

    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    let position = session.text("SELECT \"position\" FROM query_changes('g')");
    session.run(&format!("BEGIN; SELECT confirm_changes('g', '{position}')"));
    // For its own transaction it is confirmed, for others not yet.
    assert!(changes(&session, "g").is_empty());
    assert_eq!(changes(&feeds.session("other"), "g").len(), 1);
    session.run("ROLLBACK");
    assert_eq!(changes(&session, "g").len(), 1);
    session.run(&format!(
        "BEGIN; SAVEPOINT s; SELECT confirm_changes('g', '{position}'); ROLLBACK TO s; COMMIT"
    ));
    assert_eq!(changes(&session, "g").len(), 1);
    session.run(&format!("BEGIN; SELECT confirm_changes('g', '{position}')"));
    assert_eq!(failure(&session, "PREPARE TRANSACTION 'feed'").sqlstate, "0A000");
    assert_eq!(changes(&session, "g").len(), 1);
    session.run(&format!(
        "BEGIN; SAVEPOINT s; SELECT confirm_changes('g', '{position}'); RELEASE s; COMMIT"
    ));
    assert!(changes(&session, "g").is_empty());
    // An earlier position changes nothing.
    session.run("SELECT confirm_changes('g', '0/0')");

    session.run("BEGIN; SELECT drop_change_feed('g'); ROLLBACK");
    assert_eq!((slots(), changes(&session, "g").len()), ("1".to_owned(), 0));
    // For its own transaction it is gone. Its slot is there until the commit, so it cannot be made again before.
    session.run("BEGIN; SELECT drop_change_feed('g')");
    assert_eq!(session.text("SELECT drop_change_feed('g', if_exists => true)"), "f");
    session.run("SAVEPOINT s");
    for call in ["query_changes('g')", "drop_change_feed('g')"] {
        let missing = failure(&session, &format!("SELECT {call}"));
        assert_eq!(missing.sqlstate, "42704", "{call}: {missing:?}");
        assert!(missing.hint.contains("There is no change feed \"g\""), "{missing:?}");
        session.run("ROLLBACK TO s");
    }
    let dropped = failure(&session, "SELECT create_change_feed('g')");
    assert_eq!(dropped.sqlstate, "25001", "{dropped:?}");
    assert!(dropped.hint.contains("in a transaction of its own"), "{dropped:?}");
    session.run("ROLLBACK TO s; COMMIT");
    assert_eq!(slots(), "0");
    let written = failure(
        &session,
        "BEGIN; SELECT create_table('New'); SELECT create_change_feed('f')",
    );
    assert_eq!(written.sqlstate, "25001");
    assert!(written.hint.contains("in a transaction of its own"), "{written:?}");
    session.run("ROLLBACK");
}

#[test]
fn a_transaction_whose_confirmation_another_reader_prevents_does_not_commit() {
    let feeds = Feeds::new();
    let session = feeds.session("reader");
    session.run("SELECT create_table('Orders'); CREATE TABLE applied (row_key text)");
    session.run("SELECT create_change_feed('f')");
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    session.run("BEGIN; INSERT INTO applied SELECT row_key FROM query_changes('f')");
    confirm(&session, "f");
    let consumer = OtherReader::start(cluster(), &session, "f");
    assert_eq!(failure(&session, "COMMIT").sqlstate, "55006");
    drop(consumer);
    wait_until("the feed is free", || {
        session.text("SELECT is_active FROM query_change_feeds()") == "f"
    });
    assert_eq!(session.text("SELECT count(*) FROM applied"), "0");
    assert_eq!(changes(&session, "f"), ["insert Orders p r {}"]);
    session.run("BEGIN; INSERT INTO applied SELECT row_key FROM query_changes('f')");
    confirm(&session, "f");
    session.run("COMMIT");
    assert_eq!(session.text("SELECT count(*) FROM applied"), "1");
    assert!(changes(&session, "f").is_empty());
}

/// Two roles that may create in the database: one with REPLICATION, and one without, which plants publications.
fn service_and_other(feeds: &Feeds) -> (Session, Session) {
    let names = ["service", "other"].map(|name| format!("{}_{name}", feeds.database));
    feeds.session("roles").run(&format!(
        "CREATE ROLE {0} LOGIN REPLICATION; CREATE ROLE {1} LOGIN; GRANT CREATE ON DATABASE {2} TO {0}, {1}",
        names[0], names[1], feeds.database
    ));
    let [service, other] = names.map(|name| feeds.session_as(&name, &name));
    (service, other)
}

fn slots(session: &Session) -> String {
    session.text("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
}

#[test]
fn a_publication_becomes_no_feed_unasked() {
    let feeds = Feeds::new();
    let session = feeds.session("owner");
    session.run("SELECT create_table('Orders'), create_table('Items')");
    session.run(
        "CREATE PUBLICATION table_service_f FOR TABLE table_service_data.\"Orders\" WITH (publish_via_partition_root)",
    );
    for call in ["create_change_feed('f')", "create_change_feed('f', '{Orders}')"] {
        let refused = failure(&session, &format!("SELECT {call}"));
        assert_eq!(refused.sqlstate, "42710", "{refused:?}");
        assert!(refused.hint.contains("drop_change_feed"), "{refused:?}");
    }
    // It must have everything that the call asks for.
    let refused = failure(
        &session,
        "SELECT create_change_feed('f', '{Items, Orders}', if_not_exists => true)",
    );
    assert_eq!(refused.sqlstate, "55000", "{refused:?}");
    assert!(refused.hint.contains("has not the table \"Items\""), "{refused:?}");
    let refused = failure(
        &session,
        "SELECT create_change_feed('f', old_images => true, if_not_exists => true)",
    );
    assert_eq!(refused.sqlstate, "55000", "{refused:?}");
    assert!(refused.hint.contains("REPLICA IDENTITY FULL"), "{refused:?}");
    assert_eq!(slots(&session), "0");
    session.run("SELECT create_change_feed('f', '{Orders}', if_not_exists => true)");
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    assert_eq!(changes(&session, "f"), ["insert Orders p r {}"]);
}

/// Its owner would decide which changes the feed has.
#[test]
fn a_publication_of_a_role_without_replication_is_none_of_a_feed() {
    let feeds = Feeds::new();
    let session = feeds.session("owner");
    session.run("SELECT create_table('Orders')");
    let (service, other) = service_and_other(&feeds);
    let owner = format!("belongs to the role \"{}_other\"", feeds.database);
    let refuses = |session: &Session, call: &str| {
        let refused = failure(session, &format!("SELECT {call}"));
        assert_eq!(refused.sqlstate, "42501", "{call}: {refused:?}");
        assert!(refused.hint.contains(&owner), "{call}: {refused:?}");
    };
    // It is there before the feed.
    other.run("CREATE PUBLICATION table_service_f WITH (publish_via_partition_root)");
    for caller in [&session, &service] {
        refuses(caller, "create_change_feed('f')");
        refuses(caller, "create_change_feed('f', if_not_exists => true)");
        refuses(caller, "query_changes('f')");
    }
    assert_eq!(slots(&session), "0");
    let failed = failure(&service, "SELECT drop_change_feed('f')");
    assert_eq!(failed.sqlstate, "42501", "{failed:?}");
    session.run("SELECT drop_change_feed('f')");
    // It takes the place of the feed's, which is gone.
    session.run("SELECT create_change_feed('f')");
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    session.run("DROP PUBLICATION table_service_f");
    other.run("CREATE PUBLICATION table_service_f WITH (publish_via_partition_root)");
    for caller in [&session, &service] {
        refuses(caller, "create_change_feed('f', if_not_exists => true)");
        refuses(caller, "query_changes('f')");
        refuses(caller, "confirm_changes('f', '0/1')");
    }
    // It does not keep the log.
    assert_eq!(service.text("SELECT drop_change_feed('f')"), "t");
    assert_eq!(slots(&session), "0");
    assert_eq!(session.text("SELECT count(*) FROM pg_publication"), "1");
    // A superuser gives it to a role that could have made it.
    session.run(&format!(
        "ALTER PUBLICATION table_service_f OWNER TO {}_service",
        feeds.database
    ));
    session.run("ALTER PUBLICATION table_service_f ADD TABLE table_service_data.\"Orders\"");
    session.run("SELECT create_change_feed('f', '{Orders}', if_not_exists => true)");
    session.run("SELECT insert_entity('Orders', 'p', 's', '{}')");
    assert_eq!(changes(&service, "f"), ["insert Orders p s {}"]);
}

#[test]
fn what_has_the_name_of_a_feeds_slot_becomes_no_feed() {
    let feeds = Feeds::new();
    let session = feeds.session("session");
    let slot = feeds.slot("f");
    session.run("SELECT create_table('Orders')");
    session.run(&format!("SELECT pg_create_physical_replication_slot('{slot}')"));
    session.run("CREATE PUBLICATION table_service_f FOR TABLE table_service_data.\"Orders\"");
    for call in [
        "create_change_feed('f')",
        "create_change_feed('f', if_not_exists => true)",
        "query_changes('f')",
        "confirm_changes('f', '0/1')",
        "drop_change_feed('f')",
    ] {
        let failure = session.sql(&format!("SELECT {call}")).unwrap_err();
        assert_eq!(failure.sqlstate, "22023", "{call}: {failure:?}");
        assert!(
            failure.hint.contains(&slot) && failure.hint.contains("none of pgoutput"),
            "{failure:?}"
        );
    }
    let kept = format!(
        "SELECT slot_type || coalesce(confirmed_flush_lsn::text, '') FROM pg_replication_slots WHERE slot_name = '{slot}'"
    );
    assert_eq!(session.text(&kept), "physical");
    session.run(&format!("SELECT pg_drop_replication_slot('{slot}')"));
}

/// Its changes come before their transaction commits, and not again when it does.
#[test]
fn a_slot_of_two_phases_is_no_feed() {
    let feeds = Feeds::new();
    let session = feeds.session("session");
    session.run("SELECT create_table('Orders')");
    session.run(&format!(
        "SELECT pg_create_logical_replication_slot('{}', 'pgoutput', twophase => true)",
        feeds.slot("f")
    ));
    session.run(
        "CREATE PUBLICATION table_service_f FOR TABLE table_service_data.\"Orders\" WITH (publish_via_partition_root)",
    );
    session.run("BEGIN; SELECT insert_entity('Orders', 'p', 'r', '{}'); PREPARE TRANSACTION 'two phases'");
    for call in [
        "create_change_feed('f', if_not_exists => true)",
        "query_changes('f')",
        "confirm_changes('f', '0/1')",
    ] {
        let failure = failure(&session, &format!("SELECT {call}"));
        assert_eq!(failure.sqlstate, "55000", "{call}: {failure:?}");
        assert!(failure.hint.contains("drop_change_feed('f')"), "{failure:?}");
    }
    session.run("COMMIT PREPARED 'two phases'");
    session.run("SELECT drop_change_feed('f')");
    session.run("SELECT create_change_feed('f')");
    session.run("SELECT delete_entity('Orders', 'p', 'r')");
    assert_eq!(changes(&session, "f").len(), 1);
}

/// The kinds of a feed's changes with their tables, and the reasons of the gaps.
fn kinds(session: &Session, feed: &str) -> Vec<String> {
    let rows = session.run(&format!(
        "SELECT concat_ws(' ', kind, table_name, get_string(properties, 'Reason')) FROM query_changes('{feed}')"
    ));
    rows.into_iter().map(|mut row| row.remove(0).unwrap()).collect()
}

#[track_caller]
fn assert_gap(change: &str, table: &str, reason: &str) {
    assert!(
        change.starts_with(&format!("gap {table} ")) && change.contains(reason),
        "{change}"
    );
}

#[test]
fn a_table_that_is_published_in_part_loses_no_change_silently() {
    let feeds = Feeds::new();
    let session = feeds.session("session");
    session.run("SELECT create_table('Orders'), create_table('Others')");
    session.run("CREATE TABLE table_service_data.plain (id int PRIMARY KEY)");
    session.run("SELECT create_change_feed('f')");
    let publish = |columns: &str| {
        session.run(&format!(
            "ALTER PUBLICATION table_service_f SET TABLE table_service_data.\"Orders\" {columns}, table_service_data.\"Others\", table_service_data.plain"
        ));
    };
    for columns in ["(partition_key, row_key)", "(partition_key, row_key, \"timestamp\")"] {
        publish(columns);
        session.run("SELECT insert_entity('Orders', 'p', gen_random_uuid()::text, '{}'), insert_entity('Others', 'p', gen_random_uuid()::text, '{}')");
        publish("");
        session.run("SELECT insert_entity('Orders', 'p', gen_random_uuid()::text, '{}')");
        let all = kinds(&session, "f");
        assert_eq!(all[1..], ["insert Others", "insert Orders"]);
        assert_gap(&all[0], "Orders", "published without some of them");
        confirm(&session, "f");
    }
    // Another table in the schema is none of the service.
    session.run("INSERT INTO table_service_data.plain VALUES (1); SELECT insert_entity('Orders', 'p', 'r', '{}')");
    assert_eq!(changes(&session, "f"), ["insert Orders p r {}"]);
}

/// PostgreSQL publishes updates and deletes with the columns of the replica identity. Without the keys a changed entity is unknown.
#[test]
fn a_table_whose_replica_identity_lacks_the_keys_loses_no_change_silently() {
    let feeds = Feeds::new();
    let session = feeds.session("session");
    session.run(
        "SELECT create_table('Orders'), insert_entity('Orders', 'p', 'r', '{}');
        CREATE UNIQUE INDEX rows ON table_service_data.\"Orders\" (row_key);
        CREATE TABLE table_service_data.\"Parts\" OF entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY LIST (partition_key);
        CREATE TABLE table_service_data.\"Parts_p\" PARTITION OF table_service_data.\"Parts\" FOR VALUES IN ('p')",
    );
    let identity = |table: &str, identity: &str| {
        session.run(&format!(
            "ALTER TABLE table_service_data.\"{table}\" REPLICA IDENTITY {identity}"
        ));
    };
    for (table, other) in [
        ("Orders", "NOTHING"),
        ("Orders", "USING INDEX rows"),
        ("Parts_p", "NOTHING"),
    ] {
        identity(table, other);
        let failure = session.sql("SELECT create_change_feed('f')").unwrap_err();
        assert_eq!(failure.sqlstate, "55000", "{failure:?}");
        let advice = format!("ALTER TABLE table_service_data.\"{table}\" REPLICA IDENTITY DEFAULT");
        assert!(failure.hint.contains(&advice), "{failure:?}");
        identity(table, "DEFAULT");
    }
    // A unique index on the keys serves as well as the primary key, and old images need none.
    session.run("CREATE UNIQUE INDEX keys ON table_service_data.\"Orders\" (row_key, partition_key)");
    identity("Orders", "USING INDEX keys");
    session.run("SELECT create_change_feed('f')");
    session.run("SELECT delete_entity('Orders', 'p', 'r')");
    assert_eq!(changes(&session, "f"), ["delete Orders p r"]);
    session.run("SELECT drop_change_feed('f')");
    identity("Orders", "NOTHING");
    session.run("SELECT create_change_feed('f', old_images => true)");
    // The reader notices a change of it afterwards.
    identity("Orders", "USING INDEX rows");
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    session.run("UPDATE table_service_data.\"Orders\" SET partition_key = 'q'");
    let all = kinds(&session, "f");
    assert_eq!((all.len(), all[0].as_str()), (2, "insert Orders"));
    assert_gap(&all[1], "Orders", "a replica identity without the keys");
}

#[test]
fn the_owner_of_one_table_keeps_no_other_one_from_the_feed() {
    let feeds = Feeds::new();
    let session = feeds.session("session");
    session.run(&format!(
        "SELECT create_table('Orders'), create_table('Mine'); CREATE ROLE {0}_owner LOGIN;
        ALTER TABLE table_service_data.\"Mine\" OWNER TO {0}_owner; GRANT USAGE, CREATE ON SCHEMA table_service_data TO {0}_owner",
        feeds.database
    ));
    session.run("SELECT create_change_feed('f')");
    let owner = feeds.session_as(&format!("{}_owner", feeds.database), "owner");
    let write = |properties: &str| {
        owner.run(&format!(
            "INSERT INTO table_service_data.\"Mine\" (partition_key, row_key, properties) SELECT 'p', n::text, {properties} FROM generate_series(1, 100) AS n"
        ));
        session.run("SELECT insert_or_replace_entity('Orders', 'p', 'r', '{}')");
        owner.run("DELETE FROM table_service_data.\"Mine\"");
    };
    owner.run("CREATE UNIQUE INDEX rows ON table_service_data.\"Mine\" (row_key)");
    owner.run("ALTER TABLE table_service_data.\"Mine\" REPLICA IDENTITY USING INDEX rows");
    write("'{}'");
    let all = kinds(&session, "f");
    assert_eq!(all.len(), 102);
    assert_eq!(all[99..101], ["insert Mine", "insert Orders"]);
    assert_gap(&all[101], "Mine", "a replica identity without the keys");
    confirm(&session, "f");
    owner.run("ALTER TABLE table_service_data.\"Mine\" NOT OF");
    for (break_it, properties) in [
        ("DROP COLUMN properties CASCADE, ADD properties text", "'text'"),
        ("ALTER properties TYPE integer USING 1", "1"),
        (
            "ADD first text, DROP COLUMN properties, ADD properties properties",
            "'{}'",
        ),
    ] {
        owner.run(&format!("ALTER TABLE table_service_data.\"Mine\" {break_it}"));
        write(properties);
        let all = kinds(&session, "f");
        assert_eq!(
            (all.len(), all[1].as_str()),
            (3, "update Orders"),
            "{break_it}: {all:?}"
        );
        assert_gap(&all[0], "Mine", "other columns than an entity has");
        assert_gap(&all[2], "Mine", "other columns than an entity has");
        confirm(&session, "f");
    }
}

/// It would raise an error.
#[test]
fn no_code_of_a_tables_owner_runs_as_the_maker_or_the_reader_of_a_feed() {
    let feeds = Feeds::new();
    let session = feeds.session("session");
    let role = format!("{}_owner", feeds.database);
    session.run(&format!(
        "SELECT create_table('Orders'), create_table('Mine'); CREATE ROLE {role} LOGIN;
        GRANT USAGE, CREATE ON SCHEMA table_service_data, public TO {role};
        ALTER TABLE table_service_data.\"Mine\" OWNER TO {role}"
    ));
    let owner = feeds.session_as(&role, "owner");
    owner.run(&format!(
        "CREATE FUNCTION public.mine(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS
            $$ BEGIN IF current_user <> '{role}' THEN RAISE 'as %', current_user; END IF; RETURN $1; END $$;
        CREATE FUNCTION public.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.mine(''); RETURN NEW; END $$;
        CREATE DOMAIN public.checked AS text CHECK (public.mine(VALUE) IS NOT NULL);
        CREATE TRIGGER fire BEFORE INSERT OR UPDATE ON table_service_data.\"Mine\" FOR EACH ROW EXECUTE FUNCTION public.fire();
        CREATE INDEX ON table_service_data.\"Mine\" (public.mine(row_key)) WHERE public.mine(row_key) IS NOT NULL;
        CREATE STATISTICS public.mine ON public.mine(row_key), partition_key FROM table_service_data.\"Mine\";
        ALTER TABLE table_service_data.\"Mine\" ADD CHECK (public.mine(row_key) IS NOT NULL);
        CREATE POLICY mine ON table_service_data.\"Mine\" USING (public.mine(row_key) IS NOT NULL);
        ALTER TABLE table_service_data.\"Mine\" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    ));
    session.run("SELECT create_change_feed('f', old_images => true)");
    owner.run(
        "ALTER TABLE table_service_data.\"Mine\" NOT OF;
        ALTER TABLE table_service_data.\"Mine\" ADD a public.checked DEFAULT public.mine('a'),
            ADD c public.checked[] DEFAULT ARRAY[public.mine('c')]::public.checked[];
        INSERT INTO table_service_data.\"Mine\" (partition_key, row_key, properties) VALUES ('p', 'r', '{}');
        UPDATE table_service_data.\"Mine\" SET row_key = 's'",
    );
    session.run("SELECT create_change_feed('f', old_images => true, if_not_exists => true)");
    assert_eq!(
        changes(&session, "f"),
        ["insert Mine p r {}", "delete Mine p r", "insert Mine p s {}"]
    );
    confirm(&session, "f");
    assert_eq!(
        session.text("SELECT table_names FROM query_change_feeds()"),
        "{Mine,Orders}"
    );
    session.run("SELECT drop_change_feed('f')");
}

#[test]
fn roles_without_rights_make_and_read_no_feed() {
    let feeds = Feeds::new();
    let session = feeds.session("owner");
    session.run("SELECT create_table('Orders')");
    session.run("SELECT create_change_feed('f')");
    let position = session.text("SELECT \"position\" FROM query_change_feeds()");
    session.run(&format!(
        "CREATE ROLE {0}_none LOGIN; CREATE ROLE {0}_reader LOGIN REPLICATION; CREATE ROLE {0}_maker LOGIN REPLICATION;
        ALTER TABLE table_service_data.\"Orders\" OWNER TO {0}_maker; GRANT CREATE ON DATABASE {0} TO {0}_maker",
        feeds.database
    ));
    let calls = [
        "SELECT create_change_feed('g')".to_owned(),
        "SELECT create_change_feed('g', '{Orders}')".to_owned(),
        "SELECT drop_change_feed('f')".to_owned(),
        "SELECT * FROM query_changes('f')".to_owned(),
        "SELECT * FROM query_feed('f')".to_owned(),
        "SELECT mark_change_feed('f', 'm')".to_owned(),
        format!("SELECT confirm_changes('f', '{position}')"),
    ];
    let none = feeds.session_as(&format!("{}_none", feeds.database), "none");
    for call in &calls {
        let failure = failure(&none, call);
        assert_eq!(failure.sqlstate, "42501", "{call}: {failure:?}");
        assert!(failure.hint.contains("REPLICATION"), "{call}: {failure:?}");
    }
    assert_eq!(none.text("SELECT feed_name FROM query_change_feeds()"), "f");
    let reader = feeds.session_as(&format!("{}_reader", feeds.database), "reader");
    for call in &calls[..3] {
        assert_eq!(failure(&reader, call).sqlstate, "42501", "{call}");
    }
    for call in &calls[3..] {
        reader.run(call);
    }
    let maker = feeds.session_as(&format!("{}_maker", feeds.database), "maker");
    maker.run("SELECT create_change_feed('g')");
    maker.run("SELECT drop_change_feed('g')");
    let slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()";
    assert_eq!(session.text(slots), "1");
}

#[test]
fn a_restored_database_has_no_slot_and_says_so() {
    let (source, target) = (Feeds::new(), Feeds::new());
    let session = source.session("source");
    session.run("SELECT create_table('Orders'); SELECT insert_entity('Orders', 'p', 'r', '{}')");
    session.run("SELECT create_change_feed('f')");
    let dump = cluster().program("pg_dump").arg(&source.database).output().unwrap();
    assert!(dump.status.success());
    target
        .session("target")
        .run("DROP EXTENSION table_service CASCADE; DROP SCHEMA IF EXISTS table_service, table_service_data CASCADE");
    let mut restore = cluster().program("psql");
    restore.args(["-qX", "-v", "ON_ERROR_STOP=1", &target.database]);
    let mut restore = restore.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut restore.stdin.take().unwrap(), &dump.stdout).unwrap();
    assert!(restore.wait().unwrap().success());
    let session = target.session("target");
    assert_eq!(session.text("SELECT table_names FROM query_change_feeds()"), "{Orders}");
    for call in ["SELECT * FROM query_changes('f')", "SELECT confirm_changes('f', '0/1')"] {
        let failure = failure(&session, call);
        assert_eq!(failure.sqlstate, "42704", "{failure:?}");
        assert!(failure.hint.contains("copy the tables again"), "{failure:?}");
    }
    let exists = failure(&session, "SELECT create_change_feed('f')");
    assert_eq!(exists.sqlstate, "42710", "{exists:?}");
    assert!(exists.hint.contains("if_not_exists => true"), "{exists:?}");
    session.run("SELECT create_change_feed('f', if_not_exists => true)");
    session.run("SELECT insert_entity('Orders', 'p', 'new', '{}')");
    assert_eq!(changes(&session, "f"), ["insert Orders p new {}"]);
    session.run("SELECT drop_change_feed('f')");
    assert_eq!(session.text("SELECT count(*) FROM pg_publication"), "0");
}

#[test]
fn a_crash_keeps_what_is_confirmed_and_what_is_not() {
    let cluster = Cluster::start(&["fsync=off"]);
    let session = cluster.session();
    session.run("CREATE EXTENSION table_service; ALTER DATABASE postgres SET search_path = public, table_service");
    let session = cluster.session();
    session.run("SELECT create_table('Orders')");
    session.run("SELECT create_change_feed('f')");
    session.run("SELECT insert_entity('Orders', 'p', '1', '{}')");
    confirm(&session, "f");
    session.run("SELECT insert_entity('Orders', 'p', '2', '{}')");
    cluster.crash();
    let session = cluster.session();
    assert_eq!(changes(&session, "f"), ["insert Orders p 2 {}"]);
    let slot = session.text("SELECT slot_name FROM pg_replication_slots");
    if session.value::<i32>("SELECT current_setting('server_version_num')::int / 10000", &[]) >= 17 {
        let is_failover = format!("SELECT failover FROM pg_replication_slots WHERE slot_name = '{slot}'");
        assert_eq!(session.text(&is_failover), "t");
    }
}

#[test]
fn a_slot_that_lost_its_log_says_to_copy_again() {
    let cluster = with_a_feed(&["max_slot_wal_keep_size=1MB", "max_wal_size=32MB", "min_wal_size=32MB"]);
    let session = cluster.session();
    wait_until("the slot is lost", || {
        session.run("SELECT insert_or_replace_entity('Orders', 'p', 'r', '{}')");
        session.run("SELECT pg_switch_wal()");
        session.run("CHECKPOINT");
        session.text("SELECT wal_status FROM query_change_feeds()") == "lost"
    });
    let end = session.text("SELECT pg_current_wal_flush_lsn()");
    for call in [
        "SELECT * FROM query_changes('f')".to_owned(),
        format!("SELECT confirm_changes('f', '{end}')"),
    ] {
        let failure = failure(&session, &call);
        assert_eq!(failure.sqlstate, "55000", "{failure:?}");
        assert!(failure.hint.contains("copy the tables again"), "{failure:?}");
    }
    session.run("SELECT drop_change_feed('f')");
    session.run("SELECT create_change_feed('f')");
    assert!(changes(&session, "f").is_empty());
}

#[test]
fn a_session_ends_before_its_failed_reads_take_all_files_of_the_server() {
    let feeds = Feeds::new();
    let session = feeds.session("reader");
    session.run("SELECT create_table('Orders')");
    session.run("SELECT create_change_feed('f')");
    // No transaction is long: others that make a feed of all tables wait for it.
    session.run("DO $$ BEGIN FOR n IN 1..30000 LOOP PERFORM insert_entity('Orders', 'p', n::text, '{}'); IF n % 1000 = 0 THEN COMMIT; END IF; END LOOP; END $$");
    let read = "SELECT count(*) FROM query_changes('f', top => 30000)";
    let watcher = feeds.session("watcher");
    let is_read = format!(
        "SELECT active FROM pg_replication_slots WHERE slot_name = '{}'",
        feeds.slot("f")
    );
    let mut failures = 0;
    let last = loop {
        let pending = session.start(read).until("it reads", || watcher.text(&is_read) == "t");
        session.cancel();
        // A fast read has ended before.
        let Err(failure) = pending.finish() else { continue };
        failures += 1;
        if failure.sqlstate != "57014" || failures > 300 {
            break failure;
        }
    };
    assert_eq!(last.sqlstate, "53000", "{last:?}");
    assert!(session.sql("SELECT 1").is_err());
    assert_eq!(feeds.session("next").text(read), "30000");
}

#[test]
fn a_feed_without_changes_lets_the_log_of_others_go() {
    let feeds = Feeds::new();
    let session = feeds.session("session");
    session.run("SELECT create_table('Orders'); CREATE TABLE other (t text)");
    session.run("SELECT create_change_feed('f')");
    let position = || session.text("SELECT \"position\" FROM query_change_feeds()");
    let write_others = || session.run("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 30000)");
    write_others();
    let before = position();
    assert!(changes(&session, "f").is_empty());
    assert_ne!(position(), before);
    // Neither does a table keep the log that is in the publication and no table of the service.
    session.run("ALTER PUBLICATION table_service_f ADD TABLE other");
    write_others();
    let before = position();
    assert!(changes(&session, "f").is_empty());
    assert_ne!(position(), before);
    // The log that the slot retains also goes, when PostgreSQL has noted which transactions run.
    wait_until("the log goes", || {
        session.run("CHECKPOINT");
        write_others();
        assert!(changes(&session, "f").is_empty());
        session.text(
            "SELECT retained_bytes < 200000000 AND \"position\"::pg_lsn - '0/0' > 400000000 FROM query_change_feeds()",
        ) == "t"
    });
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    assert_eq!(changes(&session, "f"), ["insert Orders p r {}"]);
    // It stays when there is something to read.
    write_others();
    let before = position();
    assert_eq!(changes(&session, "f"), ["insert Orders p r {}"]);
    assert_eq!(position(), before);
}

#[test]
fn a_server_without_logical_decoding_or_without_a_slot_says_what_to_do() {
    let set_up = |settings: &[&str]| {
        let cluster = Cluster::start(settings);
        cluster.session().run(
            "CREATE EXTENSION table_service; SELECT table_service.create_table('Orders');
            ALTER DATABASE postgres SET search_path = public, table_service",
        );
        cluster
    };
    let refuses = |cluster: Cluster| {
        let refused = failure(&cluster.session(), "SELECT create_change_feed('f')");
        assert_eq!(refused.sqlstate, "55000", "{refused:?}");
        assert!(refused.hint.contains("wal_level"), "{refused:?}");
    };
    refuses(set_up(&["wal_level=minimal", "max_wal_senders=0"]));
    let replica = set_up(&["wal_level=replica"]);
    let session = replica.session();
    if session.value::<i32>("SELECT current_setting('server_version_num')::int / 10000", &[]) < 19 {
        refuses(replica);
    } else {
        // The first slot makes the server write the log that logical decoding needs.
        session.run("SELECT create_change_feed('f')");
        session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
        assert_eq!(changes(&session, "f"), ["insert Orders p r {}"]);
    }
    let full = set_up(&["max_replication_slots=1"]);
    let session = full.session();
    session.run("SELECT create_change_feed('f')");
    let refused = failure(&session, "SELECT create_change_feed('g')");
    assert_eq!(refused.sqlstate, "53400", "{refused:?}");
    assert!(refused.hint.contains("drop_change_feed"), "{refused:?}");
    assert_eq!(session.text("SELECT count(*) FROM pg_publication"), "1");
}

#[test]
fn a_transaction_that_ran_when_the_feed_was_made_is_read_or_named() {
    let feeds = Feeds::new();
    let (session, other) = (feeds.session("session"), feeds.session("other"));
    session.run("SELECT create_table('Orders'); CREATE TABLE other (n integer)");
    // The slot waits for transactions that run. Those that begin after it wait only for the tables of the feed.
    session.run("BEGIN; SELECT create_change_feed('f')");
    other.run("BEGIN; INSERT INTO other VALUES (1)");
    session.run("COMMIT");
    other.run("SELECT insert_entity('Orders', 'p', 'r', '{}'); COMMIT");
    let version = session.value::<i32>("SELECT current_setting('server_version_num')::int / 10000", &[]);
    if version >= 18 {
        assert_eq!(changes(&session, "f"), ["insert Orders p r {}"]);
        return;
    }
    let unreadable = failure(&session, "SELECT * FROM query_changes('f')");
    assert_eq!(unreadable.sqlstate, "42704", "{unreadable:?}");
    assert!(unreadable.hint.contains("copy the tables again"), "{unreadable:?}");
    session.run(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()",
    );
    session.run("SELECT create_change_feed('f', if_not_exists => true)");
    session.run("SELECT insert_entity('Orders', 'p', 's', '{}')");
    assert_eq!(changes(&session, "f"), ["insert Orders p s {}"]);
}

#[test]
fn a_new_feed_makes_no_writer_fail_that_writes_several_tables() {
    let feeds = Feeds::new();
    let (creator, writer, other) = (
        feeds.session("creator"),
        feeds.session("writer"),
        feeds.session("other"),
    );
    let waiting = |table: &str| {
        other.text(&format!(
            "SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database WHERE NOT l.granted AND d.datname = current_database() AND l.relation = 'table_service_data.\"{table}\"'::regclass"
        ))
    };
    for old_images in [false, true] {
        writer.run("SELECT create_table('Items'); SELECT create_table('Orders')");
        // The feed has its slot, and waits for the first table, while the writer locks the second one.
        other.run("BEGIN; LOCK TABLE table_service_data.\"Items\" IN ROW EXCLUSIVE MODE");
        std::thread::scope(|scope| {
            let creating = scope.spawn(|| {
                creator.sql(&format!(
                    "SELECT create_change_feed('f', '{{Items,Orders}}', {old_images})"
                ))
            });
            wait_until("the feed waits for a table", || waiting("Items") != "0");
            writer.run("BEGIN; SELECT insert_entity('Orders', 'p', 'r', '{}')");
            other.run("COMMIT");
            wait_until("the feed waits for the other table", || waiting("Orders") != "0");
            writer.run("SELECT insert_entity('Items', 'p', 'r', '{}')");
            // An attempt was given up, so the writer could go on; now the feed waits for its end.
            writer.run("COMMIT");
            creating.join().unwrap().unwrap();
        });
        writer.run("SELECT insert_entity('Items', 'p', 's', '{}')");
        assert_eq!(changes(&writer, "f"), ["insert Items p s {}"]);
        // The feed waits no longer than the caller wants to, and leaves nothing.
        writer.run("SELECT drop_change_feed('f')");
        creator.run("SET lock_timeout = '1s'");
        writer.run("BEGIN; LOCK TABLE table_service_data.\"Orders\" IN ROW EXCLUSIVE MODE");
        let refused = refused_for_a_table(&creator);
        let named = "Another session uses the table table_service_data.\"Orders\".";
        assert!(refused.hint.starts_with(named), "{refused:?}");
        // First it waits for a transaction that has written.
        other.run("BEGIN; LOCK TABLE table_service_data.\"Items\"");
        let refused = failure(&creator, "SELECT create_change_feed('f')");
        assert_eq!(refused.sqlstate, "55P03", "{refused:?}");
        assert!(refused.hint.contains("backend_xid"), "{refused:?}");
        other.run("COMMIT");
        creator.run("RESET lock_timeout");
        writer.run("COMMIT");
        assert_eq!(writer.text("SELECT count(*) FROM query_change_feeds()"), "0");
        writer.run("SELECT delete_table('Items'); SELECT delete_table('Orders')");
    }
}

/// The refusal of a feed because of a table. A new feed waits first for the transactions of all databases of the server,
/// and other tests have some.
fn refused_for_a_table(session: &Session) -> Failure {
    loop {
        let refused = failure(session, "SELECT create_change_feed('f')");
        assert_eq!(refused.sqlstate, "55P03", "{refused:?}");
        if refused.hint.starts_with("Another session uses the table ") {
            return refused;
        }
    }
}

#[test]
fn a_feed_of_all_tables_does_not_wait_for_ever_for_a_strangers() {
    let feeds = Feeds::new();
    let (creator, stranger) = (feeds.session("creator"), feeds.session("stranger"));
    creator.run("SELECT create_table('Orders'); SELECT create_table('Strange')");
    stranger.run("BEGIN; LOCK TABLE table_service_data.\"Strange\" IN ROW EXCLUSIVE MODE");
    let refused = refused_for_a_table(&creator);
    let named = "Another session uses the table table_service_data.\"Strange\".";
    assert!(refused.hint.starts_with(named), "{refused:?}");
    creator.run("SELECT create_change_feed('f', '{Orders}')");
    stranger.run("COMMIT");
}

#[test]
fn a_session_is_interrupted_also_after_the_end_of_a_transaction_went_wrong() {
    let feeds = Feeds::new();
    let (session, other) = (feeds.session("one"), feeds.session("other"));
    session.run("SELECT create_table('Orders')");
    session.run("SELECT create_change_feed('f')");
    let insert = |n: u32| session.run(&format!("SELECT insert_entity('Orders', 'p', '{n}', '{{}}')"));
    let is_interrupted = || {
        let failed = failure(&session, "SET statement_timeout = '100ms'; SELECT pg_sleep(20)");
        failed.message.contains("statement timeout")
    };
    // A feed that is confirmed and dropped, or made and dropped, needs no more than the drop.
    insert(1);
    session.run("BEGIN");
    confirm(&session, "f");
    session.run("SELECT drop_change_feed('f'); COMMIT");
    session.run("BEGIN; SELECT create_change_feed('g'); SELECT drop_change_feed('g'); COMMIT");
    assert!(is_interrupted());
    assert_eq!(session.text("SELECT count(*)::text FROM query_change_feeds()"), "0");
    // The slot is gone when its position is to be confirmed.
    session.run("SELECT create_change_feed('f')");
    insert(2);
    session.run("BEGIN");
    confirm(&session, "f");
    other.run(&format!("SELECT pg_drop_replication_slot('{}')", feeds.slot("f")));
    session.run("COMMIT");
    assert!(is_interrupted());
}

#[test]
fn a_drop_that_does_not_commit_leaves_the_feed() {
    let feeds = Feeds::new();
    let (session, other) = (feeds.session("one"), feeds.session("other"));
    session.run("SELECT create_table('Orders'); CREATE TABLE skew AS SELECT 1 AS n, 0 AS v UNION SELECT 2, 0");
    session.run("SELECT create_change_feed('f')");
    // Each reads the row that the other writes, so one of them fails when it commits.
    session.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(v) FROM skew; SELECT drop_change_feed('f')");
    other.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(v) FROM skew; UPDATE skew SET v = 1 WHERE n = 1");
    session.run("UPDATE skew SET v = 1 WHERE n = 2");
    other.run("COMMIT");
    assert_eq!(failure(&session, "COMMIT").sqlstate, "40001");
    session.run("ROLLBACK");
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    assert_eq!(changes(&session, "f"), ["insert Orders p r {}"]);
}

#[test]
fn a_publication_whose_name_has_another_case_is_none_of_a_feed() {
    let feeds = Feeds::new();
    let session = feeds.session("owner");
    session.run("SELECT create_table('Items')");
    session.run("SELECT create_change_feed('Items')");
    let (_, other) = service_and_other(&feeds);
    other.run("CREATE PUBLICATION \"TABLE_SERVICE_ITEMS\"; CREATE PUBLICATION \"table_service_Items\"; CREATE PUBLICATION \"table_service_New\"");
    session.run("SELECT insert_entity('Items', 'p', 'r', '{}')");
    assert_eq!(changes(&session, "ITEMS"), ["insert Items p r {}"]);
    confirm(&session, "Items");
    assert_eq!(
        session.run("SELECT feed_name, table_names FROM query_change_feeds()"),
        [[Some("items".to_owned()), Some("{Items}".to_owned())]]
    );
    session.run("SELECT drop_change_feed('Items')");
    assert_eq!(slots(&session), "0");
    session.run("SELECT create_change_feed('New')");
    assert_eq!(session.text("SELECT count(*) FROM pg_publication"), "4");
}

/// Decoding ends where the log is on the disk.
#[test]
fn a_page_has_what_is_committed_and_not_yet_on_the_disk() {
    let cluster = with_a_feed(&["wal_writer_delay=10s"]);
    let (reader, writer) = (cluster.session(), cluster.session());
    reader.run("SET default_transaction_read_only = on");
    writer.run("SET synchronous_commit = off");
    for n in 1..=100 {
        writer.run(&format!("SELECT insert_entity('Orders', 'p', '{n}', '{{}}')"));
        assert_eq!(reader.text("SELECT count(*) FROM query_changes('f')"), n.to_string());
    }
}
