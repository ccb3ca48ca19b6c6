//! The measuring programs of `benches/src/bin`, and the servers on which they measure.

use clap::Parser;

use super::server::Postgres;
use super::stress;
use crate::environment::{Environment, Result, run};
use crate::temporary::Server;

/// Checkpoints would count for whichever side is measured while they run.
const SETTINGS: [&str; 2] = ["max_wal_size=8GB", "checkpoint_timeout=30min"];
/// And so would autovacuum. The table is in memory.
const UNDISTURBED: [&str; 4] = [
    "max_wal_size=8GB",
    "checkpoint_timeout=30min",
    "autovacuum=off",
    "shared_buffers=1GB",
];
/// Every commit is on the disk.
const DURABLE: [&str; 4] = [
    "shared_buffers=1GB",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
];

/// Beside hand-written SQL.
pub fn compare(environment: &Environment, arguments: &[String], counted: bool) -> Result {
    let Some(program) = Program::build(environment, "compare", arguments)? else {
        return Ok(());
    };
    let _awake = program.postgres.stay_awake()?;
    if counted {
        return program.count(&["--entities", "50000"]);
    }
    // The cost in CPU: nothing waits for the disk.
    let server = program.postgres.start(&UNDISTURBED)?;
    program.run(&server, &["--json", "target/bench.json"])?;
    drop(server);
    if !arguments.is_empty() {
        return Ok(());
    }
    // The cost of reading: a table that is larger than shared_buffers.
    let server = program.postgres.start(&with(&UNDISTURBED, &["shared_buffers=64MB"]))?;
    let parts = ["--only", "get,insert,merge,page", "--clients", "4", "--rounds", "40"];
    program.run(&server, &with(&parts, &["--json", "target/bench-small-buffers.json"]))?;
    drop(server);
    // Against the service's published targets.
    let server = program.postgres.start(&with(&SETTINGS, &DURABLE))?;
    for (clients, batch) in [("1", "1"), ("8", "1"), ("1", "100"), ("4", "100")] {
        let inserts = ["stress", "--mix", "insert=100", "--entities", "1", "--seconds", "5"];
        let options = stress::Options::parse_from(with(&inserts, &["--clients", clients, "--batch", batch]));
        let mut environment = program.postgres.environment.clone();
        stress::stress(&mut environment, &options, &server.url("postgres", "postgres")?)?;
    }
    Ok(())
}

/// An archive, by the program that keeps it.
pub fn archive(environment: &Environment, arguments: &[String]) -> Result {
    run(&mut environment.cargo(["build", "--release", "-p", "table_service_copy", "--quiet"]))?;
    let copy = environment
        .target()
        .join("release/table-service-copy")
        .display()
        .to_string();
    let Some(program) = Program::build(environment, "archive", arguments)? else {
        return Ok(());
    };
    let _awake = program.postgres.stay_awake()?;
    let server = program.postgres.start(&with(&UNDISTURBED, &["wal_level=logical"]))?;
    program.run(&server, &["--copy", &copy])
}

/// One partition under load, on a server of the user's or on a new one.
pub fn stress(environment: &Environment, options: &stress::Options) -> Result {
    if let Some(url) = &options.database_url {
        environment.set_up(&environment.pg.to_string())?;
        return stress::stress(&mut environment.clone(), options, url);
    }
    let postgres = Postgres::build(environment)?;
    let _awake = postgres.stay_awake()?;
    let server = postgres.start(&with(&SETTINGS, &DURABLE))?;
    let url = server.url("postgres", "postgres")?;
    stress::stress(&mut postgres.environment.clone(), options, &url)
}

/// The costs of property indexes for queries that gain nothing from them, in instructions.
pub fn indexes(environment: &Environment, arguments: &[String]) -> Result {
    let Some(program) = Program::build(environment, "indexes", arguments)? else {
        return Ok(());
    };
    let _awake = program.postgres.stay_awake()?;
    for order in ["of-keys", "random"] {
        for statistics in ["fresh", "stale", "none"] {
            program.count(&["--order", order, "--statistics", statistics])?;
        }
    }
    Ok(())
}

struct Program<'a> {
    postgres: Postgres,
    name: &'static str,
    arguments: &'a [String],
}

impl<'a> Program<'a> {
    /// Builds it. If it is asked for help, or for a database of the user's, it needs no server of ours: then it runs at once.
    fn build(environment: &Environment, name: &'static str, arguments: &'a [String]) -> Result<Option<Program<'a>>> {
        run(&mut environment.cargo(["build", "--release", "-p", "table_service_benches", "--quiet"]))?;
        let alone = |argument: &String| argument.starts_with("--database-url") || argument == "--help";
        if arguments.iter().any(alone) {
            run(environment.command(path(environment, name)).args(arguments))?;
            return Ok(None);
        }
        let postgres = Postgres::build(environment)?;
        Ok(Some(Program {
            postgres,
            name,
            arguments,
        }))
    }

    /// Makes its tables on a server, and counts the instructions of its statements under callgrind.
    fn count(&self, options: &[&str]) -> Result {
        let server = self.postgres.start(&UNDISTURBED)?;
        self.run(&server, &with(&["--make"], options))?;
        server.stop_and_keep()?;
        server.start_under_callgrind()?;
        let directory = server.directory.display().to_string();
        self.run(&server, &with(&["--callgrind", &directory], options))
    }

    fn run(&self, server: &Server, options: &[&str]) -> Result {
        let environment = &self.postgres.environment;
        let mut program = environment.command(path(environment, self.name));
        program.env("DATABASE_URL", server.url("postgres", "postgres")?);
        run(program.args(options).args(self.arguments))
    }
}

fn path(environment: &Environment, name: &str) -> std::path::PathBuf {
    environment.target().join(format!("release/table-service-{name}"))
}

fn with<'s>(some: &[&'s str], more: &[&'s str]) -> Vec<&'s str> {
    [some, more].concat()
}
