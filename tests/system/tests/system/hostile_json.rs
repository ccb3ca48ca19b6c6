//! JSON that is made to break a server, over a real connection.

use std::fs;

use system_tests::{Database, Expect, Failure, Raw, Session};

const MEGABYTE: usize = 1024 * 1024;

/// How a text reaches the server.
const WAYS: [&str; 4] = [
    // As a parameter of the type, in text form, in which it goes straight into the input function.
    "properties",
    "text::properties",
    "jsonb",
    "entity_from_json",
];

fn send(session: &Session, way: &str, json: &str) -> Result<String, Failure> {
    let rows = match way {
        "properties" => session.query(
            "SELECT pg_catalog.length($1::table_service.properties::text)::text",
            &[&Raw::Text(json.to_owned())],
        ),
        "text::properties" => session.query(
            "SELECT pg_catalog.length($1::text::table_service.properties::text)::text",
            &[&json],
        ),
        "jsonb" => session.query(
            "SELECT pg_catalog.length($1::text::jsonb::table_service.properties::text)::text",
            &[&json],
        ),
        "entity_from_json" => session.query(
            "SELECT pg_catalog.length(table_service.entity_from_json($1)::text)::text",
            &[&json],
        ),
        _ => panic!("{way}"),
    };
    Ok(rows?[0].get(0))
}

/// The session still works.
fn is_alive(session: &Session) {
    assert_eq!(
        session.text("SELECT '{\"A\": 1}'::table_service.properties"),
        "{\"A\":1}"
    );
}

