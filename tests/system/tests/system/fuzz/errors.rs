//! Which errors are documented.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use system_tests::Failure;
use table_service_model::error::Report;

/// Each code of the reference with its SQLSTATEs.
static DOCUMENTED: LazyLock<BTreeSet<(String, String)>> = LazyLock::new(|| {
    let page = include_str!("../../../../../docs/reference/errors.md");
    let mut documented = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let is_state =
            |word: &&str| word.len() == 5 && word.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
        for state in cells[3].split(|c: char| !c.is_ascii_alphanumeric()).filter(is_state) {
            documented.insert((cells[1].trim_matches('`').to_owned(), state.to_owned()));
        }
    }
    assert!(documented.len() > 25, "{documented:?}");
    documented
});

/// Errors that PostgreSQL itself raises for these statements: not the extension's, and none of them is XX000.
const OF_POSTGRESQL: [&str; 42] = [
    // Values that it cannot make of a text of the statement: wrong encodings, dates, numbers, arrays.
    "22021", "22P05", "22007", "22008", "22015", "22003", "22P02", "2202E", "2201W", "22023",
    // A constraint, an index's function or a trigger of the table; a generated column.
    "22012", "23502", "23503", "23505", "23514", "23P01", "428C9",
    // A table that others depend on, or that a cursor reads.
    "2BP01", "55006",
    // Names that are not there at the moment, or are no table; rows that are not of the type.
    "42P01", "42703", "42809", "42P10", "42883", "42804", "42846", "42P07", "42704", "42710", "42501", "0A000",
    // Limits, locks, time, and other sessions.
    "54000", "54001", "55000", "55P03", "57014", "40001", "40P01", "25006",
    // A change feed that is made after the transaction has written; no slot left; a subquery with more rows than one.
    "25001", "53400", "21000",
];

/// Whether an error is one that the documentation promises, or PostgreSQL's own.
pub fn is_documented(failure: &Failure) -> bool {
    match Report::parse(&failure.sqlstate, &failure.message) {
        Some(report) => DOCUMENTED.contains(&(report.code.as_str().to_owned(), failure.sqlstate.clone())),
        None => OF_POSTGRESQL.contains(&failure.sqlstate.as_str()),
    }
}
