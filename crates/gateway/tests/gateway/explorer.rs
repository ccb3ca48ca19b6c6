//! The explorer at the level of bytes and of statements. A browser drives it in tests/explorer.

use std::net::SocketAddr;

use raw_http::{ACCOUNT, Answer, Client, Connection, raw};
use serde_json::{Value, json};
use system_tests::Database;
use table_service_explorer::{CALLS, EXPORTED};
use table_service_gateway::database::{PROBE, Statement};
use table_service_model::extension;

use crate::failover::all_hosts;
use crate::gateway::{Gateway, Service, program, url};
use crate::standbys::Replicated;

#[test]
fn every_call_is_a_statement_that_the_database_knows() {
    let database = Database::new();
    let session = database.session("catalog");
    let calls = CALLS.iter().map(|call| (call.sql, call.parameters.len()));
    for (sql, parameters) in calls.chain([(EXPORTED, 4)]) {
        session.run(&format!("PREPARE s AS {sql}"));
        let types: i32 = session.value(
            "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 's'",
            &[],
        );
        assert_eq!(usize::try_from(types), Ok(parameters), "{sql}");
        // It reaches tables through the SQL API only.
        assert!(!sql.contains("table_service_data"), "{sql}");
        session.run("DEALLOCATE s");
    }
}

/// Ten thousand tables are listed in time only if the work for each of them does not grow with their number.
#[test]
fn a_list_of_many_tables_looks_each_of_them_up() {
    let database = Database::new();
    let session = database.session("catalog");
    session.run("SELECT count(table_service.create_table('Table' || i)) FROM generate_series(1, 1000) AS i");
    let call = CALLS.iter().find(|call| call.name == "query_tables").unwrap();
    session.run(&format!("PREPARE s AS {}", call.sql));
    let plan: Vec<String> = session
        .run("EXPLAIN EXECUTE s (NULL)")
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    let has = |part: &str| plan.iter().any(|line| line.contains(part));
    assert!(
        has("Index Scan using pg_class_oid_index") && !has("Seq Scan on pg_class"),
        "{plan:?}"
    );
}

/// The objects of PostgreSQL once more in `public`, if they can be made: functions, operators, types, collations and
/// relations. An aggregate becomes a function.
const LOOKALIKES: &str = r#"
    SET search_path = pg_catalog;
    DO $$
    DECLARE
      command text;
    BEGIN
      FOR command IN
        SELECT format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = pg_catalog.%I)',
            o.oprname, format_type(o.oprleft, NULL), format_type(o.oprright, NULL), p.proname)
          FROM pg_operator AS o JOIN pg_proc AS p ON p.oid = o.oprcode WHERE o.oprkind = 'b'
        UNION ALL
        SELECT format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE internal AS %L',
            p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
            CASE p.prokind WHEN 'a' THEN 'now' ELSE p.prosrc END)
          FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
          WHERE l.lanname = 'internal' AND p.prokind IN ('f', 'a') AND p.pronamespace = 'pg_catalog'::regnamespace
        UNION ALL
        SELECT format('CREATE DOMAIN public.%I AS pg_catalog.%1$I', t.typname)
          FROM pg_type AS t WHERE t.typtype = 'b' AND t.typelem = 0 AND t.typnamespace = 'pg_catalog'::regnamespace
        UNION ALL
        SELECT 'CREATE COLLATION public."C" FROM pg_catalog."C"'
        UNION ALL
        SELECT format('CREATE VIEW public.%I AS SELECT * FROM pg_catalog.%1$I', c.relname)
          FROM pg_class AS c WHERE c.relkind IN ('r', 'v') AND c.relnamespace = 'pg_catalog'::regnamespace
      LOOP
        BEGIN
          EXECUTE command;
        EXCEPTION WHEN OTHERS THEN
          NULL;
        END;
      END LOOP;
    END $$;
    RESET search_path"#;

