//! Load over HTTP: signed requests on connections that stay open, against one or more servers of the Table service's protocol in
//! turn. Written for `cargo xtask bench gateway`, which starts the servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use futures_util::future::join_all;
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use raw_http::{ACCOUNT, Answer, Client, Incoming};
use serde_json::json;
use table_service_benches::process::processor_seconds;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Entities of the partition that is read.
const PAGE: usize = 1000;
/// Entities of the table in which `find` looks.
const FOUND: usize = 10_000;
/// Operations of a batch.
const BATCH: usize = 100;

#[derive(Parser)]
struct Options {
    /// A server by a name, and its process to show the CPU time of a request: ours=127.0.0.1:10002,PID
    #[arg(long = "server", required = true, value_parser = server)]
    servers: Vec<Server>,
    /// How long each measurement takes
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How many times all servers are measured, in turn; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
    connections: Vec<usize>,
    /// Only this operation [default: all]
    #[arg(long)]
    work: Vec<Operation>,
    /// The databases behind our servers, for a property index on the emails of the table in which `find` looks
    #[arg(long = "database-url")]
    database_urls: Vec<String>,
    /// Print JSON, too
    #[arg(long)]
    json: bool,
}

#[derive(Clone)]
struct Server {
    name: String,
    address: String,
    process: Option<u32>,
}

impl Server {
    /// The CPU time that its process has used.
    fn cpu_seconds(&self) -> Option<f64> {
        processor_seconds(self.process?).ok()
    }
}

