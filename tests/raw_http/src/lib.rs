//! A client of the REST protocol that shows every byte. It signs as an SDK does, and otherwise sends the given bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use table_service_model::access::{Account, AccountKey, SignedRequest};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

pub const ACCOUNT: &str = "devstoreaccount1";
pub const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The response to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// The phrase behind it.
    pub reason: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// An error in JSON: its status, its code, and how its message begins.
    #[track_caller]
    pub fn fails_with(&self, status: u16, code: &str, message: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        let json = self.json();
        let error = &json["odata.error"];
        assert_eq!(error["code"], code, "{json}");
        let value = error["message"]["value"].as_str().unwrap();
        let end = format!("\nRequestId:{}\nTime:", self.header("x-ms-request-id").unwrap());
        let (before, after) = value.split_once(&end).unwrap_or_else(|| panic!("{value}"));
        assert!(after.len() == "2026-01-01T00:00:00.0000000Z".len(), "{after}");
        assert!(before.starts_with(message), "{before}");
    }
}

/// A client of one account.
#[derive(Debug, Clone)]
pub struct Client {
    pub address: SocketAddr,
    pub account: Account,
    /// The value of the Host header.
    pub host: String,
    /// The path before the resource.
    pub prefix: String,
    pub lite: bool,
}

pub fn account(name: &str, key: &str) -> Account {
    Account::new(name, vec![AccountKey::parse(key).unwrap()]).unwrap()
}

pub fn http_date(at: OffsetDateTime) -> String {
    at.format(&Rfc2822).unwrap().replace("+0000", "GMT")
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        Client {
            address,
            account: account(ACCOUNT, KEY),
            host: address.to_string(),
            prefix: format!("/{ACCOUNT}"),
            lite: false,
        }
    }

    /// Signs and sends a request. `target` is the path behind the account, and the query.
    pub fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.exchange(&self.request(method, target, headers, body))
    }

    pub fn get(&self, target: &str) -> Answer {
        self.send(
            "GET",
            target,
            &[("Accept", "application/json;odata=minimalmetadata")],
            b"",
        )
    }

    pub fn post(&self, target: &str, body: &str) -> Answer {
        self.send("POST", target, &[("Content-Type", "application/json")], body.as_bytes())
    }

    /// The bytes of a signed request.
    pub fn request(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let target = format!("{}/{target}", self.prefix);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let date = http_date(OffsetDateTime::now_utc());
        let given = |name: &str| {
            let found = headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
            found.map_or("", |(_, value)| *value)
        };
        let date = match given("x-ms-date") {
            "" => date,
            given => given.to_owned(),
        };
        let signed = SignedRequest {
            verb: method,
            content_md5: given("content-md5"),
            content_type: given("content-type"),
            date: &date,
            path,
            comp: query.split('&').find_map(|pair| pair.strip_prefix("comp=")),
        };
        let authorization = signed.authorization(&self.account, self.lite);
        let length = body.len().to_string();
        let own = [
            ("Host", self.host.as_str()),
            ("x-ms-date", &date),
            ("x-ms-version", "2019-02-02"),
            ("Authorization", &authorization),
            ("Content-Length", &length),
        ];
        let is_given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let own = own.into_iter().filter(|(name, _)| !is_given(name));
        let all: Vec<(&str, &str)> = own.chain(headers.iter().copied()).collect();
        raw(method, &target, &all, body)
    }

    /// Sends bytes on a connection of their own and reads one answer.
    pub fn exchange(&self, bytes: &[u8]) -> Answer {
        let mut connection = Connection::open(self.address);
        connection.write(bytes);
        connection
            .answer()
            .unwrap_or_else(|| panic!("no answer: {}", connection.end()))
    }
}

/// Sends bytes as a client that reads only when the server has taken all of them.
pub fn send_all_then_read(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut connection = Connection::open(address);
    connection.stream.write_all(bytes).unwrap();
    connection.answer().unwrap()
}

