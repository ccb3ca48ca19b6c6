//! The common parts of commands: how they get their ends, and where results are printed.

use table_service_model::Secret;

use crate::ends::End;
use crate::ends::databases::Database;
use crate::failure::Failure;
use crate::printable::{self, tell};
use crate::records::Rejects;

use super::arguments::{OneDatabase, RejectOptions, TwoEnds};

/// The value of `--from`.
pub fn from_of(from: Option<&Secret>) -> Result<&Secret, Failure> {
    from.ok_or_else(|| Failure::usage("--from SOURCE is missing; --help explains it."))
}

impl TwoEnds {
    /// Returns the value of `--from`.
    pub fn from(&self) -> Result<&Secret, Failure> {
        from_of(self.from.as_ref())
    }

    /// Returns the value of `--to`.
    pub fn to(&self) -> Result<&Secret, Failure> {
        self.to
            .as_ref()
            .ok_or_else(|| Failure::usage("--to TARGET is missing; --help explains it."))
    }
}

impl OneDatabase {
    /// The database. `otherwise` is the message for an end that is none.
    pub fn open(&self, otherwise: &str) -> Result<Database, Failure> {
        match End::read(from_of(self.from.as_ref())?)? {
            End::Database(url) => self.reach.database(url),
            _ => Err(Failure::usage(otherwise)),
        }
    }
}

impl RejectOptions {
    /// Opens the file for rejects.
    pub fn open(&self) -> Result<Rejects, Failure> {
        Rejects::open(self.rejects.clone(), self.max_rejects)
    }
}

/// Prints a result: for machines on standard output, for people on standard error.
pub fn print(json: bool, event: &str, value: &impl serde::Serialize, text: &str) {
    match json {
        true => print_json(event, value),
        false => tell(text),
    }
}

/// Prints an answer. For people it is on standard output as well, because it goes on to another program.
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
