//! Runs a mix of operations on one partition of a table and reports the throughput.

use std::time::Duration;

use clap::Parser;
use table_service_benches::Error;
use table_service_benches::load::{self, Measured};
use table_service_benches::mix::{Driver, Mix, Partition};
use table_service_benches::session::connect;

/// What the Table service promises for one partition, in entities of 1 KiB a second.
const SERVICE: f64 = 2000.0;

/// How many entities a batch has.
const BATCH: u64 = 100;

#[derive(Parser)]
#[command(
    about = "Drives one partition with a mix of operations and prints throughput and latency beside the Table service's target"
)]
struct Arguments {
    /// The database, as a connection string (`host=… dbname=…` or a URL). It needs the extension
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// The table, which must not exist; it is deleted in the end
    #[arg(long, default_value = "StressTest")]
    table: String,
    /// Keep the table
    #[arg(long)]
    keep: bool,
    /// The PartitionKey under test
    #[arg(long, default_value = "partition")]
    partition_key: String,
    /// How many entities to load into it first
    #[arg(long, default_value_t = 100_000)]
    entities: u64,
    /// The size of an entity's properties, in bytes
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// Per cent of get, insert, merge and query (a page of 100), as in get=50,insert=30,merge=10,query=10
    #[arg(long, default_value = "get=50,insert=30,merge=10,query=10")]
    mix: Mix,
    /// Clients that work at once
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// How long, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    if arguments.clients == 0 || arguments.seconds == 0 || arguments.entities == 0 {
        return Err("clients, seconds and entities must be at least 1".into());
    }
    let control = connect(&arguments.database_url).await?;
    control
        .execute("SELECT table_service.create_table($1)", &[&arguments.table])
        .await?;
    let measured = measure(&arguments, &control).await;
    if !arguments.keep {
        control
            .execute("SELECT table_service.delete_table($1)", &[&arguments.table])
            .await?;
    }
    verdict(&arguments, &measured?);
    Ok(())
}

async fn measure(arguments: &Arguments, control: &tokio_postgres::Client) -> Result<Measured, Error> {
    let partition = Partition {
        table: arguments.table.clone(),
        partition_key: arguments.partition_key.clone(),
        entities: arguments.entities,
        size: arguments.size,
    };
    load_partition(control, &partition).await?;

    let mut drivers = Vec::new();
    for _ in 0..arguments.clients {
        drivers.push(Driver::new(&arguments.database_url, partition.clone(), arguments.mix).await?);
    }
    let mut total: Option<Measured> = None;
    for second in 1..=arguments.seconds {
        let measured = load::run_all(&mut drivers, Duration::from_secs(1)).await?;
        eprintln!(
            "{second:>5} s {:>10.0} operations/s, 99 % within {:>8.2} ms",
            measured.rate(),
            millis(measured.within(0.99))
        );
        match &mut total {
            None => total = Some(measured),
            Some(total) => total.follow(&measured)?,
        }
    }
    total.ok_or_else(|| "nothing was measured".into())
}

/// In batches, as a client of the service would.
async fn load_partition(control: &tokio_postgres::Client, partition: &Partition) -> Result<(), Error> {
    let insert = control
        .prepare(
            "SELECT count(*) FROM table_service.execute_batch($1, $2, VARIADIC (SELECT array_agg(table_service.batch_insert(lpad(n::text, 10, '0'), $5::text::table_service.properties))
             FROM generate_series($3::bigint, $4::bigint) AS n))",
        )
        .await?;
    let properties = partition.properties(0);
    let mut first = 0;
    while first < partition.entities {
        let last = (first + BATCH).min(partition.entities) - 1;
        let (from, to) = (first as i64, last as i64);
        control
            .query_one(
                &insert,
                &[&partition.table, &partition.partition_key, &from, &to, &properties],
            )
            .await?;
        if first % 10_000 == 0 {
            eprintln!("loading: {first} of {} entities", partition.entities);
        }
        first = last + 1;
    }
    Ok(())
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

fn verdict(arguments: &Arguments, measured: &Measured) {
    let Mix {
        get,
        insert,
        merge,
        query,
    } = arguments.mix;
    println!(
        "{} clients on partition '{}' for {} s: {get} % get, {insert} % insert, {merge} % merge, {query} % query; entities of {} bytes",
        arguments.clients, arguments.partition_key, arguments.seconds, arguments.size
    );
    let entities = measured.entities_rate();
    println!("operations/s       {:>10.0}", measured.rate());
    println!("entities/s         {entities:>10.0}   (the Table service's target for one partition: {SERVICE:.0})");
    for (name, quantile) in [
        ("50 %", 0.5),
        ("90 %", 0.9),
        ("99 %", 0.99),
        ("99.9 %", 0.999),
        ("all", 1.0),
    ] {
        println!("{name:>6} within      {:>10.2} ms", millis(measured.within(quantile)));
    }
    println!(
        "{}",
        if measured.rate() >= SERVICE {
            "This PartitionKey takes more than one partition of the Table service would: no need to split it for throughput."
        } else {
            "One partition of the Table service would take more than this server does with this mix. A server does not get faster by more partitions: look at its disk (synchronous commits), CPUs and memory."
        }
    );
}
