//! Credentials in requests (semantics 7).

use table_service_model::Ticks;
use table_service_model::access::{AddressRange, GrantedRange, Permissions, TableSas};
use time::OffsetDateTime;

use crate::gateway::{Gateway, Service, url};
use raw_http::{Client, Connection, account, http_date, raw};

const OTHER_KEY: &str = "b3RoZXI=";

/// Sends a request without Authorization.
pub fn with_query(
    client: &Client,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> raw_http::Answer {
    let length = body.len().to_string();
    let mut all = vec![
        ("Host", client.host.as_str()),
        ("Content-Length", &length),
        ("Accept", "application/json;odata=nometadata"),
    ];
    all.extend(headers);
    client.exchange(&raw(
        method,
        &format!("{}/{target}", client.prefix),
        &all,
        body.as_bytes(),
    ))
}

#[test]
fn both_schemes_and_both_keys_are_accepted() {
    let service = Service::with(&["--account", "one", "--key", "a2V5", "--key", OTHER_KEY]);
    for key in ["a2V5", OTHER_KEY] {
        for lite in [false, true] {
            let client = Client {
                account: account("one", key),
                prefix: "/one".to_owned(),
                lite,
                ..service.client.clone()
            };
            client.get("Tables").expect(200);
            client.get("?restype=service&comp=properties").expect(200);
        }
    }
    let wrong = Client {
        account: account("one", "d3Jvbmc="),
        prefix: "/one".to_owned(),
        ..service.client.clone()
    };
    wrong.get("Tables").fails_with(
        403,
        "AuthenticationFailed",
        "Server failed to authenticate the request.",
    );
    let absent = Client {
        account: account("two", "a2V5"),
        prefix: "/two".to_owned(),
        ..service.client.clone()
    };
    absent.get("Tables").fails_with(403, "AuthenticationFailed", "");
}

#[test]
fn missing_and_malformed_credentials_are_refused() {
    let service = Service::start();
    let client = &service.client;
    with_query(client, "GET", "Tables", &[], "").fails_with(403, "AuthenticationFailed", "");
    for value in ["x", "Basic YTpi", "SharedKey", "SharedKey x", "SharedKey :"] {
        client
            .send("GET", "Tables", &[("Authorization", value)], b"")
            .fails_with(400, "InvalidAuthenticationInfo", "Authentication information");
    }
    client
        .send("GET", "Tables", &[("Authorization", "Bearer abc")], b"")
        .fails_with(403, "AuthenticationFailed", "");
    let minutes = |minutes: i64| http_date(OffsetDateTime::now_utc() + time::Duration::minutes(minutes));
    for (date, status) in [
        (minutes(-14), 200),
        (minutes(14), 200),
        (minutes(-16), 403),
        (minutes(16), 403),
        ("x".to_owned(), 403),
    ] {
        let answer = client.send("GET", "Tables", &[("x-ms-date", &date)], b"");
        assert_eq!(answer.status, status, "{date}");
    }
    // If a body is refused before it is read, the client can still read the response.
    let large = vec![b'x'; 3 * 1024 * 1024];
    client
        .send(
            "POST",
            "t1t",
            &[("Authorization", "SharedKey devstoreaccount1:x")],
            &large,
        )
        .fails_with(403, "AuthenticationFailed", "");
}

#[test]
fn a_signature_for_a_table_reaches_what_it_says() {
    let service = Service::with_table("Things");
    service.create_table("Others");
    for (partition, row) in [("a", "1"), ("b", "1"), ("b", "2"), ("c", "1")] {
        service.insert(
            "Things",
            &format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#),
        );
    }
    let client = &service.client;
    let expiry = Ticks::parse("2099-01-01").unwrap();
    let sas = |letters: &str| {
        TableSas::new("2019-02-02", "THINGS")
            .permissions(Permissions::parse(letters).unwrap())
            .expiry(expiry)
    };
    let range = GrantedRange {
        start_partition: Some("b".to_owned()),
        start_row: Some("1".to_owned()),
        end_partition: Some("b".to_owned()),
        end_row: Some("1".to_owned()),
    };
    let sign = |sas: TableSas| sas.sign(&client.account).unwrap().to_query();
    let reader = sign(sas("r").range(range).unwrap());
    let get = |target: &str, query: &str| {
        let separator = if target.contains('?') { '&' } else { '?' };
        with_query(client, "GET", &format!("{target}{separator}{query}"), &[], "")
    };
    // A query returns only entities in the range, whatever its filter.
    for filter in [
        "",
        "?$filter=PartitionKey%20ge%20'a'",
        "?$filter=RowKey%20eq%20'1')%20or%20(RowKey%20eq%20'2'",
    ] {
        let answer = get(&format!("Things(){filter}"), &reader);
        if filter.contains(')') {
            answer.fails_with(400, "InvalidInput", "Syntax error");
        } else {
            let value = answer.expect(200).json()["value"].as_array().unwrap().len();
            assert_eq!(value, 1, "{filter}");
        }
    }
    get("Things(PartitionKey='b',RowKey='1')", &reader).expect(200);
    get("Things(PartitionKey='c',RowKey='1')", &reader).fails_with(
        403,
        "AuthorizationFailure",
        "This request is not authorized",
    );
    let others = get("Others()", &reader);
    others.fails_with(403, "AuthorizationFailure", "");
    // The front end refuses these.
    assert_eq!(others.header("Cache-Control"), None);
    get("Tables", &reader).fails_with(403, "AuthorizationFailure", "");
    get("Things?comp=acl", &reader).expect(403);
    let body = r#"{"PartitionKey":"b","RowKey":"1"}"#;
    with_query(client, "POST", &format!("Things?{reader}"), &[], body).fails_with(
        403,
        "AuthorizationPermissionMismatch",
        "This request is not authorized to perform this operation using this permission.",
    );

    // An upsert needs two permissions.
    let put = |letters: &str, headers: &[(&str, &str)]| {
        with_query(
            client,
            "PUT",
            &format!("Things(PartitionKey='b',RowKey='1')?{}", sign(sas(letters))),
            headers,
            "{}",
        )
        .status
    };
    assert_eq!((put("u", &[]), put("a", &[]), put("au", &[])), (403, 403, 204));
    assert_eq!(
        (put("u", &[("If-Match", "*")]), put("a", &[("If-Match", "*")])),
        (204, 403)
    );
    get("Things()", &reader.replace("sp=r", "sp=raud")).fails_with(403, "AuthenticationFailed", "");

    // In a batch each operation must be permitted.
    let send = |letters: &str, requests: &[&str]| {
        let part = |request: &&str| format!("--c\r\nContent-Type: application/http\r\n\r\n{request}\r\n");
        let parts: Vec<String> = requests.iter().map(part).collect();
        let body = format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{}--c--\r\n--b--\r\n",
            parts.concat()
        );
        let headers = [("Content-Type", "multipart/mixed; boundary=b")];
        with_query(
            client,
            "POST",
            &format!("$batch?{}", sign(sas(letters))),
            &headers,
            &body,
        )
        .status
    };
    let insert = "POST Things HTTP/1.1\r\n\r\n{\"PartitionKey\":\"b\",\"RowKey\":\"new\"}";
    let delete = "DELETE Things(PartitionKey='b',RowKey='2') HTTP/1.1\r\nIf-Match: *\r\n\r\n";
    let batch = |letters: &str| send(letters, &[insert, delete]);
    assert_eq!((batch("a"), batch("d"), batch("ad")), (403, 403, 202));
    // A bad body does not tell whether a table exists that the client may not use.
    for table in ["Others", "Absent"] {
        let request = format!("POST {table} HTTP/1.1\r\n\r\n{{}}");
        assert_eq!(send("raud", &[&request]), 403, "{table}");
    }
}

