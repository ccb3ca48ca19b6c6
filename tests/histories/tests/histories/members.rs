//! Clients use a gateway while servers leave a cluster and join it, shards move, and tables become those of one server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::scope;

use raw_http::{Answer, Client};
use system_tests::gateway::{Gateway, url};
use system_tests::{Cluster, Session, wait_until};

const DATABASE: &str = "tables";
const TABLE: &str = "Members";

/// The servers of `cargo xtask citus` and a gateway with all of them.
struct Service {
    servers: Vec<Cluster>,
    gateway: Gateway,
}

impl Service {
    fn start() -> Service {
        let servers = std::env::var("CITUS_SERVERS").unwrap();
        let servers: Vec<Cluster> = servers.split(' ').map(Cluster::running_in).collect();
        let urls: Vec<String> = servers.iter().map(|server| url(server, DATABASE, "owner")).collect();
        let arguments: Vec<&str> = urls.iter().flat_map(|url| ["--database-url", url]).collect();
        Service {
            gateway: Gateway::start(&arguments),
            servers,
        }
    }

    /// A session of a superuser on the coordinator.
    fn coordinator(&self) -> Session {
        self.servers[0].try_session(DATABASE, "postgres", "operator").unwrap()
    }

    /// The address of the last worker, as arguments of functions of Citus.
    fn leaver(&self) -> String {
        format!("'127.0.0.1', {}", self.servers.last().unwrap().port())
    }

    /// Waits until `/ready` says this of as many nodes.
    fn wait_for_nodes(&self, count: usize, state: &str) {
        wait_until(state, || {
            let ready = self.gateway.admin("/ready").expect(200);
            ready.text().lines().filter(|line| line.contains(state)).count() == count
        });
    }

    /// Runs `f` while clients write entities of their own, read them and delete them. Returns how many answers said nothing.
    ///
    /// # Panics
    /// If an answer contradicts one before it.
    fn under_clients(&self, name: &str, f: impl FnOnce()) -> usize {
        let stop = AtomicBool::new(false);
        scope(|scope| {
            let clients: Vec<_> = (0..3)
                .map(|number| {
                    let (client, stop) = (self.gateway.client(), &stop);
                    scope.spawn(move || use_entities(&client, &format!("{name}{number}-"), stop))
                })
                .collect();
            let stops = Stops(&stop);
            f();
            drop(stops);
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        })
    }
}

/// Stops the clients, also after a panic.
struct Stops<'s>(&'s AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn entity(key: &str) -> String {
    format!("{TABLE}(PartitionKey='{key}',RowKey='r')")
}

/// An answer that says nothing about the entity. The client does not know whether its write is stored.
fn says_nothing(answer: &Answer) -> bool {
    answer.status == 503 || answer.header("x-ms-error-code") == Some("OperationTimedOut")
}

/// Returns how many answers said nothing.
fn use_entities(client: &Client, name: &str, stop: &AtomicBool) -> usize {
    let mut unsaid = 0;
    let mut says_nothing = |answer: &Answer| {
        unsaid += usize::from(says_nothing(answer));
        says_nothing(answer)
    };
    // Whether the entity is there, as the last answer said.
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{name}{}", round % 300);
        let inserted = client.post(TABLE, &format!("{{\"PartitionKey\":\"{key}\",\"RowKey\":\"r\"}}"));
        if says_nothing(&inserted) {
            known.remove(&key);
        } else {
            let was_there = known.insert(key.clone(), true);
            let expected = match was_there {
                Some(was_there) => {
                    if was_there {
                        409
                    } else {
                        201
                    }
                }
                // The last write may be stored or not.
                None => inserted.status,
            };
            assert_eq!(inserted.status, expected, "insert of {key}: {}", inserted.text());
        }
        for (key, is_there) in &known {
            let read = client.get(&entity(key));
            let expected = if *is_there { 200 } else { 404 };
            assert!(
                says_nothing(&read) || read.status == expected,
                "{key}: {} is not {expected}",
                read.status
            );
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        if round % 3 == 0 && known.contains_key(&key) {
            let deleted = client.send("DELETE", &entity(&key), &[("If-Match", "*")], b"");
            if says_nothing(&deleted) {
                known.remove(&key);
            } else {
                assert_eq!(deleted.status, 204, "delete of {key}: {}", deleted.text());
                known.insert(key, false);
            }
        }
    }
    unsaid
}

