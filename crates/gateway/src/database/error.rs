//! Converts PostgreSQL's errors to those of the service, by the error catalog.

use postgres_types::FromSql;
use table_service_connect::with_sources;
use table_service_model::error::{Report, Retry, Stage};
use table_service_model::{Code, Error, RequestError};
use tokio_postgres::Row;
use tokio_postgres::error::{DbError, Severity};

use crate::failure::Failure;

/// The meaning of a failed statement for the request and the connection.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    pub failure: Failure,
    /// The statement was certainly rolled back and may succeed on retry.
    pub rolled_back: bool,
    /// The connection, or its prepared statements, cannot be used any more.
    pub connection_lost: bool,
    /// Why the whole node may be away, if so.
    pub node_lost: Option<String>,
    /// The server takes no writes. If it is in recovery, the statement was certainly not executed.
    pub is_read_only: bool,
    /// The function or file that the server's library lacks, if that is the failure.
    lacks_library: Option<String>,
}

impl Diagnosis {
    /// A failure of a request that has no connection.
    pub fn without_connection(failure: Failure) -> Diagnosis {
        Diagnosis {
            failure,
            rolled_back: false,
            connection_lost: false,
            node_lost: None,
            is_read_only: false,
            lacks_library: None,
        }
    }

    /// A failure after which the connection cannot be used any more.
    pub fn of_lost_connection(failure: Failure) -> Diagnosis {
        Diagnosis {
            connection_lost: true,
            ..Diagnosis::without_connection(failure)
        }
    }

    /// Adjusts the diagnosis to a standby: its files may be of another version of the extension than its database. Another standby may
    /// be better.
    pub fn at_a_standby(&mut self) {
        let Some(problem) = self.lacks_library.take() else {
            return;
        };
        tracing::warn!(problem, "a standby cannot run a statement");
        self.node_lost = Some(problem.clone());
        self.connection_lost = true;
        self.failure = Failure::busy(problem);
    }

    /// Returns the diagnosis of an error of the driver.
    pub fn of(error: &tokio_postgres::Error) -> Diagnosis {
        match error.as_db_error() {
            Some(error) => Diagnosis::of_statement(error),
            // Without an error from the server, the connection failed or the driver refused the statement.
            None => {
                let closed = error.is_closed() || has_io_error(error);
                let reason = with_sources(error);
                let node_lost = closed.then(|| reason.clone());
                let failure = match closed {
                    true => Failure::busy(reason),
                    false => Failure::internal(reason),
                };
                Diagnosis {
                    node_lost,
                    ..Diagnosis::of_lost_connection(failure)
                }
            }
        }
    }

    /// Returns whether PostgreSQL has certainly undone a statement, and says so. After the loss of a connection,
    /// which is class 08 in a pooler's words, it may have been executed.
    pub fn is_undone(error: &tokio_postgres::Error) -> bool {
        error.as_db_error().is_some_and(|error| {
            error.parsed_severity() == Some(Severity::Error) && !may_be_lost(error.code().code(), error.message())
        })
    }

    /// The error of a constraint or of a trigger that a user has added to a table.
    fn of_user(code: Code, error: &DbError) -> Diagnosis {
        let failure = match code {
            // The service's message, which clients may compare. The hint says which constraint it was.
            Code::EntityAlreadyExists => Failure {
                hint: Some(error.message().to_owned()),
                ..Failure::from(Error::EntityAlreadyExists)
            },
            Code::Conflict => Failure {
                hint: match error.code().code() {
                    // It names the views and tables that depend on the table.
                    "2BP01" => error.detail().map(|detail| detail.replace('\n', "; ")),
                    _ => error.hint().map(str::to_owned),
                },
                ..Failure::from(RequestError::HasDependents {
                    message: error.message().to_owned(),
                })
            },
            _ => Failure {
                code,
                message: error.message().to_owned(),
                stage: Stage::BackEnd,
                hint: error.hint().map(str::to_owned),
                other_tables: None,
            },
        };
        Diagnosis::without_connection(failure)
    }

    /// The error of the catalog that a statement, or one write of a group, has raised; `None` if it is another one.
    pub fn of_report(sqlstate: &str, message: &str, hint: Option<String>) -> Option<Diagnosis> {
        let report = Report::parse(sqlstate, message)?;
        Some(Diagnosis {
            rolled_back: true,
            ..Diagnosis::without_connection(Failure::of_report(report, hint))
        })
    }

