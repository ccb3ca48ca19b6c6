//! Every function of the extension with every kind of argument, filters in any place and direct writes, on tables of odd
//! shapes, beside concurrent DDL. The server stays up, every error is a documented one, tables and indexes are sound
//! afterwards, and memory stays bounded.

mod errors;
mod shapes;
mod statements;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

use system_tests::random::{Random, seeds};
use system_tests::{Database, Session, wait_until};

use errors::is_documented;
use statements::{Function, Statements};

/// How many seeds run usually.
const SEEDS: u64 = 3;
/// How many statements each session of a seed runs, besides one call of each function and [`QUERIES`] of each table.
const STATEMENTS: usize = 200;
/// How many queries with a filter each session of a seed asks of each table.
const QUERIES: usize = 3;
/// How much memory a backend may take for one statement. The largest arguments take a few megabytes.
const MEMORY: u64 = 768 << 20;
/// How much memory a backend may keep.
const KEPT: i64 = 64 << 20;

#[test]
fn no_statement_breaks_the_server() {
    for seed in seeds(SEEDS) {
        println!("seed {seed}: cargo xtask fuzz-sql --seed {seed} runs it again");
        fuzz(seed, None);
    }
}

#[test]
#[ignore = "needs a PostgreSQL with assertions: cargo xtask asan"]
fn no_statement_needs_a_cache() {
    for seed in seeds(SEEDS) {
        println!("seed {seed}, while every cache is emptied whenever that may happen");
        fuzz(seed, Some("debug_discard_caches = 1"));
    }
}

/// The clients' sessions have this setting.
fn fuzz(seed: u64, setting: Option<&str>) {
    let mut random = Random::new(seed);
    let db = Database::new();
    let (owner, guest) = (db.role("owner"), db.role("guest"));
    // A text that is not UTF-8, by way of a catalog that all databases share.
    let latin1 = Database::with("TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'");
    for role in [&owner, &guest] {
        latin1
            .session("latin1")
            .run(&format!("ALTER ROLE {role} SET other_encoding.text = 'a\u{e9}b'"));
    }
    db.session("superuser").run(&format!(
        "GRANT CREATE ON SCHEMA table_service_data, public TO {owner}; GRANT SET ON PARAMETER deadlock_timeout TO {owner}, {guest};
         GRANT pg_read_all_stats TO {owner}, {guest};
         ALTER DATABASE {0} SET search_path = public, table_service; ALTER DATABASE {0} SET statement_timeout = '60s'", db.name()
    ));
    let maker = db.session_as(&owner, "maker");
    maker.run(shapes::TABLES);
    maker.run(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA table_service_data TO {guest};
         REVOKE ALL ON table_service_data.\"Triggered\", table_service_data.\"Large\" FROM {guest};
         GRANT SELECT (partition_key, row_key) ON table_service_data.\"Large\" TO {guest}"
    ));
    let functions = Function::all(&maker);
    assert!(functions.len() > 60, "{}", functions.len());

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, functions, stop) = (&db, &functions, &stop);
        let ddl = db.session_as(&owner, "ddl");
        if let Some(setting) = setting {
            db.session("superuser")
                .run(&format!("ALTER DATABASE {} SET {setting}", db.name()));
        }
        let mut of_ddl = random.clone();
        scope.spawn(move || {
            ddl.run("SET lock_timeout = '100ms'; SET deadlock_timeout = '20ms'");
            while !stop.load(Ordering::Relaxed) {
                // It may fail: the tables are not always as it expects them. The log shows errors that are bugs.
                let _ = ddl.sql(of_ddl.pick::<&str>(&shapes::DDL));
            }
        });
        let clients: Vec<_> = [&owner, &guest]
            .into_iter()
            .map(|role| {
                let mut random = Random::new(random.below(usize::MAX) as u64);
                scope.spawn(move || client(db, role, functions, &mut random, seed))
            })
            .collect();
        let results: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        stop.store(true, Ordering::Relaxed);
        for result in results {
            if let Err(problem) = result {
                resume_unwind(problem);
            }
        }
    });
    drop(maker);
    check_storage(&db);
}

