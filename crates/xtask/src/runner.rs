//! The common part of the steps: an environment, a directory for servers, and whether the extension is installed.

use std::panic::resume_unwind;
use std::process::Command;

use anyhow::Context;

use crate::environment::{Environment, Result, names, processors, root, run, step};
use crate::regress::{Run, Suite};
use crate::temporary::{TemporaryDirectory, lock};

/// All packages but the extension, always together: for another selection of packages cargo builds many dependencies again, with
/// the features that only this selection needs.
pub const PACKAGES: [&str; 3] = ["--workspace", "--exclude", "table_service"];

/// How many tests run at a time.
const THREADS: &str = "RUST_TEST_THREADS";

pub struct Runner {
    pub environment: Environment,
    /// For steps that need servers.
    work: Option<TemporaryDirectory>,
    installed: bool,
}

impl Runner {
    /// Returns a runner of steps that need no PostgreSQL.
    pub fn without_postgres(pg: Option<u32>) -> Result<Runner> {
        let environment = Environment::load(pg, false)?;
        environment.set_up("rust")?;
        Ok(Runner {
            environment,
            work: None,
            installed: false,
        })
    }

    /// Returns a runner of steps that need a PostgreSQL. Waits until no other run uses it.
    pub fn with_postgres(pg: Option<u32>, checked: bool) -> Result<Runner> {
        let mut environment = Environment::load(pg, checked)?;
        let major = environment.pg.to_string();
        environment.set_up(&major)?;
        let file = format!("test-{major}{}.lock", if checked { "-checked" } else { "" });
        let lock = lock(&environment.cache.join(file))?;
        let work = TemporaryDirectory::new(&mut environment, Some(lock))?;
        // A PostgreSQL for another architecture comes with the extension.
        let installed = environment.get("TABLE_SERVICE_INSTALLED").is_some();
        Ok(Runner {
            environment,
            work: Some(work),
            installed,
        })
    }

    /// Returns the directory for servers.
    pub fn work(&self) -> Result<&TemporaryDirectory> {
        self.work.as_ref().context("this needs servers")
    }

    fn features(&self) -> [String; 3] {
        [
            "--no-default-features".to_owned(),
            "--features".to_owned(),
            format!("pg{}", self.environment.pg),
        ]
    }

    /// Tests of all packages but the extension; the caller says which.
    pub fn tests(&self, arguments: &[&str]) -> Command {
        let mut command = self.environment.cargo(["test"]);
        command.args(PACKAGES).args(arguments);
        // Most of these tests wait for servers, so two at a time leave processors idle.
        if let (None, Ok(processors)) = (std::env::var_os(THREADS), processors()) {
            command.env(THREADS, (2 * processors).to_string());
        }
        command
    }

    /// Lints of all packages but the extension.
    pub fn lint_all_but_the_extension(&self) -> Result {
        run(self
            .environment
            .cargo(["clippy"])
            .args(PACKAGES)
            .args(["--all-targets", "--", "-D", "warnings"]))
    }

    /// Lints of the extension.
    pub fn lint_the_extension(&self) -> Result {
        let mut clippy = self.environment.cargo([
            "clippy",
            "-p",
            "table_service",
            "--all-targets",
            "--no-default-features",
        ]);
        run(clippy.args([
            "--features",
            &format!("pg{} pg_test", self.environment.pg),
            "--",
            "-D",
            "warnings",
        ]))
    }

    /// Builds the gateway into cargo's directory, where the tests look for it.
    pub fn build_gateway(&self) -> Result {
        run(&mut self.tests(&["--test", "gateway", "--no-run"]))
    }

    /// Installs the extension into the private PostgreSQL, once a run.
    pub fn install_extension(&mut self) -> Result {
        if self.installed {
            return Ok(());
        }
        step(&format!(
            "Installing the extension into PostgreSQL {}",
            self.environment.pg
        ));
        self.install(&[])?;
        // So that tests can upgrade from every release. Users get only the upgrade scripts.
        let extensions = self.environment.directory_of_postgres("--sharedir")?.join("extension");
        let releases = root().join("sql/releases");
        for release in names(&releases, "sql")? {
            let name = format!("{release}.sql");
            fs_err::copy(releases.join(&name), extensions.join(&name))?;
        }
        Ok(())
    }

    /// The same as users get it.
    pub fn install_release_build(&mut self) -> Result {
        if self.installed {
            return Ok(());
        }
        step(&format!(
            "The extension as users get it, in PostgreSQL {}",
            self.environment.pg
        ));
        self.install(&["--release"])
    }

    fn install(&mut self, options: &[&str]) -> Result {
        let mut install = self.environment.cargo(["pgrx", "install"]);
        install
            .args(options)
            .arg("--pg-config")
            .arg(self.environment.pg_config());
        run(install.args(self.features()))?;
        self.installed = true;
        Ok(())
    }

    /// The tests of `src/tests`, or those with a text in their name.
    pub fn test_extension(&self, name: Option<&str>) -> Result {
        step(&format!("The extension inside PostgreSQL {}", self.environment.pg));
        // pgrx writes over the library in place, which would crash a server that has it open.
        let libraries = self.environment.directory_of_postgres("--pkglibdir")?;
        let _ = fs_err::remove_file(libraries.join("table_service.so"));
        let mut test = self.environment.cargo(["pgrx", "test"]);
        test.arg(format!("pg{}", self.environment.pg))
            .args(name)
            .args(self.features());
        if crate::environment::is_root() {
            test.args(["--runas", "postgres"]);
        }
        run(test.arg("--pgdata").arg(self.work()?.of_pgrx(&self.environment)?))
    }

    /// Suites of regression tests, at the same time: concurrent sessions mostly wait.
    pub fn regress(&mut self, suites: &[Suite], headline: &str, how: &Run) -> Result {
        self.install_extension()?;
        step(headline);
        let (environment, work) = (&self.environment, self.work()?);
        std::thread::scope(|scope| {
            let runs: Vec<_> = suites
                .iter()
                .map(|&suite| scope.spawn(move || how.run(suite, environment, work)))
                .collect();
            let ends = runs
                .into_iter()
                .map(|run| run.join().unwrap_or_else(|panic| resume_unwind(panic)));
            ends.fold(Ok(()), Result::and)
        })
    }
}
