//! Queries during writes, with a time limit, cancelled, in little memory, and on tables that change while they run.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use system_tests::{Database, Expect, Session, Texts};

use crate::hostile_json::peak;
use system_tests::random::Random;

/// A table of `count` entities in ten partitions, inserted in random key order and numbered in `N`. There are no
/// statistics.
fn fill(session: &Session, table: &str, count: usize) {
    session.run(&format!("SELECT table_service.create_table('{table}')"));
    session.run(&format!(
        "ALTER TABLE table_service_data.\"{table}\" SET (autovacuum_enabled = off)"
    ));
    session.run(&format!(
        "INSERT INTO table_service_data.\"{table}\" SELECT 'p' || n % 10, lpad(n::text, 8, '0'), '2022-04-13T21:50:14Z',
            pg_catalog.format('{{\"N\": %s, \"Text\": \"%s\"}}', n, md5(n::text))::table_service.properties
        FROM (SELECT i * 7919::bigint % {count} AS n FROM generate_series(1, {count}) AS i) AS n"
    ));
}

fn key(row: &[Option<String>]) -> Option<(String, String)> {
    Some((row[0].clone()?, row[1].clone()?))
}

/// One page: its entities' keys, and the token.
fn page(
    session: &Session,
    table: &str,
    filter: &str,
    top: i64,
    token: Option<&str>,
) -> (Vec<(String, String)>, Option<String>) {
    let rows = session
        .query(
            "SELECT partition_key, row_key, continuation_token FROM table_service.query_page($1, $2, NULL, $3, $4)",
            &[&table, &filter, &top, &token],
        )
        .unwrap();
    let keys: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?)))
        .collect();
    // Only a page without entities has a row of NULLs, and only the last row has a token.
    assert_eq!(keys.len(), if keys.is_empty() { 0 } else { rows.len() }, "{filter}");
    let tokens = rows.iter().filter(|row| row.get::<_, Option<&str>>(2).is_some());
    assert!(tokens.count() <= usize::from(rows.last().is_some_and(|row| row.get::<_, Option<&str>>(2).is_some())));
    (keys, rows.last().and_then(|row| row.get(2)))
}

/// All pages: the keys as they came, and how many pages.
fn pages(session: &Session, table: &str, filter: &str, top: i64) -> (Vec<(String, String)>, usize) {
    let (mut keys, mut token, mut count) = (Vec::new(), None, 0);
    loop {
        let (more, next) = page(session, table, filter, top, token.as_deref());
        keys.extend(more);
        count += 1;
        assert!(count < 100_000, "{filter}: the pages do not end");
        if next.is_none() {
            return (keys, count);
        }
        token = next;
    }
}

