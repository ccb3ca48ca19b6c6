//! Tests the tests: takes out one safeguard at a time, and fails if the tests still pass.
//!
//! The first line of each patch in `tests/mutations` names the fault that the patch makes. Those of `filters/` and
//! `replication/` are caught by the model's tests, those of `gateway/`, `copy/` and `emulator/` by the tests of these
//! programs, those of `citus/` by tests on a Citus cluster, the others by tests on a server.
//! Everything happens in a copy of the project and of PostgreSQL, so nothing is left behind but the build in `target/mutations`,
//! which makes the next run faster.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use fs_err::File;

use crate::citus::{Cluster, Node, ON_A_CLUSTER};
use crate::environment::{Environment, Result, names, output, root, run, text};
use crate::regress::{GOLDEN, ISOLATION, Suite, options};
use crate::requests::from_crates_io;
use crate::runner::Runner;
use crate::temporary::{Server, TemporaryDirectory, lock};

/// Settings of sessions in which statements do the work of direct access.
const STATEMENTS: &str = "-c table_service.enable_direct_access=off";

/// The golden tests that catch mutants. The others catch none.
const GOLDEN_TESTS: &str = "00_install access bulk batch batch_errors batch_json batch_transactions change_feeds delete etags expiry \
    filter_dialect insert merge names pages patch privileges property_index_pages property_indexes rename replace table_features upsert \
    write_groups";
/// The tests of tests/system that do.
const SYSTEM_TESTS: &str = "batches:: bulk:: change_feeds:: concurrency::concurrent_definitions expiry:: feed_notes:: foreign_code:: \
    index_entities:: names:: patch:: property_indexes:: privileges::the_owner_of_the_database queries::a_partitioned queries::plans upgrade::";

/// The tests of a Citus cluster that do: golden ones, and of sessions.
const CITUS_TESTS: [(Suite, &str); 8] = [
    (ISOLATION, "create_beside_moves"),
    (GOLDEN, "direct"),
    (GOLDEN, "direct_odd"),
    (ISOLATION, "direct_moves"),
    (GOLDEN, "direct_writes"),
    (GOLDEN, "expiry"),
    (ISOLATION, "direct_writes_moves"),
    (ISOLATION, "expiry_renewed"),
];

/// Mutants that the same tests catch.
#[derive(PartialEq, Eq)]
struct Kind {
    /// Their directories in tests/mutations.
    groups: &'static [&'static str],
    /// Where the extension is that the tests use.
    uses: Uses,
    /// The commands of cargo that build the programs which the mutants change.
    builds: &'static [&'static str],
    /// The tests, the fast ones first.
    tests: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    Nothing,
    /// The extension as it is, installed once.
    Installed,
    /// A server with the mutant. The tests are those of the constants above.
    Server,
    /// A Citus cluster with the mutant.
    Cluster,
}

/// In the order in which they are tried.
const KINDS: [Kind; 6] = [
    Kind {
        groups: &["filters", "replication"],
        uses: Uses::Nothing,
        builds: &["test -p table_service_model --lib --no-run"],
        tests: &[
            "test -p table_service_model --lib -- filter::tests --skip hostile",
            "test -p table_service_model",
        ],
    },
    Kind {
        groups: &["gateway"],
        uses: Uses::Installed,
        builds: &["test -p table_service_explorer -p table_service_gateway --lib --test gateway --no-run"],
        tests: &[
            "test -p table_service_explorer -p table_service_gateway --lib",
            "test -p table_service_gateway --test gateway -- access::a_request_concerns certificates::a_hangup explorer:: groups:: \
             memory:: nodes:: hostile::a_page_whose failover::a_name_that_leads \
             failover::a_primary_that_is_set_to_read_only failover::a_write_whose_connection_broke \
             failover::all_addresses failover::no_write_goes pages::filters_are \
             standbys::a_promoted_server standbys::a_standby_whose_library standbys::another_database standbys::behind_one_name \
             standbys::reads_come_from standbys::standbys_of_a_database_of_citus standbys::what_is_revoked",
        ],
    },
    Kind {
        groups: &["copy"],
        uses: Uses::Installed,
        builds: &[
            // Some of its tests start one.
            "build -p table_service_gateway",
            "test -p table_service_archive -p table_service_copy --lib --test copy --no-run",
        ],
        tests: &[
            "test -p table_service_archive -p table_service_copy --lib",
            "test -p table_service_copy --test copy -- archive:: archive_cases:: archive_definitions:: archive_unknown:: as_it_was:: \
             changes:: owners:: tables::",
        ],
    },
    Kind {
        groups: &["emulator"],
        uses: Uses::Installed,
        builds: &["test -p table_service_emulator --no-run"],
        tests: &["test -p table_service_emulator"],
    },
    Kind {
        groups: &[""],
        uses: Uses::Server,
        builds: &[],
        tests: &[],
    },
    Kind {
        groups: &["citus"],
        uses: Uses::Cluster,
        builds: &[],
        tests: &[],
    },
];

