//! The command line.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::{Args, Parser, Subcommand};
use table_service_archive::{At, Moment};
use table_service_model::{Secret, Ticks};

use crate::ends::{Options, Reach, Work};
use crate::records::OnConflict;

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
    after_help = "Examples:\n  \
                  table-service-copy --from env:SOURCE --to ./backup --format jsonl.zst\n  \
                  table-service-copy --from ./backup --to postgresql://me@localhost/mydata --verify\n  \
                  table-service-copy --from ./cities.csv --table Cities --mapping ./mapping.json --to env:TARGET\n\n\
                  Exit status: 0 done; 1 it could not finish; 2 wrong arguments; 3 done, but some entities were rejected; \
                  4 the tables differ; 130 interrupted."
)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub copy: CopyArguments,
}

/// The commands besides copying.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compares the tables of a source and a target, and lists the entities that differ
    Verify(VerifyArguments),
    /// Deletes the entities of a table that a filter selects, of a service or a database
    Delete(DeleteArguments),
    /// Counts the entities of tables, all or those that a filter selects
    Count(CountArguments),
    /// Writes the changes of a change feed as JSON lines, and confirms them when they are written
    Changes(ChangesArguments),
    /// Keeps a directory from which every table of a database can be had as it was at any moment
    Archive(ArchiveArguments),
    /// Copies tables of an archive, as they were at a moment, to any target
    Restore(RestoreArguments),
    /// Shows what has happened to the entities of an archived table that a filter selects
    History(HistoryArguments),
}

/// A source and a target.
#[derive(Debug, Args)]
pub struct TwoEnds {
    /// Where to read [env: TABLE_SERVICE_COPY_FROM]
    #[arg(long, value_name = "SOURCE", env = "TABLE_SERVICE_COPY_FROM", hide_env = true)]
    pub from: Option<Secret>,

    /// Where to write, or what to compare with [env: TABLE_SERVICE_COPY_TO]
    #[arg(long, value_name = "TARGET", env = "TABLE_SERVICE_COPY_TO", hide_env = true)]
    pub to: Option<Secret>,

    #[command(flatten)]
    pub options: Options,
}

/// A source that is worked on alone.
#[derive(Debug, Args)]
pub struct OneEnd {
    /// The service, database or file [env: TABLE_SERVICE_COPY_FROM]
    #[arg(long, value_name = "SOURCE", env = "TABLE_SERVICE_COPY_FROM", hide_env = true)]
    pub from: Option<Secret>,

    #[command(flatten)]
    pub options: Options,
}

/// The treatment of entities that cannot be written or deleted.
#[derive(Debug, Args)]
pub struct RejectOptions {
    /// Write entities that cannot be copied or deleted into FILE, with the reason, and go on. Without it the first one ends the work
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,

    /// End when there are more than N such entities
    #[arg(long, value_name = "N", requires = "rejects")]
    pub max_rejects: Option<u64>,
}

/// The database whose changes are read.
#[derive(Debug, Args)]
pub struct OneDatabase {
    /// The database [env: TABLE_SERVICE_COPY_FROM]
    #[arg(long, value_name = "DATABASE", env = "TABLE_SERVICE_COPY_FROM", hide_env = true)]
    pub from: Option<Secret>,

    #[command(flatten)]
    pub reach: Reach,
}

/// The arguments of a copy.
#[derive(Debug, Args)]
pub struct CopyArguments {
    #[command(flatten)]
    pub ends: TwoEnds,

    /// What happens to an entity that the target has already
    #[arg(long, value_enum, default_value = "fail")]
    pub on_conflict: OnConflict,

    /// Keep in FILE what is done, and go on there when the same command runs again
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,

    #[command(flatten)]
    pub rejects: RejectOptions,

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

/// Compares the tables of a source and a target, and lists the entities that differ
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  table-service-copy verify --from env:SOURCE --to ./backup\n  \
                  table-service-copy verify --from env:SOURCE --to env:TARGET --table Orders --timestamps")]
pub struct VerifyArguments {
    #[command(flatten)]
    pub ends: TwoEnds,

    /// Compare Timestamps too, by microseconds
    #[arg(long)]
    pub timestamps: bool,

    /// List at most N entities that differ, for each table
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_differences: usize,
}

/// Deletes the entities of a table that a filter selects, of a service or a database
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  table-service-copy delete --from env:SOURCE --table Orders --filter \"PartitionKey eq '2025'\" --dry-run\n  \
                  table-service-copy delete --from env:SOURCE --table Orders --filter \"PartitionKey eq '2025'\" --yes --resume ./state\n\n\
                  Exit status: 0 done; 1 it could not finish; 2 wrong arguments; 3 done, but some entities could not be deleted; \
                  130 interrupted.")]
pub struct DeleteArguments {
    #[command(flatten)]
    pub end: OneEnd,

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

    #[command(flatten)]
    pub rejects: RejectOptions,

    /// Delete at most N entities a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
}

