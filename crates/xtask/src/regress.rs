//! PostgreSQL's drivers of regression tests: pg_regress for the golden tests, `pg_isolation_regress` for concurrent sessions.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use crate::environment::{Environment, Result, names, root, run, text};
use crate::logs::show_lines;
use crate::temporary::{Server, TemporaryDirectory};

/// A driver, with the files that it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    /// Of the tests' directory, and of the one in `target` for results.
    pub name: &'static str,
    driver: &'static str,
    /// The directory of its tests, and the ending of their names.
    pub files: &'static str,
    pub ending: &'static str,
}

pub const GOLDEN: Suite = Suite {
    name: "pg_regress",
    driver: "regress/pg_regress",
    files: "sql",
    ending: "sql",
};
pub const ISOLATION: Suite = Suite {
    name: "isolation",
    driver: "isolation/pg_isolation_regress",
    files: "specs",
    ending: "spec",
};

/// The test that installs the extension; the others need it.
const INSTALL: &str = "00_install";

impl Suite {
    /// The directory of its tests.
    pub fn input(self) -> PathBuf {
        root().join("tests").join(self.name)
    }

    /// All its tests, or those of them that are chosen.
    pub fn tests(self, chosen: &[String]) -> Result<Vec<String>> {
        let all = names(&self.input().join(self.files), self.ending)?;
        if chosen.is_empty() {
            return Ok(all);
        }
        let mut tests: Vec<String> = all.iter().filter(|test| chosen.contains(test)).cloned().collect();
        if !tests.is_empty() && all.iter().any(|test| test == INSTALL) && !tests.iter().any(|test| test == INSTALL) {
            tests.insert(0, INSTALL.to_owned());
        }
        Ok(tests)
    }

    /// The driver, set up for a server. Its results go to `results`.
    pub fn driver(self, environment: &Environment, server: &Server, input: &Path, results: &Path) -> Result<Command> {
        let makefiles = environment.directory_of_postgres("--pgxs")?;
        let program = makefiles
            .parent()
            .unwrap_or(Path::new("/"))
            .join("../test")
            .join(self.driver);
        let _ = fs_err::remove_dir_all(results);
        fs_err::create_dir_all(results)?;
        let mut driver = environment.command(&program);
        let mut option = |name: &str, value: &Path| {
            driver.arg(format!("--{name}={}", value.display()));
        };
        option("inputdir", input);
        option("outputdir", results);
        option("bindir", &environment.directory_of_postgres("--bindir")?);
        // Since PostgreSQL 16.
        if text(environment.command(&program).arg("--help"))?.contains("--expecteddir") {
            option("expecteddir", &expected(environment, input, results)?);
        }
        option("host", Path::new(&server.connection("PGHOST")?));
        option("port", Path::new(&server.connection("PGPORT")?));
        driver.arg("--user=postgres");
        Ok(driver)
    }
}

/// Returns the settings that the guide tells users to set for a database; a test may set more.
pub fn options(settings: &str) -> String {
    format!("-c search_path=\"$user\",public,table_service {settings}")
}

/// How a suite is run.
#[derive(Default)]
pub struct Run<'a> {
    /// Only these tests.
    pub tests: &'a [String],
    /// Takes the results as the expected ones.
    pub accept: bool,
    /// Settings of the server, NAME=VALUE.
    pub server: &'a [&'a str],
    /// Settings of all sessions, `-c NAME=VALUE`.
    pub sessions: &'a str,
}