/// By how many bytes the memory of the server's process grew at most while `work` ran. Pages of tables that it has touched do not count: they
/// are shared.
pub fn peak(session: &Session, work: impl FnOnce()) -> usize {
    let process = format!("/proc/{}", session.pid());
    let status = |name: &str| {
        let status = fs::read_to_string(format!("{process}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
        kilobytes * 1024
    };
    let (high_water_mark, shared) = (|| status("VmHWM:"), || status("RssShmem:"));
    is_alive(session);
    // Resets the peak to the memory that the process holds now.
    fs::write(format!("{process}/clear_refs"), "5").unwrap();
    let before = (high_water_mark(), shared());
    work();
    (high_water_mark() - before.0).saturating_sub(shared().saturating_sub(before.1))
}

/// `members` inside an object that has the keys of an entity as well.
fn object(members: &str) -> String {
    format!(r#"{{"PartitionKey": "p", "RowKey": "r", {members}}}"#)
}

/// Sends a case in every way: the error is one of those given, and the session goes on.
fn refused(session: &Session, json: &str, expected: &[(&str, &str)]) {
    for way in WAYS {
        let failure = send(session, way, json).unwrap_err();
        // jsonb refuses some of it itself.
        let by_jsonb =
            way == "jsonb" && ["54001", "22003", "22P02", "22P05", "54000"].contains(&failure.sqlstate.as_str());
        let documented = expected
            .iter()
            .any(|(sqlstate, code)| failure.sqlstate == *sqlstate && failure.message.starts_with(code));
        assert!(by_jsonb || documented, "{way}: {failure:?}");
        assert!(
            failure.message.len() < 2000,
            "{way}: the message is as long as the input"
        );
        assert!(failure.hint.len() < 2000, "{way}: the hint is as long as the input");
        is_alive(session);
    }
}

#[test]
fn nested_brackets() {
    let db = Database::new();
    let session = db.session("s");
    let brackets = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let malformed = [("22P02", "InvalidInput: ")];
    let nested = [("22023", "InvalidInput: ")];
    refused(&session, &brackets("[", "]"), &malformed);
    refused(&session, &"[".repeat(100_000), &malformed);
    refused(&session, &brackets("{\"A\":", "}"), &[nested[0], malformed[0]]);
    refused(&session, &object(&format!("\"A\": {}", brackets("[", "]"))), &nested);
    refused(
        &session,
        &object(&format!("\"A\": {}", brackets("{\"A\":", "}"))),
        &[nested[0], malformed[0]],
    );
    // Nesting is also limited in ignored members.
    for ignored in ["odata.metadata", "Timestamp", "X@odata.type@odata.type"] {
        refused(
            &session,
            &object(&format!("\"{ignored}\": {}", brackets("[", "]"))),
            &malformed,
        );
    }
}

#[test]
fn a_million_members() {
    let db = Database::new();
    let session = db.session("s");
    let members: Vec<_> = (0..1_000_000).map(|n| format!("\"P{n}\":{n}")).collect();
    refused(
        &session,
        &object(&members.join(",")),
        &[("54000", "TooManyProperties: ")],
    );
    let nulls: Vec<_> = (0..1_000_000).map(|n| format!("\"P{n}\":null")).collect();
    refused(&session, &object(&nulls.join(",")), &[("54000", "TooManyProperties: ")]);
    let annotations: Vec<_> = (0..1_000_000)
        .map(|n| format!("\"P{n}@odata.type\":\"Edm.Int32\""))
        .collect();
    refused(
        &session,
        &object(&annotations.join(",")),
        &[("54000", "TooManyProperties: ")],
    );
}

#[test]
fn duplicate_members() {
    let duplicate = [("22023", "DuplicatePropertiesSpecified: ")];
    let db = Database::new();
    let session = db.session("s");
    for members in [
        r#""A": 1, "A": 1"#,
        r#""A": 1, "B": 2, "A": 3"#,
        r#""A": 1, "\u0041": 2"#,
        r#""A": null, "A": 1"#,
        r#""A": 1, "A": null"#,
    ] {
        for way in ["properties", "text::properties", "entity_from_json"] {
            let failure = send(&session, way, &object(members)).unwrap_err();
            assert_eq!(
                (failure.sqlstate.as_str(), failure.message.as_str()),
                (
                    duplicate[0].0,
                    "DuplicatePropertiesSpecified: A property is specified more than one time."
                ),
                "{way} {members}"
            );
        }
        is_alive(&session);
    }
    // jsonb keeps the last of them without an error.
    assert_eq!(
        session.text(r#"SELECT '{"A": 1, "A": 2}'::jsonb::table_service.properties"#),
        r#"{"A":2}"#
    );
    let many: Vec<_> = (0..4000).map(|_| "\"A\":1").collect();
    send(&session, "properties", &object(&many.join(","))).fails_with(duplicate[0].0, "DuplicatePropertiesSpecified");
}

#[test]
fn strings_that_are_not_valid_text() {
    let db = Database::new();
    let session = db.session("s");
    let malformed = [("22P02", "InvalidInput: ")];
    for member in [
        r#""A": "\ud800""#,
        r#""A": "\udc00""#,
        r#""A": "\ud800\ud800""#,
        r#""A": "\ud800x""#,
        r#""A": "x\ud83d""#,
        r#""\ud800": 1"#,
        r#""A": "\ud83d\ude0g""#,
        r#""A": "\x41""#,
        "\"A\": \"tab\there\"",
        "\"A\": \"line\nhere\"",
        r#""A": "unfinished"#,
    ] {
        refused(&session, &object(member), &malformed);
    }
    // PostgreSQL's text cannot hold U+0000.
    refused(&session, &object(r#""A": "x\u0000y""#), &[("22023", "InvalidInput: ")]);
    // A pair of surrogates is a character.
    assert_eq!(
        session.text(r#"SELECT '{"A": "\ud83d\ude00"}'::table_service.properties OPERATOR(table_service.->>) 'A'"#),
        "\u{1F600}"
    );
}

#[test]
fn text_that_is_not_json() {
    let db = Database::new();
    let session = db.session("s");
    for json in [
        "",
        " ",
        "null",
        "1",
        "\"text\"",
        "[]",
        "{",
        "}",
        "{}{}",
        "{\"A\"}",
        "{\"A\":}",
        "{\"A\":1,}",
        "{,}",
        "{\"A\" 1}",
        "{A:1}",
        "{'A':1}",
        "{\"A\":01}",
        "{\"A\":1.}",
        "{\"A\":.5}",
        "{\"A\":+1}",
        "{\"A\":1e}",
        "{\"A\":NaN}",
        "{\"A\":Infinity}",
        "{\"A\":0x10}",
        "{\"A\":tru}",
        "{\"A\":1}x",
        "{\"A\":1/*c*/}",
        "\u{FEFF}{}",
    ] {
        refused(&session, json, &[("22P02", "InvalidInput: ")]);
    }
}

#[test]
fn long_numbers() {
    let db = Database::new();
    let session = db.session("s");
    let digits = "9".repeat(1_000_000);
    for number in [
        digits.clone(),
        format!("-{digits}"),
        format!("1{}", "0".repeat(1_000_000)),
        format!("1e{digits}"),
    ] {
        refused(
            &session,
            &object(&format!("\"A\": {number}")),
            &[("22023", "InvalidInput: "), ("22P02", "InvalidInput: ")],
        );
    }
    assert_eq!(
        session.value::<String>(
            "SELECT $1::table_service.properties::text",
            &[&Raw::Text(format!("{{\"A\": 0.{}}}", "3".repeat(1_000_000)))]
        ),
        "{\"A\":0.33333333333333331}"
    );
}

#[test]
fn sixty_megabytes_take_little_memory() {
    takes_little_memory(60 * MEGABYTE, &[LARGE[0]]);
}

#[test]
fn every_large_text_takes_little_memory() {
    takes_little_memory(24 * MEGABYTE, &LARGE);
}

/// A text with `…`, the part that is repeated in its place, and the error that it raises.
type Large = (&'static str, &'static str, &'static str, &'static str);

const LARGE: [Large; 12] = [
    (r#""A": "…""#, "x", "54000", "PropertyValueTooLarge"),
    (r#""A": "…""#, "\\u0041", "54000", "PropertyValueTooLarge"),
    (r#""A": "…""#, "\\n", "54000", "PropertyValueTooLarge"),
    (
        r#""A@odata.type": "Edm.Binary", "A": "…""#,
        "AAAA",
        "54000",
        "PropertyValueTooLarge",
    ),
    (r#""…": 1"#, "x", "54000", "PropertyNameTooLong"),
    (r#""…": 1"#, "\\u0041", "54000", "PropertyNameTooLong"),
    (r#""A@odata.type": "…", "A": 1"#, "x", "22023", "InvalidInput"),
    (r#"… "A": 1"#, r#""A": 1,"#, "54000", "TooManyProperties"),
    (r#""A": …"#, "[", "22023", "InvalidInput"),
    ("…", " ", "22P02", "InvalidInput"),
    (r#""A": "…"#, "x", "22P02", "InvalidInput"),
    (r#""odata.metadata": "…", "A": []"#, "x", "22023", "InvalidInput"),
];

fn takes_little_memory(size: usize, texts: &[Large]) {
    let db = Database::new();
    // The memory that PostgreSQL itself needs for a text of this length, from the network to a function.
    let text = "x".repeat(size);
    let session = db.session("plain");
    let plain = peak(&session, || {
        session.value::<i32>("SELECT pg_catalog.length($1::text)", &[&text]);
    });
    for &(members, part, sqlstate, code) in texts {
        let json = object(&members.replace('…', &part.repeat(size / part.len())));
        // As a parameter of the type itself, the text is only in the message and in the reader.
        for (way, limit) in [
            ("properties", 4 * size),
            ("text::properties", plain + 4 * size),
            ("entity_from_json", plain + 4 * size),
        ] {
            let session = db.session(way);
            let needed = peak(&session, || {
                send(&session, way, &json).fails_with(sqlstate, code);
            });
            is_alive(&session);
            assert!(
                needed <= limit,
                "{members} of {part} as {way}: {needed} bytes for {size}; PostgreSQL alone takes {plain} for a text"
            );
        }
    }
}
