//! The server that is measured: a PostgreSQL with the extension's release build. It is a copy, because the tests use builds of
//! another kind.

use std::path::Path;

use crate::background::{Background, address_of_gateway};
use crate::environment::{Environment, Result, run, text};
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
        let original = environment.cache.join(format!("pg{}", environment.pg));
        if tree.exists() {
            fs_err::remove_dir_all(&tree)?;
        }
        run(environment.command("cp").arg("-a").arg(original).arg(&tree))?;
        environment.set("PG_CONFIG", tree.join("bin/pg_config"));
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
        gateway.args([
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
            "--log",
            "warn",
        ]);
        gateway.args(database_urls.iter().flat_map(|url| ["--database-url", url]));
        let mut gateway = Background::start(&mut gateway, self.directory(), name)?;
        let address = address_of_gateway(&mut gateway)?;
        Ok((gateway, address))
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

fn processors() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}