impl Kind {
    fn has(&self, mutant: &str) -> bool {
        self.groups
            .contains(&mutant.split_once('/').map_or("", |(group, _)| group))
    }
}

fn patch(mutant: &str) -> String {
    format!("tests/mutations/{mutant}.patch")
}

/// All mutants, in order.
fn all() -> Result<Vec<String>> {
    let mut mutants = Vec::new();
    for group in KINDS.iter().flat_map(|kind| kind.groups) {
        let path = Path::new("tests/mutations").join(group);
        let names = names(&root().join(path), "patch")?;
        let name = |name: &String| Path::new(group).join(name).display().to_string();
        mutants.extend(names.iter().map(name));
    }
    Ok(mutants)
}

/// Takes out one safeguard at a time: these of tests/mutations, or all.
///
/// # Errors
/// A mutant survives or does not compile, a patch does not apply, or tests fail without any change.
pub fn mutants(pg: Option<u32>, chosen: &[String]) -> Result {
    for mutant in chosen {
        if !root().join(patch(mutant)).exists() {
            bail!("there is no {}", patch(mutant));
        }
    }
    let mutants = if chosen.is_empty() { all()? } else { chosen.to_vec() };
    let of = |kind: &Kind| -> Vec<&String> { mutants.iter().filter(|mutant| kind.has(mutant)).collect() };
    // Those of a cluster need a source of Citus, which not everybody has.
    let is_tried = |kind: &&Kind| !of(kind).is_empty() && (kind.uses != Uses::Cluster || !chosen.is_empty());
    let kinds: Vec<&Kind> = KINDS.iter().filter(is_tried).collect();
    let workshop = Workshop::new(pg, kinds.iter().any(|kind| kind.uses != Uses::Nothing))?;
    if kinds.iter().any(|kind| kind.uses == Uses::Cluster) && !workshop.has_citus()? {
        bail!(
            "for the mutants of citus/, `cargo xtask citus` builds Citus into a PostgreSQL from 16 on; then name it by --pg"
        );
    }
    let (mut count, mut survivors) = (0, 0);
    for kind in kinds {
        count += of(kind).len();
        survivors += workshop.try_all(kind, &of(kind))?;
    }
    println!("{count} mutants, {survivors} survive or do not compile");
    if survivors > 0 {
        bail!("a test must notice each mutant");
    }
    Ok(())
}

/// Lets cargo-mutants change operators, branches and returned values in files of the model.
pub fn of_the_model(pg: Option<u32>, files: &[String]) -> Result {
    let mut environment = Runner::without_postgres(pg)?.environment;
    from_crates_io(&mut environment, "mutants")?;
    let mut mutants = environment.cargo(["mutants", "--package", "table_service_model", "--output", "target"]);
    run(mutants.args(files.iter().flat_map(|file| ["--file", file])))
}

/// A copy of the project and of PostgreSQL.
struct Workshop {
    environment: Environment,
    work: TemporaryDirectory,
    source: PathBuf,
}

impl Workshop {
    /// Waits until no other run has the build.
    fn new(pg: Option<u32>, with_postgres: bool) -> Result<Workshop> {
        let mut environment = Environment::load(pg, false)?;
        if with_postgres {
            let major = environment.pg.to_string();
            run(environment.command("pgrx-config/setup.sh").args([&major, "run"]))?;
        }
        let target = root().join("target/mutations");
        fs_err::create_dir_all(&target)?;
        let lock = lock(&target.join(".one-run-at-a-time"))?;
        environment.set("CARGO_TARGET_DIR", target);
        environment.set("CARGO_PROFILE_DEV_DEBUG", "0");
        let work = TemporaryDirectory::new(&mut environment, Some(lock))?;
        let source = work.directory.join("source");
        copy_project(&environment, &source)?;
        if with_postgres {
            environment = environment.with_own_postgres(environment.pg, &work.directory.join("pg"))?;
        }
        Ok(Workshop {
            environment,
            work,
            source,
        })
    }

