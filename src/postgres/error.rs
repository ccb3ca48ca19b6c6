//! Raises an [`Error`] of the catalog as a PostgreSQL error. Nothing else does.

use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::elog::PgLogLevel;
use pgrx::pg_sys::panic::ErrorReport;
use table_service_model::Error;

use super::out_of_memory::cut;

/// Raises an error as `<Code>: <message>`, with its SQLSTATE, its DETAIL and its hint.
pub fn raise(error: Error) -> ! {
    raise_with_hint(&error, error.hint())
}

/// Does the same as [`raise`], and adds this to the hint.
pub fn raise_with(error: Error, more: &str) -> ! {
    let hint = error
        .hint()
        .map_or_else(|| more.to_owned(), |hint| format!("{hint} {more}"));
    raise_with_hint(&error, Some(hint))
}

/// The texts of an error as PostgreSQL's clients get them.
pub struct Texts {
    sqlstate: &'static str,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
}

impl Texts {
    /// The texts with which [`raise`] raises an error.
    pub fn of(error: &Error) -> Texts {
        Texts::with_hint(error, error.hint())
    }

    fn with_hint(error: &Error, hint: Option<String>) -> Texts {
        // A message is a C string: it would end at a U+0000, which a key in JSON can contain.
        let printable = |text: &str| cut(text).replace('\0', "?");
        Texts {
            sqlstate: error.sqlstate(),
            message: printable(&error.report()),
            detail: error.detail().map(printable),
            hint: hint.as_deref().map(printable),
        }
    }

    /// Returns SQLSTATE, message, DETAIL and HINT.
    pub fn into_array(self) -> [Option<String>; 4] {
        [
            Some(self.sqlstate.to_owned()),
            Some(self.message),
            self.detail,
            self.hint,
        ]
    }
}

fn raise_with_hint(error: &Error, hint: Option<String>) -> ! {
    let texts = Texts::with_hint(error, hint);
    let report = ErrorReport::new(sqlerrcode(texts.sqlstate), texts.message, "table_service");
    let report = match texts.detail {
        Some(detail) => report.set_detail(detail),
        None => report,
    };
    let report = match texts.hint {
        Some(hint) => report.set_hint(hint),
        None => report,
    };
    report.report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// Turns a result into a value or a PostgreSQL error. SQL functions return through it.
pub trait OrRaise<T> {
    /// Returns the value, or raises the error.
    fn or_raise(self) -> T;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self) -> T {
        match self {
            Ok(value) => value,
            Err(error) => raise(error),
        }
    }
}

/// Does the work of an SQL function. Returns its value, or raises its error.
pub fn raising<T>(work: impl FnOnce() -> Result<T, Error>) -> T {
    work().or_raise()
}

/// Encodes a SQLSTATE as PostgreSQL does: an integer with six bits for each character.
fn sqlerrcode(sqlstate: &str) -> PgSqlErrorCode {
    let packed = sqlstate.bytes().rev().fold(0, |packed: i32, c| {
        (packed << 6) | i32::from(c.wrapping_sub(b'0') & 0x3F)
    });
    PgSqlErrorCode::from(packed)
}
