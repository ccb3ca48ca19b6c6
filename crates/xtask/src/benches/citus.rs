//! Distributed tables beside plain ones, alternately: a Citus cluster of three servers on this machine, and a plain server.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::gateway::{build_programs, load};
use super::server::{Postgres, smallest_middle_largest};
use crate::citus::{Cluster, Node, build};
use crate::environment::{Environment, Result, run};
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
    for (name, call, by_hand) in WORK {
        let script = |of: &str, statement: &str| -> Result<PathBuf> {
            let script = postgres.directory().join(format!("{name}.{of}.pgbench"));
            fs_err::write(&script, format!("{}{statement}\n", variables(&partitions)))?;
            Ok(script)
        };
        let measured = |server: &Server, script: &Path| -> Result<f64> {
            let url = server.url("postgres", DATABASE)?;
            postgres.pgbench(&url, script, options.clients, options.seconds)
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
    let no_sync = "?options=-c%20synchronous_commit%3Doff";
    for (headline, end, work) in [
        ("", "", &["get", "page", "insert", "merge", "batch"][..]),
        (
            "Without a wait for the disk:\n",
            no_sync,
            &["insert", "merge", "batch"][..],
        ),
    ] {
        let url = |server: &Server| Ok(server.url("postgres", DATABASE)? + end);
        let nodes: Vec<String> = cluster.servers.iter().map(url).collect::<Result<_>>()?;
        let (on_plain, plain) = postgres.start_gateway("plain", &[url(plain)?])?;
        let (on_cluster, cluster) = postgres.start_gateway("cluster", &nodes)?;
        let mut http = load(postgres);
        http.args(["--server", &format!("cluster={cluster},{}", on_cluster.id())]);
        http.args(["--server", &format!("plain={plain},{}", on_plain.id())]);
        http.args(["--connections", &options.clients.to_string()]);
        http.args(["--rounds", &options.rounds.to_string()]);
        http.args(["--seconds", &options.seconds.to_string()]);
        println!("\n{headline}");
        run(http.args(work.iter().flat_map(|work| ["--work", work])))?;
    }
    Ok(())
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

/// The measured work: its name, the call, and a statement on the same table that does the same, if there is one.
const WORK: [(&str, &str, Option<&str>); 7] = [
    (
        "read an entity",
        "SELECT * FROM get_entity('Bench', :p, :r);",
        Some("SELECT * FROM table_service_data.\"Bench\" WHERE partition_key = :p AND row_key = :r;"),
    ),
    (
        "page of 1000 entities, one partition",
        "SELECT length(query_page_json('Bench', format('PartitionKey eq %L', :p::text))::text);",
        Some("SELECT * FROM table_service_data.\"Bench\" WHERE partition_key = :p ORDER BY row_key LIMIT 1000;"),
    ),
    (
        "page of 1000 entities, whole table",
        "SELECT length(query_page_json('Bench')::text);",
        None,
    ),
    (
        "query with a filter on the whole table",
        "SELECT count(*) FROM query_entities('Bench', 'Age eq 17');",
        None,
    ),
    (
        "merge an entity",
        "SELECT merge_entity('Bench', :p, :r, '{\"Age\": 2}', '*');",
        Some(
            "UPDATE table_service_data.\"Bench\" SET \"timestamp\" = now(), properties = '{\"Age\": 2}' \
             WHERE partition_key = :p AND row_key = :r;",
        ),
    ),
    (
        "insert an entity",
        "SELECT insert_entity('Bench', :p, :new, '{\"Name\": \"x\", \"Age\": 1}');",
        Some("INSERT INTO table_service_data.\"Bench\" VALUES (:p, :new, now(), '{\"Name\": \"x\", \"Age\": 1}');"),
    ),
    (
        "batch of 100",
        "SELECT count(*) FROM execute_batch('Bench', :p, \
         VARIADIC ARRAY(SELECT batch_insert(:new::text || n, '{\"Name\": \"x\", \"Age\": 1}') FROM generate_series(1, 100) AS n));",
        None,
    ),
];
