//! HTTP that is valid but rare.

use crate::gateway::Service;
use raw_http::{Client, Connection};

fn insert(client: &Client, row: &str, headers: &[(&str, &str)]) -> String {
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
    let mut all = vec![("Content-Type", "application/json")];
    all.extend(headers);
    String::from_utf8(client.request("POST", "Things", &all, body.as_bytes())).unwrap()
}

#[test]
fn a_request_may_be_written_in_every_form() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let request = String::from_utf8(client.request("GET", "Tables", &[], b"")).unwrap();
    let absolute = format!("GET http://{}/", client.host);
    let host = format!("Host: {}\r\n", client.host);
    for (from, to) in [
        ("HTTP/1.1", "HTTP/1.0"),
        ("GET /", &absolute),
        ("GET /", "\r\nGET /"),
        ("Authorization:", "AUTHORIZATION:"),
        ("x-ms-date: ", "X-Ms-Date:   "),
        ("Host:", "host:"),
    ] {
        let written = request.replace(from, to);
        let answer = client.exchange(written.as_bytes()).expect(200);
        assert_eq!(answer.json()["value"][0]["TableName"], "Things", "{written}");
    }
    // An absolute URL also has the host.
    let nameless = request.replace("GET /", &absolute).replace(&host, "");
    client.exchange(nameless.as_bytes()).expect(200);
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        let nameless = request.replace("HTTP/1.1", version).replace(&host, "");
        client.exchange(nameless.as_bytes()).fails_with(
            400,
            "HostInformationNotPresent",
            "The required host information is not present in the request.",
        );
    }
    client.get("THINGS()").expect(200);
}

#[test]
fn requests_may_follow_each_other_without_waiting() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let mut connection = Connection::open(client.address);
    let requests: Vec<String> = (0..5).map(|row| insert(client, &row.to_string(), &[])).collect();
    connection.write(requests.concat().as_bytes());
    for row in 0..5 {
        let answer = connection.answer().unwrap().expect(201);
        assert_eq!(answer.json()["RowKey"], row.to_string());
    }
}

#[test]
fn a_body_that_no_operation_reads_is_ignored() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let address = "Things(PartitionKey='p',RowKey='r')";
    let any = ("If-Match", "*");
    let preflight = [("Origin", "http://page"), ("Access-Control-Request-Method", "GET")];
    for (framing, body) in [
        ("Content-Length: 0", ""),
        ("Content-Length: 2", "{}"),
        ("Transfer-Encoding: chunked", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n"),
    ] {
        service.insert("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#);
        for (method, target, headers, status) in [
            ("GET", address, &[][..], 200),
            ("HEAD", "Things?comp=acl", &[], 200),
            ("OPTIONS", "Things", &preflight, 403),
            ("DELETE", address, &[any], 204),
        ] {
            let request = String::from_utf8(client.request(method, target, headers, b"")).unwrap();
            let (head, _) = request.split_once("\r\n\r\n").unwrap();
            let head: Vec<&str> = head
                .split("\r\n")
                .filter(|line| !line.starts_with("Content-Length"))
                .collect();
            let sent = format!("{}\r\n{framing}\r\n\r\n{body}", head.join("\r\n"));
            let mut connection = Connection::open(client.address);
            connection.write(sent.as_bytes());
            if method != "HEAD" {
                let answer = connection.answer().unwrap();
                assert_eq!(answer.status, status, "{method} {framing} {body}: {}", answer.text());
                // The bytes that follow are the next request.
                connection.write(&client.request("GET", "Tables", &[], b""));
                connection.answer().unwrap().expect(200);
            }
        }
    }
}

#[test]
fn a_host_is_a_name_in_any_case() {
    let service = Service::with_table("Things");
    for host in ["devstoreaccount1.table.localhost:1", "DevStoreAccount1.Table.LOCALHOST"] {
        let client = Client {
            host: host.to_owned(),
            prefix: String::new(),
            ..service.client.clone()
        };
        client.get("Things()").expect(200);
    }
}

#[test]
fn a_body_may_come_in_chunks_or_on_demand() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let chunked = client.request(
        "POST",
        "Things",
        &[("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")],
        b"",
    );
    let chunked = String::from_utf8(chunked).unwrap().replace("Content-Length: 0\r\n", "");
    let body = "10\r\n{\"PartitionKey\":\r\n11;x=y\r\n\"p\",\"RowKey\":\"c\"}\r\n0\r\nTrailer: x\r\n\r\n";
    client.exchange(format!("{chunked}{body}").as_bytes()).expect(201);

    let expecting = insert(client, "e", &[("Expect", "100-continue")]);
    let (head, body) = expecting.split_once("\r\n\r\n").unwrap();
    let mut connection = Connection::open(client.address);
    connection.write(format!("{head}\r\n\r\n").as_bytes());
    assert!(connection.continues());
    connection.write(body.as_bytes());
    connection.answer().unwrap().expect(201);

    // If the request is refused, the gateway does not ask for the body and closes the connection.
    let mut connection = Connection::open(client.address);
    let refused = head.replace("Authorization: SharedKey ", "Authorization: SharedKey x");
    connection.write(format!("{refused}\r\n\r\n").as_bytes());
    assert!(!connection.continues());
    connection.answer().unwrap().fails_with(403, "AuthenticationFailed", "");
    assert!(connection.is_closed());
}

#[test]
fn the_log_names_the_trace_of_a_request() {
    let service = Service::start();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let send = |trace| {
        service
            .client
            .send("GET", "Tables", &[("traceparent", trace)], b"")
            .expect(200)
    };
    send(trace);
    service
        .gateway
        .waits_for_log("trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"");
    service.gateway.waits_for_log("parent_id=\"00f067aa0ba902b7\"");
    send("00-not a trace\tx");
    assert!(!service.gateway.log().contains("not a trace"));
}
