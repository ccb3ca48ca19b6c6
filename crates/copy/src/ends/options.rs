//! The part of the command line that says which ends there are and how they are worked on, and how they are opened.

use std::time::Duration;

use clap::Args;
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use table_service_connect::DatabaseUrl;
use table_service_model::{Secret, Ticks, table_name};

use crate::failure::Failure;
use crate::records::Style;

use super::databases::{Database, DatabaseOptions, SqlSource};
use super::end::End;
use super::files::{FileOptions, FileSource, FileTarget, ReadOptions};
use super::services::{RestClient, RestSource};
use super::source::Source;
use super::target::Target;

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
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub concurrency: usize,

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
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = clap::value_parser!(u64).map(Duration::from_secs))]
    pub retry_for: Duration,

    #[command(flatten)]
    pub databases: DatabaseOptions,
}

impl Reach {
    /// The database of a URL.
    pub fn database(&self, url: Box<DatabaseUrl>) -> Result<Database, Failure> {
        Database::new(*url, self.retry_for, &self.databases)
    }
}

impl Work {
    /// How progress is shown.
    pub fn style(&self) -> Style {
        match (self.json, self.quiet) {
            (true, _) => Style::Json,
            (false, true) => Style::Quiet,
            (false, false) => Style::People,
        }
    }

    /// The target that an argument names.
    pub fn target(&self, argument: &Secret) -> Result<Target, Failure> {
        let (files, reach) = (&self.files, &self.reach);
        Ok(match End::read(argument)? {
            End::Service(endpoint) => Target::Service(Box::new(RestClient::new(endpoint, reach.retry_for)?)),
            End::Database(url) => Target::Database(Box::new(reach.database(url)?.for_writing())),
            End::Path(path) => Target::Files(FileTarget::new(Some(path), files)?),
            End::Stream => Target::Files(FileTarget::new(None, files)?),
        })
    }
}

impl Options {
    /// The source that an argument names. With `since`, only entities with this Timestamp or a later one are read.
    pub fn source(&self, argument: &Secret, since: Option<Ticks>) -> Result<Source, Failure> {
        let Work { files, reach, .. } = &self.work;
        let of_files = |path| FileSource::new(path, files, &self.reading, &self.tables);
        Ok(match End::read(argument)? {
            End::Service(endpoint) => {
                let client = RestClient::new(endpoint, reach.retry_for)?;
                Source::Service(Box::new(RestSource::new(client, since, &self.tables)))
            }
            End::Database(url) => Source::Database(Box::new(SqlSource::new(reach.database(url)?, since))),
            End::Path(path) => Source::Files(of_files(Some(path))),
            End::Stream => Source::Files(of_files(None)),
        })
    }

    /// The entities of a target.
    pub fn target(&self, argument: &Secret) -> Result<Source, Failure> {
        Ok(match self.source(argument, None)? {
            Source::Files(files) => Source::Files(files.as_written()),
            other => other,
        })
    }

    /// The tables that are asked for. A name is found regardless of case.
    pub async fn chosen(&self, source: &Source) -> Result<Vec<String>, Failure> {
        for table in &self.tables {
            table_name::check_form(table)
                .map_err(|error| Failure::usage(format!("--table {table:?}: {}", error.report())))?;
        }
        if let Source::Service(_) = source
            && !self.tables.is_empty()
        {
            // A signature for tables need not be one for the list of tables.
            return Ok(self.tables.clone());
        }
        let tables = source.tables().await?;
        if self.tables.is_empty() {
            return Ok(tables);
        }
        self.tables
            .iter()
            .map(|name| {
                tables
                    .iter()
                    .find(|table| table.eq_ignore_ascii_case(name))
                    .cloned()
                    .ok_or_else(|| Failure::new(format!("{}: there is no table {name}.", source.name())))
            })
            .collect()
    }
}
