//! Measurements, in release mode.

mod citus;
mod gateway;
mod programs;
mod server;
mod stress;

use crate::citus::postgres;
use crate::environment::{Environment, Result};

/// The arguments of a measuring program.
#[derive(clap::Args)]
pub struct Arguments {
    /// `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

#[derive(clap::Subcommand)]
pub enum Bench {
    /// Beside hand-written SQL
    Compare {
        /// Compare instructions instead of time, with one client; it takes minutes and needs valgrind
        #[arg(long)]
        counted: bool,
        #[command(flatten)]
        arguments: Arguments,
    },
    /// An archive: its first base, how far it is behind, its size, and a restore
    Archive(Arguments),
    /// The same queries with property indexes and without, where they gain nothing from them, in instructions (an hour; valgrind)
    Indexes(Arguments),
    /// One partition under load
    Stress(stress::Options),
    /// The gateway over HTTP, beside azurite
    Gateway(gateway::Options),
    /// Distributed tables on a Citus cluster of three servers, beside a plain server
    Citus(citus::Options),
}

/// Runs a measurement; without one, the two of `make bench`.
pub fn measure(pg: Option<u32>, bench: Option<Bench>) -> Result {
    let environment = &Environment::load(pg, false)?;
    match bench {
        None => {
            programs::compare(environment, &[], false)?;
            gateway::gateway(environment, &gateway::Options::short())
        }
        Some(Bench::Compare { counted, arguments }) => programs::compare(environment, &arguments.arguments, counted),
        Some(Bench::Archive(of)) => programs::archive(environment, &of.arguments),
        Some(Bench::Indexes(of)) => programs::indexes(environment, &of.arguments),
        Some(Bench::Stress(options)) => programs::stress(environment, &options),
        Some(Bench::Gateway(options)) => gateway::gateway(environment, &options),
        Some(Bench::Citus(options)) => citus::citus(&Environment::load(postgres(pg), false)?, &options),
    }
}
