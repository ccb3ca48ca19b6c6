//! Operations on one entity (semantics 4.4 to 4.7, 2.2).

use crate::gateway::Service;
use raw_http::ACCOUNT;

const ENTITY: &str =
    r#"{"PartitionKey":"p:1","RowKey":"O'B","n":1,"big@odata.type":"Edm.Int64","big":"5000000000","x":null}"#;
const URL: &str = "People(PartitionKey='p%3A1',RowKey='O''B')";

#[test]
fn an_insert_answers_as_the_client_prefers() {
    let service = Service::with_table("People");
    let client = &service.client;
    let base = format!("http://{}/{ACCOUNT}", client.host);
    let inserted = service.insert("People", ENTITY);
    let (etag, location) = (inserted.header("ETag").unwrap(), inserted.header("Location").unwrap());
    assert!(etag.starts_with("W/\"datetime'2"), "{etag}");
    assert_eq!(location, format!("{base}/{URL}"));
    let json = inserted.json();
    assert_eq!(json["odata.metadata"], format!("{base}/$metadata#People/@Element"));
    assert_eq!(
        (json["odata.etag"].as_str(), json["big"].as_str()),
        (Some(etag), Some("5000000000"))
    );
    assert_eq!(json["big@odata.type"], "Edm.Int64");
    assert!(json.get("x").is_none());

    let got = client.get(URL).expect(200);
    assert_eq!(got.header("ETag"), Some(etag));
    assert_eq!(got.text(), inserted.text());

    let headers = [("Content-Type", "application/json"), ("Prefer", "return-no-content")];
    let body = ENTITY.replace("O'B", "b");
    let quiet = client.send("POST", "People()", &headers, body.as_bytes()).expect(204);
    assert_eq!(quiet.header("DataServiceId"), quiet.header("Location"));
    assert_eq!(quiet.header("Preference-Applied"), Some("return-no-content"));
    assert!(quiet.header("ETag").is_some());

    let conflict = client.send("POST", "People", &headers, body.as_bytes());
    conflict.fails_with(409, "EntityAlreadyExists", "The specified entity already exists.");
    assert_eq!(conflict.header("Preference-Applied"), Some("return-no-content"));
    assert_eq!(conflict.header("x-ms-error-code"), None);
    let absent = client.post("Absent", ENTITY);
    absent.fails_with(404, "TableNotFound", "The table specified does not exist.");
    assert_eq!(absent.header("Cache-Control"), None);
}