impl Run<'_> {
    /// Runs a suite on a server of its own.
    ///
    /// # Errors
    /// A test fails, or there is an internal error in a result or in the server's log.
    pub fn run(&self, suite: Suite, environment: &Environment, work: &TemporaryDirectory) -> Result {
        let tests = suite.tests(self.tests)?;
        if tests.is_empty() {
            return Ok(());
        }
        let (input, results) = (suite.input(), root().join("target").join(suite.name));
        let expected = input.join("expected");
        fs_err::create_dir_all(&expected)?;
        if self.accept {
            if let Some(patch) = differences(environment, &input).first() {
                bail!(
                    "accept on an earlier PostgreSQL: {} has the differences",
                    patch.display()
                );
            }
            touch(&expected, &tests)?;
        }
        let server = Server::start(environment, work.directory.join(suite.name), self.server)?;
        let mut driver = suite.driver(environment, &server, &input, &results)?;
        driver
            .args(["--dbname=table_service_tests", "--load-extension=table_service"])
            .args(&tests);
        let mut ended = run(driver.env("PGOPTIONS", options(self.sessions)));
        server.stop_and_keep()?;
        fs_err::copy(server.directory.join("log"), results.join("server.log"))?;
        let valgrind = keep_findings_of_valgrind(&server, &results)?;
        drop(server);
        if self.accept {
            ended = accept(&results, &expected);
        } else if ended.is_err() {
            show(&results.join("regression.diffs"));
        }
        internal_errors(&results)?;
        if !valgrind.is_empty() {
            valgrind.lines().take(100).for_each(|line| println!("{line}"));
            bail!(
                "valgrind found something (all of it: {}/valgrind.log)",
                results.display()
            );
        }
        ended
    }
}

/// Returns the differences from the expected results on this major, `since-MAJOR.patch` beside the tests.
fn differences(environment: &Environment, input: &Path) -> Vec<PathBuf> {
    (16..=environment.pg)
        .map(|major| input.join(format!("since-{major}.patch")))
        .filter(|patch| patch.exists())
        .collect()
}

/// Where the results that are expected on this major are, in a directory `expected`.
fn expected(environment: &Environment, input: &Path, results: &Path) -> Result<PathBuf> {
    let differences = differences(environment, input);
    if differences.is_empty() {
        return Ok(input.to_owned());
    }
    run(environment
        .command("cp")
        .arg("-r")
        .arg(input.join("expected"))
        .arg(results))?;
    let directory = results.strip_prefix(root()).unwrap_or(results);
    let mut apply = environment.command("git");
    // Without `tests` and the suite's name.
    apply.args(["apply", "-p3", "--directory"]).arg(directory);
    run(apply.args(&differences))?;
    Ok(results.to_owned())
}

/// Makes empty expected results: the drivers give up at a test without one.
pub fn touch(expected: &Path, tests: &[String]) -> Result {
    for test in tests {
        let path = expected.join(format!("{test}.out"));
        std::fs::File::options().create(true).append(true).open(&path)?;
    }
    Ok(())
}

/// The results become the expected ones.
pub fn accept(results: &Path, expected: &Path) -> Result {
    let results = results.join("results");
    for test in names(&results, "out")? {
        let name = format!("{test}.out");
        fs_err::copy(results.join(&name), expected.join(&name))?;
    }
    Ok(())
}

/// Prints a file, if it is there.
pub fn show(file: &Path) {
    if let Ok(text) = fs_err::read(file) {
        println!("{}", String::from_utf8_lossy(&text));
    }
}

fn keep_findings_of_valgrind(server: &Server, results: &Path) -> Result<String> {
    let mut findings = String::new();
    for entry in fs_err::read_dir(&server.directory)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|stem| stem == "valgrind") {
            findings += &String::from_utf8_lossy(&fs_err::read(&path)?);
        }
    }
    let log = results.join("valgrind.log");
    fs_err::write(&log, &findings)?;
    Ok(findings)
}

/// An internal error is always a bug, whatever a test expects.
fn internal_errors(results: &Path) -> Result {
    let log = results.join("server.log");
    let mut found = show_lines(&log, &[" XX000 ", "terminated by signal", " PANIC: ", "TRAP: "])?;
    for test in names(&results.join("results"), "out").unwrap_or_default() {
        found |= show_lines(&results.join("results").join(format!("{test}.out")), &["XX000"])?;
    }
    if found {
        bail!("an internal error is always a bug (the log: {})", log.display())
    } else {
        Ok(())
    }
}
