//! The golden tests are complete: they call every function, and those of queries have a case for every row of
//! `docs/semantics.md`.

use std::fs;
use std::path::{Path, PathBuf};

use system_tests::Database;

/// The rows of 4.3 and 6.1 to 6.6 with the file that has their cases, in its order.
#[rustfmt::skip]
const CASES: [(&str, &[&str]); 4] = [
    ("filters", &[
        "6.2 empty", "6.2 case-sensitive", "6.2 or", "6.2 and", "6.2 precedence", "6.2 cmp", "6.2 op",
        "6.2 whitespace", "6.2 not", "6.2 not not", "6.2 functions", "6.2 property", "6.2 system properties",
        "6.2 String", "6.2 Int32", "6.2 Int64", "6.2 Double", "6.2 Boolean", "6.2 DateTime", "6.2 Guid",
        "6.2 Binary", "6.2 null", "6.2 SDK helpers", "6.3.1", "6.3.2 String", "6.3.2 Boolean", "6.3.2 Guid",
        "6.3.2 Binary", "6.3.2 DateTime", "6.3.2 Double", "6.3.3 Int32", "6.3.3 Int64", "6.3.3 Double", "6.3.4",
        "6.3.5", "6.3.6", "6.3.7", "6.4 syntax", "6.4 literal glued", "6.4 shapes", "6.4 null equality",
        "6.4 null order", "6.4 literal body", "6.4 many comparisons",
    ]),
    ("projection", &[
        "6.5 star or absent", "6.5 comma list", "6.5 case-sensitive", "6.5 trimmed", "6.5 duplicates",
        "6.5 selected and absent", "6.5 etag", "6.5 keys and Timestamp", "6.5 annotations", "6.5 at most 255 names",
    ]),
    ("pages", &[
        "6.1 key order", "6.6 top", "6.6 1000 entities", "6.6 16 MiB", "6.6 time", "6.6 fewer, even none",
        "6.6 top 0", "6.6 top out of range", "6.6 next match", "6.6 token stands in the last row",
        "6.6 malformed tokens", "6.6 the longest keys", "6.6 empty keys", "6.6 the entity of the token is gone",
        "6.6 no snapshot across pages", "6.6 tokens are not bound to a query", "6.6 another session",
    ]),
    ("query_tables", &[
        "4.3 order", "4.3 filter", "4.3 case", "4.3 prefix", "4.3 another property", "4.3 not a filter", "4.3 top",
        "4.3 top out of range", "4.3 pages", "4.3 malformed tokens",
    ]),
];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pg_regress")
}

/// PostgreSQL calls these for every value of the type that it reads or writes, and queries put the others into their plans.
const CALLED_BY_POSTGRESQL: [&str; 8] = [
    "matches_support",
    "properties_in",
    "properties_out",
    "properties_recv",
    "properties_subscript",
    "query_entities_support",
    "scan_passes",
    "scan_position",
];

#[test]
fn every_function_is_called() {
    let db = Database::new();
    let functions = db.session("s").run(
        "SELECT DISTINCT p.proname FROM pg_depend AS d JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
         WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND p.pronamespace = 'table_service'::regnamespace
             AND p.prorettype <> 'event_trigger'::regtype",
    );
    assert!(!functions.is_empty());
    let mut sql = String::new();
    for file in fs::read_dir(golden().join("sql")).unwrap() {
        sql.push_str(&fs::read_to_string(file.unwrap().path()).unwrap());
    }
    let not_called: Vec<String> = functions
        .into_iter()
        .flatten()
        .flatten()
        .filter(|name| !CALLED_BY_POSTGRESQL.contains(&name.as_str()) && !sql.contains(&format!("{name}(")))
        .collect();
    assert!(not_called.is_empty(), "no golden test calls {not_called:?}");
}

#[test]
fn every_row_has_its_case() {
    let golden = golden();
    let mut rows: Vec<&str> = Vec::new();
    for (file, expected) in CASES {
        let sql = fs::read_to_string(golden.join(format!("sql/{file}.sql"))).unwrap();
        // Each case prints its name before it, and asks for something.
        let parts: Vec<_> = sql
            .split("\n\\echo '")
            .skip(1)
            .map(|part| part.split_once("'\n").unwrap())
            .collect();
        let names: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected, "{file}");
        let results = fs::read_to_string(golden.join(format!("expected/{file}.out"))).unwrap();
        for (name, body) in parts {
            assert!(body.contains("SELECT "), "{file}: {name} has no case");
            assert!(results.contains(&format!("\n{name}\n")), "{file}: {name} has no result");
        }
        rows.extend(expected);
    }
    let of = |section: &str| rows.iter().filter(|row| row.starts_with(section)).count();
    // The literals, the operators and the grammar; the rules and the types of rule 2 and 3; the errors; and so on.
    assert_eq!(
        ["4.3", "6.1", "6.2", "6.3", "6.4", "6.5", "6.6"].map(of),
        [10, 1, 23, 14, 7, 10, 16]
    );
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(
        rows.len(),
        CASES.iter().map(|(_, rows)| rows.len()).sum::<usize>(),
        "two cases have one name"
    );
}
