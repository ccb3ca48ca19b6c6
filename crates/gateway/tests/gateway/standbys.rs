//! The secondary endpoint, served by standbys over streaming replication.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use raw_http::{ACCOUNT, Answer, Client};
use system_tests::gateway::socket_url;
use system_tests::{Cluster, Database, Session, Standby, wait_until};
use time::PrimitiveDateTime;
use time::format_description::well_known::Rfc2822;

use crate::gateway::{Gateway, program, url};
use crate::way::{Passage, Way};

/// A server with the extension and the table Things, and its standbys.
pub struct Replicated {
    pub primary: Cluster,
    pub standbys: Vec<Standby>,
}

impl Replicated {
    pub fn start(settings: &[&[&str]]) -> Replicated {
        let primary = Cluster::start(&["wal_level=replica"]);
        let session = primary.session();
        session.run("CREATE EXTENSION table_service");
        session.run("SELECT table_service.create_table('Things')");
        let standbys = settings
            .iter()
            .map(|settings| Standby::of(&primary, settings))
            .collect();
        Replicated { primary, standbys }
    }

    /// Changes a setting of the primary.
    pub fn set(&self, setting: &str) {
        let session = self.primary.session();
        session.run(&format!("ALTER SYSTEM SET {setting}"));
        session.run("SELECT pg_reload_conf()");
    }

    pub fn primary_url(&self) -> String {
        url(&self.primary, "postgres", "postgres")
    }

    pub fn url(&self, standby: usize) -> String {
        let standby = &self.standbys[standby];
        socket_url(&[(standby.host(), standby.port())], "postgres", "postgres")
    }

    /// A gateway over the primary, with these standbys for reads.
    fn gateway(&self, standbys: &[String], more: &[&str]) -> Gateway {
        let primary = self.primary_url();
        let mut arguments = vec!["--database-url", &primary];
        for standby in standbys {
            arguments.extend(["--secondary-url", standby]);
        }
        arguments.extend(more);
        Gateway::start(&arguments)
    }
}

pub fn secondary(gateway: &Gateway) -> Client {
    Client {
        prefix: format!("/{ACCOUNT}-secondary"),
        ..gateway.client()
    }
}

pub fn insert(client: &Client, row: &str) -> Answer {
    client.post("Things", &format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}"))
}

pub fn get(client: &Client, row: &str) -> Answer {
    client.get(&format!("Things(PartitionKey='p',RowKey='{row}')"))
}

/// Status and LastSyncTime, in seconds since 1970.
pub fn stats(secondary: &Client) -> (String, Option<i64>) {
    let answer = secondary.get("?restype=service&comp=stats").expect(200);
    let text = answer.text().to_owned();
    let between = |tag: &str| {
        let rest = text.split_once(&format!("<{tag}>")).unwrap().1;
        rest.split_once(&format!("</{tag}>")).unwrap().0.to_owned()
    };
    let moment = between("LastSyncTime");
    let moment = (!moment.is_empty()).then(|| {
        let moment = PrimitiveDateTime::parse(&moment.replace("GMT", "+0000"), &Rfc2822).unwrap();
        moment.assume_utc().unix_timestamp()
    });
    (between("Status"), moment)
}

pub fn wait_until_live(secondary: &Client) {
    wait_until("standbys serve reads", || stats(secondary).0 == "live");
}

#[track_caller]
fn is_busy(answer: &Answer) {
    answer.fails_with(503, "ServerBusy", "The server is currently unable to receive requests.");
}

fn serves(gateway: &Gateway, url: &str) -> bool {
    metric(gateway, "standby_serving", url) == 1.0
}

/// In seconds.
fn lag(gateway: &Gateway, url: &str) -> f64 {
    metric(gateway, "standby_lag_seconds", url)
}

/// A metric of a standby.
fn metric(gateway: &Gateway, name: &str, url: &str) -> f64 {
    let at = url.split_once('@').unwrap().1.replace("%2F", "/");
    let line = format!("table_service_{name}{{account=\"{ACCOUNT}\",node=\"{at}\"}}");
    gateway.metric(&line).unwrap()
}

