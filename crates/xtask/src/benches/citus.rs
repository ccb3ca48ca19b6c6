//! Distributed tables beside plain ones, alternately: a Citus cluster of three servers on this machine, and a plain server.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::gateway::{build_programs, load};
use super::server::Postgres;
use crate::citus::{Cluster, Node, build};
use crate::environment::{Environment, Result, output, run};
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
/// has the shards; and there by hand. Then requests a second, through gateways.
pub fn citus(environment: &Environment, options: &Options) -> Result {
    environment.set_up(&environment.pg.to_string())?;
    build(environment, &options.source)?;
    build_programs(environment)?;
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
            "SELECT p FROM generate_series(0, 99) AS p \
             JOIN citus_shards ON shardid = get_shard_id_for_distribution_column('table_service_data.\"Bench\"', p::text) \
             WHERE table_name = 'table_service_data.\"Bench\"'::regclass AND nodeport = {}",
            worker.connection("PGPORT")?
        )],
    )?;
    println!(
        "{:<40} {:>10} {:>22} {:>22} {:>22}",
        format!("{} rounds, {} clients", options.rounds, options.clients),
        "plain/s",
        "coordinator / plain",
        "worker / plain",
        "by hand, worker / plain"
    );
    for Work { name, call, by_hand } in work() {
        let script = |of: &str, statement: &str| -> Result<PathBuf> {
            let script = postgres.directory().join(format!("{name}.{of}.pgbench"));
            fs_err::write(&script, format!("{}{statement}\n", variables(&partitions)))?;
            Ok(script)
        };
        let measured = |server: &Server, script: &Path| -> Result<f64> {
            let mut pgbench = postgres
                .environment
                .command(postgres.environment.of_postgres("pgbench"));
            pgbench.args(["-n", "-M", "prepared", "-j", "2", "-c", &options.clients.to_string()]);
            pgbench.args(["-T", &options.seconds.to_string(), "-f"]).arg(script);
            pgbench.env("PGOPTIONS", "-c search_path=table_service");
            let printed = output(pgbench.arg(server.url("postgres", DATABASE)?))?;
            transactions_a_second(&String::from_utf8_lossy(&printed))
                .with_context(|| format!("{name}: pgbench has no result"))
        };
        let call = script("call", call)?;
        let by_hand = by_hand.map(|statement| script("hand", statement)).transpose()?;
        let (mut rates, mut coordinators, mut workers, mut hands) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            let rate = measured(&plain, &call)?;
            rates.push(rate);
            coordinators.push(measured(coordinator, &call)? / rate);
            workers.push(measured(worker, &call)? / rate);
            if let Some(by_hand) = &by_hand {
                hands.push(measured(worker, by_hand)? / rate);
            }
        }
        let [_, rate, _] = smallest_middle_largest(rates);
        let ratio = |values: Vec<f64>| {
            if values.is_empty() {
                return String::new();
            }
            let [smallest, middle, largest] = smallest_middle_largest(values);
            format!("{middle:>10.2} ({smallest:.2}..{largest:.2})")
        };
        println!(
            "{name:<40} {rate:>10.0} {} {} {}",
            ratio(coordinators),
            ratio(workers),
            ratio(hands)
        );
    }
    over_http(&postgres, options, &plain, &cluster)
}

/// The same over HTTP: a gateway of the cluster, which has all its servers, beside one of the plain server. Then writes that do not
/// wait for the disk, which here three servers share.
fn over_http(postgres: &Postgres, options: &Options, plain: &Server, cluster: &Cluster) -> Result {
    requests(
        postgres,
        options,
        (plain, cluster),
        "",
        &["get", "page", "insert", "merge", "batch"],
    )?;
    println!("\nWithout a wait for the disk:");
    let no_sync = "?options=-c%20synchronous_commit%3Doff";
    requests(
        postgres,
        options,
        (plain, cluster),
        no_sync,
        &["insert", "merge", "batch"],
    )
}

