//! Queries (semantics 4.8, 6).

use serde_json::Value;
use table_service_model::Ticks;
use table_service_model::access::{GrantedRange, Permissions, TableSas};

use crate::access::with_query;
use crate::gateway::{Gateway, Service, url};
use raw_http::{ACCOUNT, Answer};

fn filled() -> Service {
    let service = Service::with_table("Things");
    for (partition, row) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1")] {
        service.insert(
            "Things",
            &format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}","v":{row},"s":"{partition}{row}"}}"#),
        );
    }
    service
}

fn rows(answer: &Answer) -> Vec<String> {
    let json = answer.json();
    let row = |entity: &Value| {
        format!(
            "{}{}",
            entity["PartitionKey"].as_str().unwrap(),
            entity["RowKey"].as_str().unwrap()
        )
    };
    json["value"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn pages_follow_each_other_by_their_tokens() {
    let service = filled();
    for suffix in [
        "",
        "&$select=PartitionKey,RowKey",
        "&$format=application/json;odata=fullmetadata",
    ] {
        let mut target = format!("Things()?$top=2{suffix}");
        let mut all = Vec::new();
        loop {
            let page = service.client.get(&target).expect(200);
            assert_eq!(page.header("ETag"), None);
            let rows = rows(&page);
            assert!(rows.len() <= 2);
            all.extend(rows);
            let (partition_key, row_key) = (
                page.header("x-ms-continuation-NextPartitionKey"),
                page.header("x-ms-continuation-NextRowKey"),
            );
            let (Some(partition_key), Some(row_key)) = (partition_key, row_key) else {
                assert_eq!((partition_key, row_key), (None, None));
                break;
            };
            target = format!("Things()?$top=2{suffix}&NextPartitionKey={partition_key}&NextRowKey={row_key}");
        }
        assert_eq!(all, ["a1", "a2", "b1", "b2", "c1"], "{suffix}");
    }
    let first = service.client.get("Things?$top=1").expect(200);
    assert_eq!(first.header("x-ms-continuation-NextPartitionKey"), Some("1!4!YQ--"));
    assert_eq!(first.header("x-ms-continuation-NextRowKey"), Some("1!4!Mg--"));
    // The token names the next match, so a page that ends with the last match has none.
    let exact = service
        .client
        .get("Things?$top=2&$filter=PartitionKey%20eq%20'a'")
        .expect(200);
    assert_eq!(exact.header("x-ms-continuation-NextPartitionKey"), None);
    for token in [
        "NextRowKey=1!4!Mg--",
        "NextPartitionKey=x&NextRowKey=1!4!Mg--",
        "NextPartitionKey=1!4!YQ--&NextRowKey=",
    ] {
        service
            .client
            .get(&format!("Things?{token}"))
            .fails_with(400, "InvalidInput", "");
    }
}

#[test]
fn the_levels_of_metadata_differ() {
    let service = filled();
    let base = format!("http://{}/{ACCOUNT}", service.client.host);
    let query = |level: &str, more: &str| {
        let accept = format!("application/json;odata={level}");
        let target = format!("Things()?$filter=s%20eq%20'b1'{more}");
        service
            .client
            .send("GET", &target, &[("Accept", &accept)], b"")
            .expect(200)
    };
    let minimal = query("minimalmetadata", "").json();
    assert_eq!(minimal["odata.metadata"], format!("{base}/$metadata#Things"));
    let entity = &minimal["value"][0];
    assert!(entity["odata.etag"].is_string() && entity.get("odata.id").is_none());
    let none = query("nometadata", "");
    assert!(
        none.text()
            .starts_with("{\"value\":[{\"PartitionKey\":\"b\",\"RowKey\":\"1\",\"Timestamp\":\"")
    );
    let full = query("fullmetadata", "").json();
    let entity = &full["value"][0];
    assert_eq!(entity["odata.type"], format!("{ACCOUNT}.Things"));
    assert_eq!(
        entity["odata.id"],
        format!("{base}/Things(PartitionKey='b',RowKey='1')")
    );
    assert_eq!(entity["Timestamp@odata.type"], "Edm.DateTime");
    let selected = query("minimalmetadata", "&$select=v,none").json();
    assert_eq!(
        selected["odata.metadata"],
        format!("{base}/$metadata#Things&$select=v,none")
    );
    let mut entity = selected["value"][0].as_object().unwrap().clone();
    assert!(entity.remove("odata.etag").is_some());
    assert_eq!(Value::Object(entity), serde_json::json!({"v": 1, "none": null}));
    // With any selection the response is JSON and has the entity's ETag.
    let odd = query("minimalmetadata", "&$select=v%22:1,odata.etag").json();
    assert_eq!(odd["value"][0].get("v\":1"), Some(&Value::Null));
    assert!(odd["value"][0]["odata.etag"].is_string());
    let empty = service.client.get("Things?$top=0").expect(200);
    assert!(empty.text().ends_with("\"value\":[]}"), "{}", empty.text());
}

#[test]
fn bad_queries_have_the_services_errors() {
    let service = filled();
    let client = &service.client;
    for (target, status, code, message) in [
        (
            "Things?$top=1001",
            400,
            "InvalidInput",
            "One of the request inputs is not valid.",
        ),
        (
            "Things?$top=x",
            400,
            "InvalidInput",
            "One of the request inputs is not valid.",
        ),
        (
            "Things?$filter=aaa%20bbb%20ccc",
            400,
            "InvalidInput",
            "Syntax error at position 7 in 'aaa bbb ccc'.",
        ),
        (
            "Things?$filter=a%20eq%20b",
            501,
            "NotImplemented",
            "The requested operation is not implemented",
        ),
        (
            "Things?$filter=a%20eq%20null",
            400,
            "InvalidInput",
            "One of the request inputs is not valid.",
        ),
        (
            "Things?$filter=a%20lt%20null",
            400,
            "InvalidInput",
            "The operator 'LessThan' is not supported",
        ),
        ("Absent?$filter=a%20eq%20b", 501, "NotImplemented", ""),
        // The service has no count, and no description of its tables.
        (
            "Things/$count",
            400,
            "InvalidUri",
            "The requested URI does not represent any resource",
        ),
        (
            "$metadata",
            400,
            "InvalidResourceName",
            "The specifed resource name contains invalid characters.",
        ),
        ("Absent", 404, "TableNotFound", "The table specified does not exist."),
        (
            "Things?timeout=x",
            400,
            "InvalidQueryParameterValue",
            "Value for one of the query parameters",
        ),
    ] {
        client.get(target).fails_with(status, code, message);
    }
    // A plus sign in a query is a space. Clients in Go send it so.
    assert_eq!(rows(&client.get("Things?$filter=s+eq+'a2'").expect(200)), ["a2"]);
    let long = (0..1500)
        .map(|i| format!("s%20eq%20'{i}'"))
        .collect::<Vec<_>>()
        .join("%20or%20");
    client.get(&format!("Things?$filter={long}")).expect(200);
}

/// Whatever the database says: its users may have another dialect.
#[test]
fn filters_are_the_services_unless_the_account_says_otherwise() {
    let service = filled();
    let database = &service.database;
    database.session("owner").run(&format!(
        "ALTER DATABASE \"{}\" SET table_service.filter_dialect = extended",
        database.name()
    ));
    let url = url(database.cluster(), database.name(), "postgres");
    let told = "filters may say more than the service's can";
    let ranges = GrantedRange {
        start_partition: Some("b".to_owned()),
        ..GrantedRange::default()
    };
    let filters = [
        ("startswith(s,'b')", "b1b2", "NotImplemented"),
        (
            "contains(s,'1') and PartitionKey in ('b','c')",
            "b1c1",
            "NotImplemented",
        ),
        ("substringof('c',s)", "c1", "NotImplemented"),
        ("PartitionKey in ('b','x')", "b1b2", "InvalidInput"),
        ("s ne null and RowKey eq '1'", "a1b1c1", "InvalidInput"),
        ("t eq null and RowKey eq '2'", "a2b2", "InvalidInput"),
    ];
    for (arguments, is_extended) in [
        (&[][..], false),
        (&["--filter-dialect", "service"], false),
        (&["--filter-dialect", "extended"], true),
    ] {
        let gateway = Gateway::start(&[&["--database-url", &url], arguments].concat());
        let client = gateway.client();
        let sas = TableSas::new("2019-02-02", "things")
            .permissions(Permissions::parse("r").unwrap())
            .expiry(Ticks::parse("2099-01-01").unwrap())
            .range(ranges.clone())
            .unwrap()
            .sign(&client.account)
            .unwrap();
        for (filter, found, code) in filters {
            let filter = filter.replace(' ', "%20");
            let one = format!("Things(PartitionKey='b',RowKey='1')?$filter={filter}");
            let answers = [
                client.get(&format!("Things?$filter={filter}")),
                client.get(&format!("Things?$filter={filter}&$select=PartitionKey,RowKey")),
                with_query(
                    &client,
                    "GET",
                    &format!("Things?$filter={filter}&{}", sas.to_query()),
                    &[],
                    "",
                ),
            ];
            if !is_extended {
                let status = if code == "NotImplemented" { 501 } else { 400 };
                for answer in answers.iter().chain([&client.get(&one)]) {
                    answer.fails_with(status, code, "");
                    let hint = answer.header("x-table-service-hint").unwrap();
                    let setting =
                        "The setting filter_dialect = \"extended\" of the gateway's account lets a filter say";
                    assert!(hint.contains(setting) && !hint.contains("SET "), "{hint}");
                }
                // The clients of the service get no hint about SQL.
                assert!(answers.iter().all(|answer| !answer.text().contains("filter_dialect")));
                continue;
            }
            let found: Vec<_> = found
                .as_bytes()
                .chunks(2)
                .map(|row| String::from_utf8(row.to_vec()).unwrap())
                .collect();
            let granted = found.iter().filter(|row| !row.starts_with('a')).cloned().collect();
            let rows = answers.map(|answer| rows(&answer.expect(200)));
            assert_eq!(rows, [found.clone(), found.clone(), granted], "{filter}");
            client
                .get(&one)
                .expect(if found.contains(&"b1".to_owned()) { 200 } else { 404 });
        }
        if is_extended {
            gateway.waits_for_log(told);
            gateway.waits_for_log("account=\"devstoreaccount1\"");
        } else {
            assert!(!gateway.log().contains(told), "{}", gateway.log());
        }
    }
}
