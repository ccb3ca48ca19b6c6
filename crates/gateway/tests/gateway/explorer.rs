//! The explorer at the level of bytes and of statements. A browser drives it in tests/explorer.

use std::net::SocketAddr;

use raw_http::{ACCOUNT, Answer, Client, raw};
use serde_json::{Value, json};
use system_tests::Database;
use table_service_gateway::explorer::{CALLS, EXPORTS};

use crate::gateway::{Service, program, url};

#[test]
fn every_call_is_a_statement_that_the_database_knows() {
    let database = Database::new();
    let session = database.session("catalog");
    let calls = CALLS.iter().map(|call| (call.sql, call.parameters.len()));
    for (sql, parameters) in calls.chain(EXPORTS.map(|sql| (sql, 4))) {
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
    let told = "name a file for it with --explorer-address-file";
    system_tests::wait_until("the log says so", || service.gateway.log().contains(told));
    assert!(!service.gateway.log().contains("token="));
}

/// A gateway with an explorer, and who knows its token.
struct Explorer {
    service: Service,
    address: SocketAddr,
    token: String,
}

impl Explorer {
    fn start(mode: &str) -> Explorer {
        let file = std::env::temp_dir().join(format!("table_service_explorer_{mode}_{}", uuid::Uuid::new_v4()));
        let service = Service::with(&["--explorer", mode, "--explorer-address-file", file.to_str().unwrap()]);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let (address, token) = text.trim().split_once("/explorer#token=").unwrap();
        Explorer {
            address: address.strip_prefix("http://").unwrap().parse().unwrap(),
            token: token.to_owned(),
            service,
        }
    }

    fn call(&self, name: &str, body: &Value) -> Answer {
        let (body, host) = (body.to_string(), self.address.to_string());
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("Host", host.as_str()),
            ("Content-Type", "application/json"),
            ("Authorization", &bearer),
            ("Content-Length", &body.len().to_string()),
        ];
        let target = format!("/explorer/api/{ACCOUNT}/{name}");
        Client::new(self.address).exchange(&raw("POST", &target, &headers, body.as_bytes()))
    }
}

#[test]
fn an_explorer_that_reads_reads_only() {
    let explorer = Explorer::start("read");
    explorer.service.create_table("Things");
    explorer
        .service
        .insert("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#);
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

#[test]
fn a_path_of_a_download_works_once() {
    let explorer = Explorer::start("write");
    explorer.service.create_table("Things");
    explorer
        .service
        .insert("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#);
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
    let export = || {
        let answer = explorer.call("export", &json!({"table": "Things", "format": "csv"}));
        let path = answer.expect(200).json()["path"].as_str().unwrap().to_owned();
        explorer.service.gateway.admin(&path)
    };
    let before = explorer.service.gateway.most_memory();
    let file = export().expect(200);
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
