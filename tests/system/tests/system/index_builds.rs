//! Property indexes that are built while others write, that a crash leaves unfinished, and that are read in little memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use system_tests::random::Random;
use system_tests::{Cluster, Database, Session, wait_until};

const WRITERS: usize = 4;
const KEYS: usize = 60;
/// Few values, so that equalities find many entities.
const VALUES: usize = 5;

/// Writes of all kinds, until `stop`. Conflicts with other writers are part of it.
fn write(session: &Session, writer: usize, stop: &AtomicBool, writes: &AtomicUsize) {
    let mut random = Random::new(writer as u64);
    while !stop.load(Ordering::Relaxed) {
        let (partition, row, value) = (random.below(3), random.below(KEYS), random.below(VALUES));
        let key = format!("'Things', 'p{partition}', '{row:03}'");
        let bag = match random.below(4) {
            0 => r#"{"Other": 1}"#.to_owned(),
            1 => format!(r#"{{"N": {value}.0}}"#),
            2 => format!(r#"{{"N": "{value}"}}"#),
            _ => format!(r#"{{"N": {value}}}"#),
        };
        let sql = match random.below(9) {
            0 => format!("SELECT insert_entity({key}, '{bag}')"),
            1 => format!("SELECT replace_entity({key}, '{bag}', '*')"),
            2 => format!("SELECT merge_entity({key}, '{bag}', '*')"),
            3 => format!("SELECT insert_or_replace_entity({key}, '{bag}')"),
            4 => format!("SELECT insert_or_merge_entity({key}, '{bag}')"),
            5 => format!("SELECT delete_entity({key}, if_exists => true)"),
            6 => format!(
                "SELECT count(*) FROM execute_batch('Things', 'p{partition}', batch_insert_or_replace('{row:03}', '{bag}'),
                    batch_insert_or_merge('{:03}', '{bag}'))",
                row + KEYS
            ),
            7 => format!("DELETE FROM table_service_data.\"Things\" WHERE partition_key = 'p{partition}' AND row_key = '{row:03}'"),
            _ => format!("UPDATE table_service_data.\"Things\" SET properties = '{bag}' WHERE partition_key = 'p{partition}' AND row_key = '{row:03}'"),
        };
        match session.sql(&sql) {
            Ok(_) => {
                writes.fetch_add(1, Ordering::Relaxed);
            }
            // There already, not there, or a deadlock of direct writes with a batch.
            Err(failure) if ["23505", "P0002", "40P01"].contains(&failure.sqlstate.as_str()) => {}
            Err(failure) => panic!("{sql}: {failure:?}"),
        }
    }
}

fn prepare(session: &Session) {
    session.run("SET search_path = table_service; SELECT create_table('Things')");
    session.run(
        "INSERT INTO table_service_data.\"Things\" SELECT 'p' || n % 3, lpad((n / 3)::text, 3, '0'), clock_timestamp(), jsonb_build_object('N', n % 5)::properties
        FROM generate_series(0, 179) AS n",
    );
}

/// Filters find the same with the index as in the whole table.
fn assert_index_is_complete(session: &Session) {
    for value in 0..VALUES {
        for filter in [
            format!("N eq {value}"),
            format!("N eq '{value}'"),
            format!("N ge {value} and N lt {}", value + 2),
            format!("PartitionKey eq 'p1' and N eq {value}"),
        ] {
            let found = session.text(&format!(
                "SELECT coalesce(string_agg(partition_key || row_key, ' '), '') FROM query_entities('Things', $${filter}$$)"
            ));
            // The condition hides the filter from the planner, so no index serves it.
            let there = session.text(&format!(
                "SELECT coalesce(string_agg(partition_key || row_key, ' ' ORDER BY partition_key, row_key), '')
                FROM table_service_data.\"Things\" AS e WHERE CASE WHEN matches(e, $${filter}$$) THEN true ELSE false END"
            ));
            assert_eq!(found, there, "{filter}");
        }
    }
    // Every entity with the property has one entry, and the index has no other.
    let [all, through_index] = ["seqscan", "indexscan"].map(|used| {
        session.run("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off");
        session.run(&format!("SET enable_{used} = on"));
        session.text(
            "SELECT count(*) || ' ' || coalesce(md5(string_agg(partition_key || row_key, ' ' ORDER BY partition_key, row_key)), '')
            FROM table_service_data.\"Things\" WHERE property_index_key(partition_key, row_key, properties, 'N') IS NOT NULL",
        )
    });
    session.run("RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexscan");
    assert_eq!(all, through_index);
}

fn index_of_n(session: &Session) -> Vec<Vec<Option<String>>> {
    session.run("SELECT is_valid FROM query_property_indexes('Things') WHERE property = 'N'")
}

#[test]
fn an_index_is_built_while_others_write() {
    let db = Database::new();
    let session = db.session("builder");
    prepare(&session);
    for round in 0..3 {
        let (stop, writes) = (AtomicBool::new(false), AtomicUsize::new(0));
        let sessions: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let session = db.session(&format!("writer {writer}"));
                session.run("SET search_path = table_service");
                session
            })
            .collect();
        std::thread::scope(|scope| {
            for (writer, session) in sessions.iter().enumerate() {
                let (stop, writes) = (&stop, &writes);
                scope.spawn(move || write(session, writer + round * WRITERS, stop, writes));
            }
            let built = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let more = |count: usize| {
                    let now = writes.load(Ordering::Relaxed);
                    wait_until("the writers write", || writes.load(Ordering::Relaxed) >= now + count);
                };
                more(50);
                session.run(&session.text("SELECT property_index_sql('Things', 'N')"));
                more(100);
            }));
            stop.store(true, Ordering::Relaxed);
            built.unwrap();
        });
        assert_eq!(index_of_n(&session), [[Some("t".to_owned())]]);
        assert_index_is_complete(&session);
        session.run("SELECT drop_property_index('Things', 'N')");
    }
}

