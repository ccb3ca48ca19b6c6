//! Statements in tests: their results, and their errors.

use std::ffi::{CStr, CString};

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use crate::postgres::{connect, in_subtransaction, message};

/// Returns the rows of a statement as psql prints them with `--tuples-only --no-align`: with `|` between the columns. NULL is `NULL`.
pub fn rows(sql: &str) -> Vec<String> {
    let sql = CString::new(sql).unwrap();
    connect(|spi| {
        spi.ready();
        // SAFETY: the statement runs in the open connection, and its result is read before that ends.
        unsafe {
            let result = pg_sys::SPI_execute(sql.as_ptr(), false, 0);
            assert!(result > 0, "SPI refused the statement: {result}");
            if pg_sys::SPI_tuptable.is_null() {
                return Vec::new();
            }
            let table = pg_sys::SPI_tuptable;
            let columns = (*(*table).tupdesc).natts;
            let rows = 0..usize::try_from(pg_sys::SPI_processed).unwrap();
            rows.map(|row| {
                let row = *(*table).vals.add(row);
                let texts = (1..=columns).map(|column| {
                    let text = pg_sys::SPI_getvalue(row, (*table).tupdesc, column);
                    if text.is_null() {
                        return "NULL".to_owned();
                    }
                    CStr::from_ptr(text).to_str().unwrap().to_owned()
                });
                texts.collect::<Vec<_>>().join("|")
            })
            .collect()
        }
    })
}

/// Returns the first row of a statement, or `(no rows)`.
pub fn value(sql: &str) -> String {
    rows(sql).into_iter().next().unwrap_or_else(|| "(no rows)".to_owned())
}

pub fn run(sql: &str) {
    rows(sql);
}

/// Creates the table of a test.
pub fn table(name: &str) {
    run(&format!("SELECT create_table('{name}')"));
}

/// Inserts an entity of the partition `p`. Returns its ETag.
pub fn insert(table: &str, row_key: &str, properties: &str) -> String {
    value(&format!(
        "SELECT insert_entity('{table}', 'p', '{row_key}', '{properties}')"
    ))
}

#[track_caller]
pub fn assert_rows(sql: &str, expected: &[&str]) {
    assert_eq!(rows(sql), expected, "{sql}");
}

/// Asserts that a statement fails with this SQLSTATE and this message, and changes nothing.
#[track_caller]
pub fn assert_refused(sql: &str, sqlstate: &str, expected: &str) {
    let refused = in_subtransaction(|| Ok::<_, table_service_model::Error>(rows(sql)));
    match refused {
        Ok(rows) => panic!("{sql} is not refused: {rows:?}"),
        Err(error) => assert_eq!((state(&error).as_str(), message(&error)), (sqlstate, expected), "{sql}"),
    }
}

/// Returns the SQLSTATE of an error.
pub fn state(error: &CaughtError) -> String {
    let (CaughtError::PostgresError(report)
    | CaughtError::ErrorReport(report)
    | CaughtError::RustPanic { ereport: report, .. }) = error;
    // PostgreSQL packs it into an integer, six bits a character.
    let packed = report.sql_error_code() as i32;
    (0..5)
        .map(|i| char::from(b'0' + u8::try_from((packed >> (6 * i)) & 0x3F).unwrap()))
        .collect()
}
