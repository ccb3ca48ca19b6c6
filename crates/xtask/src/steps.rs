//! The steps of `make test`, in their order.

use anyhow::bail;
use clap::{Args, ValueEnum};

use crate::environment::{Result, root, run, step};
use crate::regress::{GOLDEN, ISOLATION, Run};
use crate::runner::Runner;
use crate::{drivers, sdks, site};

/// The tests.
#[derive(Args, Default)]
pub struct Options {
    /// Only these steps
    #[arg(value_name = "STEP")]
    pub steps: Vec<Step>,
    /// golden, isolation, regression, statements: only this file; extension, explorer: only tests whose name
    /// contains it; sdk: only this suite, such as python, or this test of it, such as python/test_sql
    #[arg(long = "file", value_name = "NAME")]
    pub files: Vec<String>,
    /// golden, isolation, docs: take the results as the expected ones
    #[arg(long)]
    pub accept: bool,
    /// docs: only the pages whose path contains it
    #[arg(long, value_name = "TEXT")]
    pub page: Option<String>,
    /// With the PostgreSQL that `asan` uses
    #[arg(long)]
    pub checked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Formatting
    Format,
    /// Which module may import which; what documents and patches point to
    Architecture,
    /// Clippy
    Lints,
    /// The model, and unit tests of all but the extension
    Model,
    /// src/tests, inside PostgreSQL
    Extension,
    /// The golden SQL tests: tests/pg_regress
    Golden,
    /// Concurrent sessions: tests/isolation
    Isolation,
    /// golden and isolation at the same time: concurrent sessions mostly wait
    Regression,
    /// The same again, with statements in place of direct access
    Statements,
    /// The whole system, over real connections: tests/system
    System,
    /// The gateway, and histories of its clients
    Gateway,
    /// The emulator
    Emulator,
    /// The program that copies tables
    Copy,
    /// Unmodified SDKs against the gateway
    Sdk,
    /// The explorer, in a browser
    Explorer,
    /// The site of the documents: it builds, and no link is dead
    Site,
    /// Every SQL block of the documentation, its small programs, and what they print
    Docs,
    /// Those whose results the PostgreSQL major can change: extension regression statements system gateway copy
    Postgres,
}

impl Step {
    fn all() -> impl Iterator<Item = Step> {
        Step::value_variants()
            .iter()
            .copied()
            .filter(|step| !matches!(step, Step::Golden | Step::Isolation | Step::Postgres))
    }

