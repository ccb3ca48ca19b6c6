//! Failures of the database, and clients that disconnect.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use system_tests::{Cluster, wait_until};

use crate::gateway::{Gateway, Service, program, url};
use raw_http::{Client, Connection};

/// A PostgreSQL server for one test, a database with the extension, and a gateway.
fn own_server() -> (Gateway, Cluster) {
    let cluster = Cluster::start(&[]);
    cluster.session().run("CREATE EXTENSION table_service");
    let gateway = Gateway::start(&["--database-url", &url(&cluster, "postgres", "postgres")]);
    (gateway, cluster)
}

/// Inserts entities from several clients until `stop`. Returns the keys that were acknowledged, and all other statuses.
struct Load {
    stop: AtomicBool,
    acknowledged: Mutex<BTreeSet<String>>,
    count: AtomicUsize,
    others: Mutex<Vec<(u16, String)>>,
}

impl Load {
    fn new() -> Load {
        Load {
            stop: AtomicBool::new(false),
            acknowledged: Mutex::default(),
            count: AtomicUsize::new(0),
            others: Mutex::default(),
        }
    }

    fn run(&self, client: &Client, name: usize) {
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            number += 1;
            let key = format!("{name}-{number}");
            let body = format!(r#"{{"PartitionKey":"p{name}","RowKey":"{key}"}}"#);
            let answer = client.post("Load", &body);
            if answer.status == 201 {
                self.acknowledged.lock().unwrap().insert(key);
                self.count.fetch_add(1, Ordering::Relaxed);
            } else {
                let text = answer.text().to_owned();
                self.others.lock().unwrap().push((answer.status, text));
            }
        }
    }

