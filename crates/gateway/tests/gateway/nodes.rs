//! Accounts with several databases, the nodes of a distributed one.

use std::collections::BTreeSet;
use std::time::Instant;

use raw_http::{Answer, Client};
use system_tests::{Cluster as Server, Database, Session, wait_until};

use crate::gateway::{Gateway, program, url};
use crate::standbys::{Replicated, get, insert};
use crate::way::{Passage, Way};

/// A gateway with two ways to one database, which has the table Things with an entity.
struct TwoWays {
    gateway: Gateway,
    client: Client,
    ways: [Way; 2],
    database: Database,
}

impl TwoWays {
    fn start() -> TwoWays {
        let database = Database::new();
        let ways = [(); 2].map(|()| Way::to(database.cluster().host(), database.cluster().port()));
        let urls = [&ways[0], &ways[1]].map(|way| way.url(database.name()));
        let gateway = Gateway::start(&["--database-url", &urls[0], "--database-url", &urls[1]]);
        let client = gateway.client();
        client.post("Tables", "{\"TableName\":\"Things\"}").expect(201);
        client
            .post("Things", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}")
            .expect(201);
        TwoWays {
            gateway,
            client,
            ways,
            database,
        }
    }

    fn get(&self) -> Answer {
        self.client.get("Things(PartitionKey='p',RowKey='r')")
    }

    fn insert(&self, row: &str) -> Answer {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
        self.client.post("Things", &body)
    }

    fn is_up(&self, way: usize) -> bool {
        let node = format!(
            "table_service_node_up{{account=\"devstoreaccount1\",node=\"{}/{}\"}}",
            self.ways[way].address(),
            self.database.name()
        );
        self.gateway.metric(&node).unwrap() == 1.0
    }

    /// Reads until the gateway has noticed that this way is cut. No reader notices.
    fn read_until_it_is_out(&self, way: usize) {
        wait_until("the node is left out", || {
            self.get().expect(200);
            !self.is_up(way)
        });
    }
}

#[track_caller]
fn is_busy(answer: &Answer) {
    answer.fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
    assert_eq!(answer.header("Retry-After"), Some("1"));
}

