//! Entities that the target has already: the modes of `--on-conflict`.

use system_tests::Database;

use crate::program::{End, database_url, ends_with, file, quietly, succeeds, text, verifying};

const THERE: &str = r#"{"PartitionKey":"p","RowKey":"both","Timestamp":"2024-01-01T00:00:00Z","A":"there","B":1}
{"PartitionKey":"p","RowKey":"late","Timestamp":"2025-06-01T00:00:00Z","A":"there"}
{"PartitionKey":"p","RowKey":"there","Timestamp":"2024-01-01T00:00:00Z","A":"there"}
"#;
const COMES: &str = r#"{"PartitionKey":"p","RowKey":"both","Timestamp":"2025-01-01T00:00:00Z","A":"comes","C":2}
{"PartitionKey":"p","RowKey":"late","Timestamp":"2025-01-01T00:00:00Z","A":"comes"}
{"PartitionKey":"p","RowKey":"new","Timestamp":"2025-01-01T00:00:00Z","A":"comes"}
"#;

/// Copies the coming entities over those that are there, and returns the rows afterwards.
fn rows(kind: &'static str, arguments: &[&str], status: i32) -> (Vec<String>, String) {
    let directory = tempfile::tempdir().unwrap();
    let there = file(&directory, "there.jsonl", THERE);
    let comes = file(&directory, "comes.jsonl", COMES);
    let end = End::of(kind);
    let to = end.argument();
    succeeds(&quietly(text(&there), &to, &["--table", "Orders"]));
    let mut all = vec!["--from", text(&comes), "--to", &to, "--table", "Orders", "--quiet"];
    all.extend(arguments);
    let said = ends_with(status, &all);
    let out = crate::program::output(&quietly(&to, "-", &["--table", "Orders"]));
    let rows = String::from_utf8(out.stdout).unwrap();
    let rows = rows
        .lines()
        .map(|line| {
            let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
            let members = row.as_object_mut().unwrap();
            members.remove("Timestamp");
            members.remove("PartitionKey");
            let key = members.remove("RowKey").unwrap();
            format!("{} {}", key.as_str().unwrap(), row)
        })
        .collect();
    (rows, said)
}

