//! The part of the command line that says which ends there are, and how they are worked on.

use clap::Args;

use super::databases::DatabaseOptions;
use super::files::{FileOptions, ReadOptions};

/// Which tables are worked on, and how.
#[derive(Debug, Args)]
pub struct Options {
    /// Only this table; give it again for more. Without it, all tables of the source
    #[arg(long = "table", value_name = "NAME")]
    pub tables: Vec<String>,

    #[command(flatten)]
    pub reading: ReadOptions,

    #[command(flatten)]
    pub work: Work,
}

/// The options of all work on tables.
#[derive(Debug, Args)]
pub struct Work {
    #[command(flatten)]
    pub files: FileOptions,

    /// How many key ranges are read, and how many connections write, at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub concurrency: u16,

    #[command(flatten)]
    pub reach: Reach,

    /// Print progress and the report as JSON, one object a line, on standard output
    #[arg(long)]
    pub json: bool,

    /// Print no progress
    #[arg(long)]
    pub quiet: bool,
}

/// How sources and targets are reached.
#[derive(Debug, Args)]
pub struct Reach {
    /// How long to try again when a source or a target is away or busy, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub retry_for: u64,

    #[command(flatten)]
    pub databases: DatabaseOptions,
}
