//! Requests of real clients that the service's documents do not mention.

use raw_http::{ACCOUNT, Answer, Client, raw};

use crate::gateway::Service;

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn empty_segments_and_a_slash_at_the_end_of_a_path_do_not_count() {
    let service = Service::with_table("Things");
    let client = &service.client;
    for target in ["Tables/", "Tables/?$top=1", "/Tables", "Things()/", "//Things//"] {
        client.get(target).expect(200);
    }
    client.get("/?restype=service&comp=properties").expect(200);
    client.get("//?restype=service&comp=properties").expect(200);
    let batch = batch(&[("POST", "//Things/", "", &entity("1"))]);
    send_batch(client, "$batch/", &[], &batch).expect(202);
    assert_eq!(rows(client), ["1"]);
    // The whole path is signed, as it was sent.
    let other = Client {
        prefix: format!("/{ACCOUNT}/"),
        ..client.clone()
    };
    other.get("Tables").expect(200);
    let signed = String::from_utf8(client.request("GET", "Tables/", &[], b"")).unwrap();
    client
        .exchange(signed.replacen("Tables/", "Tables", 1).as_bytes())
        .expect(403);
}

#[test]
fn a_name_that_no_table_can_have_is_400_and_a_missing_table_404() {
    let service = Service::start();
    let client = &service.client;
    let invalid = (
        "InvalidResourceName",
        "The specifed resource name contains invalid characters.",
    );
    let length = (
        "OutOfRangeInput",
        "The specified resource name length is not within the permissible limits.",
    );
    let long = "a".repeat(64);
    for (name, (code, message)) in [
        ("1st", invalid),
        ("my_table", invalid),
        ("my-table", invalid),
        ("t%C3%A4bel", invalid),
        ("a%00b", invalid),
        ("a", length),
        ("ab", length),
        (long.as_str(), length),
    ] {
        let address = format!("{name}(PartitionKey='p',RowKey='r')");
        let any = ("If-Match", "*");
        for answer in [
            client.post(name, &entity("1")),
            client.get(&format!("{name}()")),
            client.get(&format!("{name}()?$select=a")),
            client.get(&address),
            client.send("PUT", &address, &[JSON], b"{}"),
            client.send("PUT", &address, &[JSON, any], b"{}"),
            client.send("PATCH", &address, &[JSON], b"{}"),
            client.send("PATCH", &address, &[JSON, any], b"{}"),
            client.send("DELETE", &address, &[any], b""),
            // Errors of the body that come late come after it, those of its syntax before.
            client.post(name, r#"{"PartitionKey":"p"}"#),
        ] {
            answer.fails_with(400, code, message);
        }
        client
            .post(name, "{")
            .fails_with(400, "InvalidInput", "An error occurred");
        client
            .get(&format!("{name}()?$filter=a%20b"))
            .fails_with(400, "InvalidInput", "Syntax error at position");
        for method in ["GET", "PUT"] {
            let acl = client.send(method, &format!("{name}?comp=acl"), &[], b"").expect(400);
            assert_eq!(acl.header("x-ms-error-code"), Some(code));
        }
        for changes in [
            &[("POST", name, "", entity("1").as_str())][..],
            &[("POST", name, "", &entity("1")), ("POST", name, "", &entity("2"))],
        ] {
            let index = if changes.len() == 1 { "" } else { "0:" };
            let answer = send_batch(client, "$batch", &[], &batch(changes)).expect(202);
            let text = answer.text();
            assert!(text.contains(&format!("\"value\":\"{index}{message}\\n")), "{text}");
            assert!(text.contains(&format!("\"code\":\"{code}\"")), "{text}");
        }
        // Delete Table does not check names.
        client
            .send("DELETE", &format!("Tables('{name}')"), &[], b"")
            .fails_with(404, "ResourceNotFound", "");
    }
    client.get("abc()").fails_with(404, "TableNotFound", "");
}

#[test]
fn an_endpoint_that_ends_with_a_table_name_gets_errors_that_sdks_explain() {
    let service = Service::start();
    let client = &service.client;
    let create = || client.post("Things/Tables", r#"{"TableName":"Things"}"#);
    create().fails_with(404, "TableNotFound", "The table specified does not exist.");
    let any = [("If-Match", "*")];
    let delete = || client.send("DELETE", "Things/Tables('Things')", &any, b"");
    delete().fails_with(404, "TableNotFound", "The table specified does not exist.");
    service.create_table("Things");
    create().fails_with(
        400,
        "PropertiesNeedValue",
        "The values are not specified for all properties in the entity.",
    );
    delete().fails_with(
        400,
        "InvalidInput",
        "The number of keys specified in the URI does not match number of key properties for the resource.",
    );
    let batch = batch(&[("POST", "Things", "", &entity("1"))]);
    send_batch(client, "Things/$batch", &[], &batch).fails_with(
        415,
        "MediaTypeNotSupported",
        "None of the provided media types are supported",
    );
    for method in ["GET", "PUT"] {
        let answer = client.send(method, "Things/?restype=service&comp=properties", &[], b"");
        assert_eq!(answer.header("x-ms-error-code"), Some("InvalidQueryParameterValue"));
        let text = "Value for one of the query parameters specified in the request URI is invalid.";
        assert!(answer.text().contains(text), "{}", answer.text());
    }
}

#[test]
fn the_secondary_endpoint_is_signed_with_or_without_its_suffix() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let primary = format!("/{ACCOUNT}");
    for prefix in [
        format!("/{ACCOUNT}-secondary"),
        format!("/{ACCOUNT}-secondary/{ACCOUNT}"),
    ] {
        let secondary = Client {
            prefix: prefix.clone(),
            ..client.clone()
        };
        for target in ["Things()", "?restype=service&comp=stats"] {
            let target = if target.starts_with('?') && prefix.ends_with(&primary) {
                format!("/{target}")
            } else {
                target.to_owned()
            };
            secondary.get(&target).expect(200);
            // Signed for another path, sent to this one.
            let request = String::from_utf8(client.request("GET", target.trim_start_matches('/'), &[], b"")).unwrap();
            let sent = request.replacen(&format!("GET {primary}"), &format!("GET {prefix}"), 1);
            client.exchange(sent.as_bytes()).expect(200);
            // Not the other way round: a request that was signed for the secondary endpoint is none to the primary one.
            let request = String::from_utf8(secondary.request("GET", &target, &[], b"")).unwrap();
            let sent = request.replacen("-secondary", "", 1);
            let refused = client.exchange(sent.as_bytes());
            assert!(matches!(refused.status, 400 | 403), "{refused:?}");
        }
    }
}

#[test]
fn weak_tags_and_booleans_in_any_case() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let tag = service
        .insert("Things", r#"{"PartitionKey":"p","RowKey":"1","v":true}"#)
        .header("ETag")
        .unwrap()
        .replace("W/", "w/");
    let address = "Things(PartitionKey='p',RowKey='1')";
    let changed = client
        .send("PATCH", address, &[JSON, ("If-Match", &tag)], b"{}")
        .expect(204);
    client
        .send("PATCH", address, &[JSON, ("If-Match", &tag)], b"{}")
        .fails_with(412, "UpdateConditionNotSatisfied", "");
    assert!(changed.header("ETag").unwrap().starts_with("W/\""));
    for (filter, found) in [
        ("v%20eq%20True", 1),
        ("v%20eq%20TRUE", 1),
        ("v%20eq%20False", 0),
        ("v%20ne%20FALSE", 1),
    ] {
        let page = client.get(&format!("Things()?$filter={filter}")).expect(200).json();
        assert_eq!(page["value"].as_array().unwrap().len(), found, "{filter}");
    }
}

#[test]
fn a_preflight_without_its_headers_says_so() {
    let service = Service::start();
    let client = &service.client;
    let target = format!("/{ACCOUNT}/Things");
    for headers in [
        &[("Origin", "http://page")][..],
        &[("Access-Control-Request-Method", "GET")],
        &[],
    ] {
        let all: Vec<(&str, &str)> = [("Host", "h")].into_iter().chain(headers.iter().copied()).collect();
        client.exchange(&raw("OPTIONS", &target, &all, b"")).fails_with(
            400,
            "MissingRequiredHeader",
            "A required CORS header is not present.",
        );
    }
}

#[test]
fn the_accept_of_a_batch_does_not_count_but_those_of_its_parts_do() {
    let service = Service::with_table("Things");
    let client = &service.client;
    // The headers of the classic SDK for Node.js.
    let headers = [
        ("Accept", "application/atom+xml,application/xml"),
        ("x-ms-version", "2018-03-28"),
    ];
    let one = batch(&[(
        "POST",
        "Things",
        "Accept: application/json;odata=nometadata\r\n",
        &entity("1"),
    )]);
    let answer = send_batch(client, "$batch", &headers, &one).expect(202);
    assert!(
        answer
            .text()
            .contains("Content-Type: application/json;odata=nometadata"),
        "{}",
        answer.text()
    );
    let atom = batch(&[("POST", "Things", "Accept: application/atom+xml\r\n", &entity("2"))]);
    let answer = send_batch(client, "$batch", &[], &atom).expect(202);
    assert!(
        answer.text().contains("\"code\":\"AtomFormatNotSupported\""),
        "{}",
        answer.text()
    );
    assert_eq!(rows(client), ["1"]);
}

#[test]
fn a_content_id_comes_back_first_in_the_answer_of_its_operation() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let send = |first: &str, second: &str| {
        let headers = |id: &str| format!("Content-ID: {id}\r\nPrefer: return-no-content\r\n");
        let two = batch(&[
            ("POST", "Things", &headers(first), &entity("1")),
            ("POST", "Things", &headers(second), &entity("2")),
        ]);
        let answer = send_batch(client, "$batch", &[], &two).expect(202);
        answer.text().to_owned()
    };
    let text = send("1", "2");
    for id in ["1", "2"] {
        let answer = format!("\r\n\r\nHTTP/1.1 204 No Content\r\nContent-ID: {id}\r\nX-Content-Type-Options:");
        assert!(text.contains(&answer), "{text}");
    }
    // Both exist now. The only part is that of the operation that failed, with its Content-ID.
    let text = send("a", "b");
    assert!(
        text.contains("\r\n\r\nHTTP/1.1 409 Conflict\r\nContent-ID: a\r\n"),
        "{text}"
    );
    assert!(!text.contains("Content-ID: b"), "{text}");
    let read = |part: &str, request: &str| {
        let read = format!(
            "--batch_1\r\nContent-Type: application/http\r\n{part}\r\n\
             GET Things(PartitionKey='p',RowKey='1') HTTP/1.1\r\n{request}\r\n\r\n--batch_1--\r\n"
        );
        send_batch(client, "$batch", &[], &read).expect(202).text().to_owned()
    };
    let text = read("", "Content-ID: x y\r\n");
    assert!(text.contains("HTTP/1.1 200 OK\r\nContent-ID: x y\r\n"), "{text}");
    // The current SDK for Python writes it before the request line. It does not come back then.
    let text = read("Content-ID: 1\r\n", "");
    assert!(
        text.contains("HTTP/1.1 200 OK\r\n") && !text.contains("Content-ID"),
        "{text}"
    );
}

