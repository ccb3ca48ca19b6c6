//! `query_entities` in FROM. From PostgreSQL 19 on it may become a part of the statement, with the same results and errors. Before, it is
//! a call.

use system_tests::{Database, Expect, Session, Texts};

fn is_inlined(session: &Session) -> bool {
    session.value::<i32>("SELECT current_setting('server_version_num')::int / 10000", &[]) >= 19
}

/// The plan of a statement, without the collation of keys.
#[track_caller]
fn plan(session: &Session, sql: &str) -> String {
    let lines = session.run(&format!("EXPLAIN (COSTS OFF) {sql}"));
    let lines: Vec<_> = lines.into_iter().flatten().flatten().collect();
    lines.join("\n").replace(" COLLATE \"C\"", "")
}

/// The plan of a statement that is a function's scan before PostgreSQL 19. From then on it must read the table, and have these texts.
#[track_caller]
fn reads(session: &Session, sql: &str, texts: &[&str]) -> String {
    let plan = plan(session, sql);
    let is_call = plan.contains("Function Scan on query_entities");
    assert_eq!(is_call, !is_inlined(session), "{sql}\n{plan}");
    for text in texts {
        assert!(
            is_call || plan.contains(text),
            "{text} is not in the plan of {sql}\n{plan}"
        );
    }
    plan
}

/// Checks that a statement calls the function.
#[track_caller]
fn calls(session: &Session, sql: &str) {
    let plan = plan(session, sql);
    assert!(plan.contains("Function Scan on query_entities"), "{sql}\n{plan}");
}

/// A database with a table of 6,000 entities in ten partitions, numbered in `N`, with statistics, and another one that is empty.
fn numbers() -> (Database, Session) {
    let db = Database::new();
    let session = db.session("s");
    session.run("SET search_path = table_service, public");
    session.run("SELECT create_table(name) FROM unnest(ARRAY['Numbers', 'Empty']) AS name");
    session.run(
        "INSERT INTO table_service_data.\"Numbers\" SELECT 'p' || n % 10, lpad(n::text, 8, '0'), '2022-04-13T21:50:14Z',
            jsonb_build_object('N', n, 'Kind', CASE n % 3 WHEN 0 THEN 'text' ELSE 'number' END, 'Value', CASE n % 3 WHEN 0 THEN 'x' ELSE n::text END)
         FROM (SELECT i * 7919 % 6000 AS n FROM generate_series(1, 6000) AS i) AS n",
    );
    session.run("ANALYZE table_service_data.\"Numbers\"");
    (db, session)
}

#[test]
fn the_planner_sees_what_a_query_reads() {
    let (_db, session) = numbers();
    // Rows come in key order, from an index that has it.
    let partition = "query_entities('Numbers', 'PartitionKey eq ''p7''')";
    for order in [
        "",
        " ORDER BY partition_key, row_key",
        " ORDER BY row_key",
        " ORDER BY row_key DESC",
    ] {
        let limited = format!("SELECT * FROM {partition}{order} LIMIT 5");
        let texts = [
            "Limit",
            "using numbers_pkey on \"Numbers\"",
            "Index Cond: (partition_key = 'p7'::text)",
        ];
        let plan = reads(&session, &limited, &texts);
        assert!(!is_inlined(&session) || !plan.contains("Sort"), "{plan}");
    }
    reads(
        &session,
        "SELECT * FROM query_entities('Numbers') LIMIT 1",
        &["Index Scan using numbers_pkey"],
    );
    // Conditions reach the index.
    reads(
        &session,
        &format!("SELECT * FROM {partition} WHERE row_key > '00005900'"),
        &["Index Cond: ((partition_key = 'p7'::text) AND (row_key > '00005900'::text))"],
    );
    // Joins do, and the planner knows how many entities there are.
    let point = "query_entities('Numbers', 'PartitionKey eq ''p7'' and RowKey eq ''00000007''')";
    for read in [partition, "query_entities('Numbers')", point] {
        reads(
            &session,
            &format!(
                "SELECT w.k, e.properties FROM (VALUES ('00000007'), ('00000017')) AS w (k) JOIN {read} AS e ON e.partition_key = 'p7' AND e.row_key = w.k"
            ),
            &["Index Cond: ((partition_key = 'p7'::text) AND (row_key = "],
        );
    }
    // So does `top`, and conditions beside those on keys are tested where the rows are.
    reads(
        &session,
        "SELECT * FROM query_entities('Numbers', 'PartitionKey ge ''p8''', top => 3) WHERE row_key > ''",
        &["Limit", "Index Cond: (partition_key >= 'p8'::text)"],
    );
    reads(
        &session,
        "SELECT * FROM query_entities('Numbers', 'PartitionKey eq ''p7'' and N lt @n', parameters => '{\"n\": 100}') LIMIT 1",
        &[
            "Index Cond: (partition_key = 'p7'::text",
            "Filter: entity_passes(partition_key, row_key, \"timestamp\", properties, 'N lt 100'::text)",
        ],
    );
    // Property indexes serve it. The planner knows how many entities they find.
    session.run("SELECT create_property_index('Numbers', 'N')");
    let few = "SELECT * FROM query_entities('Numbers', 'N ge 70 and N lt 80') WHERE row_key > ''";
    reads(&session, few, &["Index Cond: ((property_index_key("]);
    if is_inlined(&session) {
        let plan = session.text(&format!("EXPLAIN (FORMAT JSON) {few}"));
        let rows = plan.split("\"Plan Rows\": ").skip(2);
        let mut rows = rows.map(|rest| rest.split(',').next().unwrap().parse::<u32>().unwrap());
        assert!(rows.all(|rows| (5..=20).contains(&rows)), "{plan}");
    }
}

