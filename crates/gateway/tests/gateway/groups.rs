//! Writes of several requests that share a transaction: each keeps its own outcome.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use raw_http::{Answer, Client, Connection};
use serde_json::{Value, json};
use system_tests::{Cluster, Session, wait_until};
use table_service_model::access::TableSas;

use crate::access::with_query;
use crate::gateway::{Gateway, Service, url};

const CLIENTS: usize = 24;

fn address(row: &str) -> String {
    format!("Things(PartitionKey='p{}',RowKey='{row}')", row.len())
}

fn entity(row: &str, value: &Value) -> String {
    json!({"PartitionKey": format!("p{}", row.len()), "RowKey": row, "V": value}).to_string()
}

fn insert(client: &Client, row: &str, value: &Value) -> Answer {
    client.post("Things", &entity(row, value))
}

fn merge(client: &Client, row: &str, value: &Value, tag: &str) -> Answer {
    let body = json!({ "V": value }).to_string();
    client.send("MERGE", &address(row), &[("If-Match", tag)], body.as_bytes())
}

fn delete(client: &Client, row: &str, tag: &str) -> Answer {
    client.send("DELETE", &address(row), &[("If-Match", tag)], b"")
}

fn grouped(gateway: &Gateway) -> f64 {
    gateway.metric("table_service_grouped_writes_total{").unwrap()
}

/// Lets clients write at the same time, each with its number.
fn at_once(client: &Client, work: impl Fn(&Client, usize) + Sync) {
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (client, work) = (client.clone(), &work);
            scope.spawn(move || work(&client, number));
        }
    });
}

/// Every kind of write, each with a value of its own, which comes back and is stored.
fn writes_of_one(client: &Client, number: usize, round: usize) {
    let row = format!("r{number}");
    let value = |step: usize| json!(format!("{number} {round} {step}"));
    let is_stored = |step: usize, tag: &str| {
        let stored = client.get(&address(&row)).expect(200);
        assert_eq!(stored.json()["V"], value(step));
        assert_eq!(stored.header("etag").unwrap(), tag);
    };
    let inserted = insert(client, &row, &value(0)).expect(201);
    assert_eq!(inserted.json()["V"], value(0));
    let tag = inserted.header("etag").unwrap().to_owned();
    is_stored(0, &tag);
    insert(client, &row, &value(1)).fails_with(409, "EntityAlreadyExists", "The specified entity already exists.");
    let merged = merge(client, &row, &value(2), &tag).expect(204);
    let new = merged.header("etag").unwrap().to_owned();
    assert_ne!(new, tag);
    is_stored(2, &new);
    let refused = "The update condition specified in the request was not satisfied.";
    merge(client, &row, &value(3), &tag).fails_with(412, "UpdateConditionNotSatisfied", refused);
    merge(client, &format!("{row}absent"), &value(4), "*").fails_with(
        404,
        "ResourceNotFound",
        "The specified resource does not exist.",
    );
    let body = json!({ "V": value(5) }).to_string();
    let replaced = client.send("PUT", &address(&row), &[], body.as_bytes()).expect(204);
    is_stored(5, replaced.header("etag").unwrap());
    delete(client, &row, &new).fails_with(412, "UpdateConditionNotSatisfied", refused);
    delete(client, &row, "*").expect(204);
    delete(client, &row, "*").fails_with(404, "ResourceNotFound", "The specified resource does not exist.");
}

#[test]
fn writes_that_come_at_once_share_a_transaction_and_each_has_its_own_outcome() {
    let service = Service::with_table("Things");
    for round in 0..20 {
        at_once(&service.client, |client, number| writes_of_one(client, number, round));
    }
    assert!(grouped(&service.gateway) > 0.0);
    // One at a time none waits for a group.
    let before = grouped(&service.gateway);
    writes_of_one(&service.client, 0, 20);
    assert_eq!(grouped(&service.gateway), before);
}