#[test]
fn a_malformed_key_has_the_message_that_clients_report() {
    let service = Service::with_table("Things");
    let client = &service.client;
    client.get("Things(PartitionKey='p',RowKey='O'Brien')").fails_with(
        400,
        "InvalidInput",
        "There is an unterminated string literal at position 33 in 'PartitionKey='p',RowKey='O'Brien''.",
    );
    let address = "/devstoreaccount1/Things(PartitionKey='\"A'aaa\"_bbbb3',RowKey='\"A'aaa\"_bbbb3')";
    let batch = batch(&[("PUT", address, "", "{}")]);
    let answer = send_batch(client, "$batch", &[], &batch).expect(202);
    let message = "0:Syntax error: character '\\\"' is not valid at position 20 in \
        'PartitionKey='\\\"A'aaa\\\"_bbbb3',RowKey='\\\"A'aaa\\\"_bbbb3''.";
    assert!(answer.text().contains(message), "{}", answer.text());
}

#[test]
fn a_last_boundary_needs_no_hyphens() {
    let service = Service::with_table("Things");
    for (row, end) in [("1", "--batch_1"), ("2", "--batch_1\r\n"), ("3", "--batch_1\r\n\r\n")] {
        let body = batch(&[("POST", "Things", "", &entity(row))]).replace("--batch_1--\r\n", end);
        send_batch(&service.client, "$batch", &[], &body).expect(202);
    }
    assert_eq!(rows(&service.client), ["1", "2", "3"]);
}

