//! What an archive does not know: a history and a restore name it, give the rest, and do not end with 0.

use crate::archive::{Kept, file_of, moment};
use crate::program::{ends_with, output, succeeds, text};

/// The kinds of the lines of a history, its exit status, and what it says beside them.
fn history(kept: &Kept, more: &[&str]) -> (Vec<String>, Option<i32>, String) {
    let path = kept.path();
    let arguments = [
        "history",
        "--from",
        text(&path),
        "--table",
        "Orders",
        "--filter",
        "true",
    ];
    let shown = output(&[&arguments[..], more].concat());
    let kinds = String::from_utf8(shown.stdout).unwrap();
    let kind = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["kind"].as_str().unwrap().to_owned()
    };
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    (kinds.lines().map(kind).collect(), shown.status.code(), said)
}

#[test]
fn a_history_over_damage_names_what_it_does_not_know() {
    let kept = Kept::new(&["Orders"]);
    kept.session
        .run("SELECT insert_entity('Orders', 'p', '1', '{\"A\": 1}')");
    kept.archive(&[]);
    let before = moment(&kept.session);
    kept.then("SELECT merge_entity('Orders', 'p', '1', '{\"A\": 2}', '*')");
    kept.archive(&[]);
    assert_eq!(history(&kept, &[]), (vec!["update".to_owned()], Some(0), String::new()));
    let path = kept.path();

    // One changed bit in the only base.
    let base = file_of(&path, "-base-");
    let whole = std::fs::read(&base).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    std::fs::write(&base, &changed).unwrap();
    let (kinds, status, said) = history(&kept, &[]);
    assert_eq!((kinds, status), (vec!["gap".to_owned()], Some(4)));
    assert!(said.contains("base") && said.contains("is not known"), "{said}");
    let arguments = [
        "history",
        "--from",
        text(&path),
        "--table",
        "Orders",
        "--filter",
        "true",
    ];
    let said = ends_with(4, &[&arguments[..], &["--format", "text"]].concat());
    assert!(said.contains(" gap    until the end: the base"), "{said}");
    std::fs::write(&base, &whole).unwrap();

    // What is missing is not asked for.
    std::fs::remove_file(file_of(&path, "-segment-")).unwrap();
    let (kinds, status, said) = history(&kept, &[]);
    assert_eq!((kinds, status), (vec!["gap".to_owned()], Some(4)));
    assert!(said.contains("segment"), "{said}");
    assert_eq!(history(&kept, &["--until", &before]), (vec![], Some(0), String::new()));
}

#[test]
fn a_history_tells_where_the_archive_begins_and_ends() {
    let kept = Kept::new(&["Orders"]);
    let early = moment(&kept.session);
    kept.archive(&[]);
    kept.then("SELECT insert_entity('Orders', 'p', '1', '{}')");
    kept.archive(&[]);
    let late = moment(&kept.session);
    let (kinds, status, said) = history(&kept, &["--since", &early]);
    assert_eq!((kinds, status), (vec!["gap".to_owned(), "insert".to_owned()], Some(4)));
    assert!(said.contains("since then"), "{said}");
    let (kinds, status, _) = history(&kept, &["--until", &late]);
    assert_eq!((kinds, status), (vec!["insert".to_owned(), "gap".to_owned()], Some(4)));

    // All of it is lost for a while.
    kept.session
        .run("SELECT drop_change_feed(feed_name) FROM query_change_feeds()");
    kept.session.run("SELECT insert_entity('Orders', 'p', '2', '{}')");
    kept.archive(&[]);
    kept.then("SELECT insert_entity('Orders', 'p', '3', '{}')");
    kept.archive(&[]);
    let (kinds, status, said) = history(&kept, &[]);
    assert_eq!(kinds, ["insert", "gap", "insert"]);
    assert_eq!(status, Some(4));
    assert!(said.contains("the feed was dropped"), "{said}");
}

/// A damaged base is its table's.
#[test]
fn a_damaged_file_of_a_table_does_not_stop_the_others() {
    let kept = Kept::new(&["Orders"]);
    kept.session.run("SELECT insert_entity('Orders', 'p', '1', '{}')");
    kept.archive(&[]);
    let path = kept.path();
    let damaged = file_of(&path, "-base-");
    kept.session
        .run("SELECT create_table('Others'); SELECT insert_entity('Others', 'p', '2', '{}')");
    kept.archive(&[]);
    std::fs::write(&damaged, "").unwrap();
    let to = kept.directory.path().join("restored");
    let restore = [
        "restore",
        "--quiet",
        "--from",
        text(&path),
        "--at",
        "latest",
        "--to",
        text(&to),
    ];
    let said = ends_with(4, &restore);
    assert!(
        said.contains("Orders: left out") && said.contains("missing or damaged"),
        "{said}"
    );
    assert!(to.join("Others.jsonl").exists() && !to.join("Orders.jsonl").exists());
    let said = ends_with(4, &[&restore[..], &["--table", "Orders"]].concat());
    assert!(said.contains("missing or damaged"), "{said}");
    succeeds(&[&restore[..], &["--table", "Others", "--as", "Again"]].concat());
}

#[test]
fn a_moment_may_be_so_long_ago() {
    let kept = Kept::new(&["Orders"]);
    kept.session.run("SELECT insert_entity('Orders', 'p', '1', '{}')");
    kept.archive(&[]);
    kept.session.run("SELECT pg_sleep(2)");
    kept.archive(&[]);
    let path = kept.path();
    let restore = ["restore", "--quiet", "--from", text(&path), "--to", "-", "--at"];
    let said = ends_with(1, &[&restore[..], &["36h"]].concat());
    assert!(said.contains("outside of what the archive has"), "{said}");
    // A run takes longer than nothing: now is after the last moment, unless it is the same.
    let said = ends_with(2, &[&restore[..], &["36hours"]].concat());
    assert!(said.contains("10m"), "{said}");
    let (kinds, _, _) = history(&kept, &["--since", "7d", "--until", "1d"]);
    assert_eq!(kinds, ["gap"]);
    // The clock of the server is this machine's.
    kept.then("SELECT insert_entity('Orders', 'p', '2', '{}')");
    kept.archive(&[]);
    let (kinds, _, _) = history(&kept, &["--since", "1h"]);
    assert_eq!(kinds, ["gap", "insert"]);
}
