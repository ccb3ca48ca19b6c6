//! Our API beside hand-written SQL on the same server: each kind of work on either side in turn, several times, and the ratio
//! of the throughputs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::json;
use table_service_benches::Error;
use table_service_benches::data::{Data, HAND_WRITTEN, PARTITIONS};
use table_service_benches::load::rate;
use table_service_benches::operation::{Operation, OperationWorker, Side};
use table_service_benches::report::{Comparison, Spread};
use table_service_benches::session::connect;
use tokio_postgres::Client;

#[derive(Parser)]
#[command(args_override_self = true)]
struct Arguments {
    /// The database, as a connection string. It must be empty but for the extension.
    #[arg(long, env = "DATABASE_URL")]
    database_url: String,
    /// How many entities are in the tables
    #[arg(long, default_value_t = 1_000_000)]
    entities: u64,
    /// In how many partitions they are
    #[arg(long, default_value_t = PARTITIONS)]
    partitions: u64,
    /// How often each side is measured, in turn. Many short turns: what else the machine does then meets both sides
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// How long, in seconds, each time
    #[arg(long, default_value_t = 0.1)]
    seconds: f64,
    /// How long, in seconds, all rounds of one operation may take: long statements get fewer
    #[arg(long, default_value_t = 40.0)]
    limit: f64,
    /// How many clients work at once; several numbers for several measurements of the short operations
    #[arg(long, value_delimiter = ',', default_value = "1,4")]
    clients: Vec<usize>,
    /// Only these operations
    #[arg(long, value_delimiter = ',')]
    only: Vec<Operation>,
    /// Make the tables, and measure nothing
    #[arg(long)]
    make: bool,
    /// Count instructions instead of time, with one client, in tables that are made. The server runs under callgrind, which writes
    /// to this directory
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "make")]
    callgrind: Option<PathBuf>,
    /// A file for the results as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// How often an operation is done before its instructions are counted, and then.
const WARM_UP: u32 = 10;
const COUNTED: u32 = 20;
/// And one that is short.
const COUNTED_SHORT: u32 = 200;

