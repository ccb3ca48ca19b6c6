//! Tables, URL styles, endpoints, headers (semantics 3, 4.1 to 4.3, 4.9 to 4.11).

use raw_http::ACCOUNT;
use table_service_model::Ticks;
use table_service_model::access::{Permissions, TableSas};

use crate::access::with_query;
use crate::gateway::Service;

#[test]
fn a_table_is_created_as_the_client_prefers() {
    let service = Service::start();
    let base = format!("http://{}/{ACCOUNT}", service.client.host);
    let create = |name: &str, headers: &[(&str, &str)]| {
        let mut all = vec![("Content-Type", "application/json")];
        all.extend(headers);
        let body = format!("{{\"TableName\":\"{name}\"}}");
        service.client.send("POST", "Tables", &all, body.as_bytes())
    };

    let answer = create("First", &[("Accept", "application/json;odata=fullmetadata")]).expect(201);
    assert_eq!(
        answer.text(),
        format!(
            "{{\"odata.metadata\":\"{base}/$metadata#Tables/@Element\",\"odata.type\":\"{ACCOUNT}.Tables\",\
             \"odata.id\":\"{base}/Tables('First')\",\"odata.editLink\":\"Tables('First')\",\"TableName\":\"First\"}}"
        )
    );
    assert_eq!(
        answer.header("Location"),
        Some(format!("{base}/Tables('First')").as_str())
    );
    assert_eq!(answer.header("Preference-Applied"), None);

    let answer = create("Second", &[("Prefer", "return-no-content")]).expect(204);
    assert_eq!(answer.header("Preference-Applied"), Some("return-no-content"));
    assert_eq!(answer.header("DataServiceId"), answer.header("Location"));
    assert_eq!(answer.header("Content-Length").unwrap_or("0"), "0");

    let answer = create(
        "Third",
        &[
            ("Prefer", "return-content"),
            ("Accept", "application/json;odata=nometadata"),
        ],
    );
    assert_eq!(answer.clone().expect(201).text(), "{\"TableName\":\"Third\"}");
    assert_eq!(answer.header("Preference-Applied"), Some("return-content"));

    let again = create("FIRST", &[("Prefer", "return-no-content")]);
    again.fails_with(409, "TableAlreadyExists", "The table specified already exists.");
    assert_eq!(again.header("Preference-Applied"), Some("return-no-content"));
    assert_eq!(again.header("Cache-Control"), Some("no-cache"));
    create("1st", &[]).fails_with(
        400,
        "InvalidResourceName",
        "The specifed resource name contains invalid characters.",
    );
    create("ab", &[]).fails_with(
        400,
        "OutOfRangeInput",
        "The specified resource name length is not within",
    );
    create("tables", &[]).fails_with(400, "InvalidInput", "One of the request inputs is not valid.");
    let client = &service.client;
    client.post("Tables", "{}").fails_with(400, "PropertiesNeedValue", "");
    client
        .post("Tables", "{")
        .fails_with(400, "InvalidInput", "An error occurred while processing this request.");
}

#[test]
fn tables_are_listed_by_page_and_deleted() {
    let service = Service::start();
    for name in ["Beta", "alpha", "Gamma"] {
        service.create_table(name);
    }
    let client = &service.client;
    let first = client.get("Tables?$top=2").expect(200);
    assert_eq!(
        first.text(),
        format!(
            "{{\"odata.metadata\":\"http://{}/{ACCOUNT}/$metadata#Tables\",\"value\":[{{\"TableName\":\"alpha\"}},{{\"TableName\":\"Beta\"}}]}}",
            client.host
        )
    );
    let token = first.header("x-ms-continuation-NextTableName").unwrap();
    assert_eq!(token, "1!8!Z2FtbWE-");
    let second = client.get(&format!("Tables?$top=2&NextTableName={token}")).expect(200);
    assert_eq!(second.json()["value"][0]["TableName"], "Gamma");
    assert_eq!(second.header("x-ms-continuation-NextTableName"), None);
    let filtered = client
        .get("Tables()?$filter=TableName%20ge%20'B'%20and%20TableName%20lt%20'c'")
        .expect(200);
    assert_eq!(filtered.json()["value"].as_array().unwrap().len(), 1);

    client
        .get("Tables?$top=-1")
        .fails_with(400, "InvalidInput", "One of the request inputs is not valid.");
    client.get("Tables?NextTableName=x").fails_with(400, "InvalidInput", "");
    client.get("Tables?$filter=name%20eq%20'x'").fails_with(
        500,
        "InternalError",
        "Server encountered an internal error",
    );
    assert_eq!(client.get("Tables('ALPHA')").expect(200).json()["TableName"], "alpha");

    client.send("DELETE", "Tables('ALPHA')", &[], b"").expect(204);
    client.send("DELETE", "Tables('alpha')", &[], b"").fails_with(
        404,
        "ResourceNotFound",
        "The specified resource does not exist.",
    );
    client
        .send("DELETE", "Tables('a-b')", &[], b"")
        .fails_with(404, "ResourceNotFound", "");
}

