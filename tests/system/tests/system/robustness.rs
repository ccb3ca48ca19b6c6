//! Nothing that SQL can call fails internally, whatever it is called with.

use std::fs;

use system_tests::{Database, Expect, Failure, Session, Texts};

/// Arguments of a type that are likely to be mishandled, as SQL. `None` for an unknown type.
fn arguments(type_name: &str) -> Option<Vec<String>> {
    let literals: &[&str] = match type_name {
        "text" | "cstring" => &[
            "",
            "*",
            "A",
            "Known",
            "KNOWN",
            "p",
            "r",
            "Edm.Int32",
            "PartitionKey",
            "minimal",
            "full",
            "none",
            "ä€𐐷",
            "a/b",
            "%",
            "'",
            "\"",
            "W/\"x\"",
            "W/\"datetime'2022-04-13T21%3A50%3A14Z'\"",
            "{}",
            "[]",
            "null",
            "{\"A\": 1}",
            "{\"A\": [[[]]]}",
            "{\"PartitionKey\": \"p\", \"RowKey\": \"r\"}",
            "[{\"insert\": {\"RowKey\": \"a\"}}]",
            "2516000000000000000",
            "-1",
            "A eq 1",
            "PartitionKey eq 'p' and (RowKey gt 'a' or not (A lt 3.5))",
            "((((",
            "@p eq 1",
            "Timestamp gt datetime'2000-01-01T00:00:00Z'",
            "1!8!cA--",
            "A,B,*,",
            "Known; DROP TABLE x",
            "\u{1}\u{7f}",
            "\u{FEFF}",
        ],
        "boolean" => &["true", "false"],
        "integer" => &["0", "1", "-1", "5", "2147483647", "-2147483648"],
        "oid" => &["0", "1", "1247", "1259", "2606", "4294967295"],
        "bigint" => &[
            "0",
            "1",
            "-1",
            "1000",
            "9223372036854775807",
            "-9223372036854775808",
            "3155378975999999999",
        ],
        "interval" => &[
            "0",
            "1 s",
            "-1 s",
            "1 mon",
            "178000000 years",
            "-178000000 years",
            "2147483647 days",
            "9223372036854 s",
        ],
        "timestamp with time zone" => &[
            "2022-04-13 21:50:14.123456Z",
            "infinity",
            "-infinity",
            "4713-01-01 00:00:00Z BC",
            "0001-01-01Z",
            "0001-12-31Z BC",
            "1600-12-31 23:59:59.999999Z",
            "1601-01-01Z",
            "9999-12-31 23:59:59.999999Z",
            "10000-01-01Z",
            "294276-12-31 23:59:59Z",
        ],
        "text[]" => &[
            "{}",
            "{A}",
            "{r,s,NULL}",
            "{{a,b},{c,d}}",
            "{\"\",\"a/b\"}",
            "[5:6]={x,y}",
        ],
        "bytea" => &[
            "",
            "\\x00",
            "\\x01",
            "\\x0100000000",
            "\\x01ffffffff",
            "\\x01feffffff",
            "\\x01000000000100000041ffffffffffffffffffffffff",
            "\\xffffffffffffffffffffffffffffffffff",
        ],
        "json" => &[
            "[]",
            "{}",
            "null",
            "[null]",
            r#"[{"Id": "a", "Start": "2026-01-01", "Expiry": "9999-12-31T23:59:59.9999999Z", "Permission": "raud"}]"#,
            r#"[{"Id": "a", "Id": "b"}]"#,
            r#"[{"Id": "\u0000"}]"#,
            r#"{"Cors": []}"#,
            r#"{"Logging": []}"#,
            r#"{"HourMetrics": {"Version": "1.0", "Enabled": true, "IncludeAPIs": true, "RetentionPolicy": {"Enabled": true, "Days": 99999}}}"#,
            r#"{"Cors": [{"AllowedOrigins": ["*"], "AllowedMethods": ["GET"], "MaxAgeInSeconds": -1}]}"#,
        ],
        "jsonb" => &[
            "{}",
            "[]",
            "1",
            "null",
            "{\"A\": 1}",
            "{\"A\": {}}",
            "{\"A\": 1e400}",
            "{\"A\": 1.10, \"B\": -0.0}",
            "{\"A@odata.type\": \"Edm.Guid\", \"A\": \"\"}",
        ],
        "table_service.properties" => &[
            "{}",
            "{\"A\": 1}",
            "{\"A\": \"ä\", \"B\": true, \"C\": 1.5}",
            "{\"A@odata.type\": \"Edm.DateTime\", \"A\": \"9999-12-31T23:59:59.9999999Z\", \"B@odata.type\": \"Edm.Double\", \"B\": \"NaN\"}",
            "{\"A@odata.type\": \"Edm.Binary\", \"A\": \"AAEC\", \"B@odata.type\": \"Edm.Guid\", \"B\": \"c9da6455-213d-42c9-9a79-3e9149a57833\"}",
        ],
        "table_service.entity" => &[
            "(,,,)",
            "(p,,,)",
            "(p,r,,)",
            "(p,r,infinity,{})",
            "(p,r,-infinity,{})",
            "(p,r,2022-04-13 21:50:14Z,{})",
            "(a/b,\"\",\"4713-01-01 BC\",{})",
            "(p,r,2022-04-13 21:50:14Z,\"{\"\"A\"\": 1}\")",
        ],
        "table_service.batch_operation" => &[
            "(,,,)",
            "(insert,a,{},)",
            "(replace,r,{},*)",
            "(delete,r,,*)",
            "(delete,r,{},)",
            "(unknown,r,{},)",
            "(merge,r,,*)",
            "(patch,r,{},*)",
            "(\"patch {}\",r,{},*)",
            "(\"patch {\"\"remove\"\": [\"\"A\"\"]}\",r,,*)",
            "(\"patch {\"\"condition\"\": 1}\",r,{},*)",
            "(\"patch [\",r,{},*)",
            "(insert_or_merge,b,{},*)",
        ],
        "table_service.batch_operation[]" => &[
            "{}",
            "{NULL}",
            "{\"(insert,a,{},)\"}",
            "{\"(insert,a,{},)\",\"(insert,a,{},)\"}",
            "{\"(,,,)\",\"(delete,r,,*)\"}",
            "{\"(\\\"patch {}\\\",r,{},*)\",\"(\\\"patch {\\\",a,{},*)\"}",
            "{{\"(insert,c,{},)\",\"(delete,r,,*)\"}}",
        ],
        "record" => {
            return Some(
                ["ROW()", "ROW(NULL)", "ROW(1, 'a', now(), NULL)", "ROW(ROW(1), ARRAY[1], 'NaN'::numeric, '-infinity'::timestamptz)",
                    "ROW('infinity'::float8, '\\x00'::bytea, gen_random_uuid(), 'x'::\"char\", 1::int2, true, '{}'::jsonb)",
                    "(SELECT c FROM pg_catalog.pg_class AS c LIMIT 1)", "NULL::record"]
                .map(str::to_owned)
                .to_vec(),
            );
        }
        _ => return None,
    };
    let quoted = literals
        .iter()
        .map(|literal| format!("'{}'::{type_name}", literal.replace('\'', "''")));
    Some(quoted.chain([format!("NULL::{type_name}")]).collect())
}

