//! Requests of hostile or broken clients.

use std::net::TcpStream;

use crate::gateway::Service;
use raw_http::{Client, Connection, send_all_then_read};

const ENTITY: &[u8] = br#"{"PartitionKey":"p","RowKey":"r"}"#;

fn entities(client: &Client) -> usize {
    client.get("Things()").expect(200).json()["value"]
        .as_array()
        .unwrap()
        .len()
}

/// A signed insert with other headers for the length of its body.
fn insert_with(client: &Client, framing: &str, body: &[u8]) -> Vec<u8> {
    let request = client.request("POST", "Things", &[("Content-Type", "application/json")], b"");
    let text = String::from_utf8(request)
        .unwrap()
        .replace("Content-Length: 0\r\n", framing);
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn a_request_with_ambiguous_framing_is_refused() {
    let service = Service::with_table("Things");
    let client = &service.client;
    // A second request, which is part of the body in one reading and a request in the other.
    let hidden = String::from_utf8(client.request("DELETE", "Tables('Things')", &[], b"")).unwrap();
    let chunked = format!("0\r\n\r\n{hidden}");
    let length = chunked.len();
    for framing in [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        format!("Content-Length: 5\r\nContent-Length: {length}\r\n"),
        format!("Content-Length: 5, {length}\r\n"),
        format!("Content-Length: +{length}\r\n"),
        format!("Content-Length: {length}\r\nTransfer-Encoding : chunked\r\n"),
        format!("Content-Length: {length}\r\nTransfer-Encoding:\x0bchunked\r\n"),
        format!("Content-Length: {length}\r\n X: folded\r\n"),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
        "Transfer-Encoding: x\r\n".to_owned(),
        "Transfer-Encoding: gzip, chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked, chunked\r\n".to_owned(),
        "Transfer-Encoding: Chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        // A LF alone ends no line.
        "Transfer-Encoding: chunked\n".to_owned(),
        "X: y\nTransfer-Encoding: chunked\r\n".to_owned(),
        format!("Content-Length: {length}\r\nX: y\n\n"),
    ] {
        let mut connection = Connection::open(client.address);
        connection.write(&insert_with(client, &framing, chunked.as_bytes()));
        connection.finish_writing();
        let answer = connection.answer();
        assert!(
            answer.as_ref().is_none_or(|answer| answer.status == 400),
            "{framing}: {answer:?}"
        );
        // The second request is not executed.
        let second = connection.answer();
        assert!(second.is_none(), "{framing}: {second:?}");
    }
    assert_eq!(entities(client), 0);
}

/// Also in a head that arrives together with the request before it. In bodies it is a character as any other.
#[test]
fn a_line_feed_alone_ends_no_line_of_a_head() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let body = |row: &str| format!("{{\n\n\"PartitionKey\": \"p\",\n\"RowKey\": \"{row}\"}}\n");
    let with_length = |row| {
        let body = body(row);
        insert_with(client, &format!("Content-Length: {}\r\n", body.len()), body.as_bytes())
    };
    let in_chunks = |row| {
        let (body, rest) = (body(row), "1\r\n\n\r\n0\r\nTrailer: x\r\n\r\n");
        let chunks = format!("{:x};x=y\r\n{body}\r\n{rest}", body.len());
        insert_with(client, "Transfer-Encoding: chunked\r\n", chunks.as_bytes())
    };
    let refused = client.request("GET", "Tables", &[("X", "y\nZ: z")], b"");
    let mut connection = Connection::open(client.address);
    connection.write(
        &[
            with_length("1"),
            in_chunks("2"),
            in_chunks("3"),
            with_length("4"),
            refused,
        ]
        .concat(),
    );
    for row in 1..=4 {
        let answer = connection.answer().unwrap().expect(201);
        assert_eq!(answer.json()["RowKey"], row.to_string());
    }
    assert_eq!(connection.answer().unwrap().status, 400);
    assert!(connection.answer().is_none());
}

#[test]
fn bytes_that_are_not_a_request_are_refused() {
    let service = Service::start();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nbad\x00name: 1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut connection = Connection::open(service.client.address);
        connection.write(bytes);
        connection.finish_writing();
        let answer = connection.answer();
        assert!(
            answer.as_ref().is_none_or(|answer| (400..600).contains(&answer.status)),
            "{answer:?}"
        );
    }
    let mut no_host = Connection::open(service.client.address);
    no_host.write(b"GET /devstoreaccount1/Tables HTTP/1.1\r\n\r\n");
    no_host
        .answer()
        .unwrap()
        .fails_with(400, "HostInformationNotPresent", "The required host information");
    service.client.get("Tables").expect(200);
}