#[test]
fn writes_go_alone_where_they_must() {
    // So does the setting.
    let service = Service::with(&["--write-groups", "off"]);
    service.create_table("Things");
    let url = url(service.database.cluster(), service.database.name(), "postgres");
    let round = |gateway: &Gateway| at_once(&gateway.client(), |client, number| writes_of_one(client, number, 0));
    round(&service.gateway);
    let gateway = Gateway::start(&["--database-url", &url]);
    let session = service.database.session("owner");
    // Code of users, here a trigger that writes as well.
    session.run("CREATE TABLE noted (row_key text); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO noted VALUES (new.row_key); RETURN new; END $$; CREATE TRIGGER note BEFORE INSERT ON table_service_data.\"Things\" FOR EACH ROW EXECUTE FUNCTION note()");
    round(&gateway);
    assert_eq!(
        session.text("SELECT count(DISTINCT row_key) FROM noted"),
        CLIENTS.to_string()
    );
    session.run("DROP TRIGGER note ON table_service_data.\"Things\"");
    // An earlier version of the extension.
    session.run("UPDATE pg_extension SET extversion = '0.5.0' WHERE extname = 'table_service'");
    let earlier = Gateway::start(&["--database-url", &url]);
    round(&earlier);
    session.run("UPDATE pg_extension SET extversion = default_version FROM pg_available_extensions WHERE extname = name AND name = 'table_service'");
    // A large message.
    let large = Gateway::start(&["--database-url", &url]);
    at_once(&large.client(), |client, number| {
        for round in 0..10 {
            insert(client, &format!("large{number}-{round}"), &json!("x".repeat(8 * 1024))).expect(201);
        }
    });
    for gateway in [&service.gateway, &gateway, &earlier, &large] {
        assert_eq!(grouped(gateway), 0.0);
    }
}

#[test]
fn writes_with_a_stored_policy_go_alone() {
    // Only a statement of its own is tied to the table that has the policy.
    let service = Service::with_table("Things");
    service.database.session("superuser").run(
        r#"SELECT table_service.set_access_policies('Things', '[{"Id": "all", "Expiry": "2099-01-01", "Permission": "raud"}]')"#,
    );
    let sas = TableSas::new("2019-02-02", "Things")
        .policy("all")
        .sign(&service.client.account);
    let query = sas.unwrap().to_query();
    let headers = [("Content-Type", "application/json")];
    at_once(&service.client, |client, number| {
        for round in 0..5 {
            let row = format!("r{number}-{round}");
            let body = entity(&row, &json!(round));
            with_query(client, "POST", &format!("Things?{query}"), &headers, &body).expect(201);
            let read = with_query(client, "GET", &format!("{}?{query}", address(&row)), &[], "").expect(200);
            assert_eq!(read.json()["V"], json!(round));
        }
    });
    assert_eq!(grouped(&service.gateway), 0.0);
}

#[test]
fn a_write_that_waits_for_a_lock_holds_up_no_other() {
    // No time limit ends a wait for the lock.
    let service = Service::with(&["--statement-timeout", "600", "--pool-size", "32"]);
    service.create_table("Things");
    let client = &service.client;
    insert(client, "held", &json!(0)).expect(201);
    let blocker = service.database.session("blocker");
    blocker.run("BEGIN; SELECT FROM table_service_data.\"Things\" WHERE row_key = 'held' FOR UPDATE");
    let waiting: Mutex<Vec<Connection>> = Mutex::default();
    at_once(client, |client, number| {
        for round in 0..20 {
            // Writes that wait for the lock come among the others, at every place of a group.
            if round == 5 + number / 3 && number % 2 == 0 {
                let mut connection = Connection::open(client.address);
                let body = json!({ "V": 1 }).to_string();
                connection.write(&client.request("MERGE", &address("held"), &[("If-Match", "*")], body.as_bytes()));
                waiting.lock().unwrap().push(connection);
            }
            insert(client, &format!("r{number}-{round}"), &json!(round)).expect(201);
        }
    });
    blocker.run("ROLLBACK");
    for mut connection in waiting.into_inner().unwrap() {
        connection.answer().unwrap().expect(204);
    }
    assert!(grouped(&service.gateway) > 0.0);
}

/// A server with commits that wait for a standby that does not exist.
struct Waiting {
    _cluster: Cluster,
    session: Session,
}