#[test]
fn reads_come_from_standbys_and_writes_are_refused_there() {
    let servers = Replicated::start(&[&[], &[]]);
    let urls = [servers.url(0), servers.url(1)];
    let gateway = servers.gateway(&urls, &[]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    insert(&client, "r").expect(201);
    wait_until_live(&secondary);
    wait_until("both serve", || urls.iter().all(|url| serves(&gateway, url)));
    wait_until("it arrives", || get(&secondary, "r").status == 200);
    secondary.get("Things()").expect(200);
    secondary.get("Tables").expect(200);
    secondary.get("Things?comp=acl").expect(200);
    secondary.get("?restype=service&comp=properties").expect(200);
    insert(&secondary, "s").fails_with(
        403,
        "InsufficientAccountPermissions",
        "Write operations are not allowed.",
    );

    // Of both, and never of the primary: a write that the standbys do not replay is not seen.
    let sessions: Vec<Session> = servers.standbys.iter().map(Standby::session).collect();
    for session in &sessions {
        session.run("SELECT pg_wal_replay_pause()");
        wait_until("it pauses", || {
            session.text("SELECT pg_get_wal_replay_pause_state()") == "paused"
        });
    }
    insert(&client, "paused").expect(201);
    let host_style = Client {
        host: format!("{ACCOUNT}-secondary.table.core.windows.net"),
        prefix: String::new(),
        ..gateway.client()
    };
    for _ in 0..20 {
        get(&secondary, "paused").expect(404);
        get(&host_style, "paused").expect(404);
        get(&client, "paused").expect(200);
    }
    let (status, behind) = stats(&secondary);
    assert_eq!(status, "live");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(stats(&secondary).1, behind, "nothing was replayed");
    for session in &sessions {
        session.run("SELECT pg_wal_replay_resume()");
    }
    wait_until("it is replayed", || stats(&secondary).1 > behind);
    wait_until("it is seen", || get(&secondary, "paused").status == 200);

    // An idle primary does not freeze it, wherever its log ends.
    servers.primary.session().run("SELECT pg_switch_wal()");
    let idle = stats(&secondary).1;
    wait_until("the time goes on", || stats(&secondary).1 > idle.map(|idle| idle + 3));
}

#[test]
fn what_was_acknowledged_before_last_sync_time_is_visible() {
    check_last_sync_time(300);
}

/// Takes minutes.
#[test]
#[ignore = "cargo test -p table_service_gateway --test gateway -- --ignored last_sync_time"]
fn what_was_acknowledged_before_last_sync_time_is_visible_ten_thousand_times() {
    check_last_sync_time(10_000);
}

/// Under load, with one standby that lags, and without synchronous commits.
fn check_last_sync_time(checks: usize) {
    let servers = Replicated::start(&[&["recovery_min_apply_delay = '1500ms'"], &[]]);
    servers.set("synchronous_commit = off");
    let gateway = servers.gateway(&[servers.url(0), servers.url(1)], &["--max-requests", "64"]);
    let endpoint = secondary(&gateway);
    let is_over = AtomicBool::new(false);
    let acknowledged = std::sync::Mutex::new(Vec::<(f64, String)>::new());
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (gateway, is_over, acknowledged) = (&gateway, &is_over, &acknowledged);
            scope.spawn(move || {
                let client = gateway.client();
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let row = format!("{writer}-{number}");
                    insert(&client, &row).expect(201);
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
                    acknowledged.lock().unwrap().push((now, row));
                }
            });
        }
        wait_until_live(&endpoint);
        let (mut last, mut done) = (0, 0);
        while done < checks {
            // A standby that a slow machine holds up is not live for a moment.
            let Some(moment) = stats(&endpoint).1 else {
                wait_until_live(&endpoint);
                continue;
            };
            assert!(moment >= last, "it goes back");
            last = moment;
            // The last write that was acknowledged before it, and one before that.
            let before: Vec<String> = {
                let all = acknowledged.lock().unwrap();
                let count = all.partition_point(|(at, _)| *at < moment as f64);
                let latest = all[..count].iter().rev().step_by(7).take(2);
                latest.map(|(_, row)| row.clone()).collect()
            };
            for row in before {
                read(&endpoint, &row, 200);
                done += 1;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let lags = lag(&gateway, &servers.url(0));
    assert!(lags > 0.0, "one of them lags");
}

#[test]
fn a_standby_that_is_away_is_left_out_and_one_that_returns_has_caught_up() {
    let servers = Replicated::start(&[&[], &[]]);
    let way = Way::to(servers.standbys[1].host(), servers.standbys[1].port());
    let urls = [servers.url(0), way.url("postgres")];
    let gateway = servers.gateway(&urls, &[]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    insert(&client, "r").expect(201);
    wait_until("both serve", || urls.iter().all(|url| serves(&gateway, url)));
    wait_until("it arrives", || get(&secondary, "r").status == 200);

    // Killed, and the way cut or silent: reads go on with the other one.
    servers.standbys[0].stop("immediate");
    for _ in 0..20 {
        read(&secondary, "r", 200);
    }
    wait_until("it is out", || !serves(&gateway, &urls[0]));
    way.set(Passage::Cut);
    wait_until("nobody is left", || stats(&secondary).0 == "unavailable");
    is_busy(&get(&secondary, "r"));
    assert_eq!(stats(&secondary), ("unavailable".to_owned(), None));
    // The primary is there, and still it serves none of these.
    get(&client, "r").expect(200);
    secondary.get("Things?comp=acl").expect(503);
    way.set(Passage::Silent);
    is_busy(&get(&secondary, "r"));
    way.set(Passage::Open);
    wait_until_live(&secondary);
    read(&secondary, "r", 200);

    // A standby that comes back waits until it has reached the answered moment.
    let session = servers.standbys[1].session();
    insert(&client, "later").expect(201);
    wait_until("it arrives", || get(&secondary, "later").status == 200);
    let (_, answered) = stats(&secondary);
    servers.standbys[0].set("recovery_min_apply_delay = '5s'");
    servers.standbys[0].start();
    while !serves(&gateway, &urls[0]) {
        read(&secondary, "later", 200);
        assert!(stats(&secondary).1 >= answered);
        insert(
            &client,
            &format!(
                "more{}",
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
            ),
        );
        // It has to catch up with the moments that are answered meanwhile: as long as it lags, it never does.
        if gateway.log().contains("it is behind the LastSyncTime") {
            break;
        }
    }
    servers.standbys[0].set("recovery_min_apply_delay = 0");
    servers.standbys[0].session().run("SELECT pg_reload_conf()");
    wait_until("it serves again", || serves(&gateway, &urls[0]));
    drop(session);
}

/// Reads of an entity at the secondary endpoint, many at once, so that they go over many connections.
fn read_at_once(gateway: &Gateway, row: &str, status: u16) {
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..4).for_each(|_| read(&secondary(gateway), row, status)));
        }
    });
}

