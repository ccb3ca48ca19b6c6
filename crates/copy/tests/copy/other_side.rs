//! The other side is hostile: a service or a database that answers whatever it likes. The copy ends, says why, shows no
//! character that a terminal obeys, and stays within the memory that the guide names.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::program::{command, connection_string, ends_with, file, quietly, text};

/// The figure of `docs/guide/move.md` for the default of `--concurrency`, in KiB.
const MEMORY_KIB: u64 = 384 << 10;

type Handler = dyn Fn(&str, usize, &mut dyn Write) -> std::io::Result<()> + Send + Sync;

/// A server that hands each connection to a function, with the first line of each request and its number.
struct Service {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
}

impl Service {
    fn start(handler: impl Fn(&str, usize, &mut dyn Write) -> std::io::Result<()> + Send + Sync + 'static) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let (handler, ended): (Arc<Handler>, _) = (Arc::new(handler), ends.clone());
        let count = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (handler, count) = (handler.clone(), count.clone());
                std::thread::spawn(move || requests(client, &*handler, &count));
            }
        });
        Service { address, ends }
    }

    fn argument(&self) -> String {
        connection_string(self.address)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn requests(client: TcpStream, handler: &Handler, count: &AtomicUsize) -> Option<()> {
    client.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let mut writer = client;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).ok()? == 0 {
            return None;
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        handler(first.trim(), count.fetch_add(1, Ordering::Relaxed), &mut writer).ok()?;
    }
}

fn answer(to: &mut dyn Write, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n");
    to.write_all(&[head.as_bytes(), body.as_bytes()].concat())
}

