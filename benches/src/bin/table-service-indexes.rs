//! The cost of property indexes for queries that gain nothing from them: the same query on the same entities with
//! indexes and without, by the instructions of the server process. The worst may take 1.2 times as many with them.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use table_service_benches::Error;
use table_service_benches::instructions::Instructions;
use table_service_benches::session::connect;
use tokio_postgres::Client;

#[derive(Parser)]
#[command(args_override_self = true)]
struct Arguments {
    /// The database, as a connection string. It must be empty but for the extension, and on this machine
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// How many entities each table has
    #[arg(long, default_value_t = 50_000)]
    entities: u64,
    /// Only filters that contain this text
    #[arg(long, default_value = "")]
    only: String,
    /// The order of the entities in the tables
    #[arg(long)]
    order: Order,
    /// The statistics of the tables
    #[arg(long)]
    statistics: Statistics,
    /// Make the tables, and measure nothing
    #[arg(long)]
    make: bool,
    /// Count in tables that are made. The server runs under callgrind, which writes to this directory
    #[arg(
        long,
        value_name = "DIRECTORY",
        required_unless_present = "make",
        conflicts_with = "make"
    )]
    callgrind: Option<PathBuf>,
}

/// The order of the entities in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    OfKeys,
    Random,
}

/// The planner's knowledge of the table and its indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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
    /// The first ten of those.
    Limited,
}

impl Way {
    fn sql(self, table: &str, filter: &str) -> String {
        let filter = filter.replace('\'', "''");
        match self {
            Way::Page => format!("SELECT count(*) FROM table_service.query_page('{table}', '{filter}')"),
            Way::Whole => format!("SELECT count(*) FROM table_service.query_entities('{table}', '{filter}')"),
            Way::Matches => format!(
                "SELECT count(*) FROM table_service_data.\"{table}\" AS t WHERE table_service.matches(t, '{filter}')"
            ),
            Way::Limited => format!(
                "SELECT count(*) FROM (SELECT FROM table_service_data.\"{table}\" AS t WHERE table_service.matches(t, '{filter}') LIMIT 10) AS t"
            ),
        }
    }
}

/// The properties with an index.
const INDEXED: [&str; 6] = ["Seq", "Mixed", "Age", "City", "Name", "Active"];
const PARTITIONS: u64 = 100;

