//! The server that is measured: a PostgreSQL with the extension's release build. It is a copy, because the tests use builds of
//! another kind.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::background::{Background, command_line_of_gateway, start_gateway};
use crate::environment::{Environment, Result, output, processors, run, text};
use crate::temporary::{Server, TemporaryDirectory};

pub struct Postgres {
    pub environment: Environment,
    work: TemporaryDirectory,
}

impl Postgres {
    /// Builds it.
    pub fn build(environment: &Environment) -> Result<Postgres> {
        let mut environment = environment.clone();
        environment.set_up(&environment.pg.to_string())?;
        println!(
            "{} processors, {}",
            processors()?,
            text(
                environment
                    .command("sh")
                    .args(["-c", "uptime | sed 's/.*load average/load average/'"])
            )?
        );
        let work = TemporaryDirectory::new(&mut environment, None)?;
        // A path of its own, and always the same one: with another `pg_config` cargo builds all of pgrx anew.
        let tree = environment.cache.join(format!("bench-pg{}", environment.pg));
        if tree.exists() {
            fs_err::remove_dir_all(&tree)?;
        }
        let environment = environment.with_own_postgres(environment.pg, &tree)?;
        let install = "pgrx-config/install.sh \"$PG_CONFIG\" >\"$0\" 2>&1 || { cat \"$0\" >&2; exit 1; }";
        run(environment
            .command("bash")
            .args(["-c", install])
            .arg(work.directory.join("build.log")))?;
        Ok(Postgres { environment, work })
    }

    /// Returns the directory for files.
    pub fn directory(&self) -> &Path {
        &self.work.directory
    }

    /// A new server with these settings, and the extension in its database `postgres`.
    pub fn start(&self, settings: &[&str]) -> Result<Server<'_>> {
        let server = Server::start(&self.environment, self.work.directory.join("cluster"), settings)?;
        server.sql("postgres", "postgres", &["CREATE EXTENSION table_service"])?;
        Ok(server)
    }

    /// Starts the gateway's release build on a free port, for the nodes of a database. Returns its address.
    pub fn start_gateway(&self, name: &str, database_urls: &[String]) -> Result<(Background, String)> {
        let program = self.environment.target().join("release/table-service-gateway");
        let mut gateway = self.environment.command(program);
        gateway
            .args(command_line_of_gateway(database_urls))
            .args(["--log", "warn"]);
        start_gateway(&mut gateway, self.directory(), name)
    }

    /// Runs a script of pgbench with prepared statements, and returns its transactions a second. Its variable `n` begins with
    /// 1000000.
    pub fn pgbench(&self, url: &str, script: &Path, clients: u32, seconds: u32) -> Result<f64> {
        let mut pgbench = pgbench(&self.environment, clients, seconds);
        pgbench.args(["-D", "n=1000000", "-f"]).arg(script);
        pgbench.env("PGOPTIONS", "-c search_path=table_service");
        let printed = output(pgbench.arg(url))?;
        transactions_a_second(&String::from_utf8_lossy(&printed))
            .with_context(|| format!("{}: pgbench has no result", script.display()))
    }

    /// Keeps the processors awake until the result is dropped. An idle processor sleeps, and in a virtual machine waking it takes
    /// longer than a statement. With one client that waits for one server, the measurement would be of this. So a loop keeps each
    /// processor awake, at a priority below everything else. Where many threads wait for each other the loops are in the way.
    pub fn stay_awake(&self) -> Result<Vec<Background>> {
        if text(self.environment.command("sh").args(["-c", "command -v chrt || true"]))?.is_empty() {
            return Ok(Vec::new());
        }
        (0..processors()?)
            .map(|number| {
                let mut idle = self.environment.command("chrt");
                idle.args(["--idle", "0", "bash", "-c", "while :; do :; done"]);
                Background::start(&mut idle, &self.work.directory, &format!("awake{number}"))
            })
            .collect()
    }
}

/// pgbench, which sends prepared statements over so many connections for so many seconds.
pub fn pgbench(environment: &Environment, clients: u32, seconds: u32) -> Command {
    let mut pgbench = environment.command(environment.of_postgres("pgbench"));
    pgbench.args(["-n", "-M", "prepared", "-j", "2"]);
    pgbench.args(["-c", &clients.to_string(), "-T", &seconds.to_string()]);
    pgbench
}

/// The result in the output of pgbench.
pub fn transactions_a_second(printed: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split(' ').next()?.parse().ok()
}

/// The smallest, the median and the largest of some values.
pub fn smallest_middle_largest(mut values: Vec<f64>) -> [f64; 3] {
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