#[test]
fn an_empty_change_set_comes_back_empty() {
    let service = Service::start();
    let client = &service.client;
    let empty =
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n--changeset_1--\r\n--batch_1--\r\n";
    let text = send_batch(client, "$batch", &[], empty).expect(202).text().to_owned();
    let inner = text.split("boundary=").nth(1).unwrap().split("\r\n").next().unwrap();
    assert!(
        text.contains(&format!("\r\n\r\n--{inner}--\r\n--batchresponse_")),
        "{text}"
    );
    assert!(!text.contains("HTTP/1.1"), "{text}");
    // The current SDK for Python sends an empty part instead, and treats 400 as an empty result.
    let part = empty.replace("--changeset_1--", "--changeset_1\r\n\r\n--changeset_1--\r\n");
    send_batch(client, "$batch", &[], &part).fails_with(400, "InvalidInput", "");
}

#[test]
fn the_target_of_a_request_in_a_batch_may_have_blanks() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let address = "/devstoreaccount1/Things(PartitionKey='p', RowKey='a b')";
    let body = batch(&[("PUT", address, "", "{\"v\":1}")]);
    let text = send_batch(client, "$batch", &[], &body).expect(202).text().to_owned();
    assert!(text.contains("HTTP/1.1 204 "), "{text}");
    assert_eq!(rows(client), ["a b"]);
}

