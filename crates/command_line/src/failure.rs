//! Why the program ends before its work is done.

use std::error::Error;
use std::fmt;

use crate::printable;

/// Exit statuses of the program.
pub mod exit {
    pub const DONE: u8 = 0;
    /// The copy or the comparison could not finish.
    pub const FAILED: u8 = 1;
    /// The command line is wrong; clap uses the same number.
    pub const USAGE: u8 = 2;
    /// The copy is complete but for the entities in the rejects file.
    pub const REJECTED: u8 = 3;
    /// The comparison found differences.
    pub const DIFFERENT: u8 = 4;
    /// Stopped by a signal.
    pub const INTERRUPTED: u8 = 130;
}

/// An error that ends the program. Its text never has a secret, nor a character that a terminal obeys.
#[derive(Debug, Clone)]
pub struct Failure {
    message: String,
    /// The exit status.
    pub code: u8,
    /// Whether it is the matter of one table alone, such as a lock on it, so that others can be served.
    pub is_of_table: bool,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Failure {
        Failure {
            message: printable::message(&message.into()),
            code: exit::FAILED,
            is_of_table: false,
        }
    }

    pub fn of_table(message: impl Into<String>) -> Failure {
        Failure {
            is_of_table: true,
            ..Failure::new(message)
        }
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure {
            code: exit::USAGE,
            ..Failure::new(message)
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}