    fn of_statement(error: &DbError) -> Diagnosis {
        let sqlstate = error.code().code();
        let lacks_library = lacks_library(error);
        let hint = error.hint().map(str::to_owned);
        if let Some(mut diagnosis) = Diagnosis::of_report(sqlstate, error.message(), hint) {
            if sqlstate == "42P01" {
                // The nearest name of another table.
                diagnosis.failure.other_tables = error.detail().map(str::to_owned);
            }
            return diagnosis;
        }
        let in_function = is_in_function(error);
        let code = if server_was_lost(sqlstate, error.message()) {
            Code::ServerBusy
        } else if in_function {
            Code::of_function_of_user(sqlstate)
        } else {
            Code::of_sqlstate(sqlstate)
        };
        let message = error.message();
        let reason = format!("PostgreSQL: {sqlstate} {message}");
        // After these the node itself has ended the connection. As an ordinary error they are about another server, which the
        // node needed.
        let ended = matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
        let class = sqlstate.get(..2).unwrap_or_default();
        // A standby ends a connection that delays its replay, and goes on.
        let node_lost = (ended && code == Code::ServerBusy && class != "40").then(|| reason.clone());
        let failure = match code {
            Code::ServerBusy => Failure::busy(reason),
            Code::OperationTimedOut => Failure::timed_out(reason),
            Code::AuthorizationFailure => {
                tracing::warn!(reason, "the role of the gateway lacks a privilege");
                let reason = "The role of the gateway lacks a privilege in the database".to_owned();
                Error::NotAuthorized { reason }.into()
            }
            Code::TableNotFound => Error::TableNotFound.into(),
            Code::TableAlreadyExists => Error::TableAlreadyExists.into(),
            Code::Conflict | Code::EntityAlreadyExists | Code::InvalidInput | Code::PropertiesNeedValue => {
                return Diagnosis::of_user(code, error);
            }
            _ => Failure::internal(reason),
        };
        Diagnosis {
            // Serialization failures, deadlocks and lock timeouts: PostgreSQL has rolled back.
            rolled_back: code.retry() == Retry::WithBackOff && (class == "40" || class == "55"),
            // 57P: the server shuts down. 0A, 26, 42: the extension was replaced after this connection prepared its
            // statements, or a pooler lost them.
            connection_lost: ended
                || matches!(class, "08" | "0A" | "26" | "42" | "53" | "XX")
                || sqlstate.starts_with("57P"),
            node_lost,
            is_read_only: sqlstate == "25006",
            lacks_library,
            failure,
        }
    }
}

/// A value of a row.
///
/// # Errors
/// `InternalError` if it has another type: then the extension has another version.
pub fn column<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> Result<T, Failure> {
    row.try_get(index)
        .map_err(|error| Failure::internal(with_sources(&error)))
}

/// Returns the problem of a standby with a library that lacks a function of its database, if that is the error.
pub fn lacks_library(error: &DbError) -> Option<String> {
    let (sqlstate, message) = (error.code().code(), error.message());
    // 42883: a function that the library does not have; 58P01: there is no library.
    matches!(sqlstate, "42883" | "58P01").then(|| {
        format!(
            "its files of the extension table_service do not fit its database, which is the primary's ({sqlstate} {message}): \
             install the primary's version of them on this server"
        )
    })
}

/// Returns whether an error says that a connection was lost.
fn may_be_lost(sqlstate: &str, message: &str) -> bool {
    sqlstate.starts_with("08") || server_was_lost(sqlstate, message)
}

/// Returns whether a function of a user was running, such as a trigger. The extension has none in these languages, and PostgreSQL
/// translates their names in its CONTEXT in part.
fn is_in_function(error: &DbError) -> bool {
    let context = error.where_().unwrap_or_default();
    ["PL/", "SQL function", "SQL-Funktion", "fonction SQL"]
        .iter()
        .any(|language| context.contains(language))
}

/// The beginnings of Citus's messages about a lost server: those of tests/citus/messages, and those of libpq about the
/// connection to another server.
const SERVER_WAS_LOST: [&str; 13] = [
    "could not commit transaction for shard ",
    "postmaster was shut down",
    "execution cannot recover from multiple connection failures",
    "cannot connect to ",
    "failed to read result ",
    "failed to prepare transaction ",
    "failure on connection marked as essential",
    "originator node of the query ",
    "server closed the connection unexpectedly",
    "could not receive data from server",
    "could not send data to server",
    "connection not open",
    "no connection to the server",
];

/// Returns whether Citus lost a server. Often it has no SQLSTATE for this, and it does not translate its messages.
fn server_was_lost(sqlstate: &str, message: &str) -> bool {
    sqlstate == "XX000" && SERVER_WAS_LOST.iter().any(|begin| message.starts_with(begin))
}

fn has_io_error(error: &tokio_postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error.is::<std::io::Error>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_lost_is_told_from_internal_errors_by_the_message() {
        for message in [
            "could not commit transaction for shard 102008 on at least one active node",
            "postmaster was shut down, exiting",
            "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally",
        ] {
            assert!(server_was_lost("XX000", message));
            assert!(!server_was_lost("P0001", message));
            assert!(may_be_lost("XX000", message));
        }
        // Poolers say so, also as an ordinary error.
        assert!(may_be_lost("08P01", "server conn crashed?"));
        assert!(!may_be_lost(
            "40001",
            "could not serialize access due to concurrent update"
        ));
        assert!(!server_was_lost("XX000", "cache lookup failed for relation 102008"));
        for line in include_str!("../../../../tests/citus/messages").lines() {
            let (meaning, message) = line.split_once(' ').unwrap();
            let message = message.split_once(": ").map_or(message, |(_, message)| message);
            assert_eq!(
                server_was_lost("XX000", &format!("{message} ")),
                meaning == "busy",
                "{line}"
            );
        }
    }
}
