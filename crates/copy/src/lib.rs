//! Copies tables between the Table service or an emulator (REST), the gateway (REST), databases with the extension (SQL)
//! and files.
//!
//! A source gives the entities of a table in chunks, range by range. The pipeline hands them to lanes, which write them
//! into the target, and notes for each range how far everything is written. Nothing holds more than some chunks.
//! Entities that a filter selects are also counted or deleted range by range, by their keys. An archive keeps the
//! changes of a database, and is a source as of any moment.

pub mod commands;
pub mod ends;
mod records;
mod work;

use table_service_command_line::{failure, files as created, printable};