#[test]
fn every_answer_has_the_services_headers() {
    let service = Service::start();
    let answer = service.client.send(
        "GET",
        "Tables",
        &[("x-ms-client-request-id", "mine"), ("x-ms-version", "2017-07-29")],
        b"",
    );
    let answer = answer.expect(200);
    for (name, value) in [
        ("Server", "Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0"),
        ("x-ms-version", "2017-07-29"),
        ("x-ms-client-request-id", "mine"),
        ("Cache-Control", "no-cache"),
        ("X-Content-Type-Options", "nosniff"),
        (
            "Content-Type",
            "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
        ),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert_eq!(answer.header("x-ms-request-id").unwrap().len(), 36);
    assert!(answer.header("Date").unwrap().ends_with("GMT"));
    assert_eq!(answer.header("DataServiceVersion"), None);
}

#[test]
fn both_url_styles_and_the_secondary_endpoint_are_served() {
    let service = Service::with_table("t1t");
    let mut client = service.client.clone();
    client.host = format!("{ACCOUNT}.table.core.windows.net");
    client.prefix = String::new();
    let answer = client
        .get("Tables?$format=application/json;odata=fullmetadata")
        .expect(200);
    assert_eq!(
        answer.json()["value"][0]["odata.id"],
        format!("http://{ACCOUNT}.table.core.windows.net/Tables('t1t')")
    );

    for (host, prefix) in [
        (format!("{ACCOUNT}-secondary.table.core.windows.net"), String::new()),
        (service.client.host.clone(), format!("/{ACCOUNT}-secondary")),
    ] {
        client.host = host;
        client.prefix = prefix;
        client.get("t1t()").expect(200);
        client
            .post("t1t", "{\"PartitionKey\":\"\",\"RowKey\":\"\"}")
            .fails_with(
                403,
                "InsufficientAccountPermissions",
                "Write operations are not allowed.",
            );
        let stats = client.get("?restype=service&comp=stats").expect(200);
        assert!(
            stats.text().contains("<Status>live</Status><LastSyncTime>"),
            "{}",
            stats.text()
        );
    }
    let primary = service.client.get("?restype=service&comp=stats").expect(400);
    assert_eq!(primary.header("x-ms-error-code"), Some("InvalidQueryParameterValue"));
}

#[test]
fn verbs_and_paths_that_mean_nothing_are_refused() {
    let service = Service::with_table("t1t");
    let client = &service.client;
    let send = |method: &str, target: &str| client.send(method, target, &[("Accept", "application/json")], b"");
    send("PUT", "Tables").fails_with(
        405,
        "UnsupportedHttpVerb",
        "The resource doesn't support the specified HTTP verb.",
    );
    send("TRACE", "t1t").fails_with(405, "UnsupportedHttpVerb", "");
    send("GET", "a/b").fails_with(
        400,
        "InvalidUri",
        "The requested URI does not represent any resource on the server.",
    );
    send("DELETE", "t1t/Tables('x')").fails_with(400, "InvalidInput", "The number of keys specified in the URI");
    send("GET", "t1t(PartitionKey='a',RowKey='b'").fails_with(
        400,
        "InvalidInput",
        "Bad Request - Error in query syntax.",
    );
    send("GET", "t1t?$orderby=x").fails_with(501, "NotImplemented", "The requested operation is not implemented");
    let bad_version = client.send("GET", "Tables", &[("x-ms-version", "x")], b"");
    bad_version.fails_with(
        400,
        "InvalidHeaderValue",
        "The value for one of the HTTP headers is not in the correct format.",
    );
    let merge = client.send("PUT", "Tables", &[("X-HTTP-Method", "MERGE")], b"");
    merge.fails_with(
        400,
        "XMethodNotUsingPost",
        "The request uses X-HTTP-Method with an HTTP verb other than POST.",
    );
    client
        .send("GET", "Tables", &[("Accept", "text/csv")], b"")
        .fails_with(415, "MediaTypeNotSupported", "None of");
    client
        .send("POST", "t1t", &[("Content-Type", "text/plain")], b"{}")
        .fails_with(415, "MediaTypeNotSupported", "");
}

#[test]
fn access_policies_are_xml() {
    let service = Service::with_table("t1t");
    let client = &service.client;
    let acl = "t1t?comp=acl";
    let empty = client.get(acl).expect(200);
    assert_eq!(empty.header("Content-Type"), Some("application/xml"));
    assert_eq!(empty.header("Cache-Control"), None);
    assert!(empty.text().starts_with("\u{FEFF}<?xml") && empty.text().ends_with("<SignedIdentifiers />"));

    let document = "<SignedIdentifiers><SignedIdentifier><Id>one</Id><AccessPolicy><Expiry>2031-01-01</Expiry>\
                    <Permission>raud</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    let set = client
        .send("PUT", acl, &[("Content-Type", "application/xml")], document.as_bytes())
        .expect(204);
    assert_eq!(set.header("Cache-Control"), None);
    let stored = client.get(acl).expect(200);
    assert!(
        stored
            .text()
            .contains("<Expiry>2031-01-01T00:00:00.0000000Z</Expiry><Permission>raud</Permission>")
    );
    client.send("PUT", acl, &[], b"").expect(204);
    assert!(client.get(acl).expect(200).text().ends_with("<SignedIdentifiers />"));

    let error = client.send("PUT", acl, &[], b"<SignedIdentifiers>").expect(400);
    assert_eq!(error.header("x-ms-error-code"), Some("InvalidXmlDocument"));
    assert_eq!(error.header("Content-Type"), Some("application/xml"));
    let absent = client.get("absent?comp=acl").expect(404);
    assert_eq!(absent.reason, "The table specified does not exist.");
    assert_eq!(absent.header("x-ms-error-code"), Some("TableNotFound"));
    assert!(
        absent.text().contains("<m:code>TableNotFound</m:code>"),
        "{}",
        absent.text()
    );
}

#[test]
fn service_properties_and_what_they_allow_to_web_pages() {
    let service = Service::with_table("t1t");
    let client = &service.client;
    let url = "?restype=service&comp=properties";
    let defaults = client.get(url).expect(200);
    assert!(defaults.text().contains("<Cors />"), "{}", defaults.text());
    let preflight = |origin: &str, method: &str, headers: &str| {
        let mut request = format!("OPTIONS {}/t1t HTTP/1.1\r\nHost: {}\r\n", client.prefix, client.host);
        request.push_str(&format!(
            "Origin: {origin}\r\nAccess-Control-Request-Method: {method}\r\n"
        ));
        request.push_str(&format!("Access-Control-Request-Headers: {headers}\r\n\r\n"));
        client.exchange(request.as_bytes())
    };
    preflight("http://page", "GET", "x-ms-date").fails_with(403, "CorsPreflightFailure", "CORS not enabled");

    let document = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://page</AllowedOrigins>\
        <AllowedMethods>GET,PUT</AllowedMethods><MaxAgeInSeconds>7</MaxAgeInSeconds><ExposedHeaders>x-ms-request-*</ExposedHeaders>\
        <AllowedHeaders>x-ms-*</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>";
    let set = client
        .send("PUT", url, &[("Content-Type", "application/xml")], document.as_bytes())
        .expect(202);
    assert_eq!((set.header("Cache-Control"), set.body.len()), (None, 0));
    assert!(
        client
            .get(url)
            .expect(200)
            .text()
            .contains("<MaxAgeInSeconds>7</MaxAgeInSeconds>")
    );

    let allowed = preflight("http://page", "GET", "x-ms-date,x-ms-version").expect(200);
    assert_eq!(allowed.header("Access-Control-Allow-Origin"), Some("http://page"));
    assert_eq!(allowed.header("Access-Control-Max-Age"), Some("7"));
    assert_eq!(
        allowed.header("Access-Control-Allow-Headers"),
        Some("x-ms-date,x-ms-version")
    );
    preflight("http://other", "GET", "x-ms-date").expect(403);
    preflight("http://page", "DELETE", "x-ms-date").expect(403);
    preflight("http://page", "GET", "cookie").expect(403);

    let actual = client.send("GET", "t1t", &[("Origin", "http://page")], b"").expect(200);
    assert_eq!(actual.header("Access-Control-Allow-Origin"), Some("http://page"));
    assert_eq!(actual.header("Access-Control-Expose-Headers"), Some("x-ms-request-id"));
    assert_eq!(actual.header("Vary"), Some("Origin"));
    let failed = client
        .send("GET", "absent", &[("Origin", "http://page")], b"")
        .expect(404);
    assert_eq!(failed.header("Access-Control-Allow-Origin"), Some("http://page"));
    let other = client
        .send("GET", "t1t", &[("Origin", "http://other")], b"")
        .expect(200);
    assert_eq!(other.header("Access-Control-Allow-Origin"), None);
    // Also without a matching origin, caches learn that responses differ by origin.
    assert_eq!(other.header("Vary"), Some("Origin"));
    assert_eq!(client.get("t1t").expect(200).header("Vary"), Some("Origin"));
    let everybody = document.replace("http://page", "*");
    client.send("PUT", url, &[], everybody.as_bytes()).expect(202);
    let actual = client.send("GET", "t1t", &[("Origin", "http://page")], b"").expect(200);
    assert_eq!(actual.header("Access-Control-Allow-Origin"), Some("*"));
    assert_eq!(actual.header("Vary"), None);
    // Pages may read all headers that match, also those that every answer has.
    let exposing = document.replace("x-ms-request-*", "*");
    client.send("PUT", url, &[], exposing.as_bytes()).expect(202);
    let actual = client.send(
        "GET",
        "t1t",
        &[("Origin", "http://page"), ("x-ms-client-request-id", "7")],
        b"",
    );
    let exposed: Vec<&str> = actual
        .header("Access-Control-Expose-Headers")
        .unwrap()
        .split(',')
        .collect();
    let all = actual.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
    for name in all.filter(|name| !name.starts_with("access-control-")) {
        assert!(exposed.contains(&name.as_str()), "{name} is not in {exposed:?}");
    }
    let none = "<StorageServiceProperties><Cors/></StorageServiceProperties>";
    client.send("PUT", url, &[], none.as_bytes()).expect(202);
    assert_eq!(client.get("t1t").expect(200).header("Vary"), None);

    client.send("PUT", url, &[], b"<StorageServiceProperties/>").expect(400);
    let on_a_table = client.get(&format!("t1t{url}")).expect(400);
    assert_eq!(on_a_table.header("x-ms-error-code"), Some("InvalidQueryParameterValue"));
}

#[test]
fn tables_have_no_versions_to_ask_for() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let refusal = "If-Match or If-None-Match headers cannot be specified if the target type does not have etag properties defined.";
    for header in [("If-Match", "*"), ("If-None-Match", "*"), ("If-Match", "W/\"x\"")] {
        let headers = [("Content-Type", "application/json"), header];
        client
            .send("POST", "Tables", &headers, b"{\"TableName\":\"Others\"}")
            .fails_with(400, "InvalidInput", refusal);
    }
    for header in [("If-None-Match", "*"), ("If-Match", "W/\"x\"")] {
        client
            .send("DELETE", "Tables('Things')", &[header], b"")
            .fails_with(400, "InvalidInput", refusal);
    }
    // Some SDKs send this with every DELETE.
    client
        .send("DELETE", "Tables('Things')", &[("If-Match", "*")], b"")
        .expect(204);
}