#[test]
fn each_way_does_what_it_says() {
    for kind in ["sql", "rest"] {
        for (way, both, late) in [
            ("skip", r#"{"A":"there","B":1}"#, r#"{"A":"there"}"#),
            ("replace", r#"{"A":"comes","C":2}"#, r#"{"A":"comes"}"#),
            ("merge", r#"{"A":"comes","B":1,"C":2}"#, r#"{"A":"comes"}"#),
        ] {
            let (rows, said) = rows(kind, &["--on-conflict", way], 0);
            let expected = [
                format!("both {both}"),
                format!("late {late}"),
                r#"new {"A":"comes"}"#.to_owned(),
                r#"there {"A":"there"}"#.to_owned(),
            ];
            assert_eq!(rows, expected, "{kind} {way}: {said}");
        }
    }
}

#[test]
fn what_has_expired_is_not_in_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let from = file(
        &directory,
        "Sessions.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"N\":1}\n",
    );
    for kind in ["fail", "skip", "replace", "merge", "newer"] {
        let database = Database::new();
        let session = database.session("owner");
        session.run(
            r#"SET search_path = public, table_service; SELECT create_table('Sessions'); SELECT set_expiry('Sessions', 'Until');
            SELECT insert_entity('Sessions', 'p', 'r', '{"Old": 1, "Until@odata.type": "Edm.DateTime", "Until": "2020-01-01T00:00:00Z"}')"#,
        );
        let said = succeeds(&quietly(
            text(&from),
            &database_url(&database),
            &["--on-conflict", kind],
        ));
        assert!(said.contains("1 written, 0 skipped"), "{kind}: {said}");
        let there = session.text("SELECT properties FROM query_entities('Sessions')");
        assert_eq!(there, "{\"N\":1}", "{kind}");
    }
}

/// Over REST the target has the Timestamps of when it was written, which are later than all of the source's.
#[test]
fn the_newer_one_stays() {
    let (left, _) = rows("sql", &["--on-conflict", "newer"], 0);
    assert_eq!(left[0], r#"both {"A":"comes","C":2}"#);
    assert_eq!(left[1], r#"late {"A":"there"}"#);
    let (left, said) = rows("rest", &["--on-conflict", "newer"], 0);
    assert_eq!(left[0], r#"both {"A":"there","B":1}"#);
    assert_eq!(left[2], r#"new {"A":"comes"}"#);
    assert!(said.contains("1 written, 2 skipped"), "{said}");
}

#[test]
fn without_a_word_existing_entities_are_rejected() {
    for kind in ["sql", "rest"] {
        let directory = tempfile::tempdir().unwrap();
        let rejects = directory.path().join("rejects");
        let (left, said) = rows(kind, &["--rejects", text(&rejects)], 3);
        assert_eq!(left.len(), 4);
        assert_eq!(left[0], r#"both {"A":"there","B":1}"#);
        assert!(said.contains("1 written, 0 skipped, 2 rejected"), "{said}");
        let lines = std::fs::read_to_string(&rejects).unwrap();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        for line in lines.lines() {
            let reject: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(
                reject["reason"].as_str().unwrap().starts_with("EntityAlreadyExists"),
                "{line}"
            );
            assert_eq!(reject["entity"]["A"], "comes");
        }
        let (_, said) = rows(kind, &["--rejects", text(&rejects), "--max-rejects", "1"], 1);
        assert!(said.contains("More than 1 entities were rejected"), "{said}");
        let (_, said) = rows(kind, &[], 1);
        assert!(
            said.contains("EntityAlreadyExists") && said.contains("--rejects FILE"),
            "{said}"
        );
    }
}

/// Inserted entities keep their Timestamps in a database. Those that replace others get the database's clock.
#[test]
fn timestamps_are_kept_where_the_target_can() {
    let directory = tempfile::tempdir().unwrap();
    let comes = file(&directory, "Orders.jsonl", COMES);
    let end = End::of("sql");
    let said = succeeds(&quietly(text(&comes), &end.argument(), &[]));
    assert!(!said.contains("new Timestamp"), "{said}");
    succeeds(&verifying(text(&comes), &end.argument(), &["--timestamps"]));
    let said = succeeds(&quietly(text(&comes), &end.argument(), &["--on-conflict", "replace"]));
    assert!(
        said.contains("3 of 3 entities have a new Timestamp: a database gives one to an entity that it replaces"),
        "{said}"
    );
    ends_with(4, &verifying(text(&comes), &end.argument(), &["--timestamps"]));
    succeeds(&verifying(text(&comes), &end.argument(), &[]));
}

/// Where the source has none, there is none to keep.
#[test]
fn an_entity_without_a_timestamp_gets_no_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let comes = COMES.replace(r#","Timestamp":"2025-01-01T00:00:00Z""#, "");
    assert!(!comes.contains("Timestamp"));
    let (timed, comes) = (
        file(&directory, "timed.jsonl", COMES),
        file(&directory, "Orders.jsonl", &comes),
    );
    for kind in ["sql", "rest"] {
        let end = End::of(kind);
        for way in ["fail", "replace"] {
            let said = succeeds(&quietly(text(&comes), &end.argument(), &["--on-conflict", way]));
            assert!(
                said.contains("3 written") && !said.contains("new Timestamp"),
                "{kind} {way}: {said}"
            );
        }
        let more = ["--table", "Orders", "--on-conflict", "replace"];
        let said = succeeds(&quietly(text(&timed), &end.argument(), &more));
        assert!(said.contains("3 of 3 entities have a new Timestamp"), "{kind}: {said}");
    }
}

/// Of two lines with one key the later one counts, however many connections write.
#[test]
fn the_last_line_of_a_key_counts() {
    let directory = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for value in 0..3000 {
        lines.push_str(&format!(
            "{{\"PartitionKey\":\"p\",\"RowKey\":\"{}\",\"V\":{value}}}\n",
            value % 7
        ));
    }
    let comes = file(&directory, "Orders.jsonl", &lines);
    for kind in ["sql", "rest"] {
        let end = End::of(kind);
        succeeds(&quietly(text(&comes), &end.argument(), &["--on-conflict", "replace"]));
        let out = crate::program::output(&quietly(&end.argument(), "-", &[]));
        for line in String::from_utf8(out.stdout).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let (key, value): (i64, i64) = (
                row["RowKey"].as_str().unwrap().parse().unwrap(),
                row["V"].as_i64().unwrap(),
            );
            assert!((2993..3000).contains(&value) && value % 7 == key, "{kind}: {line}");
        }
    }
}
