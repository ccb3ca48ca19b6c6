//! Copies of many entities: from a file into a database beside `\copy` of the same lines into a jsonb table, alternately; and out of the
//! gateway over REST.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::server::Postgres;
use crate::environment::{Environment, Result, run};

/// How it is measured.
#[derive(clap::Args)]
pub struct Options {
    /// How many entities
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    entities: u32,
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
}

/// Prints entities a second, the ratio to `\copy`, and the program's largest resident memory.
pub fn copies(environment: &Environment, options: &Options) -> Result {
    let mut build = environment.cargo(["build", "--release", "--quiet"]);
    run(build.args(["-p", "table_service_gateway", "-p", "table_service_copy"]))?;
    let postgres = Postgres::build(environment)?;
    let _awake = postgres.stay_awake()?;
    let settings = [
        "shared_buffers=1GB",
        "max_wal_size=8GB",
        "checkpoint_timeout=30min",
        "autovacuum=off",
    ];
    let server = postgres.start(&settings)?;
    let database = server.url("postgres", "postgres")?;
    let psql = |commands: &str| {
        run(server
            .psql("postgres", "postgres")?
            .args(["-c", commands])
            .stdout(Stdio::null()))
    };
    let lines = postgres.directory().join("Orders.jsonl").display().to_string();
    // Lines that PostgreSQL's CSV reads as one column each.
    psql(&format!(
        "\\copy (SELECT json_build_object('PartitionKey', 'customer-' || n % 1000, 'RowKey', lpad(n::text, 9, '0'), \
         'Name', 'Name ' || n, 'Age', n % 90, 'Email', 'user' || n || '@example.com', 'Active', n % 2 = 0, 'Score', n * 1.25) \
         FROM generate_series(1, {}) AS n) TO '{lines}'",
        options.entities
    ))?;
    let rate = |time: Duration| format!("{:.0} entities/s", f64::from(options.entities) / time.as_secs_f64());

    for _ in 0..options.rounds {
        psql("DROP TABLE IF EXISTS lines")?;
        psql("CREATE TABLE lines (entity jsonb)")?;
        psql("SELECT table_service.delete_table('Orders', if_exists => true)")?;
        let begin = Instant::now();
        psql(&format!(
            "\\copy lines FROM '{lines}' WITH (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')"
        ))?;
        let hand = begin.elapsed();
        let ours = copy(&postgres, &["--from", &lines, "--to", &database])?;
        println!(
            "into a database: {}, \\copy {}, ratio {:.2}, {} MB",
            rate(ours.time),
            rate(hand),
            hand.as_secs_f64() / ours.time.as_secs_f64(),
            ours.memory
        );
    }
    let out = postgres.directory().join("out").display().to_string();
    let to_file = copy(&postgres, &["--from", &database, "--to", &out])?;
    println!(
        "out of a database, to a file: {}, {} MB",
        rate(to_file.time),
        to_file.memory
    );

    let (_gateway, address) = postgres.start_gateway("gateway", std::slice::from_ref(&database))?;
    let account = format!("UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://{address}");
    for _ in 0..options.rounds {
        let over_rest = copy(&postgres, &["--from", &account, "--to", "-", "--table", "Orders"])?;
        println!(
            "over REST, to standard output: {}, {} MB",
            rate(over_rest.time),
            over_rest.memory
        );
    }
    Ok(())
}

struct Copied {
    time: Duration,
    /// The largest, in MB.
    memory: u64,
}

fn copy(postgres: &Postgres, arguments: &[&str]) -> Result<Copied> {
    let environment = &postgres.environment;
    let program = environment.target().join("release/table-service-copy");
    let mut command = environment.command(&program);
    command.args(arguments).arg("--quiet").stdout(Stdio::null());
    let begin = Instant::now();
    let mut child = command.spawn()?;
    let mut memory = 0;
    loop {
        memory = resident(child.id()).unwrap_or(memory);
        match child.try_wait()? {
            Some(status) if status.success() => break,
            Some(status) => bail!("{}: {status}", program.display()),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    Ok(Copied {
        time: begin.elapsed(),
        memory,
    })
}

/// The largest resident memory of a process so far, in MB.
fn resident(process: u32) -> Option<u64> {
    let status = fs_err::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next())?;
    Some(kilobytes.parse::<u64>().ok()? / 1024)
}
