//! Several hosts in one URL: the gateway follows the primary.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use raw_http::ACCOUNT;
use system_tests::gateway::socket_url;
use system_tests::{Database, Standby, wait_until};

use crate::gateway::Gateway;
use crate::standbys::{Replicated, get, insert, pause, secondary, wait_until_live};
use crate::way::{Passage, Way};

/// The primary and the standbys in one URL.
pub fn all_hosts(servers: &Replicated) -> String {
    let mut hosts = vec![(servers.primary.host(), servers.primary.port())];
    hosts.extend(servers.standbys.iter().map(|standby| (standby.host(), standby.port())));
    socket_url(&hosts, "postgres", "postgres")
}

fn is_primary(gateway: &Gateway, host: &str, port: u16) -> bool {
    let metric = format!("table_service_node_primary{{account=\"{ACCOUNT}\",node=\"{host}:{port}/postgres\"}}");
    gateway.metric(&metric).unwrap() == 1.0
}

/// How much of the log a standby has received, in bytes.
fn received(standby: &Standby) -> u64 {
    let text = standby.session().text("SELECT pg_last_wal_receive_lsn() - '0/0'");
    text.parse().unwrap()
}

#[test]
fn the_primary_is_found_wherever_it_stands_and_followed() {
    let servers = Replicated::start(&[&[], &[]]);
    let (first, second) = (&servers.standbys[0], &servers.standbys[1]);
    // The standbys first.
    let url = socket_url(
        &[
            (first.host(), first.port()),
            (second.host(), second.port()),
            (servers.primary.host(), servers.primary.port()),
        ],
        "postgres",
        "postgres",
    );
    let gateway = Gateway::start(&["--database-url", &url, "--secondary-url", &url]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    wait_until("writes succeed", || insert(&client, "r").status == 201);
    assert!(is_primary(&gateway, servers.primary.host(), servers.primary.port()));
    wait_until_live(&secondary);
    wait_until("it arrives", || get(&secondary, "r").status == 200);

    servers.primary.kill();
    // One that has received more than the promoted one could not follow it.
    let (first, second) = if received(second) > received(first) {
        (second, first)
    } else {
        (first, second)
    };
    first.promote();
    second.follow(first.host(), first.port());
    wait_until("writes succeed again", || insert(&client, "s").status == 201);
    assert!(is_primary(&gateway, first.host(), first.port()));
    get(&client, "r").expect(200);
    // The standby that follows the new primary serves reads, and nobody else does.
    wait_until("it follows", || get(&secondary, "s").status == 200);
    wait_until_live(&secondary);

    // The old primary returns, and takes writes. Nothing is sent there, also while the new one is away.
    servers.primary.start_again();
    gateway.waits_for_log("the server is refused as primary");
    for row in 0..20 {
        insert(&client, &format!("new{row}")).expect(201);
    }
    first.stop("immediate");
    for row in 0..20 {
        insert(&client, &format!("none{row}")).expect(503);
    }
    let old = servers.primary.session();
    assert_eq!(old.text("SELECT count(*) FROM table_service_data.\"Things\""), "1");
    first.start();
    wait_until("writes succeed again", || insert(&client, "t").status == 201);
    assert_eq!(old.text("SELECT count(*) FROM table_service_data.\"Things\""), "1");
}

/// It has none of the writes since it was made, and writes to it would be lost.
#[test]
fn a_copy_that_runs_beside_the_primary_never_takes_its_place() {
    let servers = Replicated::start(&[&[]]);
    servers.standbys[0].runs_alone();
    let gateway = Gateway::start(&["--database-url", &all_hosts(&servers)]);
    let client = gateway.client();
    wait_until("writes succeed", || insert(&client, "r").status == 201);
    let why = "it is a copy of the primary and takes writes on its timeline";
    gateway.waits_for_log(why);
    assert!(is_primary(&gateway, servers.primary.host(), servers.primary.port()));
    servers.primary.kill();
    for row in 0..20 {
        insert(&client, &format!("lost{row}")).expect(503);
    }
    wait_until("the reason is told", || {
        gateway.admin("/ready").expect(503).text().contains(why)
    });
    let copy = servers.standbys[0].session();
    assert_eq!(copy.text("SELECT count(*) FROM table_service_data.\"Things\""), "0");
    servers.primary.start_again();
    wait_until("writes succeed again", || insert(&client, "s").status == 201);
    get(&client, "r").expect(200);
    // A promotion makes it a primary.
    servers.primary.kill();
    servers.standbys[0].promotes_itself();
    wait_until("the promoted one takes writes", || insert(&client, "t").status == 201);
}

#[test]
fn a_host_that_never_answers_hides_no_other_one() {
    let servers = Replicated::start(&[&[]]);
    let silent = Way::to(servers.standbys[0].host(), servers.standbys[0].port());
    silent.set(Passage::Silent);
    let way = Way::to(servers.primary.host(), servers.primary.port());
    let url = format!("postgresql://postgres@{},{}/postgres", silent.address(), way.address());
    let gateway = Gateway::start(&["--database-url", &url]);
    let client = gateway.client();
    wait_until("writes succeed", || insert(&client, "r").status == 201);
    way.set(Passage::Cut);
    wait_until("nothing is left", || get(&client, "r").status == 503);
    way.set(Passage::Open);
    wait_until("it is found again", || get(&client, "r").status == 200);
    // A way that is cut and opened again at once loses only the running requests.
    way.set(Passage::Open);
    wait_until("it is found again", || get(&client, "r").status == 200);
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    let servers = Replicated::start(&[&[]]);
    let (primary, standby) = (&servers.primary, &servers.standbys[0]);
    let hosts = ((primary.host(), primary.port()), (standby.host(), standby.port()));
    let (one, other) = Way::of_two_addresses(hosts.0, hosts.1);
    let url = format!(
        "postgresql://postgres@db.test:{}/postgres?sslmode=disable",
        one.address().port()
    );
    let names = "127.0.0.1 localhost\n127.0.0.1 db.test\n127.0.0.2 db.test\n";
    let replicas = socket_url(&[hosts.1], "postgres", "postgres");
    let arguments = ["--database-url", &url, "--secondary-url", &replicas];
    let Some(gateway) = Gateway::start_with_hosts(names, &arguments) else {
        return;
    };
    let client = gateway.client();
    // Whichever of them is tried first: the primary counts, and one that accepts and never answers hides it no more than one that
    // is cut.
    for (row, (first, second)) in [
        ("a", (Passage::Open, Passage::Open)),
        ("b", (Passage::Open, Passage::Silent)),
        ("c", (Passage::Open, Passage::Cut)),
    ] {
        one.set(first);
        other.set(second);
        wait_until("it takes writes", || insert(&client, row).status == 201);
    }
    // The servers change places.
    other.set(Passage::Open);
    one.leads_to(hosts.1.0, hosts.1.1);
    other.leads_to(hosts.0.0, hosts.0.1);
    for (row, first) in [("d", Passage::Open), ("e", Passage::Silent), ("f", Passage::Cut)] {
        one.set(first);
        other.set(Passage::Open);
        wait_until("it takes writes", || insert(&client, row).status == 201);
    }
    drop(gateway);

    // For reads a standby counts.
    let database = servers.primary_url();
    let arguments = ["--database-url", &database, "--secondary-url", &url];
    let Some(gateway) = Gateway::start_with_hosts(names, &arguments) else {
        return;
    };
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    let session = standby.session();
    for (number, passage) in [Passage::Open, Passage::Silent, Passage::Cut].into_iter().enumerate() {
        // The standby has the first address, and then the second one.
        for is_second in [false, true] {
            let (way, way_of_standby) = if is_second { (&one, &other) } else { (&other, &one) };
            way.leads_to(hosts.0.0, hosts.0.1);
            way_of_standby.leads_to(hosts.1.0, hosts.1.1);
            way_of_standby.set(Passage::Open);
            way.set(passage);
            let row = format!("{number}{is_second}");
            wait_until("it is read", || get(&secondary, "a").status == 200);
            pause(&session);
            insert(&client, &row).expect(201);
            for _ in 0..5 {
                assert!(
                    [404, 503].contains(&get(&secondary, &row).status),
                    "the primary serves reads"
                );
            }
            session.run("SELECT pg_wal_replay_resume()");
            wait_until("it is read", || get(&secondary, &row).status == 200);
        }
    }
}

#[test]
fn no_write_goes_to_the_server_that_had_the_name_before() {
    let servers = Replicated::start(&[&[]]);
    // One name, which moves while the connections to the old server stay: a proxy sends the first ones there, and new ones away.
    let name = Way::to(servers.primary.host(), servers.primary.port());
    let standby = &servers.standbys[0];
    let url = format!("postgresql://postgres@{}/postgres", name.address());
    let reads = socket_url(&[(standby.host(), standby.port())], "postgres", "postgres");
    let gateway = Gateway::start(&["--database-url", &url, "--secondary-url", &reads]);
    let client = gateway.client();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let client = gateway.client();
            scope.spawn(move || insert(&client, &format!("old{writer}")).expect(201));
        }
    });
    standby.promote();
    name.leads_to(standby.host(), standby.port());
    // Only the look's own connection breaks. Then the gateway knows.
    let looks = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_current_wal_insert_lsn%' \
                 AND pid <> pg_backend_pid() AND application_name = 'table-service-gateway' AND state = 'idle'";
    let old = servers.primary.session();
    let mut number = 0;
    wait_until("writes go to the new one", || {
        old.run(looks);
        number += 1;
        insert(&client, &format!("moved{number}"));
        let sql = format!("SELECT count(*) FROM table_service.get_entity('Things', 'p', 'moved{number}')");
        standby.session().text(&sql) == "1"
    });
    let count = "SELECT count(*) FROM table_service_data.\"Things\"";
    let before = old.text(count);
    std::thread::scope(|scope| {
        for writer in 0..16 {
            let client = gateway.client();
            scope.spawn(move || insert(&client, &format!("new{writer}")).expect(201));
        }
    });
    assert_eq!(old.text(count), before, "the old server is still written to");
}