#[test]
fn a_body_that_ends_too_early_is_not_executed() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let length = ENTITY.len() + 1;
    for framing in [
        format!("Content-Length: {length}\r\n"),
        "Transfer-Encoding: chunked\r\n".to_owned(),
    ] {
        let body = if framing.starts_with('C') {
            ENTITY.to_vec()
        } else {
            [format!("{:x}\r\n", ENTITY.len()).as_bytes(), ENTITY, b"\r\n"].concat()
        };
        let mut connection = Connection::open(client.address);
        connection.write(&insert_with(client, &framing, &body));
        connection.finish_writing();
        let answer = connection.answer();
        assert!(answer.as_ref().is_none_or(|answer| answer.status == 400), "{answer:?}");
        assert_eq!(entities(client), 0, "{framing}");
    }
    // The same request with its whole body.
    let body = [format!("{:x}\r\n", ENTITY.len()).as_bytes(), ENTITY, b"\r\n0\r\n\r\n"].concat();
    client
        .exchange(&insert_with(client, "Transfer-Encoding: chunked\r\n", &body))
        .expect(201);
    assert_eq!(entities(client), 1);
}

#[test]
fn bodies_and_heads_have_limits() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let large = vec![b' '; 4 * 1024 * 1024 + 1];
    let json = [("Content-Type", "application/json")];
    client.send("POST", "Things", &json, &large).fails_with(
        413,
        "RequestBodyTooLarge",
        "The request body is too large",
    );
    let chunked = [format!("{:x}\r\n", large.len()).as_bytes(), &large, b"\r\n0\r\n\r\n"].concat();
    let answer = client.exchange(&insert_with(client, "Transfer-Encoding: chunked\r\n", &chunked));
    answer.fails_with(413, "RequestBodyTooLarge", "");
    // A client that still sends can also read the response.
    let megabyte = [b"100000\r\n".as_slice(), &vec![b' '; 1024 * 1024], b"\r\n"].concat();
    let chunked = [megabyte.repeat(12).as_slice(), b"0\r\n\r\n"].concat();
    for expecting in ["", "Expect: 100-continue\r\n"] {
        let framing = format!("{expecting}Transfer-Encoding: chunked\r\n");
        let answer = send_all_then_read(client.address, &insert_with(client, &framing, &chunked));
        answer.fails_with(413, "RequestBodyTooLarge", "");
    }
    // The largest body that is allowed.
    client
        .send("POST", "Things", &json, &large[1..])
        .fails_with(400, "InvalidInput", "");

    let header = "x".repeat(200 * 1024);
    let answer = client.send("GET", "Tables", &[("x-long", &header)], b"");
    assert_eq!(answer.status, 431);
    let many: Vec<(String, String)> = (0..200).map(|i| (format!("x-{i}"), "1".to_owned())).collect();
    let many: Vec<(&str, &str)> = many
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(client.send("GET", "Tables", &many, b"").status, 431);
    let url = format!("Things?$filter=a%20eq%20'{}'", "x".repeat(70_000));
    assert_eq!(client.get(&url).status, 414);
    let url = format!("Things?$filter=a%20eq%20'{}'", "x".repeat(60_000));
    client.get(&url).expect(200);
}

#[test]
fn slow_clients_are_disconnected() {
    let service = Service::with(&["--header-timeout", "1", "--body-timeout", "1"]);
    let client = &service.client;
    let mut idle = Connection::open(client.address);
    let mut head = Connection::open(client.address);
    head.write(b"GET /devstoreaccount1/Tables HTTP/1.1\r\nHost:");
    let mut body = Connection::open(client.address);
    body.write(&insert_with(client, "Content-Length: 10\r\n", b"{"));
    let answer = body.answer().unwrap();
    answer.fails_with(
        500,
        "OperationTimedOut",
        "The operation could not be completed within the permitted time.",
    );
    assert!(idle.is_closed());
    assert!(head.answer().is_none_or(|answer| answer.status == 408));
    client.get("Tables").expect(200);
}

