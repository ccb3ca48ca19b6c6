//! What property indexes cost the queries that gain nothing from them: the same query on the same entities with indexes and
//! without, in turn, by the processor time of the server process. The worst may take 1.2 times as long with them.

use std::fs;
use std::time::Instant;

use clap::Parser;
use serde_json::{Value, json};
use table_service_benches::Error;
use table_service_benches::report::Spread;
use table_service_benches::session::connect;
use tokio_postgres::{Client, Statement};

#[derive(Parser)]
struct Arguments {
    /// The database, as a connection string. It must be empty but for the extension, and on this machine
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// How many entities each table has
    #[arg(long, default_value_t = 200_000)]
    entities: u64,
    /// How often each side is measured, in turn
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How long, in milliseconds of processor time, each time at least
    #[arg(long, default_value_t = 20)]
    milliseconds: u64,
    /// Only filters that contain this text
    #[arg(long, default_value = "")]
    only: String,
    /// The ratio that is good enough
    #[arg(long, default_value_t = 1.2)]
    limit: f64,
    /// A file for the results as JSON
    #[arg(long)]
    json: Option<std::path::PathBuf>,
}

/// The order of the entities in the table.
#[derive(Debug, Clone, Copy)]
enum Order {
    OfKeys,
    Random,
}

/// What the planner knows of the table and its indexes.
#[derive(Debug, Clone, Copy)]
enum Statistics {
    Fresh,
    /// Of the first hundredth of the entities.
    Stale,
    None,
}

/// How the entities are asked for.
#[derive(Debug, Clone, Copy)]
enum Way {
    Page,
    Whole,
    Matches,
}

impl Way {
    const ALL: [Way; 3] = [Way::Page, Way::Whole, Way::Matches];

    fn sql(self, table: &str, filter: &str) -> String {
        let filter = filter.replace('\'', "''");
        match self {
            Way::Page => format!("SELECT count(*) FROM table_service.query_page('{table}', '{filter}')"),
            Way::Whole => format!("SELECT count(*) FROM table_service.query_entities('{table}', '{filter}')"),
            Way::Matches => format!(
                "SELECT count(*) FROM table_service_data.\"{table}\" AS t WHERE table_service.matches(t, '{filter}')"
            ),
        }
    }
}

/// The properties with an index.
const INDEXED: [&str; 5] = ["Seq", "Mixed", "Age", "City", "Name"];
const PARTITIONS: u64 = 100;

