//! From the error catalog to PostgreSQL: the one place where an [`Error`] becomes an `ereport`.

use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::elog::PgLogLevel;
use pgrx::pg_sys::panic::ErrorReport;
use table_service_model::Error;

/// Raises an error: `<Code>: <message>` under its SQLSTATE, with its hint.
pub fn raise(error: Error) -> ! {
    // PostgreSQL would end a message at a U+0000, which a key in JSON can bring.
    let printable = |text: &str| text.replace('\0', "\u{FFFD}");
    let message = printable(&error.report());
    let report = ErrorReport::new(sqlerrcode(error.sqlstate()), message, "table_service");
    let report = match error.hint() {
        Some(hint) => report.set_hint(printable(&hint)),
        None => report,
    };
    report.report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// How a function that SQL can call ends.
pub trait OrRaise<T> {
    /// The value; an error is raised.
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

/// PostgreSQL packs a SQLSTATE into an integer, six bits a character.
fn sqlerrcode(sqlstate: &str) -> PgSqlErrorCode {
    let packed = sqlstate.bytes().rev().fold(0, |packed: i32, c| {
        (packed << 6) | i32::from(c.wrapping_sub(b'0') & 0x3F)
    });
    PgSqlErrorCode::from(packed)
}
