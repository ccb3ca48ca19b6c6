//! Measurements, in release mode.

use std::path::PathBuf;

use crate::environment::{Environment, Result, run};

#[derive(clap::Subcommand)]
pub enum Bench {
    /// Beside hand-written SQL
    Compare {
        /// `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// Small tables beside large ones, and memory (an hour)
    Growth {
        /// `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// Work by filter on 3 million entities, beside batches and hand-written SQL
    Bulk {
        /// `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// Reads and writes of a table with an expiry beside one without, and sweeps
    Expiry {
        /// `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// What a change feed costs writers and readers, and the lag of copies that follow it
    Feeds {
        /// `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// The same queries with property indexes and without, where they gain nothing from them
    Indexes {
        /// Compare instructions instead of time; it takes an hour and needs valgrind
        #[arg(long)]
        counted: bool,
        /// `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// One partition under load
    Stress {
        /// `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// The model alone
    Model {
        /// Of cargo bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// The gateway over HTTP, beside azurite
    Gateway {
        /// How many rounds
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: u32,
        /// How many seconds each measurement takes
        #[arg(long, value_name = "N", default_value_t = 3)]
        seconds: u32,
        /// Numbers of connections
        #[arg(long, value_name = "N,N", default_value = "1,16,64,256")]
        connections: String,
        /// Only this: insert, get, find, replace, page or batch
        #[arg(long, value_name = "NAME")]
        work: Option<String>,
    },
    /// Copies, beside COPY of psql, and over REST
    Copy {
        /// How many entities
        #[arg(long, value_name = "N", default_value_t = 1_000_000)]
        entities: u32,
        /// How many rounds
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: u32,
    },
    /// Distributed tables on a Citus cluster of three servers, beside a plain server
    Citus {
        /// A tar or a directory with the source of Citus 14
        #[arg(long, value_name = "PATH")]
        source: PathBuf,
        /// How many rounds
        #[arg(long, value_name = "N", default_value_t = 5)]
        rounds: u32,
        /// How many seconds each measurement takes
        #[arg(long, value_name = "N", default_value_t = 3)]
        seconds: u32,
        /// How many clients
        #[arg(long, value_name = "N", default_value_t = 8)]
        clients: u32,
    },
}

/// Runs a measurement; without one, the two of `make bench`.
///
/// # Errors
/// What fails.
pub fn measure(environment: &Environment, bench: Option<Bench>) -> Result {
    let script = |name: &str| environment.command(format!("benches/{name}.sh"));
    let of_programs = |program: &str, arguments: &[String], counted: bool| {
        let mut command = script("run");
        if counted {
            command.env("COUNTED", "1");
        }
        run(command.arg(program).args(arguments))
    };
    let gateway = |rounds: u32, seconds: u32, connections: &str, work: Option<&str>| {
        let mut command = script("gateway");
        command
            .env("ROUNDS", rounds.to_string())
            .env("SECONDS_EACH", seconds.to_string());
        run(command
            .env("CONNECTIONS", connections)
            .envs(work.map(|work| ("WORK", work))))
    };
    match bench {
        None => {
            of_programs("compare", &[], false)?;
            gateway(3, 2, "1,16", None)
        }
        Some(Bench::Compare { arguments }) => of_programs("compare", &arguments, false),
        Some(Bench::Growth { arguments }) => of_programs("growth", &arguments, false),
        Some(Bench::Bulk { arguments }) => of_programs("bulk", &arguments, false),
        Some(Bench::Expiry { arguments }) => of_programs("expiry", &arguments, false),
        Some(Bench::Feeds { arguments }) => of_programs("feeds", &arguments, false),
        Some(Bench::Indexes { counted, arguments }) => of_programs("indexes", &arguments, counted),
        Some(Bench::Stress { arguments }) => of_programs("stress", &arguments, false),
        Some(Bench::Model { arguments }) => of_programs("model", &arguments, false),
        Some(Bench::Gateway {
            rounds,
            seconds,
            connections,
            work,
        }) => gateway(rounds, seconds, &connections, work.as_deref()),
        Some(Bench::Copy { entities, rounds }) => {
            let mut command = script("copy");
            run(command
                .env("ENTITIES", entities.to_string())
                .env("ROUNDS", rounds.to_string()))
        }
        Some(Bench::Citus {
            source,
            rounds,
            seconds,
            clients,
        }) => {
            let mut command = script("citus");
            command
                .env("ROUNDS", rounds.to_string())
                .env("SECONDS_EACH", seconds.to_string());
            run(command.env("CLIENTS", clients.to_string()).arg(source))
        }
    }
}