/// Reads an entity at the secondary endpoint. A new connection that takes too long is an answer as well, and no wrong
/// one.
fn read(secondary: &Client, row: &str, status: u16) {
    wait_until("a standby answers", || {
        let answer = get(secondary, row);
        let is_busy = answer.status == 503;
        if !is_busy {
            answer.expect(status);
        }
        !is_busy
    });
}

pub fn pause(session: &Session) {
    session.run("SELECT pg_wal_replay_pause()");
    wait_until("it pauses", || {
        session.text("SELECT pg_get_wal_replay_pause_state()") == "paused"
    });
}

#[test]
fn behind_one_name_each_server_is_judged_alone() {
    let servers = Replicated::start(&[&[], &[]]);
    let both = servers.standbys.iter().map(|standby| (standby.host(), standby.port()));
    let way = Way::in_turn(&both.collect::<Vec<_>>());
    let gateway = servers.gateway(&[way.url("postgres")], &[]);
    let (client, endpoint) = (gateway.client(), secondary(&gateway));
    let sessions: Vec<Session> = servers.standbys.iter().map(Standby::session).collect();
    // Whichever of them is paused, the other one serves: with connections to both, and again when they were closed.
    for round in 0..4 {
        let old = format!("old{round}");
        insert(&client, &old).expect(201);
        for session in &sessions {
            wait_until("it is replayed", || {
                let sql = format!("SELECT count(*) FROM table_service.get_entity('Things', 'p', '{old}')");
                session.text(&sql) == "1"
            });
        }
        wait_until_live(&endpoint);
        read_at_once(&gateway, &old, 200);
        let paused = &sessions[round % 2];
        pause(paused);
        let new = format!("new{round}");
        insert(&client, &new).expect(201);
        let acknowledged = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 + 1;
        if round >= 2 {
            // The connections begin anew; one of the servers is behind from the beginning.
            way.set(Passage::Open);
        }
        // The look may have to go to the other server. Then every acknowledged write is there.
        wait_until("it is answered", || {
            let is_read = get(&endpoint, &old).status == 200;
            if is_read && stats(&endpoint).1.is_some_and(|moment| moment > acknowledged) {
                return true;
            }
            // The look has found the server that is behind. It has time to go on.
            way.set(Passage::Open);
            std::thread::sleep(Duration::from_millis(500));
            false
        });
        read_at_once(&gateway, &new, 200);
        paused.run("SELECT pg_wal_replay_resume()");
    }
}