    /// Tries these mutants, one after the other. Returns how many survive or do not compile.
    fn try_all(&self, kind: &Kind, mutants: &[&String]) -> Result<usize> {
        let mut system = PathBuf::new();
        match kind.uses {
            Uses::Nothing => {}
            Uses::Installed => self.install()?,
            Uses::Cluster => system = self.build_system_tests()?,
            Uses::Server => {
                // Every suite gets a new server, because a mutant may leave anything behind. A copy is faster than initdb.
                Server::start(&self.environment, self.template(), &[])?.make_template()?;
                system = self.build_system_tests()?;
            }
        }
        self.build_kind(kind)?;
        if !self.passes(kind, &system)? {
            bail!("{}\nThese tests fail without any change.", self.log());
        }
        let mut survivors = 0;
        for mutant in mutants {
            let patch = patch(mutant);
            run(self.command("git").args(["apply", &patch]))
                .with_context(|| format!("{mutant}: the patch does not apply any more; make it anew"))?;
            if let Err(error) = self.build_kind(kind) {
                eprintln!("{error}");
                survivors += 1;
                println!("{mutant:<34} DOES NOT COMPILE");
            } else if self.passes(kind, &system)? {
                survivors += 1;
                let text = fs_err::read_to_string(self.source.join(&patch))?;
                println!("{mutant:<34} SURVIVES: {}", text.lines().next().unwrap_or_default());
            } else {
                println!("{mutant:<34} noticed");
                let is_of_a_failure = |line: &&str| line.contains("FAILED") || line.starts_with("not ok ");
                self.log()
                    .lines()
                    .filter(is_of_a_failure)
                    .for_each(|line| println!("    {line}"));
            }
            run(self.command("git").args(["apply", "-R", &patch]))?;
        }
        Ok(survivors)
    }

    /// The committed install script serves all mutants, because they do not change SQL objects.
    fn install(&self) -> Result {
        let mut install = self.command("pgrx-config/install.sh");
        self.build(install.arg(self.environment.pg_config()).env("PROFILE", "dev"))
    }

    fn build_kind(&self, kind: &Kind) -> Result {
        if matches!(kind.uses, Uses::Server | Uses::Cluster) {
            self.install()?;
        }
        kind.builds
            .iter()
            .try_for_each(|command| self.build(&self.cargo(command)))
    }

