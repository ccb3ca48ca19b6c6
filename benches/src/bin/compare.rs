//! Our API beside hand-written SQL on the same server: each kind of work on either side in turn, several times, and the ratio
//! of the throughputs.

use std::time::Duration;

use clap::Parser;
use serde_json::json;
use table_service_benches::Error;
use table_service_benches::data::{Data, HAND_WRITTEN};
use table_service_benches::load::{self, Measured};
use table_service_benches::report::{Comparison, Spread};
use table_service_benches::session::connect;
use table_service_benches::work::{Side, Task, Work};

#[derive(Parser)]
struct Arguments {
    /// The database, as a connection string. It must be empty but for the extension.
    #[arg(long, env = "DATABASE_URL")]
    database_url: String,
    /// How many entities are in the tables
    #[arg(long, default_value_t = 1_000_000)]
    entities: u64,
    /// How often each side is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long, in seconds, each time
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How many clients work at once; several numbers for several measurements of the short kinds of work
    #[arg(long, value_delimiter = ',', default_value = "1,4")]
    clients: Vec<usize>,
    /// Only these kinds of work
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// A file for the results as JSON
    #[arg(long)]
    json: Option<std::path::PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let data = Data::new(arguments.entities);
    let control = connect(&arguments.database_url).await?;
    let version: String = control.query_one("SHOW server_version", &[]).await?.try_get(0)?;
    let buffers: String = control.query_one("SHOW shared_buffers", &[]).await?.try_get(0)?;
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "PostgreSQL {version}, shared_buffers {buffers}, {} entities, {processors} processors, {} rounds of {} s",
        data.entities, arguments.rounds, arguments.seconds
    );

    control.batch_execute(HAND_WRITTEN).await?;
    control
        .batch_execute("SELECT table_service.create_table('Bench')")
        .await?;
    data.load(&control, "hand", "jsonb").await?;
    data.load(&control, "table_service_data.\"Bench\"", "table_service.properties")
        .await?;
    let mut lines = vec![storage(&control, data).await?];
    println!(
        "{}\n{}",
        Comparison::header(),
        lines.iter().map(Comparison::line).collect::<String>()
    );

    for work in Work::ALL {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|name| name == work.name()) {
            continue;
        }
        for &clients in &arguments.clients {
            // With long statements it is the server that is busy, however many ask.
            if clients > 1 && !work.is_short() {
                continue;
            }
            let line = compare(&arguments, data, work, clients).await?;
            println!("{}", line.line());
            lines.push(line);
        }
    }

    if let Some(path) = &arguments.json {
        let results: Vec<_> = lines.iter().map(Comparison::json).collect();
        let document = json!({
            "postgresql": version, "shared_buffers": buffers, "processors": processors, "entities": data.entities,
            "rounds": arguments.rounds, "seconds": arguments.seconds, "results": results,
        });
        std::fs::write(path, format!("{document:#}\n"))?;
    }
    let missed = lines.iter().filter(|line| line.is_met() == Some(false)).count();
    println!(
        "{missed} of {} targets missed",
        lines.iter().filter(|line| line.target.is_some()).count()
    );
    Ok(())
}

async fn storage(control: &tokio_postgres::Client, data: Data) -> Result<Comparison, Error> {
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

async fn compare(arguments: &Arguments, data: Data, work: Work, clients: usize) -> Result<Comparison, Error> {
    let time = Duration::from_secs_f64(arguments.seconds);
    let mut ours = workers(arguments, data, work, Side::Ours, clients).await?;
    let mut hand_written = workers(arguments, data, work, Side::HandWritten, clients).await?;
    // Caches fill, and statements get their plans.
    let warm_up = time / 4;
    load::run_all(&mut ours, warm_up).await?;
    load::run_all(&mut hand_written, warm_up).await?;
    let (mut our_rates, mut hand_rates) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        our_rates.push(
            load::run_all(&mut ours, time)
                .await
                .map(|measured: Measured| measured.rate())?,
        );
        hand_rates.push(
            load::run_all(&mut hand_written, time)
                .await
                .map(|measured| measured.rate())?,
        );
    }
    Ok(Comparison {
        work: work.title().to_owned(),
        clients,
        ours: Spread::of(our_rates.iter().copied()).median,
        hand_written: Spread::of(hand_rates.iter().copied()).median,
        ratio: Spread::of(our_rates.iter().zip(&hand_rates).map(|(ours, hand)| ours / hand)),
        target: Some(work.target()),
    })
}

async fn workers(
    arguments: &Arguments,
    data: Data,
    work: Work,
    side: Side,
    clients: usize,
) -> Result<Vec<Task>, Error> {
    let mut workers = Vec::new();
    for client in 0..clients as u64 {
        workers.push(Task::new(&arguments.database_url, work, side, data, client).await?);
    }
    Ok(workers)
}