/// The bytes of a request, without any change.
pub fn raw(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    for (name, value) in headers {
        for piece in [name, ": ", value, "\r\n"] {
            bytes.extend_from_slice(piece.as_bytes());
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// The bytes that a server has sent and nobody has taken yet.
#[derive(Default)]
pub struct Incoming(Vec<u8>);

impl Incoming {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next answer, if all of it is there.
    pub fn answer(&mut self) -> Option<Answer> {
        loop {
            let begin = find(&self.0, b"\r\n\r\n")? + 4;
            let mut answer = head(&self.0[..begin]);
            let end = if answer.status == 100 {
                begin
            } else if answer.header("transfer-encoding").is_some() {
                begin + chunks(&self.0[begin..], &mut answer.body)?
            } else {
                let length = answer.header("content-length");
                let end = begin + length.map_or(0, |length| length.parse().unwrap());
                answer.body = self.0.get(begin..end)?.to_vec();
                end
            };
            self.0.drain(..end);
            if answer.status != 100 {
                return Some(answer);
            }
        }
    }
}

/// An answer without its body.
fn head(bytes: &[u8]) -> Answer {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut lines = text.trim_end().split("\r\n");
    let mut status_line = lines.next().unwrap().splitn(3, ' ').skip(1);
    Answer {
        status: status_line.next().unwrap().parse().unwrap(),
        reason: status_line.next().unwrap_or_default().to_owned(),
        headers: lines
            .map(|line| {
                let (name, value) = line.split_once(':').unwrap();
                (name.to_owned(), value.trim().to_owned())
            })
            .collect(),
        body: Vec::new(),
    }
}

/// A body in chunks, without extensions and trailers; how long it was with them.
fn chunks(bytes: &[u8], body: &mut Vec<u8>) -> Option<usize> {
    let mut begin = 0;
    loop {
        let rest = &bytes[begin..];
        let line = find(rest, b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap().trim(), 16).unwrap();
        let chunk = rest.get(line + 2..line + 2 + length + 2)?;
        begin += line + 2 + length + 2;
        if length == 0 {
            return Some(begin);
        }
        body.extend_from_slice(&chunk[..length]);
    }
}

/// A connection, and the bytes that were read of it beyond the last answer.
pub struct Connection {
    stream: TcpStream,
    incoming: Incoming,
    /// The error that ended it.
    error: Option<std::io::Error>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Connection {
        Connection::try_open(address).unwrap()
    }

    /// The same with a server that may be away.
    pub fn try_open(address: SocketAddr) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            incoming: Incoming::default(),
            error: None,
        })
    }

    /// The socket, with which somebody else can end the connection.
    pub fn socket(&self) -> std::io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Writes as much as the other side takes: it may have hung up.
    pub fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub fn finish_writing(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Whether the other side, before its answer, asks for the body that it was promised.
    pub fn continues(&mut self) -> bool {
        loop {
            if let Some(end) = find(&self.incoming.0, b"\r\n\r\n") {
                let continues = self.incoming.0.starts_with(b"HTTP/1.1 100 ");
                if continues {
                    self.incoming.0.drain(..end + 4);
                }
                return continues;
            }
            if self.more().is_none() {
                return false;
            }
        }
    }

    /// The next answer; `None` if the connection ends before it.
    pub fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(answer) = self.incoming.answer() {
                return Some(answer);
            }
            self.more()?;
        }
    }

    /// Whether the other side has ended the connection, with nothing more to read.
    pub fn is_closed(&mut self) -> bool {
        self.incoming.0.is_empty() && self.more().is_none()
    }

    /// Writes some bytes and reads at most so many (one at least), without waiting for either. Returns whether the other side still listens.
    pub fn drips(&mut self, send: &[u8], read: usize) -> bool {
        let lives = |result: std::io::Result<usize>| match result {
            Ok(length) => length > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        self.stream.set_nonblocking(true).is_ok()
            && (send.is_empty() || lives(self.stream.write(send)))
            && lives(self.stream.read(&mut vec![0; read.max(1)]))
    }

    fn more(&mut self) -> Option<()> {
        let mut buffer = [0; 65536];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => {
                    self.incoming.add(&buffer[..length]);
                    return Some(());
                }
                // A socket with a time limit is interrupted even if the process was only stopped for a moment.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer in time"),
                Err(error) => {
                    self.error = Some(error);
                    return None;
                }
            }
        }
    }

    /// How the connection ended, and the bytes before that, which were no answer.
    fn end(&self) -> String {
        let error = self
            .error
            .as_ref()
            .map_or("it was closed".to_owned(), ToString::to_string);
        format!("{error}, after {:?}", String::from_utf8_lossy(&self.incoming.0))
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