#[test]
fn requests_beyond_the_limit_get_503_with_retry_after() {
    let service = Service::with(&["--max-requests", "1"]);
    let client = &service.client;
    service.create_table("Things");
    let blocker = service.database.session("blocker");
    blocker.run("BEGIN; LOCK TABLE table_service_data.\"Things\"");
    let mut holding = Connection::open(client.address);
    holding.write(&client.request("POST", "Things", &[], ENTITY));
    let watcher = service.database.session("watcher");
    let waiting =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'table_service_data.\"Things\"'::regclass";
    system_tests::wait_until("it has the place", || watcher.value::<i64>(waiting, &[]) == 1);
    let refused = client.get("Tables");
    refused.fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
    assert_eq!(refused.header("Retry-After"), Some("1"));
    blocker.run("ROLLBACK");
    holding.answer().unwrap().expect(201);
    client.get("Tables").expect(200);
}

#[test]
fn ten_thousand_connections_do_not_stop_the_gateway() {
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let number = 10_000.min(usize::try_from(files).unwrap() - 1000);
    let service = Service::with(&["--max-connections", "2000"]);
    let client = &service.client;
    let mut open = Vec::new();
    for index in 0..number {
        match TcpStream::connect(client.address) {
            Ok(stream) => open.push(stream),
            Err(error) => panic!("connection {index}: {error}"),
        }
    }
    // Connections beyond the limit get a response.
    let refused = service.gateway.metric("table_service_connections_refused_total");
    assert!(refused.is_some_and(|refused| refused > 0.0), "{refused:?}");
    service.gateway.admin("/live").expect(200);
    use std::io::{Read, Write};
    let mut last = open.pop().unwrap();
    let mut response = String::new();
    last.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 503 "), "{response:?}");
    // Connections within the limit are served.
    let mut first = open.swap_remove(0);
    first.write_all(&client.request("GET", "Tables", &[], b"")).unwrap();
    let mut begin = [0; 12];
    first.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
    drop(open);
    drop(first);
    system_tests::wait_until("the gateway notices", || {
        service.gateway.metric("table_service_connections ") == Some(0.0)
    });
    client.get("Tables").expect(200);
}

#[test]
fn a_client_that_does_not_read_its_responses_is_disconnected_and_blocks_nobody() {
    let service = Service::with(&["--response-timeout", "2", "--max-requests", "1", "--pool-size", "1"]);
    service.create_table("Things");
    let client = &service.client;
    let text = "x".repeat(30_000);
    for row in 0..30 {
        let properties: Vec<String> = (0..10).map(|n| format!("\"s{n}\":\"{text}\"")).collect();
        service.insert(
            "Things",
            &format!(
                "{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",{}}}",
                properties.join(",")
            ),
        );
    }
    // About 9 MB each, which is more than the buffers of the sockets.
    let mut deaf = Connection::open(client.address);
    deaf.write(&client.request("GET", "Things()", &[], b"").repeat(4));
    let connections = || service.gateway.metric("table_service_connections ");
    system_tests::wait_until("the first answer is on its way", || {
        service
            .gateway
            .metric("table_service_requests_total{operation=\"QueryEntities\"")
            .is_some_and(|answers| answers > 0.0)
    });
    // There is one place and one database connection.
    system_tests::wait_until("others are served", || client.get("Tables").status == 200);
    system_tests::wait_until("its connection is ended", || connections() == Some(0.0));
    service.gateway.waits_for_log("did not take its answer in time");
}

#[test]
fn a_client_that_reads_gets_large_responses_whole() {
    let service = Service::with(&["--response-timeout", "60"]);
    service.create_table("Things");
    let text = "x".repeat(30_000);
    let row = |row: usize| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",\"s\":\"{text}\"}}");
    for index in 0..100 {
        service.insert("Things", &row(index));
    }
    let mut connection = Connection::open(service.client.address);
    for _ in 0..4 {
        connection.write(&service.client.request("GET", "Things()", &[], b""));
        assert!(connection.answer().unwrap().body.len() > 3_000_000);
    }
}

