//! Databases that are away, start, or lose their connections: the copy waits for them, and nothing is lost.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::net;
use system_tests::{Database, wait_until};

use crate::entities::lines;
use crate::program::{End, database_url, ends_with, file, quietly, start, succeeds, text, verifying};

/// The fate of a connection.
#[derive(Clone, Copy)]
enum Fate {
    Closed,
    StartingUp,
    /// It breaks after so many bytes of both directions.
    Cut(usize),
}

/// A way to the server of the tests that has these faults, one for each connection, and none after them.
struct Way {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// No connection passes any more.
    is_closed: Arc<AtomicBool>,
}

fn server() -> UnixStream {
    let cluster = system_tests::Cluster::shared();
    UnixStream::connect(format!("{}/.s.PGSQL.{}", cluster.host(), cluster.port())).unwrap()
}

impl Way {
    fn with(fates: &'static [Fate]) -> Way {
        Way::on(TcpListener::bind("127.0.0.1:0").unwrap(), fates)
    }

    fn on(listener: TcpListener, fates: &'static [Fate]) -> Way {
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = is_closed.clone();
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let number = counted.fetch_add(1, Ordering::Relaxed);
                let fate = fates.get(number).copied();
                let closed = closed.clone();
                std::thread::spawn(move || forward(client, fate, closed));
            }
        });
        Way {
            address,
            connections,
            is_closed,
        }
    }

    fn url(&self, database: &system_tests::Database) -> String {
        format!("postgresql://postgres@{}/{}", self.address, database.name())
    }
}

fn forward(mut client: TcpStream, fate: Option<Fate>, is_closed: Arc<AtomicBool>) {
    let most = match fate {
        _ if is_closed.load(Ordering::Relaxed) => return,
        Some(Fate::Closed) => return,
        Some(Fate::StartingUp) => {
            let _ = client.read(&mut [0; 4096]);
            let fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
            let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
            let _ = client.write_all(&[b"E".as_slice(), &length, fields].concat());
            return;
        }
        Some(Fate::Cut(bytes)) => bytes,
        None => usize::MAX,
    };
    let server = server();
    let passed = Arc::new(AtomicUsize::new(0));
    let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (counted, closed) = (passed.clone(), is_closed.clone());
    std::thread::spawn(move || {
        pass(&from_client, &to_server, &counted, most, &closed);
        let _ = from_client.shutdown(Shutdown::Both);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    pass(&server, &client, &passed, most, &is_closed);
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn pass(mut from: impl Read, mut to: impl Write, passed: &AtomicUsize, most: usize, is_closed: &AtomicBool) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if is_closed.load(Ordering::Relaxed) {
            return;
        }
        if passed.fetch_add(length, Ordering::Relaxed) > most || to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

/// Connections are made in an order that depends on nothing but the program, with one reader and one writer.
const ONE: &[&str] = &["--concurrency", "1"];

#[test]
fn a_source_that_is_away_is_waited_for() {
    const FATES: &[Fate] = &[
        Fate::Closed,
        Fate::StartingUp,
        Fate::StartingUp,
        Fate::Cut(100),
        Fate::Cut(8000),
        Fate::Cut(100_000),
        Fate::Cut(100_000),
        Fate::Cut(0),
        Fate::Cut(100_000),
        Fate::Cut(100_000),
    ];
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(41, 4000));
    let End::Sql(database) = End::of("sql") else {
        unreachable!()
    };
    succeeds(&quietly(text(&begin), &database_url(&database), &[]));
    let way = Way::with(FATES);
    let to = End::of("jsonl");
    let said = succeeds(&quietly(&way.url(&database), &to.argument(), ONE));
    assert!(
        way.connections.load(Ordering::Relaxed) > 6,
        "there were few faults: {said}"
    );
    assert!(said.contains("The source was away for a while"), "{said}");
    let said = succeeds(&verifying(text(&begin), &to.argument(), &[]));
    assert!(said.contains("equal, 4000 entities"), "{said}");
    let End::Directory(written, _) = &to else {
        unreachable!()
    };
    let written = std::fs::read_to_string(written.path().join("Nasty.jsonl")).unwrap();
    assert_eq!(written.lines().count(), 4000, "no entity comes twice");
}

#[test]
fn a_target_that_is_away_is_waited_for() {
    const FATES: &[Fate] = &[
        Fate::Closed,
        Fate::StartingUp,
        Fate::Cut(100),
        Fate::Cut(2000),
        Fate::Cut(100_000),
        Fate::StartingUp,
        Fate::Cut(100_000),
        Fate::Cut(10_000),
        Fate::Closed,
    ];
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(42, 4000));
    let End::Sql(database) = End::of("sql") else {
        unreachable!()
    };
    let way = Way::with(FATES);
    let said = succeeds(&quietly(text(&begin), &way.url(&database), ONE));
    assert!(
        way.connections.load(Ordering::Relaxed) > 6,
        "there were few faults: {said}"
    );
    let said = succeeds(&verifying(text(&begin), &database_url(&database), &[]));
    assert!(said.contains("equal, 4000 entities"), "{said}");
}

#[test]
fn a_server_that_does_not_listen_yet_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(43, 100));
    let End::Sql(database) = End::of("sql") else {
        unreachable!()
    };
    // A port that is bound and refuses connections.
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let server = TcpListener::from(socket);
    let address = server.local_addr().unwrap();
    let url = format!("postgresql://postgres@{address}/{}", database.name());
    let mut child = start(&quietly(text(&begin), &url, &[]));
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it did not wait");
    net::listen(&server, 128).unwrap();
    let _way = Way::on(server, &[]);
    assert!(child.wait().unwrap().success());
    succeeds(&verifying(text(&begin), &database_url(&database), &[]));
}