#[test]
fn an_error_is_in_the_form_that_the_client_reads() {
    let service = Service::start();
    let client = &service.client;
    let atom = client
        .send("GET", "Tables", &[("Accept", "application/atom+xml")], b"")
        .expect(415);
    assert_eq!(atom.header("Content-Type"), Some("application/xml"));
    assert_eq!(atom.header("x-ms-error-code"), Some("AtomFormatNotSupported"));
    assert_eq!(atom.reason, "Atom format is not supported.");
    // Also if the request is refused before its other headers are read.
    let policies = client
        .send("GET", "t1t?comp=acl", &[("x-ms-version", "latest")], b"")
        .expect(400);
    assert_eq!(policies.header("x-ms-error-code"), Some("InvalidHeaderValue"));
    assert!(
        policies.text().contains("<m:code>InvalidHeaderValue</m:code>"),
        "{}",
        policies.text()
    );
    // An invalid version is not returned.
    assert_eq!(policies.header("x-ms-version"), Some("2019-02-02"));
    client
        .send("GET", "Tables", &[("Accept", "application/xml")], b"")
        .fails_with(
            415,
            "MediaTypeNotSupported",
            "None of the provided media types are supported",
        );
}

#[test]
fn the_nearest_name_is_for_clients_that_may_list_tables() {
    let service = Service::with_table("Employees");
    let client = &service.client;
    let of = |answer: raw_http::Answer| {
        assert_eq!(answer.status, 404, "{}", answer.text());
        answer.header("x-table-service-hint").map(str::to_owned)
    };
    let hint = Some("There is no table \"Employes\". The nearest name is \"Employees\".".to_owned());
    assert_eq!(of(client.get("Employes")), hint);
    assert_eq!(
        of(client.post("Employes", r#"{"PartitionKey":"p","RowKey":"r"}"#)),
        hint
    );
    assert_eq!(of(client.send("DELETE", "Tables('Employes')", &[], b"")), hint);
    // A client that may use one table does not learn the names of others.
    let of_table = TableSas::new("2019-02-02", "employes")
        .permissions(Permissions::parse("r").unwrap())
        .expiry(Ticks::parse("2099-01-01").unwrap())
        .sign(&client.account)
        .unwrap()
        .to_query();
    assert_eq!(
        of(with_query(client, "GET", &format!("Employes?{of_table}"), &[], "")),
        None
    );
}
