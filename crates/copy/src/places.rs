//! The sources and targets of the command line, and where results are printed.

use std::time::Duration;

use table_service_connect::DatabaseUrl;
use table_service_model::{Secret, Ticks, table_name};

use crate::cli::{OneDatabase, Options, Reach, RejectOptions, TwoPlaces, Work};
use crate::failure::Failure;
use crate::location::Location;
use crate::peer::{Source, Target};
use crate::printable::{self, tell};
use crate::progress::Style;
use crate::rejects::Rejects;
use crate::sql::Database;

/// What `--from` says.
pub fn from_of(from: Option<&Secret>) -> Result<&Secret, Failure> {
    from.ok_or_else(|| Failure::usage("--from SOURCE is missing; --help explains it."))
}

impl TwoPlaces {
    /// Returns what `--from` says.
    pub fn from(&self) -> Result<&Secret, Failure> {
        from_of(self.from.as_ref())
    }

    /// Returns what `--to` says.
    pub fn to(&self) -> Result<&Secret, Failure> {
        self.to
            .as_ref()
            .ok_or_else(|| Failure::usage("--to TARGET is missing; --help explains it."))
    }
}

impl OneDatabase {
    /// The database. `otherwise` says what is wrong with another place.
    pub fn open(&self, otherwise: &str) -> Result<Database, Failure> {
        match Location::read(from_of(self.from.as_ref())?)? {
            Location::Sql(url) => self.reach.database(url),
            _ => Err(Failure::usage(otherwise)),
        }
    }
}

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

impl RejectOptions {
    /// Opens the file for rejects.
    pub fn open(&self) -> Result<Rejects, Failure> {
        Rejects::open(self.rejects.clone(), self.max_rejects)
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
    pub fn target(&self, place: &Secret) -> Result<Target, Failure> {
        Target::new(Location::read(place)?, self)
    }
}

impl Options {
    /// The source that an argument names.
    pub fn source(&self, place: &Secret, since: Option<Ticks>) -> Result<Source, Failure> {
        Source::new(Location::read(place)?, self, since)
    }

    /// What a target has.
    pub fn target(&self, place: &Secret) -> Result<Source, Failure> {
        Ok(match self.source(place, None)? {
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
        if let Source::Rest(_) = source
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

/// Prints a result: for machines on standard output, for people on standard error.
pub fn print(json: bool, event: &str, value: &impl serde::Serialize, text: &str) {
    match json {
        true => print_json(event, value),
        false => tell(text),
    }
}

/// Prints an answer, on standard output for people too: it goes on to another program.
pub fn answer(json: bool, event: &str, value: &impl serde::Serialize, text: &str) {
    match json {
        true => print_json(event, value),
        false => printable::tell_output(text),
    }
}

fn print_json(event: &str, value: &impl serde::Serialize) {
    let mut object = serde_json::to_value(value).unwrap_or_default();
    if let Some(members) = object.as_object_mut() {
        members.insert("event".to_owned(), event.into());
    }
    printable::tell_machines(&object);
}
