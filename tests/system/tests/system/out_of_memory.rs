//! Allocations fail, of Rust, of PostgreSQL and of the C library, in every function. The statement fails with 53200 or
//! succeeds; the session and the server live on.
//!
//! A library under LD_PRELOAD (`fail_allocations.c`) fails them: the n-th one, once and from then on, in a new session
//! and in one that has made the same call before.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use system_tests::{Cluster, Failure, Session, free_directory, wait_until};

/// How many points are tried of each call, session and mode, usually.
const POINTS: usize = 3;

/// Errors of PostgreSQL itself, which reports a failed allocation as something else: of its loader of libraries.
const OF_POSTGRESQL: &[&str] = &["58P01 could not load library "];

/// The objects that every session can use.
const OBJECTS: &str = r#"
CREATE EXTENSION table_service;
ALTER DATABASE postgres SET search_path = public, table_service;
SET search_path = public, table_service;
SELECT create_table(name) FROM unnest(ARRAY['Orders', 'Checked', 'Loud', 'Expiring']) AS name;
SELECT insert_entity('Orders', p, r::text, jsonb_build_object('Kind', 'k' || r % 5, 'Text', repeat('x', 300), 'N', r))
  FROM unnest(ARRAY['p', 'q']) AS p, generate_series(100, 250) AS r;
SELECT insert_entity('Checked', 'p', 'r', '{"A": 1}');
SELECT create_property_index('Orders', 'Kind');
SELECT set_expiry('Expiring', time_to_live => '1 hour');
INSERT INTO table_service_data."Expiring" VALUES ('p', 'expired', '2020-01-01Z', '{"N": 1}'), ('p', 'alive', '2999-01-01Z', '{"N": 1}');
CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%', repeat('ä', 40000) USING HINT = repeat('h', 40000); END $$;
CREATE TRIGGER loud BEFORE INSERT ON table_service_data."Loud" FOR EACH ROW EXECUTE FUNCTION loud();
CREATE TABLE bags (bag properties);
INSERT INTO bags SELECT properties FROM table_service_data."Orders" LIMIT 3;
ANALYZE;
"#;