/// The work of one session: a call of each function, queries of each table, then any statements.
fn client(db: &Database, role: &str, functions: &[Function], random: &mut Random, seed: u64) {
    let session = db.session_as(role, role);
    limit_memory(db, &session);
    session.run("SET lock_timeout = '300ms'; SET deadlock_timeout = '20ms'");
    let queries = shapes::NAMES.len() * QUERIES;
    let (all, mut done) = (functions.len() + queries + STATEMENTS, 0);
    for number in 0..all {
        let mut statements = Statements { random };
        let statement = match number.checked_sub(functions.len()) {
            None => statements.call(&functions[number]),
            Some(number) if number < queries => statements.query(shapes::NAMES[number / QUERIES]),
            Some(_) => statements.any(functions),
        };
        let text = statements.in_some_form(&statement);
        let setting = *random.pick(&[
            "SET table_service.enable_direct_access = on",
            "SET table_service.enable_direct_access = off",
            "SET table_service.page_time_limit = 1",
            "RESET table_service.page_time_limit",
            "SET enable_seqscan = off",
            "RESET enable_seqscan",
            "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0",
            "RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size",
            "SET plan_cache_mode = force_generic_plan",
            "RESET plan_cache_mode",
        ]);
        session.run(setting);
        match session.sql(&text) {
            Ok(_) => done += 1,
            Err(failure) => assert!(
                is_documented(&failure),
                "seed {seed}, {role}, statement {number}: {failure:?}\nhint: {}\n{setting}; {text:.4000}",
                failure.hint
            ),
        }
        // The time limit also holds for these statements, at first.
        wait_until("the session is reset", || {
            session.sql("ROLLBACK; RESET statement_timeout; DEALLOCATE ALL").is_ok()
        });
    }
    // Not everything is refused.
    assert!(
        done > all / 5,
        "seed {seed}, {role}: {done} of {all} statements succeed"
    );
    println!("seed {seed}, {role}: {done} of {all} statements succeed");
    // All but the caches of the catalogs. PostgreSQL 18 has paths in place of names of parents.
    let contexts = match session
        .text("SELECT current_setting('server_version_num')::int >= 180000")
        .as_str()
    {
        "t" => {
            "pg_backend_memory_contexts, (SELECT path AS cache FROM pg_backend_memory_contexts WHERE name = 'CacheMemoryContext') AS c WHERE path[:cardinality(cache)] <> cache"
        }
        _ => {
            "pg_backend_memory_contexts WHERE name <> 'CacheMemoryContext' AND parent IS DISTINCT FROM 'CacheMemoryContext'"
        }
    };
    let kept: i64 = session.value(&format!("SELECT sum(total_bytes)::bigint FROM {contexts}"), &[]);
    assert!(kept < KEPT, "seed {seed}, {role}: the session keeps {kept} bytes");
}

/// Lets the backend of a session take [`MEMORY`] more than it has. A statement that needs more fails, or crashes the server.
fn limit_memory(db: &Database, session: &Session) {
    let pid = session.pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let size: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    // The server's user sets the limit of its process.
    let limit = size * 1024 + MEMORY;
    db.session("limits").run(&format!(
        "COPY (SELECT 1 WHERE false) TO PROGRAM 'prlimit --pid={pid} --as={limit}:'"
    ));
}

/// Tables and indexes are as they should be.
fn check_storage(db: &Database) {
    let session = db.session("storage");
    if session
        .run("SELECT FROM pg_available_extensions WHERE name = 'amcheck'")
        .is_empty()
    {
        println!("This PostgreSQL has no amcheck.");
        return;
    }
    session.run("CREATE EXTENSION amcheck SCHEMA public");
    let of_the_service =
        "c.relnamespace IN ('table_service_data'::regnamespace, 'table_service'::regnamespace, 'public'::regnamespace)";
    session.run(&format!(
        "SELECT bt_index_check(c.oid, true) FROM pg_class AS c JOIN pg_index AS i ON i.indexrelid = c.oid JOIN pg_am AS a ON a.oid = c.relam
         WHERE a.amname = 'btree' AND i.indisvalid AND c.relkind = 'i' AND {of_the_service}"
    ));
    let corrupt = session.run(&format!(
        "SELECT c.relname, v.* FROM pg_class AS c, LATERAL verify_heapam(c.oid) AS v WHERE c.relkind IN ('r', 'm') AND {of_the_service}"
    ));
    assert!(corrupt.is_empty(), "{corrupt:?}");
}