#[test]
fn data_operations_are_spread_and_tables_belong_to_the_first() {
    let database = Database::new();
    let (other, session) = on_another_server(&database);
    let sessions = [database.session("superuser"), session];
    sessions[1].run("SELECT table_service.create_table('More')");
    for (number, session) in (0..).zip(&sessions) {
        pose_as_server(session, number);
        session.run("SET allow_system_table_mods = on; DELETE FROM pg_catalog.pg_dist_shard");
    }
    let urls = [database.cluster(), &other].map(|server| url(server, database.name(), "postgres"));
    let gateway = Gateway::start(&["--database-url", &urls[0], "--database-url", &urls[1]]);
    let client = gateway.client();
    client.post("Tables", "{\"TableName\":\"More\"}").expect(201);
    let count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'table_service_data'";
    assert_eq!(sessions[0].value::<i64>(count, &[]), 2);
    assert_eq!(sessions[1].value::<i64>(count, &[]), 2);

    for (session, name) in sessions.iter().zip(["one", "two"]) {
        session.run(&format!(
            "SELECT table_service.insert_entity('Things', 'p', 'r', '{{\"Name\": \"{name}\"}}')"
        ));
    }
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let entity = client.get("Things(PartitionKey='p',RowKey='r')").expect(200).json();
        seen.insert(entity["Name"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, BTreeSet::from(["one".to_owned(), "two".to_owned()]));

    for _ in 0..4 {
        let tables = client.get("Tables").expect(200).json();
        assert_eq!(tables["value"].as_array().unwrap().len(), 2, "{tables}");
    }
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>x</Id><AccessPolicy><Permission>r</Permission></AccessPolicy>\
                    </SignedIdentifier></SignedIdentifiers>";
    for _ in 0..2 {
        client
            .send("PUT", "Things?comp=acl", &[], policies.as_bytes())
            .expect(204);
        let read = client.get("Things?comp=acl").expect(200);
        assert!(read.text().contains("<Id>x</Id>"), "{}", read.text());
    }
    let stored = "SELECT jsonb_array_length(table_service.get_access_policies('Things')::jsonb)::bigint";
    assert_eq!(sessions[0].value::<i64>(stored, &[]), 1);
    client.send("DELETE", "Tables('More')", &[], b"").expect(204);
    assert_eq!(sessions[0].value::<i64>(count, &[]), 1);
    assert_eq!(sessions[1].value::<i64>(count, &[]), 2);

    let ready = gateway.admin("/ready").expect(200);
    let name = format!("/{}: ready, extension ", database.name());
    assert_eq!(ready.text().matches(&name).count(), 2, "{}", ready.text());
}

#[test]
fn a_node_that_is_away_is_left_out_and_comes_back() {
    let service = TwoWays::start();
    service.ways[1].set(Passage::Cut);
    service.read_until_it_is_out(1);
    let (before, begin) = (service.ways[1].begun(), Instant::now());
    for row in 0..300 {
        service.insert(&format!("a{row}")).expect(201);
    }
    // The attempts to reach it come with time, and not with the requests.
    let (tried, seconds) = (service.ways[1].begun() - before, begin.elapsed().as_secs());
    assert!(
        (tried as u64) < 15 + 2 * seconds,
        "{tried} attempts beside 300 requests, in {seconds} s"
    );
    let ready = service.gateway.admin("/ready").expect(200);
    let line = ready
        .text()
        .lines()
        .find(|line| line.contains("cannot be reached"))
        .unwrap();
    assert!(line.contains(&service.ways[1].address().to_string()), "{line}");
    assert!(ready.text().contains(": ready, extension "), "{}", ready.text());

    service.ways[1].set(Passage::Open);
    wait_until("it comes back", || service.is_up(1));
    let before = service.ways[1].begun();
    for row in 0..4 {
        service.insert(&format!("b{row}")).expect(201);
    }
    assert!(service.ways[1].begun() > before);
}

#[test]
fn without_the_first_node_entities_are_served_and_tables_are_not() {
    let service = TwoWays::start();
    service.ways[0].set(Passage::Cut);
    service.read_until_it_is_out(0);
    for row in 0..20 {
        service.insert(&format!("a{row}")).expect(201);
        service.get().expect(200);
    }
    is_busy(&service.client.post("Tables", "{\"TableName\":\"More\"}"));
    let policies = service.client.get("Things?comp=acl").expect(503);
    assert_eq!(policies.header("Retry-After"), Some("1"));
    service.gateway.admin("/ready").expect(200);

    service.ways[1].set(Passage::Cut);
    wait_until("nothing is left", || service.get().status == 503);
    is_busy(&service.get());
    is_busy(&service.insert("b"));
    wait_until("it is not ready", || service.gateway.admin("/ready").status == 503);

    service.ways.iter().for_each(|way| way.set(Passage::Open));
    wait_until("both come back", || service.is_up(0) && service.is_up(1));
    service.get().expect(200);
    service.client.post("Tables", "{\"TableName\":\"More\"}").expect(201);
    service.gateway.admin("/ready").expect(200);
}

#[test]
fn a_node_that_does_not_answer_stops_nobody() {
    let service = TwoWays::start();
    service.ways[1].set(Passage::Silent);
    std::thread::scope(|scope| {
        for client in 0..4 {
            let service = &service;
            scope.spawn(move || {
                for _ in 0..20 {
                    service.get().expect(200);
                }
                service.insert(&format!("a{client}")).expect(201);
            });
        }
    });
    assert!(!service.is_up(1));
}

#[test]
fn what_a_node_says_of_another_server_is_busy_and_does_not_count_against_it() {
    let service = TwoWays::start();
    let session = service.database.session("superuser");
    for state in ["08006", "57P01"] {
        session.run(&format!(
            "CREATE OR REPLACE FUNCTION lost() RETURNS trigger LANGUAGE plpgsql AS $$ \
             BEGIN RAISE EXCEPTION 'connection to the worker lost' USING ERRCODE = '{state}'; END $$; \
             CREATE OR REPLACE TRIGGER lost BEFORE INSERT ON table_service_data.\"Things\" FOR EACH ROW EXECUTE FUNCTION lost()"
        ));
        for row in 0..4 {
            is_busy(&service.insert(&row.to_string()));
        }
    }
    service.get().expect(200);
    let log = service.gateway.log();
    assert!(!log.contains("the node is left out"), "{log}");
}

#[test]
fn all_nodes_must_have_the_extension_when_the_gateway_starts() {
    let (database, empty) = (Database::new(), Database::empty());
    let urls = [&database, &empty].map(|database| url(database.cluster(), database.name(), "postgres"));
    let output = program(&[
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--database-url",
        &urls[0],
        "--database-url",
        &urls[1],
    ])
    .output()
    .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains(empty.name()) && text.contains("lacks the extension"),
        "{text}"
    );
}

