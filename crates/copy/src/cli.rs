//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use table_service_model::{Secret, Ticks};

use crate::files::{Format, delimiter};
use crate::sql::DatabaseOptions;
use crate::write::OnConflict;

/// Copies tables between the Table service or an emulator, the gateway, databases with the extension, and files.
///
/// A source or a target is a connection string of the Table service, a table endpoint with a shared access signature, the
/// postgresql:// URL of a database with the extension table_service, a file, a directory, or - for standard input or
/// output. env:NAME takes it from an environment variable and @FILE from a file. Give keys, signatures and passwords in
/// one of these ways: every user of the machine can read the arguments of a program.
#[derive(Debug, Parser)]
#[command(
    name = "table-service-copy",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Exit status: 0 done; 1 it could not finish; 2 wrong arguments; 3 done, but some entities were rejected; \
                  4 the tables differ; 130 interrupted."
)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub copy: CopyArguments,
}

impl CommandLine {
    /// Reads the arguments. An error repeats no value of theirs: a key or a URL may stand in the wrong place.
    ///
    /// # Errors
    /// What is wrong, or what is asked for (`--help`, `--version`).
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<CommandLine, clap::Error> {
        table_service_command_line::read(arguments)
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compares the tables of two places, and lists the entities that differ
    Verify(VerifyArguments),
    /// Deletes the entities of a table that a filter selects, of a service or a database
    Delete(DeleteArguments),
    /// Counts the entities of tables, all or those that a filter selects
    Count(CountArguments),
    /// Writes the changes of a change feed as JSON lines, and confirms them when they are written
    Changes(ChangesArguments),
}

#[derive(Debug, Args)]
pub struct TwoPlaces {
    /// Where to read [env: TABLE_SERVICE_COPY_FROM]
    #[arg(long, value_name = "SOURCE", env = "TABLE_SERVICE_COPY_FROM", hide_env = true)]
    pub from: Option<Secret>,

    /// Where to write, or what to compare with [env: TABLE_SERVICE_COPY_TO]
    #[arg(long, value_name = "TARGET", env = "TABLE_SERVICE_COPY_TO", hide_env = true)]
    pub to: Option<Secret>,

    #[command(flatten)]
    pub options: Options,
}

/// A place that is worked on alone.
#[derive(Debug, Args)]
pub struct OnePlace {
    /// The place [env: TABLE_SERVICE_COPY_FROM]
    #[arg(long, value_name = "PLACE", env = "TABLE_SERVICE_COPY_FROM", hide_env = true)]
    pub from: Option<Secret>,

    #[command(flatten)]
    pub options: Options,
}

#[derive(Debug, Args)]
pub struct Options {
    /// Only this table; give it again for more. Without it, all tables of the source
    #[arg(long = "table", value_name = "NAME")]
    pub tables: Vec<String>,

    /// The format of files: jsonl, csv or azcopy, with .zst behind it for compressed ones, or azurite for an emulator's
    /// database. Without it, the ending of a file's name says it, and new files are jsonl
    #[arg(long, value_parser = Format::parse)]
    pub format: Option<Format>,

    /// What stands between the fields of CSV: one character, or tab
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    pub delimiter: u8,

    /// Give values of CSV without a type the type that all values of their column look like, and say which. Without it
    /// they are Strings
    #[arg(long)]
    pub infer_types: bool,

    /// Whose tables are read from an emulator's database file, if it has several accounts
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,

    /// How many key ranges are read, and how many connections write, at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub concurrency: u16,

    /// How long to try again when a source or a target is away or busy, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub retry_for: u64,

    #[command(flatten)]
    pub databases: DatabaseOptions,

    /// Print progress and the report as JSON, one object a line, on standard output
    #[arg(long)]
    pub json: bool,

    /// Print no progress
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct CopyArguments {
    #[command(flatten)]
    pub places: TwoPlaces,

    /// What happens to an entity that the target has already
    #[arg(long, value_enum, default_value = "fail")]
    pub on_conflict: OnConflict,

    /// Keep in FILE what is done, and go on there when the same command runs again
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,

    /// Write entities that cannot be copied into FILE, with the reason, and go on. Without it the first one ends the copy
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,

    /// End when more than N entities were rejected
    #[arg(long, value_name = "N", requires = "rejects")]
    pub max_rejects: Option<u64>,

    /// Read at most N entities a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,

    /// Copy only entities whose Timestamp is TIME or later, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<Ticks>,

    /// After the copy, copy what has changed meanwhile, again and again, until that takes less than SECONDS. From a database
    /// that can have a change feed, deletions too
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub follow: Option<f64>,

    /// How far before the beginning of one round the next one looks for changes, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, requires = "follow")]
    pub overlap: u32,

    /// Copy stored access policies and service properties too
    #[arg(long)]
    pub with_policies: bool,

    /// Compare source and target afterwards, as `verify` does
    #[arg(long)]
    pub verify: bool,

    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct VerifyArguments {
    #[command(flatten)]
    pub places: TwoPlaces,

    /// Compare Timestamps too, by microseconds
    #[arg(long)]
    pub timestamps: bool,

    /// List at most N entities that differ, for each table
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_differences: usize,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 done; 1 it could not finish; 2 wrong arguments; 3 done, but some entities could not be deleted; \
                  130 interrupted."
)]
pub struct DeleteArguments {
    #[command(flatten)]
    pub place: OnePlace,

    /// Which entities: a filter as $filter has it, such as "PartitionKey eq '2025'"; all of them are: true
    #[arg(long, value_name = "FILTER")]
    pub filter: String,

    /// Delete without a question. Without it a terminal is asked for the number of entities
    #[arg(long)]
    pub yes: bool,

    /// Only count the entities that would be deleted
    #[arg(long)]
    pub dry_run: bool,

    /// Keep in FILE what is done, and go on there when the same command runs again
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,

    /// Write the keys of entities that cannot be deleted into FILE, with the reason, and go on. Without it the first one ends
    /// the delete
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,

    /// End when more than N entities could not be deleted
    #[arg(long, value_name = "N", requires = "rejects")]
    pub max_rejects: Option<u64>,

    /// Delete at most N entities a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
}

#[derive(Debug, Args)]
pub struct CountArguments {
    #[command(flatten)]
    pub place: OnePlace,

    /// Count only the entities that pass this filter, as $filter has it
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A line has the columns of query_changes as its members. Changes that are written but not yet confirmed when the program \
                  ends come again: each is written at least once. A file is gone on with at its end, by one run at a time."
)]
pub struct ChangesArguments {
    /// The database [env: TABLE_SERVICE_COPY_FROM]
    #[arg(long, value_name = "DATABASE", env = "TABLE_SERVICE_COPY_FROM", hide_env = true)]
    pub from: Option<Secret>,

    /// The change feed, which create_change_feed has made
    #[arg(long, value_name = "NAME")]
    pub feed: String,

    /// A file, to whose end the lines go, or - for standard output
    #[arg(long, value_name = "FILE")]
    pub to: Secret,

    /// Go on when there are no more changes, and look for new ones every SECONDS
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub follow: Option<f64>,

    /// How long to try again when the database is away or busy, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub retry_for: u64,

    #[command(flatten)]
    pub databases: DatabaseOptions,

    /// Do not say how many changes there were
    #[arg(long)]
    pub quiet: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    number.ok_or_else(|| "it is a number of seconds, 0 or more".to_owned())
}

fn time(text: &str) -> Result<Ticks, String> {
    Ticks::parse_datetime(text).map_err(|_| "it is a time such as 2026-01-31T12:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }
}