#[test]
fn a_stored_policy_can_be_withdrawn() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let sas = TableSas::new("2019-02-02", "Things")
        .policy("readers")
        .sign(&client.account)
        .unwrap();
    let get = || with_query(client, "GET", &format!("Things()?{}", sas.to_query()), &[], "");
    get().fails_with(403, "AuthenticationFailed", "");
    let set = |document: &str| {
        client
            .send("PUT", "Things?comp=acl", &[], document.as_bytes())
            .expect(204)
    };
    set(
        "<SignedIdentifiers><SignedIdentifier><Id>readers</Id><AccessPolicy><Expiry>2099-01-01</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
    );
    get().expect(200);
    set("");
    get().fails_with(403, "AuthenticationFailed", "");
    // Also if its table does not exist.
    client.send("DELETE", "Tables('Things')", &[], b"").expect(204);
    get().fails_with(403, "AuthenticationFailed", "");
}

#[test]
fn a_policy_of_a_table_is_none_of_another_one_with_its_name() {
    let service = Service::with_table("Things");
    let client = &service.client;
    // Where the event trigger does not run, a stranger makes a table with a policy. Its name differs in case only.
    let superuser = service.database.session("superuser");
    superuser.run(
        "ALTER EVENT TRIGGER table_service_definitions DISABLE;
         CREATE TABLE table_service_data.things OF table_service.entity (PRIMARY KEY (partition_key, row_key));
         INSERT INTO table_service.access_policies
             SELECT 'table_service_data.things', '[{\"Id\": \"readers\", \"Expiry\": \"2099-01-01\", \"Permission\": \"r\"}]'",
    );
    for name in ["Things", "things"] {
        let sas = TableSas::new("2019-02-02", name)
            .policy("readers")
            .sign(&client.account);
        let query = sas.unwrap().to_query();
        for path in ["Things()", "things()"] {
            with_query(client, "GET", &format!("{path}?{query}"), &[], "").fails_with(409, "AmbiguousTableName", "");
        }
        let path = format!("{name}()");
        client
            .send("GET", &path, &[], b"")
            .fails_with(409, "AmbiguousTableName", "");
    }
    superuser.run("DROP TABLE table_service_data.things");
    client.send("GET", "THINGS()", &[], b"").expect(200);
}