/// Requests a second through both gateways, whose URLs end so.
fn requests(
    postgres: &Postgres,
    options: &Options,
    (plain, cluster): (&Server, &Cluster),
    end: &str,
    work: &[&str],
) -> Result {
    let url = |server: &Server| Ok(server.url("postgres", DATABASE)? + end);
    let cluster: Vec<String> = cluster.servers.iter().map(url).collect::<Result<_>>()?;
    let (on_plain, plain) = postgres.start_gateway("plain", &[url(plain)?])?;
    let (on_cluster, cluster) = postgres.start_gateway("cluster", &cluster)?;
    let mut http = load(postgres);
    http.args(["--server", &format!("cluster={cluster},{}", on_cluster.id())]);
    http.args(["--server", &format!("plain={plain},{}", on_plain.id())]);
    http.args(["--connections", &options.clients.to_string()]);
    http.args(["--rounds", &options.rounds.to_string()]);
    http.args(["--seconds", &options.seconds.to_string()]);
    http.args(work.iter().flat_map(|work| ["--work", work]));
    println!();
    run(&mut http)
}

/// A hundred partitions of a thousand entities.
fn fill(server: &Server) -> Result {
    let entities = "SELECT count(*) FROM generate_series(0, 99) AS p, LATERAL (
  SELECT table_service.execute_batch('Bench', p::text, VARIADIC (
    SELECT array_agg(table_service.batch_insert((100000 + b * 100 + r)::text, jsonb_build_object('Name', 'Name ' || r,
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

/// What is measured.
struct Work {
    name: &'static str,
    call: &'static str,
    /// A statement on the same table that does the same.
    by_hand: Option<&'static str>,
}

/// Returns the commands that choose a partition of these, an entity, and keys of new ones.
fn variables(partitions: &str) -> String {
    let cases: String = (1..)
        .zip(partitions.lines())
        .map(|(number, partition)| format!(" WHEN :i = {number} THEN {partition}"))
        .collect();
    let last = partitions.lines().count();
    format!(
        "\\set i random(1, {last})\n\\set p CASE{cases} END\n\\set r random(100000, 100999)\n\
         \\set new random(1000000, 9000000000000000)\n"
    )
}

fn work() -> [Work; 7] {
    let work = |name, call, by_hand| Work { name, call, by_hand };
    [
        work(
            "read an entity",
            "SELECT * FROM get_entity('Bench', :p, :r);",
            Some(
                "SELECT partition_key, row_key, \"timestamp\", properties FROM table_service_data.\"Bench\" \
                 WHERE partition_key = :p AND row_key = :r;",
            ),
        ),
        work(
            "page of 1000 entities, one partition",
            "SELECT length(query_page_json('Bench', format('PartitionKey eq %L', :p::text))::text);",
            Some(
                "SELECT partition_key, row_key, \"timestamp\", properties FROM table_service_data.\"Bench\" \
                 WHERE partition_key = :p ORDER BY row_key LIMIT 1000;",
            ),
        ),
        work(
            "page of 1000 entities, whole table",
            "SELECT length(query_page_json('Bench')::text);",
            None,
        ),
        work(
            "query with a filter on the whole table",
            "SELECT count(*) FROM query_entities('Bench', 'Age eq 17');",
            None,
        ),
        work(
            "merge an entity",
            "SELECT merge_entity('Bench', :p, :r, '{\"Age\": 2}', '*');",
            Some(
                "UPDATE table_service_data.\"Bench\" SET \"timestamp\" = now(), properties = '{\"Age\": 2}' \
                 WHERE partition_key = :p AND row_key = :r;",
            ),
        ),
        work(
            "insert an entity",
            "SELECT insert_entity('Bench', :p, :new, '{\"Name\": \"x\", \"Age\": 1}');",
            Some(
                "INSERT INTO table_service_data.\"Bench\" (partition_key, row_key, \"timestamp\", properties) \
                 VALUES (:p, :new, now(), '{\"Name\": \"x\", \"Age\": 1}');",
            ),
        ),
        work(
            "batch of 100",
            "SELECT count(*) FROM execute_batch('Bench', :p, \
             VARIADIC ARRAY(SELECT batch_insert(:new::text || n, '{\"Name\": \"x\", \"Age\": 1}') FROM generate_series(1, 100) AS n));",
            None,
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