/// Filters that match many entities, or match them where an index misleads. `Seq` rises with the keys, `Mixed` has the same
/// numbers in another order, `Other` has no index and always the same value.
fn filters(entities: u64) -> Vec<String> {
    let part = |thousandths: u64| entities * thousandths / 1000;
    let partitions: Vec<String> = (20..32).map(|n| format!("PartitionKey eq 'p{n:06}'")).collect();
    let partitions = partitions.join(" or ");
    // Many small key ranges, as far from each other as the table allows.
    let ranges = |number: u64, size: u64| {
        let range = |n: u64| {
            let first = n * entities / number;
            let partition = first / entities.div_ceil(PARTITIONS);
            let end = first + size;
            format!("(PartitionKey eq 'p{partition:06}' and RowKey ge '{first:010}' and RowKey lt '{end:010}')")
        };
        (0..number).map(range).collect::<Vec<_>>().join(" or ")
    };
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
        "Active eq true".to_owned(),
        "Active eq true and Other eq 2".to_owned(),
        "Active eq true and Age ge 50".to_owned(),
        format!("({}) and Age ge 3 and Age lt 30", ranges(20, part(8))),
        format!("({}) and Age ge 3 and Age lt 6", ranges(20, part(8))),
        format!("({}) and Age ge 3 and Age lt 30", ranges(100, part(1))),
        format!("({}) and Age ge 3 and Age lt 6", ranges(100, part(1))),
        format!("({}) and Age ge 3 and Age lt 30", ranges(1500, 5)),
        format!("({}) and Age ge 3 and Age lt 6", ranges(1500, 5)),
        format!("({}) and Age ge 3 and Age lt 30", ranges(5000, 1)),
        format!("({}) and Seq ge 0 and Seq lt 300", ranges(5000, 1)),
        format!("({}) and Age ge 0 and Age lt 50", ranges(5000, 1)),
    ]
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let client = connect(&arguments.database_url).await?;
    // Their work would not be counted for this server process.
    client
        .batch_execute("SET max_parallel_workers_per_gather = 0; SET jit = off")
        .await?;
    // Under callgrind a page takes longer than its time limit.
    client
        .batch_execute("SET table_service.page_time_limit = '60s'")
        .await?;
    let (entities, order, statistics) = (arguments.entities, arguments.order, arguments.statistics);
    let Some(directory) = arguments.callgrind else {
        return make(&client, entities, order, statistics).await;
    };
    let instructions = Instructions::of(&client, directory).await?;
    println!("{entities} entities, thousand instructions with property indexes / without");
    let (mut count, mut beyond) = (0, 0);
    for filter in filters(entities) {
        if !filter.contains(&arguments.only) {
            continue;
        }
        for way in [Way::Page, Way::Whole, Way::Matches, Way::Limited] {
            // These test each entity for each key range, which takes minutes.
            if matches!(way, Way::Matches | Way::Limited) && filter.len() > LONG_FILTER {
                continue;
            }
            let [with, without] = compare(&client, &instructions, way, &filter).await?;
            let ratio = with / without;
            let is_beyond = ratio > LIMIT && with - without > PLANNING;
            let verdict = if is_beyond { "  beyond the limit" } else { "" };
            (count, beyond) = (count + 1, beyond + usize::from(is_beyond));
            let case = format!("{order:?}, {statistics:?} statistics, {way:?}");
            let shown = shortened(&filter);
            println!("{ratio:>6.2}  {with:>10.3} K {without:>10.3} K  {case:<36}  {shown}{verdict}");
        }
    }
    println!("{beyond} of {count} take more than {LIMIT} times as many, and {PLANNING} K more");
    Ok(())
}

/// The length from which a filter has very many key ranges.
const LONG_FILTER: usize = 10_000;

/// Returns a filter without the middle of a long list of key ranges.
fn shortened(filter: &str) -> String {
    match (filter.find(" or "), filter.rfind(" or ")) {
        (Some(first), Some(last)) if filter.len() > 200 => {
            format!("{} or … or {}", &filter[..first], &filter[last + 4..])
        }
        _ => filter.to_owned(),
    }
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
                    'Name', md5(n::text), 'Active', n % 20 <> 0, 'Other', 1)::table_service.properties
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
                // Indexes that grew entry by entry are not as dense as new ones, and this difference is not measured.
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

/// The ratio that is good enough.
const LIMIT: f64 = 1.2;
/// Thousands of instructions. The first run of such a statement takes less than a hundredth more than the second, to
/// plan it.
const LONG: f64 = 50_000.0;
/// Thousands of instructions that planning a statement may take more, because there are indexes to choose from. It shows in the shortest ones.
const PLANNING: f64 = 1000.0;

/// Returns the thousands of instructions that a query takes with indexes and without.
async fn compare(client: &Client, instructions: &Instructions, way: Way, filter: &str) -> Result<[f64; 2], Error> {
    let run = async |table| {
        let statement = client.prepare(&way.sql(table, filter)).await?;
        let mut taken = [0.0; 2];
        let mut count = 0;
        for taken in &mut taken {
            instructions.since_last_call()?;
            count = client.query_one(&statement, &[]).await?.try_get::<_, i64>(0)?;
            *taken = instructions.since_last_call()? as f64 / 1e3;
            if *taken >= LONG {
                break;
            }
        }
        // A long statement runs once.
        let [first, second] = taken;
        Ok::<_, Error>((count, if first >= LONG { first } else { second }))
    };
    let (with, without) = (run("With").await?, run("Without").await?);
    if with.0 != without.0 {
        let shown = shortened(filter);
        return Err(format!("{way:?} {shown}: {} and {} entities", with.0, without.0).into());
    }
    Ok([with.1, without.1])
}