/// Runs a copy to its end. Returns its status, its messages, and the most memory that it had, in KiB.
fn watched(arguments: &[&str]) -> (Option<i32>, String, u64) {
    let mut child = command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status_file = format!("/proc/{}/status", child.id());
    let mut streams: [Box<dyn Read + Send>; 2] = [
        Box::new(child.stdout.take().unwrap()),
        Box::new(child.stderr.take().unwrap()),
    ];
    let readers = streams.each_mut().map(|stream| {
        let mut stream = std::mem::replace(stream, Box::new(std::io::empty()));
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            bytes
        })
    });
    let mut most = 0;
    let status = loop {
        // The peak of a process is kept by the system, so looking now and then is enough.
        let text = std::fs::read_to_string(&status_file).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(peak.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let said: Vec<u8> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
    (status.code(), String::from_utf8(said).unwrap(), most)
}

/// A copy from a service ends with an error that says this, within the memory.
#[track_caller]
fn refused(service: &Service, more: &[&str], says: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (to, from) = (directory.path().join("out"), service.argument());
    let (status, said, most) = watched(&quietly(&from, text(&to), more));
    assert!(status == Some(1) && said.contains(says), "{status:?} {said}");
    assert!(most < MEMORY_KIB, "{most} KiB: {said}");
    assert!(
        said.chars().all(|c| c == '\n' || !c.is_control()) && said.len() < 10_000,
        "{said:?}"
    );
}

const ORDERS: &[&str] = &["--table", "Orders", "--concurrency", "1"];

#[test]
fn lists_of_tables_end() {
    let endless = Service::start(|_, number, to| {
        let names: Vec<String> = (0..1000)
            .map(|i| format!("{{\"TableName\":\"T{number}x{i}\"}}"))
            .collect();
        let next = format!("x-ms-continuation-NextTableName: n{number}\r\n");
        answer(to, 200, &next, &format!("{{\"value\":[{}]}}", names.join(",")))
    });
    refused(&endless, &[], "more than 100000; name those to read with --table");
    let again = Service::start(|_, number, to| {
        let next = format!("x-ms-continuation-NextTableName: n{number}\r\n");
        answer(to, 200, &next, "{\"value\":[{\"TableName\":\"Orders\"}]}")
    });
    refused(&again, &[], "the same page comes again and again");
    let empty = Service::start(|_, number, to| {
        answer(
            to,
            200,
            &format!("x-ms-continuation-NextTableName: n{number}\r\n"),
            "{\"value\":[]}",
        )
    });
    refused(&empty, &[], "1000 pages in turn have no entity");
}

#[test]
fn names_of_tables_are_checked() {
    for name in [
        "x\\\",\\\"y\\\":\\\"",
        "../../etc/passwd",
        "\\u001b[31mred\\u0007",
        "\\u009b2J",
        "",
        "Ünders",
    ] {
        let service = Service::start(move |_, _, to| {
            answer(to, 200, "", &format!("{{\"value\":[{{\"TableName\":\"{name}\"}}]}}"))
        });
        refused(&service, &[], "is no name of a table");
    }
    let said = ends_with(
        2,
        &quietly("UseDevelopmentStorage=true", "./out", &["--table", "a\"b\u{1b}"]),
    );
    assert!(
        said.contains("InvalidResourceName") && !said.contains('\u{1b}'),
        "{said}"
    );
}

#[test]
fn pages_end() {
    let pages = |page: fn(usize) -> (String, String)| {
        Service::start(move |_, number, to| {
            let (token, items) = page(number);
            let next = format!("x-ms-continuation-NextPartitionKey: {token}\r\n");
            answer(to, 200, &next, &format!("{{\"value\":[{items}]}}"))
        })
    };
    for (page, says) in [
        // The same token for ever, two in turn, pages without an entity for ever, the same page for ever.
        (
            (|number| {
                (
                    "same".to_owned(),
                    format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{number}\"}}"),
                )
            }) as fn(usize) -> (String, String),
            "Orders: the same continuation token comes again and again",
        ),
        (
            |number| {
                let items = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{number}\"}}");
                (format!("t{}", number % 2), items)
            },
            "the same continuation token comes again and again",
        ),
        (
            |number| (format!("t{number}"), String::new()),
            "1000 pages in turn have no entity",
        ),
        (
            |number| {
                (
                    format!("t{number}"),
                    "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}".to_owned(),
                )
            },
            "the same page comes again and again",
        ),
        (|_| ("x".repeat(100_000), String::new()), "a continuation token has"),
    ] {
        refused(&pages(page), ORDERS, says);
    }
    // Where a copy finds its key ranges.
    let empty = pages(|number| (format!("t{number}"), String::new()));
    refused(&empty, &["--table", "Orders"], "1000 pages in turn have no entity");
}

