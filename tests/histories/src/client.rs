//! Operations as HTTP requests and SQL statements.

use std::collections::{BTreeMap, HashMap};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

use raw_http::{Answer, Connection};
use serde_json::Value;
use system_tests::{Failure, Session};

use crate::faults::Service;
use crate::history::{Operation, Outcome, Seen};
use crate::model::{Condition, Key, Kind, Properties, Refusal, Timestamp, VERSION, Write, WriteId};
use crate::workload::TABLE;

/// The ETags that a client knows, by the write that made the version.
#[derive(Default)]
struct Etags(HashMap<WriteId, String>);

impl Etags {
    fn learn(&mut self, id: WriteId, etag: &str) -> Timestamp {
        self.0.insert(id, etag.to_owned());
        Timestamp::of_etag(etag)
    }

    fn if_match(&self, write: &Write) -> &str {
        match write.condition {
            Condition::AnyVersion => "*",
            Condition::Version(id) => &self.0[&id],
        }
    }
}

/// A client of one of the two interfaces.
pub enum Client<'s> {
    Http(Http<'s>),
    Sql(Box<Sql<'s>>),
}

impl Client<'_> {
    /// Waits until the service can be reached.
    pub fn prepare(&mut self) {
        match self {
            Client::Http(http) => http.prepare(),
            Client::Sql(sql) => sql.prepare(),
        }
    }

    /// Carries out an operation. `slowly` holds its locks for some milliseconds, where the interface can.
    pub fn perform(&mut self, partition: &str, operation: &Operation, slowly: bool) -> Outcome {
        match self {
            Client::Http(http) => http.perform(partition, operation),
            Client::Sql(sql) => sql.perform(partition, operation, slowly),
        }
    }
}

/// A client of one of the gateways.
pub struct Http<'s> {
    service: &'s Service,
    gateway: usize,
    etags: Etags,
    /// The connection of the request that runs, so that a fault can cut it.
    socket: &'s Mutex<Option<TcpStream>>,
}