/// Two databases that say that they are the servers of a cluster: partitions with a negative hash are on the first one.
struct Cluster {
    gateway: Gateway,
    client: Client,
    database: Database,
    /// It has the second database.
    other: Server,
    /// To the second one.
    way: Way,
}

/// A server that has a database with the extension, of the same name: Citus needs one name on all servers.
fn on_another_server(database: &Database) -> (Server, Session) {
    let (server, name) = (Server::start(&[]), database.name());
    server.session().run(&format!("CREATE DATABASE {name}"));
    let session = server.try_session(name, "postgres", "superuser").unwrap();
    session.run("CREATE EXTENSION table_service");
    (server, session)
}

/// The catalogs of Citus, as far as `shard_map` and the gateway read them.
const CATALOGS: &str = "
    SET allow_system_table_mods = on;
    CREATE TABLE pg_catalog.pg_dist_partition AS
        SELECT 'table_service_data.\"Things\"'::regclass AS logicalrelid, 'h'::\"char\" AS partmethod, 'partition_key'::text AS partkey;
    CREATE FUNCTION pg_catalog.column_to_column_name(regclass, text) RETURNS text LANGUAGE sql AS 'SELECT $2';
    CREATE TABLE pg_catalog.pg_dist_shard AS
        SELECT 'table_service_data.\"Things\"'::regclass AS logicalrelid, s.*
        FROM (VALUES (1::bigint, '-2147483648', '-1'), (2, '0', '2147483647')) AS s (shardid, shardminvalue, shardmaxvalue);
    CREATE TABLE pg_catalog.pg_dist_placement AS SELECT n::bigint AS shardid, 1 AS shardstate, n - 1 AS groupid FROM generate_series(1, 2) AS n;
    CREATE TYPE pg_catalog.noderole AS ENUM ('primary');
    CREATE TABLE pg_catalog.pg_dist_node AS
        SELECT n AS groupid, 'server' || n AS nodename, 5432 AS nodeport, 'primary'::pg_catalog.noderole AS noderole,
            true AS isactive, true AS hasmetadata, true AS metadatasynced
        FROM generate_series(0, 1) AS n;";

/// Makes the table Things, and the catalogs of a server of a cluster.
fn pose_as_server(session: &Session, number: i32) {
    session.run("SELECT table_service.create_table('Things')");
    session.run(CATALOGS);
    session.run(&format!(
        "CREATE TABLE pg_catalog.pg_dist_local_group AS SELECT {number} AS groupid"
    ));
}

/// The hashes of these PartitionKeys are negative, and positive (`partition_hash`).
const PARTITIONS: [[&str; 2]; 2] = [["p2", "0123456789a"], ["p1", "p3"]];

impl Cluster {
    fn start() -> Cluster {
        let database = Database::new();
        let (other, session) = on_another_server(&database);
        for (number, session) in (0..).zip([database.session("superuser"), session]) {
            pose_as_server(&session, number);
            for key in PARTITIONS.iter().flatten() {
                session.run(&format!(
                    "SELECT table_service.insert_entity('Things', '{key}', 'r', '{{\"Server\": {number}}}')"
                ));
            }
        }
        let way = Way::to(other.host(), other.port());
        let first = url(database.cluster(), database.name(), "postgres");
        let gateway = Gateway::start(&["--database-url", &first, "--database-url", &way.url(database.name())]);
        let client = gateway.client();
        Cluster {
            gateway,
            client,
            database,
            other,
            way,
        }
    }