#[test]
fn what_gains_nothing_or_is_not_known_is_a_call() {
    let (_db, session) = numbers();
    session.run("SELECT create_table('Expiring'); SELECT set_expiry('Expiring', time_to_live => '1 hour')");
    session.run("SELECT create_table('Guarded'); ALTER TABLE table_service_data.\"Guarded\" ENABLE ROW LEVEL SECURITY");
    session.run(
        "SELECT create_table('Loose'); ALTER TABLE table_service_data.\"Loose\" ALTER COLUMN properties DROP NOT NULL",
    );
    for sql in [
        "SELECT * FROM query_entities('Numbers')",
        "SELECT row_key FROM query_entities('Numbers', 'N eq 7')",
        "SELECT count(*) FROM query_entities('Numbers', 'PartitionKey eq ''p7'' and RowKey eq ''00000007''')",
        "SELECT count(*) FROM query_entities('Numbers', 'N gt 7')",
        "SELECT * FROM query_entities('Numbers', 'N gt 7', top => 3) WHERE row_key > ''",
        "SELECT count(*) FROM query_entities('Numbers', 'PartitionKey gt ''a'' and PartitionKey lt ''a''')",
        "SELECT count(*) FROM query_entities('Numbers') WITH ORDINALITY",
    ] {
        calls(&session, sql);
    }
    for read in [
        // The table, or its kind.
        "query_entities((SELECT 'Numbers'))",
        "unnest(ARRAY['Numbers']) AS n, query_entities(n)",
        "query_entities('numbers')",
        "query_entities('Missing')",
        "query_entities('Expiring')",
        "query_entities('Guarded')",
        "query_entities('Loose')",
        // The filter, or its fault.
        "unnest(ARRAY['N eq 1']) AS f, query_entities('Numbers', f)",
        "query_entities('Numbers', 'N eq')",
        "query_entities('Numbers', 'N eq @n')",
        "query_entities('Numbers', 'contains(Kind, ''x'')')",
        // The rest.
        "query_entities('Numbers', projection => 'N')",
        "query_entities('Numbers', top => -1)",
    ] {
        calls(&session, &format!("SELECT 1 FROM {read} LIMIT 1"));
    }
    session.run("SET table_service.enable_direct_access = off");
    calls(&session, "SELECT count(*) FROM query_entities('Numbers')");
}

