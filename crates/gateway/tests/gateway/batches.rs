//! Entity group transactions (semantics 5).

use crate::gateway::Service;
use raw_http::Answer;

/// One operation of a batch: verb, resource, headers, body.
type Change<'a> = (&'a str, &'a str, &'a str, &'a str);

fn body(changes: &[Change<'_>]) -> String {
    let part = |(verb, url, headers, body): &Change<'_>| {
        format!(
            "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             {verb} {url} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\n{headers}\r\n{body}\r\n"
        )
    };
    let parts: String = changes.iter().map(part).collect();
    format!(
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n{parts}--changeset_1--\r\n--batch_1--\r\n"
    )
}

fn send(service: &Service, body: &str) -> Answer {
    let headers = [("Content-Type", "multipart/mixed; boundary=batch_1")];
    service.client.send("POST", "$batch", &headers, body.as_bytes())
}

/// The parts of a response: status line, headers, body.
fn parts(answer: &Answer) -> Vec<(String, Vec<String>, String)> {
    let text = answer.text();
    let outer = answer
        .header("Content-Type")
        .unwrap()
        .split("boundary=")
        .nth(1)
        .unwrap();
    assert!(outer.starts_with("batchresponse_"));
    let inner = text.split("boundary=").nth(1).unwrap().split("\r\n").next().unwrap();
    assert!(inner.starts_with("changesetresponse_"));
    assert!(text.ends_with(&format!("--{inner}--\r\n--{outer}--\r\n")), "{text}");
    let begin = format!("--{inner}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n");
    text.split(&begin)
        .skip(1)
        .map(|part| {
            let (head, body) = part.split_once("\r\n\r\n").unwrap();
            let mut lines = head.split("\r\n").map(str::to_owned);
            let status = lines.next().unwrap();
            (status, lines.collect(), body.split("\r\n--").next().unwrap().to_owned())
        })
        .collect()
}

/// The only part of a batch that failed: status, code, message without id and time.
#[track_caller]
fn failure(answer: &Answer) -> (String, String, String) {
    assert_eq!(answer.status, 202, "{}", answer.text());
    let parts = parts(answer);
    let [(status, _, body)] = &parts[..] else {
        panic!("{parts:?}");
    };
    let json: serde_json::Value = serde_json::from_str(body).unwrap();
    let error = &json["odata.error"];
    let message = error["message"]["value"]
        .as_str()
        .unwrap()
        .split("\nRequestId")
        .next()
        .unwrap();
    (
        status.clone(),
        error["code"].as_str().unwrap().to_owned(),
        message.to_owned(),
    )
}

