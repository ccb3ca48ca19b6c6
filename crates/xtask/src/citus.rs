//! Temporary Citus clusters.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::environment::{Environment, Result, run, text};
use crate::regress::{Suite, options};
use crate::temporary::{ON_TCP, Server};

/// Builds Citus into the private PostgreSQL, from a source that the user has.
pub fn build(environment: &Environment, source: &Path) -> Result {
    run(environment.command("tests/citus/build.sh").arg(source))
}

/// The PostgreSQL for Citus 14, which needs 16 or later.
pub fn postgres(pg: Option<u32>) -> Option<u32> {
    Some(pg.filter(|&pg| pg > 15).unwrap_or(18))
}

/// The arguments of a program of tests for those that need a cluster.
pub const ON_A_CLUSTER: [&str; 3] = ["on_a_cluster", "--ignored", "--test-threads=1"];

/// A coordinator, two workers, and tables with 8 shards. The servers connect each other on 127.0.0.1.
pub struct Cluster<'e> {
    /// The coordinator comes first.
    pub servers: Vec<Server<'e>>,
}

impl<'e> Cluster<'e> {
    /// Starts it in directories `cluster`, `worker1` and `worker2`, with a database. Its owner creates the extension
    /// and its tables, as users may.
    pub fn start(of: &Node<'e>) -> Result<Cluster<'e>> {
        let coordinator = of.start("cluster")?;
        let port = coordinator.connection("PGPORT")?;
        let host = format!("SELECT citus_set_coordinator_host('127.0.0.1', {port})");
        coordinator.sql("postgres", of.database, &[&host])?;
        let mut cluster = Cluster {
            servers: vec![coordinator],
        };
        for name in ["worker1", "worker2"] {
            let worker = of.start(name)?;
            cluster.coordinator()?.sql("postgres", of.database, &[&add(&worker)?])?;
            cluster.servers.push(worker);
        }
        let enable = ["CREATE EXTENSION table_service", "SELECT table_service.enable_citus(8)"];
        cluster.coordinator()?.sql(of.owner, of.database, &enable)?;
        Ok(cluster)
    }

    /// A driver that runs these tests on the coordinator. A test finds the port of the first worker in its environment.
    pub fn driver(&self, of: &Node, suite: Suite, input: &Path, results: &Path, tests: &[String]) -> Result<Command> {
        let mut driver = suite.driver(of.environment, self.coordinator()?, input, results)?;
        driver
            .args(["--use-existing", &format!("--dbname={}", of.database)])
            .args(tests);
        let worker = self.servers.get(1).context("there is no worker")?;
        driver.env("WORKER1_PORT", worker.connection("PGPORT")?);
        driver.env("PGOPTIONS", options("-c citus.enable_unsupported_feature_messages=off"));
        Ok(driver)
    }

    /// Lets the tester of sessions see those that wait on other servers, while `f` runs.
    pub fn while_testing_sessions<R>(&self, of: &Node, f: impl FnOnce() -> R) -> Result<R> {
        let sql = |function: &str| {
            let statement = format!("SELECT citus_internal.{function}()");
            self.coordinator()?.sql("postgres", of.database, &[&statement])
        };
        sql("replace_isolation_tester_func")?;
        let result = f();
        sql("restore_isolation_tester_func")?;
        Ok(result)
    }

    /// The directories of the coordinator and both workers, as tests of Rust read them.
    pub fn directories(&self) -> String {
        let servers = self.servers.iter();
        let directories: Vec<String> = servers.map(|server| server.directory.display().to_string()).collect();
        directories.join(" ")
    }

    /// The server that knows where the shards are.
    pub fn coordinator(&self) -> Result<&Server<'e>> {
        self.servers.first().context("a cluster has servers")
    }
}

/// The statement that adds a server to a cluster.
fn add(server: &Server) -> Result<String> {
    Ok(format!(
        "SELECT citus_add_node('127.0.0.1', {})",
        server.connection("PGPORT")?
    ))
}

/// The common settings of the servers of a cluster.
#[derive(Clone, Copy)]
pub struct Node<'e> {
    pub environment: &'e Environment,
    /// Where their directories are.
    pub directory: &'e Path,
    pub database: &'e str,
    /// An ordinary role, or postgres.
    pub owner: &'e str,
    /// Settings, NAME=VALUE.
    pub settings: &'e [&'e str],
}

impl<'e> Node<'e> {
    /// Starts a server with the database, which is no part of a cluster yet.
    pub fn start(&self, name: &str) -> Result<Server<'e>> {
        let Node { database, owner, .. } = self;
        let mut settings = vec![
            ON_TCP,
            "shared_preload_libraries=citus",
            "wal_level=logical",
            "max_prepared_transactions=200",
            "max_replication_slots=20",
            "max_wal_senders=20",
            "max_worker_processes=32",
            // A server may be killed in the middle of writing a page.
            "full_page_writes=on",
            "shared_buffers=64MB",
            "citus.node_conninfo=sslmode=disable",
            "citus.enable_statistics_collection=off",
            "citus.recover_2pc_interval=1s",
        ];
        // Citus splits shards with a plugin of its own, which newer minor versions of PostgreSQL have to be told.
        let mut known = self.environment.command(self.environment.of_postgres("postgres"));
        let known = text(known.arg("--describe-config"))?;
        if known.lines().any(|line| line.starts_with("output_plugin_libraries\t")) {
            settings.push("output_plugin_libraries=pgoutput, test_decoding, citus");
        }
        settings.extend(self.settings);
        let server = Server::start(self.environment, self.directory.join(name), &settings)?;
        server.create_database(database, owner)?;
        server.sql("postgres", database, &["CREATE EXTENSION citus"])?;
        Ok(server)
    }
}