/// Counts the entities of tables, all or those that a filter selects
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  table-service-copy count --from env:SOURCE\n  \
                  table-service-copy count --from env:SOURCE --table Orders --filter \"Total gt 100\"")]
pub struct CountArguments {
    #[command(flatten)]
    pub end: OneEnd,

    /// Count only the entities that pass this filter, as $filter has it
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
}

/// Writes the changes of a change feed as JSON lines, and confirms them when they are written
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  table-service-copy changes --from postgresql://me@localhost/mydata --feed orders --to ./changes.jsonl\n  \
                  table-service-copy changes --from postgresql://me@localhost/mydata --feed orders --to - --follow 1\n\n\
                  A line has the columns of query_changes as its members. Changes that are written but not yet confirmed when the program \
                  ends come again: each is written at least once. A file is gone on with at its end, by one run at a time.")]
pub struct ChangesArguments {
    #[command(flatten)]
    pub database: OneDatabase,

    /// The change feed, which create_change_feed has made
    #[arg(long, value_name = "NAME")]
    pub feed: String,

    /// A file, to whose end the lines go, or - for standard output
    #[arg(long, value_name = "FILE")]
    pub to: Secret,

    /// Go on when there are no more changes, and look for new ones every SECONDS
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub follow: Option<f64>,

    /// Do not say how many changes there were
    #[arg(long)]
    pub quiet: bool,
}

/// Keeps a directory from which every table of a database can be had as it was at any moment
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  table-service-copy archive --from postgresql://me@localhost/mydata --to ./archive --keep 35d --follow\n  \
                  table-service-copy archive --list ./archive\n  \
                  table-service-copy archive --verify ./archive\n\n\
                  Exit status: 0 done; 1 it could not finish; 2 wrong arguments; 4 --verify or --list has found damage, or no manifest can be read; 130 interrupted. \
                  With --follow a signal ends it with 0, or with 1 if tables are left out.")]
pub struct ArchiveArguments {
    #[command(flatten)]
    pub database: OneDatabase,

    /// The directory. It is made if it is not there, and has one writer at a time
    #[arg(long, value_name = "DIRECTORY")]
    pub to: Option<PathBuf>,

    /// Only this table; give it again for more. * stands for any characters. An archive keeps its selection for the next run. Without it, all
    /// tables, and those that are created meanwhile
    #[arg(long = "table", value_name = "NAME")]
    pub tables: Vec<String>,

    /// Delete what no moment of this time needs, such as 35d or 12h
    #[arg(long, value_name = "TIME", value_parser = length_of_time)]
    pub keep: Option<Duration>,

    /// Go on, and look for changes every SECONDS, until a signal comes
    #[arg(long, value_name = "SECONDS", value_parser = seconds, num_args = 0..=1, default_missing_value = "1", allow_negative_numbers = true)]
    pub follow: Option<f64>,

    /// The change feed of a new archive. It is created if it is not there. Without it, a feed of a name that no other archive has
    #[arg(long, value_name = "NAME")]
    pub feed: Option<String>,

    /// Go on although the source is not the one of before: another database, or a server that was put back to an earlier state. All tables are
    /// read again
    #[arg(long)]
    pub new_source: bool,

    /// Read all files of an archive, and say which are damaged and what can be restored
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["to", "tables", "keep", "follow", "feed", "new_source", "list"])]
    pub verify: Option<PathBuf>,

    /// Say which tables an archive has, at which moments they can be restored, and how large it is
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["to", "tables", "keep", "follow", "feed", "new_source"])]
    pub list: Option<PathBuf>,

    /// Print what was done as JSON, one object a line, on standard output
    #[arg(long)]
    pub json: bool,

    /// Do not say what was done
    #[arg(long)]
    pub quiet: bool,
}

/// Copies tables of an archive, as they were at a moment, to any target
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  table-service-copy restore --from ./archive --at latest --to postgresql://me@localhost/other\n  \
                  table-service-copy restore --from ./archive --at 2026-01-31T12:00:00Z --table Orders --as OrdersThen --to env:TARGET\n  \
                  table-service-copy restore --from ./archive --at 10m --table Orders --as-it-was --to postgresql://me@localhost/mydata\n\n\
                  A moment is after the last transaction, in the order of commits, before the first one that has committed later: never in the \
                  middle of a transaction. Exit status: 0 done; 1 it could not finish; 2 wrong arguments; 3 done, but some entities were \
                  rejected or changed by others meanwhile; 4 a file is damaged or missing, so that tables were left out; 130 interrupted.")]
pub struct RestoreArguments {
    /// The archive's directory
    #[arg(long, value_name = "DIRECTORY")]
    pub from: PathBuf,

    /// The moment, such as 2026-01-31T12:00:00.5Z, or latest; or so long ago by this machine's clock: 10m, 36h or 7d
    #[arg(long, value_name = "MOMENT", value_parser = at)]
    pub at: At,

    /// Only this table
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// The name that the table gets
    #[arg(long = "as", value_name = "NAME", requires = "table")]
    pub named: Option<String>,

    /// Only the entities that pass this filter, as $filter has it
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,

