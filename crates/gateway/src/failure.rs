//! An error of a request, as the client gets it.

use table_service_model::error::{Report, Stage};
use table_service_model::filter::hint_for;
use table_service_model::{Code, Error, RequestError};

/// An error of the service, from the catalog or raised by the database. As text, for operators, it has the hint, which says more than
/// the service's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .code.as_str(), .hint.as_deref().unwrap_or(message))]
pub struct Failure {
    pub code: Code,
    /// The service's message.
    pub message: String,
    /// The layer of the service that finds it. Some headers and the index prefix in batches depend on it.
    pub stage: Stage,
    /// Details that the service's message does not have.
    pub hint: Option<String>,
    /// A message of the database about other tables: only for clients that may list them.
    pub other_tables: Option<String>,
}

/// The setting of the gateway, which hints name instead of SQL's.
const FILTER_DIALECT: &str = "The setting filter_dialect = \"extended\" of the gateway's account";

impl Failure {
    /// Returns `ServerBusy`: the same request may succeed later.
    pub fn busy(reason: impl Into<String>) -> Failure {
        let reason = reason.into();
        RequestError::ServerBusy { reason }.into()
    }

    /// Returns `OperationTimedOut`.
    pub fn timed_out(reason: impl Into<String>) -> Failure {
        let reason = reason.into();
        RequestError::OperationTimedOut { reason }.into()
    }

    /// Returns `InternalError`, for which the client can do nothing.
    pub fn internal(reason: impl Into<String>) -> Failure {
        let reason = reason.into();
        RequestError::Internal { reason }.into()
    }

    /// Returns an error of the catalog that the database raised.
    pub fn of_report(report: Report<'_>, hint: Option<String>) -> Failure {
        Failure {
            code: report.code,
            message: report.message.to_owned(),
            stage: report.stage,
            hint: hint.map(|hint| hint_for(&hint, Some(FILTER_DIALECT))),
            other_tables: None,
        }
    }

    /// Returns the failure for a client that may list tables.
    pub fn with_other_tables(mut self) -> Failure {
        self.hint = self.hint.or(self.other_tables.take());
        self
    }

    /// Adds the index of the operation in a batch to the message.
    pub fn at(mut self, index: usize) -> Failure {
        self.message = format!("{index}:{}", self.message);
        self
    }

    /// Returns whether the table does not exist, or no table can have its name.
    pub fn is_of_table(&self) -> bool {
        let is_name_length = || self.code == Code::OutOfRangeInput && self.stage == Stage::BackEnd;
        matches!(self.code, Code::TableNotFound | Code::InvalidResourceName) || is_name_length()
    }

    /// Returns whether the request is well-formed and the stored data is the reason.
    pub fn is_of_data(&self) -> bool {
        matches!(self.status().as_u16(), 404 | 409 | 412)
    }

    /// Returns the status of its code in HTTP.
    pub fn status(&self) -> http::StatusCode {
        http::StatusCode::from_u16(self.code.http_status()).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Failure {
        Error::from(error).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            code: error.code(),
            message: error.to_string(),
            stage: error.stage(),
            hint: error.hint().map(|hint| hint_for(&hint, Some(FILTER_DIALECT))),
            other_tables: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_the_code_and_the_details() {
        let reason = "The database cannot be reached".to_owned();
        let busy = Failure::from(RequestError::ServerBusy { reason });
        assert_eq!(busy.to_string(), "ServerBusy: The database cannot be reached.");
        let plain = Failure { hint: None, ..busy };
        assert!(
            plain
                .to_string()
                .starts_with("ServerBusy: The server is currently unable"),
            "{plain}"
        );
    }
}