fn insert(row: &str) -> String {
    format!(r#"{{"PartitionKey":"p","RowKey":"{row}","v":1}}"#)
}

const ROW_1: &str = "/devstoreaccount1/Things(PartitionKey='p',RowKey='1')";

#[test]
fn all_operations_are_answered_in_their_order() {
    let service = Service::with_table("Things");
    service.insert("Things", &insert("1"));
    service.insert("Things", &insert("2"));
    let quiet = "Prefer: return-no-content\r\n";
    let host = &service.client.host;
    let absolute = format!("http://{host}/devstoreaccount1/Things");
    let third = format!("{absolute}(PartitionKey='p',RowKey='2')?sig=x");
    let answer = send(
        &service,
        &body(&[
            ("POST", &absolute, quiet, &insert("3")),
            ("POST", "Things", "", &insert("4")),
            ("PATCH", ROW_1, "If-Match: *\r\n", r#"{"w":2}"#),
            ("DELETE", &third, "If-Match: *\r\n", ""),
            ("PUT", "Things(PartitionKey='p',RowKey='5')", "", r#"{"w":2}"#),
            (
                "POST",
                "Things(PartitionKey='p',RowKey='6')",
                "X-HTTP-Method: MERGE\r\n",
                r#"{"w":2}"#,
            ),
        ]),
    )
    .expect(202);
    assert_eq!(answer.header("Cache-Control"), Some("no-cache"));
    let parts = parts(&answer);
    let statuses: Vec<_> = parts.iter().map(|(status, ..)| status.as_str()).collect();
    let (created, done) = ("HTTP/1.1 201 Created", "HTTP/1.1 204 No Content");
    assert_eq!(statuses, [done, created, done, done, done, done]);
    let has = |index: usize, header: &str| parts[index].1.iter().any(|line| line.starts_with(header));
    for header in [
        "Preference-Applied: return-no-content",
        "DataServiceVersion: 3.0;",
        "ETag: W/\"",
        "DataServiceId: http://",
    ] {
        assert!(has(0, header), "{header}: {:?}", parts[0]);
    }
    assert!(parts[1].2.contains("\"RowKey\":\"4\""), "{:?}", parts[1]);
    assert!(has(2, "DataServiceVersion: 1.0;") && has(2, "ETag: W/\"") && !has(3, "ETag"));

    let all = service.client.get("Things()").expect(200).json();
    let rows: Vec<_> = all["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["RowKey"].as_str().unwrap())
        .collect();
    assert_eq!(rows, ["1", "3", "4", "5", "6"]);
    assert_eq!(all["value"][0]["w"], 2);
}

#[test]
fn a_failure_is_the_only_part_and_nothing_is_written() {
    let service = Service::with_table("Things");
    service.insert("Things", &insert("1"));
    let quiet = "Prefer: return-no-content\r\n";
    let answer = send(
        &service,
        &body(&[
            ("POST", "Things", quiet, &insert("0")),
            ("POST", "Things", quiet, &insert("1")),
        ]),
    );
    let (status, code, message) = failure(&answer);
    assert_eq!(
        (status.as_str(), code.as_str()),
        ("HTTP/1.1 409 Conflict", "EntityAlreadyExists")
    );
    assert_eq!(message, "1:The specified entity already exists.");
    let headers = &parts(&answer)[0].1;
    for header in [
        "Preference-Applied: return-no-content",
        "Cache-Control: no-cache",
        "DataServiceVersion: 3.0;",
    ] {
        assert!(headers.iter().any(|line| line == header), "{header}: {headers:?}");
    }
    service.client.get("Things(PartitionKey='p',RowKey='0')").expect(404);
}

#[test]
fn the_index_stands_before_a_message_as_the_service_has_it() {
    let service = Service::with_table("Things");
    service.insert("Things", &insert("1"));
    let any = "If-Match: *\r\n";
    let other_partition = r#"{"PartitionKey":"q","RowKey":"9"}"#;
    let good = ("POST", "Things", "", insert("0"));
    let of = |changes: &[Change<'_>]| {
        let (_, code, message) = failure(&send(&service, &body(changes)));
        format!("{code} {message}")
    };
    let good = ("POST", good.1, "", good.3.as_str());
    let one = insert("1");
    // One operation: errors of the front end have an index, those of the back end have none.
    assert_eq!(
        of(&[("POST", "Things", "", &one)]),
        "EntityAlreadyExists The specified entity already exists."
    );
    assert_eq!(
        of(&[("DELETE", "Things(PartitionKey='p',RowKey='x')", any, "")]),
        "ResourceNotFound The specified resource does not exist."
    );
    assert_eq!(
        of(&[("PUT", ROW_1, "If-Match: W/\"x\"\r\n", "{}")]),
        "UpdateConditionNotSatisfied The update condition specified in the request was not satisfied."
    );
    assert_eq!(
        of(&[("POST", "Absent", "", &one)]),
        "TableNotFound 0:The table specified does not exist."
    );
    assert_eq!(
        of(&[("POST", "Things", "", "{}")]),
        "PropertiesNeedValue 0:The values are not specified for all properties in the entity."
    );
    assert_eq!(
        of(&[("PUT", "Things(PartitionKey='p',RowKey='a%2Fb')", "", "{}")]),
        "InvalidInput 0:Bad Request - Error in query syntax."
    );
    assert_eq!(
        of(&[("PUT", "Things(PartitionKey='p',RowKey='a%00b')", "", "{}")]),
        "OutOfRangeInput 0:One of the request inputs is out of range."
    );
    assert!(of(&[("DELETE", ROW_1, "", "")]).starts_with("MissingRequiredHeader 0:"));
    // Several: always the index.
    assert_eq!(
        of(&[good, ("POST", "Things", "", &one)]),
        "EntityAlreadyExists 1:The specified entity already exists."
    );
    assert_eq!(
        of(&[good, ("POST", "Things", "", other_partition)]),
        "CommandsInBatchActOnDifferentPartitions 1:All commands in a batch must operate on same entity group."
    );
    assert_eq!(
        of(&[good, ("POST", "Other", "", &one)]),
        "CommandsInBatchActOnDifferentPartitions 1:All commands in a batch must operate on same entity group."
    );
    assert!(
        of(&[good, good])
            .starts_with("InvalidDuplicateRow 1:The batch request contains multiple changes with same row key.")
    );
    // Errors that need no data come before errors that do.
    assert!(of(&[("POST", "Things", "", &one), good, ("POST", "Things", "", "{")]).starts_with("InvalidInput 2:"));
    // Limits come after everything that the front end finds, also after TableNotFound.
    let large = format!(
        "{{\"PartitionKey\":\"p\",\"RowKey\":\"l\",\"s\":\"{}\"}}",
        "x".repeat(40_000)
    );
    let large = ("POST", "Things", "", large.as_str());
    assert!(of(&[large]).starts_with("PropertyValueTooLarge The property value"));
    assert!(of(&[good, large]).starts_with("PropertyValueTooLarge 1:"));
    assert!(of(&[large, ("POST", "Things", "", "{")]).starts_with("InvalidInput 1:"));
    assert!(of(&[("POST", "Absent", "", large.3)]).starts_with("TableNotFound 0:"));
    assert_eq!(
        of(&[("POST", "Absent", "", &one), ("POST", "Absent", "", good.3)]),
        "TableNotFound 0:The table specified does not exist."
    );

    let rows: Vec<String> = (0..101).map(|i| insert(&format!("r{i}"))).collect();
    let changes: Vec<Change<'_>> = rows.iter().map(|row| ("POST", "Things", "", row.as_str())).collect();
    assert_eq!(
        of(&changes),
        "InvalidInput 99:The batch request operation exceeds the maximum 100 changes per change set."
    );
    assert_eq!(parts(&send(&service, &body(&changes[..100]))).len(), 100);
}

#[test]
fn a_lone_query_by_keys_is_a_batch() {
    let service = Service::with_table("Things");
    service.insert("Things", &insert("1"));
    let read = |row: &str| {
        let body = format!(
            "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             GET http://h/devstoreaccount1/Things(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\nAccept: application/json;odata=nometadata\r\n\r\n\r\n--batch_1--\r\n"
        );
        send(&service, &body).expect(202)
    };
    let found = read("1");
    assert!(
        found.text().contains("HTTP/1.1 200 OK\r\n") && found.text().contains("\"RowKey\":\"1\""),
        "{}",
        found.text()
    );
    assert!(!found.text().contains("changesetresponse"));
    let absent = read("x");
    assert!(absent.text().contains("HTTP/1.1 404 Not Found\r\n") && absent.text().contains("ResourceNotFound"));
    let no_key = read("a%2Fb");
    assert!(no_key.text().contains("HTTP/1.1 400 Bad Request\r\n") && no_key.text().contains("\"Bad Request - Error"));
}

#[test]
fn malformed_batches_are_refused_as_a_whole() {
    let service = Service::with_table("Things");
    let good = body(&[("POST", "Things", "", &insert("1"))]);
    let client = &service.client;
    client.post("$batch", &good).fails_with(
        415,
        "MediaTypeNotSupported",
        "None of the provided media types are supported",
    );
    let no_boundary = [("Content-Type", "multipart/mixed")];
    client.send("POST", "$batch", &no_boundary, good.as_bytes()).expect(415);
    let other = [("Content-Type", "multipart/mixed; boundary=other")];
    client
        .send("POST", "$batch", &other, good.as_bytes())
        .fails_with(400, "InvalidInput", "An error occurred");
    for bad in [
        "".to_owned(),
        "x".to_owned(),
        good.replace("--changeset_1--", ""),
        good.replace("--batch_1--", ""),
        good.replace("application/http", "text/plain"),
        good.replace(" HTTP/1.1", ""),
        good.replace("POST Things", "GET Things"),
        good.replace(
            "--batch_1--",
            "--batch_1\r\nContent-Type: application/http\r\n\r\nGET Things(PartitionKey='p',RowKey='1') HTTP/1.1\r\n\r\n\r\n--batch_1--",
        ),
    ] {
        send(&service, &bad).fails_with(400, "InvalidInput", "An error occurred");
    }
    assert_eq!(
        service.client.get("Things()").expect(200).json()["value"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    // A boundary may be any text, also quoted. Lines may end with LF alone.
    let quoted = [("Content-Type", "multipart/mixed; boundary=\"b (1)\"")];
    let renamed = good.replace("batch_1", "b (1)").replace("\r\n", "\n");
    client.send("POST", "$batch", &quoted, renamed.as_bytes()).expect(202);
    assert_eq!(
        service.client.get("Things()").expect(200).json()["value"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn change_sets_behind_the_first_are_refused() {
    let service = Service::with_table("Things");
    let set = |row: &str| body(&[("POST", "Things", "Prefer: return-no-content\r\n", &insert(row))]);
    let (first, second) = (set("1"), set("2").replace("changeset_1", "changeset_2"));
    let both = format!("{}{second}", first.strip_suffix("--batch_1--\r\n").unwrap());
    let answer = send(&service, &both).expect(202);
    let parts: Vec<&str> = answer.text().split("--batchresponse_").collect();
    let [_, first, second, _] = parts[..] else {
        panic!("{}", answer.text());
    };
    assert!(first.contains("HTTP/1.1 204 No Content\r\n"), "{first}");
    assert!(second.contains("\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 400 Bad Request\r\n"), "{second}");
    assert!(second.contains("\"code\":\"InvalidInput\""), "{second}");
    service.client.get("Things(PartitionKey='p',RowKey='1')").expect(200);
    service.client.get("Things(PartitionKey='p',RowKey='2')").expect(404);
}