#[test]
fn a_promoted_server_behind_a_name_serves_no_reads() {
    let servers = Replicated::start(&[&[], &[]]);
    let both = servers.standbys.iter().map(|standby| (standby.host(), standby.port()));
    let way = Way::in_turn(&both.collect::<Vec<_>>());
    let gateway = servers.gateway(&[way.url("postgres")], &[]);
    let (client, endpoint) = (gateway.client(), secondary(&gateway));
    insert(&client, "r").expect(201);
    wait_until_live(&endpoint);
    wait_until("it arrives", || get(&endpoint, "r").status == 200);
    read_at_once(&gateway, "r", 200);
    servers.standbys[1].promote();
    let promoted = servers.standbys[1].session();
    promoted.run("SELECT FROM table_service.insert_entity('Things', 'p', 'branch', '{}')");
    // An earlier answer of the server counts for a second.
    std::thread::sleep(Duration::from_millis(1500));
    read_at_once(&gateway, "branch", 404);
    read_at_once(&gateway, "r", 200);
}

#[test]
fn reads_go_on_while_the_primary_is_away() {
    let servers = Replicated::start(&[&[]]);
    let gateway = servers.gateway(&[servers.url(0)], &[]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    insert(&client, "r").expect(201);
    wait_until_live(&secondary);
    wait_until("it arrives", || get(&secondary, "r").status == 200);
    servers.primary.kill();
    for _ in 0..20 {
        read(&secondary, "r", 200);
        secondary.get("Things?comp=acl").expect(200);
    }
    wait_until("writes are busy", || insert(&client, "s").status == 503);
    let (status, moment) = stats(&secondary);
    assert_eq!(status, "live");
    assert!(moment.is_some());
    gateway.admin("/ready").expect(200);
    servers.primary.start_again();
    wait_until("writes succeed again", || insert(&client, "s").status == 201);
    wait_until("the time goes on", || stats(&secondary).1 > moment);
}

#[test]
fn what_is_no_standby_of_the_primary_serves_nothing() {
    let servers = Replicated::start(&[&[], &[]]);
    let other = Database::new();
    let urls = [
        servers.url(0),
        servers.url(1),
        url(other.cluster(), other.name(), "postgres"),
    ];
    let gateway = servers.gateway(&urls, &[]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    insert(&client, "r").expect(201);
    wait_until("both serve", || {
        serves(&gateway, &urls[0]) && serves(&gateway, &urls[1])
    });
    gateway.waits_for_log("it is not in recovery, so it is no standby");
    assert!(!serves(&gateway, &urls[2]));
    // The second one follows the first one, which follows the primary.
    servers.standbys[1].follow(servers.standbys[0].host(), servers.standbys[0].port());
    let session = servers.standbys[0].session();
    wait_until("it follows", || {
        session.text("SELECT count(*) FROM pg_stat_replication") == "1"
    });
    wait_until("both serve", || {
        serves(&gateway, &urls[0]) && serves(&gateway, &urls[1])
    });
    // It is promoted although the primary lives.
    servers.standbys[0].promote();
    wait_until("it is out", || !serves(&gateway, &urls[0]));
    // One that follows it has another timeline than the primary now.
    wait_until("it is out too", || !serves(&gateway, &urls[1]));
    gateway.waits_for_log("it is on timeline 2, and the primary on timeline 1");
    is_busy(&get(&secondary, "r"));
    assert_eq!(stats(&secondary), ("unavailable".to_owned(), None));
}

#[test]
fn one_that_is_further_behind_than_allowed_serves_nothing() {
    let servers = Replicated::start(&[&[]]);
    let gateway = servers.gateway(&[servers.url(0)], &["--max-staleness", "2"]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    wait_until_live(&secondary);
    let session = servers.standbys[0].session();
    session.run("SELECT pg_wal_replay_pause()");
    let mut number = 0;
    wait_until("it is too far behind", || {
        number += 1;
        insert(&client, &number.to_string()).expect(201);
        stats(&secondary).0 == "unavailable"
    });
    is_busy(&get(&secondary, "1"));
    gateway.waits_for_log("it is further behind than max_staleness");
    session.run("SELECT pg_wal_replay_resume()");
    wait_until_live(&secondary);
    read(&secondary, "1", 200);
}

#[test]
fn a_conflict_with_recovery_is_repeated_and_then_busy() {
    let settings: &[&str] = &["max_standby_streaming_delay = 0", "hot_standby_feedback = off"];
    let servers = Replicated::start(&[settings]);
    let gateway = servers.gateway(&[servers.url(0)], &[]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    for row in 0..200 {
        insert(&client, &row.to_string()).expect(201);
    }
    wait_until_live(&secondary);
    wait_until("it arrives", || get(&secondary, "199").status == 200);
    let session = servers.primary.session();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each takes a lock that readers on the standby are in the way of.
            while !is_over.load(Ordering::Relaxed) {
                session.run("BEGIN; LOCK TABLE table_service_data.\"Things\" IN ACCESS EXCLUSIVE MODE; COMMIT");
            }
        });
        let standby = servers.standbys[0].session();
        let conflicts = "SELECT sum(confl_lock + confl_snapshot + confl_bufferpin) > 0 FROM pg_stat_database_conflicts";
        let read = || {
            let answer = secondary.get("Things()?$filter=X%20eq%201");
            assert!([200, 503].contains(&answer.status), "{}", answer.text());
        };
        for _ in 0..300 {
            read();
        }
        wait_until("a query is cancelled", || {
            read();
            standby.text(conflicts) == "t"
        });
        is_over.store(true, Ordering::Relaxed);
    });
    // It was not lost over this.
    servers.standbys[0].catches_up(&session);
    read(&secondary, "1", 200);
}