#[test]
fn a_write_whose_connection_broke_is_not_sent_again() {
    let database = Database::new();
    let session = database.session("blocker");
    session.run("SELECT table_service.create_table('Things')");
    let cluster = database.cluster();
    let way = Way::to(cluster.host(), cluster.port());
    let gateway = Gateway::start(&["--database-url", &way.url(database.name())]);
    session.run("BEGIN; LOCK TABLE table_service_data.\"Things\" IN ACCESS EXCLUSIVE MODE");
    std::thread::scope(|scope| {
        let client = gateway.client();
        let answer = scope.spawn(move || insert(&client, "r"));
        let observer = database.session("observer");
        wait_until("it waits for the lock", || {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                           AND datname = current_database()";
            observer.text(waiting) == "1"
        });
        // It may be committed all the same, and here it is.
        way.set(Passage::Open);
        let answer = answer.join().unwrap();
        answer.fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
        session.run("COMMIT");
    });
    wait_until("it is there", || get(&gateway.client(), "r").status == 200);
}

/// The primary seems to have fallen silent: running statements get no answer.
#[test]
fn what_is_under_way_does_not_wait_for_a_server_that_is_the_primary_no_more() {
    let servers = Replicated::start(&[&[]]);
    let gateway = Gateway::start(&["--database-url", &all_hosts(&servers)]);
    wait_until("writes succeed", || insert(&gateway.client(), "r").status == 201);
    let standby = servers.standbys[0].session();
    wait_until("it arrives", || {
        standby.text("SELECT count(*) FROM table_service_data.\"Things\"") == "1"
    });
    let blocker = servers.primary.session();
    blocker.run("BEGIN; LOCK TABLE table_service_data.\"Things\" IN ACCESS EXCLUSIVE MODE");
    std::thread::scope(|scope| {
        let (client, other) = (gateway.client(), gateway.client());
        let reading = scope.spawn(move || client.get("Things()"));
        let writing = scope.spawn(move || insert(&other, "s"));
        let observer = servers.primary.session();
        wait_until("both wait for the lock", || {
            observer.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "2"
        });
        servers.standbys[0].promote();
        // The read is repeated there. It is not known whether the write was executed.
        let answer = reading.join().unwrap().expect(200);
        assert!(answer.text().contains("\"RowKey\":\"r\""), "{}", answer.text());
        let answer = writing.join().unwrap();
        answer.fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
    });
    get(&gateway.client(), "s").expect(404);
    insert(&gateway.client(), "s").expect(201);
}

