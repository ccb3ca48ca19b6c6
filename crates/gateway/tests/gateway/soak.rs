//! All attacks at once, by three accounts and by strangers, beside a fourth account that uses the service: it gets
//! every answer, and the gateway keeps to its memory.
//!
//! `cargo xtask hostile-load` makes it last for minutes and prints the measured times. (It asserts no times.)

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use raw_http::{Client, Connection, account};
use system_tests::{Database, wait_until};

use crate::gateway::Gateway;
use crate::memory::fill;
use crate::shares::accounts;

const MIB: f64 = 1024.0 * 1024.0;
const MAX_MEMORY: f64 = 128.0;
const ACCOUNTS: [&str; 4] = ["honest", "reader", "sender", "batcher"];

/// A gateway with four accounts, each with a database of its own, with large entities in the table Things.
struct Four {
    gateway: Gateway,
    _databases: Vec<Database>,
}

impl Four {
    fn start() -> Four {
        let databases: Vec<Database> = ACCOUNTS.iter().map(|_| Database::new()).collect();
        let accounts = accounts(&ACCOUNTS, &databases);
        let file = std::env::temp_dir().join(format!("gateway-soak-{}.toml", std::process::id()));
        std::fs::write(&file, accounts).unwrap();
        let memory = MAX_MEMORY.to_string();
        // The log of a request is some hundred bytes, which the test would keep for millions of requests.
        let gateway = Gateway::start_on(
            "127.0.0.1:0",
            &[
                "--config",
                file.to_str().unwrap(),
                "--max-memory",
                &memory,
                "--pool-timeout",
                "60",
                "--log",
                "warn",
            ],
        );
        std::fs::remove_file(&file).unwrap();
        for database in &databases {
            let session = database.session("writer");
            session.run("SELECT table_service.create_table('Things')");
            fill(&session, 12);
        }
        Four {
            gateway,
            _databases: databases,
        }
    }

    fn client(&self, name: &str) -> Client {
        Client {
            account: account(name, "a2V5"),
            prefix: format!("/{name}"),
            ..self.gateway.client()
        }
    }
}

/// Connections that are opened again when the gateway has closed them.
struct Crowd {
    address: std::net::SocketAddr,
    /// The first bytes of each.
    greeting: Box<dyn Fn() -> Vec<u8>>,
    members: Vec<Option<Connection>>,
}

impl Crowd {
    fn new(address: std::net::SocketAddr, size: usize, greeting: impl Fn() -> Vec<u8> + 'static) -> Crowd {
        Crowd {
            address,
            greeting: Box::new(greeting),
            members: (0..size).map(|_| None).collect(),
        }
    }

    /// Each sends some bytes more and reads so many. A member that was cut off comes back.
    fn go_on(&mut self, send: &[u8], read: usize) {
        for member in &mut self.members {
            let connection = match member {
                Some(connection) => connection,
                None => {
                    let Ok(connection) = Connection::try_open(self.address) else {
                        continue;
                    };
                    let connection = member.insert(connection);
                    connection.write(&(self.greeting)());
                    continue;
                }
            };
            if !connection.drips(send, read) {
                *member = None;
            }
        }
    }
}

/// The attacks, each in a thread, until the test is over.
struct Load {
    over: AtomicBool,
    attacks: AtomicUsize,
}

impl Load {
    fn repeat(&self, pause: Duration, mut once: impl FnMut()) {
        while !self.over.load(Ordering::Relaxed) {
            once();
            self.attacks.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(pause);
        }
    }

    fn attack(&self, four: &Four, kind: usize) {
        let (clients, admin) = (four.gateway.client().address, four.gateway.admin);
        let [reader, sender, batcher] = ["reader", "sender", "batcher"].map(|name| four.client(name));
        let ms = Duration::from_millis;
        match kind {
            // Slow readers of large answers.
            0 => {
                let mut crowd = Crowd::new(clients, 60, move || reader.request("GET", "Things()?$top=10", &[], b""));
                self.repeat(ms(100), || crowd.go_on(b"", 2048));
            }
            // Slow senders that announce as much as a body may have.
            1 => {
                let mut crowd = Crowd::new(clients, 60, move || {
                    let request = sender.request("POST", "Things", &[("Content-Type", "application/json")], b"");
                    let text = String::from_utf8(request).unwrap();
                    text.replace("Content-Length: 0", "Content-Length: 4000000")
                        .into_bytes()
                });
                self.repeat(ms(200), || crowd.go_on(&[b' '; 512], 512));
            }
            // Half heads, of nobody.
            2 => {
                let mut crowd = Crowd::new(clients, 200, || {
                    b"GET /honest/Things() HTTP/1.1\r\nHost: h\r\n".to_vec()
                });
                self.repeat(ms(200), || crowd.go_on(b"X-Long: 0123456789\r\n", 512));
            }
            // Large batches, with a wrong and a right end.
            3 => {
                let text = "x".repeat(30_000);
                let mut number = 0;
                self.repeat(ms(50), || {
                    number += 1;
                    let parts: String = (0..100)
                        .map(|row| {
                            let body = format!(r#"{{"PartitionKey":"b{number}","RowKey":"{row}","T":"{text}"}}"#);
                            let target = format!("http://{clients}/batcher/Things");
                            format!(
                                "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                                 POST {target} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n\r\n{body}\r\n"
                            )
                        })
                        .collect();
                    let end = if number % 2 == 0 { "--c--\r\n--b--\r\n" } else { "" };
                    let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}{end}");
                    let headers = [("Content-Type", "multipart/mixed; boundary=b"), ("Accept", "application/json")];
                    four.client("batcher").send("POST", "$batch", &headers, body.as_bytes());
                });
            }
            // Whole pages of large entities that the gateway prints. The slow readers are of one of these accounts.
            4 => self.repeat(ms(20), || {
                reader.get("Things()?$top=10&$format=application/json;odata=fullmetadata");
                batcher.get("Things()?$top=3&$select=P1,P2");
            }),
            // A flood of the admin port: idle connections and names that are not its own.
            5 => {
                let mut crowd = Crowd::new(admin, 100, || b"GET /metrics HTTP/1.1\r\n".to_vec());
                self.repeat(ms(200), || {
                    crowd.go_on(b"X: y\r\n", 4096);
                    if let Ok(mut connection) = Connection::try_open(admin) {
                        connection.write(b"POST /reset HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n");
                        connection.drips(b"", 4096);
                    }
                });
            }
            // Idle connections, and requests without a right to anything.
            _ => {
                let mut crowd = Crowd::new(clients, 300, Vec::new);
                let stranger = Client {
                    account: account("honest", "d3Jvbmc="),
                    ..four.client("honest")
                };
                self.repeat(ms(100), || {
                    crowd.go_on(b"", 512);
                    stranger.get("Things()").expect(403);
                });
            }
        }
    }
}