    /// Where to write, any target of a copy [env: TABLE_SERVICE_COPY_TO]
    #[arg(long, value_name = "TARGET", env = "TABLE_SERVICE_COPY_TO", hide_env = true)]
    pub to: Option<Secret>,

    /// What happens to an entity that the target has already
    #[arg(long, value_enum, default_value = "fail")]
    pub on_conflict: OnConflict,

    /// Make tables of a database equal to what they were: write what differs, delete what was not there, and leave what
    /// is the same with its ETag. With --filter, only entities that pass it now or passed it then
    #[arg(long, conflicts_with_all = ["on_conflict", "allow_gaps"])]
    pub as_it_was: bool,

    /// Restore what is there if changes are missing: in a gap, or because a file is damaged
    #[arg(long)]
    pub allow_gaps: bool,

    #[command(flatten)]
    pub rejects: RejectOptions,

    #[command(flatten)]
    pub work: Work,
}

/// The form of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum HistoryFormat {
    /// JSON, one object a line
    Lines,
    /// For people
    Text,
}

/// Shows what has happened to the entities of an archived table that a filter selects
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  table-service-copy history --from ./archive --table Orders --filter \"PartitionKey eq 'p' and RowKey eq 'r'\"\n  \
                  table-service-copy history --from ./archive --table Orders --filter true --since 2026-01-31T12:00:00Z --format text\n\n\
                  Exit status: 0 done, also if there is nothing to show; 1 it could not finish; 2 wrong arguments; 4 a part of what was asked for is \
                  not known: it is named, and a gap stands in its place.")]
pub struct HistoryArguments {
    /// The archive's directory
    #[arg(long, value_name = "DIRECTORY")]
    pub from: PathBuf,

    /// The table
    #[arg(long, value_name = "NAME")]
    pub table: String,

    /// Which entities: those that pass this filter before a change or after it, such as "PartitionKey eq 'p' and RowKey eq 'r'"
    #[arg(long, value_name = "FILTER")]
    pub filter: String,

    /// Only changes that were committed at this moment or later; it may be so long ago, such as 36h
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    pub since: Option<Moment>,

    /// Only changes that were committed at this moment or earlier
    #[arg(long, value_name = "MOMENT", value_parser = moment)]
    pub until: Option<Moment>,

    /// How versions are shown
    #[arg(long, value_enum, default_value = "lines")]
    pub format: HistoryFormat,
}

fn at(text: &str) -> Result<At, String> {
    if text.eq_ignore_ascii_case("latest") {
        return Ok(At::Latest);
    }
    moment(text)
        .map(At::Moment)
        .map_err(|wrong| format!("{wrong}, or latest"))
}

/// Reads a time of RFC 3339, or how long ago it is by the clock of this machine.
fn moment(text: &str) -> Result<Moment, String> {
    let ago = |length: Duration| Moment::of(SystemTime::now().checked_sub(length)?);
    let moment = match length_of_time(text) {
        Ok(length) => ago(length),
        Err(_) => Moment::parse(text),
    };
    moment.ok_or_else(|| "it is a time such as 2026-01-31T12:00:00.5Z, so long ago such as 10m, 36h or 7d".to_owned())
}

/// Reads a number with a unit: `s`, `m`, `h`, `d` or `w`.
fn length_of_time(text: &str) -> Result<Duration, String> {
    let wrong = || "it is a number with a unit (s, m, h, d or w), such as 35d".to_owned();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match text.get(number.len()..).unwrap_or_default() {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: u32 = number.parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
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

    #[test]
    fn every_help_has_examples() {
        let program = CommandLine::command();
        for command in program.get_subcommands().chain([&program]) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.matches("\n  table-service-copy").count() >= 2,
                "{}: {help}",
                command.get_name()
            );
        }
    }

    #[test]
    fn a_moment_may_be_so_long_ago() {
        let now = Moment::of(SystemTime::now()).unwrap().0;
        for (text, seconds) in [("10m", 600), ("36h", 129_600), ("7d", 604_800), ("0s", 0)] {
            let ago = now - moment(text).unwrap().0;
            assert!((ago - seconds * 1_000_000).abs() < 60_000_000, "{text}: {ago}");
        }
        assert_eq!(at("Latest"), Ok(At::Latest));
        for wrong in ["", "10", "-10m", "10min", "4294967295w", "yesterday", "2026-01-31"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
        let said = moment("2026-01-31T12:00:00Z").unwrap().to_string();
        assert!(said.starts_with("2026-01-31T12:00:00"), "{said}");
    }

    #[test]
    fn a_length_of_time_has_a_unit() {
        assert_eq!(length_of_time("35d"), Ok(Duration::from_secs(35 * 86_400)));
        assert_eq!(length_of_time("2h"), Ok(Duration::from_secs(7200)));
        for wrong in ["", "d", "35", "1.5d", "-1d", "35 d", "35days", "99999999999d", "1é"] {
            assert!(length_of_time(wrong).is_err(), "{wrong}");
        }
    }
}