    fn session(&self, server: usize) -> Session {
        let cluster = [self.database.cluster(), &self.other][server];
        cluster
            .try_session(self.database.name(), "postgres", "superuser")
            .unwrap()
    }

    /// Returns the database that a read of this partition went to.
    fn server_of(&self, partition_key: &str) -> u64 {
        let entity = self
            .client
            .get(&format!("Things(PartitionKey='{partition_key}',RowKey='r')"));
        entity.expect(200).json()["Server"].as_u64().unwrap()
    }

    /// Waits until reads of these partitions go to a database, and to no other one.
    fn wait_until_read_from(&self, partition_keys: &[&str], server: u64) {
        wait_until("calls go to the node of their partition", || {
            (0..10).all(|_| partition_keys.iter().all(|key| self.server_of(key) == server))
        });
    }

    /// Changes the catalogs of a server.
    fn change(&self, server: usize, sql: &str) {
        self.session(server)
            .run(&format!("SET allow_system_table_mods = on; {sql}"));
    }

    /// Waits until `/ready` says this of the second node, which is not used then.
    fn wait_until_it_is_out(&self, why: &str) {
        let line = format!("/{}: not asked: {why}", self.database.name());
        wait_until("the node is no member any more", || {
            let ready = self.gateway.admin("/ready").expect(200);
            ready.text().lines().any(|found| found.ends_with(&line))
        });
        for key in PARTITIONS.iter().flatten() {
            assert_eq!(self.server_of(key), 0);
        }
    }

    fn is_up(&self) -> bool {
        let node = format!(
            "table_service_node_up{{account=\"devstoreaccount1\",node=\"{}/{}\"}}",
            self.way.address(),
            self.database.name()
        );
        self.gateway.metric(&node).unwrap() == 1.0
    }

    fn at_owner(&self) -> f64 {
        let metrics = self.gateway.admin("/metrics").expect(200);
        let lines = metrics.text().lines();
        let lines = lines.filter(|line| line.starts_with("table_service_requests_at_owner_total{"));
        lines
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }
}

#[test]
fn calls_go_to_the_node_that_has_their_partition() {
    let cluster = Cluster::start();
    for (server, keys) in (0..).zip(PARTITIONS) {
        cluster.wait_until_read_from(&keys, server);
    }
    let before = cluster.at_owner();
    for (server, keys) in (0..).zip(PARTITIONS) {
        let [key, _] = keys;
        for row in 0..5 {
            let body = format!("{{\"PartitionKey\":\"{key}\",\"RowKey\":\"{row}\"}}");
            cluster.client.post("Things", &body).expect(201);
            let filter = format!("Things()?$filter=PartitionKey%20eq%20'{key}'%20and%20Server%20ge%200");
            let page = cluster.client.get(&filter).expect(200).json();
            assert_eq!(page["value"][0]["Server"], server, "{page}");
        }
        let session = cluster.session(server);
        let rows = format!("SELECT count(*) FROM table_service_data.\"Things\" WHERE partition_key = '{key}'");
        assert_eq!(session.value::<i64>(&rows, &[]), 6);
    }
    assert_eq!(cluster.at_owner() - before, 20.0);
}

#[test]
fn an_old_map_is_read_again_and_a_lost_node_is_not_asked() {
    let cluster = Cluster::start();
    cluster.wait_until_read_from(&PARTITIONS[1], 1);
    // A shard has moved.
    for server in [0, 1] {
        cluster.change(server, "UPDATE pg_catalog.pg_dist_placement SET groupid = 1");
    }
    cluster.wait_until_read_from(&PARTITIONS[0], 1);
    cluster.way.set(Passage::Cut);
    wait_until("another node serves the partitions of a lost one", || {
        PARTITIONS.iter().flatten().all(|key| {
            let read = cluster.client.get(&format!("Things(PartitionKey='{key}',RowKey='r')"));
            read.status == 200 && read.json()["Server"] == 0
        })
    });
}