#[test]
fn an_unfinished_index_is_not_used() {
    let cluster = Cluster::start(&["fsync=on", "full_page_writes=on"]);
    let session = cluster.session();
    session.run("CREATE EXTENSION table_service");
    prepare(&session);
    let sql = session.text("SELECT property_index_sql('Things', 'N')");
    // The build waits for this transaction.
    let writer = cluster.session();
    writer.run("BEGIN; SELECT table_service.insert_entity('Things', 'p0', 'open', '{\"N\": 1}')");
    let builder = cluster.session();
    std::thread::scope(|scope| {
        scope.spawn(|| builder.sql(&sql).unwrap_err());
        wait_until("the build waits", || {
            session.text("SELECT count(*) FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting%'") == "1"
        });
        // While it is built, queries do not read it.
        assert_eq!(
            session.text("SELECT access FROM explain_query('Things', 'N eq 1')"),
            "table scan"
        );
        cluster.crash();
    });
    let session = cluster.session();
    session.run("SET search_path = table_service");
    assert_eq!(index_of_n(&session), [[Some("f".to_owned())]]);
    assert_eq!(
        session.text("SELECT access FROM explain_query('Things', 'N eq 1')"),
        "table scan"
    );
    session.run("SELECT insert_entity('Things', 'p0', 'later', '{\"N\": 1}'), merge_entity('Things', 'p0', '000', '{\"N\": 1}', '*')");
    assert_eq!(
        session.text("SELECT count(*) FROM query_entities('Things', 'N eq 1 and RowKey gt ''l''')"),
        "1"
    );
    // Another one takes its place.
    session.run("SELECT drop_property_index('Things', 'N')");
    session.run(&session.text("SELECT property_index_sql('Things', 'N')"));
    assert_eq!(
        session.text("SELECT access FROM explain_query('Things', 'N eq 1')"),
        "property index scan"
    );
    assert_index_is_complete(&session);
}

/// With little memory, a bitmap knows only pages, and every entity of a page is tested; and a sort goes to disk.
#[test]
fn little_memory_loses_no_entity() {
    let db = Database::new();
    let session = db.session("reader");
    session.run("SET search_path = table_service; SELECT create_table('Things')");
    session.run(
        "INSERT INTO table_service_data.\"Things\" SELECT 'p' || n % 3, lpad(n::text, 6, '0'), clock_timestamp(),
            jsonb_build_object('N', n * 7919 % 40000, 'Text', repeat('x', 200))::properties
        FROM generate_series(0, 39999) AS n",
    );
    session.run("SELECT create_property_index('Things', 'N')");
    session.run("SET work_mem = '64kB'; SET enable_seqscan = off; SET enable_indexscan = off");
    let filter = "N ge 1000 and N lt 9000";
    let matching = format!("FROM table_service_data.\"Things\" AS e WHERE matches(e, '{filter}')");
    assert_eq!(session.text(&format!("SELECT count(*) {matching}")), "8000");
    let plan = session.run(&format!("EXPLAIN (ANALYZE, COSTS OFF) SELECT * {matching}"));
    let knows_pages = |line: &str| line.contains("Heap Blocks:") && line.contains("lossy=");
    assert!(
        plan.iter().flatten().flatten().any(|line| knows_pages(line)),
        "{plan:?}"
    );

    let written = || {
        session.run("SELECT pg_stat_force_next_flush()");
        session.value::<i64>(
            "SELECT temp_bytes FROM pg_stat_database WHERE datname = current_database()",
            &[],
        )
    };
    let before = written();
    let found = session.text(&format!(
        "SELECT count(*) || ' ' || count(DISTINCT row_key) || ' ' || bool_and(ordered)
        FROM (SELECT row_key, (partition_key, row_key) > lag((partition_key, row_key)) OVER () IS NOT FALSE AS ordered
              FROM query_entities('Things', '{filter}')) AS e"
    ));
    assert_eq!(found, "8000 8000 true");
    assert!(written() > before, "the entities were sorted in memory");
}