#[test]
fn bad_entities_have_the_services_errors() {
    let service = Service::with_table("People");
    let client = &service.client;
    for (body, status, code, message) in [
        (
            r#"{"RowKey":"r"}"#,
            400,
            "PropertiesNeedValue",
            "The values are not specified",
        ),
        (r#"{"PartitionKey":null,"RowKey":"r"}"#, 400, "PropertiesNeedValue", ""),
        (r#"{"PartitionKey":1,"RowKey":"r"}"#, 400, "InvalidInput", ""),
        (
            r#"{"PartitionKey":"a/b","RowKey":"r"}"#,
            400,
            "OutOfRangeInput",
            "The 'PartitionKey' parameter of value 'a/b'",
        ),
        (
            r#"{"PartitionKey":"p","RowKey":"r","a b":1}"#,
            400,
            "PropertyNameInvalid",
            "The property name is invalid.",
        ),
        (
            r#"{"PartitionKey":"p","RowKey":"r","a":1,"a":2}"#,
            400,
            "DuplicatePropertiesSpecified",
            "",
        ),
        (
            r#"{"PartitionKey":"p","RowKey":"r","a":{}}"#,
            400,
            "InvalidInput",
            "An error occurred",
        ),
        (
            r#"{"PartitionKey":"p","RowKey":"r","a@odata.type":"Edm.Guid","a":"x"}"#,
            400,
            "InvalidInput",
            "An error occurred",
        ),
        ("[]", 400, "InvalidInput", "An error occurred"),
        ("", 400, "InvalidInput", "An error occurred"),
        ("{\"PartitionKey\":\"p\"", 400, "InvalidInput", "An error occurred"),
        (r#"{"TableName":"People"}"#, 400, "PropertiesNeedValue", ""),
    ] {
        client.post("People", body).fails_with(status, code, message);
    }
    let long = format!(r#"{{"PartitionKey":"p","RowKey":"r","a":"{}"}}"#, "x".repeat(32769));
    client
        .post("People", &long)
        .fails_with(400, "PropertyValueTooLarge", "The property value exceeds");
    client
        .send(
            "POST",
            "People",
            &[("Content-Type", "application/json")],
            b"{\"a\":\"\xff\"}",
        )
        .fails_with(400, "InvalidInput", "");
    // A header names the property, because the message does not.
    let named = client.post("People", r#"{"PartitionKey":"p","RowKey":"r","a b":1}"#);
    assert!(named.header("x-table-service-hint").unwrap().contains("a b"));
}

#[test]
fn writes_to_a_url_follow_if_match() {
    let service = Service::with_table("People");
    let client = &service.client;
    let write = |method: &str, tag: Option<&str>, body: &str| {
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(tag.map(|tag| ("If-Match", tag)));
        client.send(method, URL, &headers, body.as_bytes())
    };
    write("PUT", Some("*"), "{}").fails_with(404, "ResourceNotFound", "The specified resource does not exist.");
    write("MERGE", Some("W/\"x\""), "{}").fails_with(404, "ResourceNotFound", "");
    let first = write("PUT", None, r#"{"a":1,"b":2,"RowKey":7}"#).expect(204);
    let etag = first.header("ETag").unwrap().to_owned();
    assert_eq!((first.header("Location"), first.body.len()), (None, 0));
    let merged = write("PATCH", Some(&etag), r#"{"b":3}"#).expect(204);
    assert_ne!(merged.header("ETag"), Some(etag.as_str()));
    write("MERGE", Some(&etag), r#"{"b":4}"#).fails_with(412, "UpdateConditionNotSatisfied", "The update condition");
    write("PUT", Some("abc"), "{}").fails_with(
        400,
        "InvalidInput",
        "The etag value 'abc' specified in one of the request",
    );
    write("MERGE", None, "").expect(204);
    let json = client.get(URL).expect(200).json();
    assert_eq!((&json["a"], &json["b"]), (&1.into(), &3.into()));
    write("PUT", Some("*"), r#"{"c":1}"#).expect(204);
    assert!(client.get(URL).expect(200).json().get("a").is_none());
    // Classic clients use X-HTTP-Method.
    let headers = [
        ("X-HTTP-Method", "MERGE"),
        ("If-Match", "*"),
        ("Content-Type", "application/json"),
    ];
    client.send("POST", URL, &headers, b"{\"d\":1}").expect(204);

    let none_match = client.send("PUT", URL, &[("If-None-Match", "*")], b"{}");
    none_match.fails_with(
        400,
        "InvalidInput",
        "If-None-Match HTTP header cannot be specified for PUT operations.",
    );
    let delete = |tag: &[(&str, &str)]| client.send("DELETE", URL, tag, b"");
    delete(&[]).fails_with(400, "MissingRequiredHeader", "An HTTP header that's mandatory");
    delete(&[("If-Match", &etag)]).fails_with(412, "UpdateConditionNotSatisfied", "");
    let deleted = delete(&[("If-Match", "*")]).expect(204);
    assert_eq!(deleted.header("ETag"), None);
    delete(&[("If-Match", "*")]).fails_with(404, "ResourceNotFound", "");
    client.get(URL).fails_with(404, "ResourceNotFound", "");
    client
        .get("Absent(PartitionKey='',RowKey='')")
        .fails_with(404, "TableNotFound", "");
}

#[test]
fn every_key_that_is_allowed_works_in_a_url() {
    let service = Service::with_table("Keys");
    for (key, url) in [
        ("", ""),
        (" ", "%20"),
        ("O'Brien", "O''Brien"),
        ("O'Brien", "O%27%27Brien"),
        ("a+b", "a+b"),
        ("100%", "100%25"),
        ("%2F", "%252F"),
        ("a&b=c,d;e:f@g!$*()", "a&b=c,d;e:f@g!$*()"),
        ("é日本😀", "%C3%A9%E6%97%A5%E6%9C%AC%F0%9F%98%80"),
        ("\"<>|", "%22%3C%3E%7C"),
    ] {
        let target = format!("Keys(PartitionKey='{url}',RowKey='{url}')");
        service.client.send("PUT", &target, &[], b"{}").expect(204);
        let json = service.client.get(&target).expect(200).json();
        assert_eq!(
            (json["PartitionKey"].as_str(), json["RowKey"].as_str()),
            (Some(key), Some(key))
        );
        let headers = [("Accept", "application/json;odata=fullmetadata")];
        let full = service.client.send("GET", &target, &headers, b"").expect(200).json();
        let link = full["odata.editLink"].as_str().unwrap();
        assert_eq!(service.client.get(link).expect(200).json()["RowKey"], key, "{link}");
    }
    let forbidden = |method: &str, key: &str| {
        let target = format!("Keys(PartitionKey='p',RowKey='{key}')");
        let headers: &[(&str, &str)] = if method == "GET" { &[] } else { &[("If-Match", "*")] };
        service.client.send(method, &target, headers, b"")
    };
    for key in ["a%2Fb", "a%5Cb", "a/b", "100%", "a%zz"] {
        for method in ["GET", "PUT", "DELETE"] {
            forbidden(method, key).fails_with(400, "InvalidInput", "Bad Request - Error in query syntax.");
        }
    }
    forbidden("GET", "a%23b").fails_with(404, "ResourceNotFound", "");
    forbidden("PUT", "a%3Fb").fails_with(400, "OutOfRangeInput", "One of the request inputs is out of range.");
}

#[test]
fn a_selection_is_exact() {
    let service = Service::with_table("People");
    service.insert("People", ENTITY);
    let answer = service.client.get(&format!("{URL}?$select=n,zzz")).expect(200);
    let base = format!("http://{}/{ACCOUNT}", service.client.host);
    let etag = answer.header("ETag").unwrap().replace('"', "\\\"");
    assert_eq!(
        answer.text(),
        format!(
            "{{\"odata.metadata\":\"{base}/$metadata#People/@Element&$select=n,zzz\",\"odata.etag\":\"{etag}\",\"n\":1,\"zzz\":null}}"
        )
    );
    let headers = [("Accept", "application/json;odata=nometadata")];
    let keys = service
        .client
        .send("GET", &format!("{URL}?$select=RowKey"), &headers, b"")
        .expect(200);
    assert_eq!(keys.text(), "{\"RowKey\":\"O'B\"}");
}

#[test]
fn what_is_not_there_is_told_before_limits() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let large = format!(
        "{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"s\":\"{}\"}}",
        "x".repeat(40_000)
    );
    let create = "{\"TableName\":\"Others\"}";
    for body in [create, &large] {
        client
            .post("Absent", body)
            .fails_with(404, "TableNotFound", "The table specified does not exist.");
    }
    client.post("Things", create).fails_with(400, "PropertiesNeedValue", "");
    client
        .post("Things", &large)
        .fails_with(400, "PropertyValueTooLarge", "");

    let write = |method: &str, table: &str, if_match: Option<&str>| {
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(if_match.map(|tag| ("If-Match", tag)));
        let target = format!("{table}(PartitionKey='p',RowKey='r')");
        client.send(method, &target, &headers, large.as_bytes())
    };
    for method in ["PUT", "PATCH", "MERGE"] {
        write(method, "Absent", None).fails_with(404, "TableNotFound", "");
        write(method, "Absent", Some("*")).fails_with(404, "TableNotFound", "");
        write(method, "Things", None).fails_with(400, "PropertyValueTooLarge", "");
        write(method, "Things", Some("*")).fails_with(404, "ResourceNotFound", "");
    }
    let stored = service.insert("Things", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}");
    let tag = stored.header("ETag").unwrap();
    write("PUT", "Things", Some("W/\"datetime'2020-01-01T00%3A00%3A00Z'\"")).fails_with(
        412,
        "UpdateConditionNotSatisfied",
        "",
    );
    for tag in ["*", tag] {
        write("PUT", "Things", Some(tag)).fails_with(400, "PropertyValueTooLarge", "");
    }
}