fn server(text: &str) -> Result<Server, String> {
    let (name, rest) = text.split_once('=').ok_or("it is NAME=HOST:PORT[,PID]")?;
    let (address, process) = match rest.split_once(',') {
        Some((address, process)) => (address, Some(process.parse().map_err(|_| "the process is a number")?)),
        None => (rest, None),
    };
    Ok(Server {
        name: name.to_owned(),
        address: address.to_owned(),
        process,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Operation {
    Get,
    Find,
    Page,
    Insert,
    Replace,
    Merge,
    Batch,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Get => "point get",
            Operation::Find => "email of 1 in 10,000",
            Operation::Replace => "replace with If-Match",
            Operation::Merge => "merge",
            Operation::Page => "page of 1000 entities",
            Operation::Batch => "batch of 100 inserts",
        }
    }
}

fn properties(number: usize) -> String {
    format!(
        "\"FirstName\":\"Don\",\"LastName\":\"Hall {number}\",\"Email\":\"don.hall{number}@contoso.com\",\"Age\":{},\"Score\":{}.5,\"Active\":true,\
         \"Visits@odata.type\":\"Edm.Int64\",\"Visits\":\"{number}\",\"Id@odata.type\":\"Edm.Guid\",\"Id\":\"c9da6455-213d-42c9-9a79-3e9149a57833\"",
        number % 90,
        number % 10,
    )
}

/// A connection that stays open.
struct Connection {
    client: Client,
    stream: TcpStream,
    incoming: Incoming,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Connection {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Connection {
            client: Client::new(address.parse().unwrap()),
            stream,
            incoming: Incoming::default(),
            buffer: vec![0; 65536],
        }
    }

    async fn succeed(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let all: Vec<(&str, &str)> = [ACCEPT, VERSION].into_iter().chain(headers.iter().copied()).collect();
        let request = self.client.request(method, target, &all, body.as_bytes());
        self.stream.write_all(&request).await.unwrap();
        let answer = loop {
            if let Some(answer) = self.incoming.answer() {
                break answer;
            }
            let length = self.stream.read(&mut self.buffer).await.unwrap();
            assert!(length > 0, "{method} {target}: the server has hung up");
            self.incoming.add(&self.buffer[..length]);
        };
        assert!(
            answer.status < 300,
            "{method} {target}: {}",
            String::from_utf8_lossy(&answer.body)
        );
        answer
    }
}

const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=minimalmetadata");
const VERSION: (&str, &str) = ("DataServiceVersion", "3.0");
const JSON: (&str, &str) = ("Content-Type", "application/json");
const QUIET: (&str, &str) = ("Prefer", "return-no-content");

/// A table with a partition of so many entities.
async fn prepare(address: &str, table: &str, entities: usize) {
    let mut connection = Connection::open(address).await;
    let body = format!("{{\"TableName\":\"{table}\"}}");
    connection.succeed("POST", "Tables", &[JSON], &body).await;
    for begin in (0..entities).step_by(BATCH) {
        batch(&mut connection, table, "read", begin..begin + BATCH).await;
    }
}

async fn batch(connection: &mut Connection, table: &str, partition: &str, numbers: std::ops::Range<usize>) {
    let mut body = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n".to_owned();
    for number in numbers {
        body.push_str(&format!(
            "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             POST http://{}/{ACCOUNT}/{table} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\n\
             Prefer: return-no-content\r\nDataServiceVersion: 3.0;\r\n\r\n{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{number:08}\",{}}}\r\n",
            connection.client.host,
            properties(number)
        ));
    }
    body.push_str("--changeset_1--\r\n--batch_1--\r\n");
    let headers = [("Content-Type", "multipart/mixed; boundary=batch_1")];
    let answer = connection.succeed("POST", "$batch", &headers, &body).await;
    assert!(!answer.text().contains("odata.error\""), "{}", answer.text());
}

/// Sends the requests of one connection until `end`; notes the microseconds of each.
async fn run(
    address: &str,
    table: &str,
    operation: Operation,
    partition: &str,
    end: Instant,
    times: &RefCell<Histogram<u64>>,
) {
    let mut connection = Connection::open(address).await;
    let mut random = SmallRng::from_rng(&mut rand::rng());
    let mut number = 0;
    let own = format!("{table}(PartitionKey='{partition}',RowKey='own')");
    let etag_of = |answer: Answer| answer.header("etag").map(str::to_owned);
    let mut etag = None;
    if matches!(operation, Operation::Replace | Operation::Merge) {
        let body = format!("{{{}}}", properties(0));
        etag = etag_of(connection.succeed("PUT", &own, &[JSON], &body).await);
    }
    while Instant::now() < end {
        number += 1;
        let begin = Instant::now();
        match operation {
            Operation::Insert => {
                let body = format!(
                    "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{number:08}\",{}}}",
                    properties(number)
                );
                connection.succeed("POST", table, &[JSON, QUIET], &body).await;
            }
            Operation::Get => {
                let row = random.random_range(0..PAGE);
                let target = format!("{table}(PartitionKey='read',RowKey='{row:08}')");
                connection.succeed("GET", &target, &[], "").await;
            }
            Operation::Find => {
                let row = random.random_range(0..FOUND);
                let filter = format!("{table}Found()?$filter=Email%20eq%20'don.hall{row}@contoso.com'");
                connection.succeed("GET", &filter, &[], "").await;
            }
            Operation::Replace => {
                let tag = etag.take().unwrap();
                let body = format!("{{{}}}", properties(number));
                let headers = [JSON, ("If-Match", &tag)];
                etag = etag_of(connection.succeed("PUT", &own, &headers, &body).await);
            }
            Operation::Merge => {
                let body = format!("{{\"Age\":{}}}", number % 90);
                connection
                    .succeed("MERGE", &own, &[JSON, ("If-Match", "*")], &body)
                    .await;
            }
            Operation::Page => {
                let filter = format!("{table}()?$filter=PartitionKey%20eq%20'read'");
                connection.succeed("GET", &filter, &[], "").await;
            }
            Operation::Batch => {
                let begin = number * BATCH;
                batch(&mut connection, table, partition, begin..begin + BATCH).await;
            }
        }
        let time = u64::try_from(begin.elapsed().as_micros()).unwrap();
        times.borrow_mut().record(time).unwrap();
    }
}

/// The gateway has no request for this.
async fn create_index(url: &str, table: &str) -> Result<(), table_service_benches::Error> {
    let client = table_service_benches::session::connect(url).await?;
    let sql = "SELECT table_service.create_property_index($1, 'Email')";
    client.execute(sql, &[&table]).await?;
    Ok(())
}

/// Waits some seconds at most until no server works for itself: azurite stores entities some time after they came.
async fn settle(servers: &[Server]) {
    /// How long they are watched at a time.
    const WHILE: Duration = Duration::from_millis(200);
    let cpu = || -> f64 { servers.iter().filter_map(Server::cpu_seconds).sum() };
    for _ in 0..25 {
        let before = cpu();
        tokio::time::sleep(WHILE).await;
        if cpu() - before < WHILE.as_secs_f64() / 10.0 {
            return;
        }
    }
}

struct Figure {
    rate: f64,
    median: f64,
    p99: f64,
    /// CPU time of the server's process for a request, in microseconds.
    cpu: Option<f64>,
}

async fn measure(
    server: &Server,
    table: &str,
    operation: Operation,
    connections: usize,
    round: usize,
    seconds: f64,
) -> Figure {
    let cpu_before = server.cpu_seconds();
    let begin = Instant::now();
    let end = begin + Duration::from_secs_f64(seconds);
    let times = RefCell::new(Histogram::<u64>::new(3).unwrap());
    let clients = (0..connections).map(|number| {
        let partition = format!("w{}-{connections}-{round}-{number}", operation as usize);
        let times = &times;
        async move { run(&server.address, table, operation, &partition, end, times).await }
    });
    join_all(clients).await;
    let times = times.into_inner();
    Figure {
        rate: times.len() as f64 / begin.elapsed().as_secs_f64(),
        median: times.value_at_quantile(0.5) as f64 / 1000.0,
        p99: times.value_at_quantile(0.99) as f64 / 1000.0,
        cpu: server
            .cpu_seconds()
            .zip(cpu_before)
            .map(|(after, before)| (after - before) * 1e6 / times.len() as f64),
    }
}

/// All connections are served by one thread, as those of other load generators are: threads that wait for each other would take
/// processor time from the servers.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = Options::parse();
    let servers = options.servers;
    let table = format!("Bench{}", std::process::id());
    let finds = options.work.is_empty() || options.work.contains(&Operation::Find);
    for Server { address, .. } in &servers {
        prepare(address, &table, PAGE).await;
        if finds {
            prepare(address, &format!("{table}Found"), FOUND).await;
        }
    }
    for url in options.database_urls.iter().filter(|_| finds) {
        let created = create_index(url, &format!("{table}Found")).await;
        created.expect("the index is created");
    }
    let operations = match options.work.as_slice() {
        [] => Operation::value_variants(),
        chosen => chosen,
    };
    let mut figures: BTreeMap<(Operation, usize, usize), Vec<Figure>> = BTreeMap::new();
    // One operation after the other, reads first: the work that writes leave behind is not counted for reads.
    for &operation in operations {
        for round in 0..options.rounds {
            for &connections in &options.connections {
                for (index, server) in servers.iter().enumerate() {
                    settle(&servers).await;
                    let figure = measure(server, &table, operation, connections, round, options.seconds).await;
                    figures.entry((operation, connections, index)).or_default().push(figure);
                }
            }
        }
    }
    let medians: BTreeMap<(Operation, usize, usize), Figure> = figures
        .into_iter()
        .map(|(key, mut rounds)| {
            rounds.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            (key, rounds.swap_remove(rounds.len() / 2))
        })
        .collect();
    println!(
        "{:<24} {:>5}  {:<10} {:>12} {:>12} {:>12} {:>8} {:>8}",
        "work", "conn.", "server", "requests/s", "median ms", "p99 ms", "CPU µs", "ratio"
    );
    let last = servers.len() - 1;
    let mut report = Vec::new();
    for (&(operation, connections, index), figure) in &medians {
        let Figure { rate, median, p99, cpu } = figure;
        let name = &servers[index].name;
        report.push(json!({"work": operation.name(), "connections": connections, "server": name, "rate": rate, "median_ms": median, "p99_ms": p99, "cpu_us": cpu}));
        // To the server that is named last.
        let ratio = match index {
            _ if index == last => String::new(),
            _ => format!("{:.2}", rate / medians[&(operation, connections, last)].rate),
        };
        let cpu = cpu.map(|cpu| format!("{cpu:.0}")).unwrap_or_default();
        println!(
            "{:<24} {connections:>5}  {name:<10} {rate:>12.1} {median:>12.3} {p99:>12.3} {cpu:>8} {ratio:>8}",
            operation.name(),
        );
    }
    if options.json {
        println!("{}", json!({ "http": report }));
    }
}