impl<'s> Http<'s> {
    pub fn new(service: &'s Service, gateway: usize, socket: &'s Mutex<Option<TcpStream>>) -> Http<'s> {
        Http {
            service,
            gateway,
            etags: Etags::default(),
            socket,
        }
    }

    fn prepare(&self) {
        wait(|| {
            let answer = self.send("GET", &format!("{TABLE}(PartitionKey='none',RowKey='none')"), &[], "");
            answer.is_some_and(|answer| answer.status == 404)
        });
    }

    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Option<Answer> {
        let client = self.service.http(self.gateway)?;
        let mut connection = Connection::try_open(client.address).ok()?;
        *self.socket.lock().unwrap() = connection.socket().ok();
        connection.write(&client.request(method, target, headers, body.as_bytes()));
        let answer = connection.answer();
        *self.socket.lock().unwrap() = None;
        answer
    }

    fn perform(&mut self, partition: &str, operation: &Operation) -> Outcome {
        match operation {
            Operation::Write(writes) => match &writes[..] {
                [write] => self.write(partition, write),
                writes => self.batch(partition, writes),
            },
            Operation::Get(key) => {
                let Some(answer) = self.read(&entity(partition, *key)) else {
                    return Outcome::Unknown;
                };
                match answer.status {
                    404 => Outcome::Found(BTreeMap::new()),
                    _ => self.found(&[answer.json()]),
                }
            }
            Operation::Query => {
                let target = format!("{TABLE}()?$filter=PartitionKey%20eq%20'{partition}'");
                match self.read(&target) {
                    Some(answer) if answer.header("x-ms-continuation-NextPartitionKey").is_none() => {
                        let json = answer.json();
                        self.found(json["value"].as_array().unwrap())
                    }
                    _ => Outcome::Unknown,
                }
            }
        }
    }

    fn read(&self, target: &str) -> Option<Answer> {
        let answer = self.send(
            "GET",
            target,
            &[("Accept", "application/json;odata=minimalmetadata")],
            "",
        )?;
        match answer.status {
            200 | 404 => Some(answer),
            500 | 503 => None,
            _ => panic!("GET {target}: {} {}", answer.status, answer.text()),
        }
    }

    fn found(&mut self, entities: &[Value]) -> Outcome {
        let seen = entities.iter().map(|entity| {
            let properties: Properties = ["a", "b", VERSION]
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), entity.get(name)?.as_u64()?)))
                .collect();
            let timestamp = self
                .etags
                .learn(properties[VERSION], entity["odata.etag"].as_str().unwrap());
            (
                number(entity["RowKey"].as_str().unwrap()),
                Seen { properties, timestamp },
            )
        });
        Outcome::Found(seen.collect())
    }

    fn write(&mut self, partition: &str, write: &Write) -> Outcome {
        let (method, target, if_match, body) = self.request(partition, write);
        let mut headers = vec![("Content-Type", "application/json"), ("Prefer", "return-no-content")];
        if let Some(if_match) = &if_match {
            headers.push(("If-Match", if_match));
        }
        let Some(answer) = self.send(method, &target, &headers, &body) else {
            return Outcome::Unknown;
        };
        match answer.status {
            204 => Outcome::Written(vec![answer.header("ETag").map(|etag| self.etags.learn(write.id, etag))]),
            _ => failed(answer.status, &answer.body, 0),
        }
    }

    /// Method, resource, If-Match and body of a write.
    fn request(&self, partition: &str, write: &Write) -> (&'static str, String, Option<String>, String) {
        let body = format!(
            r#"{{"PartitionKey":"{partition}","RowKey":"k{}","{VERSION}":{id},"{}":{id}}}"#,
            write.key,
            write.property,
            id = write.id
        );
        let target = entity(partition, write.key);
        let if_match = Some(self.etags.if_match(write).to_owned());
        match write.kind {
            Kind::Insert => ("POST", TABLE.to_owned(), None, body),
            Kind::Replace => ("PUT", target, if_match, body),
            Kind::Merge => ("PATCH", target, if_match, body),
            Kind::InsertOrReplace => ("PUT", target, None, body),
            Kind::InsertOrMerge => ("PATCH", target, None, body),
            Kind::Delete => ("DELETE", target, if_match, String::new()),
        }
    }

    fn batch(&mut self, partition: &str, writes: &[Write]) -> Outcome {
        let part = |write: &Write| {
            let (method, target, if_match, body) = self.request(partition, write);
            let if_match = if_match.map(|tag| format!("If-Match: {tag}\r\n")).unwrap_or_default();
            format!(
                "--changes\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                 {method} {target} HTTP/1.1\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n{if_match}\r\n{body}\r\n"
            )
        };
        let parts: String = writes.iter().map(part).collect();
        let body = format!(
            "--batch\r\nContent-Type: multipart/mixed; boundary=changes\r\n\r\n{parts}--changes--\r\n--batch--\r\n"
        );
        let headers = [("Content-Type", "multipart/mixed; boundary=batch")];
        let Some(answer) = self.send("POST", "$batch", &headers, &body) else {
            return Outcome::Unknown;
        };
        if answer.status != 202 {
            return failed(answer.status, &answer.body, 0);
        }
        let parts: Vec<&str> = answer.text().split("HTTP/1.1 ").skip(1).collect();
        let status = |part: &str| -> u16 { part[..3].parse().unwrap() };
        match parts[..] {
            [part] if status(part) >= 400 => {
                let body = part.split_once("\r\n\r\n").unwrap().1.split("\r\n--").next().unwrap();
                failed(status(part), body.as_bytes(), writes.len())
            }
            _ => {
                assert_eq!(parts.len(), writes.len(), "{}", answer.text());
                let etag = |part: &&str| {
                    part.lines()
                        .find_map(|line| line.strip_prefix("ETag: "))
                        .map(str::to_owned)
                };
                let etags = parts.iter().map(etag).zip(writes);
                Outcome::Written(
                    etags
                        .map(|(etag, write)| Some(self.etags.learn(write.id, &etag?)))
                        .collect(),
                )
            }
        }
    }
}

/// An error of the service. A batch names one of its `operations`.
fn failed(status: u16, body: &[u8], operations: usize) -> Outcome {
    let text = String::from_utf8_lossy(body);
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let (code, message) = (&json["odata.error"]["code"], &json["odata.error"]["message"]["value"]);
    match code.as_str() {
        Some("ServerBusy" | "OperationTimedOut") => Outcome::Unknown,
        Some(code) => refused(code, message.as_str().unwrap_or_default(), operations),
        None => panic!("{status} {text}"),
    }
}

