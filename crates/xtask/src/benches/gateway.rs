//! The gateway over HTTP beside azurite, which holds its data in memory.

use std::process::Command;

use anyhow::Context;

use super::server::{Postgres, smallest_middle_largest};
use crate::azurite;
use crate::environment::{Environment, Result, output, run, text};

/// How it is measured.
#[derive(clap::Args)]
pub struct Options {
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// How many seconds each measurement takes
    #[arg(long, value_name = "N", default_value_t = 3)]
    seconds: u32,
    /// Numbers of connections
    #[arg(long, value_name = "N,N", default_value = "1,16,64,256")]
    connections: String,
    /// Only this: insert, get, find, replace, merge, page or batch
    #[arg(long, value_name = "NAME")]
    work: Option<String>,
    /// Point gets and inserts of one gateway beside the same calls of pgbench, without HTTP
    #[arg(long, conflicts_with = "work")]
    pgbench: bool,
}

impl Options {
    /// Those of `make bench`.
    pub fn short() -> Options {
        Options {
            rounds: 3,
            seconds: 2,
            connections: "1,16".to_owned(),
            work: None,
            pgbench: false,
        }
    }
}

/// Requests a second, median and 99th percentile, and the CPU time of the server's process for a request, alternately. Our server runs
/// twice: with durable commits, and with `synchronous_commit` = off, which is the fair comparison with memory. The ratio is to azurite.
pub fn gateway(environment: &Environment, options: &Options) -> Result {
    build_programs(environment)?;
    let postgres = Postgres::build(environment)?;
    // Autovacuum would slow down whichever server is measured while it runs.
    let server = postgres.start(&[
        "fsync=on",
        "shared_buffers=1GB",
        "synchronous_commit=on",
        "autovacuum=off",
    ])?;
    if options.pgbench {
        return beside_pgbench(&postgres, options, &server.url("postgres", "postgres")?);
    }
    server.sql("postgres", "postgres", &["CREATE DATABASE memory"])?;
    server.sql("postgres", "memory", &["CREATE EXTENSION table_service"])?;
    let in_memory = server.url("postgres", "memory")? + "?options=-c%20synchronous_commit%3Doff";

    let mut http = load(&postgres);
    let mut running = Vec::new();
    for (name, url) in [("ours", server.url("postgres", "postgres")?), ("no-sync", in_memory)] {
        let (gateway, address) = postgres.start_gateway(name, std::slice::from_ref(&url))?;
        http.args([
            "--server",
            &format!("{name}={address},{}", gateway.id()),
            "--database-url",
            &url,
        ]);
        running.push(gateway);
    }
    if text(environment.command("sh").args(["-c", "command -v npm || true"]))?.is_empty() {
        println!("There is no npm here, so no azurite to compare with.");
    } else {
        let (azurite, address) = azurite::start(&postgres.environment, postgres.directory())?;
        http.args(["--server", &format!("azurite={address},{}", azurite.id())]);
        running.push(azurite);
    }
    http.args([
        "--connections",
        &options.connections,
        "--rounds",
        &options.rounds.to_string(),
    ]);
    http.args(["--seconds", &options.seconds.to_string(), "--json"]);
    run(http.args(options.work.iter().flat_map(|work| ["--work", work])))
}

/// Requests a second of a gateway to transactions a second of pgbench, alternately, on the same server with durable commits.
fn beside_pgbench(postgres: &Postgres, options: &Options, url: &str) -> Result {
    const FILL: &str = "SELECT table_service.create_table('Direct'); \
                        SELECT count(table_service.insert_entity('Direct', 'read', n::text, jsonb_build_object('FirstName', 'Don', \
                        'LastName', 'Hall ' || n, 'Email', n || '@contoso.com', 'Age', n % 90, 'Score', 1.5, 'Active', true, \
                        'Visits', n))) FROM generate_series(1000, 1999) AS n";
    const INSERTED: &str = r#"{"FirstName": "Don", "LastName": "Hall", "Email": "don.hall@contoso.com", "Age": 7, "Score": 1.5, "Active": true, "Visits@odata.type": "Edm.Int64", "Visits": "7", "Id@odata.type": "Edm.Guid", "Id": "c9da6455-213d-42c9-9a79-3e9149a57833"}"#;
    let (_gateway, address) = postgres.start_gateway("ours", &[url.to_owned()])?;
    let mut psql = postgres.environment.command(postgres.environment.of_postgres("psql"));
    output(psql.args(["-qc", FILL, url]))?;
    let script = postgres.directory().join("direct.pgbench");
    println!(
        "{:<8} {:>11} {:>10} {:>10} {:>20}",
        "", "connections", "gateway/s", "pgbench/s", "gateway / pgbench"
    );
    for work in ["get", "insert"] {
        for connections in options.connections.split(',') {
            let (mut rates, mut direct, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for round in 0..options.rounds {
                let statement = match work {
                    "get" => "\\set r random(1000, 1999)\nSELECT * FROM get_entity('Direct', 'read', :r);\n".to_owned(),
                    _ => format!(
                        "\\set n :n + 1\n\\set p {round} * 1000000 + {connections} * 1000 + :client_id\n\
                         SELECT insert_entity('Direct', :p, :n, '{INSERTED}');\n"
                    ),
                };
                fs_err::write(&script, statement)?;
                let mut http = load(postgres);
                http.args(["--server", &format!("ours={address}"), "--work", work]);
                http.args(["--connections", connections, "--rounds", "1"]);
                let printed = output(http.args(["--seconds", &options.seconds.to_string()]))?;
                let printed = String::from_utf8_lossy(&printed).into_owned();
                let figures = printed.lines().find_map(|line| line.split_once(" ours "));
                let rate = figures.and_then(|(_, figures)| figures.split_whitespace().next());
                let rate: f64 = rate.context("there is no rate")?.parse()?;
                let of_pgbench = postgres.pgbench(url, &script, connections.parse()?, options.seconds)?;
                rates.push(rate);
                direct.push(of_pgbench);
                ratios.push(rate / of_pgbench);
            }
            let [[_, rate, _], [_, direct, _]] = [rates, direct].map(smallest_middle_largest);
            let [smallest, middle, largest] = smallest_middle_largest(ratios);
            println!(
                "{work:<8} {connections:>11} {rate:>10.0} {direct:>10.0} {middle:>7.2} ({smallest:.2}..{largest:.2})"
            );
        }
    }
    Ok(())
}

/// Builds the gateway, and the program that loads it.
pub fn build_programs(environment: &Environment) -> Result {
    let mut build = environment.cargo(["build", "--release", "--quiet", "-p", "table_service_gateway"]);
    build.args([
        "-p",
        "table_service_benches",
        "--bin",
        "table-service-gateway",
        "--bin",
        "table-service-http",
    ]);
    run(&mut build)
}

/// Returns the program that loads gateways.
#[must_use]
pub fn load(postgres: &Postgres) -> Command {
    let program = postgres.environment.target().join("release/table-service-http");
    postgres.environment.command(program)
}