/// Filters with key ranges and residuals of all kinds.
const FILTERS: [&str; 30] = [
    "",
    "PartitionKey eq 'p3'",
    "PartitionKey eq 'p3' and RowKey eq '00000013'",
    "PartitionKey eq 'p3' and RowKey eq '00000014'",
    "PartitionKey eq 'p3' and RowKey gt '00000103' and RowKey le '00000203'",
    "PartitionKey eq 'p3' and RowKey ge '00000103'",
    "PartitionKey eq 'p3' and RowKey lt '00000103'",
    "PartitionKey gt 'p3'",
    "PartitionKey ge 'p3' and PartitionKey lt 'p5'",
    "PartitionKey le 'p1'",
    "PartitionKey ne 'p3'",
    "RowKey eq '00000013'",
    "RowKey lt '00000100'",
    "PartitionKey eq 'p9' or PartitionKey eq 'p1'",
    "PartitionKey gt 'p8' or (PartitionKey eq 'p8' and RowKey gt '00005900')",
    "PartitionKey lt 'p1' or (PartitionKey eq 'p1' and RowKey le '00000101')",
    "(PartitionKey eq 'p2' and RowKey eq '00000012') or (PartitionKey eq 'p1' and RowKey eq '00000011')",
    "(PartitionKey eq 'p2' and N lt 500) or (PartitionKey eq 'p1' and RowKey eq '00000011')",
    "not (PartitionKey eq 'p2')",
    "PartitionKey gt 'p5' and PartitionKey lt 'p5'",
    "N eq 77",
    "N lt 50 or N gt 5950",
    "PartitionKey eq 'p3' and N lt 500",
    "PartitionKey ge 'p3' and RowKey gt '00005990'",
    "Kind eq 'text' and PartitionKey eq 'p0'",
    "not (Kind eq 'text') and N le 30",
    "Missing eq 1",
    "not (Missing eq 1) and RowKey le '00000005'",
    "Timestamp ge datetime'2022-04-13T21:50:14Z' and RowKey le '00000005'",
    "Timestamp lt datetime'2022-04-13T21:50:14Z'",
];

/// Statements around a read that has the rows `e`.
const AROUND: [&str; 13] = [
    "SELECT * FROM {} AS e",
    "SELECT e FROM {} AS e",
    "SELECT to_json(e) FROM {} AS e",
    "SELECT e.row_key, properties ->> 'N' FROM {} AS e LIMIT 7",
    "SELECT row_key FROM {} AS e OFFSET 3",
    "SELECT string_agg(row_key, ',') FROM {} AS e WHERE properties IS NOT NULL",
    "SELECT count(*), min(row_key), max(partition_key), string_agg(row_key, ',') FROM {} AS e",
    "SELECT partition_key, count(*) FROM {} AS e GROUP BY partition_key ORDER BY partition_key",
    "SELECT * FROM {} AS e WHERE partition_key = 'p3' AND row_key < '00001000'",
    "SELECT * FROM {} AS e ORDER BY row_key DESC LIMIT 5",
    "SELECT k, row_key, e IS NULL FROM (VALUES ('00000013'), ('00000077')) AS w (k) LEFT JOIN {} AS e ON e.row_key = w.k ORDER BY k, row_key",
    "SELECT row_key FROM {} AS e WHERE EXISTS (SELECT FROM table_service_data.\"Numbers\" AS n WHERE n.row_key = e.row_key AND n.partition_key = 'p3') ORDER BY partition_key, row_key",
    "SELECT count(*) FROM table_service_data.\"Numbers\" AS n WHERE n.row_key IN (SELECT e.row_key FROM {} AS e)",
];

/// Runs a statement around a read, and around a call that no planner replaces. Both must have the same result.
#[track_caller]
fn same(session: &Session, around: &str, read: &str) -> Texts {
    let columns = "partition_key, row_key, \"timestamp\", properties";
    let of_called = around.replace(
        "{}",
        &format!("(SELECT {columns} FROM {read} WITH ORDINALITY AS c ({columns}))"),
    );
    let expected = session.run(&of_called);
    assert_eq!(session.run(&around.replace("{}", read)), expected, "{around}: {read}");
    expected
}

