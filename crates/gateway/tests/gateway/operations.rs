//! Start, admin port, shutdown, TLS.

use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use system_tests::tls::Certificate;
use system_tests::{Database, wait_until};
use time::OffsetDateTime;

use crate::gateway::{Gateway, Service, program, url};
use crate::tokens;
use raw_http::{Connection, raw};

#[test]
fn a_database_without_the_extension_is_an_error_that_says_what_to_do() {
    let database = Database::empty();
    let url = url(database.cluster(), database.name(), "postgres");
    let output = program(&["--listen", "127.0.0.1:0", "--database-url", &url])
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(error.contains("run CREATE EXTENSION table_service in it"), "{error}");
}

#[test]
fn errors_at_the_start_name_the_setting() {
    let service = Service::start();
    let taken = service.gateway.address.to_string();
    let url = url(service.database.cluster(), service.database.name(), "postgres");
    let directory = std::env::temp_dir().join(format!("gateway-settings-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let own = Certificate::new(&directory, "own");
    for (arguments, expected) in [
        (vec![], "database_url (--database-url, TABLE_SERVICE_DATABASE_URL"),
        (vec!["--database-url", &url, "--listen", &taken], "listen (--listen"),
        (
            vec![
                "--database-url",
                &url,
                "--listen",
                "127.0.0.1:0",
                "--admin-listen",
                &taken,
            ],
            "admin_listen (--admin-listen",
        ),
        (
            vec![
                "--database-url",
                &url,
                "--tls-certificate",
                "/none",
                "--tls-key",
                "/none",
            ],
            "tls_certificate (--tls-certificate",
        ),
        (
            vec![
                "--database-url",
                &url,
                "--tls-certificate",
                &own.certificate,
                "--tls-key",
                &own.certificate,
            ],
            "own.pem: it has no private key",
        ),
        (vec!["--database-url", &url, "--log", "a=b=c"], "log (--log"),
    ] {
        let output = program(&arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && error.contains(expected),
            "{arguments:?}: {error}"
        );
    }
    std::fs::remove_dir_all(&directory).unwrap();
    let mut from_environment = program(&["--listen", "127.0.0.1:0"]);
    from_environment
        .env("TABLE_SERVICE_DATABASE_URL", &url)
        .env("TABLE_SERVICE_POOL_SIZE", "none");
    let output = from_environment.output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("--pool-size"));
}

#[test]
fn the_admin_port_tells_what_happens() {
    let service = Service::with_table("Things");
    let gateway = &service.gateway;
    assert_eq!(gateway.admin("/live").expect(200).text(), "live\n");
    assert!(
        gateway
            .admin("/ready")
            .expect(200)
            .text()
            .starts_with("devstoreaccount1: ready, extension ")
    );
    gateway.admin("/other").expect(404);
    for _ in 0..20 {
        service.client.get("Things(PartitionKey='hot',RowKey='r')").expect(404);
    }
    service.insert("Things", r#"{"PartitionKey":"cold","RowKey":"r"}"#);
    for _ in 0..20 {
        let filter = "PartitionKey%20eq%20'queried'%20and%20Size%20gt%203";
        service.client.get(&format!("Things()?$filter={filter}")).expect(200);
    }
    service
        .client
        .get("Things()?$filter=PartitionKey%20eq%20'one'%20or%20PartitionKey%20eq%20'two'")
        .expect(200);
    for (metric, least) in [
        (
            "table_service_requests_total{operation=\"GetEntity\",status=\"404\",code=\"ResourceNotFound\"}",
            20.0,
        ),
        (
            "table_service_requests_total{operation=\"InsertEntity\",status=\"201\",code=\"\"}",
            1.0,
        ),
        (
            "table_service_request_duration_seconds_count{operation=\"GetEntity\"}",
            20.0,
        ),
        ("table_service_pool_size{account=\"devstoreaccount1\"", 16.0),
        ("table_service_received_bytes_total", 30.0),
        (
            "table_service_table_requests_total{account=\"devstoreaccount1\",table=\"Things\"}",
            42.0,
        ),
        (
            "table_service_hot_partition_requests{account=\"devstoreaccount1\",table=\"Things\",partition=\"hot\"}",
            // On a slow machine the counts are halved in between.
            5.0,
        ),
        (
            "table_service_hot_partition_requests{account=\"devstoreaccount1\",table=\"Things\",partition=\"queried\"}",
            5.0,
        ),
        (
            "table_service_hot_partition_requests{account=\"devstoreaccount1\",table=\"Things\",partition=\"cold\"}",
            1.0,
        ),
    ] {
        let value = gateway.metric(metric);
        assert!(value.is_some_and(|value| value >= least), "{metric}: {value:?}");
    }
    // Queries of several partitions count for none.
    assert!(!gateway.admin("/metrics").text().contains("partition=\"one\""));
    // Requests without permission do not count.
    let stranger = raw_http::Client {
        account: raw_http::account("devstoreaccount1", "d3Jvbmc="),
        ..service.client.clone()
    };
    stranger.get("Things(PartitionKey='strange',RowKey='r')").expect(403);
    assert!(!gateway.admin("/metrics").text().contains("strange"));
    // The port for clients does not have it.
    let outside = service.client.exchange(&raw("GET", "/metrics", &[("Host", "x")], b""));
    assert_eq!(outside.status, 400);
}

#[test]
fn no_client_writes_lines_into_the_metrics() {
    let service = Service::with_table("Things");
    let client = &service.client;
    let metrics = || service.gateway.admin("/metrics").expect(200).text().to_owned();
    // A key that no entity can have.
    client
        .get("Things(PartitionKey='x%22%7D%201%0Aplanted%201%0A',RowKey='r')")
        .expect(400);
    client
        .send("PUT", "Things(PartitionKey='planted%0A',RowKey='r')", &[], b"{}")
        .expect(400);
    client.get("No_table(PartitionKey='planted',RowKey='r')").expect(400);
    assert!(!metrics().contains("planted"), "{}", metrics());
    // A key that an entity can have.
    client.get("Things(PartitionKey='q%22%7D%201',RowKey='r')").expect(404);
    let line =
        r#"table_service_hot_partition_requests{account="devstoreaccount1",table="Things",partition="q\"} 1"} 1"#;
    assert!(metrics().lines().any(|given| given == line), "{}", metrics());
}

#[test]
fn accepted_requests_are_finished_on_shutdown() {
    let mut service = Service::with_table("Things");
    let client = service.client.clone();
    let blocker = service.database.session("blocker");
    blocker.run("BEGIN; LOCK TABLE table_service_data.\"Things\"");
    let mut idle = Connection::open(client.address);
    idle.write(&client.request("GET", "Tables", &[], b""));
    idle.answer().unwrap().expect(200);
    let mut waiting = Connection::open(client.address);
    waiting.write(&client.request("POST", "Things", &[], br#"{"PartitionKey":"p","RowKey":"r"}"#));
    let active = || service.gateway.metric("table_service_active_requests ") == Some(1.0);
    wait_until("it is being executed", active);
    service.gateway.terminate();
    wait_until("nobody is let in any more", || {
        TcpStream::connect(client.address).is_err()
    });
    let ready = service.gateway.admin("/ready").expect(503);
    assert!(ready.text().contains("stopping"), "{}", ready.text());
    assert!(idle.is_closed());
    blocker.run("ROLLBACK");
    waiting.answer().unwrap().expect(201);
    assert!(service.gateway.wait().success());
}

#[test]
fn nothing_secret_is_logged() {
    let service = Service::start();
    let sas = table_service_model::access::TableSas::new("2019-02-02", "Things")
        .policy("x")
        .sign(&service.client.account)
        .unwrap()
        .to_query();
    let signature = sas.split("sig=").nth(1).unwrap();
    service.client.send(
        "GET",
        &format!("Things()?{sas}"),
        &[("Authorization", "SharedKey devstoreaccount1:secret")],
        b"",
    );
    let host = ("Host", service.client.host.as_str());
    service
        .client
        .exchange(&raw("GET", &format!("/devstoreaccount1/Things()?{sas}"), &[host], b""))
        .expect(403);
    wait_until("it is logged", || {
        service.gateway.log().matches("AuthenticationFailed").count() == 2
    });
    let log = service.gateway.log();
    assert!(!log.contains("secret") && !log.contains(signature), "{log}");
}

#[test]
fn it_works_as_an_ordinary_role() {
    let database = Database::new();
    let role = database.role("app");
    database
        .session("admin")
        .run(&format!("GRANT CREATE ON SCHEMA table_service_data TO {role}"));
    let gateway = Gateway::start(&["--database-url", &url(database.cluster(), database.name(), &role)]);
    let client = gateway.client();
    client.post("Tables", "{\"TableName\":\"Mine\"}").expect(201);
    client.post("Mine", r#"{"PartitionKey":"p","RowKey":"r"}"#).expect(201);
    client.send("DELETE", "Tables('Mine')", &[], b"").expect(204);
    database
        .session("admin")
        .run("SELECT table_service.create_table('Theirs')");
    client.get("Theirs()").fails_with(
        403,
        "AuthorizationFailure",
        "This request is not authorized to perform this operation.",
    );
}

#[test]
fn the_database_can_be_reached_over_tcp_with_tls() {
    if !system_tests::Cluster::has_tls() {
        return;
    }
    let directory = std::env::temp_dir().join(format!("gateway-database-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (server, other) = (
        Certificate::new(&directory, "server"),
        Certificate::new(&directory, "other"),
    );
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", server.certificate),
        format!("ssl_key_file={}", server.key),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let cluster = system_tests::Cluster::start_on_tcp(&settings);
    cluster.session().run("CREATE EXTENSION table_service");
    let url = format!(
        "postgresql://postgres@localhost:{}/postgres?sslmode=require",
        cluster.port()
    );
    let gateway = Gateway::start(&["--database-url", &url, "--database-ca", &server.certificate]);
    gateway
        .client()
        .post("Tables", "{\"TableName\":\"Things\"}")
        .expect(201);
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'table-service-gateway'";
    assert!(cluster.session().value::<bool>(encrypted, &[]));

    let deceived = Gateway::start(&["--database-url", &url, "--database-ca", &other.certificate]);
    deceived.client().get("Tables").fails_with(503, "ServerBusy", "");
    assert!(deceived.admin("/ready").expect(503).text().contains("certificate"));
    // The same without TLS.
    let plain = Gateway::start(&["--database-url", &url.replace("?sslmode=require", "")]);
    plain.client().get("Tables").expect(200);
    drop((gateway, deceived, plain, cluster));
    std::fs::remove_dir_all(&directory).unwrap();
}

/// A gateway with HTTPS that accepts the tokens of an issuer.
struct Tls {
    service: Service,
    certificate: Certificate,
    issuer: rcgen::KeyPair,
    directory: std::path::PathBuf,
}

/// The key set of an issuer with one key, with additional members.
fn key_set(issuer: &rcgen::KeyPair, says: &serde_json::Value) -> String {
    use base64::Engine;
    let part = |from: usize| {
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&issuer.public_key_raw()[from..from + 32])
    };
    let mut key = json!({"kty": "EC", "crv": "P-256", "kid": "k1", "x": part(1), "y": part(33)});
    for (name, value) in says.as_object().unwrap() {
        key[name] = value.clone();
    }
    json!({"keys": [key]}).to_string()
}

/// The claims of a token of the issuer, after a change.
fn claims(change: impl FnOnce(&mut serde_json::Value)) -> serde_json::Value {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let mut claims = json!({
        "iss": "https://issuer", "aud": "https://storage.azure.com", "exp": now + 600,
        "roles": ["Storage Table Data Contributor"],
    });
    change(&mut claims);
    claims
}

impl Tls {
    fn start() -> Tls {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("gateway-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = |name: &str, content: &str| {
            let path = directory.join(name);
            std::fs::write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let server = Certificate::new(&directory, "server");
        let issuer = rcgen::KeyPair::generate().unwrap();
        let jwks = key_set(&issuer, &json!({"alg": "ES256"}));
        let jwks = file("jwks.json", &jwks);
        let config = file(
            "gateway.toml",
            &format!(
                "[bearer]\nissuer = \"https://issuer\"\naudiences = [\"https://storage.azure.com\"]\n\
                 authorization_uri = \"https://issuer/authorize\"\njwks_file = \"{jwks}\"\n"
            ),
        );
        let service = Service::with(&[
            "--config",
            &config,
            "--tls-certificate",
            &server.certificate,
            "--tls-key",
            &server.key,
        ]);
        Tls {
            service,
            certificate: server,
            issuer,
            directory,
        }
    }

    fn token(&self, key: &rcgen::KeyPair, change: impl FnOnce(&mut serde_json::Value)) -> String {
        tokens::token(key, &claims(change))
    }

    /// Status and text of an answer over HTTPS.
    fn send(&self, request: &[u8]) -> (u16, String) {
        self.certificate.exchange(self.service.client.address, request)
    }

    fn with_token(&self, method: &str, target: &str, token: &str, body: &str) -> (u16, String) {
        let (length, authorization) = (body.len().to_string(), format!("Bearer {token}"));
        let headers = [
            ("Host", "localhost"),
            ("Connection", "close"),
            ("Content-Length", length.as_str()),
            ("Authorization", &authorization),
        ];
        self.send(&raw(
            method,
            &format!("/devstoreaccount1/{target}"),
            &headers,
            body.as_bytes(),
        ))
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn https_and_bearer_tokens() {
    let tls = Tls::start();
    let client = &tls.service.client;
    let signed = client.request(
        "GET",
        "Tables?$format=application/json;odata=fullmetadata",
        &[("Connection", "close")],
        b"",
    );
    let (status, text) = tls.send(&signed);
    assert_eq!(status, 200, "{text}");
    // The port does not serve plain HTTP.
    let mut plain = Connection::open(client.address);
    plain.write(&signed);
    assert!(plain.answer().is_none_or(|answer| answer.status == 400));

    let contributor = tls.token(&tls.issuer, |_| {});
    let create = |token: &str| tls.with_token("POST", "Tables", token, "{\"TableName\":\"Things\"}");
    let (status, text) = create(&contributor);
    assert_eq!(status, 201, "{text}");
    assert!(
        text.contains("https://localhost/devstoreaccount1/Tables('Things')"),
        "{text}"
    );
    assert_eq!(tls.with_token("GET", "Things?comp=acl", &contributor, "").0, 403);

    let reader = tls.token(&tls.issuer, |claims| {
        claims["roles"] = json!("Storage Table Data Reader")
    });
    assert_eq!(tls.with_token("GET", "Things()", &reader, "").0, 200);
    let (status, text) = tls.with_token("DELETE", "Tables('Things')", &reader, "");
    assert!(
        status == 403 && text.contains("AuthorizationPermissionMismatch"),
        "{text}"
    );

    let stranger = rcgen::KeyPair::generate().unwrap();
    let past = OffsetDateTime::now_utc().unix_timestamp() - 600;
    for token in [
        tls.token(&stranger, |_| {}),
        tokens::with_secret(b"secret", &claims(|_| {})),
        // A server that takes the public key for a shared secret would accept this one.
        tokens::with_secret(tls.issuer.public_key_raw(), &claims(|_| {})),
        tls.token(&tls.issuer, |claims| claims["exp"] = json!(past)),
        tls.token(&tls.issuer, |claims| claims["iss"] = json!("https://other")),
        // The issuer of a token is one text, not a list that has it.
        tls.token(&tls.issuer, |claims| claims["iss"] = json!(["https://issuer"])),
        tls.token(&tls.issuer, |claims| {
            claims["iss"] = json!(["https://other", "https://issuer"])
        }),
        tls.token(&tls.issuer, |claims| claims["aud"] = json!("https://other")),
        tls.token(&tls.issuer, |claims| _ = claims.as_object_mut().unwrap().remove("exp")),
        "x.y.z".to_owned(),
    ] {
        let (status, text) = create(&token);
        assert!(status == 401 && text.contains("NoAuthenticationInformation"), "{text}");
        assert!(text.to_lowercase().contains("www-authenticate: bearer "), "{text}");
    }
    let no_role = tls.token(&tls.issuer, |claims| claims["roles"] = json!([]));
    assert_eq!(tls.with_token("GET", "Tables", &no_role, "").0, 403);

    let headers = [("Host", "localhost"), ("Connection", "close")];
    let (status, text) = tls.send(&raw("GET", "/devstoreaccount1/Tables", &headers, b""));
    assert!(status == 401 && text.contains("NoAuthenticationInformation"), "{text}");
    let challenge =
        "www-authenticate: Bearer authorization_uri=https://issuer/authorize resource_id=https://storage.azure.com\r\n";
    assert!(text.contains(challenge), "{text}");
}

#[test]
fn long_unfinished_handshakes_have_a_memory_budget() {
    let tls = Tls::start();
    // The beginning of a ClientHello of 64,000 bytes, in two records of 16 KiB.
    let mut begin = vec![22, 3, 1, 0x40, 0, 1, 0, 0xfa, 0];
    begin.resize(begin.len() + 16_380, 0);
    begin.extend([22, 3, 1, 0x40, 0]);
    begin.resize(begin.len() + 16_384, 0);
    let all: Vec<Connection> = (0..800)
        .map(|_| {
            let mut connection = Connection::open(tls.service.client.address);
            connection.write(&begin);
            connection
        })
        .collect();
    // An eighth of the default of 512 MiB is enough for 585 of them.
    tls.service.gateway.waits_for_log("there are too many unfinished heads");
    let signed = tls
        .service
        .client
        .request("GET", "Tables", &[("Connection", "close")], b"");
    assert_eq!(tls.send(&signed).0, 200);
    drop(all);
}

#[test]
fn the_keys_of_an_issuer_are_read_again_and_used_for_what_they_say() {
    let tls = Tls::start();
    let file = tls.directory.join("jwks.json");
    let status = |key: &rcgen::KeyPair| {
        let token = tls.token(key, |_| {});
        tls.with_token("GET", "Tables", &token, "").0
    };
    assert_eq!(status(&tls.issuer), 200);
    let next = rcgen::KeyPair::generate().unwrap();
    assert_eq!(status(&next), 401);
    std::fs::write(&file, key_set(&next, &json!({"use": "sig", "key_ops": ["verify"]}))).unwrap();
    wait_until("the new key is known", || status(&next) == 200);
    assert_eq!(status(&tls.issuer), 401);
    // If the file cannot be read, the keys stay as they were.
    std::fs::write(&file, "{").unwrap();
    wait_until("the log says so", || {
        assert_eq!(status(&next), 200);
        tls.service
            .gateway
            .log()
            .contains("the key set of the issuer cannot be read again")
    });
    for says in [
        json!({"alg": "ES384"}),
        json!({"alg": "RSA-OAEP"}),
        json!({"use": "enc"}),
        json!({"key_ops": ["encrypt"]}),
    ] {
        std::fs::write(&file, key_set(&next, &says)).unwrap();
        wait_until("the key is not for this", || status(&next) == 401);
        std::fs::write(&file, key_set(&next, &json!({}))).unwrap();
        wait_until("it is again", || status(&next) == 200);
    }
}

#[test]
fn tokens_belong_to_one_account_and_do_not_tell_which_accounts_exist() {
    let service = Service::start();
    let url = url(service.database.cluster(), service.database.name(), "postgres");
    let issuer = rcgen::KeyPair::generate().unwrap();
    let directory = std::env::temp_dir();
    let path = |name: &str| directory.join(format!("gateway-issuers-{}-{name}", std::process::id()));
    let (jwks, config) = (path("jwks.json"), path("gateway.toml"));
    std::fs::write(&jwks, key_set(&issuer, &json!({}))).unwrap();
    let account =
        |name: &str| format!("[[accounts]]\nname = \"{name}\"\nkeys = [\"a2V5\"]\ndatabase_url = \"{url}\"\n");
    let bearer = |name: &str| {
        format!(
            "[accounts.bearer]\nissuer = \"https://{name}\"\naudiences = [\"https://tables\"]\njwks_file = \"{}\"\n",
            jwks.display()
        )
    };
    let accounts = [
        account("one"),
        bearer("one"),
        account("two"),
        bearer("two"),
        account("three"),
    ];
    std::fs::write(&config, accounts.concat()).unwrap();
    // A trusted proxy says that the client came over HTTPS.
    let gateway = Gateway::start(&["--config", config.to_str().unwrap(), "--trusted-proxies", "127.0.0.1"]);
    for file in [&jwks, &config] {
        std::fs::remove_file(file).unwrap();
    }

    let token = |name: &str| {
        let claims = json!({
            "iss": format!("https://{name}"), "aud": "https://tables",
            "exp": OffsetDateTime::now_utc().unix_timestamp() + 600, "roles": ["Storage Table Data Contributor"],
        });
        format!("Bearer {}", tokens::token(&issuer, &claims))
    };
    let client = gateway.client();
    let answer = |account: &str, authorization: &str, protocol: &str, query: &str| {
        let mut headers = vec![("Host", "localhost"), ("X-Forwarded-Proto", protocol)];
        if !authorization.is_empty() {
            headers.push(("Authorization", authorization));
        }
        client.exchange(&raw("GET", &format!("/{account}/Tables{query}"), &headers, b""))
    };
    let (one, two) = (token("one"), token("two"));
    answer("one", &one, "https", "").expect(200);
    answer("two", &two, "https", "").expect(200);
    // Each account has the same keys and the same audience as the other; only the issuer tells their tokens apart.
    answer("one", &two, "https", "").fails_with(401, "NoAuthenticationInformation", "");
    answer("two", &one, "https", "").fails_with(401, "NoAuthenticationInformation", "");

    let attempts = [
        (401, "", "https", ""),
        (401, "", "http", ""),
        (401, "Bearer x.y.z", "https", ""),
        (403, "Bearer x.y.z", "http", ""),
        (403, "SharedKey one:a2V5", "https", ""),
        (403, "", "https", "?sv=2019-02-02&tn=Things&sp=r&se=2099-01-01&sig=a2V5"),
    ];
    for (status, authorization, protocol, query) in attempts {
        // The second one accepts no tokens, the others are not there.
        for account in ["one", "three", "four", "five", "six"] {
            let answer = answer(account, authorization, protocol, query).expect(status);
            let challenge = answer.header("WWW-Authenticate");
            let (is_challenged, of) = (status == 401, |name: &str| {
                challenge
                    == Some(&format!(
                        "Bearer authorization_uri=https://{name} resource_id=https://tables"
                    ))
            });
            assert_eq!(of("one") || of("two"), is_challenged, "{account}: {answer:?}");
            if account == "one" {
                assert_eq!(of("one"), is_challenged, "{answer:?}");
            }
        }
    }
}
