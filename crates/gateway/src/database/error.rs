//! From PostgreSQL's errors to those of the service, by the one error catalog.

use table_service_model::error::{Report, RequestError, Retry};
use table_service_model::{Code, Error};
use tokio_postgres::error::DbError;

use crate::failure::{Failure, with_sources};

/// What is to be done after a statement failed.
#[derive(Debug)]
pub struct Diagnosis {
    pub failure: Failure,
    /// The statement was certainly rolled back, and may succeed when it is sent again.
    pub rolled_back: bool,
    /// The connection is of no use any more, or what it has prepared is not.
    pub connection_lost: bool,
}

impl Diagnosis {
    pub fn of(error: &tokio_postgres::Error) -> Diagnosis {
        match error.as_db_error() {
            Some(error) => Diagnosis::of_statement(error),
            // Without an answer from the server it is the connection that failed, or the driver refused.
            None => {
                let closed = error.is_closed() || has_io_error(error);
                let reason = with_sources(error);
                let error = if closed {
                    RequestError::ServerBusy { reason }
                } else {
                    RequestError::Internal { reason }
                };
                Diagnosis {
                    failure: error.into(),
                    rolled_back: false,
                    connection_lost: true,
                }
            }
        }
    }

    fn of_statement(error: &DbError) -> Diagnosis {
        let sqlstate = error.code().code();
        if let Some(report) = Report::parse(sqlstate, error.message()) {
            return Diagnosis {
                failure: Failure::of_report(report, error.hint().map(str::to_owned)),
                rolled_back: true,
                connection_lost: false,
            };
        }
        let code = Code::of_sqlstate(sqlstate);
        let reason = format!("PostgreSQL: {sqlstate} {}", error.message());
        let error = match code {
            Code::ServerBusy => RequestError::ServerBusy { reason }.into(),
            Code::OperationTimedOut => RequestError::OperationTimedOut { reason }.into(),
            Code::AuthorizationFailure => Error::NotAuthorized { reason },
            Code::TableNotFound => Error::TableNotFound,
            Code::TableAlreadyExists => Error::TableAlreadyExists,
            Code::EntityAlreadyExists => Error::EntityAlreadyExists,
            _ => RequestError::Internal { reason }.into(),
        };
        let class = sqlstate.get(..2).unwrap_or_default();
        Diagnosis {
            // A lost race for locks: PostgreSQL has undone it and says to try again.
            rolled_back: code.retry() == Retry::WithBackOff && (class == "40" || class == "55"),
            // 57P: the server ends; 0A, 26, 42: the extension was replaced under what this connection has prepared, or a
            // pooler lost it.
            connection_lost: matches!(class, "08" | "0A" | "26" | "42" | "53" | "XX") || sqlstate.starts_with("57P"),
            failure: error.into(),
        }
    }
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