#[test]
fn a_query_returns_what_the_function_returns() {
    let (_db, session) = numbers();
    for is_indexed in [false, true] {
        if is_indexed {
            session.run("SELECT create_property_index('Numbers', 'N')");
        }
        let mut found = 0;
        for filter in FILTERS {
            let filter = filter.replace('\'', "''");
            for around in AROUND {
                found += same(&session, around, &format!("query_entities('Numbers', '{filter}')")).len();
            }
            for top in [0, 1, 5, 100_000] {
                let read = format!("query_entities('Numbers', '{filter}', top => {top})");
                for around in [AROUND[0], AROUND[6], AROUND[8], AROUND[10]] {
                    same(&session, around, &read);
                }
            }
        }
        assert!(found > 50_000, "{found}");
    }
}

#[test]
fn a_condition_is_tested_on_what_the_function_returns_alone() {
    let (_db, session) = numbers();
    // These rows are numbers; of others the cast raises an error. It is cheaper than the filter, so the planner would test it first.
    let numbers = "FROM query_entities('Numbers', 'Kind eq ''number''') WHERE (properties ->> 'Value')::int";
    reads(
        &session,
        &format!("SELECT count(*) {numbers} > 5990"),
        &["Filter: (entity_passes("],
    );
    assert_eq!(session.text(&format!("SELECT count(*) {numbers} > 5990")), "6");
    // So in a table that is so small that the planner reads it whole.
    session.run("SELECT create_table('Few')");
    session.run(
        "SELECT insert_entity('Few', 'p', '1', '{\"V\": \"1\"}'), insert_entity('Few', 'q', '2', '{\"V\": \"x\"}')",
    );
    for read in [
        "query_entities('Few', 'PartitionKey eq ''p'' and RowKey eq ''1''')",
        "query_entities('Few', 'PartitionKey eq ''p''')",
        "query_entities('Few', 'V eq ''1''')",
        "query_entities('Few', top => 1)",
    ] {
        for sql in [
            format!("SELECT row_key FROM {read} WHERE (properties ->> 'V')::int = 1"),
            format!(
                "SELECT e.row_key FROM (VALUES (1)) AS v (n) JOIN {read} AS e ON (e.properties ->> 'V')::int = v.n"
            ),
        ] {
            assert_eq!(session.text(&sql), "1", "{sql}");
        }
    }
}

#[test]
fn errors_are_those_of_the_function_and_come_when_it_runs() {
    let (_db, session) = numbers();
    for (read, sqlstate, code) in [
        ("query_entities('Missing')", "42P01", "TableNotFound"),
        ("query_entities('a_b')", "42602", "InvalidResourceName"),
        ("query_entities(NULL)", "22023", "InvalidInput"),
        ("query_entities('Numbers', 'N eq')", "22023", "InvalidInput"),
        (
            "query_entities('Numbers', 'contains(Kind, ''x'')')",
            "0A000",
            "NotImplemented",
        ),
        ("query_entities('Numbers', top => -1)", "22023", "InvalidInput"),
        (
            "query_entities('Numbers', projection => 'N eq 1')",
            "22023",
            "InvalidInput",
        ),
    ] {
        session
            .sql(&format!("SELECT count(*) FROM {read}"))
            .fails_with(sqlstate, code);
        session.run(&format!("EXPLAIN SELECT count(*) FROM {read}"));
        assert!(session.run(&format!("SELECT * FROM {read} WHERE false")).is_empty());
    }
}

#[test]
fn parameters_are_constants_in_a_plan_for_their_values() {
    let (_db, session) = numbers();
    session.run(
        "PREPARE read (text, text, bigint, properties) AS SELECT count(*) FROM query_entities($1, $2, top => $3, parameters => $4)",
    );
    let read = "EXECUTE read ('Numbers', 'PartitionKey eq @p', 7, '{\"p\": \"p3\"}')";
    for mode in ["force_generic_plan", "force_custom_plan"] {
        session.run(&format!("SET plan_cache_mode = {mode}"));
        if mode == "force_generic_plan" {
            calls(&session, read);
        } else {
            reads(&session, read, &["Limit", "Index Cond: (partition_key = 'p3'::text"]);
        }
        assert_eq!(session.text(read), "7");
        session
            .sql("EXECUTE read ('Numbers', 'PartitionKey eq @q', 7, '{\"p\": \"p3\"}')")
            .fails_with("22023", "InvalidInput");
    }
}