#[test]
fn a_request_concerns_no_other_table_than_the_one_with_its_policy() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let superuser = service.database.session("superuser");
    superuser.run(
        r#"SELECT table_service.set_access_policies('Things', '[{"Id": "all", "Expiry": "2099-01-01", "Permission": "raud"}]');
           SELECT table_service.create_table('Others');
           SELECT table_service.insert_entity('Others', 'p', 'r', '{}')"#,
    );
    let sas = TableSas::new("2019-02-02", "Things")
        .policy("all")
        .sign(&client.account);
    let query = sas.unwrap().to_query();
    // Its permission has been looked up when the gateway asks for the body. Another table has the name when the body comes.
    let exchanged = |method: &str, path: &str, content_type: &str, body: &str| {
        let length = body.len().to_string();
        let headers = [
            ("Host", client.host.as_str()),
            ("Content-Type", content_type),
            ("Content-Length", &length),
            ("Expect", "100-continue"),
            ("Accept", "application/json;odata=nometadata"),
        ];
        let mut connection = Connection::open(client.address);
        connection.write(&raw(
            method,
            &format!("{}/{path}?{query}", client.prefix),
            &headers,
            b"",
        ));
        assert!(connection.continues(), "{path}");
        let exchange = |from: &str, to: &str| {
            superuser.run(&format!(
                "BEGIN; ALTER TABLE table_service_data.\"{from}\" RENAME TO between;
                 ALTER TABLE table_service_data.\"{to}\" RENAME TO \"{from}\";
                 ALTER TABLE table_service_data.between RENAME TO \"{to}\"; COMMIT"
            ));
        };
        exchange("Things", "Others");
        connection.write(body.as_bytes());
        let answer = connection.answer().unwrap();
        exchange("Things", "Others");
        answer
    };
    let (json, multipart) = ("application/json", "multipart/mixed; boundary=b");
    let entity = r#"{"PartitionKey":"p","RowKey":"new"}"#;
    let address = "Things(PartitionKey='p',RowKey='r')";
    for (method, path) in [("POST", "Things"), ("PUT", address), ("MERGE", address)] {
        exchanged(method, path, json, entity).fails_with(403, "AuthorizationFailure", "");
    }
    let batch = |request: &str, boundary: &str| match boundary {
        "" => format!("--b\r\nContent-Type: application/http\r\n\r\n{request}\r\n--b--\r\n"),
        _ => format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\n{request}\r\n--c--\r\n--b--\r\n"
        ),
    };
    let written = batch(&format!("POST Things HTTP/1.1\r\n\r\n{entity}"), "c");
    let read = batch(
        &format!("GET {address} HTTP/1.1\r\nAccept: application/json\r\n\r\n"),
        "",
    );
    for body in [written, read] {
        let answer = exchanged("POST", "$batch", multipart, &body);
        assert!(answer.text().contains("AuthorizationFailure"), "{}", answer.text());
    }
    let counts = "SELECT table_service.count_entities('Things') || ' ' || table_service.count_entities('Others')";
    assert_eq!(superuser.text(counts), "0 1");
    // A table that has kept its name is served, also if it has lost it meanwhile.
    with_query(
        client,
        "POST",
        &format!("Things?{query}"),
        &[("Content-Type", json)],
        entity,
    )
    .expect(201);
    for path in ["Things()", "Things(PartitionKey='p',RowKey='new')"] {
        with_query(client, "GET", &format!("{path}?{query}"), &[], "").expect(200);
    }
}

