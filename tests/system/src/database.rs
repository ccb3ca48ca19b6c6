//! A database for one test.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cluster::{Cluster, run};
use crate::session::{Session, connect};

/// A database for one test, dropped at its end. The test fails if an internal error occurred in it.
pub struct Database {
    name: String,
    cluster: &'static Cluster,
}

impl Database {
    /// A database with the extension.
    pub fn new() -> Database {
        let database = Database::empty();
        database.session("set-up").run("CREATE EXTENSION table_service");
        database
    }

    /// A database without the extension.
    pub fn empty() -> Database {
        Database::with("")
    }

    /// A database without the extension; `options` are those of CREATE DATABASE.
    pub fn with(options: &str) -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let cluster = Cluster::shared();
        let name = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
        cluster.session().run(&format!("CREATE DATABASE {name} {options}"));
        Database { name, cluster }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// A new session of a superuser. Failures call it `name`.
    pub fn session(&self, name: &str) -> Session {
        self.session_as("postgres", name)
    }

    /// A new session of another role.
    pub fn session_as(&self, role: &str, name: &str) -> Session {
        connect(self.cluster.host(), self.cluster.port(), &self.name, role, name).unwrap()
    }

    /// A new role, which may log in and nothing else. Roles belong to the whole server, so its name contains the name
    /// of the database.
    pub fn role(&self, name: &str) -> String {
        let role = format!("{}_{name}", self.name);
        self.cluster
            .session()
            .run(&format!("CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE"));
        role
    }

    /// Runs one of PostgreSQL's programs on this database and returns its output.
    pub fn program(&self, name: &str, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        let mut command: Command = self.cluster.program(name);
        run(command.env("PGDATABASE", &self.name).args(arguments), input)
    }
}

impl Default for Database {
    fn default() -> Self {
        Database::new()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A server that has crashed may not be back yet.
        let drop = || {
            let session = self.cluster.try_session("postgres", "postgres", "cluster");
            session.and_then(|session| session.sql(&format!("DROP DATABASE {} WITH (FORCE)", self.name)))
        };
        let mut dropped = drop();
        // The backend of a program that was killed may still read a slot.
        for _ in 0..600 {
            if std::thread::panicking() || !dropped.as_ref().is_err_and(|failure| failure.sqlstate == "55006") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            dropped = drop();
        }
        let log = self.cluster.log();
        let internal = format!(" XX000 {} ", self.name);
        let signs = [
            internal.as_str(),
            "PANIC:",
            "TRAP:",
            "terminated by signal",
            "Failed process was running:",
        ];
        let bad: Vec<_> = log
            .lines()
            .filter(|line| signs.iter().any(|sign| line.contains(sign)))
            .collect();
        if std::thread::panicking() {
            for line in bad {
                eprintln!("{line}");
            }
            return;
        }
        dropped.unwrap();
        assert!(bad.is_empty(), "internal errors: {bad:#?}");
    }
}