/// Calls, and the functions that each of them is for.
const CALLS: &[(&str, &str)] = &[
    ("create_table table_service_refuse_taken_names watch_definitions", "SELECT create_table('New')"),
    ("delete_table", "SELECT delete_table('Orders')"),
    ("create_property_index", "SELECT create_property_index('Orders', 'N')"),
    ("drop_property_index", "SELECT drop_property_index('Orders', 'Kind')"),
    ("set_expiry", "SELECT set_expiry('Checked', 'E', '1 hour')"),
    ("drop_expiry", "SELECT drop_expiry('Expiring')"),
    ("expiry_sql", "SELECT expiry_sql('Orders', 'E', '1 hour')"),
    ("query_expiry", "SELECT * FROM query_expiry()"),
    ("expire_entities expires_at", "SELECT * FROM expire_entities()"),
    ("insert_entity", "SELECT insert_entity('Expiring', 'p', 'expired', '{}')"),
    ("insert_or_merge_entity", "SELECT insert_or_merge_entity('Expiring', 'p', 'expired', '{}')"),
    (
        "execute_batch",
        "SELECT * FROM execute_batch('Expiring', 'p', batch_insert('expired', '{}'), batch_insert_or_merge('new', '{}'), batch_merge('alive', '{}', '*'))",
    ),
    ("query_entities", "SELECT count(*) FROM query_entities('Expiring', 'N gt 0')"),
    ("enable_citus", "SELECT enable_citus()"),
    ("disable_citus", "SELECT disable_citus()"),
    ("shard_map partition_hash", "SELECT * FROM shard_map('Orders') AS m WHERE m.from_hash < partition_hash('p')"),
    ("insert_entity", "SELECT insert_entity('Orders', 'p', 'new', '{\"A\": 1, \"B\": \"text\"}')"),
    ("insert_entity", "SELECT insert_entity('Orders', 'p', '100', '{}')"),
    ("insert_entity", "SELECT insert_entity('Loud', 'p', 'r', '{}')"),
    ("insert_or_merge_entity", "SELECT insert_or_merge_entity('Orders', 'p', '100', '{\"A\": 1}')"),
    ("insert_or_replace_entity", "SELECT insert_or_replace_entity('Orders', 'p', 'new', '{\"A\": 1}')"),
    ("merge_entity", "SELECT merge_entity('Orders', 'p', '100', '{\"A\": 1}', '*')"),
    ("replace_entity", "SELECT replace_entity('Orders', 'p', '100', '{\"A\": 1}', '*')"),
    ("delete_entity", "SELECT delete_entity('Orders', 'p', '100')"),
    ("patch_entity", "SELECT patch_entity('Orders', 'p', '100', '{\"A\": 1}', '{\"N\": 1}', '{Text}', 'N gt @n', '{\"n\": 1}')"),
    ("patch_entity", "SELECT patch_entity('Orders', 'p', 'new', increment => '{\"N\": 1}', create_missing => true)"),
    ("patch_entity", "SELECT patch_entity('Orders', 'p', '100', '{}', condition => 'N gt 1000')"),
    (
        "execute_batch batch_patch",
        "SELECT * FROM execute_batch('Orders', 'p', batch_patch('100', '{\"A\": 1}', '{\"N\": 1}', '{Text}', 'N gt @n', '{\"n\": 1}'),
         batch_patch('new', increment => '{\"N\": 1}', create_missing => true))",
    ),
    (
        "execute_batch batch_insert batch_merge batch_delete batch_replace batch_insert_or_merge batch_insert_or_replace",
        "SELECT * FROM execute_batch('Orders', 'p', batch_insert('new', '{\"A\": 1}'), batch_merge('100', '{\"A\": 1}', '*'), batch_delete('101'),
         batch_replace('102', '{\"A\": 1}', '*'), batch_insert_or_merge('103', '{}'), batch_insert_or_replace('104', '{}'))",
    ),
    ("execute_batch", "SELECT * FROM execute_batch('Orders', 'p', VARIADIC (SELECT array_agg(batch_insert('n' || i, '{\"A\": 1}')) FROM generate_series(1, 100) AS i))"),
    ("execute_batch", "SELECT * FROM execute_batch('Orders', 'p', batch_insert('new', '{}'), batch_insert('100', '{}'))"),
    (
        "write_entities",
        "SELECT * FROM write_entities('Orders', ARRAY['p', 'p', 'p', 'q'], ARRAY[batch_insert('new', '{\"A\": 1}'), batch_insert('100', '{}'), batch_merge('101', '{\"A\": 1}', '*'),
         batch_patch('new', increment => '{\"N\": 1}', create_missing => true)])",
    ),
    ("write_entities", "SELECT * FROM write_entities('Loud', ARRAY['p'], ARRAY[batch_insert('r', '{}')])"),
    ("execute_batch_json", "SELECT * FROM execute_batch_json('Orders', 'p', '[{\"insert\": {\"RowKey\": \"a\", \"A\": 1}}, {\"merge\": {\"RowKey\": \"100\", \"A\": 1}, \"if_match\": \"*\"}]')"),
    ("count_entities", "SELECT count_entities('Orders', 'N gt 120')"),
    ("count_entities", "SELECT count_entities('Orders', 'Kind eq ''k1''')"),
    ("delete_entities", "SELECT delete_entities('Orders', 'PartitionKey eq ''p'' and N lt 110')"),
    ("update_entities", "SELECT update_entities('Orders', 'N lt 110', '{\"A\": 1}', '{Text}')"),
    ("delete_entities_step", "SELECT * FROM delete_entities_step('Orders', 'N gt 0', 10)"),
    ("update_entities_step", "SELECT * FROM update_entities_step('Orders', 'N gt 0', '{\"A\": 1}', NULL, 10)"),
    // In a transaction they are refused.
    ("delete_entities_in_steps", "CALL delete_entities_in_steps('Orders', 'N gt 0')"),
    ("update_entities_in_steps", "CALL update_entities_in_steps('Orders', 'N gt 0', '{\"A\": 1}')"),
    ("clear_table", "SELECT clear_table('Orders')"),
    // A slot also stays if the memory for dropping it is missing, so each has a name of its own.
    ("create_change_feed", "SELECT create_change_feed('new' || (random() * 1e15)::bigint)"),
    ("drop_change_feed", "SELECT drop_change_feed('feed')"),
    ("query_change_feeds", "SELECT * FROM query_change_feeds()"),
    ("query_changes", "SELECT * FROM query_changes('feed')"),
    ("query_feed", "SELECT * FROM query_feed('feed')"),
    ("mark_change_feed", "SELECT mark_change_feed('feed', 'm')"),
    ("table_service_note_definition watch_definitions", "ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Bills\""),
    ("confirm_changes", "SELECT confirm_changes('feed', pg_current_wal_flush_lsn()::text)"),
    ("get_entity", "SELECT * FROM get_entity('Orders', 'p', '100')"),
    ("get_entities", "SELECT * FROM get_entities('Orders', 'p', ARRAY['100', '101', 'none'], 'Kind')"),
    ("get_entities_by_keys", "SELECT * FROM get_entities_by_keys('Orders', ARRAY['p', 'q', 'p'], ARRAY['100', 'none', '101'], 'Kind')"),
    ("query_entities", "SELECT count(*) FROM query_entities('Orders', 'PartitionKey eq ''p'' and N gt 120', 'N', 50)"),
    ("query_entities", "SELECT count(*) FROM query_entities('Orders', 'Kind eq ''k1''')"),
    // From PostgreSQL 19 on it becomes a part of the statement.
    ("query_entities query_entities_support", "SELECT e.row_key FROM query_entities('Orders', 'PartitionKey eq ''p'' and N gt 120') AS e LIMIT 5"),
    ("query_page", "SELECT * FROM query_page('Orders', 'PartitionKey eq ''p''', NULL, 20)"),
    ("query_page_json", "SELECT * FROM query_page_json('Orders', 'Kind eq ''k1'' or Kind eq ''k2''', NULL, 20)"),
    ("query_page_chunks", "SELECT * FROM query_page_chunks('Orders', 'PartitionKey eq ''p''', NULL, 20)"),
    ("grant_gateway_access", "SELECT grant_gateway_access('pg_monitor')"),
    ("query_tables", "SELECT * FROM query_tables('TableName ge ''A''', 2)"),
    ("query_property_indexes", "SELECT * FROM query_property_indexes()"),
    ("property_index_sql", "SELECT property_index_sql('Orders', 'N')"),
    ("partition_statistics", "SELECT * FROM partition_statistics('Orders')"),
    ("explain_query", "SELECT * FROM explain_query('Orders', 'Kind eq ''k1'' and N lt 130')"),
    ("filter_to_sql scan_passes", "SELECT filter_to_sql('PartitionKey eq ''p'' and (A eq 1 or B gt 2)')"),
    ("matches matches_support", "SELECT count(*) FROM table_service_data.\"Orders\" AS e WHERE matches(e, 'PartitionKey eq ''p'' and Kind eq ''k1''')"),
    ("entity_passes", "SELECT count(*) FROM table_service_data.\"Orders\" AS e WHERE entity_passes(partition_key, row_key, timestamp, properties, 'N gt 120')"),
    ("generate_sas", "SELECT generate_sas('acc', 'a2V5', 'Orders', 'r', '2030-01-02Z')"),
    ("set_access_policies", "SELECT set_access_policies('Orders', '[{\"Id\": \"a\", \"Permission\": \"r\"}]')"),
    ("get_access_policies", "SELECT get_access_policies('Orders')"),
    ("hold_table", "SELECT hold_table('Orders')"),
    ("set_service_properties", "SELECT set_service_properties('{\"Cors\": []}')"),
    ("get_service_properties", "SELECT get_service_properties()"),
    (
        "rising_timestamp entity_is_valid merge_properties",
        "UPDATE table_service_data.\"Orders\" SET properties = merge_properties(properties, '{\"A\": 1}') WHERE partition_key = 'p' AND row_key < '103'",
    ),
    ("merge_fits next_timestamp", "SELECT merge_fits('p', 'r', properties, '{\"A\": 1}'), next_timestamp(timestamp, now()) FROM table_service_data.\"Checked\""),
    ("properties_in properties_out", "SELECT '{\"A\": \"text\", \"B\": 1.5}'::properties"),
    ("properties_recv", "COPY bags FROM 'FILE' BINARY"),
    ("properties_send", "SELECT properties_send(bag) FROM bags"),
    ("properties_from_json properties_to_json", "SELECT bag::json::properties, to_json(b) FROM bags AS b"),
    (
        "properties_contains properties_contained has_all_properties has_any_property properties_get_path properties_get_path_text properties_subscript",
        "SELECT bag @> '{\"N\": 1}'::properties, '{\"N\": 1}'::properties <@ bag, bag ?& ARRAY['N'], bag ?| ARRAY['N'], bag #> '{N}', bag #>> '{N}', bag['N'] FROM bags",
    ),
    ("properties_from_jsonb properties_to_jsonb properties_to_text", "SELECT (bag::jsonb || '{\"Z\": true}')::properties::text FROM bags"),
    (
        "properties_eq properties_ne properties_lt properties_le properties_gt properties_ge properties_cmp properties_hash properties_hash_extended",
        "SELECT a.bag = b.bag, a.bag <> b.bag, a.bag < b.bag, a.bag <= b.bag, a.bag > b.bag, a.bag >= b.bag, properties_cmp(a.bag, b.bag),
           properties_hash(a.bag), properties_hash_extended(a.bag, 1) FROM bags AS a, bags AS b",
    ),
    ("properties_get properties_get_text has_property", "SELECT bag -> 'Kind', bag ->> 'N', bag ? 'Z' FROM bags"),
    ("remove_property remove_properties", "SELECT bag - 'Kind', bag - ARRAY['Kind', 'N'] FROM bags"),
    (
        "get_binary get_boolean get_datetime get_double get_guid get_int32 get_int64 get_string get_ticks property_type",
        "SELECT get_binary(bag, 'A'), get_boolean(bag, 'A'), get_datetime(bag, 'A'), get_double(bag, 'A'), get_guid(bag, 'A'), get_int32(bag, 'N'),
           get_int64(bag, 'A'), get_string(bag, 'Text'), get_ticks(bag, 'A'), property_type(bag, 'Text') FROM bags",
    ),
    ("each_property", "SELECT p.* FROM bags, each_property(bag) AS p"),
    ("property_index_key", "SELECT property_index_key('p', 'r', bag, 'Kind') FROM bags"),
    ("to_properties", "SELECT to_properties(row) FROM (VALUES (1, 'text', now(), true)) AS row (a, b, c, d)"),
    ("entity_to_json entity_from_json etag", "SELECT entity_to_json(entity_from_json(entity_to_json(e, 'full')::text)), etag(e) FROM get_entity('Orders', 'p', '100') AS e"),
    (
        "ticks from_ticks inverted_ticks from_inverted_ticks retry_delay",
        "SELECT from_ticks(ticks('2026-01-01Z')), from_inverted_ticks(inverted_ticks('2026-01-01Z')), retry_delay(3)",
    ),
];