#[test]
fn the_development_account_stays_on_this_machine() {
    let service = Service::start();
    let url = url(service.database.cluster(), service.database.name(), "postgres");
    let arguments = [
        "--listen",
        "0.0.0.0:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--database-url",
        &url,
    ];
    let output = crate::gateway::program(&arguments).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("expose_development_account (--expose-development-account"),
        "{error}"
    );

    // Its key is as public under another name.
    let key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    let other_name = [
        &arguments[..],
        &["--account", "mycompany", "--key", "a2V5", "--key", key],
    ]
    .concat();
    let output = crate::gateway::program(&other_name).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("has that name or that key"),
        "{error}"
    );

    let exposed = Gateway::start_on("0.0.0.0:0", &["--expose-development-account", "--database-url", &url]);
    let mut client = exposed.client();
    client.address.set_ip([127, 0, 0, 1].into());
    client.get("Tables").expect(200);
}

#[test]
fn accounts_do_not_see_each_other() {
    let service = Service::start();
    let other = system_tests::Database::new();
    let file = format!(
        "[[accounts]]\nname = \"one\"\nkeys = [\"a2V5\"]\ndatabase_url = \"{}\"\n[[accounts]]\nname = \"two\"\nkeys = [\"{OTHER_KEY}\"]\ndatabase_url = \"{}\"\n",
        url(service.database.cluster(), service.database.name(), "postgres"),
        url(other.cluster(), other.name(), "postgres"),
    );
    let path = std::env::temp_dir().join(format!("gateway-accounts-{}.toml", std::process::id()));
    std::fs::write(&path, file).unwrap();
    let gateway = Gateway::start(&["--config", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    let client = |name: &str, key: &str| Client {
        account: account(name, key),
        prefix: format!("/{name}"),
        ..gateway.client()
    };
    let (one, two) = (client("one", "a2V5"), client("two", OTHER_KEY));
    one.post("Tables", "{\"TableName\":\"Mine\"}").expect(201);
    assert!(one.get("Tables").expect(200).text().contains("Mine"));
    assert!(!two.get("Tables").expect(200).text().contains("Mine"));
    let stranger = Client {
        prefix: "/one".to_owned(),
        ..two.clone()
    };
    stranger.get("Tables").fails_with(403, "AuthenticationFailed", "");
    gateway
        .client()
        .get("Tables")
        .fails_with(403, "AuthenticationFailed", "");
}

#[test]
fn only_trusted_proxies_tell_who_their_client_is() {
    let sas = |client: &Client| {
        TableSas::new("2019-02-02", "Things")
            .permissions(Permissions::parse("ra").unwrap())
            .expiry(Ticks::parse("2099-01-01T00:00:00Z").unwrap())
            .addresses(AddressRange::parse("203.0.113.7").unwrap())
            .https_only()
            .sign(&client.account)
            .unwrap()
            .to_query()
    };
    let forwarded = [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Proto", "https")];
    let body = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";

    let direct = Service::with_table("Things");
    with_query(
        &direct.client,
        "GET",
        &format!("Things?{}", sas(&direct.client)),
        &forwarded,
        "",
    )
    .fails_with(403, "AuthorizationSourceIPMismatch", "");

    let behind = Service::with(&["--trusted-proxies", "10.0.0.0/8,127.0.0.1"]);
    behind.create_table("Things");
    let client = &behind.client;
    let target = format!("Things?{}", sas(client));
    let inserted = with_query(client, "POST", &target, &forwarded, body).expect(201);
    let location = inserted.header("Location").unwrap();
    assert!(location.starts_with("https://"), "{location}");
    let other = [
        ("X-Forwarded-For", "203.0.113.7, 203.0.113.8"),
        ("X-Forwarded-Proto", "https"),
    ];
    with_query(client, "GET", &target, &other, "").fails_with(
        403,
        "AuthorizationSourceIPMismatch",
        "This request is not authorized to perform this operation using this source IP 203.0.113.8.",
    );
    let plain = [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Proto", "http")];
    with_query(client, "GET", &target, &plain, "").fails_with(403, "AuthorizationProtocolMismatch", "");
}