fn whole(session: &Session, table: &str, filter: &str) -> Vec<(String, String)> {
    let rows = session
        .query(
            "SELECT partition_key, row_key FROM table_service.query_entities($1, $2)",
            &[&table, &filter],
        )
        .unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

const FILTERS: [&str; 7] = [
    "",
    "N ge 0 and not (N lt 100)",
    "Text gt 'f8'",
    // No entity matches.
    "N lt 0",
    "(PartitionKey eq 'p1' or PartitionKey eq 'p7' and RowKey gt '00001000' or PartitionKey gt 'p8') and Text lt '1'",
    "(PartitionKey eq 'p3' and RowKey ne '00000503') or RowKey lt '00000020' and N gt 7",
    "RowKey ge '00001990'",
];

#[test]
fn pages_cut_by_time_add_up_to_the_whole_result() {
    let db = Database::new();
    let session = db.session("s");
    fill(&session, "Cut", 2000);
    for filter in FILTERS {
        let expected = whole(&session, "Cut", filter);
        for (limit, top) in [("0", 1000), ("1ms", 1000), ("1ms", 7), ("5s", 100)] {
            session.run(&format!("SET table_service.page_time_limit = '{limit}'"));
            let (keys, count) = pages(&session, "Cut", filter, top);
            assert_eq!(keys, expected, "{filter}, {limit}");
            if limit == "0" && !filter.is_empty() && !filter.contains('(') {
                // A page examines one entity, and names the next.
                assert_eq!(count, 2000, "{filter}");
            }
        }
    }
    // A page that the time limit has cut has a token, even if it found no entity.
    session.run("SET table_service.page_time_limit = 0");
    assert_eq!(
        session.run("SELECT partition_key, row_key, timestamp, properties, continuation_token IS NOT NULL FROM table_service.query_page('Cut', 'N lt 0')"),
        [[None, None, None, None, Some("t".to_owned())]]
    );
}

/// Writers insert and delete entities between those that stay.
#[test]
fn pages_read_during_writes_lose_and_repeat_nothing() {
    let db = Database::new();
    let session = db.session("reader");
    fill(&session, "Busy", 700);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (db, over) = (&db, &over);
            scope.spawn(move || {
                let session = db.session(&format!("writer {writer}"));
                let mut random = Random::new(writer);
                while !over.load(Ordering::Relaxed) {
                    let (pk, n) = (random.below(10), random.below(700));
                    let statement = if random.chance(50) {
                        format!(
                            "insert_or_replace_entity('Busy', 'p{pk}', '{n:08}x', '{{\"N\": {n}, \"Text\": \"f9\"}}')"
                        )
                    } else {
                        format!("delete_entity('Busy', 'p{pk}', '{n:08}x', if_exists => true)")
                    };
                    session.run(&format!("SELECT table_service.{statement}"));
                }
            });
        }
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for filter in FILTERS {
                let stays = |key: &(String, String)| !key.1.ends_with('x');
                let expected: Vec<_> = whole(&session, "Busy", filter).into_iter().filter(stays).collect();
                for (limit, top) in [("0", 1000), ("1ms", 1000), ("1ms", 13)] {
                    session.run(&format!("SET table_service.page_time_limit = '{limit}'"));
                    let (keys, _) = pages(&session, "Busy", filter, top);
                    assert!(keys.is_sorted(), "{filter}: not in order");
                    assert_eq!(
                        keys.iter().collect::<BTreeSet<_>>().len(),
                        keys.len(),
                        "{filter}: repeated"
                    );
                    let found: Vec<_> = keys.into_iter().filter(stays).collect();
                    assert_eq!(found, expected, "{filter}, {limit}");
                }
            }
        }));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = checked {
            std::panic::resume_unwind(panic);
        }
    });
}

/// An entity that transactions move between two keys is always under exactly one of them.
#[test]
fn all_ranges_of_a_query_have_one_snapshot() {
    let db = Database::new();
    let session = db.session("reader");
    fill(&session, "Moving", 100);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let session = db.session("mover");
            session.run("SELECT table_service.insert_entity('Moving', 'a', 'x', '{\"N\": -1}')");
            let mut places = ["a", "q"];
            while !over.load(Ordering::Relaxed) {
                session.run(&format!(
                    "BEGIN; SELECT table_service.delete_entity('Moving', '{}', 'x');
                    SELECT table_service.insert_entity('Moving', '{}', 'x', '{{\"N\": -1}}'); COMMIT",
                    places[0], places[1]
                ));
                places.swap(0, 1);
            }
        });
        system_tests::wait_until("the entity is there", || {
            !whole(&session, "Moving", "RowKey eq 'x'").is_empty()
        });
        let filter =
            "(PartitionKey eq 'a' or PartitionKey eq 'q' or PartitionKey eq 'p3' or PartitionKey eq 'p5') and N lt 0";
        let found: Vec<_> = (0..2000).map(|_| whole(&session, "Moving", filter).len()).collect();
        over.store(true, Ordering::Relaxed);
        assert!(found.iter().all(|&count| count == 1), "{found:?}");
    });
}

