//! Distributed tables beside plain ones, alternately: a Citus cluster of three servers on this machine, and a plain server.

use std::path::PathBuf;

use anyhow::{Context, bail};

use super::server::Postgres;
use crate::citus::{Cluster, Node, build};
use crate::environment::{Environment, Result, output};
use crate::temporary::Server;

const DATABASE: &str = "tables";

/// How it is measured.
#[derive(clap::Args)]
pub struct Options {
    /// A tar or a directory with the source of Citus 14
    #[arg(long, value_name = "PATH")]
    source: PathBuf,
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// How many seconds each measurement takes
    #[arg(long, value_name = "N", default_value_t = 3)]
    seconds: u32,
    /// How many clients
    #[arg(long, value_name = "N", default_value_t = 8)]
    clients: u32,
}

/// Transactions a second of pgbench with durable commits: on the plain server, through the coordinator, and through the worker that
/// has the shards.
pub fn citus(environment: &Environment, options: &Options) -> Result {
    environment.set_up(&environment.pg.to_string())?;
    build(environment, &options.source)?;
    let postgres = Postgres::build(environment)?;
    let _awake = postgres.stay_awake()?;
    let settings = [
        "full_page_writes=on",
        "shared_buffers=64MB",
        "wal_level=logical",
        "fsync=on",
    ];
    let plain = Server::start(&postgres.environment, postgres.directory().join("plain"), &settings)?;
    plain.create_database(DATABASE, "postgres")?;
    plain.sql("postgres", DATABASE, &["CREATE EXTENSION table_service"])?;
    let cluster = Cluster::start(&Node {
        environment: &postgres.environment,
        directory: postgres.directory(),
        database: DATABASE,
        owner: "postgres",
        settings: &["fsync=on"],
    })?;
    let [coordinator, worker, _] = cluster.servers.as_slice() else {
        bail!("a cluster has three servers");
    };
    for server in [&plain, coordinator] {
        fill(server)?;
    }
    // All sides use the partitions of one worker.
    let partitions = coordinator.sql(
        "postgres",
        DATABASE,
        &[&format!(
            "SELECT array_agg('p' || p) FROM generate_series(0, 99) AS p \
             JOIN citus_shards ON shardid = get_shard_id_for_distribution_column('table_service_data.\"Bench\"', 'p' || p) \
             WHERE table_name = 'table_service_data.\"Bench\"'::regclass AND nodeport = {}",
            worker.connection("PGPORT")?
        )],
    )?;
    println!(
        "{:<40} {:>10} {:>22} {:>22}",
        format!("{} rounds, {} clients", options.rounds, options.clients),
        "plain/s",
        "coordinator / plain",
        "worker / plain"
    );
    for (name, statement) in work(&partitions) {
        let script = postgres.directory().join(format!("{name}.pgbench"));
        let last = partitions.matches(',').count() + 1;
        let variables =
            format!("\\set p random(1, {last})\n\\set r random(0, 999)\n\\set new random(1000000, 9000000000000000)\n");
        fs_err::write(&script, variables + &statement + "\n")?;
        let measured = |server: &Server| -> Result<f64> {
            let mut pgbench = postgres
                .environment
                .command(postgres.environment.of_postgres("pgbench"));
            pgbench.args(["-n", "-M", "prepared", "-j", "2", "-c", &options.clients.to_string()]);
            pgbench.args(["-T", &options.seconds.to_string(), "-f"]).arg(&script);
            pgbench.env("PGOPTIONS", "-c search_path=table_service");
            let printed = output(pgbench.arg(server.url("postgres", DATABASE)?))?;
            transactions_a_second(&String::from_utf8_lossy(&printed))
                .with_context(|| format!("{name}: pgbench has no result"))
        };
        let (mut rates, mut coordinators, mut workers) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            let rate = measured(&plain)?;
            rates.push(rate);
            coordinators.push(measured(coordinator)? / rate);
            workers.push(measured(worker)? / rate);
        }
        let [_, rate, _] = smallest_middle_largest(rates);
        let ratio = |values| {
            let [smallest, middle, largest] = smallest_middle_largest(values);
            format!("{middle:>10.2} ({smallest:.2}..{largest:.2})")
        };
        println!("{name:<40} {rate:>10.0} {} {}", ratio(coordinators), ratio(workers));
    }
    Ok(())
}

/// A hundred partitions of a thousand entities.
fn fill(server: &Server) -> Result {
    let entities = "SELECT count(*) FROM generate_series(0, 99) AS p, LATERAL (
  SELECT table_service.execute_batch('Bench', 'p' || p, VARIADIC (
    SELECT array_agg(table_service.batch_insert(lpad((b * 100 + r)::text, 6, '0'), jsonb_build_object('Name', 'Name ' || r,
      'Age', r % 90, 'Email', 'user' || r || '@example.com', 'Active', r % 2 = 0, 'Score', r * 1.25)))
    FROM generate_series(0, 99) AS r))
  FROM generate_series(0, 9) AS b) AS t";
    let statements = [
        "SELECT table_service.create_table('Bench')",
        entities,
        "VACUUM ANALYZE table_service_data.\"Bench\"",
    ];
    server.sql("postgres", DATABASE, &statements).map(drop)
}

/// Returns the names of the measurements and their statements, on a partition of these.
fn work(partitions: &str) -> Vec<(&'static str, String)> {
    let partition = format!("('{partitions}'::text[])[:p]");
    let row = "lpad(:r::text, 6, '0')";
    let new = "'{\"Name\": \"x\", \"Age\": 1}'";
    vec![
        (
            "read an entity",
            format!("SELECT * FROM get_entity('Bench', {partition}, {row});"),
        ),
        (
            "page of 1000 entities, one partition",
            format!("SELECT length(query_page_json('Bench', format('PartitionKey eq %L', {partition}))::text);"),
        ),
        (
            "page of 1000 entities, whole table",
            "SELECT length(query_page_json('Bench')::text);".to_owned(),
        ),
        (
            "query with a filter on the whole table",
            "SELECT count(*) FROM query_entities('Bench', 'Age eq 17');".to_owned(),
        ),
        (
            "merge an entity",
            format!("SELECT merge_entity('Bench', {partition}, {row}, '{{\"Age\": 2}}', '*');"),
        ),
        (
            "insert an entity",
            format!("SELECT insert_entity('Bench', {partition}, :new::text, {new});"),
        ),
        (
            "batch of 100",
            format!(
                "SELECT count(*) FROM execute_batch('Bench', {partition}, \
                 VARIADIC ARRAY(SELECT batch_insert(:new::text || n, {new}) FROM generate_series(1, 100) AS n));"
            ),
        ),
    ]
}

fn transactions_a_second(printed: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split(' ').next()?.parse().ok()
}

fn smallest_middle_largest(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    [
        at(0),
        at(values.len().saturating_sub(1) / 2),
        at(values.len().saturating_sub(1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::{smallest_middle_largest, transactions_a_second};

    #[test]
    fn a_rate_is_read() {
        let printed = "number of failed transactions: 0\ntps = 1234.5 (without initial connection time)\n";
        assert_eq!(transactions_a_second(printed), Some(1234.5));
        assert_eq!(transactions_a_second("no tps"), None);
    }

    #[test]
    fn the_middle_is_the_median() {
        assert_eq!(smallest_middle_largest(vec![3.0, 1.0, 2.0]), [1.0, 2.0, 3.0]);
    }
}