#[test]
fn a_read_that_is_always_in_the_way_is_busy() {
    let settings: &[&str] = &["max_standby_streaming_delay = 0", "hot_standby_feedback = off"];
    let servers = Replicated::start(&[settings]);
    let standby = &servers.standbys[0];
    let session = servers.primary.session();
    session.run("SELECT FROM table_service.insert_entity('Things', 'p', 'r', '{}')");
    // Reads of this role take long, and others take locks all the time.
    session.run("CREATE ROLE reader LOGIN IN ROLE pg_read_all_stats");
    session.run("GRANT SELECT ON table_service_data.\"Things\" TO reader");
    session.run("ALTER TABLE table_service_data.\"Things\" ENABLE ROW LEVEL SECURITY");
    session.run("CREATE POLICY slow ON table_service_data.\"Things\" USING (pg_sleep(2) IS NOT NULL)");
    let url = socket_url(&[(standby.host(), standby.port())], "postgres", "reader");
    let gateway = servers.gateway(&[url], &[]);
    let secondary = secondary(&gateway);
    wait_until_live(&secondary);
    wait_until("it arrives", || get(&secondary, "r").status == 200);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                session.run("BEGIN; LOCK TABLE table_service_data.\"Things\" IN ACCESS EXCLUSIVE MODE; COMMIT");
            }
        });
        let answer = get(&secondary, "r");
        is_over.store(true, Ordering::Relaxed);
        is_busy(&answer);
    });
    gateway.waits_for_log("PostgreSQL: 40001 canceling statement due to conflict with recovery");
    // The standby was not lost over this.
    standby.catches_up(&session);
    read(&secondary, "r", 200);
}

#[test]
fn the_primary_executes_one_statement_a_second() {
    let servers = Replicated::start(&[&[]]);
    let gateway = servers.gateway(&[servers.url(0)], &["--expiry-interval", "0"]);
    let secondary = secondary(&gateway);
    wait_until_live(&secondary);
    // New connections are also looked at, so the gateway already has one for its own work.
    insert(&gateway.client(), "r").expect(201);
    servers.set("log_statement = 'all'");
    let session = servers.primary.session();
    let now = || -> f64 {
        let text = session.text("SELECT extract(epoch FROM clock_timestamp())");
        text.parse().unwrap()
    };
    let looks = || {
        let log = servers.primary.log();
        let statements = log.lines().filter(|line| line.contains("pg_current_wal_insert_lsn"));
        statements.count()
    };
    wait_until("they are logged", || looks() > 0);
    let (begin, before) = (now(), looks());
    wait_until("there are some more", || {
        // These look at the standby only.
        stats(&secondary);
        looks() >= before + 5
    });
    let (after, end) = (looks(), now());
    assert!((after - before) as f64 <= end - begin + 1.0);
}