impl Arguments {
    fn operations(&self) -> impl Iterator<Item = Operation> {
        let all = Operation::value_variants().iter().copied();
        all.filter(|operation| self.only.is_empty() || self.only.contains(operation))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let data = Data::new("Bench", arguments.entities, arguments.partitions);
    let indexed = Data::new("Indexed", arguments.entities, arguments.partitions);
    let control = connect(&arguments.database_url).await?;
    let version: String = control.query_one("SHOW server_version", &[]).await?.try_get(0)?;
    let buffers: String = control.query_one("SHOW shared_buffers", &[]).await?.try_get(0)?;
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    print!(
        "PostgreSQL {version}, shared_buffers {buffers}, {} entities, {processors} processors",
        data.entities
    );
    if let Some(directory) = &arguments.callgrind {
        println!();
        return count(&arguments, directory, data, indexed).await;
    }
    println!(", {} rounds of {} s", arguments.rounds, arguments.seconds);

    control.batch_execute(HAND_WRITTEN).await?;
    data.load(&control, "hand", "jsonb").await?;
    data.create(&control).await?;
    let mut lines = vec![storage(&control, data).await?];
    println!(
        "{}\n{}",
        Comparison::header(),
        lines.iter().map(Comparison::line).collect::<String>()
    );

    if arguments.make {
        return create_indexed(&control, indexed).await.map(drop);
    }
    let mut is_indexed = false;
    for operation in arguments.operations() {
        if operation.is_indexed() && !is_indexed {
            let line = create_indexed(&control, indexed).await?;
            println!("{}", line.line());
            lines.push(line);
            is_indexed = true;
        }
        let data = if operation.is_indexed() { indexed } else { data };
        for &clients in &arguments.clients {
            // Long statements keep the server busy, however many clients there are.
            if clients > 1 && !operation.is_short() {
                continue;
            }
            let line = compare(&arguments, data, operation, clients).await?;
            println!("{}", line.line());
            lines.push(line);
        }
    }

    let results: Vec<_> = lines.iter().map(Comparison::json).collect();
    let document = json!({
        "postgresql": version, "shared_buffers": buffers, "processors": processors, "entities": data.entities,
        "rounds": arguments.rounds, "seconds": arguments.seconds, "results": results,
    });
    if let Some(path) = &arguments.json {
        std::fs::write(path, format!("{document:#}\n"))?;
    }
    let missed = lines.iter().filter(|line| line.is_met() == Some(false)).count();
    println!(
        "{missed} of {} targets missed",
        lines.iter().filter(|line| line.target.is_some()).count()
    );
    Ok(())
}

/// Prints the cost of each operation in instructions of the server.
async fn count(arguments: &Arguments, directory: &Path, data: Data, indexed: Data) -> Result<(), Error> {
    println!(
        "{:<44} {:>12} {:>12}  {:>5}",
        "thousand instructions", "ours", "hand-written", "ratio"
    );
    for operation in arguments.operations() {
        let data = if operation.is_indexed() { indexed } else { data };
        let ours = instructions(arguments, directory, data, operation, Side::Ours).await?;
        let hand_written = instructions(arguments, directory, data, operation, Side::HandWritten).await?;
        println!(
            "{:<44} {:>12.1} {:>12.1}  {:>5.2}",
            operation.title(),
            ours / 1e3,
            hand_written / 1e3,
            hand_written / ours
        );
    }
    Ok(())
}

async fn instructions(
    arguments: &Arguments,
    directory: &Path,
    data: Data,
    operation: Operation,
    side: Side,
) -> Result<f64, Error> {
    // The same keys in each run, and on both sides.
    let random = SmallRng::seed_from_u64(operation as u64);
    let mut worker = OperationWorker::new(&arguments.database_url, operation, side, data, 0, random).await?;
    let instructions = worker.instructions(directory.to_owned()).await?;
    // Caches fill, and statements get their plans.
    for _ in 0..WARM_UP {
        worker.step().await?;
    }
    instructions.since_last_call()?;
    let times = if operation.is_short() { COUNTED_SHORT } else { COUNTED };
    for _ in 0..times {
        worker.step().await?;
    }
    Ok(instructions.since_last_call()? as f64 / f64::from(times))
}

/// Creates the tables with property indexes, and compares the size of the indexes.
async fn create_indexed(control: &Client, data: Data) -> Result<Comparison, Error> {
    data.load(control, "hand_indexed", "jsonb").await?;
    data.create(control).await?;
    for property in ["Name", "Age"] {
        let sql = "SELECT table_service.create_property_index($1, $2)";
        control.execute(sql, &[&data.table, &property]).await?;
    }
    // The hand-written indexes were there when the entities came, in random order. Built again, they are as dense as ours.
    control
        .batch_execute("REINDEX INDEX hand_indexed_name; REINDEX INDEX hand_indexed_age")
        .await?;
    let sql = "SELECT (SELECT sum(bytes)::float8 FROM table_service.query_property_indexes($1)),
        (pg_relation_size('hand_indexed_name') + pg_relation_size('hand_indexed_age'))::float8";
    let row = control.query_one(sql, &[&data.table]).await?;
    let (ours, hand_written): (f64, f64) = (row.try_get(0)?, row.try_get(1)?);
    let entries = 2.0 * data.entities as f64;
    Ok(Comparison {
        work: "bytes of an index per entity (fewer is better)".to_owned(),
        clients: 1,
        ours: ours / entries,
        hand_written: hand_written / entries,
        ratio: Spread::of([hand_written / ours]),
        // Deduplication stores equal values once in an index without keys.
        target: None,
    })
}

async fn storage(control: &Client, data: Data) -> Result<Comparison, Error> {
    let sql =
        "SELECT pg_total_relation_size('table_service_data.\"Bench\"')::float8, pg_total_relation_size('hand')::float8";
    let row = control.query_one(sql, &[]).await?;
    let (ours, hand_written): (f64, f64) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Comparison {
        work: "bytes on disk per entity (fewer is better)".to_owned(),
        clients: 1,
        ours: ours / data.entities as f64,
        hand_written: hand_written / data.entities as f64,
        ratio: Spread::of([hand_written / ours]),
        target: Some(1.0),
    })
}

async fn compare(arguments: &Arguments, data: Data, operation: Operation, clients: usize) -> Result<Comparison, Error> {
    let time = Duration::from_secs_f64(arguments.seconds);
    let mut ours = workers(arguments, data, operation, Side::Ours, clients).await?;
    let mut hand_written = workers(arguments, data, operation, Side::HandWritten, clients).await?;
    // Caches fill, and statements get their plans.
    let warm_up = time / 4;
    rate(&mut ours, warm_up).await?;
    rate(&mut hand_written, warm_up).await?;
    let (mut our_rates, mut hand_rates) = (Vec::new(), Vec::new());
    let start = Instant::now();
    for round in 0..arguments.rounds {
        if round > 0 && start.elapsed().as_secs_f64() > arguments.limit {
            break;
        }
        // The second side runs on the remains of the first: a larger table, dirty pages that are being written out.
        let ours_first = round % 2 == 0;
        for ours_now in [ours_first, !ours_first] {
            let (side, rates) = if ours_now {
                (&mut ours, &mut our_rates)
            } else {
                (&mut hand_written, &mut hand_rates)
            };
            rates.push(rate(side, time).await?);
        }
    }
    Ok(Comparison {
        work: operation.title().to_owned(),
        clients,
        ours: Spread::of(our_rates.iter().copied()).median,
        hand_written: Spread::of(hand_rates.iter().copied()).median,
        ratio: Spread::of(our_rates.iter().zip(&hand_rates).map(|(ours, hand)| ours / hand)),
        target: Some(operation.target()),
    })
}

async fn workers(
    arguments: &Arguments,
    data: Data,
    operation: Operation,
    side: Side,
    clients: usize,
) -> Result<Vec<OperationWorker>, Error> {
    let mut workers = Vec::new();
    for client in 0..clients as u64 {
        let random = SmallRng::from_os_rng();
        workers.push(OperationWorker::new(&arguments.database_url, operation, side, data, client, random).await?);
    }
    Ok(workers)
}
