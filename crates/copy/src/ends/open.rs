//! Opens the ends that the command line names.

use std::time::Duration;

use table_service_connect::DatabaseUrl;
use table_service_model::{Secret, Ticks, table_name};

use crate::failure::Failure;
use crate::records::Style;

use super::databases::Database;
use super::end::End;
use super::options::{Options, Reach, Work};
use super::source::Source;
use super::target::Target;

impl Reach {
    /// How long to try again.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.retry_for)
    }

    /// The database of a URL.
    pub fn database(&self, url: Box<DatabaseUrl>) -> Result<Database, Failure> {
        Database::new(*url, self.patience(), &self.databases)
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

    /// How many ranges are read at a time.
    pub fn readers(&self) -> usize {
        usize::from(self.concurrency)
    }

    /// The target that an argument names.
    pub fn target(&self, argument: &Secret) -> Result<Target, Failure> {
        Target::new(End::read(argument)?, self)
    }
}

impl Options {
    /// The source that an argument names.
    pub fn source(&self, argument: &Secret, since: Option<Ticks>) -> Result<Source, Failure> {
        Source::new(End::read(argument)?, self, since)
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
