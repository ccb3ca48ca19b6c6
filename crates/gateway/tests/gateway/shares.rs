//! Attacks on shared resources: memory, places, connections. The tests assert bounds and that the other account is
//! served, not times.

use raw_http::{Answer, Client, Connection, account};
use system_tests::{Database, wait_until};

use crate::gateway::{Gateway, Service, url};

const MIB: f64 = 1024.0 * 1024.0;

/// A gateway with two accounts. Each has its own database with the table Things.
pub struct Two {
    pub gateway: Gateway,
    pub one: Client,
    pub other: Client,
    pub databases: [Database; 2],
}

/// The part of a configuration file that has these accounts, each with a database of its own.
pub fn accounts(names: &[&str], databases: &[Database]) -> String {
    names
        .iter()
        .zip(databases)
        .map(|(name, database)| {
            let url = url(database.cluster(), database.name(), "postgres");
            format!("[[accounts]]\nname = \"{name}\"\nkeys = [\"a2V5\"]\ndatabase_url = \"{url}\"\n")
        })
        .collect()
}

impl Two {
    pub fn start(arguments: &[&str]) -> Two {
        let databases = [Database::new(), Database::new()];
        let accounts = accounts(&["one", "two"], &databases);
        let file = std::env::temp_dir().join(format!("gateway-shares-{}.toml", databases[0].name()));
        std::fs::write(&file, accounts).unwrap();
        let mut all = vec!["--config", file.to_str().unwrap()];
        all.extend(arguments);
        let gateway = Gateway::start(&all);
        std::fs::remove_file(&file).unwrap();
        let client = |name: &str| Client {
            account: account(name, "a2V5"),
            prefix: format!("/{name}"),
            ..gateway.client()
        };
        let two = Two {
            one: client("one"),
            other: client("two"),
            gateway,
            databases,
        };
        for client in [&two.one, &two.other] {
            client.post("Tables", r#"{"TableName":"Things"}"#).expect(201);
        }
        two
    }
}

/// Inserts entities of about 9 MB in all.
fn fill(client: &Client) {
    let text = "x".repeat(30_000);
    for row in 0..30 {
        let properties: Vec<String> = (0..10).map(|n| format!("\"s{n}\":\"{text}\"")).collect();
        let body = format!(
            "{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",{}}}",
            properties.join(",")
        );
        client.post("Things", &body).expect(201);
    }
}

/// A signed insert that announces a longer body than it sends.
fn unfinished(client: &Client, sent: &[u8]) -> Vec<u8> {
    let request = client.request("POST", "Things", &[("Content-Type", "application/json")], b"");
    let text = String::from_utf8(request).unwrap();
    let mut bytes = text
        .replace("Content-Length: 0", "Content-Length: 4000000")
        .into_bytes();
    bytes.extend_from_slice(sent);
    bytes
}

#[track_caller]
fn is_busy(answer: &Answer) {
    answer.fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
    assert_eq!(answer.header("Retry-After"), Some("1"));
}

#[test]
fn responses_that_are_not_read_have_a_memory_budget() {
    let two = Two::start(&["--max-memory", "64", "--pool-timeout", "1"]);
    let (gateway, one, other) = (&two.gateway, &two.one, &two.other);
    fill(one);
    fill(other);
    let request = one.request("GET", "Things()", &[], b"");
    // 900 MB, if all of them were answered.
    let deaf: Vec<Connection> = (0..100)
        .map(|_| {
            let mut connection = Connection::open(one.address);
            connection.write(&request);
            connection
        })
        .collect();
    let held = || gateway.metric("table_service_held_bytes ").unwrap();
    let refused = "table_service_requests_total{operation=\"QueryEntities\",status=\"503\",code=\"ServerBusy\"}";
    wait_until("the budget is used up and everybody has an answer", || {
        gateway.metric(refused).is_some_and(|requests| requests > 0.0)
            && gateway.metric("table_service_active_requests ") == Some(0.0)
    });
    // One of two accounts can have everything except the need of one request of the other.
    assert!((8.0 * MIB..=44.0 * MIB).contains(&held()), "{}", held());
    assert!(gateway.most_memory() < 120.0 * MIB, "{}", gateway.most_memory());
    assert!(other.get("Things()").expect(200).body.len() > 9_000_000);
    drop(deaf);
    wait_until("it is given back", || held() == 0.0);
    assert!(one.get("Things()").expect(200).body.len() > 9_000_000);
}

