//! A request that cannot be served, and what the client is told.

use table_service_model::error::{Report, RequestError, Stage};
use table_service_model::{Code, Error};

/// An error of the service, from the catalog or as the database raised it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    /// The service's message.
    pub message: String,
    /// Which layer of the service finds it: some headers and the prefixes of batches depend on it.
    pub stage: Stage,
    /// What the service's message does not say.
    pub hint: Option<String>,
}

impl Failure {
    /// An error of the catalog that the database raised.
    pub fn of_report(report: Report<'_>, hint: Option<String>) -> Failure {
        Failure {
            code: report.code,
            message: report.message.to_owned(),
            stage: report.stage,
            hint,
        }
    }

    /// The error as that of the operation with this index of a batch.
    pub fn at(mut self, index: usize) -> Failure {
        self.message = format!("{index}:{}", self.message);
        self
    }

    /// Whether it says that there is no such table, or that none can have the name.
    pub fn is_of_table(&self) -> bool {
        let is_name_length = || self.code == Code::OutOfRangeInput && self.stage == Stage::BackEnd;
        matches!(self.code, Code::TableNotFound | Code::InvalidResourceName) || is_name_length()
    }

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
            hint: error.hint(),
        }
    }
}

/// An error and what caused it, in one line.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text
}
