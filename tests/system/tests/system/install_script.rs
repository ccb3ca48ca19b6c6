//! The install script that pgrx generates from the code is the committed one, `sql/install.sql`, object by object. So a change of
//! an SQL object is seen in review, and nobody makes one without knowing that databases with the extension need an upgrade script.
//!
//! With `ACCEPT=1` the generated script becomes the committed one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The statements of each object. Case, white space, comments and the order of the statements do not matter.
type Objects = BTreeMap<String, BTreeSet<String>>;

fn objects(script: &str) -> Objects {
    let mut objects = Objects::new();
    for statement in statements(script) {
        objects.entry(object(&statement)).or_default().insert(statement);
    }
    objects
}

fn statements(script: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut statement = String::new();
    let mut rest = script;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").unwrap() + 2,
            '\'' | '"' => 2 + rest[1..].find(c).unwrap(),
            '$' => quoted(rest).unwrap_or(1),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match c {
            ';' => statements.push(std::mem::take(&mut statement)),
            '-' | '/' if length > 1 => statement.push(' '),
            // A quoted text stays as it is.
            _ if length > c.len_utf8() => statement.push_str(token),
            _ => statement.push_str(&token.to_lowercase()),
        }
    }
    statements
        .iter()
        .map(|statement| statement.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|statement| !statement.is_empty())
        .collect()
}

/// The length of a text in dollar quotes.
fn quoted(text: &str) -> Option<usize> {
    let tag = &text[..text[1..].find('$')? + 2];
    let is_tag = tag[1..tag.len() - 1].chars().all(|c| c.is_alphanumeric() || c == '_');
    is_tag.then(|| tag.len() + text[tag.len()..].find(tag).unwrap() + tag.len())
}

/// The object of a statement: functions with their arguments, everything else up to its first parenthesis or quoted text.
fn object(statement: &str) -> String {
    let end = if statement.starts_with("create function") {
        statement.find(") returns").map(|end| end + 1)
    } else {
        statement.find(['(', '$', '\'']).filter(|&end| end > 0)
    };
    statement[..end.unwrap_or(statement.len())].trim().to_owned()
}

fn differences(committed: &str, generated: &str) -> Vec<String> {
    let (committed, generated) = (objects(committed), objects(generated));
    let names: BTreeSet<&String> = committed.keys().chain(generated.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        match (committed.get(name), generated.get(name)) {
            (None, _) => differences.push(format!("{name}: the code makes it, and the committed script does not")),
            (_, None) => differences.push(format!("{name}: the committed script makes it, and the code does not")),
            (Some(before), Some(now)) if before != now => {
                let of = |statements: &BTreeSet<String>| statements.iter().cloned().collect::<Vec<_>>().join(";\n    ");
                differences.push(format!(
                    "{name}: has changed\n  from\n    {}\n  to\n    {}",
                    of(before),
                    of(now)
                ));
            }
            _ => {}
        }
    }
    differences
}

/// The script without the places in the source, which change all the time.
fn without_places(script: &str) -> String {
    let is_place = |line: &&str| {
        line.starts_with("/* <begin")
            || line.starts_with("/* </end")
            || line.starts_with("-- src/")
            || line.starts_with("-- table_service::")
    };
    let lines: Vec<&str> = script.lines().filter(|line| !is_place(line)).collect();
    lines.join("\n") + "\n"
}

fn generated() -> String {
    let program = std::env::var("PG_CONFIG").unwrap();
    let output = Command::new(program).arg("--sharedir").output().unwrap();
    let share = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let name = format!("extension/table_service--{}.sql", env!("CARGO_PKG_VERSION"));
    fs::read_to_string(share.join(name)).unwrap()
}

#[test]
fn it_is_the_committed_one() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql/install.sql");
    let generated = without_places(&generated());
    if std::env::var("ACCEPT").is_ok_and(|accept| accept == "1") {
        fs::write(&committed, &generated).unwrap();
    }
    let differences = differences(&fs::read_to_string(&committed).unwrap(), &generated);
    assert!(
        differences.is_empty(),
        "sql/install.sql is not what the code makes. If that is right: cargo xtask schema --accept\n{}",
        differences.join("\n")
    );
}

#[test]
fn comments_case_and_order_do_not_matter() {
    let committed = "CREATE FUNCTION f(\n\ta TEXT /* &str */\n) RETURNS text -- one; two\nAS 'MODULE';\nGRANT SELECT ON t TO PUBLIC;";
    let generated = "grant select on t to public; create  function f( a text ) returns text as 'MODULE';";
    assert_eq!(differences(committed, generated), Vec::<String>::new());
}

#[test]
fn every_difference_names_its_object() {
    let committed = "CREATE FUNCTION f(a text) RETURNS text STRICT AS 'f'; CREATE FUNCTION g() RETURNS int AS 'g'; DO $x$ BEGIN a; END $x$;";
    let generated =
        "CREATE FUNCTION f(a text) RETURNS text AS 'f'; CREATE OPERATOR || (LEFTARG = p); DO $x$ BEGIN a; END $x$;";
    assert_eq!(
        differences(committed, generated),
        [
            "create function f(a text): has changed\n  from\n    create function f(a text) returns text strict as 'f'\n  to\n    create function f(a text) returns text as 'f'",
            "create function g(): the committed script makes it, and the code does not",
            "create operator ||: the code makes it, and the committed script does not",
        ]
    );
}