/// Filters that match many entities, or match them where an index misleads. `Seq` rises with the keys, `Mixed` has the same
/// numbers in another order, `Other` has no index and always the same value.
fn filters(entities: u64) -> Vec<String> {
    let part = |thousandths: u64| entities * thousandths / 1000;
    let partitions: Vec<String> = (20..32).map(|n| format!("PartitionKey eq 'p{n:06}'")).collect();
    let partitions = partitions.join(" or ");
    vec![
        "Age ne 5".to_owned(),
        "Age ge 10".to_owned(),
        "Age ge 50 and Age lt 100".to_owned(),
        "Age ge 95".to_owned(),
        "Age eq 7".to_owned(),
        "City eq 'Oslo'".to_owned(),
        "City ge 'O' and City lt 'P'".to_owned(),
        "not (City eq 'Oslo')".to_owned(),
        format!("Seq lt {}", part(100)),
        format!("Seq ge {}", part(900)),
        format!("Seq ge {} and Seq lt {}", part(990), part(995)),
        format!("Mixed lt {}", part(10)),
        format!("Mixed lt {}", part(100)),
        format!("Mixed ge {} and Mixed lt {}", part(300), part(800)),
        "Name ge '0' and Name lt '1'".to_owned(),
        "Name ge '00' and Name lt '01'".to_owned(),
        "City eq 'Oslo' and Age eq 3".to_owned(),
        "City eq 'Oslo' and Age ge 50".to_owned(),
        format!("City eq 'Oslo' and Seq ge {}", part(900)),
        "PartitionKey eq 'p000001' and City ge 'O' and City lt 'P'".to_owned(),
        "PartitionKey eq 'p000001' and Age ge 50".to_owned(),
        "PartitionKey eq 'p000001' and Age eq 7".to_owned(),
        "PartitionKey ge 'p000090' and Age ge 10".to_owned(),
        "PartitionKey ge 'p000050' and Name ge '0' and Name lt '1'".to_owned(),
        format!(
            "PartitionKey eq 'p000050' and RowKey ge '{:010}' and Age ne 5",
            part(505)
        ),
        "City eq 'Oslo' or Age eq 3".to_owned(),
        "Age lt 10 or Age gt 90".to_owned(),
        format!("City eq 'Oslo' or Seq ge {}", part(900)),
        format!("({partitions}) and Age ge 50"),
        format!("({partitions}) and Age eq 7"),
        "Age ge 10 and Other eq 2".to_owned(),
        format!("Seq ge {} and Other eq 2", part(500)),
        "Age eq 7 and Other eq 2".to_owned(),
    ]
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let client = connect(&arguments.database_url).await?;
    // Their time would not be that of this server process.
    client
        .batch_execute("SET max_parallel_workers_per_gather = 0; SET jit = off")
        .await?;
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
    println!(
        "{} entities, processor time with property indexes / without, middle of {} rounds",
        arguments.entities, arguments.rounds
    );
    let (mut results, mut beyond) = (Vec::new(), 0);
    for order in [Order::OfKeys, Order::Random] {
        for statistics in [Statistics::Fresh, Statistics::Stale, Statistics::None] {
            make(&client, arguments.entities, order, statistics).await?;
            for filter in filters(arguments.entities) {
                if !filter.contains(&arguments.only) {
                    continue;
                }
                for way in Way::ALL {
                    let [with, without] = compare(&arguments, &client, pid, way, &filter).await?;
                    let ratio = with / without;
                    let verdict = if ratio > arguments.limit {
                        "  beyond the limit"
                    } else {
                        ""
                    };
                    beyond += usize::from(ratio > arguments.limit);
                    let case = format!("{order:?}, {statistics:?} statistics, {way:?}");
                    println!("{ratio:>6.2}  {with:>10.3} ms {without:>10.3} ms  {case:<36}  {filter}{verdict}");
                    results.push(json!({ "case": case, "filter": filter, "with": with, "without": without }));
                }
            }
        }
    }
    println!(
        "{beyond} of {} take more than {} times as long",
        results.len(),
        arguments.limit
    );
    if let Some(path) = &arguments.json {
        fs::write(path, format!("{:#}\n", Value::from(results)))?;
    }
    Ok(())
}

