//! The tests on a Citus cluster: a coordinator and two workers on this machine.

use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;

use crate::citus::{Cluster, Node, ON_A_CLUSTER, build, postgres};
use crate::citus_messages;
use crate::environment::{Result, names, root, run, step};
use crate::logs::{show_faults, show_lines};
use crate::regress::{self, GOLDEN, ISOLATION, Suite};
use crate::requests::Seeds;
use crate::runner::Runner;
use crate::sdks;
use crate::service::all;

const DATABASE: &str = "tables";
const OWNER: &str = "owner";

/// Tables on a Citus cluster.
#[derive(clap::Args)]
pub struct Options {
    /// A tar or a directory with the source of Citus 14
    #[arg(long, value_name = "PATH")]
    source: PathBuf,
    /// Only these suites
    #[arg(value_name = "SUITE")]
    suites: Vec<CitusSuite>,
    /// golden, same, isolation: only these files
    #[arg(long = "file", value_name = "NAME")]
    files: Vec<String>,
    /// golden, isolation: take the results of the tests in tests/citus as the expected ones
    #[arg(long)]
    accept: bool,
    #[command(flatten)]
    seeds: Seeds,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CitusSuite {
    /// tests/citus/sql, with what is particular to distributed tables
    Golden,
    /// The files of tests/pg_regress that tests/citus/same lists: they give the same as without Citus
    Same,
    /// The files of tests/isolation that tests/citus/same_isolation lists, and tests/citus/specs
    Isolation,
    /// The tests of tests/system that need a cluster: whose code runs with whose rights
    System,
    /// What clients of all servers and of gateways saw, while servers are killed and shards move
    Histories,
    /// The messages of Citus without a SQLSTATE, and those that tests/citus/messages has
    Messages,
    /// The SDKs through a gateway that uses the coordinator and both workers, of a cluster of its own
    Sdk,
}

/// Runs the suites on a Citus that it builds from a source that the user has.
pub fn citus(pg: Option<u32>, options: &Options) -> Result {
    // In their own order: histories change the cluster, and come behind the others.
    let is_chosen = |suite: &CitusSuite| options.suites.is_empty() || options.suites.contains(suite);
    let suites: Vec<CitusSuite> = CitusSuite::value_variants().iter().copied().filter(is_chosen).collect();
    let has = |suite| suites.contains(&suite);
    let (sdk, histories) = (has(CitusSuite::Sdk), has(CitusSuite::Histories));
    if has(CitusSuite::Messages) {
        step("The messages of Citus");
        citus_messages::check(&options.source)?;
    }
    let in_cluster = |suite: &CitusSuite| !matches!(suite, CitusSuite::Messages | CitusSuite::Sdk);
    if !sdk && !suites.iter().any(in_cluster) {
        return Ok(());
    }
    let mut runner = Runner::with_postgres(postgres(pg), false)?;
    if sdk {
        runner.environment.set_up("sdks")?;
    }
    if sdk || histories {
        runner.build_gateway()?;
    }
    step("Citus");
    build(&runner.environment, &options.source)?;
    runner.install_extension()?;
    step("Tables on a Citus cluster");
    let mut ended = Vec::new();
    if suites.iter().any(in_cluster) {
        ended.push(on_one_cluster(&runner, &suites, options));
    }
    if sdk {
        println!("\n-- sdk");
        ended.push(sdks::sdks_on_citus(&runner));
    }
    all(ended.into_iter())
}

fn on_one_cluster(runner: &Runner, suites: &[CitusSuite], options: &Options) -> Result {
    let directory = runner.work()?.directory.join("citus");
    fs_err::create_dir(&directory)?;
    let node = Node {
        environment: &runner.environment,
        directory: &directory,
        database: DATABASE,
        owner: OWNER,
        settings: &[],
    };
    let tests = Tests {
        runner,
        options,
        node,
        cluster: Cluster::start(&node)?,
    };
    let mut ended = Vec::new();
    for suite in suites {
        if let Some(name) = suite
            .to_possible_value()
            .filter(|_| !matches!(suite, CitusSuite::Messages | CitusSuite::Sdk))
        {
            println!("\n-- {}", name.get_name());
        }
        ended.push(match suite {
            CitusSuite::Golden => tests.golden(),
            CitusSuite::Same => tests.same(),
            CitusSuite::Isolation => tests.isolation(),
            CitusSuite::System => tests.on_servers("system", &[]),
            CitusSuite::Histories => tests.on_servers("histories", &tests.options.seeds.variables("HISTORIES", None)),
            CitusSuite::Messages | CitusSuite::Sdk => Ok(()),
        });
    }
    ended.push(tests.keep_logs());
    all(ended.into_iter())
}

struct Tests<'r> {
    runner: &'r Runner,
    options: &'r Options,
    node: Node<'r>,
    cluster: Cluster<'r>,
}