    /// Waits for that many more entities.
    fn wait_for(&self, more: usize) {
        let target = self.count.load(Ordering::Relaxed) + more;
        wait_until("entities are inserted", || self.count.load(Ordering::Relaxed) >= target);
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_postgresql_is_killed() {
    let (gateway, cluster) = own_server();
    let client = gateway.client();
    client.post("Tables", "{\"TableName\":\"Load\"}").expect(201);
    let load = Load::new();
    std::thread::scope(|scope| {
        for name in 0..4 {
            let (load, client) = (&load, client.clone());
            scope.spawn(move || load.run(&client, name));
        }
        load.wait_for(200);
        for _ in 0..2 {
            cluster.crash();
            // It recovers without being started again.
            load.wait_for(200);
        }
        // All sessions are terminated, as in a switchover.
        let terminate =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'table-service-gateway'";
        cluster.session().run(terminate);
        load.wait_for(200);
        load.stop.store(true, Ordering::Relaxed);
    });
    for (status, text) in load.others.into_inner().unwrap() {
        assert_eq!(status, 503, "{text}");
        assert!(text.contains("ServerBusy"), "{text}");
    }
    let rows = cluster.session().run("SELECT row_key FROM table_service_data.\"Load\"");
    let stored: BTreeSet<String> = rows.into_iter().map(|mut row| row.remove(0).unwrap()).collect();
    let lost: Vec<_> = load
        .acknowledged
        .into_inner()
        .unwrap()
        .difference(&stored)
        .cloned()
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn connections_that_the_server_has_closed_are_not_used() {
    let service = Service::with_table("Things");
    let insert = |row: String| {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        service.client.post("Things", &body).expect(201);
    };
    let session = service.database.session("ends");
    let theirs =
        "FROM pg_stat_activity WHERE application_name = 'table-service-gateway' AND datname = current_database()";
    for round in 0..3 {
        std::thread::scope(|scope| {
            for client in 0..4 {
                let insert = &insert;
                scope.spawn(move || insert(format!("{round}-{client}")));
            }
        });
        session.run(&format!("SELECT pg_terminate_backend(pid) {theirs}"));
        wait_until("they end", || {
            session.value::<i64>(&format!("SELECT count(*) {theirs}"), &[]) == 0
        });
        // A write on a closed connection would be refused, because nobody would know whether it was committed.
        insert(format!("{round}-after"));
    }
}

#[test]
fn a_database_that_is_away_is_waited_for() {
    let database = system_tests::Database::empty();
    let cluster = database.cluster();
    let name = format!("{}_later", database.name());
    let gateway = Gateway::start(&["--database-url", &url(cluster, &name, "postgres")]);
    let client = gateway.client();
    let refused = client.get("Tables");
    refused.fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
    assert_eq!(refused.header("Retry-After"), Some("1"));
    gateway.admin("/live").expect(200);
    let ready = gateway.admin("/ready").expect(503);
    assert!(ready.text().contains("does not exist"), "{}", ready.text());

    let session = cluster.session();
    session.run(&format!("CREATE DATABASE {name}"));
    let ready = gateway.admin("/ready").expect(503);
    assert!(ready.text().contains("lacks the extension"), "{}", ready.text());
    let mut other = database.program("psql", &["-d", &name, "-c", "CREATE EXTENSION table_service"], b"");
    other = other.map(|_| Vec::new());
    assert_eq!(other, Ok(Vec::new()));
    gateway.admin("/ready").expect(200);
    client.get("Tables").expect(200);
    drop(gateway);
    session.run(&format!("DROP DATABASE {name} WITH (FORCE)"));
}

#[test]
fn a_version_of_the_extension_that_the_gateway_does_not_know_is_refused_by_both_names() {
    let service = Service::with_table("Things");
    let superuser = service.database.session("superuser");
    let set = |version: &str| {
        superuser.run(&format!(
            "UPDATE pg_catalog.pg_extension SET extversion = '{version}' WHERE extname = 'table_service'"
        ));
    };
    // Older and newer versions of the same major version work.
    for version in ["0.1.0", "0.99.0"] {
        set(version);
        let ready = service.gateway.admin("/ready").expect(200);
        assert!(
            ready.text().contains(&format!("extension {version}")),
            "{}",
            ready.text()
        );
        service.client.get("Things").expect(200);
    }

    set("1.0.0");
    let names_both = |text: &str| {
        assert!(
            text.contains("version 1.0.0 of the extension")
                && text.contains(&format!("table-service-gateway {}", env!("CARGO_PKG_VERSION"))),
            "{text}"
        );
    };
    names_both(service.gateway.admin("/ready").expect(503).text());
    // New connections are refused; the existing ones were made with another version.
    service.database.session("ends").run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE application_name = 'table-service-gateway' AND datname = current_database()",
    );
    let refused = service.client.get("Things");
    refused.fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
    let url = url(service.database.cluster(), service.database.name(), "postgres");
    let output = program(&["--listen", "127.0.0.1:0", "--database-url", &url])
        .output()
        .unwrap();
    assert!(!output.status.success());
    names_both(&String::from_utf8_lossy(&output.stderr));
    set(env!("CARGO_PKG_VERSION"));
}

/// Locks the table until the session ends.
const LOCK: &str = "BEGIN; LOCK TABLE table_service_data.\"Things\"";

#[test]
fn a_full_pool_refuses_and_stays_ready() {
    let service = Service::with(&["--pool-size", "1", "--pool-timeout", "1"]);
    service.create_table("Things");
    let client = &service.client;
    let blocker = service.database.session("blocker");
    blocker.run(LOCK);
    let mut waiting = Connection::open(client.address);
    waiting.write(&client.request("POST", "Things", &[], br#"{"PartitionKey":"p","RowKey":"r"}"#));
    let in_use = || {
        service
            .gateway
            .metric("table_service_pool_in_use{account=\"devstoreaccount1\"")
    };
    wait_until("the connection is in use", || in_use() == Some(1.0));
    client
        .get("Tables")
        .fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
    let timeouts = service
        .gateway
        .metric("table_service_pool_timeouts_total{account=\"devstoreaccount1\"");
    // The gateway's own work may also have waited.
    assert!(timeouts >= Some(1.0), "{timeouts:?}");
    service.gateway.admin("/ready").expect(200);
    blocker.run("ROLLBACK");
    waiting.answer().unwrap().expect(201);
    client.get("Tables").expect(200);
    wait_until("the connection is free", || in_use() == Some(0.0));
}

#[test]
fn reads_at_once_keep_their_answers_and_errors_apart() {
    let service = Service::with_table("Things");
    for row in 0..10 {
        service.insert(
            "Things",
            &format!(r#"{{"PartitionKey":"p","RowKey":"{row}","N":{row}}}"#),
        );
    }
    let client = &service.client;
    std::thread::scope(|scope| {
        for thread in 0..24 {
            scope.spawn(move || {
                let client = client.clone();
                for number in 0..100 {
                    let row = (thread + number) % 12;
                    let got = client.get(&format!("Things(PartitionKey='p',RowKey='{row}')"));
                    if row < 10 {
                        assert_eq!(got.expect(200).json()["N"], row);
                    } else {
                        got.fails_with(404, "ResourceNotFound", "The specified resource does not exist.");
                    }
                    if number % 10 == 0 {
                        let absent = client.get("Absent(PartitionKey='p',RowKey='1')");
                        absent.fails_with(404, "TableNotFound", "The table specified does not exist.");
                    }
                }
            });
        }
    });
}

#[test]
fn a_read_that_waits_for_a_lock_holds_up_no_other() {
    let service = Service::with_table("Things");
    service.create_table("Others");
    service.insert("Others", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    let client = &service.client;
    let blocker = service.database.session("blocker");
    blocker.run(LOCK);
    let in_use = || {
        service
            .gateway
            .metric("table_service_pool_in_use{account=\"devstoreaccount1\"")
    };
    let mut waiting = Vec::new();
    for count in 1..=3 {
        let mut connection = Connection::open(client.address);
        connection.write(&client.request("GET", "Things(PartitionKey='p',RowKey='r')", &[], b""));
        waiting.push(connection);
        wait_until("it waits for the lock", || in_use() == Some(f64::from(count)));
    }
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let client = client.clone();
                for _ in 0..50 {
                    client.get("Others(PartitionKey='p',RowKey='r')").expect(200);
                }
            });
        }
    });
    // A group of reads may have its connection for a moment yet.
    wait_until("only they have connections", || in_use() == Some(3.0));
    blocker.run("ROLLBACK");
    for mut connection in waiting {
        connection.answer().unwrap().expect(404);
    }
}

#[test]
fn reads_of_a_table_that_is_locked_are_in_no_group_with_others() {
    // No time limit ends the requests that wait for the lock.
    let service = Service::with(&["--statement-timeout", "600", "--pool-size", "32"]);
    service.create_table("Things");
    service.create_table("Others");
    service.insert("Others", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    let client = &service.client;
    let blocker = service.database.session("blocker");
    blocker.run(LOCK);
    let waiting: Mutex<Vec<Connection>> = Mutex::default();
    let answered = AtomicUsize::new(0);
    let (threads, reads) = (24, 60);
    let locked = threads / 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (waiting, answered) = (&waiting, &answered);
            scope.spawn(move || {
                for number in 0..reads {
                    // Reads that wait for the lock come among the others.
                    if number == 20 + thread && thread < locked {
                        let mut connection = Connection::open(client.address);
                        connection.write(&client.request("GET", "Things(PartitionKey='p',RowKey='r')", &[], b""));
                        waiting.lock().unwrap().push(connection);
                    }
                    client.get("Others(PartitionKey='p',RowKey='r')").expect(200);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_until("all others are answered", || {
            answered.load(Ordering::Relaxed) == threads * reads
        });
    });
    // The others have given their connections back.
    wait_until("only reads that wait for the lock have a connection", || {
        let in_use = "table_service_pool_in_use{account=\"devstoreaccount1\"";
        service.gateway.metric(in_use).unwrap() <= locked as f64
    });
    blocker.run("ROLLBACK");
    for mut connection in waiting.into_inner().unwrap() {
        connection.answer().unwrap().expect(404);
    }
}

#[test]
fn what_takes_too_long_is_ended() {
    let service = Service::with(&["--statement-timeout", "1"]);
    let client = &service.client;
    let blocker = service.database.session("blocker");
    blocker.run("SELECT table_service.create_table('Things')");
    blocker.run(LOCK);
    let late = "The operation could not be completed within the permitted time.";
    client.get("Things()").fails_with(500, "OperationTimedOut", late);
    let patient = Gateway::start(&[
        "--database-url",
        &url(service.database.cluster(), service.database.name(), "postgres"),
    ]);
    patient
        .client()
        .get("Things()?timeout=1")
        .fails_with(500, "OperationTimedOut", late);
    // Nothing of it is left running.
    let running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'table-service-gateway' AND state = 'active' AND datname = current_database()";
    let watcher = service.database.session("watcher");
    wait_until("the statements end", || watcher.value::<i64>(running, &[]) == 0);
    blocker.run("ROLLBACK");
    // A new connection may take more than a second.
    wait_until("it is served again", || client.get("Things()").status == 200);
    patient.client().get("Things()").expect(200);
}

#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    let service = Service::with(&["--pool-size", "2"]);
    service.create_table("Things");
    let client = &service.client;
    let blocker = service.database.session("blocker");
    blocker.run(LOCK);
    let gauge = |name: &str| service.gateway.metric(name);
    let in_use = "table_service_pool_in_use{account=\"devstoreaccount1\"";
    for row in 0..2 {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        let mut connection = Connection::open(client.address);
        connection.write(&client.request("POST", "Things", &[], body.as_bytes()));
        wait_until("it is being executed", || gauge(in_use) == Some(f64::from(row + 1)));
        drop(connection);
    }
    wait_until("the gateway notices", || {
        gauge("table_service_connections ") == Some(0.0)
    });
    blocker.run("ROLLBACK");
    // The accepted requests are finished, and the connections are free again.
    wait_until("they are free", || {
        gauge(in_use) == Some(0.0) && gauge("table_service_active_requests ") == Some(0.0)
    });
    let things = client.get("Things()").expect(200).json();
    assert_eq!(things["value"].as_array().unwrap().len(), 2);
}

#[test]
fn a_deadlock_or_a_lock_that_is_taken_is_tried_again() {
    let service = Service::start();
    service.create_table("Things");
    let role = service.database.role("hasty");
    let admin = service.database.session("admin");
    admin.run(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON table_service_data.\"Things\" TO {role}; ALTER ROLE {role} SET lock_timeout = '2s'"));
    let gateway = Gateway::start(&[
        "--database-url",
        &url(service.database.cluster(), service.database.name(), &role),
    ]);
    let client = gateway.client();
    let blocker = service.database.session("blocker");
    blocker.run(LOCK);
    let mut connection = Connection::open(client.address);
    connection.write(&client.request("POST", "Things", &[], br#"{"PartitionKey":"p","RowKey":"r"}"#));
    gateway.waits_for_log("sent again");
    blocker.run("ROLLBACK");
    connection.answer().unwrap().expect(201);
}

/// Clients do not send a request again if a constraint or a trigger of a user refuses its data.
#[test]
fn errors_of_users_constraints_and_triggers_are_no_faults_of_the_server() {
    let service = Service::with_table("Things");
    let admin = service.database.session("admin");
    admin.run("SET search_path = public, table_service");
    let entity = r#"{"PartitionKey":"p","RowKey":"r","Size":1}"#;
    service.insert("Things", entity);
    let write = |body: &str| {
        service
            .client
            .send("PUT", "Things(PartitionKey='p',RowKey='r')", &[], body.as_bytes())
    };
    let insert = |body: &str| service.client.post("Things", body);

    admin.run(
        "ALTER TABLE table_service_data.\"Things\" ADD CONSTRAINT small CHECK (get_int32(properties, 'Size') < 10)",
    );
    let message = "new row for relation \"Things\" violates check constraint \"small\"";
    write(r#"{"Size":10}"#).fails_with(400, "InvalidInput", message);
    insert(r#"{"PartitionKey":"p","RowKey":"s","Size":10}"#).fails_with(400, "InvalidInput", message);

    let invalid = [
        "0A000", "21000", "22000", "22012", "23505", "23514", "24000", "25001", "26000", "28000", "2B000", "2D000",
        "34000", "38001", "39004", "3B001", "3D000", "3F000", "42601", "42703", "42804", "42883", "42P01", "42P07",
        "42P17", "44000", "45000", "54000", "54001", "55000", "F0000", "HV000", "P0001", "P0002", "P0004", "UX001",
    ];
    let others = [
        ("23001", 409, "Conflict"),
        ("23503", 409, "Conflict"),
        ("2BP01", 409, "Conflict"),
        ("23502", 400, "PropertiesNeedValue"),
    ];
    for (code, status, name) in invalid
        .map(|code| (code, 400, "InvalidInput"))
        .into_iter()
        .chain(others)
    {
        admin.run(&format!(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 RAISE 'The order “1” is closed: {code}' USING ERRCODE = '{code}', HINT = 'Open it again.'; END $$;
             CREATE OR REPLACE TRIGGER refuse BEFORE INSERT OR UPDATE ON table_service_data.\"Things\"
                 FOR EACH ROW EXECUTE FUNCTION refuse()"
        ));
        let message = format!("The order “1” is closed: {code}");
        for answer in [write(r#"{"Size":2}"#), insert(r#"{"PartitionKey":"p","RowKey":"t"}"#)] {
            let hint = Some("Open it again.").filter(|_| code != "2BP01");
            assert_eq!(answer.header("x-table-service-hint"), hint, "{code}");
            answer.fails_with(status, name, &message);
        }
    }
    admin.run("DROP TRIGGER refuse ON table_service_data.\"Things\"");

    // The service's code and message; the hint names the index.
    admin.run("CREATE UNIQUE INDEX one_size ON table_service_data.\"Things\" ((properties ->> 'Size'))");
    insert(r#"{"PartitionKey":"q","RowKey":"r","Size":2}"#).expect(201);
    let answer = write(r#"{"Size":2}"#);
    let hint = "duplicate key value violates unique constraint \"one_size\"";
    assert_eq!(answer.header("x-table-service-hint"), Some(hint));
    answer.fails_with(409, "EntityAlreadyExists", "The specified entity already exists.");
}

/// Faulty functions, policies and indexes of users, and objects that depend on their tables.
#[test]
fn what_users_have_defined_wrongly_is_no_fault_of_the_server() {
    let service = Service::with_table("Things");
    let admin = service.database.session("admin");
    admin.run("SET search_path = public, table_service");
    let insert = |key: &str| {
        // It does not become shorter when it is compressed.
        let long: String = (0..4000_u64)
            .map(|n| format!("{:04x}", n * n * 40_503 % 65_521))
            .collect();
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{key}\",\"Text\":\"{long}\"}}");
        service.client.post("Things", &body)
    };
    for (body, message) in [
        ("INSERT INTO nothing VALUES (1)", "relation \"nothing\" does not exist"),
        ("PERFORM nothing()", "function nothing() does not exist"),
        ("PERFORM NEW.nothing", "record \"new\" has no field \"nothing\""),
        ("PERFORM 1 / 0", "division by zero"),
        ("PERFORM 'x'::int", "invalid input syntax for type integer: \"x\""),
        ("COMMIT", "invalid transaction termination"),
        (
            "INSERT INTO log VALUES (1), (1)",
            "duplicate key value violates unique constraint \"log_pkey\"",
        ),
    ] {
        admin.run(&format!(
            "CREATE TABLE IF NOT EXISTS log (n int PRIMARY KEY);
             CREATE OR REPLACE FUNCTION wrong() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$;
             CREATE OR REPLACE TRIGGER wrong BEFORE INSERT ON table_service_data.\"Things\" FOR EACH ROW EXECUTE FUNCTION wrong()"
        ));
        insert("a").fails_with(400, "InvalidInput", message);
    }
    admin.run("DROP TRIGGER wrong ON table_service_data.\"Things\"");
    admin.run("CREATE INDEX text ON table_service_data.\"Things\" ((properties ->> 'Text'))");
    insert("a").fails_with(400, "InvalidInput", "index row ");
    admin.run("DROP INDEX table_service_data.text");

    insert("a").expect(201);
    admin.run(
        "CREATE VIEW texts AS SELECT row_key FROM table_service_data.\"Things\";
         CREATE TABLE notes (p text COLLATE \"C\", r text COLLATE \"C\", FOREIGN KEY (p, r) REFERENCES table_service_data.\"Things\");
         INSERT INTO notes VALUES ('p', 'a')",
    );
    let answer = service.client.send(
        "DELETE",
        "Things(PartitionKey='p',RowKey='a')",
        &[("If-Match", "*")],
        b"",
    );
    let message =
        "update or delete on table \"Things\" violates foreign key constraint \"notes_p_r_fkey\" on table \"notes\"";
    answer.fails_with(409, "Conflict", message);
    let answer = service.client.send("DELETE", "Tables('Things')", &[], b"");
    let hint = answer.header("x-table-service-hint").unwrap();
    assert!(
        hint.contains("view texts depends on table") && hint.contains("constraint notes_p_r_fkey"),
        "{hint}"
    );
    let message = "cannot drop table table_service_data.\"Things\" because other objects depend on it";
    answer.fails_with(409, "Conflict", message);
    service.client.get("Things(PartitionKey='p',RowKey='a')").expect(200);
    assert!(!service.gateway.log().contains("InternalError"));
}

/// As a standby does.
#[test]
fn a_server_that_only_reads_is_busy_for_writes() {
    let (gateway, cluster) = own_server();
    let client = gateway.client();
    client.post("Tables", r#"{"TableName":"Things"}"#).expect(201);
    cluster
        .session()
        .run("ALTER DATABASE postgres SET default_transaction_read_only = on");
    let gateway = Gateway::start(&["--database-url", &url(&cluster, "postgres", "postgres")]);
    let client = gateway.client();
    let message = "The server is currently unable to receive requests. Please retry your request.";
    client
        .post("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#)
        .fails_with(503, "ServerBusy", message);
    client.get("Things()").expect(200);
}