#[test]
#[ignore = "`cargo xtask citus` starts the servers, and says in CITUS_SERVERS where: the coordinator first"]
fn clients_find_their_entities_while_a_server_leaves_on_a_cluster() {
    let service = Service::start();
    let (operator, leaver) = (service.coordinator(), service.leaver());
    let owner = service.servers[0].try_session(DATABASE, "owner", "owner").unwrap();
    let nodes = service.servers.len();
    service.wait_for_nodes(nodes, ": ready, extension ");
    let client = service.gateway.client();
    client
        .post("Tables", &format!("{{\"TableName\":\"{TABLE}\"}}"))
        .expect(201);
    let keys: Vec<String> = (0..100).map(|key| format!("kept{key}")).collect();
    for key in &keys {
        let body = format!("{{\"PartitionKey\":\"{key}\",\"RowKey\":\"r\"}}");
        client.post(TABLE, &body).expect(201);
    }
    let all_are_there = || {
        for key in keys.iter().chain(&keys) {
            client.get(&entity(key)).expect(200);
        }
    };
    service.under_clients("leave", || {
        operator.run(&format!("SELECT citus_drain_node({leaver})"));
        wait_until("shards that have moved are dropped", || {
            let dropped = operator.sql("CALL citus_cleanup_orphaned_resources()");
            dropped.is_ok() && operator.text("SELECT count(*) FROM pg_dist_cleanup") == "0"
        });
        operator.run(&format!("SELECT citus_remove_node({leaver})"));
        service.wait_for_nodes(1, "not asked: the cluster of the first node does not list it");
    });
    all_are_there();
    // Another suite may have distributed the tables as a superuser.
    operator.run("ALTER TABLE table_service.citus_anchor OWNER TO owner");
    // The server that has left has catalogs of a cluster that is no more.
    service.under_clients("disable", || {
        owner.run("SELECT table_service.disable_citus()");
        service.wait_for_nodes(nodes - 1, "not asked: ");
        all_are_there();
        owner.run("SELECT table_service.enable_citus(8)");
        service.wait_for_nodes(nodes - 1, ": ready, extension ");
    });
    all_are_there();
    let unsaid = service.under_clients("join", || {
        operator.run(&format!("SELECT citus_add_node({leaver})"));
        service.wait_for_nodes(nodes, ": ready, extension ");
        let rebalance = format!(
            "SELECT rebalance_table_shards('table_service_data.\"{TABLE}\"', shard_transfer_mode => 'block_writes')"
        );
        operator.run(&rebalance);
    });
    assert_eq!(unsaid, 0, "a server joins, and clients notice nothing");
    all_are_there();
    operator.run(&format!("SELECT table_service.delete_table('{TABLE}')"));
}

#[test]
#[ignore = "`cargo xtask citus` starts the servers, and says in CITUS_SERVERS where: the coordinator first"]
fn a_table_is_made_when_a_shard_has_moved_on_a_cluster() {
    let service = Service::start();
    let operator = service.coordinator();
    operator.run(&format!("SELECT table_service.create_table('{TABLE}')"));
    let number = AtomicU32::new(0);
    let create = || {
        let name = format!("Beside{}", number.fetch_add(1, Ordering::Relaxed));
        let client = service.gateway.client();
        client.post("Tables", &format!("{{\"TableName\":\"{name}\"}}"))
    };
    let moved = format!(
        "SELECT citus_move_shard_placement(s.shardid, s.nodename, s.nodeport, n.nodename, n.nodeport, 'block_writes')
         FROM (SELECT * FROM citus_shards WHERE table_name = 'table_service_data.\"{TABLE}\"'::regclass) AS s
         JOIN pg_dist_node AS n ON n.shouldhaveshards AND n.nodeport <> s.nodeport ORDER BY s.shardid LIMIT 1"
    );
    operator.run("BEGIN");
    operator.run(&moved);
    scope(|scope| {
        let waiting = scope.spawn(create);
        wait_until("the gateway makes a table", || {
            let running =
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%create_table($1%' AND state = 'active'";
            service.coordinator().text(running) != "0"
        });
        assert!(!waiting.is_finished());
        operator.run("COMMIT");
        waiting.join().unwrap().expect(201);
    });
    // Moves follow one another, and none is kept from its turn.
    let stop = AtomicBool::new(false);
    scope(|scope| {
        let stops = Stops(&stop);
        let creator = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let status = create().status;
                assert!(matches!(status, 201 | 503), "{status}");
            }
        });
        for _ in 0..6 {
            wait_until("a shard moves", || operator.sql(&moved).is_ok());
        }
        drop(stops);
        creator.join().unwrap();
    });
    for number in 0..number.into_inner() {
        operator.run(&format!("SELECT table_service.delete_table('Beside{number}', true)"));
    }
    operator.run(&format!("SELECT table_service.delete_table('{TABLE}')"));
}