impl Tests<'_> {
    fn golden(&self) -> Result {
        let ended = self.own(GOLDEN, "golden");
        let results = results("golden").join("results");
        for test in names(&results, "out").unwrap_or_default() {
            if show_lines(&results.join(format!("{test}.out")), &["XX000"])? {
                bail!("an internal error is always a bug");
            }
        }
        ended
    }

    /// Runs the tests of tests/citus of one kind.
    fn own(&self, suite: Suite, name: &str) -> Result {
        let input = root().join("tests/citus");
        let tests = self.chosen(names(&input.join(suite.files), suite.ending)?);
        let (accept, expected) = (self.options.accept, input.join("expected"));
        if accept {
            regress::touch(&expected, &tests)?;
        }
        let ended = self.regress(suite, "citus", name, &tests);
        if accept && !tests.is_empty() {
            return regress::accept(&results(name), &expected);
        }
        ended
    }

    fn same(&self) -> Result {
        self.regress(GOLDEN, "pg_regress", "same", &self.listed("same")?)
    }

    fn isolation(&self) -> Result {
        let listed = self.listed("same_isolation")?;
        self.cluster.while_testing_sessions(&self.node, || {
            let same = self.regress(ISOLATION, "isolation", "isolation", &listed);
            let own = self.own(ISOLATION, "own_isolation");
            all([same, own].into_iter())
        })?
    }

    /// Runs the tests of Rust for a cluster.
    fn on_servers(&self, name: &str, variables: &[(&str, String)]) -> Result {
        let mut tests = self.runner.tests(&["--test", name, "--", "--nocapture"]);
        tests
            .args(ON_A_CLUSTER)
            .envs(variables.iter().map(|(name, value)| (name, value)));
        run(tests.env("CITUS_SERVERS", self.cluster.directories()))
    }

    /// Returns those of these tests that the command line chooses.
    fn chosen(&self, mut tests: Vec<String>) -> Vec<String> {
        let files = &self.options.files;
        tests.retain(|test| files.is_empty() || files.contains(test));
        tests
    }

    /// The tests in a list.
    fn listed(&self, list: &str) -> Result<Vec<String>> {
        let path = root().join("tests/citus").join(list);
        let lines = fs_err::read_to_string(&path)?;
        let tests = lines.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
        Ok(self.chosen(tests.collect()))
    }

    /// Runs tests of a directory on the coordinator.
    fn regress(&self, suite: Suite, directory: &str, name: &str, tests: &[String]) -> Result {
        if tests.is_empty() {
            return Ok(());
        }
        let (input, results) = (root().join("tests").join(directory), results(name));
        let ended = run(&mut self.cluster.driver(&self.node, suite, &input, &results, tests)?);
        if ended.is_err() && !self.options.accept {
            regress::show(&results.join("regression.diffs"));
        }
        ended
    }

    /// Citus refuses missing features with XX000, so only the results of the tests are searched for it.
    fn keep_logs(&self) -> Result {
        let mut found = false;
        for server in &self.cluster.servers {
            let log = server.directory.join("log");
            let name = server.directory.file_name().unwrap_or_default().display();
            fs_err::copy(&log, results(&format!("{name}.log")))?;
            found |= show_faults(&log, &server.directory.join("killed"))?;
        }
        if found {
            bail!("there are faults in the servers' logs")
        } else {
            Ok(())
        }
    }
}

fn results(name: &str) -> PathBuf {
    root().join("target/citus").join(name)
}