/// One round of the honest account. Each answer is the same as without the others.
fn round(client: &Client, number: usize, times: &mut Vec<Duration>) {
    let mut timed = |method: &str, target: &str, headers: &[(&str, &str)], body: &str| {
        let begin = Instant::now();
        let mut all = vec![
            ("Accept", "application/json;odata=nometadata"),
            ("Content-Type", "application/json"),
        ];
        all.extend(headers);
        let answer = client.send(method, target, &all, body.as_bytes());
        times.push(begin.elapsed());
        answer
    };
    let entity = format!("Things(PartitionKey='q',RowKey='{number}')");
    let body = format!(r#"{{"PartitionKey":"q","RowKey":"{number}","N":{number}}}"#);
    timed("POST", "Things", &[("Prefer", "return-no-content")], &body).expect(204);
    timed("POST", "Things", &[], &body).expect(409);
    let found = timed("GET", &entity, &[], "").expect(200);
    assert_eq!(found.json()["N"], number);
    timed("MERGE", &entity, &[("If-Match", "*")], r#"{"M":"more"}"#).expect(204);
    let found = timed(
        "GET",
        &format!("Things()?$filter=PartitionKey%20eq%20'q'%20and%20N%20eq%20{number}"),
        &[],
        "",
    )
    .expect(200);
    assert_eq!(found.json()["value"][0]["M"], "more", "{number}");
    if number.is_multiple_of(10) {
        // Nine large entities are as much as a page may have.
        let page = timed("GET", "Things()?$top=3", &[], "").expect(200);
        assert_eq!(page.json()["value"].as_array().unwrap().len(), 3);
    }
    timed("DELETE", &entity, &[("If-Match", "*")], "").expect(204);
    timed("GET", &entity, &[], "").expect(404);
}

#[test]
fn mixed_hostile_load_takes_nothing_from_another_account() {
    let minutes = std::env::var("SOAK_MINUTES")
        .ok()
        .and_then(|minutes| minutes.parse::<f64>().ok());
    let duration = Duration::from_secs_f64(minutes.map_or(10.0, |minutes| 60.0 * minutes));
    let four = Four::start();
    let honest = four.client("honest");
    honest.get("Tables").expect(200);
    let base = four.gateway.memory();
    let mut times = Vec::new();
    round(&honest, 0, &mut times);
    let load = Load {
        over: AtomicBool::new(false),
        attacks: AtomicUsize::new(0),
    };
    times.clear();
    std::thread::scope(|scope| {
        /// Ends the attacks, also after a failed assertion.
        struct End<'l>(&'l Load);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.over.store(true, Ordering::Relaxed);
            }
        }
        let end = End(&load);
        for kind in 0..7 {
            let (load, four) = (&load, &four);
            scope.spawn(move || load.attack(four, kind));
        }
        let begin = Instant::now();
        let mut number = 0;
        while begin.elapsed() < duration {
            number += 1;
            round(&honest, number, &mut times);
        }
        drop(end);
    });
    let most = four.gateway.most_memory();
    assert!(most <= base + 1.25 * MAX_MEMORY * MIB, "{base}, then {most}");
    wait_until("free memory goes back to the system", || {
        four.gateway.memory() <= base + 64.0 * MIB
    });
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "{} answers of the honest account, all right: median {:?}, 99 of 100 within {:?}, slowest {:?}; {} rounds of attacks; \
         memory of the gateway: {:.0} MiB before, at most {:.0} MiB, {:.0} MiB afterwards",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        load.attacks.load(Ordering::Relaxed),
        base / MIB,
        most / MIB,
        four.gateway.memory() / MIB
    );
}