/// Calls a function in a transaction that is rolled back. Only documented errors may come out.
fn call(session: &Session, statement: &str) {
    check(statement, session.sql(&format!("BEGIN; {statement}")));
    session.run("ROLLBACK");
}

fn check(statement: &str, outcome: Result<Texts, Failure>) {
    match outcome {
        Ok(_) => {}
        Err(failure) => {
            let documented = [
                // Codes of the error catalog.
                "22003", "22023", "22P02", "22P03", "23502", "23505", "40002", "42501", "42602", "42704", "42P01",
                "42P07", "54000", "0A000", "P0002", "42703",
                // PostgreSQL's own: date out of range, interval out of range, wrong array, character not in repertoire.
                "22008", "22015", "2202E", "22021",
                // A feed of all tables, while other tests write for long.
                "55P03",
            ];
            assert!(
                documented.contains(&failure.sqlstate.as_str()),
                "{statement}: {failure:?}"
            );
        }
    }
}

#[test]
fn no_function_fails_internally() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Known'); SELECT table_service.insert_entity('Known', 'p', 'r', '{\"A\": 1}')");
    let functions = session.run(
        "SELECT p.oid::regproc, pg_catalog.array_to_string(ARRAY(
                SELECT t::regtype FROM unnest(p.proargtypes) WITH ORDINALITY AS u(t, n) ORDER BY n), ';'), p.prokind
        FROM pg_catalog.pg_proc AS p
        JOIN pg_catalog.pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
        JOIN pg_catalog.pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
        WHERE e.extname = 'table_service' AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
            AND NOT p.proargtypes::oid[] && ARRAY['internal'::regtype::oid]
        ORDER BY 1, 2",
    );
    assert!(functions.len() > 50);
    let mut seed = 1u64;
    let mut pick = |count: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % count
    };
    for function in functions {
        let (name, types) = (function[0].clone().unwrap(), function[1].clone().unwrap());
        let types: Vec<_> = types.split(';').filter(|name| !name.is_empty()).collect();
        let choices: Vec<_> = types
            .iter()
            .map(|name| arguments(name).unwrap_or_else(|| panic!("no arguments of type {name} are known")))
            .collect();
        let combinations = choices.iter().map(Vec::len).fold(1, usize::saturating_mul);
        for round in 0..combinations.min(150) {
            let mut rest = round;
            let values: Vec<_> = choices
                .iter()
                .map(|choice| {
                    // All of them when they are few, else some.
                    let index = if combinations <= 150 {
                        rest % choice.len()
                    } else {
                        pick(choice.len())
                    };
                    rest /= choice.len();
                    choice[index].clone()
                })
                .collect();
            let variadic = if types
                .last()
                .is_some_and(|name| *name == "table_service.batch_operation[]")
            {
                "VARIADIC "
            } else {
                ""
            };
            let arguments = match values.split_last() {
                Some((last, others)) => [others, &[format!("{variadic}{last}")]].concat().join(", "),
                None => String::new(),
            };
            if function[2].as_deref() == Some("p") {
                // A procedure commits, so nothing is rolled back; nearly all of its calls are refused.
                check(
                    &format!("CALL {name}({arguments})"),
                    session.sql(&format!("CALL {name}({arguments})")),
                );
            } else {
                call(&session, &format!("SELECT f FROM {name}({arguments}) AS f"));
            }
        }
    }
}

