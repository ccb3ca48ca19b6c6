//! Why the program ends before its work is done.

use std::error::Error;
use std::fmt;

use crate::printable;

/// What the program ends with.
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
    code: u8,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Failure {
        Failure {
            message: printable::message(&message.into()),
            code: exit::FAILED,
        }
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure {
            message: printable::message(&message.into()),
            code: exit::USAGE,
        }
    }

    pub fn exit_code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

/// An error with all that caused it.
pub fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Returns whether the other side does not prove who it is, or has no TLS that this program knows.
pub fn is_refused_by_tls(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        use rustls::Error::{InvalidCertificate, InvalidMessage, PeerIncompatible};
        return matches!(error, InvalidCertificate(_) | InvalidMessage(_) | PeerIncompatible(_));
    }
    // An I/O error has another error inside, and not as its source.
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    inner.is_some_and(|inner| is_refused_by_tls(inner)) || error.source().is_some_and(is_refused_by_tls)
}
