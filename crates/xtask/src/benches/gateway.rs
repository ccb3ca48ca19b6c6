//! The gateway over HTTP beside azurite, which holds its data in memory.

use std::process::Command;

use super::server::Postgres;
use crate::azurite;
use crate::environment::{Environment, Result, run, text};

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
}

impl Options {
    /// Those of `make bench`.
    pub fn short() -> Options {
        Options {
            rounds: 3,
            seconds: 2,
            connections: "1,16".to_owned(),
            work: None,
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