#[test]
fn a_node_that_has_left_the_cluster_is_not_asked() {
    let cluster = Cluster::start();
    cluster.wait_until_read_from(&PARTITIONS[1], 1);
    // It could not be reached when it was removed, so it has its tables and its catalogs still.
    cluster.change(0, "DELETE FROM pg_catalog.pg_dist_node WHERE groupid = 1");
    cluster.wait_until_it_is_out("the cluster of the first node does not list it: pg_dist_node");
    let [_, [key, _]] = PARTITIONS;
    let address = format!("Things(PartitionKey='{key}',RowKey='r')");
    cluster
        .client
        .send("DELETE", &address, &[("If-Match", "*")], b"")
        .expect(204);
    cluster.client.get(&address).expect(404);
    cluster.gateway.waits_for_log("the node is no member, and is not asked");

    cluster.change(
        0,
        &format!("SELECT table_service.insert_entity('Things', '{key}', 'r', '{{\"Server\": 0}}')"),
    );
    let back = "INSERT INTO pg_catalog.pg_dist_node SELECT 1, nodename, nodeport, noderole, isactive, true, true FROM pg_catalog.pg_dist_node";
    cluster.change(
        0,
        &format!("{back}; UPDATE pg_catalog.pg_dist_node SET nodename = 'server' || groupid"),
    );
    cluster.wait_until_read_from(&PARTITIONS[1], 1);
    cluster.change(0, "UPDATE pg_catalog.pg_dist_node SET isactive = groupid = 0");
    cluster.wait_until_it_is_out("the cluster of the first node does not use it: pg_dist_node");
}

#[test]
fn a_node_that_does_not_tell_its_identity_is_not_asked() {
    let cluster = Cluster::start();
    cluster.wait_until_read_from(&PARTITIONS[1], 1);
    // Its connections are open, and serve requests.
    cluster.change(1, "ALTER TABLE pg_catalog.pg_dist_node RENAME nodename TO gone");
    wait_until("the node is not asked any more", || !cluster.is_up());
    for key in PARTITIONS.iter().flatten() {
        assert_eq!(cluster.server_of(key), 0);
    }
    wait_until("the reason is told", || {
        let ready = cluster.gateway.admin("/ready").expect(200);
        ready.text().contains("not asked: it does not tell its identity: ")
    });
    cluster.gateway.waits_for_log("the node is not asked");
    cluster.change(1, "ALTER TABLE pg_catalog.pg_dist_node RENAME gone TO nodename");
    cluster.wait_until_read_from(&PARTITIONS[1], 1);
}

/// Another server gets the address of a member. The connections of the member stay open.
#[test]
fn a_server_that_was_not_checked_is_not_asked() {
    let cluster = Cluster::start();
    cluster.wait_until_read_from(&PARTITIONS[1], 1);
    let (other, stranger) = on_another_server(&cluster.database);
    pose_as_server(&stranger, 7);
    let [_, [key, _]] = PARTITIONS;
    stranger.run(&format!(
        "SELECT table_service.insert_entity('Things', '{key}', 'r', '{{\"Server\": 7}}')"
    ));
    cluster.way.leads_to(other.host(), other.port());
    let member = cluster.session(1);
    member.run("BEGIN; LOCK TABLE table_service_data.\"Things\"");
    std::thread::scope(|scope| {
        let inserts: Vec<_> = (0..8)
            .map(|row| {
                let body = format!("{{\"PartitionKey\":\"{key}\",\"RowKey\":\"{row}\"}}");
                let client = &cluster.client;
                scope.spawn(move || client.post("Things", &body).expect(201))
            })
            .collect();
        // The old connections wait, and the others are new.
        wait_until("some inserts are done elsewhere", || {
            inserts.iter().any(std::thread::ScopedJoinHandle::is_finished)
        });
        member.run("COMMIT");
    });
    let count = "SELECT count(*) FROM table_service_data.\"Things\"";
    assert_eq!(stranger.text(count), "1");

    stranger.run("SET allow_system_table_mods = on; UPDATE pg_catalog.pg_dist_local_group SET groupid = 1");
    cluster.change(1, "UPDATE pg_catalog.pg_dist_local_group SET groupid = 7");
    cluster.wait_until_read_from(&[key], 7);
}