/// The file that the library and the tests share, as in `fail_allocations.c`.
struct Control(fs::File);

impl Control {
    fn arm(&self, pid: i32, from: usize, count: i64) {
        for (place, value) in [
            (1, i64::try_from(from).unwrap()),
            (2, count),
            (3, 0),
            (0, i64::from(pid)),
        ] {
            self.0.write_all_at(&value.to_ne_bytes(), place * 8).unwrap();
        }
    }

    /// Returns how many allocations there were.
    fn disarm(&self) -> usize {
        self.0.write_all_at(&0_i64.to_ne_bytes(), 0).unwrap();
        let mut seen = [0; 8];
        self.0.read_exact_at(&mut seen, 24).unwrap();
        usize::try_from(i64::from_ne_bytes(seen)).unwrap()
    }
}

/// A server in which allocations can be made to fail.
struct Server {
    cluster: Cluster,
    control: Control,
    directory: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Server {
    fn start() -> Server {
        let directory = free_directory();
        fs::create_dir(&directory).unwrap();
        let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
        let (library, control) = (path("fail_allocations.so"), path("control"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fail_allocations.c");
        // The server may be one for another architecture.
        let compiled = Command::new(std::env::var_os("CC_OF_SERVER").unwrap_or_else(|| "cc".into()))
            .args(["-O2", "-fPIC", "-shared", "-fno-builtin", "-o", &library])
            .arg(source)
            .status()
            .unwrap();
        assert!(compiled.success());
        fs::write(&control, [0; 32]).unwrap();
        // The server may be another user's.
        for (path, mode) in [(directory.to_str().unwrap(), 0o777), (&control, 0o666)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let environment = [("LD_PRELOAD", library.as_str()), ("FAIL_ALLOCATIONS", &control)];
        // Without memory, the library of PL/pgSQL ends the session while it is loaded (`guc_strdup` with FATAL).
        let settings = [
            "autovacuum=off",
            "shared_preload_libraries=plpgsql",
            "max_replication_slots=1000",
        ];
        let cluster = Cluster::start_with(&settings, &environment);
        cluster.session().run(OBJECTS);
        // Its slot is made in a transaction that has not written.
        cluster.session().run("SELECT create_change_feed('feed')");
        cluster
            .session()
            .run(&format!("COPY bags TO '{}' BINARY", path("bags")));
        let control = Control(fs::OpenOptions::new().read(true).write(true).open(control).unwrap());
        Server {
            cluster,
            control,
            directory,
        }
    }

    /// A session in a transaction. If the server has restarted, it may not be back yet.
    fn session(&self) -> Session {
        let mut session = None;
        wait_until("the server takes a session", || {
            session = self.cluster.try_session("postgres", "postgres", "caller").ok();
            session.is_some()
        });
        let session = session.unwrap();
        session.run("BEGIN");
        session
    }

    /// Runs a call in which allocations fail, and undoes it. Returns its outcome and how many allocations it made.
    fn call(&self, session: &Session, sql: &str, from: usize, count: i64) -> (Result<(), Failure>, usize) {
        self.control.arm(session.pid(), from, count);
        let outcome = session.sql(sql).map(|_| ());
        let seen = self.control.disarm();
        (outcome, seen)
    }
}

/// Says where a sweep was when it ended by a panic, such as when the server does not answer.
struct Point(String);

impl Drop for Point {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("at: {}", self.0);
        }
    }
}

/// The outcomes, and how often each came.
#[derive(Default)]
struct Findings {
    points: usize,
    failed: usize,
    bad: Vec<String>,
}

impl Findings {
    /// Says it at once: a sweep takes hours, and may not reach its end.
    fn report(&mut self, finding: String) {
        eprintln!("{finding}");
        self.bad.push(finding);
    }
}

/// Fails allocations of the calls for some functions, or of all calls.
fn sweep(points: usize, functions: &str) -> Findings {
    let server = Server::start();
    let mut found = Findings::default();
    let covered: BTreeSet<&str> = CALLS.iter().flat_map(|(functions, _)| functions.split(' ')).collect();
    let missing: Vec<String> = server
        .cluster
        .session()
        .run("SELECT DISTINCT p.proname FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
            WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
                AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'table_service')",
        )
        .into_iter()
        .filter_map(|row| row[0].clone())
        .filter(|name| !covered.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "no call of {missing:?}");

    let mut bystander = server.session();
    let is_chosen = |of: &str| {
        functions.is_empty()
            || functions
                .split(' ')
                .any(|chosen| of.split(' ').any(|name| name == chosen))
    };
    let calls = CALLS.iter().enumerate().filter(|(_, (of, _))| is_chosen(of));
    for (number, (_, sql)) in calls {
        let sql = &sql.replace("FILE", server.directory.join("bags").to_str().unwrap());
        for (direct, cold, count) in [true, false]
            .into_iter()
            .flat_map(|direct| [true, false].map(|cold| (direct, cold)))
            .flat_map(|(direct, cold)| [1, i64::MAX].map(|count| (direct, cold, count)))
        {
            // How it ends and how many allocations it makes if none fails.
            let prepare = |session: &Session| {
                if !direct {
                    session.run("SET table_service.enable_direct_access = off");
                }
                if !cold {
                    session.run("SAVEPOINT warm");
                    let _ = session.sql(sql);
                    session.run("ROLLBACK TO warm");
                }
            };
            let mut session = server.session();
            prepare(&session);
            let (usual, all) = server.call(&session, sql, usize::MAX >> 1, 0);
            let step = (all / points).max(1);
            let mut point = 1 + number % step;
            session.run("ROLLBACK; BEGIN");
            prepare(&session);
            while point <= all {
                if cold {
                    session = server.session();
                    prepare(&session);
                }
                let at = Point(format!(
                    "{sql} (direct access: {direct}, new session: {cold}, allocation {point} of {all}{})",
                    if count == 1 { "" } else { " and all after it" }
                ));
                let label = &at.0;
                let (outcome, _) = server.call(&session, sql, point, count);
                found.points += 1;
                let mut describe = String::new();
                if let Err(failure) = &outcome {
                    found.failed += usize::from(failure.sqlstate == "53200");
                    describe = format!("{} {}", failure.sqlstate, failure.message);
                    describe.truncate(describe.floor_char_boundary(200));
                }
                let as_usual = match (&outcome, &usual) {
                    (Ok(()), Ok(())) => true,
                    (Err(failure), Err(usual)) => failure.sqlstate == usual.sqlstate,
                    _ => false,
                };
                let is_documented = as_usual || describe.starts_with("53200 ");
                if session.sql("ROLLBACK; BEGIN").is_err() {
                    session = server.session();
                    prepare(&session);
                    // By now a server that restarts has ended this one. A session in which many reads of a feed have failed ends.
                    let is_to_end = describe.starts_with("53000 terminating connection because");
                    if bystander.sql("SELECT 1").is_err() {
                        found.report(format!("the server restarted: {label}: {describe}"));
                        bystander = server.session();
                    } else if !is_to_end {
                        found.report(format!("the session ended: {label}: {describe}"));
                    }
                } else if !is_documented && !OF_POSTGRESQL.iter().any(|message| describe.starts_with(message)) {
                    found.report(format!("{label}: {describe}"));
                } else if !cold {
                    prepare(&session);
                }
                point += step;
            }
        }
    }
    for line in server.cluster.log().lines() {
        if [
            "PANIC:",
            "TRAP:",
            "terminated by signal",
            "exited with exit code",
            " XX000 ",
        ]
        .iter()
        .any(|sign| line.contains(sign))
        {
            found.report(line.to_owned());
        }
    }
    drop(bystander);
    server.control.disarm();
    found
}

fn check(points: usize, functions: &str) {
    let found = sweep(points, functions);
    println!(
        "{} allocations failed, {} of them failed the statement; sessions that ended, restarts and other findings: {}",
        found.points,
        found.failed,
        found.bad.len()
    );
    assert!(found.failed > 0, "no statement failed");
    assert!(found.bad.is_empty(), "{:#?}", found.bad);
}

#[test]
fn a_failed_allocation_fails_only_its_statement() {
    check(POINTS, "");
}

#[test]
#[ignore = "takes long: cargo xtask allocations"]
fn no_failed_allocation_ends_more_than_its_statement() {
    let points = std::env::var("SOAK").ok().and_then(|points| points.parse().ok());
    check(
        points.unwrap_or(usize::MAX),
        &std::env::var("FUNCTIONS").unwrap_or_default(),
    );
}
