//! Errors as a client sees them.

use std::fmt;

use tokio_postgres::error::{DbError, ErrorPosition};

/// An error that the server sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    pub sqlstate: String,
    pub message: String,
    pub hint: String,
    /// The other fields that the server sent.
    pub others: Box<Others>,
}

/// The fields of an error beside those that our own errors have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    pub detail: Option<String>,
    pub context: Option<String>,
    /// Where in the statement, or in which other statement.
    pub position: Option<ErrorPosition>,
    pub schema: Option<String>,
    pub table: Option<String>,
    pub column: Option<String>,
    pub datatype: Option<String>,
    pub constraint: Option<String>,
}

impl Others {
    fn of(error: &DbError) -> Others {
        let owned = |field: Option<&str>| field.map(str::to_owned);
        Others {
            detail: owned(error.detail()),
            context: owned(error.where_()),
            position: error.position().cloned(),
            schema: owned(error.schema()),
            table: owned(error.table()),
            column: owned(error.column()),
            datatype: owned(error.datatype()),
            constraint: owned(error.constraint()),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db) => Failure {
                sqlstate: db.code().code().to_owned(),
                message: db.message().to_owned(),
                hint: db.hint().unwrap_or_default().to_owned(),
                others: Box::new(Others::of(db)),
            },
            // 08006, connection_failure: the server is gone, or the driver itself refuses.
            None => Failure {
                sqlstate: "08006".to_owned(),
                message: match std::error::Error::source(&error) {
                    Some(source) => format!("{error}: {source}"),
                    None => error.to_string(),
                },
                hint: String::new(),
                others: Box::default(),
            },
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.sqlstate, self.message)
    }
}

/// How a statement is expected to end.
pub trait Expect {
    /// An error of the catalog: `code` is the Azure code that its message begins with.
    ///
    /// # Panics
    /// If it ended in another way.
    fn fails_with(self, sqlstate: &str, code: &str) -> Failure;

    /// An error that PostgreSQL raises itself, which has no Azure code in its message.
    ///
    /// # Panics
    /// If it ended in another way.
    fn fails_in_postgres(self, sqlstate: &str) -> Failure;
}

impl<T: fmt::Debug> Expect for Result<T, Failure> {
    #[track_caller]
    fn fails_with(self, sqlstate: &str, code: &str) -> Failure {
        match self {
            Err(failure) if failure.sqlstate == sqlstate && failure.message.starts_with(&format!("{code}: ")) => {
                failure
            }
            other => panic!("expected {sqlstate} {code}, not {other:?}"),
        }
    }

    #[track_caller]
    fn fails_in_postgres(self, sqlstate: &str) -> Failure {
        match self {
            Err(failure) if failure.sqlstate == sqlstate => failure,
            other => panic!("expected {sqlstate}, not {other:?}"),
        }
    }
}
