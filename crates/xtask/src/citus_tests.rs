//! The tests on a Citus cluster: a coordinator and two workers on this machine, and a spare server that joins them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use fs_err::File;

use crate::citus::{Cluster, Node, ON_A_CLUSTER, add, build, postgres};
use crate::citus_messages;
use crate::environment::{Result, names, root, run, step};
use crate::logs::{show_faults, show_lines};
use crate::regress::{self, GOLDEN, ISOLATION, Suite};
use crate::requests::Seeds;
use crate::runner::Runner;
use crate::sdks;
use crate::service::all;
use crate::temporary::Server;

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
    /// faults: how often a worker is killed
    #[arg(long, value_name = "N", default_value_t = 3)]
    kills: u32,
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
    /// Writers, while a server joins and shards move, and while workers are killed
    Faults,
    /// What clients of all servers and of gateways saw, while servers are killed and shards move
    Histories,
    /// The messages of Citus without a SQLSTATE, and those that tests/citus/messages has
    Messages,
    /// The SDKs through a gateway that uses the coordinator and both workers, of a cluster of its own
    Sdk,
}

/// Runs the suites on a Citus that it builds from a source that the user has.
pub fn citus(pg: Option<u32>, options: &Options) -> Result {
    let suites = match options.suites.as_slice() {
        [] => CitusSuite::value_variants(),
        chosen => chosen,
    };
    let (sdk, histories) = (
        suites.contains(&CitusSuite::Sdk),
        suites.contains(&CitusSuite::Histories),
    );
    if suites.contains(&CitusSuite::Messages) {
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
        ended.push(on_one_cluster(&runner, suites, options));
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
    let mut tests = Tests {
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
            CitusSuite::Faults => tests.faults(),
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

impl<'r> Tests<'r> {
    fn golden(&self) -> Result {
        let ended = self.own(GOLDEN, "golden", "sql", "sql");
        let results = results("golden").join("results");
        for test in names(&results, "out").unwrap_or_default() {
            if show_lines(&results.join(format!("{test}.out")), &["XX000"])? {
                bail!("an internal error is always a bug");
            }
        }
        ended
    }

    /// Runs the tests of tests/citus of one kind.
    fn own(&self, suite: Suite, name: &str, files: &str, ending: &str) -> Result {
        let input = root().join("tests/citus");
        let tests = self.chosen(names(&input.join(files), ending)?);
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
            let own = self.own(ISOLATION, "own_isolation", "specs", "spec");
            all([same, own].into_iter())
        })?
    }

    /// Runs the tests of Rust for a cluster. The server that joins in `faults` is not used: shards move between the two workers.
    fn on_servers(&self, name: &str, variables: &[(&str, String)]) -> Result {
        let mut tests = self.runner.tests(&["--test", name, "--", "--nocapture"]);
        tests
            .args(ON_A_CLUSTER)
            .envs(variables.iter().map(|(name, value)| (name, value)));
        run(tests.env("CITUS_SERVERS", self.cluster.directories()))
    }

    /// Checks the writes of clients during faults. Acknowledged writes must be stored, a batch must be whole or absent, and
    /// nothing may be stored that nobody wrote. A write that failed while it was being committed may be stored, as a whole.
    fn faults(&mut self) -> Result {
        self.sql(&["SELECT table_service.create_table('Faults')"])?;
        println!("A server joins, and shards move to it");
        let mut spare = None;
        let moved = self.while_writing("moves", || {
            let server = self.node.start("spare")?;
            let join = [
                &*add(&server)?,
                "SELECT citus_rebalance_start()",
                "SELECT citus_rebalance_wait()",
            ];
            spare = Some(server);
            self.sql(&join)
        });
        let spare = spare.context("the spare server does not start")?;
        let shards = self.sql(&[&format!(
            "SELECT count(*) FROM citus_shards WHERE table_name = 'table_service_data.\"Faults\"'::regclass AND nodeport = {}",
            spare.connection("PGPORT")?
        )])?;
        let shards = if shards == "0" {
            bail!("no shard has moved to the server that joined")
        } else {
            Ok(())
        };
        self.cluster.servers.push(spare);
        let moved = all([moved, self.no_errors("moves"), shards].into_iter());

        println!("Workers are killed");
        let killed = self.while_writing("kills", || {
            let workers = self.cluster.servers.iter().skip(1).take(2).cycle();
            for worker in workers.take(self.options.kills as usize) {
                sleep(Duration::from_secs(2));
                worker.crash()?;
                sleep(Duration::from_secs(1));
                worker.start_again()?;
            }
            sleep(Duration::from_secs(2));
            Ok(String::new())
        });
        all([moved, killed, self.nothing_is_prepared()].into_iter())
    }

    /// Clients write through each of the three servers while something happens. Then acknowledged writes are compared with
    /// the stored entities.
    fn while_writing(&self, name: &str, happening: impl FnOnce() -> Result<String>) -> Result {
        let stop = AtomicBool::new(false);
        let happened = std::thread::scope(|scope| {
            let stop = &stop;
            let writers: Vec<_> = (self.cluster.servers.iter().take(3).enumerate())
                .map(|(number, server)| scope.spawn(move || self.write(server, &format!("{name}-{number}"), stop)))
                .collect();
            let happened = happening().map(drop);
            stop.store(true, Ordering::Relaxed);
            let ended = writers
                .into_iter()
                .map(|writer| writer.join().unwrap_or_else(|_| bail!("a writer panicked")));
            all(std::iter::once(happened).chain(ended))
        });
        all([happened, self.compare(name)].into_iter())
    }

    /// Single entities, and batches of ten, which direct access writes where the shard is. It notes the `PartitionKey` of each transaction that was acknowledged, and goes on after
    /// errors. It reads each batch, and notes if it finds a part of it.
    fn write(&self, server: &Server, name: &str, stop: &AtomicBool) -> Result {
        let file = |ending: &str| self.node.directory.join(format!("{name}.{ending}"));
        let create = |ending: &str| File::create(file(ending));
        let (acknowledged, errors) = (create("acknowledged")?, create("errors")?);
        let clone = |file: &File| file.try_clone().map(File::into_file);
        for round in 1.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            // In one session, which has to survive.
            let statements: String = (1..=200)
                .map(|number| statements(&format!("{name}-{round}"), number))
                .collect();
            fs_err::write(file("sql"), statements)?;
            let mut psql = server.psql("postgres", DATABASE)?;
            psql.args(["-v", "ON_ERROR_STOP=0", "-f"]).arg(file("sql"));
            if run(psql.stdout(clone(&acknowledged)?).stderr(clone(&errors)?)).is_err() {
                sleep(Duration::from_millis(200));
            }
        }
        Ok(())
    }

    fn compare(&self, name: &str) -> Result {
        let noted = self.noted(name, "acknowledged")?;
        let (parts, acknowledged): (Vec<&str>, Vec<&str>) =
            noted.lines().partition(|line| line.starts_with("a part of"));
        let acknowledged: BTreeSet<&str> = acknowledged.into_iter().collect();
        let table = "table_service_data.\"Faults\"";
        let of_these = format!("FROM {table} WHERE partition_key LIKE '{name}-%'");
        let stored = self.sql(&[&format!("SELECT DISTINCT partition_key {of_these}")])?;
        let stored: BTreeSet<&str> = stored.lines().collect();
        let torn = self.sql(&[&format!(
            "SELECT count(*) FROM (SELECT partition_key {of_these} GROUP BY partition_key \
             HAVING count(*) <> CASE WHEN partition_key LIKE '%-b%' THEN 10 ELSE 1 END) AS t"
        )])?;
        let lost = acknowledged.difference(&stored).count();
        println!(
            "{name}: {} transactions acknowledged, {} stored, {lost} lost, {torn} torn, {} read in part, {} stored without an answer, {} errors",
            acknowledged.len(),
            stored.len(),
            parts.len(),
            stored.difference(&acknowledged).count(),
            self.noted(name, "errors")?.matches("ERROR").count()
        );
        if acknowledged.is_empty() || lost > 0 || torn != "0" || !parts.is_empty() {
            bail!("{name}: what is stored is not what was acknowledged");
        }
        Ok(())
    }

    /// Moves do not block writers for long, and interrupt none.
    fn no_errors(&self, name: &str) -> Result {
        let errors = self.noted(name, "errors")?;
        match errors.lines().find(|line| line.contains("ERROR")) {
            Some(error) => bail!("{name}: {error}"),
            None => Ok(()),
        }
    }

    /// Returns the notes of the writers, all together.
    fn noted(&self, name: &str, ending: &str) -> Result<String> {
        let mut all = String::new();
        for number in 0..3 {
            let path = self.node.directory.join(format!("{name}-{number}.{ending}"));
            all += &String::from_utf8_lossy(&fs_err::read(&path)?);
        }
        Ok(all)
    }

    /// Citus finishes the transactions that it had prepared on a worker.
    fn nothing_is_prepared(&self) -> Result {
        for _ in 0..30 {
            let mut prepared = false;
            for server in &self.cluster.servers {
                prepared |= server.sql("postgres", DATABASE, &["SELECT count(*) FROM pg_prepared_xacts"])? != "0";
            }
            if !prepared {
                return Ok(());
            }
            sleep(Duration::from_secs(1));
        }
        bail!("transactions are still prepared")
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

    /// Statements of the superuser on the coordinator.
    fn sql(&self, statements: &[&str]) -> Result<String> {
        self.cluster.coordinator()?.sql("postgres", DATABASE, statements)
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

/// The statements of a writer for one entity and one batch.
fn statements(name: &str, number: u32) -> String {
    let (single, batch) = (format!("{name}-{number}"), format!("{name}-b{number}"));
    format!(
        "SELECT '{single}' FROM table_service.insert_entity('Faults', '{single}', 'single', '{{\"N\": 1}}');
SELECT DISTINCT '{batch}' FROM table_service.execute_batch('Faults', '{batch}', VARIADIC ARRAY(
  SELECT table_service.batch_insert(n::text, '{{\"N\": 1}}') FROM generate_series(1, 10) AS n));
SELECT 'a part of {batch}' FROM table_service.query_entities('Faults', 'PartitionKey eq ''{batch}''') HAVING count(*) NOT IN (0, 10);
"
    )
}