#[test]
fn the_trigger_function_refuses_other_tables_and_events() {
    let db = Database::new();
    let session = db.session("s");
    // Any role may put it on a table of its own, with other columns.
    for (number, columns) in [
        "a int",
        "a int, b int, c text",
        "a int, b int, c bigint",
        "a int, b int, c timestamp",
        "",
    ]
    .iter()
    .enumerate()
    {
        session.run(&format!(
            "CREATE TABLE t{number} ({columns});
            INSERT INTO t{number} DEFAULT VALUES;
            CREATE TRIGGER rising BEFORE UPDATE ON t{number} FOR EACH ROW EXECUTE FUNCTION table_service.rising_timestamp()"
        ));
        let column = if columns.is_empty() { "a" } else { "a = 1" };
        if !columns.is_empty() {
            session
                .sql(&format!("UPDATE t{number} SET {column}"))
                .fails_with("22023", "InvalidInput");
        }
    }
    session.run("CREATE TABLE dropped (a int, b int, x int, c timestamptz); ALTER TABLE dropped DROP COLUMN x; INSERT INTO dropped DEFAULT VALUES");
    session.run(
        "CREATE TRIGGER rising BEFORE UPDATE ON dropped FOR EACH ROW EXECUTE FUNCTION table_service.rising_timestamp()",
    );
    session
        .sql("UPDATE dropped SET a = 1")
        .fails_with("22023", "InvalidInput");

    for event in [
        "AFTER UPDATE ON v FOR EACH ROW",
        "BEFORE INSERT OR DELETE ON v FOR EACH ROW",
        "BEFORE UPDATE ON v FOR EACH STATEMENT",
    ] {
        session.run("CREATE TABLE v OF table_service.entity; INSERT INTO v VALUES ('p', 'r', now(), '{}')");
        session.run(&format!(
            "CREATE TRIGGER rising {event} EXECUTE FUNCTION table_service.rising_timestamp()"
        ));
        let statement = if event.contains("UPDATE") {
            "UPDATE v SET row_key = 's'"
        } else {
            "DELETE FROM v"
        };
        session.sql(statement).fails_with("22023", "InvalidInput");
        session.run("DROP TABLE v");
    }
    // 0A000: trigger functions can only be called as triggers.
    session.sql("SELECT table_service.rising_timestamp()").unwrap_err();
}