#[test]
fn booleans_in_xml_may_be_capitalised() {
    let service = Service::start();
    let client = &service.client;
    let url = "?restype=service&comp=properties";
    let document = "<StorageServiceProperties><HourMetrics><Version>1.0</Version><Enabled>True</Enabled>\
        <IncludeAPIs>False</IncludeAPIs><RetentionPolicy><Enabled>False</Enabled></RetentionPolicy></HourMetrics>\
        </StorageServiceProperties>";
    client.send("PUT", url, &[], document.as_bytes()).expect(202);
    let stored = client.get(url).expect(200);
    let metrics = "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>\
        <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>";
    assert!(stored.text().contains(metrics), "{}", stored.text());
}

#[test]
fn logging_and_metrics_have_one_version() {
    let service = Service::start();
    let off = "<Enabled>false</Enabled>";
    for (kind, rest) in [
        (
            "Logging",
            "<Delete>false</Delete><Read>false</Read><Write>false</Write>",
        ),
        ("HourMetrics", off),
        ("MinuteMetrics", off),
    ] {
        for (version, status) in [("1.0", 202), ("1.1", 400), ("2.0", 400), ("", 400)] {
            let document = format!(
                "<StorageServiceProperties><{kind}><Version>{version}</Version>{rest}\
                 <RetentionPolicy>{off}</RetentionPolicy></{kind}></StorageServiceProperties>"
            );
            let url = "?restype=service&comp=properties";
            let answer = service.client.send("PUT", url, &[], document.as_bytes()).expect(status);
            let code = (status == 400).then_some("InvalidXmlDocument");
            assert_eq!(answer.header("x-ms-error-code"), code, "{kind} {version}");
        }
    }
}

#[test]
fn a_filter_on_one_entity_decides_whether_it_is_there() {
    let service = Service::with_table("Things");
    let client = &service.client;
    service.insert("Things", r#"{"PartitionKey":"p","RowKey":"1","v":7}"#);
    let get = |filter: &str| client.get(&format!("Things(PartitionKey='p',RowKey='1')?$filter={filter}"));
    get("v%20eq%207").expect(200);
    get("").expect(200);
    get("v%20eq%208").fails_with(404, "ResourceNotFound", "The specified resource does not exist.");
    get("RowKey%20eq%20'2'").fails_with(404, "ResourceNotFound", "");
    get("v%20eq").fails_with(400, "InvalidInput", "Syntax error at position");
    let absent = client.get("Absent(PartitionKey='p',RowKey='1')?$filter=v%20eq%208");
    absent.fails_with(404, "TableNotFound", "");
}

#[test]
fn an_empty_selection_shows_in_the_context_url() {
    let service = Service::with_table("Things");
    let client = &service.client;
    service.insert("Things", r#"{"PartitionKey":"p","RowKey":"1","v":7}"#);
    let context = |target: &str| {
        let json = client.get(target).expect(200).json();
        let url = json["odata.metadata"].as_str().unwrap();
        url.split('#').nth(1).unwrap().to_owned()
    };
    assert_eq!(context("Things()?$select="), "Things&$select=");
    assert_eq!(context("Things()"), "Things");
    assert_eq!(
        context("Things(PartitionKey='p',RowKey='1')?$select="),
        "Things/@Element&$select="
    );
    let page = client.get("Things()?$select=").expect(200).json();
    assert_eq!(page["value"][0]["v"], 7);
}

fn entity(row: &str) -> String {
    format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#)
}

fn rows(client: &Client) -> Vec<String> {
    let page = client.get("Things()").expect(200).json();
    let entities = page["value"].as_array().unwrap();
    entities
        .iter()
        .map(|entity| entity["RowKey"].as_str().unwrap().to_owned())
        .collect()
}

/// A batch of operations: verb, target, headers, body.
fn batch(changes: &[(&str, &str, &str, &str)]) -> String {
    let part = |(verb, target, headers, body): &(&str, &str, &str, &str)| {
        format!(
            "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             {verb} {target} HTTP/1.1\r\nContent-Type: application/json\r\n{headers}\r\n{body}\r\n"
        )
    };
    let parts: String = changes.iter().map(part).collect();
    format!(
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n{parts}--changeset_1--\r\n--batch_1--\r\n"
    )
}

fn send_batch(client: &Client, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let multipart = ("Content-Type", "multipart/mixed; boundary=batch_1");
    let all: Vec<(&str, &str)> = [multipart].into_iter().chain(headers.iter().copied()).collect();
    client.send("POST", target, &all, body.as_bytes())
}