#[test]
fn a_primary_that_is_set_to_read_only_is_busy_and_stays() {
    let servers = Replicated::start(&[&[]]);
    let gateway = Gateway::start(&["--database-url", &all_hosts(&servers)]);
    let client = gateway.client();
    wait_until("writes succeed", || insert(&client, "r").status == 201);
    servers.set("default_transaction_read_only = on");
    let session = servers.primary.session();
    wait_until("it is busy", || {
        let answer = insert(
            &client,
            &format!("x{:?}", Instant::now()).replace([' ', '{', '}', ':'], ""),
        );
        assert!([201, 503].contains(&answer.status));
        answer.status == 503
    });
    get(&client, "r").expect(200);
    assert!(is_primary(&gateway, servers.primary.host(), servers.primary.port()));
    gateway.waits_for_log("somebody has set it to read only");
    session.run("SET default_transaction_read_only = off");
    session.run("ALTER SYSTEM RESET default_transaction_read_only");
    session.run("SELECT pg_reload_conf()");
    wait_until("it takes writes", || insert(&client, "s").status == 201);
}

#[test]
fn a_name_that_leads_to_a_standby_takes_no_writes_until_that_is_promoted() {
    let servers = Replicated::start(&[&[]]);
    let gateway = Gateway::start(&["--database-url", &servers.url(0)]);
    let client = gateway.client();
    client.get("Tables").expect(200);
    for row in ["a", "b"] {
        let answer = insert(&client, row);
        answer.fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
    }
    gateway.waits_for_log("the server is in recovery");
    servers.standbys[0].promote();
    wait_until("it takes writes", || insert(&client, "a").status == 201);
    get(&client, "a").expect(200);
}