#[test]
fn unfinished_bodies_have_a_memory_budget() {
    let two = Two::start(&["--max-memory", "64", "--pool-timeout", "2"]);
    let (gateway, one, other) = (&two.gateway, &two.one, &two.other);
    let part = vec![b' '; 1024 * 1024];
    // Each takes memory for all that it announces, and waits before it sends.
    let slow: Vec<Connection> = (0..40)
        .map(|_| {
            let mut connection = Connection::open(one.address);
            connection.write(&unfinished(one, &part));
            connection
        })
        .collect();
    let held = || gateway.metric("table_service_held_bytes ").unwrap();
    let refused = "table_service_requests_total{operation=\"InsertEntity\",status=\"503\",code=\"ServerBusy\"}";
    wait_until("the budget is used up", || {
        gateway.metric(refused).is_some_and(|requests| requests >= 37.0)
    });
    assert!((16.0 * MIB..=44.0 * MIB).contains(&held()), "{}", held());
    other.get("Things()").expect(200);
    other.post("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#).expect(201);
    drop(slow);
    wait_until("it is given back", || held() == 0.0);
    one.get("Things()").expect(200);
}

#[test]
fn a_request_without_its_body_holds_no_place() {
    let service = Service::with(&["--max-requests", "2", "--pool-size", "2"]);
    service.create_table("Things");
    let client = &service.client;
    let slow: Vec<Connection> = (0..20)
        .map(|_| {
            let mut connection = Connection::open(client.address);
            connection.write(&unfinished(client, b"{"));
            connection
        })
        .collect();
    wait_until("they wait for their bodies", || {
        service.gateway.metric("table_service_active_requests ") == Some(20.0)
    });
    for row in 0..3 {
        service.insert("Things", &format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#));
        client.get("Things()").expect(200);
    }
    drop(slow);
}

#[test]
fn a_body_of_get_and_delete_that_does_not_come_holds_no_place() {
    let service = Service::with(&["--max-requests", "1"]);
    service.create_table("Things");
    let client = &service.client;
    let any = ("If-Match", "*");
    let requests = [
        ("GET", "Things()", 200),
        ("DELETE", "Things(PartitionKey='p',RowKey='r')", 404),
        ("OPTIONS", "Things", 400),
    ];
    let waiting = requests.map(|(method, target, status)| {
        let request = String::from_utf8(client.request(method, target, &[any], b"")).unwrap();
        let mut connection = Connection::open(client.address);
        connection.write(request.replace("Content-Length: 0", "Content-Length: 10").as_bytes());
        (connection, status)
    });
    client.get("Things()").expect(200);
    for (mut connection, status) in waiting {
        connection.write(b"0123456789");
        connection.answer().unwrap().expect(status);
    }
}

#[test]
fn one_account_cannot_take_all_places() {
    let two = Two::start(&["--max-requests", "8"]);
    let (gateway, one, other) = (&two.gateway, &two.one, &two.other);
    let blocker = two.databases[0].session("blocker");
    blocker.run("BEGIN; LOCK TABLE table_service_data.\"Things\"");
    let mut waiting: Vec<Connection> = (0..20)
        .map(|row| {
            let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
            let mut connection = Connection::open(one.address);
            connection.write(&one.request("POST", "Things", &[], body.as_bytes()));
            connection
        })
        .collect();
    let active = || gateway.metric("table_service_active_requests ");
    wait_until("those with a place wait for the table, the others are refused", || {
        active() == Some(6.0)
    });
    is_busy(&one.get("Things()"));
    other.get("Things()").expect(200);
    blocker.run("ROLLBACK");
    let statuses: Vec<u16> = waiting
        .iter_mut()
        .map(|connection| connection.answer().unwrap().status)
        .collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 201).count(),
        6,
        "{statuses:?}"
    );
    one.get("Things()").expect(200);
}

#[test]
fn unfinished_heads_cost_little() {
    let service = Service::start();
    let client = &service.client;
    client.get("Tables").expect(200);
    let before = service.gateway.memory();
    let number = 1000;
    let idle: Vec<Connection> = (0..number)
        .map(|_| {
            let mut connection = Connection::open(client.address);
            connection.write(b"GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: h\r\nx-a: ");
            connection
        })
        .collect();
    wait_until("they are connected", || {
        service.gateway.metric("table_service_connections ") == Some(f64::from(number))
    });
    let each = (service.gateway.memory() - before) / f64::from(number);
    assert!(each < 40.0 * 1024.0, "{each} bytes each");
    drop(idle);
}

#[test]
fn long_unfinished_heads_have_a_memory_budget() {
    // An eighth of it is for heads: 8 MiB.
    let service = Service::with(&["--max-memory", "64"]);
    let client = &service.client;
    client.get("Tables").expect(200);
    let before = service.gateway.memory();
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\nx-a: {}", "x".repeat(100_000));
    // 100 MB, if all of them were kept.
    let mut long: Vec<Connection> = (0..1000)
        .map(|_| {
            let mut connection = Connection::open(client.address);
            connection.write(head.as_bytes());
            connection
        })
        .collect();
    wait_until("most of them are refused", || {
        service
            .gateway
            .metric("table_service_connections ")
            .is_some_and(|open| open < 200.0)
    });
    let more = service.gateway.memory() - before;
    assert!(more < 64.0 * MIB, "{more} bytes");
    // Ordinary requests are served meanwhile.
    client.get("Tables").expect(200);
    let filter = format!("Tables?$filter=TableName%20eq%20'{}'", "x".repeat(10_000));
    client.get(&filter).expect(200);
    long.clear();
    // And long ones when the memory is free again.
    let filter = format!("Tables?$filter=TableName%20eq%20'{}'", "x".repeat(60_000));
    wait_until("the memory is free", || client.get(&filter).status == 200);
}