#[test]
fn u_0000_is_a_client_error_everywhere() {
    let service = Service::with_table("Things");
    let client = &service.client;
    service.insert("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    for target in [
        "a%00b()",
        "a%00b(PartitionKey='p',RowKey='r')",
        "Things(PartitionKey='p%00',RowKey='r')",
        "Things()?$filter=a%20eq%20'%00'",
        "Things()?$select=a%00",
        "Things(PartitionKey='p',RowKey='r')?$select=a%00",
        "Things()?NextPartitionKey=1!4!AAAA&NextRowKey=1!0!",
        "Tables?$filter=TableName%20eq%20'%00'",
        "Tables?NextTableName=1!4!AAAA",
        "Tables()?%00=1",
    ] {
        client.get(target).expect(400);
    }
    client.get("Tables('a%00b')").expect(404);
    client.send("DELETE", "Tables('a%00b')", &[], b"").expect(404);
    client.post("Tables", r#"{"TableName":"a\u0000b"}"#).expect(400);
    client
        .post("Things", r#"{"PartitionKey":"p","RowKey":"s","v":"a\u0000b"}"#)
        .expect(400);
    client.send("GET", "a%00b?comp=acl", &[], b"").expect(400);
}

#[test]
fn nobody_learns_which_accounts_there_are() {
    let service = Service::start();
    let client = &service.client;
    let other = |key: &str, name: &str| Client {
        account: raw_http::account(name, key),
        prefix: format!("/{name}"),
        ..client.clone()
    };
    let without_id = |answer: raw_http::Answer| {
        let changes = |name: &str| matches!(name, "date" | "x-ms-request-id" | "content-length");
        let headers: Vec<_> = answer
            .headers
            .iter()
            .filter(|(name, _)| !changes(name))
            .cloned()
            .collect();
        let json = answer.json();
        (answer.status, headers, json["odata.error"]["code"].clone())
    };
    let (known, unknown) = (other("d3Jvbmc=", raw_http::ACCOUNT), other("d3Jvbmc=", "nobodyhasthis"));
    for (method, target) in [
        ("GET", "Tables"),
        ("POST", "Things"),
        ("PUT", "Tables"),
        ("GET", "a/b"),
        ("OPTIONS", "Things"),
    ] {
        let answers = [&known, &unknown].map(|client| without_id(client.send(method, target, &[], b"")));
        assert_eq!(answers[0], answers[1], "{method} {target}");
        for credentials in ["", "SharedKey", "Basic YTpi", "Bearer abc"] {
            let headers = [("Authorization", credentials)];
            let answers = [&known, &unknown].map(|client| without_id(client.send(method, target, &headers, b"")));
            assert_eq!(answers[0], answers[1], "{method} {target} {credentials}");
        }
    }
}

#[test]
fn nobody_learns_whose_database_hangs() {
    // It takes connections and says nothing.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgresql://role@{}/db?sslmode=disable", deaf.local_addr().unwrap());
    let gateway = crate::gateway::Gateway::start(&["--database-url", &url, "--max-requests", "1"]);
    let client = gateway.client();
    // Somebody with a key waits for the database, and has the only place.
    let mut waiting = Connection::open(client.address);
    waiting.write(&client.request("GET", "Tables", &[], b""));
    system_tests::wait_until("it waits", || {
        gateway.metric("table_service_active_requests ") == Some(1.0)
    });
    let ask = |account: &str, method: &str, headers: &[(&str, &str)]| {
        let all: Vec<(&str, &str)> = [("Host", "h")].into_iter().chain(headers.iter().copied()).collect();
        let answer = client.exchange(&raw_http::raw(method, &format!("/{account}/Things"), &all, b""));
        (answer.status, answer.json()["odata.error"]["code"].clone())
    };
    let page = ("Origin", "http://page");
    let preflight = [page, ("Access-Control-Request-Method", "GET")];
    for (method, headers) in [
        ("GET", &[][..]),
        ("GET", &[page]),
        ("POST", &[page]),
        ("GET", &[("Authorization", "SharedKey devstoreaccount1:d3Jvbmc=")]),
        ("OPTIONS", &preflight),
    ] {
        let [known, unknown] = [raw_http::ACCOUNT, "nobodyhasthis"].map(|account| ask(account, method, headers));
        assert_eq!(known, unknown, "{method} {headers:?}");
        assert_eq!(known.0, 403, "{method} {headers:?}");
    }
    waiting.answer().unwrap().expect(503);
}

#[test]
fn a_page_whose_name_leads_to_this_machine_reads_no_metrics() {
    let service = Service::with(&["--admin-hosts", "gateway.example, Other.Example"]);
    let admin = service.gateway.admin;
    let ask = |path: &str, hosts: &[&str]| {
        let hosts: Vec<(&str, &str)> = hosts.iter().map(|host| ("Host", *host)).collect();
        Client::new(admin).exchange(&raw_http::raw("GET", path, &hosts, b""))
    };
    for host in [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1:10003",
        "10.1.2.3",
        "[::1]:80",
        "gateway.example",
        "OTHER.example:80",
    ] {
        ask("/metrics", &[host]).expect(200);
        ask("/nothing", &[host]).expect(404);
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "gateway.example.",
        "127.0.0.1.evil.example",
        "127.0.0.1:evil",
        "evil.example:80",
        "",
    ] {
        for path in ["/metrics", "/nothing", "/reset"] {
            let answer = ask(path, &[host]).expect(421);
            assert!(answer.text().contains("admin_hosts"), "{}", answer.text());
        }
        // Probes are answered under any name.
        ask("/live", &[host]).expect(200);
        ask("/ready", &[host]).expect(200);
    }
    ask("/metrics", &["localhost", "evil.example"]).expect(421);
    // Without a name as well, in HTTP/1.1 and in 1.0.
    let old = |path: &str| Client::new(admin).exchange(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
    for path in ["/live", "/ready"] {
        ask(path, &[]).expect(200);
        old(path).expect(200);
    }
    for path in ["/metrics", "/nothing", "/reset"] {
        ask(path, &[]).expect(421);
        old(path).expect(421);
    }
}

#[test]
fn metrics_for_other_machines_are_read_by_any_name() {
    let service = Service::with(&["--admin-listen", "0.0.0.0:0"]);
    let admin = service.gateway.admin;
    let ask = |path: &str, host: &str| Client::new(admin).exchange(&raw_http::raw("GET", path, &[("Host", host)], b""));
    for host in ["gateway.example", "10.1.2.3:10003", "localhost"] {
        ask("/metrics", host).expect(200);
    }
    ask("/reset", "gateway.example").expect(421);
    ask("/nothing", "gateway.example").expect(421);
}

#[test]
fn an_invalid_host_is_refused_and_not_repeated() {
    let service = Service::with_table("Things");
    for host in ["h\"<x>", "user@h", "h/path", "h h", "h:1:2", "h:evil", "h:", "\u{e4}"] {
        let client = Client {
            host: host.to_owned(),
            ..service.client.clone()
        };
        let answer = client.get("Tables").expect(400);
        assert!(!answer.text().contains(host), "{}", answer.text());
    }
}

#[test]
fn messages_of_postgresql_are_only_in_the_log() {
    let service = Service::with_table("Things");
    let session = service.database.session("owner");
    let role = service.database.role("reader");
    session.run("GRANT SELECT ON table_service_data.\"Things\" TO PUBLIC");
    let url = crate::gateway::url(service.database.cluster(), service.database.name(), &role);
    let gateway = crate::gateway::Gateway::start(&["--database-url", &url]);
    let answer = gateway.client().post("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    answer.fails_with(403, "AuthorizationFailure", "");
    let hint = answer.header("x-table-service-hint").unwrap_or_default();
    assert!(!hint.contains("42501") && !hint.contains("permission denied"), "{hint}");
    gateway.waits_for_log("42501");
}

#[test]
fn xml_with_attributes_nesting_or_length_is_refused() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let put = |document: &str| client.send("PUT", "Things?comp=acl", &[], document.as_bytes());
    let attributes: String = (0..3000).map(|n| format!(" a{n}=\"1\"")).collect();
    for (document, code) in [
        (
            format!(
                "<SignedIdentifiers><SignedIdentifier><AccessPolicy{attributes}/></SignedIdentifier></SignedIdentifiers>"
            ),
            "InvalidXmlDocument",
        ),
        ("<a>".repeat(20_000), "InvalidXmlDocument"),
        (
            format!("<SignedIdentifiers>{}", " ".repeat(70_000)),
            "RequestBodyTooLarge",
        ),
    ] {
        let answer = put(&document);
        assert_eq!(answer.header("x-ms-error-code"), Some(code), "{}", answer.status);
    }
}