impl Waiting {
    fn start() -> (Waiting, Gateway) {
        let cluster = Cluster::start(&[]);
        let session = cluster.session();
        session.run("CREATE EXTENSION table_service; SELECT table_service.create_table('Things')");
        session.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
        // The setting of a server counts at once when it starts.
        cluster.kill();
        cluster.start_again();
        let url = url(&cluster, "postgres", "postgres");
        // Each request may have a connection, and the memory for a page.
        let gateway = Gateway::start(&[
            "--database-url",
            &url,
            "--pool-size",
            "64",
            "--max-memory",
            "4096",
            "--statement-timeout",
            "600",
        ]);
        let session = cluster.session();
        let server = Waiting {
            _cluster: cluster,
            session,
        };
        (server, gateway)
    }

    /// Lets all commits end.
    fn end(&self) {
        self.session.run("ALTER SYSTEM RESET synchronous_standby_names");
        self.session.run("SELECT pg_reload_conf()");
    }

    /// Sends inserts at once, each with a query string, until groups of them wait for their commits.
    fn inserts(&self, gateway: &Gateway, query: impl Fn(usize) -> &'static str) -> Vec<Connection> {
        const ALL: usize = 64;
        let client = gateway.client();
        let send = |all: &mut [Connection], request: &dyn Fn(usize) -> Vec<u8>| {
            let requests: Vec<_> = (0..ALL).map(request).collect();
            let pairs = all.iter_mut().zip(&requests);
            pairs.for_each(|(connection, request)| connection.write(request));
        };
        let mut all: Vec<_> = (0..ALL).map(|_| Connection::open(client.address)).collect();
        // To open a connection to the database would take longer than a request waits for its group.
        self.session
            .run("BEGIN; LOCK TABLE table_service_data.\"Things\" IN ACCESS EXCLUSIVE MODE");
        // Some at a time: a server that forks all at once may be too slow for one of them.
        for number in 1..=ALL / 8 {
            for connection in &mut all[(number - 1) * 8..number * 8] {
                connection.write(&client.request("GET", "Things()", &[], b""));
            }
            wait_until("the connections are open", || {
                gateway.metric("table_service_pool_in_use{") == Some((number * 8) as f64)
            });
        }
        self.session.run("ROLLBACK");
        for connection in &mut all {
            connection.answer().unwrap().expect(200);
        }
        send(&mut all, &|number| {
            let body = entity(&format!("r{number}"), &json!(number));
            client.request("POST", &format!("Things{}", query(number)), &[], body.as_bytes())
        });
        wait_until("groups wait for their commits", || {
            let groups =
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ~ 'write_entities'";
            self.session.text(groups).parse::<usize>().unwrap() > 1
        });
        all
    }
}

#[test]
fn success_is_answered_after_the_commit() {
    let (server, gateway) = Waiting::start();
    let client = gateway.client();
    // Every third request ends while the group that it may lead waits.
    let connections = server.inserts(&gateway, |number| if number % 3 == 2 { "?timeout=1" } else { "" });
    let mut patient = Vec::new();
    for (number, mut connection) in connections.into_iter().enumerate() {
        match number % 3 {
            2 => connection.answer().unwrap().fails_with(500, "OperationTimedOut", ""),
            _ => patient.push((number, connection)),
        }
    }
    server.end();
    for (number, mut connection) in patient {
        assert_eq!(connection.answer().unwrap().expect(201).json()["V"], number);
        let stored = client.get(&address(&format!("r{number}"))).expect(200);
        assert_eq!(stored.json()["V"], number);
    }
    // All connections are free again.
    wait_until("no connection is in use", || {
        gateway.metric("table_service_pool_in_use{") == Some(0.0)
    });
}

#[test]
fn an_unknown_commit_is_unknown_for_each_write_of_its_group() {
    let (server, gateway) = Waiting::start();
    let client = gateway.client();
    let connections = server.inserts(&gateway, |_| "");
    let ended = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        // PostgreSQL has written these commits, and says nothing of it.
        scope.spawn(|| {
            wait_until("the rest is over", || {
                server
                    .session
                    .run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
                ended.load(Ordering::Relaxed) == 1
            });
        });
        for mut connection in connections {
            // One that was sent again would be told that the entity is there, or that it is new.
            let answer = connection.answer().unwrap();
            assert_eq!(answer.status, 503, "{}", answer.text());
        }
        ended.store(1, Ordering::Relaxed);
    });
    server.end();
    insert(&client, "after", &json!(1)).expect(201);
}