/// The primary is killed under load with synchronous replication, and a standby promoted. Nothing that was acknowledged is lost,
/// and no write was executed twice.
fn promote_under_load() {
    let servers = Replicated::start(&[&[], &[]]);
    servers.set("synchronous_standby_names = 'ANY 2 (*)'");
    let session = servers.primary.session();
    wait_until("both are synchronous", || {
        session.text("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'") == "2"
    });
    drop(session);
    let url = all_hosts(&servers);
    let gateways = [(); 3].map(|()| Gateway::start(&["--database-url", &url]));
    let acknowledged: Mutex<BTreeSet<String>> = Mutex::default();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let (gateway, acknowledged, is_over) = (&gateways[writer % 3], &acknowledged, &is_over);
            scope.spawn(move || {
                let client = gateway.client();
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let row = format!("{writer}-{number}");
                    let answer = insert(&client, &row);
                    match answer.status {
                        201 => drop(acknowledged.lock().unwrap().insert(row)),
                        500 | 503 => {}
                        // 409: each is sent once, so a second execution has found the first one.
                        other => panic!("{row}: {other} {}", answer.text()),
                    }
                }
            });
        }
        wait_until("they write", || acknowledged.lock().unwrap().len() > 100);
        servers.primary.kill();
        let killed = Instant::now();
        let promoted = &servers.standbys[usize::from(received(&servers.standbys[1]) > received(&servers.standbys[0]))];
        promoted.set("synchronous_standby_names = ''");
        promoted.session().run("SELECT pg_reload_conf()");
        promoted.promote();
        let is_promoted = killed.elapsed();
        for (number, gateway) in gateways.iter().enumerate() {
            let client = gateway.client();
            let mut attempt = 0;
            wait_until("writes succeed again", || {
                attempt += 1;
                insert(&client, &format!("again{number}-{attempt}")).status == 201
            });
        }
        println!(
            "promoted after {is_promoted:?}, writes succeed after {:?}",
            killed.elapsed()
        );
        let before = acknowledged.lock().unwrap().len();
        wait_until("they write again", || acknowledged.lock().unwrap().len() > before + 100);
        is_over.store(true, Ordering::Relaxed);
    });
    let session = servers
        .standbys
        .iter()
        .map(Standby::session)
        .find(|session| session.text("SELECT pg_is_in_recovery()") == "f");
    let session = session.unwrap();
    for row in acknowledged.lock().unwrap().iter() {
        let found = session.run(&format!("SELECT FROM table_service.get_entity('Things', 'p', '{row}')"));
        assert_eq!(found.len(), 1, "{row} was acknowledged and is lost");
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_by_a_promotion() {
    promote_under_load();
}

/// Takes minutes.
#[test]
#[ignore = "cargo test -p table_service_gateway --test gateway -- --ignored fifty_promotions"]
fn nothing_is_lost_by_fifty_promotions() {
    for _ in 0..50 {
        promote_under_load();
    }
}