/// After `disable_citus` the first server has all tables, and the others have none.
#[test]
fn no_request_fails_because_the_tables_are_not_distributed_any_more() {
    let cluster = Cluster::start();
    cluster.wait_until_read_from(&PARTITIONS[1], 1);
    cluster.change(
        1,
        "DELETE FROM pg_catalog.pg_dist_partition; DROP TABLE table_service_data.\"Things\"",
    );
    cluster.change(0, "DELETE FROM pg_catalog.pg_dist_partition");
    let [_, [key, _]] = PARTITIONS;
    let address = format!("Things(PartitionKey='{key}',RowKey='r')");
    // The gateway does not know it yet.
    for row in 0..10 {
        assert_eq!(cluster.server_of(key), 0);
        let filter = format!("Things()?$filter=PartitionKey%20eq%20'{key}'");
        cluster.client.get(&filter).expect(200);
        let body = format!("{{\"PartitionKey\":\"{key}\",\"RowKey\":\"{row}\"}}");
        cluster.client.post("Things", &body).expect(201);
    }
    cluster
        .client
        .send("DELETE", &address, &[("If-Match", "*")], b"")
        .expect(204);
    let gone = "SELECT NOT EXISTS (SELECT FROM table_service_data.\"Things\" WHERE row_key = 'r' AND partition_key = '";
    let session = cluster.session(0);
    assert!(session.value::<bool>(&format!("{gone}{key}')"), &[]));
    session.run(&format!(
        "SELECT table_service.insert_entity('Things', '{key}', 'r', '{{\"Server\": 0}}')"
    ));
    cluster.wait_until_it_is_out("the tables of the first node are not distributed");
    cluster.client.get("Nothing").expect(404);
}

#[test]
fn another_database_is_never_asked_for_the_tables_of_the_first() {
    let databases = [Database::new(), Database::new()];
    for database in &databases {
        database
            .session("superuser")
            .run("SELECT table_service.create_table('Things')");
    }
    let stray = databases[1].session("superuser");
    stray.run("SELECT table_service.insert_entity('Things', 'p', 'r', '{}')");
    let urls = [&databases[0], &databases[1]].map(|database| url(database.cluster(), database.name(), "postgres"));
    let gateway = Gateway::start(&["--database-url", &urls[0], "--database-url", &urls[1]]);
    let client = gateway.client();
    for _ in 0..6 {
        client.get("Things(PartitionKey='p',RowKey='r')").expect(404);
    }
    let says = |gateway: &Gateway, why: &str| {
        let ready = gateway.admin("/ready").expect(200);
        let line = format!("/{}: not asked: {why}", databases[1].name());
        assert!(ready.text().contains(&line), "{}", ready.text());
    };
    says(&gateway, "it is another database than the first node's");

    // Of the servers of a cluster, but with another name.
    for (number, database) in (0..).zip(&databases) {
        let session = database.session("superuser");
        session.run("SELECT table_service.delete_table('Things')");
        pose_as_server(&session, number);
    }
    let gateway = Gateway::start(&["--database-url", &urls[0], "--database-url", &urls[1]]);
    let [own, first] = [1, 0].map(|number: usize| databases[number].name());
    says(
        &gateway,
        &format!("its database is {own}, and that of the first node is {first}"),
    );
}

/// It is asked for nothing, neither while it follows the first node nor when it has ceased to.
#[test]
fn a_copy_of_the_first_node_is_never_asked() {
    let servers = Replicated::start(&[&[]]);
    let (url, copy) = (servers.primary_url(), &servers.standbys[0]);
    let of_copy = servers.url(0);
    let gateway = Gateway::start(&["--database-url", &url, "--database-url", &of_copy]);
    let client = gateway.client();
    let is_said = |why: &str| {
        let why = format!(": not asked: {why}");
        wait_until(&why, || gateway.admin("/ready").expect(200).text().contains(&why));
    };
    is_said("it is a standby (in recovery), not a primary");
    copy.runs_alone();
    is_said("it is a copy of the first node");
    for row in 0..10 {
        insert(&client, &row.to_string()).expect(201);
        get(&client, &row.to_string()).expect(200);
    }
    let count = "SELECT count(*) FROM table_service_data.\"Things\"";
    assert_eq!(servers.primary.session().text(count), "10");
}