fn refused(code: &str, message: &str, operations: usize) -> Outcome {
    let refusal = match code {
        "EntityAlreadyExists" => Refusal::EntityAlreadyExists,
        "ResourceNotFound" => Refusal::ResourceNotFound,
        "UpdateConditionNotSatisfied" => Refusal::UpdateConditionNotSatisfied,
        _ => panic!("{code}: {message}"),
    };
    let index = match operations {
        0 => 0,
        _ => message.split(':').next().unwrap().parse().unwrap(),
    };
    Outcome::Refused(index, refusal)
}

fn entity(partition: &str, key: Key) -> String {
    format!("{TABLE}(PartitionKey='{partition}',RowKey='k{key}')")
}

fn number(row_key: &str) -> Key {
    row_key[1..].parse().unwrap()
}

fn wait(mut condition: impl FnMut() -> bool) {
    system_tests::wait_until("the service can be reached", || {
        let is_true = condition();
        if !is_true {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_true
    });
}

/// How Citus says that it lost a server, where it has no SQLSTATE for this.
const SERVER_WAS_LOST: [&str; 3] = [
    "could not commit transaction for shard ",
    "postmaster was shut down",
    "server closed the connection unexpectedly",
];

/// A session of PostgreSQL.
pub struct Sql<'s> {
    service: &'s Service,
    number: usize,
    session: Option<Session>,
    etags: Etags,
    /// Whether it patches instead of merging, and works by filter where a write has no condition.
    by_filter: bool,
}