    /// Runs the tests up to the first suite in which one fails. Then the log is of this suite.
    fn passes(&self, kind: &Kind, system: &Path) -> Result<bool> {
        match kind.uses {
            Uses::Server => return self.passes_on_a_server(system),
            Uses::Cluster => return self.passes_on_a_cluster(system),
            Uses::Nothing | Uses::Installed => {}
        }
        for command in kind.tests {
            // A mutant may also make them never end.
            if !self.quietly(600, &self.cargo(command))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn passes_on_a_server(&self, system: &Path) -> Result<bool> {
        let golden: Vec<String> = GOLDEN_TESTS.split_whitespace().map(str::to_owned).collect();
        let isolation = ISOLATION.tests(&[])?;
        for sessions in ["", STATEMENTS] {
            for (suite, tests) in [(GOLDEN, &golden), (ISOLATION, &isolation)] {
                if !self.regress(suite, tests, sessions)? {
                    return Ok(false);
                }
            }
        }
        // A panic in one of many sessions is enough.
        let mut system = self.environment.command(system);
        system.arg("--test-threads=1").args(SYSTEM_TESTS.split_whitespace());
        self.quietly(300, &system)
    }

    fn has_citus(&self) -> Result<bool> {
        let libraries = self.environment.directory_of_postgres("--pkglibdir")?;
        Ok(libraries.join("citus.so").exists())
    }

    /// Runs tests on a new cluster, also those of the program of the tests of the system.
    fn passes_on_a_cluster(&self, system: &Path) -> Result<bool> {
        let (directory, results) = (self.work.directory.join("citus"), self.work.directory.join("out"));
        let _ = fs_err::remove_dir_all(&directory);
        fs_err::create_dir(&directory)?;
        let node = Node {
            environment: &self.environment,
            directory: &directory,
            database: "tables",
            owner: "owner",
            settings: &["statement_timeout=20s"],
        };
        let cluster = Cluster::start(&node)?;
        let input = self.source.join("tests/citus");
        cluster.while_testing_sessions(&node, || {
            let mut system = self.environment.command(system);
            system.args(ON_A_CLUSTER).env("CITUS_SERVERS", cluster.directories());
            if !self.quietly(300, &system)? {
                return Ok(false);
            }
            for (suite, test) in CITUS_TESTS {
                let mut driver = cluster.driver(&node, suite, &input, &results, &[test.to_owned()])?;
                if !self.quietly(300, driver.env("PGISOLATIONTIMEOUT", "20"))? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?
    }

    /// Builds the program of the tests of the system, which no mutant changes, and returns its path.
    fn build_system_tests(&self) -> Result<PathBuf> {
        let mut build = self.cargo("test -p system-tests --test system --no-run");
        let printed = text(build.arg("--message-format=json"))?;
        let program = printed.rsplit_once("\"executable\":\"");
        let program = program.and_then(|(_, rest)| Some(rest.split_once('"')?.0));
        Ok(program
            .context("cargo names no program of the tests of the system")?
            .into())
    }

    /// A command in the copy.
    fn command(&self, program: &str) -> Command {
        let mut command = self.environment.command(program);
        command.current_dir(&self.source);
        command
    }

    fn cargo(&self, arguments: &str) -> Command {
        let mut command = self.command("cargo");
        command.args(arguments.split_whitespace());
        command
    }

    fn log_file(&self) -> PathBuf {
        self.work.directory.join("log")
    }

    /// Returns the output of the last command of [`Workshop::quietly`].
    fn log(&self) -> String {
        let log = fs_err::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Runs a command with its output in the log. Returns whether it succeeds. A command that never ends fails after
    /// these seconds.
    fn quietly(&self, seconds: u32, command: &Command) -> Result<bool> {
        let log = File::create(self.log_file())?.into_file();
        let (errors, mut end) = (log.try_clone()?, log.try_clone()?);
        let mut limited = self.command("timeout");
        limited
            .arg(seconds.to_string())
            .arg(command.get_program())
            .args(command.get_args())
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdout(log)
            .stderr(errors);
        let status = limited.status()?;
        if status.code() == Some(124) {
            writeln!(end, "FAILED: no end after {seconds} s")?;
        }
        Ok(status.success())
    }

    fn build(&self, command: &Command) -> Result {
        if self.quietly(3600, command)? {
            Ok(())
        } else {
            bail!(self.log())
        }
    }

    /// Runs a suite of regression tests on a new server, a copy of the template. Returns whether they pass.
    fn regress(&self, suite: Suite, tests: &[String], sessions: &str) -> Result<bool> {
        let (cluster, results) = (self.work.directory.join("cluster"), self.work.directory.join("out"));
        run(self.command("cp").arg("-a").arg(self.template()).arg(&cluster))?;
        let server = Server::start(&self.environment, cluster, &["statement_timeout=20s"])?;
        let input = self.source.join("tests").join(suite.name);
        let mut driver = suite.driver(&self.environment, &server, &input, &results)?;
        driver
            .args(["--dbname=table_service_tests", "--load-extension=table_service"])
            .args(tests)
            .env("PGISOLATIONTIMEOUT", "20")
            .env("PGOPTIONS", options(sessions));
        self.quietly(300, &driver)
    }

    fn template(&self) -> PathBuf {
        self.work.directory.join("template")
    }
}

/// The copies have new times, so that cargo takes nothing of them for built.
fn copy_project(environment: &Environment, source: &Path) -> Result {
    let mut list = environment.command("git");
    list.args("ls-files -z --cached --others --exclude-standard --deduplicate".split(' '));
    for name in String::from_utf8_lossy(&output(&mut list)?).split_terminator('\0') {
        let (from, to) = (root().join(name), source.join(name));
        if from.exists() {
            let directory = to.parent().unwrap_or(source);
            fs_err::create_dir_all(directory)?;
            fs_err::copy(&from, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{GOLDEN_TESTS, all, patch};
    use crate::environment::root;

    #[test]
    fn mutants_and_the_tests_that_look_for_them_are_there() {
        for test in GOLDEN_TESTS.split_whitespace() {
            assert!(
                root().join(format!("tests/pg_regress/sql/{test}.sql")).exists(),
                "{test}"
            );
        }
        let mutants = all().unwrap_or_default();
        assert!(
            mutants.iter().any(|mutant| mutant.starts_with("filters/")),
            "{mutants:?}"
        );
        for mutant in mutants {
            let text = fs_err::read_to_string(root().join(patch(&mutant))).unwrap_or_default();
            let says = text.lines().next().unwrap_or_default();
            assert!(
                says.ends_with('.') && !says.contains("diff"),
                "{mutant} does not say what it breaks: {says}"
            );
        }
    }
}