#[test]
fn a_page_has_a_largest_size() {
    let numbers =
        Service::start(|_, _, to| answer(to, 200, "", &format!("{{\"value\":[1{}]}}", ",1".repeat(1_500_000))));
    refused(&numbers, ORDERS, "a page has more than 1000 items");
    let largest = Arc::new(Mutex::new(Vec::new()));
    let asked = largest.clone();
    let endless = Service::start(move |request, number, to| {
        if number == 0 {
            // For the clock.
            return answer(to, 200, "", "{\"value\":[]}");
        }
        asked.lock().unwrap().push(request.to_owned());
        to.write_all(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        // It ends when the client closes the connection.
        loop {
            to.write_all(format!("10000\r\n{}\r\n", "[".repeat(0x10000)).as_bytes())?;
        }
    });
    refused(&endless, ORDERS, "an answer is larger than 4 MiB");
    // It was asked for fewer entities before.
    let asked = largest.lock().unwrap();
    for top in ["top=64 ", "top=16 ", "top=4 ", "top=1 "] {
        assert!(asked.iter().any(|request| request.contains(top)), "{asked:?}");
    }
    drop(asked);
    let deep = Service::start(|_, _, to| answer(to, 200, "", &"[{\"value\":".repeat(100_000)));
    refused(&deep, ORDERS, "an answer cannot be read");
    let no_entities = Service::start(|_, _, to| answer(to, 200, "", "{\"value\":[1,2,3]}"));
    refused(&no_entities, ORDERS, "--rejects FILE");
}

#[test]
fn what_a_service_says_is_shown_harmlessly() {
    for body in [
        "{\"odata.error\":{\"code\":\"\\u001b[31mBad\",\"message\":{\"value\":\"\\u0007\\u009b2J\\u202e\"}}}",
        "<Error><Code>Bad\u{1b}]0;x\u{7}</Code><Message>\u{1b}[2J</Message></Error>",
    ] {
        let service = Service::start(move |_, _, to| answer(to, 400, "", body));
        refused(&service, ORDERS, "Bad");
    }
    let long = Service::start(|_, _, to| {
        let message = "x".repeat(3_000_000);
        answer(
            to,
            400,
            "",
            &format!("{{\"odata.error\":{{\"code\":\"Bad\",\"message\":{{\"value\":\"{message}\"}}}}}}"),
        )
    });
    refused(&long, ORDERS, "Bad");
}

/// It answers 404 and 409 in turn.
#[test]
fn an_entity_that_is_there_and_not_there_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(
        &directory,
        "Orders.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Timestamp\":\"2026-01-01T00:00:00Z\"}\n",
    );
    let service = Service::start(|request, _, to| {
        let error = |code: &str| format!("{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"value\":\"\"}}}}}}");
        match request {
            request if request.starts_with("GET") => answer(to, 404, "", &error("ResourceNotFound")),
            request if request.contains("/Tables") => answer(to, 201, "", "{}"),
            _ => answer(to, 409, "", &error("EntityAlreadyExists")),
        }
    });
    let to = service.argument();
    let said = ends_with(1, &quietly(text(&begin), &to, &["--on-conflict", "newer"]));
    assert!(
        said.contains("tried 20 times") && said.contains("EntityAlreadyExists"),
        "{said}"
    );
}

/// A signature for one table is none for the list of tables.
#[test]
fn a_signature_of_one_table_is_enough() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let asked = seen.clone();
    let service = Service::start(move |request, _, to| {
        asked.lock().unwrap().push(request.to_owned());
        if request.contains("/Orders()?") && request.contains("sig=x") {
            return answer(
                to,
                200,
                "Date: Wed, 25 Nov 2026 12:00:00 GMT\r\n",
                "{\"value\":[{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}]}",
            );
        }
        let error = "{\"odata.error\":{\"code\":\"AuthorizationFailure\",\"message\":{\"value\":\"no\"}}}";
        answer(to, 403, "", error)
    });
    let endpoint = format!("http://{}/account", service.address);
    for (from, more) in [
        (
            format!("TableEndpoint={endpoint};SharedAccessSignature=sv=1&sig=x"),
            &["--table", "Orders"][..],
        ),
        (
            format!("TableEndpoint={endpoint};SharedAccessSignature=sv=1&tn=Orders&sig=x"),
            &[],
        ),
        (format!("{endpoint}?sv=1&sig=x"), &["--table", "Orders"]),
        (format!("{endpoint}/?sv=1&tn=Orders&sig=x"), &[]),
        (format!("{endpoint}/Orders?sv=1&sig=x"), &[]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("out");
        ends_with(0, &quietly(&from, text(&to), more));
        ends_with(0, &[&["verify"], quietly(text(&to), &from, more).as_slice()].concat());
        assert!(to.join("Orders.jsonl").exists(), "{from}");
    }
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|request| request.contains("/Orders()?")), "{seen:?}");
}

#[test]
fn what_a_database_says_is_shown_harmlessly() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let from = format!("postgresql://role:secret@{}/d", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        assert!(client.read(&mut [0; 4096]).unwrap() > 0);
        let fields = b"SFATAL\0VFATAL\0C28000\0M\x1b[31mred\x07\xc2\x9b2J\0\0";
        let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
        client.write_all(&[b"E".as_slice(), &length, fields].concat()).unwrap();
    });
    let directory = tempfile::tempdir().unwrap();
    let said = ends_with(1, &quietly(&from, text(&directory.path().join("out")), &[]));
    assert!(said.contains("red"), "{said}");
    assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
}