impl<'s> Sql<'s> {
    /// `number` chooses the server, and the functions that are called.
    pub fn new(service: &'s Service, number: usize) -> Sql<'s> {
        Sql {
            service,
            number,
            session: None,
            etags: Etags::default(),
            by_filter: number % 2 == 1,
        }
    }

    fn prepare(&mut self) {
        wait(|| {
            let is_alive = |session: &Session| session.sql("SET search_path = table_service").is_ok();
            if !self.session.as_ref().is_some_and(is_alive) {
                self.session = self.service.try_session(self.number).ok();
            }
            self.session.as_ref().is_some_and(is_alive)
        });
    }

    fn perform(&mut self, partition: &str, operation: &Operation, slowly: bool) -> Outcome {
        let mut sql = match operation {
            Operation::Write(writes) => match &writes[..] {
                [write] => self.write(partition, write),
                writes => self.batch(partition, writes),
            },
            Operation::Get(key) => {
                format!("SELECT row_key, etag(e), properties FROM get_entity('{TABLE}', '{partition}', 'k{key}') AS e")
            }
            Operation::Query => format!(
                "SELECT row_key, etag(e), properties FROM query_entities('{TABLE}', 'PartitionKey eq ''{partition}''') AS e"
            ),
        };
        if slowly {
            // Both statements are one transaction.
            sql.push_str("; SELECT FROM (SELECT pg_catalog.pg_sleep(0.003)) AS s");
        }
        let mut rows = match self.session.as_ref().unwrap().sql(&sql) {
            Ok(rows) => rows,
            Err(failure) => return self.failed(&failure, operation),
        };
        rows.retain(|row| !row.is_empty());
        let text = |row: &[Option<String>], column: usize| row[column].clone();
        match operation {
            // Work by filter returns how many entities it has found.
            Operation::Write(_) if rows.iter().any(|row| row[0].as_deref() == Some("0")) => {
                Outcome::Refused(0, Refusal::ResourceNotFound)
            }
            Operation::Write(writes) => {
                // A single delete returns a boolean, and work by filter a number.
                let etags = rows
                    .iter()
                    .map(|row| text(row, 0).filter(|etag| etag.starts_with("W/")));
                Outcome::Written(
                    etags
                        .zip(writes)
                        .map(|(etag, write)| Some(self.etags.learn(write.id, &etag?)))
                        .collect(),
                )
            }
            _ => {
                let seen = rows.iter().map(|row| {
                    let properties: Properties = serde_json::from_str(&text(row, 2).unwrap()).unwrap();
                    let timestamp = self.etags.learn(properties[VERSION], &text(row, 1).unwrap());
                    (number(&text(row, 0).unwrap()), Seen { properties, timestamp })
                });
                Outcome::Found(seen.collect())
            }
        }
    }

    fn failed(&mut self, failure: &Failure, operation: &Operation) -> Outcome {
        let operations = match operation {
            Operation::Write(writes) if writes.len() > 1 => writes.len(),
            _ => 0,
        };
        match failure.sqlstate.as_str() {
            "23505" | "P0002" | "40002" => {
                let (code, message) = failure.message.split_once(": ").unwrap();
                refused(code, message, operations)
            }
            "40001" | "40P01" => Outcome::RolledBack,
            sqlstate if sqlstate.starts_with("57P") || sqlstate.starts_with("08") => Outcome::Unknown,
            // Citus lost a server.
            "XX000" if SERVER_WAS_LOST.iter().any(|begin| failure.message.starts_with(begin)) => Outcome::Unknown,
            _ => panic!("{operation:?}: {failure:?}"),
        }
    }

    fn write(&self, partition: &str, write: &Write) -> String {
        let keys = format!("'{TABLE}', '{partition}', 'k{}'", write.key);
        let (bag, if_match) = (bag(write), self.etags.if_match(write).replace('\'', "''"));
        if self.by_filter {
            let filter = format!("'PartitionKey eq ''{partition}'' and RowKey eq ''k{}'''", write.key);
            match (write.kind, write.condition) {
                (Kind::Merge, Condition::AnyVersion) => {
                    return format!("SELECT update_entities('{TABLE}', {filter}, {bag})");
                }
                (Kind::Delete, Condition::AnyVersion) => {
                    return format!("SELECT delete_entities('{TABLE}', {filter})");
                }
                (Kind::Merge, Condition::Version(_)) => {
                    return format!("SELECT etag(patch_entity({keys}, {bag}, if_match => '{if_match}'))");
                }
                (Kind::InsertOrMerge, _) => {
                    return format!("SELECT etag(patch_entity({keys}, {bag}, create_missing => true))");
                }
                _ => {}
            }
        }
        match write.kind {
            Kind::Insert => format!("SELECT insert_entity({keys}, {bag})"),
            Kind::Replace => format!("SELECT replace_entity({keys}, {bag}, '{if_match}')"),
            Kind::Merge => format!("SELECT merge_entity({keys}, {bag}, '{if_match}')"),
            Kind::InsertOrReplace => format!("SELECT insert_or_replace_entity({keys}, {bag})"),
            Kind::InsertOrMerge => format!("SELECT insert_or_merge_entity({keys}, {bag})"),
            Kind::Delete => format!("SELECT delete_entity({keys}, '{if_match}')"),
        }
    }

    fn batch(&self, partition: &str, writes: &[Write]) -> String {
        let operation = |write: &Write| {
            let (key, bag) = (write.key, bag(write));
            let if_match = self.etags.if_match(write).replace('\'', "''");
            match write.kind {
                Kind::Merge if self.by_filter => format!("batch_patch('k{key}', {bag}, if_match => '{if_match}')"),
                Kind::InsertOrMerge if self.by_filter => {
                    format!("batch_patch('k{key}', {bag}, create_missing => true)")
                }
                Kind::Insert => format!("batch_insert('k{key}', {bag})"),
                Kind::Replace => format!("batch_replace('k{key}', {bag}, '{if_match}')"),
                Kind::Merge => format!("batch_merge('k{key}', {bag}, '{if_match}')"),
                Kind::InsertOrReplace => format!("batch_insert_or_replace('k{key}', {bag})"),
                Kind::InsertOrMerge => format!("batch_insert_or_merge('k{key}', {bag})"),
                Kind::Delete => format!("batch_delete('k{key}', '{if_match}')"),
            }
        };
        let operations: Vec<String> = writes.iter().map(operation).collect();
        format!(
            "SELECT etag FROM execute_batch('{TABLE}', '{partition}', {}) ORDER BY index",
            operations.join(", ")
        )
    }
}

fn bag(write: &Write) -> String {
    format!(r#"'{{"{VERSION}": {id}, "{}": {id}}}'"#, write.property, id = write.id)
}