    fn needs_postgres(self) -> bool {
        // Lints need its headers.
        !matches!(self, Step::Format | Step::Architecture | Step::Model | Step::Site)
    }

    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Runs the chosen steps, or all; stops at the first that fails.
pub fn run_all(options: &Options, pg: Option<u32>) -> Result {
    let steps: Vec<Step> = match options.steps.as_slice() {
        [] => Step::all().collect(),
        chosen => chosen.iter().flat_map(|&step| expand(step)).collect(),
    };
    if steps.iter().any(|step| {
        matches!(
            step,
            Step::Golden | Step::Isolation | Step::Regression | Step::Statements
        )
    }) {
        exist(&options.files)?;
    }
    let with_postgres = steps.iter().any(|step| step.needs_postgres());
    let mut runner = if with_postgres {
        Runner::with_postgres(pg, options.checked)?
    } else {
        Runner::without_postgres(pg)?
    };
    for &step in &steps {
        run_one(step, &mut runner, options)?;
    }
    let names: Vec<String> = steps.iter().map(|step| step.name()).collect();
    let major = if with_postgres {
        format!(" (PostgreSQL {})", runner.environment.pg)
    } else {
        String::new()
    };
    step(&format!("Passed: {}{major}", names.join(" ")));
    Ok(())
}

fn expand(step: Step) -> Vec<Step> {
    if step != Step::Postgres {
        return vec![step];
    }
    use Step::{Docs, Emulator, Explorer, Lints, Sdk};
    Step::all()
        .filter(|&step| step.needs_postgres() && !matches!(step, Lints | Emulator | Sdk | Explorer | Docs))
        .collect()
}

fn exist(files: &[String]) -> Result {
    for file in files {
        let paths = [
            format!("tests/pg_regress/sql/{file}.sql"),
            format!("tests/isolation/specs/{file}.spec"),
        ];
        if !paths.iter().any(|path| root().join(path).exists()) {
            bail!("there is neither {}", paths.join(" nor "));
        }
    }
    Ok(())
}

fn run_one(which: Step, runner: &mut Runner, options: &Options) -> Result {
    let regress = Run {
        tests: &options.files,
        accept: options.accept,
        ..Run::default()
    };
    match which {
        Step::Format => format(runner),
        Step::Architecture => architecture(runner),
        Step::Lints => {
            step("Lints");
            runner.lint_the_extension()?;
            runner.lint_all_but_the_extension()
        }
        Step::Model => model(runner),
        Step::Extension => runner.test_extension(options.files.first().map(String::as_str)),
        Step::Golden => runner.regress(&[GOLDEN], "Golden SQL", &regress),
        Step::Isolation => runner.regress(&[ISOLATION], "Concurrent sessions", &regress),
        Step::Regression => runner.regress(&[GOLDEN, ISOLATION], "Golden SQL and concurrent sessions", &regress),
        Step::Statements => {
            // Statements can also do all direct reads and writes, and must give the same.
            let statements = Run {
                sessions: "-c table_service.enable_direct_access=off",
                ..regress
            };
            runner.regress(&[GOLDEN, ISOLATION], "The same, by statements", &statements)
        }
        Step::System => tests_of(runner, "The whole system, over real connections", "system"),
        Step::Gateway => {
            tests_of(runner, "The gateway", "gateway")?;
            step("Histories: clients, while servers are killed (few seeds)");
            run(&mut runner.tests(&["--test", "histories"]))
        }
        Step::Emulator => tests_of(runner, "The emulator", "emulator"),
        Step::Copy => {
            // Its tests copy to gateways.
            runner.build_gateway()?;
            tests_of(runner, "The program that copies tables", "copy")
        }
        Step::Sdk => {
            runner.environment.set_up("sdks")?;
            runner.install_extension()?;
            step("Unmodified SDKs against the gateway");
            runner.build_gateway()?;
            sdks::sdks(runner, None, &options.files)?;
            if options.files.is_empty() {
                step("Unmodified SDKs with a primary and a standby");
                sdks::sdks_with_a_standby(runner)?;
            }
            Ok(())
        }
        Step::Explorer => {
            runner.environment.set_up("browser")?;
            runner.install_extension()?;
            step("The explorer, in a browser");
            runner.build_gateway()?;
            // The copy program reads the explorer's exports.
            run(&mut runner.tests(&["--test", "copy", "--no-run"]))?;
            sdks::explorer(runner, None, options.files.first().map(String::as_str))
        }
        Step::Site => site::build(&runner.environment),
        Step::Docs => {
            runner.install_extension()?;
            step("The documentation: every SQL block, and its output");
            let mut tests = runner.tests(&["--test", "docs"]);
            if options.accept {
                tests.env("ACCEPT", "1");
            }
            run(tests.envs(options.page.as_ref().map(|page| ("PAGE", page))))?;
            drivers::small_programs(runner, options.page.as_deref().unwrap_or_default())
        }
        Step::Postgres => Ok(()),
    }
}

fn tests_of(runner: &mut Runner, headline: &str, tests: &str) -> Result {
    runner.install_extension()?;
    step(headline);
    run(&mut runner.tests(&["--test", tests]))
}

fn format(runner: &Runner) -> Result {
    step("Formatting");
    run(&mut runner.environment.cargo(["fmt", "--all", "--check"]))
}

fn architecture(runner: &Runner) -> Result {
    step("The architecture: imports, and what documents and patches point to");
    run(&mut runner.tests(&["--test", "architecture"]))
}

fn model(runner: &Runner) -> Result {
    step("The model, and unit tests of all but the extension");
    let tests = ["access_corpus", "corpus", "entity", "filter_corpus", "formats", "laws"];
    run(runner
        .tests(&["--lib", "--bins"])
        .args(tests.iter().flat_map(|test| ["--test", test])))?;
    run(&mut runner.tests(&["--doc"]))
}

/// Runs the checks that need no PostgreSQL, in less than a minute once they are built.
pub fn quick(pg: Option<u32>) -> Result {
    let runner = Runner::without_postgres(pg)?;
    format(&runner)?;
    architecture(&runner)?;
    step("Lints of all but the extension");
    runner.lint_all_but_the_extension()?;
    step("Unit tests of all but the extension");
    run(&mut runner.tests(&["--lib"]))?;
    step("Passed: quick");
    Ok(())
}
