//! What grows with the table and what does not: the same work at several sizes and numbers of partitions, in turn, and the
//! memory of a backend.

use std::time::Duration;

use clap::Parser;
use table_service_benches::Error;
use table_service_benches::data::{Data, PARTITIONS};
use table_service_benches::load;
use table_service_benches::operation::{Operation, OperationWorker, Side};
use table_service_benches::report::Spread;
use table_service_benches::session::connect;
use tokio_postgres::Client;

/// What is done at every size.
const OPERATIONS: [Operation; 6] = [
    Operation::Get,
    Operation::Insert,
    Operation::Replace,
    Operation::Merge,
    Operation::BatchJson,
    Operation::Page,
];

/// Of the throughput of the smallest table, at least, for work on one entity.
const TARGET: f64 = 0.8;

#[derive(Parser)]
struct Arguments {
    /// The database, as a connection string. It must be empty but for the extension, and on this machine
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// How many entities the largest table has; the others have a tenth and a thousandth
    #[arg(long, default_value_t = 10_000_000)]
    entities: u64,
    /// How often each is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long, in seconds, each time
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How many different filters one session runs
    #[arg(long, default_value_t = 100_000)]
    filters: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let control = connect(&arguments.database_url).await?;
    let large = arguments.entities;
    let sizes = [
        Data::new("Small", large / 1000, PARTITIONS),
        Data::new("Medium", large / 10, PARTITIONS),
        Data::new("Large", large, PARTITIONS),
    ];
    let partitions = [
        Data::new("OnePartition", large / 10, 1),
        Data::new("ManyPartitions", large / 10, large / 100),
    ];
    for data in sizes.iter().chain(&partitions) {
        eprintln!("loading {} entities in {} partitions", data.entities, data.partitions);
        data.create(&control).await?;
    }
    // What the loading left to be written is not part of the measurement.
    control.batch_execute("CHECKPOINT").await?;
    let columns = |data: &[Data], title: fn(&Data) -> String| {
        let titles: Vec<String> = data.iter().map(|data| format!("{:>16}", title(data))).collect();
        println!(
            "\n{:<44}{}   last/first min/med/max",
            "entities in a second",
            titles.concat()
        );
    };
    columns(&sizes, |data| format!("{} entities", data.entities));
    for operation in OPERATIONS {
        line(&arguments, operation, &sizes).await?;
    }
    columns(&partitions, |data| format!("{} partitions", data.partitions));
    for operation in OPERATIONS {
        line(&arguments, operation, &partitions).await?;
    }
    println!();
    memory_of_a_result(&arguments, large).await?;
    memory_of_filters(&arguments).await
}

async fn line(arguments: &Arguments, operation: Operation, tables: &[Data]) -> Result<(), Error> {
    let time = Duration::from_secs_f64(arguments.seconds);
    let mut tasks = Vec::new();
    for &data in tables {
        let mut worker = OperationWorker::new(&arguments.database_url, operation, Side::Ours, data, 0).await?;
        load::run(&mut worker, time / 4).await?;
        tasks.push((worker, Vec::new()));
    }
    for _ in 0..arguments.rounds {
        for (worker, rates) in &mut tasks {
            rates.push(load::run(worker, time).await?.entities_rate());
        }
    }
    let rates: Vec<&Vec<f64>> = tasks.iter().map(|(_, rates)| rates).collect();
    let (Some(first), Some(last)) = (rates.first(), rates.last()) else {
        return Ok(());
    };
    let ratio = Spread::of(first.iter().zip(*last).map(|(first, last)| last / first));
    let medians: Vec<String> = rates
        .iter()
        .map(|rates| format!("{:>16.1}", Spread::of(rates.iter().copied()).median))
        .collect();
    let verdict = match operation.is_short() {
        true if ratio.median >= TARGET => format!("   target {TARGET}: met"),
        true => format!("   target {TARGET}: missed"),
        false => String::new(),
    };
    println!(
        "{:<44}{}   {:.2}/{:.2}/{:.2}{verdict}",
        operation.title(),
        medians.concat(),
        ratio.min,
        ratio.median,
        ratio.max
    );
    Ok(())
}

/// The memory that a backend holds for itself, in KiB.
async fn memory(client: &Client) -> Result<u64, Error> {
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .ok_or("no RssAnon")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

async fn memory_of_a_result(arguments: &Arguments, entities: u64) -> Result<(), Error> {
    let client = connect(&arguments.database_url).await?;
    client
        .query_one("SELECT count(*) FROM table_service.query_entities('Small')", &[])
        .await?;
    let before = memory(&client).await?;
    let row = client
        .query_one("SELECT count(*) FROM table_service.query_entities('Large')", &[])
        .await?;
    let count: i64 = row.try_get(0)?;
    println!(
        "memory of a backend after query_entities over {count} of {entities} entities: {} KiB, after {} entities {before} KiB",
        memory(&client).await?,
        entities / 1000
    );
    Ok(())
}

async fn memory_of_filters(arguments: &Arguments) -> Result<(), Error> {
    let client = connect(&arguments.database_url).await?;
    let statement = client
        .prepare("SELECT count(*) FROM table_service.query_entities('Small', $1)")
        .await?;
    let warm = arguments.filters / 100;
    let mut before = 0;
    for number in 0..arguments.filters {
        if number == warm {
            before = memory(&client).await?;
        }
        let filter = format!(
            "PartitionKey eq 'p{number:06}' and RowKey ge '{number}' and (A{number} eq {number} or Age lt {number})"
        );
        client.query_one(&statement, &[&filter]).await?;
    }
    println!(
        "memory of a backend after {} different filters: {} KiB, after {warm} {before} KiB",
        arguments.filters,
        memory(&client).await?
    );
    Ok(())
}