#[test]
fn a_long_scan_is_cancelled() {
    let db = Database::new();
    let session = db.session("s");
    fill(&session, "Long", 200_000);
    let alive = |session: &Session| {
        assert_eq!(
            whole(session, "Long", "PartitionKey eq 'p3' and RowKey eq '00000013'").len(),
            1
        )
    };
    alive(&session);
    let queries = [
        "query_entities('Long', 'Text eq ''nobody''')",
        "query_entities('Long', 'not (Text ne ''nobody'') and (PartitionKey lt ''p4'' or PartitionKey gt ''p5'')')",
        "query_page('Long', 'Text eq ''nobody'' or RowKey eq ''nobody''')",
        "query_page_json('Long', 'Text eq ''nobody''')",
        "partition_statistics('Long')",
    ];
    for query in queries {
        // The failure takes the setting back.
        session
            .sql(&format!(
                "SET statement_timeout = '5ms'; SELECT count(*) FROM table_service.{query}, generate_series(1, 1000)"
            ))
            .fails_in_postgres("57014");
        alive(&session);
        // By the user, again and again: in a query that takes a while, one of them hits the scan.
        let watcher = db.session("watcher");
        let pending = session.start(&format!(
            "DO $$ BEGIN LOOP PERFORM count(*) FROM table_service.{query}; END LOOP; END $$"
        ));
        system_tests::wait_until("it runs", || {
            watcher.value::<bool>(
                "SELECT state = 'active' FROM pg_catalog.pg_stat_activity WHERE pid = $1",
                &[&session.pid()],
            )
        });
        session.cancel();
        pending.finish().fails_in_postgres("57014");
        alive(&session);
    }
    // A page that was cancelled has left no deadline behind.
    assert_eq!(whole(&session, "Long", "N lt 500").len(), 500);
}

#[test]
fn memory_does_not_grow_with_the_result() {
    let db = Database::new();
    let session = db.session("s");
    fill(&session, "Large", 300_000);
    let count = |filter: &str| {
        let query = format!("SELECT count(*) FROM table_service.query_entities('Large', '{filter}')");
        session.text(&query).parse::<usize>().unwrap()
    };
    for filter in ["", "N ge 0", "Text gt ''0''", "PartitionKey ne ''p5''"] {
        // Plans and caches are there.
        count(filter);
        let grown = peak(&session, || {
            assert!(count(filter) >= 270_000);
        });
        // A tenth of the result takes 9 MiB.
        assert!(grown < 40 * 1024 * 1024, "{filter}: {grown} bytes");
    }
}

/// Each value is unpacked to 64 KiB to be tested, and forgotten before the next one.
#[test]
fn memory_does_not_grow_with_the_number_of_points() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Packed')");
    session.run(
        "SELECT table_service.insert_entity('Packed', 'p', lpad(n::text, 4, '0'),
            pg_catalog.jsonb_build_object('A', repeat('a', 32000), 'B', repeat('b', 32000), 'N', n))
        FROM generate_series(1, 2000) AS n",
    );
    let points = |count: usize| {
        let points: Vec<_> = (1..=count)
            .map(|n| format!("(PartitionKey eq 'p' and RowKey eq '{n:04}')"))
            .collect();
        format!("({}) and N gt 0 and A lt 'b'", points.join(" or "))
    };
    let count = |call: &str, filter: &str| {
        let rows = session
            .query(&format!("SELECT count(*) FROM {call}"), &[&filter])
            .unwrap();
        rows[0].get::<_, i64>(0)
    };
    for (call, found) in [
        ("table_service.query_entities('Packed', $1, 'N')", 2000),
        ("table_service.query_entities('Packed', $1, 'N', 2000)", 2000),
        // A page ends at 16 MiB.
        ("table_service.query_page('Packed', $1, 'N')", 230),
    ] {
        let few = points(20);
        assert_eq!(count(call, &few), 20);
        let small = peak(&session, || {
            count(call, &few);
        });
        let filter = points(2000);
        let large = peak(&session, || assert_eq!(count(call, &filter), found, "{call}"));
        // All of them unpacked are 128 MB. The filter itself, its plan and the pages of the table take some.
        assert!(large < small + 32 * 1024 * 1024, "{call}: {small} bytes, then {large}");
    }
}

/// How many bytes of PostgreSQL's memory contexts a session holds, and how many plans.
fn kept(session: &Session) -> (i64, i64) {
    let row = session
        .query(
            "SELECT sum(total_bytes)::bigint, count(*) FILTER (WHERE name LIKE 'CachedPlan%') FROM pg_catalog.pg_backend_memory_contexts",
            &[],
        )
        .unwrap();
    (row[0].get(0), row[0].get(1))
}

