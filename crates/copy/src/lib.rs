//! Copies tables between the Table service or an emulator (REST), the gateway (REST), databases with the extension (SQL)
//! and files.
//!
//! A source gives the entities of a table in chunks, range by range. The pipeline hands them to lanes, which write them
//! into the target, and notes for each range how far everything is written. Nothing holds more than some chunks.
//! Entities that a filter selects are counted or deleted range by range too, by their keys. An archive keeps the changes of
//! a database, and is a source as of any moment.

mod archived;
mod bulk;
pub mod cli;
mod endpoint;
pub mod files;
mod interrupt;
mod location;
mod outcome;
mod output;
mod path;
mod peer;
mod pipeline;
mod places;
mod policies;
mod progress;
mod record;
mod rejects;
mod report;
pub mod rest;
mod resume;
pub mod run;
mod secret;
mod selection;
mod sql;
mod verify;
mod workers;
mod write;

use table_service_command_line::{failure, files as created, printable};
