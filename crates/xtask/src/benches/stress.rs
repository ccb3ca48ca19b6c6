//! The stress test of the Table service's guide to partitions: `pgbench` sends a mix of operations to one partition of a new table.

use anyhow::{Context, bail};

use super::server::{pgbench, transactions_a_second};
use crate::environment::{self, Environment, Result, run, write};
use crate::temporary::TemporaryDirectory;

/// The promise of the Table service for one partition, in entities of 1 KiB a second, and for a whole account, which batches may reach.
const SERVICE: f64 = 2000.0;
const ACCOUNT: f64 = 20_000.0;
/// How many entities a page has.
const PAGE: f64 = 100.0;

/// The load.
#[derive(clap::Parser)]
pub struct Options {
    /// The database, as a URL or another connection string. It needs the extension [default: that of a new server]
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,
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
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    entities: u32,
    /// The size of an entity's properties, in bytes
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// Per cent of get, insert, merge and query (a page of 100), as in get=50,insert=30,merge=10,query=10
    #[arg(long, default_value = "get=50,insert=30,merge=10,query=10")]
    mix: String,
    /// How many entities an insert has: several are a batch
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Clients that work at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// How long, in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// Scripts of psql, with the table, its partition, an entity's properties and numbers as variables.
const LOAD: &str = "SELECT table_service.create_table(:'t') \\g /dev/null
SELECT count(*) FROM generate_series(0, (:entities - 1) / 100) AS b, LATERAL (SELECT table_service.execute_batch(:'t', :'p', VARIADIC (
    SELECT array_agg(table_service.batch_insert(lpad(n::text, 10, '0'), :'bag'))
    FROM generate_series(b * 100, least(b * 100 + 99, :entities - 1)) AS n))) AS t \\g /dev/null\n";
const DELETE: &str = "SELECT table_service.delete_table(:'t') \\g /dev/null\n";

/// The same of pgbench, by the names of the operations.
const OPERATIONS: [(&str, &str); 4] = [
    (
        "get",
        "\\set r random(0, :entities - 1)
SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.get_entity(:t, :p, lpad(:r::text, 10, '0'));\n",
    ),
    (
        "insert",
        "\\set r random(10000000000, 9000000000000000000)
SELECT table_service.insert_entity(:t, :p, :r::text, :bag);\n",
    ),
    (
        "merge",
        "\\set r random(0, :entities - 1)
SELECT table_service.merge_entity(:t, :p, lpad(:r::text, 10, '0'), jsonb_build_object('Number', :r::int % 1000)::table_service.properties, '*');\n",
    ),
    (
        "query",
        "\\set r random(0, :entities - 1)
SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.query_page(:t,
    format('PartitionKey eq %L and RowKey ge %L', :p::text, lpad(:r::text, 10, '0')), top => 100);\n",
    ),
];
/// Inserts that are a batch.
const BATCH: &str = "\\set r random(10000000000, 9000000000000000)
SELECT count(*) FROM table_service.execute_batch(:t, :p, VARIADIC (
    SELECT array_agg(table_service.batch_insert(:r::text || n, :bag)) FROM generate_series(1, :batch) AS n));\n";

/// Puts the load on a database, and prints its throughput beside the targets of the service.
pub fn stress(environment: &mut Environment, options: &Options, url: &str) -> Result {
    let shares = shares(&options.mix)?;
    let work = TemporaryDirectory::new(environment, None)?;
    // Around the text are 26 other characters.
    let text = "x".repeat(options.size.saturating_sub(26));
    let variables = [
        format!("t={}", options.table),
        format!("p={}", options.partition_key),
        format!(r#"bag={{"Number": 7, "Text": "{text}"}}"#),
        format!("entities={}", options.entities),
        format!("batch={}", options.batch),
    ];
    let psql = |name: &str, script: &str| {
        let mut psql = environment.command(environment.of_postgres("psql"));
        psql.args(["-Xq", "-v", "ON_ERROR_STOP=1", "-d", url]);
        psql.args(variables.iter().flat_map(|variable| ["-v", variable]));
        run(psql.arg("-f").arg(write(work.directory.join(name), script)?))
    };
    psql("load.sql", LOAD)?;
    let mut load = pgbench(environment, options.clients, options.seconds);
    load.args(["-P", "1"]);
    load.args(variables.iter().flat_map(|variable| ["-D", variable]));
    for (name, script, share) in &shares {
        let is_batch = *name == "insert" && options.batch > 1;
        let script = write(work.directory.join(name), if is_batch { BATCH } else { script })?;
        load.arg("-f").arg(format!("{}@{share}", script.display()));
    }
    let measured = environment::text(load.arg(url));
    if !options.keep {
        psql("delete.sql", DELETE)?;
    }
    let printed = measured?;
    println!("{printed}");
    let rate = transactions_a_second(&printed).context("pgbench has no result")?;
    let entities = shares.iter().map(|(name, _, share)| {
        let entities = match *name {
            "insert" => f64::from(options.batch),
            "query" => PAGE,
            _ => 1.0,
        };
        entities * f64::from(*share) / 100.0
    });
    tell(rate * entities.sum::<f64>());
    Ok(())
}

/// Says whether the PartitionKey takes more than a partition of the Table service would.
fn tell(rate: f64) {
    println!(
        "about {rate:.0} entities/s (the Table service's targets: {SERVICE:.0} for one partition, {ACCOUNT:.0} for an account)"
    );
    println!(
        "{}",
        if rate >= SERVICE {
            "This PartitionKey takes more than one partition of the Table service would: no need to split it for throughput."
        } else {
            "One partition of the Table service would take more than this server does with this mix. A server does not get faster by more \
             partitions: look at its disk (synchronous commits), CPUs and memory."
        }
    );
}

/// The operations of a mix, with their scripts and their parts in per cent.
fn shares(mix: &str) -> Result<Vec<(&'static str, &'static str, u32)>> {
    let mut shares = Vec::new();
    for part in mix.split(',') {
        let read = part.split_once('=').and_then(|(name, share)| {
            let (name, script) = OPERATIONS.into_iter().find(|(known, _)| *known == name.trim())?;
            Some((name, script, share.trim().parse::<u8>().ok()?.into()))
        });
        shares.push(
            read.with_context(|| format!("'{part}' is not get, insert, merge or query with its part, as in get=50"))?,
        );
    }
    if shares.iter().map(|(.., share)| share).sum::<u32>() != 100 {
        bail!("the parts of the mix do not add up to 100 per cent");
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn a_mix_is_a_hundred_per_cent_of_known_parts() {
        let mix = shares("get=70, insert=20,merge=10").unwrap();
        let parts: Vec<_> = mix.iter().map(|(name, _, share)| (*name, *share)).collect();
        assert_eq!(parts, [("get", 70), ("insert", 20), ("merge", 10)]);
        for wrong in [
            "get=70",
            "get=70,insert=40",
            "get",
            "put=100",
            "get=x",
            "get=4294967295,insert=101",
        ] {
            assert!(shares(wrong).is_err(), "{wrong}");
        }
    }
}