#[test]
fn a_kept_plan_knows_what_the_table_is_now() {
    let (db, session) = numbers();
    let role = db.role("reader");
    session.run("SET plan_cache_mode = force_generic_plan");
    let prepare = |session: &Session, table: &str| {
        session.run(&format!(
            "PREPARE read AS SELECT count(*) FROM query_entities('{table}')"
        ));
        session.run(&format!(
            "PREPARE get AS SELECT count(*) FROM query_entities('{table}', 'RowKey eq ''r''') WHERE partition_key = 'p'"
        ));
    };
    let read = |session: &Session| [session.sql("EXECUTE read"), session.sql("EXECUTE get")];
    let counts = |session: &Session| read(session).map(|rows| rows.unwrap()[0][0].clone().unwrap()).join(" ");
    session.run("SELECT create_table('Tab'); SELECT insert_entity('Tab', 'p', 'r', '{\"A\": 1}')");
    prepare(&session, "Tab");
    reads(&session, "EXECUTE read", &["on \"Tab\""]);
    assert_eq!(counts(&session), "1 1");

    // Another table of this name, and none.
    session.run("SELECT delete_table('Tab')");
    for failure in read(&session) {
        failure.fails_with("42P01", "TableNotFound");
    }
    session.run("SELECT create_table('Tab')");
    assert_eq!(counts(&session), "0 0");
    session.run("SELECT insert_entity('Tab', 'p', 'r', '{\"A\": 1}')");
    session.run("ALTER TABLE table_service_data.\"Tab\" RENAME TO \"Other\"; SELECT create_table('Tab')");
    assert_eq!(counts(&session), "0 0");
    session.run("DROP TABLE table_service_data.\"Tab\"; ALTER TABLE table_service_data.\"Other\" RENAME TO \"Tab\"");
    assert_eq!(counts(&session), "1 1");

    // While there was no table, the plan became a call, which nothing but this discards.
    session.run("DISCARD PLANS");
    reads(&session, "EXECUTE get", &["on \"Tab\""]);

    // A row with NULL, which is an error of the catalog.
    session.run("ALTER TABLE table_service_data.\"Tab\" ALTER COLUMN properties DROP NOT NULL");
    session.run("UPDATE table_service_data.\"Tab\" SET properties = NULL");
    for failure in read(&session) {
        failure.fails_with("XX001", "InternalError");
    }
    session.run("UPDATE table_service_data.\"Tab\" SET properties = '{\"A\": 1}'; ALTER TABLE table_service_data.\"Tab\" ALTER COLUMN properties SET NOT NULL");
    reads(&session, "EXECUTE get", &["on \"Tab\""]);

    // An expiry.
    session.run("SELECT set_expiry('Tab', property => 'Until'); SELECT merge_entity('Tab', 'p', 'r', '{\"Until\": \"2020-01-01T00:00:00Z\", \"Until@odata.type\": \"Edm.DateTime\"}', '*')");
    calls(&session, "EXECUTE read");
    assert_eq!(counts(&session), "0 0");
    session.run("SELECT drop_expiry('Tab'); SELECT insert_or_replace_entity('Tab', 'p', 'r', '{\"A\": 1}')");
    reads(&session, "EXECUTE read", &["on \"Tab\""]);
    assert_eq!(counts(&session), "1 1");

    // Rights of the role that runs the plan.
    session.run(&format!("SET ROLE {role}"));
    for failure in read(&session) {
        failure.fails_in_postgres("42501");
    }
    session.run(&format!(
        "RESET ROLE; GRANT SELECT ON table_service_data.\"Tab\" TO {role}; SET ROLE {role}"
    ));
    reads(&session, "EXECUTE read", &["on \"Tab\""]);
    assert_eq!(counts(&session), "1 1");
    session.run(&format!(
        "RESET ROLE; REVOKE USAGE ON SCHEMA table_service_data FROM PUBLIC; SET ROLE {role}"
    ));
    for failure in read(&session) {
        failure.fails_in_postgres("42501");
    }
    // A plan of another role's is not for it.
    session.run("RESET ROLE; DISCARD PLANS");
    reads(&session, "EXECUTE read", &["on \"Tab\""]);
    session.run(&format!("SET ROLE {role}"));
    calls(&session, "EXECUTE read");
    session.run("RESET ROLE; GRANT USAGE ON SCHEMA table_service_data TO PUBLIC");

    // Policies.
    session.run(&format!(
        "ALTER TABLE table_service_data.\"Tab\" ENABLE ROW LEVEL SECURITY; SET ROLE {role}"
    ));
    calls(&session, "EXECUTE read");
    assert_eq!(counts(&session), "0 0");
    session.run("RESET ROLE");
    assert_eq!(counts(&session), "1 1");

    // The dialect of the filter.
    session.run("SELECT create_table('Dia'); SELECT insert_entity('Dia', 'p', 'r', '{\"A\": \"abc\"}'); SET table_service.filter_dialect = 'extended'");
    session.run("PREPARE part AS SELECT 1 FROM query_entities('Dia', 'contains(A, ''b'')') LIMIT 1");
    reads(&session, "EXECUTE part", &["on \"Dia\""]);
    assert_eq!(session.text("EXECUTE part"), "1");
    session.run("RESET table_service.filter_dialect");
    session.sql("EXECUTE part").fails_with("0A000", "NotImplemented");
}

