//! The service that SDKs and other clients are tried on: a server, a database that belongs to an ordinary role, and gateways in
//! front of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::background::{Background, command_line_of_gateway, start_gateway};
use crate::environment::{Environment, Result, names, root};
use crate::logs::show_lines;
use crate::pgbouncer;
use crate::temporary::Server;

pub const ROLE: &str = "gateway";
pub const DATABASE: &str = "tables";

pub struct Service<'e> {
    // They end before the servers.
    gateways: Vec<Background>,
    pub servers: Vec<Server<'e>>,
    /// For psql and other programs, which connect to the database as the role of the gateways.
    pub environment: Environment,
    /// The program of the gateways.
    pub gateway: PathBuf,
    /// The directory of the servers and of the output of programs.
    pub directory: PathBuf,
    database_urls: Vec<String>,
}

impl<'e> Service<'e> {
    /// Starts a server with the database and these settings, NAME=VALUE.
    pub fn start(environment: &'e Environment, directory: PathBuf, settings: &[&str]) -> Result<Service<'e>> {
        fs_err::create_dir(&directory)?;
        let server = Server::start(environment, directory.join("cluster"), settings)?;
        server.create_database(DATABASE, ROLE)?;
        server.sql(ROLE, DATABASE, &["CREATE EXTENSION table_service"])?;
        Service::of(environment, directory, vec![server])
    }

    /// Servers that have the database already. psql connects to the first one, gateways to all.
    pub fn of(environment: &'e Environment, directory: PathBuf, servers: Vec<Server<'e>>) -> Result<Service<'e>> {
        let first = servers.first().context("there is no server")?;
        let mut programs = environment.clone();
        programs.set(
            "PATH",
            environment.path_with(environment.of_postgres("psql").with_file_name(""))?,
        );
        programs.set("PGHOST", first.connection("PGHOST")?);
        programs.set("PGPORT", first.connection("PGPORT")?);
        programs.set("PGUSER", ROLE);
        programs.set("PGDATABASE", DATABASE);
        let urls: Result<Vec<String>> = servers.iter().map(|server| server.url(ROLE, DATABASE)).collect();
        Ok(Service {
            gateways: Vec::new(),
            environment: programs,
            gateway: environment.target().join("debug/table-service-gateway"),
            directory,
            database_urls: urls?,
            servers,
        })
    }

    /// The server that psql connects to.
    pub fn server(&self) -> Result<&Server<'e>> {
        self.servers.first().context("there is no server")
    }

    /// Puts a `PgBouncer` between the gateways and the server.
    pub fn put_behind(&mut self, bouncer: &str) -> Result {
        let (bouncer, port) = pgbouncer::start(&self.environment, bouncer, &self.directory, self.server()?)?;
        self.database_urls = vec![format!("postgresql://{ROLE}@127.0.0.1:{port}/{DATABASE}")];
        self.gateways.push(bouncer);
        Ok(())
    }

    /// The command line of a gateway of this database on free ports.
    pub fn command_line(&self) -> Vec<&str> {
        command_line_of_gateway(&self.database_urls)
    }

    /// Starts a gateway, which has a log of this name. Returns its address.
    pub fn start_gateway(&mut self, name: &str, options: &[&str]) -> Result<String> {
        let mut command = self.environment.command(&self.gateway);
        let (gateway, address) = start_gateway(command.args(self.command_line()).args(options), &self.directory, name)?;
        self.gateways.push(gateway);
        Ok(address)
    }

    /// Searches the logs for a panic, an internal error or a secret. Copies the logs to a directory in
    /// `target` if there is one, or if the tests have failed.
    pub fn finish(self, tests: Result, secrets: &[&str], results: &str) -> Result {
        let ended = all([tests, self.look_into_logs(secrets), self.all_servers_are_used()].into_iter());
        if ended.is_err() {
            let results = root().join("target").join(results);
            self.keep_logs(&results)?;
            println!("The logs: {}", results.display());
        }
        ended
    }

    fn look_into_logs(&self, secrets: &[&str]) -> Result {
        let signs: Vec<&str> = ["panicked", "InternalError", "XX000"]
            .into_iter()
            .chain(secrets.iter().copied())
            .collect();
        let mut found = false;
        for name in names(&self.directory, "log")? {
            found |= show_lines(&self.directory.join(format!("{name}.log")), &signs)?;
        }
        for server in &self.servers {
            found |= show_lines(
                &server.directory.join("log"),
                &[" XX000 ", "terminated by signal", "PANIC:"],
            )?;
        }
        if found {
            bail!("there are internal errors or secrets in the logs");
        }
        Ok(())
    }

    /// The gateways have sent statements on entities to every server. Those on tables go to the first one anyway.
    fn all_servers_are_used(&self) -> Result {
        for server in self.servers.iter().skip(1) {
            let statements = server.sql(
                ROLE,
                DATABASE,
                &["SELECT count(*) FROM pg_stat_activity \
                    WHERE application_name = 'table-service-gateway' AND query ~ '_entit|execute_batch|query_page'"],
            )?;
            if statements == "0" {
                bail!(
                    "no gateway has sent a statement on entities to {}",
                    server.directory.display()
                );
            }
        }
        Ok(())
    }

    fn keep_logs(&self, results: &Path) -> Result {
        fs_err::create_dir_all(results)?;
        let copy = |from: PathBuf, to: String| fs_err::copy(from, results.join(to));
        for name in names(&self.directory, "log")? {
            let name = format!("{name}.log");
            copy(self.directory.join(&name), name)?;
        }
        for server in &self.servers {
            let name = server.directory.file_name().unwrap_or_default().to_string_lossy();
            copy(server.directory.join("log"), format!("{name}.server.log"))?;
        }
        Ok(())
    }
}

/// Runs all of some things, and says which have failed.
pub fn all(results: impl Iterator<Item = Result>) -> Result {
    let failed = results.filter_map(Result::err).map(|error| format!("{error:#}"));
    let failed: Vec<String> = failed.collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!(failed.join("\n"))
}