#[test]
fn a_standby_whose_library_has_another_version_serves_nothing() {
    let servers = Replicated::start(&[&[], &[]]);
    let urls = [servers.url(0), servers.url(1)];
    let gateway = servers.gateway(&urls, &[]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    insert(&client, "r").expect(201);
    wait_until("both serve", || urls.iter().all(|url| serves(&gateway, url)));
    wait_until("it arrives", || get(&secondary, "r").status == 200);
    // The functions are those of a library that only the primary has: one standby has an older file, and the other one has none.
    let session = servers.primary.session();
    let files = session.text("SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'");
    let own = servers.standbys.iter().map(Standby::host);
    for (directory, library) in std::iter::once(servers.primary.host())
        .chain(own)
        .zip(["table_service.so", "plpgsql.so"])
    {
        std::os::unix::fs::symlink(
            format!("{files}/{library}"),
            format!("{directory}/table_service_new.so"),
        )
        .unwrap();
    }
    servers.set(&format!("dynamic_library_path = '$libdir:{}'", servers.primary.host()));
    for standby in &servers.standbys {
        standby.set(&format!("dynamic_library_path = '$libdir:{}'", standby.host()));
        standby.session().run("SELECT pg_reload_conf()");
    }
    session.run(
        "SET allow_system_table_mods = on; \
         UPDATE pg_proc SET probin = 'table_service_new' WHERE probin = 'table_service'",
    );
    wait_until("both are out", || urls.iter().all(|url| !serves(&gateway, url)));
    for text in [
        "could not find function",
        "could not access file",
        "the standby serves no reads",
        "its files of the extension table_service do not fit its database",
    ] {
        gateway.waits_for_log(text);
    }
    is_busy(&get(&secondary, "r"));
    assert_eq!(stats(&secondary), ("unavailable".to_owned(), None));
    get(&client, "r").expect(200);
    insert(&client, "s").expect(201);

    // The files are installed there.
    for standby in &servers.standbys {
        let library = format!("{}/table_service_new.so", standby.host());
        let _ = std::fs::remove_file(&library);
        std::os::unix::fs::symlink(format!("{files}/table_service.so"), library).unwrap();
    }
    wait_until("both serve", || urls.iter().all(|url| serves(&gateway, url)));
    wait_until("it is read", || get(&secondary, "s").status == 200);
}

#[test]
fn a_standby_whose_database_has_another_version_serves_nothing() {
    let servers = Replicated::start(&[&[], &[]]);
    let urls = [servers.url(0), servers.url(1)];
    // They have not replayed yet that the extension was updated, and one of them not even that it was created.
    let session = servers.primary.session();
    for (standby, change) in servers.standbys.iter().zip([
        "UPDATE pg_extension SET extversion = '1.0.0' WHERE extname = 'table_service'",
        "UPDATE pg_extension SET extname = 'other' WHERE extname = 'table_service'",
    ]) {
        session.run(&format!("SET allow_system_table_mods = on; {change}"));
        standby.catches_up(&session);
        pause(&standby.session());
    }
    session.run(
        "SET allow_system_table_mods = on; \
         UPDATE pg_extension SET extname = 'table_service', extversion = '0.3.0' WHERE extname = 'other'",
    );
    let gateway = servers.gateway(&urls, &[]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    insert(&client, "r").expect(201);
    for problem in [
        "the database has version 1.0.0 of the extension table_service",
        "the database lacks the extension table_service",
    ] {
        gateway.waits_for_log(problem);
    }
    assert!(urls.iter().all(|url| !serves(&gateway, url)));
    is_busy(&get(&secondary, "r"));
    for standby in &servers.standbys {
        standby.session().run("SELECT pg_wal_replay_resume()");
    }
    wait_until("both serve", || urls.iter().all(|url| serves(&gateway, url)));
    wait_until("it arrives", || get(&secondary, "r").status == 200);
}

#[test]
fn another_database_or_another_system_serves_nothing() {
    let servers = Replicated::start(&[&[]]);
    let others = Replicated::start(&[&[]]);
    let session = servers.primary.session();
    session.run("CREATE DATABASE other");
    let standby = &servers.standbys[0];
    let other_database = socket_url(&[(standby.host(), standby.port())], "other", "postgres");
    let other = servers.primary.try_session("other", "postgres", "other").unwrap();
    other.run("CREATE EXTENSION table_service");
    other.run("SELECT table_service.create_table('Things')");
    other.run("SELECT FROM table_service.insert_entity('Things', 'p', 'r', '{}')");
    let urls = [other_database, others.url(0)];
    let gateway = servers.gateway(&urls, &[]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    gateway.waits_for_log("its URL names another database than database_url");
    gateway.waits_for_log("it is no copy of the primary: another system_identifier");
    assert!(urls.iter().all(|url| !serves(&gateway, url)));
    is_busy(&get(&secondary, "r"));
    assert_eq!(stats(&secondary), ("unavailable".to_owned(), None));
    get(&client, "r").expect(404);
}

#[test]
fn what_is_revoked_ends_at_once() {
    let servers = Replicated::start(&[&[]]);
    let gateway = servers.gateway(&[servers.url(0)], &[]);
    let (client, secondary) = (gateway.client(), secondary(&gateway));
    wait_until_live(&secondary);
    wait_until("it arrives", || secondary.get("Things?comp=acl").status == 200);
    pause(&servers.standbys[0].session());
    let document = "<SignedIdentifiers><SignedIdentifier><Id>one</Id></SignedIdentifier></SignedIdentifiers>";
    client
        .send(
            "PUT",
            "Things?comp=acl",
            &[("Content-Type", "application/xml")],
            document.as_bytes(),
        )
        .expect(204);
    let policies = |endpoint: &Client| endpoint.get("Things?comp=acl").expect(200).text().to_owned();
    assert!(policies(&client).contains("<Id>one</Id>"));
    // If the primary takes long to answer, the standby is asked.
    wait_until("the primary is asked", || policies(&secondary) == policies(&client));
    // While the primary is away, they are as old as the standby.
    servers.primary.kill();
    wait_until("the standby is asked", || {
        let answer = secondary.get("Things?comp=acl");
        answer.status == 200 && !answer.text().contains("<Id>one</Id>")
    });
}

#[test]
fn standbys_of_a_database_of_citus_serve_nothing() {
    let servers = Replicated::start(&[&[]]);
    let urls = [servers.url(0)];
    let gateway = servers.gateway(&urls, &[]);
    let secondary = secondary(&gateway);
    wait_until_live(&secondary);
    // All that the gateway asks is whether this extension is there.
    servers.primary.session().run(
        "SET allow_system_table_mods = on; \
         INSERT INTO pg_extension SELECT 99999, 'citus', extowner, extnamespace, false, '1', NULL, NULL \
             FROM pg_extension WHERE extname = 'plpgsql'",
    );
    gateway.waits_for_log("the database is distributed by Citus");
    wait_until("it is out", || !serves(&gateway, &urls[0]));
    is_busy(&secondary.get("Tables"));
    let primary = servers.primary_url();
    let arguments = ["--database-url", &primary, "--secondary-url", &urls[0]];
    let output = program(&arguments).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("cannot have a secondary_url") && text.contains("distributed by Citus"),
        "{text}"
    );
}

#[test]
fn standbys_beside_nodes_are_refused_at_the_start() {
    let (one, two, three) = (
        "postgres://localhost/a",
        "postgres://localhost/b",
        "postgres://localhost/c",
    );
    for (arguments, problem) in [
        (
            vec!["--database-url", one, "--database-url", two, "--secondary-url", three],
            "nodes of a distributed database",
        ),
        (
            vec!["--database-url", one, "--secondary-url", one],
            "names the database of database_url",
        ),
        (
            vec!["--database-url", one, "--secondary-url", two, "--secondary-url", two],
            "names a standby twice",
        ),
    ] {
        let output = program(&arguments).output().unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("secondary_url") && text.contains(problem), "{text}");
    }
}