#[test]
fn the_servers_of_a_url_are_tried_in_turn() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(45, 100));
    let End::Sql(database) = End::of("sql") else {
        unreachable!()
    };
    // It takes connections and says nothing.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let (deaf, way) = (deaf.local_addr().unwrap(), Way::with(&[]));
    let url = format!(
        "postgresql://postgres@{deaf},{}/{}?connect_timeout=5",
        way.address,
        database.name()
    );
    succeeds(&quietly(text(&begin), &url, &["--concurrency", "1"]));
    succeeds(&verifying(text(&begin), &database_url(&database), &[]));
    let standbys = format!("{url}&target_session_attrs=read-only");
    let said = ends_with(1, &quietly(text(&begin), &standbys, &["--retry-for", "0"]));
    assert!(
        said.contains(&format!("{deaf},{}", way.address)) && said.contains("not read only"),
        "{said}"
    );
}

/// A lasting error is said at once, although the program waits up to an hour for one that passes.
#[test]
fn what_does_not_pass_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(44, 10));
    let End::Sql(database) = End::of("sql") else {
        unreachable!()
    };
    let url = database_url(&database);
    for (wrong, says) in [
        (url.replace(database.name(), "no_such_database"), "no_such_database"),
        (url.replace("postgres@", "no_such_role@"), "no_such_role"),
    ] {
        let said = ends_with(1, &quietly(text(&begin), &wrong, &[]));
        assert!(said.contains(says), "{said}");
        let said = ends_with(1, &quietly(&wrong, text(&directory.path().join("out")), &[]));
        assert!(said.contains(says), "{said}");
    }
}

/// It would be asked again for an hour.
#[test]
fn what_follows_a_database_that_is_away_ends_when_it_is_told() {
    let (source, near, far) = (Database::new(), Database::new(), Database::new());
    let session = source.session("writer");
    session.run("SET search_path = public, table_service; SELECT create_table('Orders')");
    session.run("SELECT create_change_feed('f', '{Orders}')");
    session.run("SELECT insert_entity('Orders', 'p', 'r', '{}')");
    let (from, to) = (Way::with(&[]), Way::with(&[]));
    let (from_url, to_url) = (from.url(&source), to.url(&far));
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("changes");
    let follow = |from: &str, to: &str| start(&quietly(from, to, &["--on-conflict", "replace", "--follow", "0"]));
    let changes = [
        "changes",
        "--from",
        &from_url,
        "--feed",
        "f",
        "--to",
        text(&lines),
        "--follow",
        "0.1",
    ];
    let mut ended = [
        (follow(&from_url, &database_url(&near)), Some(130)),
        (follow(&database_url(&source), &to_url), Some(130)),
        (start(&changes), Some(0)),
    ];
    for target in [&near, &far] {
        let copied = target.session("reader");
        wait_until("it is copied", || {
            copied
                .sql("SELECT count(*) FROM table_service_data.\"Orders\"")
                .is_ok_and(|rows| rows[0][0].as_deref() == Some("1"))
        });
    }
    wait_until("the change is written", || {
        std::fs::read_to_string(&lines).is_ok_and(|lines| lines.contains("insert"))
    });
    for way in [&from, &to] {
        way.is_closed.store(true, Ordering::Relaxed);
    }
    // A change, so that the writer to the target also tries to connect.
    session.run("SELECT insert_entity('Orders', 'p', 's', '{}')");
    let tries = || {
        (
            from.connections.load(Ordering::Relaxed),
            to.connections.load(Ordering::Relaxed),
        )
    };
    let before = tries();
    wait_until("they try again", || {
        let now = tries();
        now.0 > before.0 + 1 && now.1 > before.1
    });
    for (child, _) in &ended {
        let kill = std::process::Command::new("kill").arg(child.id().to_string()).status();
        assert!(kill.unwrap().success());
    }
    for (child, status) in &mut ended {
        wait_until("it ends", || child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), *status);
    }
    session.run("SELECT count(drop_change_feed(feed_name)) FROM query_change_feeds()");
}
