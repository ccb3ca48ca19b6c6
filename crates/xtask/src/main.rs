//! `cargo xtask`: the tasks of this repository. `cargo xtask --help` lists it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod azurite;
mod background;
mod benches;
mod citus;
mod citus_messages;
mod citus_tests;
mod clients;
mod drivers;
mod environment;
mod logs;
mod mutants;
mod packages;
mod pgbouncer;
mod regress;
mod requests;
mod runner;
mod scripts;
mod sdks;
mod service;
mod site;
mod steps;
mod temporary;
mod upgrades;

use environment::Result;
use requests::Seeds;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "What is done with this repository. Behind each task is how long it takes on a machine where everything is built.",
    subcommand_value_name = "TASK",
    subcommand_help_heading = "Tasks",
    max_term_width = 132
)]
struct Arguments {
    /// The PostgreSQL major: 15 (the default), 16, 17, 18 or 19
    #[arg(long, global = true, value_name = "MAJOR")]
    pg: Option<u32>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Formatting, imports, lints and unit tests: what needs no PostgreSQL (seconds)
    Quick,
    /// Every test, or some steps (30 minutes)
    Test(steps::Options),
    /// The install script, sql/install.sql, is what the code makes (a minute)
    Schema {
        /// Make it so
        #[arg(long)]
        accept: bool,
    },
    /// Upgrades from released versions, which it builds from the history (15 minutes)
    Upgrades {
        /// Take the binary formats as the expected ones
        #[arg(long)]
        accept: bool,
    },
    /// Takes out one safeguard at a time: a test must notice (30 minutes)
    Mutants {
        /// Only these of tests/mutations, such as no-lock or filters/key-order
        mutants: Vec<String>,
        /// Not those of tests/mutations, but all that cargo-mutants makes of these files of the model
        #[arg(long = "file", value_name = "PATH", conflicts_with = "mutants")]
        files: Vec<String>,
    },
    /// Many seeds of the random tests, and crashes (an hour)
    Soak(Seeds),
    /// Hostile clients of three accounts of a gateway, and what an honest one of a fourth saw (10 minutes)
    HostileLoad {
        /// For how long
        #[arg(long, value_name = "MINUTES", default_value = "10")]
        minutes: u32,
    },
    /// Many seeds of random statements on tables of all shapes (an hour)
    FuzzSql(Seeds),
    /// Allocations fail one by one, in every function (hours)
    Allocations {
        /// So many of each call (default: all)
        #[arg(long, value_name = "N")]
        points: Option<u32>,
        /// Only of these functions
        #[arg(value_name = "FUNCTION")]
        functions: Vec<String>,
    },
    /// In a PostgreSQL with assertions and nervous caches, which it builds, and under valgrind (hours)
    Asan {
        /// Only these golden tests
        #[arg(long = "file", value_name = "NAME")]
        files: Vec<String>,
    },
    /// Many seeds of the histories of clients while servers are killed (an hour)
    Histories(Seeds),
    /// Many seeds of copies: killed, over bad connections, between all kinds of places (an hour)
    CopySoak(Seeds),
    /// Copies to and from azurite, an emulator, which npm fetches (minutes)
    CopyEmulators(Seeds),
    /// Unmodified clients from their registries; it writes their table in docs/guide/gateway.md (15 minutes)
    Clients {
        /// Only these programs of tests/clients, such as python/azure-storage
        clients: Vec<String>,
        /// Write the table also if a client fails that has passed before
        #[arg(long)]
        accept: bool,
    },
    /// The programs of the guide, with drivers and ORMs from their registries (minutes)
    Drivers,
    /// The SDKs and these programs behind PgBouncer in transaction mode (minutes)
    Pgbouncer {
        /// The program
        #[arg(long, value_name = "PATH", default_value = "pgbouncer")]
        program: String,
    },
    /// Tables on a Citus cluster, which it builds (30 minutes)
    Citus(citus_tests::Options),
    /// The extension and the programs for arm64, under qemu (root, an hour)
    Arm64 {
        /// Only these golden tests
        files: Vec<String>,
    },
    /// The manifests of deploy/kubernetes, and the image of the extension as CloudNativePG uses it (a minute)
    Kubernetes,
    /// What the container images start, without an engine, and what others can reach of it (root, a minute)
    Containers,
    /// What other roles could do to the install and upgrade scripts (a minute)
    Pgspot,
    /// Faults in the workflows of .github, which only their host runs (seconds)
    Workflows,
    /// Licences of the dependencies, and where they come from (seconds)
    Licences,
    /// The packages in bare systems: Debian's, and the emulator's for pip and npm (root, 20 minutes)
    TestPackages {
        /// Another release of Debian than this machine's
        #[arg(long, value_name = "NAME")]
        release: Option<String>,
    },
    /// Container images of the packages: the emulator, and PostgreSQL with the gateway (root, minutes)
    Images {
        /// Another release of Debian than this machine's
        #[arg(long, value_name = "NAME")]
        release: Option<String>,
    },
    /// Loads the images into a Docker engine of their own and uses them (root and docker.io, minutes)
    TestImages,
    /// `make run` and tests on bare Debian systems (root, hours)
    Cold(scripts::Cold),
    /// Measurements; without one: beside hand-written SQL, and the gateway beside azurite (15 minutes)
    Bench {
        #[command(subcommand)]
        bench: Option<benches::Bench>,
    },
    #[command(hide = true)]
    CleanUpAtEndOfInput { directory: PathBuf },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { pg, task }: Arguments) -> Result {
    let load = || environment::Environment::load(pg, false);
    match task {
        Task::Quick => steps::quick(pg),
        Task::Test(options) => steps::run_all(&options, pg),
        Task::Schema { accept } => requests::schema(pg, accept),
        Task::Upgrades { accept } => upgrades::upgrades(pg, accept),
        Task::Mutants { mutants, files } if files.is_empty() => mutants::mutants(pg, &mutants),
        Task::Mutants { files, .. } => mutants::of_the_model(pg, &files),
        Task::Soak(seeds) => requests::long_tests(
            pg,
            "Soak: random tests and crashes",
            "system -- --nocapture --test-threads=1 batches:: crash::",
            seeds.soak(200),
        ),
        Task::HostileLoad { minutes } => requests::long_tests(
            pg,
            "A gateway under hostile load",
            "gateway -- --nocapture soak::",
            vec![("SOAK_MINUTES", minutes.to_string())],
        ),
        Task::FuzzSql(seeds) => {
            requests::long_tests(pg, "Random statements", "system -- --nocapture fuzz::", seeds.soak(200))
        }
        Task::Allocations { points, functions } => requests::allocations(pg, points, &functions),
        Task::Asan { files } => requests::asan(pg, &files),
        Task::Histories(seeds) => requests::long_tests(
            pg,
            "Histories: clients, while servers are killed",
            "histories -- --nocapture",
            seeds.variables("HISTORIES", Some(200)),
        ),
        Task::CopySoak(seeds) => requests::long_tests(
            pg,
            "Copies",
            "copy -- --nocapture --test-threads=1 changes:: interrupted:: round_trips::",
            seeds.soak(100),
        ),
        Task::CopyEmulators(seeds) => requests::copy_emulators(pg, &seeds),
        Task::Clients { clients, accept } => clients::clients(pg, &clients, accept),
        Task::Drivers => drivers::drivers(pg),
        Task::Pgbouncer { program } => requests::pgbouncer(pg, &program),
        Task::Citus(options) => citus_tests::citus(pg, &options),
        Task::Arm64 { files } => scripts::script(&load()?, "tests/arm64.sh", &files),
        Task::Kubernetes => requests::kubernetes(pg),
        Task::Containers => requests::containers(pg),
        Task::Pgspot => requests::pgspot(pg),
        Task::Workflows => requests::workflows(pg),
        Task::Licences => requests::licences(pg),
        Task::TestPackages { release } => scripts::test_packages(&load()?, release.as_slice()),
        Task::Images { release } => scripts::script(&load()?, "packaging/image.sh", release.as_slice()),
        Task::TestImages => scripts::script(&load()?, "tests/packages/images.sh", &[]),
        Task::Cold(options) => scripts::cold(&load()?, &options),
        Task::Bench { bench } => benches::measure(pg, bench),
        Task::CleanUpAtEndOfInput { directory } => temporary::clean_up_at_end_of_input(&directory),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Arguments::command().debug_assert();
    }

    #[test]
    fn every_task_says_how_long_it_takes() {
        let command = super::Arguments::command();
        for task in command.get_subcommands().filter(|task| !task.is_hide_set()) {
            let about = task.get_about().map(ToString::to_string).unwrap_or_default();
            let time = about.rsplit('(').next().unwrap_or_default();
            assert!(
                ["second", "minute", "hour"].iter().any(|unit| time.contains(unit)),
                "{about}"
            );
        }
    }
}