#[test]
fn roles_read_what_the_function_lets_them_read() {
    let (db, owner) = numbers();
    let role = db.role("reader");
    let user = db.session_as(&role, "reader");
    user.run("SET search_path = table_service");
    for read in [
        "query_entities('Numbers', 'N eq 7')",
        "query_entities('Numbers', 'RowKey eq ''00000007''')",
    ] {
        let one = format!("SELECT 1 FROM {read} LIMIT 1");
        let failure = user.sql(&one).fails_in_postgres("42501");
        assert_eq!(failure.message, "permission denied for table Numbers");
        calls(&user, &one);
        owner.run(&format!("GRANT SELECT ON table_service_data.\"Numbers\" TO {role}"));
        reads(&user, &one, &["on \"Numbers\""]);
        assert_eq!(user.text(&one), "1");
        // A view is read with the rights of its reader, as a function in it is called.
        owner.run(&format!(
            "CREATE OR REPLACE VIEW public.seen AS {one}; GRANT SELECT ON public.seen TO {role}"
        ));
        assert_eq!(user.text("SELECT * FROM public.seen"), "1");
        owner.run(&format!("REVOKE SELECT ON table_service_data.\"Numbers\" FROM {role}"));
        user.sql("SELECT * FROM public.seen").fails_in_postgres("42501");
    }
    // The query calls another function of the extension.
    owner.run(&format!("GRANT SELECT ON table_service_data.\"Numbers\" TO {role}"));
    owner.run("REVOKE EXECUTE ON FUNCTION entity_passes(text, text, timestamptz, properties, text) FROM PUBLIC");
    let one = "SELECT 1 FROM query_entities('Numbers', 'N eq 7') LIMIT 1";
    calls(&user, one);
    assert_eq!(user.text(one), "1");
}

#[test]
fn a_query_sees_what_the_statement_sees() {
    let (_db, session) = numbers();
    session.run("SELECT insert_entity('Empty', 'p', i::text, '{}') FROM generate_series(1, 20) AS i");
    // Not the rows that the statement itself writes, and each row once.
    let sql = "WITH written AS (INSERT INTO table_service_data.\"Empty\" VALUES ('q', 'new', now(), '{}') RETURNING row_key)
        SELECT (SELECT count(*) FROM written), count(*), count(insert_entity('Empty', 'z' || row_key, row_key, '{}')) FROM query_entities('Empty')";
    assert_eq!(
        session.run(sql),
        [[Some("1".into()), Some("20".into()), Some("20".into())]]
    );
    let sql = "INSERT INTO table_service_data.\"Empty\" SELECT 'y' || partition_key, row_key, \"timestamp\", properties FROM query_entities('Empty')";
    session.run(sql);
    assert_eq!(session.text("SELECT count(*) FROM query_entities('Empty')"), "82");
    session.run(
        "DO $$ DECLARE e record; BEGIN FOR e IN SELECT * FROM table_service.query_entities('Empty') LOOP
            PERFORM table_service.delete_entity('Empty', e.partition_key, e.row_key); END LOOP; END $$",
    );
    assert_eq!(session.text("SELECT count(*) FROM query_entities('Empty')"), "0");
}