/// Makes the table `With`, which has property indexes, and the same table `Without`.
async fn make(client: &Client, entities: u64, order: Order, statistics: Statistics) -> Result<(), Error> {
    let per_partition = entities.div_ceil(PARTITIONS);
    let order = match order {
        Order::OfKeys => "n",
        Order::Random => "n * 7919::bigint % 1000003, n",
    };
    for table in ["With", "Without"] {
        let relation = format!("table_service_data.\"{table}\"");
        let fill = |from: u64, to: u64| {
            format!(
                "INSERT INTO {relation} SELECT 'p' || lpad((n / {per_partition})::text, 6, '0'), lpad(n::text, 10, '0'), clock_timestamp(), jsonb_build_object(
                    'Seq', n, 'Mixed', n * 7919::bigint % {entities}, 'Age', n * 104729::bigint % 100, 'City', (ARRAY['Seattle', 'Redmond', 'Oslo', 'Graz'])[1 + n % 4],
                    'Name', md5(n::text), 'Other', 1)::table_service.properties
                FROM generate_series({from}, {to}) AS n ORDER BY {order}"
            )
        };
        let index = |create: fn(&str, &str) -> String| -> Vec<String> {
            let properties = if table == "With" { &INDEXED[..] } else { &[] };
            properties.iter().map(|property| create(table, property)).collect()
        };
        let first = entities / 100;
        let mut statements = vec![
            format!("SELECT table_service.delete_table('{table}', if_exists => true)"),
            format!("SELECT table_service.create_table('{table}')"),
            format!("ALTER TABLE {relation} SET (autovacuum_enabled = off)"),
        ];
        // The function analyses the table; CREATE INDEX alone does not.
        let analysing = |table: &str, property: &str| {
            format!("SELECT table_service.create_property_index('{table}', '{property}')")
        };
        let plain = |table: &str, property: &str| {
            format!(
                "CREATE INDEX ON table_service_data.\"{table}\" (table_service.property_index_key(partition_key, row_key, properties, '{property}'))"
            )
        };
        match statistics {
            Statistics::Fresh => {
                statements.push(fill(0, entities - 1));
                statements.extend(index(analysing));
                statements.push(format!("VACUUM ANALYZE {relation}"));
            }
            Statistics::Stale => {
                statements.push(fill(0, first - 1));
                statements.extend(index(analysing));
                statements.push(format!("ANALYZE {relation}"));
                statements.push(fill(first, entities - 1));
                // Indexes that grew entry by entry are not as dense as new ones, which is not what is measured.
                statements.push(format!("REINDEX TABLE {relation}"));
            }
            Statistics::None => {
                statements.push(fill(0, entities - 1));
                statements.extend(index(plain));
            }
        }
        for statement in statements {
            client.batch_execute(&statement).await?;
        }
    }
    client.batch_execute("CHECKPOINT").await?;
    Ok(())
}

/// Returns the milliseconds that a query takes with indexes and without.
async fn compare(arguments: &Arguments, client: &Client, pid: i32, way: Way, filter: &str) -> Result<[f64; 2], Error> {
    let mut statements = Vec::new();
    let mut counts = Vec::new();
    for table in ["With", "Without"] {
        let statement = client.prepare(&way.sql(table, filter)).await?;
        let count: i64 = client.query_one(&statement, &[]).await?.try_get(0)?;
        statements.push(statement);
        counts.push(count);
    }
    if counts.first() != counts.last() {
        return Err(format!("{way:?} {filter}: {counts:?} entities").into());
    }
    let repeats = {
        let once = time(client, pid, &statements, 1).await?;
        let least = once.iter().copied().fold(f64::INFINITY, f64::min);
        (arguments.milliseconds as f64 / least.max(0.01))
            .ceil()
            .clamp(1.0, 1000.0) as u32
    };
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..arguments.rounds {
        let round = time(client, pid, &statements, repeats).await?;
        for (times, time) in times.iter_mut().zip(round) {
            times.push(time);
        }
    }
    Ok(times.map(|times| Spread::of(times).median))
}

/// Runs each statement so often, and returns the milliseconds for each run.
async fn time(client: &Client, pid: i32, statements: &[Statement], repeats: u32) -> Result<Vec<f64>, Error> {
    let mut times = Vec::new();
    for statement in statements {
        let before = Clock::now(pid);
        for _ in 0..repeats {
            client.query_one(statement, &[]).await?;
        }
        times.push(before.milliseconds(pid) / f64::from(repeats));
    }
    Ok(times)
}

/// The processor time of a server process, or the time of day if the system does not tell it.
enum Clock {
    /// In nanoseconds.
    Processor(u64),
    Day(Instant),
}

impl Clock {
    fn now(pid: i32) -> Clock {
        Clock::processor(pid).map_or_else(|| Clock::Day(Instant::now()), Clock::Processor)
    }

    fn processor(pid: i32) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    fn milliseconds(&self, pid: i32) -> f64 {
        match self {
            Clock::Processor(before) => Clock::processor(pid).unwrap_or(*before).saturating_sub(*before) as f64 / 1e6,
            Clock::Day(before) => before.elapsed().as_secs_f64() * 1e3,
        }
    }
}