#[test]
fn a_million_calls_in_one_statement_take_no_more_memory_than_one() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Known'); SELECT table_service.insert_entity('Known', 'p', 'r', '{\"A\": 1}')");
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", session.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .unwrap()
            .trim()
            .to_owned();
        line.trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    for call in [
        "length(table_service.insert_or_merge_entity('Known', 'p', (n % 10)::text, '{\"A\": 1}'))",
        "(SELECT count(*) FROM table_service.get_entity('Known', 'p', (n % 10)::text))",
        "(SELECT count(*) FROM table_service.each_property(jsonb_build_object('N', n, 'Text', repeat('x', 100))))",
        "length((jsonb_build_object('N', n)::table_service.properties OPERATOR(table_service.||) '{\"B\": 2}')::text)",
        "length(table_service.entity_to_json(table_service.entity_from_json('{\"PartitionKey\": \"p\", \"RowKey\": \"' || n || '\"}'), 'full')::text)",
        "(table_service.delete_entity('Known', 'p', n::text, if_exists => true))::int",
    ] {
        let run = |count: i32| {
            session.run(&format!(
                "SELECT count({call}) FROM (SELECT generate_series(1, {count}) AS n) AS s"
            ));
            memory()
        };
        let few = run(2000);
        let many = run(30000);
        assert!(
            many < few + 8000,
            "{call}: {few} kB after few calls, {many} kB after many"
        );
    }
}

/// Where PostgreSQL's own functions say that memory is out, ours do, and the server lives on.
#[test]
fn arguments_larger_than_memory_end_a_statement_and_not_the_server() {
    let db = Database::new();
    let witness = db.session("witness");
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Employees')");
    session.run("CREATE TABLE keys AS SELECT array_agg(n::text) AS keys FROM generate_series(1, 4000000) AS n");
    // The server's user sets the limit of its process.
    let limit = |bytes: &str| {
        let pid = session.pid();
        witness.run(&format!(
            "COPY (SELECT 1 WHERE false) TO PROGRAM 'prlimit --pid={pid} --as={bytes}:'"
        ));
    };
    let status = fs::read_to_string(format!("/proc/{}/status", session.pid())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let size: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    // From too little for the array itself to nearly enough for everything.
    for megabytes in (40..700).step_by(60) {
        limit(&(size * 1024 + megabytes * 1024 * 1024).to_string());
        for call in [
            "(SELECT count(*) FROM table_service.get_entities('Employees', 'p', keys))",
            "table_service.remove_properties('{}', keys)",
        ] {
            match session.sql(&format!("SELECT {call} FROM keys")) {
                Ok(_) => {}
                Err(failure) => assert_eq!(failure.sqlstate, "53200", "{megabytes} MB: {failure:?}"),
            }
        }
    }
    limit("unlimited");
    assert_eq!(session.text("SELECT 'alive'"), "alive");
    assert_eq!(witness.text("SELECT 'alive'"), "alive");
}