/// A role that may create in a schema of the search_path must not get the rights of the gateway's role.
#[test]
fn what_others_have_made_in_the_search_path_is_not_called() {
    let database = Database::new();
    let session = database.session("owner");
    session.run(LOOKALIKES);
    // Returns the objects of `public` that a statement would use: a function depends on them.
    let used = |sql: &str| {
        session.run(&format!(
            "SET search_path = public, pg_catalog; PREPARE s AS {sql}; SET search_path = pg_catalog"
        ));
        let types: String = session.value(
            "SELECT coalesce(string_agg(format('%I.%I', t.typnamespace::regnamespace, t.typname), ', ' ORDER BY p.ordinality), '')
             FROM pg_prepared_statements AS s, unnest(s.parameter_types) WITH ORDINALITY AS p (type, ordinality)
               JOIN pg_type AS t ON t.oid = p.type
             WHERE s.name = 's'",
            &[],
        );
        session.run(&format!(
            "SET search_path = public, pg_catalog;
             CREATE FUNCTION pg_temp.probe({types}) RETURNS SETOF record LANGUAGE sql BEGIN ATOMIC {sql}; END;
             SET search_path = pg_catalog"
        ));
        let used: Vec<String> = session.value(
            "SELECT coalesce(array_agg(i.identity), '{}') FROM pg_depend AS d, pg_identify_object(d.refclassid, d.refobjid, 0) AS i
             WHERE d.objid = (SELECT oid FROM pg_proc WHERE proname = 'probe') AND i.schema = 'public'",
            &[],
        );
        session.run("DROP FUNCTION pg_temp.probe; DEALLOCATE s");
        used
    };
    // All kinds of them would be found.
    for (sql, lookalike) in [
        ("SELECT json_build_object('a', 1)", "public.json_build_object("),
        ("SELECT count(1)", "public.count("),
        ("SELECT $1::pg_catalog.json ->> 0", "public.->>("),
        ("SELECT $1::text", "public.text"),
        ("SELECT $1::pg_catalog.text COLLATE \"C\"", "public.\"C\""),
        ("SELECT 1 FROM pg_class", "public.pg_class"),
    ] {
        let used = used(sql);
        assert!(used.iter().any(|one| one.starts_with(lookalike)), "{sql}: {used:?}");
    }
    let statements = CALLS.iter().map(|call| call.sql).chain([EXPORTED]);
    for sql in statements
        .chain(Statement::ALL.map(Statement::sql))
        .chain([extension::LOOK, PROBE])
    {
        assert_eq!(used(sql), Vec::<String>::new(), "{sql}");
    }
}