#[test]
fn memory_does_not_grow_with_the_number_of_filters() {
    let db = Database::new();
    let session = db.session("s");
    fill(&session, "Many", 50);
    let run = |from: usize, to: usize| {
        for n in from..to {
            let (a, b) = (n % 50, n % 7);
            for filter in [
                format!("N eq {n}"),
                format!("PartitionKey eq 'p{b}' and RowKey ge '{a:08}' and Text ne '{n}'"),
                format!("PartitionKey gt 'p{b}' and RowKey lt '{n}' or RowKey eq '{n}'"),
                format!(
                    "(PartitionKey eq 'p{a}' and RowKey eq '{n}') or (PartitionKey eq 'q{n}' and not (RowKey gt '{n}'))"
                ),
            ] {
                whole(&session, "Many", &filter);
                page(&session, "Many", &filter, 5, None);
                session
                    .query(
                        "SELECT count(*) FROM table_service_data.\"Many\" AS m WHERE table_service.matches(m, $1)",
                        &[&filter],
                    )
                    .unwrap();
            }
        }
    };
    run(0, 100);
    let (bytes, plans) = kept(&session);
    let rss = || {
        let status = fs::read_to_string(format!("/proc/{}/status", session.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    let before = rss();
    run(100, 800);
    let (later_bytes, later_plans) = kept(&session);
    assert!(later_plans <= plans + 4, "{plans} plans, then {later_plans}");
    assert!(later_bytes < bytes + 512 * 1024, "{bytes} bytes, then {later_bytes}");
    assert!(rss() < before + 2048, "{before} kB, then {}", rss());
}

#[test]
fn plans_follow_the_table() {
    let db = Database::new();
    let (session, other) = (db.session("s"), db.session("other"));
    fill(&session, "Changing", 300);
    let filter =
        "(PartitionKey eq 'p1' or PartitionKey gt 'p7' or PartitionKey eq 'p3' and RowKey gt '00000100') and N ge 10";
    let expected = whole(&session, "Changing", filter);
    session.run("SET table_service.page_time_limit = 0");
    let check = |table: &str, what: &str| {
        assert_eq!(whole(&session, table, filter), expected, "{what}");
        assert_eq!(pages(&session, table, filter, 1000).0, expected, "{what}, in pages");
        assert_eq!(
            pages(&session, table, "", 7).0,
            whole(&session, table, ""),
            "{what}, in pages"
        );
    };
    check("Changing", "as it was");
    for change in [
        "ANALYZE table_service_data.\"Changing\"",
        "CREATE INDEX by_row ON table_service_data.\"Changing\" (row_key, partition_key)",
        "CLUSTER table_service_data.\"Changing\"",
        "VACUUM FULL table_service_data.\"Changing\"",
        "ALTER TABLE table_service_data.\"Changing\" SET (fillfactor = 50)",
        "ALTER TABLE table_service_data.\"Changing\" ADD CONSTRAINT many CHECK (partition_key <> 'nobody')",
        // Without its primary key a table is not read in key order: its pages are still complete.
        "DO $$ BEGIN EXECUTE (SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint WHERE conrelid = 'table_service_data.\"Changing\"'::regclass AND contype = 'p'); END $$",
        "DROP INDEX table_service_data.by_row",
        "DO $$ BEGIN EXECUTE format('ALTER TABLE table_service_data.\"Changing\" ADD CONSTRAINT %I PRIMARY KEY (partition_key, row_key)', 'pk_' || md5('changing')); END $$",
        "ALTER TABLE table_service_data.\"Changing\" DISABLE TRIGGER ALL",
    ] {
        other.run(change);
        check("Changing", change);
    }
    other.run("ALTER TABLE table_service_data.\"Changing\" RENAME TO \"Changed\"");
    check("Changed", "renamed");
    session
        .sql("SELECT table_service.query_entities('Changing', 'N ge 10')")
        .fails_with("42P01", "TableNotFound");
    // A new table of the old name.
    other.run("SELECT table_service.create_table('changing')");
    assert_eq!(whole(&session, "Changing", filter), []);
    other.run("SELECT table_service.delete_table('changing'); SELECT table_service.delete_table('Changed')");
    session
        .sql("SELECT table_service.query_page('Changed')")
        .fails_with("42P01", "TableNotFound");
}

/// A user may make a partitioned table of the type: PostgreSQL merges the scans of its partitions.
#[test]
fn a_partitioned_table_is_read_in_order() {
    let db = Database::new();
    let session = db.session("s");
    fill(&session, "Plain", 300);
    session.run(
        "CREATE TABLE table_service_data.\"Parts\" OF table_service.entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
        CREATE TABLE part0 PARTITION OF table_service_data.\"Parts\" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE part1 PARTITION OF table_service_data.\"Parts\" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        INSERT INTO table_service_data.\"Parts\" SELECT * FROM table_service_data.\"Plain\"",
    );
    for limit in ["5s", "0"] {
        session.run(&format!("SET table_service.page_time_limit = '{limit}'"));
        for filter in FILTERS.into_iter().chain([
            "PartitionKey eq 'p3' and N gt 100",
            "PartitionKey eq 'p3' and RowKey eq '00000013'",
        ]) {
            let expected = whole(&session, "Plain", filter);
            assert_eq!(whole(&session, "Parts", filter), expected, "{filter}");
            assert_eq!(pages(&session, "Parts", filter, 11).0, expected, "{filter}, in pages");
        }
    }
}

#[test]
fn row_level_security_and_privileges_are_the_callers() {
    let db = Database::new();
    let owner = db.session("owner");
    fill(&owner, "Guarded", 300);
    fill(&owner, "Allowed", 20);
    let role = db.role("reader");
    let queries = [
        "query_entities('Guarded', 'N ge 10')",
        "query_page('Guarded', 'N ge 10')",
        "query_page_json('Guarded', 'N ge 10')",
        "explain_query('Guarded', 'N ge 10')",
        "partition_statistics('Guarded')",
    ];
    let reader = db.session_as(&role, "reader");
    for query in queries {
        reader
            .sql(&format!("SELECT count(*) FROM table_service.{query}"))
            .fails_in_postgres("42501");
    }
    // One column is not enough: a query reads all of them.
    owner.run(&format!(
        "GRANT SELECT (partition_key, row_key) ON table_service_data.\"Guarded\" TO {role}"
    ));
    reader
        .sql(&format!("SELECT count(*) FROM table_service.{}", queries[0]))
        .fails_in_postgres("42501");
    owner.run(&format!(
        "GRANT SELECT ON table_service_data.\"Guarded\", table_service_data.\"Allowed\" TO {role}"
    ));
    for query in queries {
        reader.run(&format!("SELECT count(*) FROM table_service.{query}"));
    }
    // With a policy that itself queries, inside of the query.
    owner.run(
        "ALTER TABLE table_service_data.\"Guarded\" ENABLE ROW LEVEL SECURITY;
        CREATE POLICY visible ON table_service_data.\"Guarded\" FOR SELECT
            USING (partition_key IN (SELECT a.partition_key FROM table_service.query_page('Allowed', 'N lt 3 or N eq 7') AS a)
                AND (SELECT count(*) FROM table_service.query_entities('Allowed', 'N eq 3')) = 1)",
    );
    let seen = |key: &(String, String)| ["p0", "p1", "p2", "p7"].contains(&key.0.as_str());
    let mut last: Option<Texts> = None;
    for limit in ["5s", "0"] {
        reader.run(&format!("SET table_service.page_time_limit = '{limit}'"));
        if limit == "0" {
            // The page of the policy would also be cut.
            owner.run(
                "ALTER POLICY visible ON table_service_data.\"Guarded\" USING (partition_key IN
                (SELECT a.partition_key FROM table_service.query_entities('Allowed', 'N lt 3 or N eq 7') AS a))",
            );
        }
        for filter in FILTERS {
            let expected: Vec<_> = whole(&owner, "Guarded", filter).into_iter().filter(seen).collect();
            assert_eq!(whole(&reader, "Guarded", filter), expected, "{filter}");
            assert_eq!(pages(&reader, "Guarded", filter, 11).0, expected, "{filter}, in pages");
        }
        let statistics =
            reader.run("SELECT partition_key, entities FROM table_service.partition_statistics('Guarded')");
        assert_eq!(statistics.len(), 4);
        assert_eq!(*last.get_or_insert_with(|| statistics.clone()), statistics);
    }
    // Another role in the same session has other rights, and the plans that are kept know it.
    owner.run("SELECT count(*) FROM table_service.query_entities('Guarded', 'N ge 10')");
    assert_eq!(
        owner.text("SELECT count(*) FROM table_service.query_entities('Guarded', 'N ge 10')"),
        "290"
    );
    owner.run(&format!("SET ROLE {role}"));
    assert_eq!(
        owner.text("SELECT count(*) FROM table_service.query_entities('Guarded', 'N ge 10')"),
        "116"
    );
    owner.run("RESET ROLE");
    assert_eq!(
        owner.text("SELECT count(*) FROM table_service.query_entities('Guarded', 'N ge 10')"),
        "290"
    );
}

/// Values that are stored out of line, and results that outlive the query.
#[test]
fn large_values_come_whole() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Wide')");
    session.run(
        "SELECT table_service.insert_entity('Wide', 'p', n::text, jsonb_build_object('N', n, 'Text',
            (SELECT string_agg(md5((n * 1000 + i)::text), '') FROM generate_series(1, 900) AS i)))
        FROM generate_series(1, 40) AS n",
    );
    let digest = "SELECT md5(string_agg(properties::text, ',' ORDER BY row_key)) FROM";
    let expected = session.text(&format!(
        "{digest} table_service_data.\"Wide\" WHERE partition_key = 'p'"
    ));
    for source in [
        "table_service.query_entities('Wide')",
        "table_service.query_entities('Wide', 'N gt 0 and Text ne ''x''')",
        "table_service.query_page('Wide')",
        "table_service.query_page('Wide', 'N gt 0')",
        "table_service.query_page('Wide', 'N gt 0', 'N,Text')",
    ] {
        assert_eq!(session.text(&format!("{digest} {source} AS q")), expected, "{source}");
        // Kept in a table while the entities go.
        session.run(&format!("CREATE TEMPORARY TABLE kept AS SELECT * FROM {source}"));
        session.run(
            "BEGIN; DECLARE held CURSOR WITH HOLD FOR SELECT * FROM table_service.query_entities('Wide'); COMMIT;
            CREATE TEMPORARY TABLE copy AS SELECT * FROM table_service_data.\"Wide\";
            DELETE FROM table_service_data.\"Wide\"",
        );
        session.run("VACUUM table_service_data.\"Wide\"");
        assert_eq!(session.text(&format!("{digest} kept")), expected, "{source}");
        assert_eq!(session.run("FETCH ALL FROM held").len(), 40);
        session.run("INSERT INTO table_service_data.\"Wide\" SELECT * FROM copy; DROP TABLE kept, copy; CLOSE held");
    }
    assert_eq!(
        key(&session.run("SELECT partition_key, row_key FROM table_service.query_entities('Wide', top => 1)")[0]),
        Some(("p".to_owned(), "1".to_owned()))
    );
}

/// Each statement of an explanation has the whole filter, so all of them together would not fit the memory.
#[test]
fn an_explanation_of_very_many_key_ranges_is_cut() {
    let db = Database::new();
    let session = db.session("s");
    fill(&session, "Many", 50);
    let points: Vec<_> = (0..3000)
        .map(|n| format!("(PartitionKey eq 'p' and RowKey eq '{n}' and N ge {n})"))
        .collect();
    let row = session
        .query(
            "SELECT access, cardinality(key_ranges), length(sql), length(plan) FROM table_service.explain_query('Many', $1)",
            &[&points.join(" or ")],
        )
        .unwrap();
    assert_eq!((row[0].get(0), row[0].get(1)), ("point query", 3000));
    let shown: i32 = row[0].get(2);
    assert!((1024 * 1024..2 * 1024 * 1024).contains(&shown), "{shown}");
    assert!(row[0].get::<_, i32>(3) < 8 * 1024 * 1024);
}
