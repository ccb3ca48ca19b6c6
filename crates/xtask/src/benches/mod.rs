//! Measurements, in release mode.

mod citus;
mod copies;
mod gateway;
mod programs;
mod server;

use crate::citus::postgres;
use crate::environment::{Environment, Result};

#[derive(clap::Subcommand)]
pub enum Bench {
    /// Beside hand-written SQL
    Compare {
        /// Compare instructions instead of time, with one client; it takes minutes and needs valgrind
        #[arg(long)]
        counted: bool,
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
    /// An archive: its first base, how far it is behind, its size, and a restore
    Archive {
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
    Gateway(gateway::Options),
    /// Copies, beside COPY of psql, and over REST
    Copy(copies::Options),
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
        Some(Bench::Compare { counted, arguments }) => programs::compare(environment, &arguments, counted),
        Some(Bench::Growth { arguments }) => programs::growth(environment, &arguments),
        Some(Bench::Bulk { arguments }) => programs::bulk(environment, &arguments),
        Some(Bench::Expiry { arguments }) => programs::expiry(environment, &arguments),
        Some(Bench::Feeds { arguments }) => programs::with_feeds(environment, "feeds", &arguments),
        Some(Bench::Archive { arguments }) => programs::with_feeds(environment, "archive", &arguments),
        Some(Bench::Indexes { counted, arguments }) => programs::indexes(environment, &arguments, counted),
        Some(Bench::Stress { arguments }) => programs::stress(environment, &arguments),
        Some(Bench::Model { arguments }) => programs::model(environment, &arguments),
        Some(Bench::Gateway(options)) => gateway::gateway(environment, &options),
        Some(Bench::Copy(options)) => copies::copies(environment, &options),
        Some(Bench::Citus(options)) => citus::citus(&Environment::load(postgres(pg), false)?, &options),
    }
}