#[test]
fn the_explorer_is_for_this_machine() {
    let database = Database::new();
    let url = url(database.cluster(), database.name(), "postgres");
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"];
    let mut gateway = program(&listen);
    let started = gateway
        .args(["--database-url", &url, "--explorer", "read"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(!started.status.success());
    assert!(
        said.contains("explorer (--explorer, TABLE_SERVICE_EXPLORER, or explorer in the configuration file): 0.0.0.0:0 can be reached")
            && said.contains("ssh -L"),
        "{said}"
    );
}

#[test]
fn the_explorer_is_off_unless_it_is_wanted() {
    let service = Service::start();
    service.gateway.admin("/explorer").expect(404);
    service.gateway.admin("/explorer/api").expect(404);
}

#[test]
fn the_address_is_printed_on_terminals_only() {
    let service = Service::with(&["--explorer", "write"]);
    service.gateway.admin("/explorer").expect(200);
    service
        .gateway
        .waits_for_log("name a file for it with --explorer-address-file");
    assert!(!service.gateway.log().contains("token="));
}

/// As root, it would replace `/dev/null` and `/dev/stdout`.
#[test]
fn what_is_no_file_is_not_replaced_by_one_with_the_address() {
    let database = Database::new();
    let url = url(database.cluster(), database.name(), "postgres");
    let directory = std::env::temp_dir().join(format!("table_service_explorer_{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&directory).unwrap();
    let (socket, link) = (directory.join("socket"), directory.join("link"));
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::os::unix::fs::symlink(directory.join("target"), &link).unwrap();
    for path in [&socket, &link, &directory] {
        let before = std::fs::symlink_metadata(path).unwrap();
        let mut gateway = program(&["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        gateway.args(["--database-url", &url, "--explorer", "read", "--explorer-address-file"]);
        let started = gateway.arg(path).output().unwrap();
        let said = String::from_utf8_lossy(&started.stderr);
        assert!(!started.status.success());
        let problem = format!("{}: it is there and is no file", path.display());
        assert!(
            said.contains("explorer_address_file (--explorer-address-file") && said.contains(&problem),
            "{said}"
        );
        let after = std::fs::symlink_metadata(path).unwrap();
        assert_eq!(after.file_type(), before.file_type());
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// The explorer of a gateway, and the token for it.
struct Page {
    address: SocketAddr,
    token: String,
}

impl Page {
    /// Starts a gateway with an explorer.
    fn of<T>(mode: &str, start: impl FnOnce(&[&str]) -> T) -> (T, Page) {
        let file = std::env::temp_dir().join(format!("table_service_explorer_{mode}_{}", uuid::Uuid::new_v4()));
        let service = start(&["--explorer", mode, "--explorer-address-file", file.to_str().unwrap()]);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let (address, token) = text.trim().split_once("/explorer#token=").unwrap();
        let page = Page {
            address: address.strip_prefix("http://").unwrap().parse().unwrap(),
            token: token.to_owned(),
        };
        (service, page)
    }

    fn call(&self, name: &str, body: &Value) -> Answer {
        Client::new(self.address).exchange(&self.request(name, body))
    }

    /// The bytes of a call.
    fn request(&self, name: &str, body: &Value) -> Vec<u8> {
        let (body, host) = (body.to_string(), self.address.to_string());
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("Host", host.as_str()),
            ("Content-Type", "application/json"),
            ("Authorization", &bearer),
            ("Content-Length", &body.len().to_string()),
        ];
        let target = format!("/explorer/api/{ACCOUNT}/{name}");
        raw("POST", &target, &headers, body.as_bytes())
    }
}

/// A gateway with an explorer, and a database of its own.
struct Explorer {
    service: Service,
    page: Page,
}

impl Explorer {
    fn start(mode: &str) -> Explorer {
        let (service, page) = Page::of(mode, Service::with);
        Explorer { service, page }
    }

    /// With the table Things, which has one entity.
    fn with_an_entity(mode: &str) -> Explorer {
        let explorer = Explorer::start(mode);
        explorer.service.create_table("Things");
        explorer
            .service
            .insert("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#);
        explorer
    }

    fn call(&self, name: &str, body: &Value) -> Answer {
        self.page.call(name, body)
    }
}

/// With several hosts in the database's URL it follows the primary, as clients do.
#[test]
fn the_explorer_follows_a_promotion() {
    let servers = Replicated::start(&[&[]]);
    let hosts = all_hosts(&servers);
    let (_gateway, page) = Page::of("write", |explorer| {
        Gateway::start(&[&["--database-url", &hosts], explorer].concat())
    });
    let insert = |row: &str| {
        let entity = json!({"table": "Things", "partitionKey": "p", "rowKey": row, "properties": "{}"});
        page.call("insert_entity", &entity).status
    };
    assert_eq!(insert("before"), 200);
    servers.primary.kill();
    servers.standbys[0].promote();
    system_tests::wait_until("it writes again", || insert("after") == 200);
    page.call(
        "get_entity",
        &json!({"table": "Things", "partitionKey": "p", "rowKey": "after"}),
    )
    .expect(200);
}

#[test]
fn an_explorer_that_reads_reads_only() {
    let explorer = Explorer::with_an_entity("read");
    let count = || {
        explorer
            .call("count_entities", &json!({"table": "Things"}))
            .expect(200)
            .json()
    };
    assert_eq!(count(), json!({"count": 1}));
    for (name, body) in [
        (
            "insert_entity",
            json!({"table": "Things", "partitionKey": "p", "rowKey": "s", "properties": "{}"}),
        ),
        ("clear_table", json!({"table": "Things"})),
        ("create_table", json!({"table": "Others"})),
        ("delete_table", json!({"table": "Things"})),
    ] {
        let answer = explorer.call(name, &body).expect(403);
        assert_eq!(answer.json()["error"]["message"], "This explorer only reads.", "{name}");
    }
    assert_eq!(count(), json!({"count": 1}));
}

/// A trigger finds the objects that it names, as it does when a client writes.
#[test]
fn triggers_run_with_the_search_path_of_the_role() {
    let explorer = Explorer::with_an_entity("write");
    let session = explorer.service.database.session("owner");
    session.run(
        "CREATE TABLE public.audit (key text);
         CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql
           AS $$BEGIN INSERT INTO audit VALUES (NEW.row_key); RETURN NEW; END$$;
         CREATE TRIGGER note AFTER INSERT ON table_service_data.\"Things\" FOR EACH ROW EXECUTE FUNCTION public.note()",
    );
    let body = json!({"table": "Things", "partitionKey": "p", "rowKey": "s", "properties": "{}"});
    explorer.call("insert_entity", &body).expect(200);
    assert_eq!(session.value::<String>("SELECT key FROM public.audit", &[]), "s");
}

#[test]
fn an_import_has_a_mode() {
    let explorer = Explorer::start("write");
    explorer.service.create_table("Things");
    let part = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let import = |mode| {
        let body = json!({"table": "Things", "mode": mode, "form": "lines", "head": null, "part": part, "line": 1, "isLast": true});
        explorer.call("import_entities", &body)
    };
    for mode in [json!(null), json!("upsert")] {
        let answer = import(mode.clone()).expect(400);
        assert_eq!(answer.json()["error"]["code"], "InvalidInput", "{mode}");
    }
    assert_eq!(
        import(json!("insert")).expect(200).json(),
        json!({"written": 1, "taken": part.len(), "line": 1, "column": 34, "head": null})
    );
}

/// Calls that arrive slowly are answered when they are there, and until then other calls are.
#[test]
fn slow_calls_keep_no_other_call_waiting() {
    let explorer = Explorer::with_an_entity("read");
    let count = json!({"table": "Things"});
    let long = json!({"table": "Things", "more": "a".repeat(1 << 20)});
    for (slow, expected) in [(&count, r#"{"count" : 1}"#), (&long, "There is no parameter")] {
        let request = explorer.page.request("count_entities", slow);
        let (last, first) = request.split_last().unwrap();
        let mut waiting: Vec<_> = (0..4).map(|_| Connection::open(explorer.page.address)).collect();
        waiting.iter_mut().for_each(|connection| connection.write(first));
        explorer.call("count_entities", &count).expect(200);
        let answered = waiting.iter_mut().map(|connection| {
            connection.write(std::slice::from_ref(last));
            connection.answer().unwrap().text().to_owned()
        });
        let answered: Vec<String> = answered.collect();
        assert!(answered.iter().all(|text| text.contains(expected)), "{answered:?}");
    }
}

#[test]
fn a_path_of_a_download_works_once() {
    let explorer = Explorer::with_an_entity("write");
    let answer = explorer
        .call("export", &json!({"table": "Things", "format": "jsonl"}))
        .expect(200);
    let path = answer.json()["path"].as_str().unwrap().to_owned();
    let lines = explorer.service.gateway.admin(&path).expect(200);
    assert!(lines.text().contains(r#""RowKey":"r""#), "{}", lines.text());
    explorer.service.gateway.admin(&path).expect(404);
}

/// A line of CSV has a place for each property of the whole table, so small entities can make a large file.
#[test]
fn properties_of_many_names_take_little_memory() {
    let explorer = Explorer::start("read");
    explorer.service.create_table("Things");
    let session = explorer.service.database.session("owner");
    // 28 entities with 250 properties each, all of other names, and 3,000 small ones.
    session.run(
        "INSERT INTO table_service_data.\"Things\"
        SELECT 'p', lpad(e::text, 5, '0'), now(),
            (SELECT CASE WHEN e > 28 THEN '{}' ELSE jsonb_object_agg('P' || e || '_' || n, n) END FROM generate_series(1, 250) AS n)::table_service.properties
        FROM generate_series(1, 3028) AS e",
    );
    let export = || explorer.call("export", &json!({"table": "Things", "format": "csv"}));
    let before = explorer.service.gateway.most_memory();
    let path = export().expect(200).json()["path"].as_str().unwrap().to_owned();
    let file = explorer.service.gateway.admin(&path).expect(200);
    assert_eq!(file.text().lines().count(), 3029);
    assert!(file.text().len() > 40_000_000, "{}", file.text().len());
    let taken = explorer.service.gateway.most_memory() - before;
    assert!(taken < 24.0 * 1024.0 * 1024.0, "{taken}");
    session.run(
        "INSERT INTO table_service_data.\"Things\"
        SELECT 'q', e::text, now(), (SELECT jsonb_object_agg('Q' || e || '_' || n, n) FROM generate_series(1, 250) AS n)::table_service.properties
        FROM generate_series(1, 10) AS e",
    );
    let message = export().expect(400).json()["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(message.contains("Export JSON lines"), "{message}");
}

/// A preview of a file with very many columns has a small answer, and takes its memory from that of requests.
#[test]
fn a_preview_takes_memory_of_the_gateway_and_little_of_it() {
    let object = |row: usize| {
        let members: Vec<String> = (0..1500).map(|n| format!("\"r{row}_{n}\":null")).collect();
        format!("{{{}}}\n", members.join(","))
    };
    let part: String = (0..300).map(object).collect();
    assert!(part.len() > 6 << 20);
    let body = json!({"isCsv": false, "isLast": true, "part": part});

    let explorer = Explorer::start("read");
    let preview = || explorer.call("preview_import", &body).expect(200).text().len();
    let before = explorer.service.gateway.most_memory();
    let lengths: Vec<usize> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(preview)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(lengths.iter().all(|length| *length < 1 << 20), "{lengths:?}");
    let taken = explorer.service.gateway.most_memory() - before;
    assert!(taken < 4.0 * 6.0 * 8.0 * 1024.0 * 1024.0, "{taken}");

    // An account alone has all of it.
    let little = ["--max-memory", "24", "--pool-timeout", "1"];
    let (_service, page) = Page::of("read", |explorer| Service::with(&[explorer, &little].concat()));
    let refused = page.call("preview_import", &body).expect(503);
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("MiB of the gateway's memory (max_memory)"),
        "{message}"
    );
    let short = json!({"isCsv": true, "isLast": true, "part": "PartitionKey,RowKey\np,r\n"});
    page.call("preview_import", &short).expect(200);
}

/// A size needs a lock on the table and on its indexes. The list does not wait for the lock of another session.
#[test]
fn a_locked_table_has_an_unknown_size_and_hides_no_other() {
    let explorer = Explorer::with_an_entity("read");
    let session = explorer.service.database.session("owner");
    session.run(
        "SELECT table_service.create_table(name) FROM unnest(ARRAY['Locked', 'Reindexed']) AS name;
        SELECT table_service.create_property_index('Reindexed', 'N');
        CREATE TABLE table_service_data.\"Parted\" OF table_service.entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY LIST (partition_key);
        CREATE TABLE public.part PARTITION OF table_service_data.\"Parted\" DEFAULT",
    );
    session.run(
        "BEGIN; LOCK TABLE table_service_data.\"Locked\"; LOCK TABLE public.part;
        REINDEX INDEX table_service_data.\"Reindexed_N\"",
    );
    let list = || {
        explorer
            .call("query_tables", &json!({"token": null}))
            .expect(200)
            .json()
    };
    let known = |list: &Value| -> Vec<(String, bool)> {
        let tables = list["tables"].as_array().unwrap().iter();
        tables
            .map(|table| (table["name"].as_str().unwrap().to_owned(), table["bytes"].is_number()))
            .collect()
    };
    let expected = |locked: bool| {
        ["Locked", "Parted", "Reindexed"]
            .map(|name| (name.to_owned(), locked))
            .into_iter()
            .chain([("Things".to_owned(), true)])
    };
    assert_eq!(known(&list()), expected(false).collect::<Vec<_>>());
    session.run("ROLLBACK");
    assert_eq!(known(&list()), expected(true).collect::<Vec<_>>());
}

#[test]
fn browsers_are_told_to_run_nothing_else_and_to_show_the_page_nowhere_else() {
    let explorer = Explorer::start("read");
    let answers =
        ["/explorer", "/explorer/main.js", "/explorer/download/x"].map(|path| explorer.service.gateway.admin(path));
    let called = explorer.call("query_tables", &json!({}));
    for answer in answers.into_iter().chain([called]) {
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.split("; ").any(|one| one == part), "{part}: {policy}");
        }
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    }
}
