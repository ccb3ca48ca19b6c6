//! Unknown parts of an archive: a history and a restore name them, give the rest, and do not end with 0.

use crate::archive::{Kept, file_of, history_of, moment};
use crate::program::{ends_with, output, succeeds, text};

/// The kinds of the lines of a history, its exit status, and its messages.
fn history(kept: &Kept, more: &[&str]) -> (Vec<String>, Option<i32>, String) {
    let path = kept.path();
    let shown = output(&[&history_of(&path)[..], more].concat());
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
    let said = ends_with(4, &[&history_of(&path)[..], &["--format", "text"]].concat());
    assert!(said.contains(" gap    until the end: the base"), "{said}");
    std::fs::write(&base, &whole).unwrap();

    // The missing segment matters only if it is asked for.
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
    let path = kept.path();
    for before in [&["--until", &early][..], &["--until", "1d"]] {
        let said = ends_with(1, &[&history_of(&path)[..], before].concat());
        assert!(said.contains("outside of what the archive has"), "{said}");
    }
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

/// Without a manifest nothing is known, and that is damage.
#[test]
fn an_archive_whose_manifests_cannot_be_read_is_damaged() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    kept.then("SELECT insert_entity('Orders', 'p', '1', '{}')");
    kept.archive(&[]);
    let (path, to) = (kept.path(), kept.directory.path().join("restored"));
    let path = text(&path);
    let restore = ["restore", "--from", path, "--at", "latest", "--to", text(&to)];
    let commands = [
        &["archive", "--verify", path][..],
        &["archive", "--list", path],
        &["history", "--from", path, "--table", "Orders", "--filter", "true"],
        &restore,
        &[&restore[..], &["--allow-gaps"]].concat(),
    ];
    let named = ["v1-manifest.jsonl.zst", "v1-manifest-before.jsonl.zst"];
    for name in named {
        std::fs::write(kept.path().join(name), "damaged").unwrap();
        // The other one helps, for the first.
        for command in &commands[..2] {
            assert!(ends_with(4, command).contains(name), "{command:?}");
        }
    }
    for command in commands {
        let said = ends_with(4, command);
        assert!(named.iter().all(|name| said.contains(name)), "{said}");
    }
    let from = crate::program::database_url(&kept.database);
    let said = ends_with(4, &["archive", "--from", &from, "--to", path]);
    assert!(said.contains(named[0]), "{said}");
    assert!(!to.exists());
}

/// The status is 0, because the user has asked for it, and each gap is named.
#[test]
fn what_is_restored_over_gaps_is_named() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    kept.then("SELECT insert_entity('Orders', 'p', '1', '{}')");
    kept.archive(&[]);
    let end = kept.then("SELECT insert_entity('Orders', 'p', '2', '{}')");
    kept.archive(&[]);
    std::fs::remove_file(file_of(&kept.path(), "-segment-")).unwrap();
    let (path, to) = (kept.path(), kept.directory.path().join("restored"));
    let restore = ["restore", "--from", text(&path), "--at", &end, "--to", text(&to)];
    assert!(ends_with(4, &restore).contains("--allow-gaps"));
    let said = succeeds(&[&restore[..], &["--allow-gaps"]].concat());
    assert!(
        said.contains("the table Orders: the segment") && said.contains("is missing or damaged"),
        "{said}"
    );
    assert!(to.join("Orders.jsonl").exists());
}

/// A moment behind the last run is asked for often. The error says how to get it.
#[test]
fn a_moment_after_the_last_run_takes_another_run() {
    let kept = Kept::new(&["Orders"]);
    kept.archive(&[]);
    let late = kept.then("SELECT insert_entity('Orders', 'p', '1', '{}')");
    let (path, to) = (kept.path(), kept.directory.path().join("restored"));
    let restore = |at| {
        [
            "restore",
            "--quiet",
            "--from",
            text(&path),
            "--to",
            text(&to),
            "--at",
            at,
        ]
    };
    let said = ends_with(1, &restore(&late));
    assert!(
        said.contains("and the last one") && said.contains("Run archive first"),
        "{said}"
    );
    let said = ends_with(1, &restore("2020-01-01T00:00:00Z"));
    assert!(
        said.contains("the first moment") && !said.contains("Run archive"),
        "{said}"
    );
    kept.archive(&[]);
    succeeds(&restore(&late));
}

/// A table's name belongs to another table later. Each version is shown under the name that its table had then.
#[test]
fn a_history_shows_what_has_become_of_a_table() {
    let kept = Kept::new(&["Others"]);
    kept.archive(&[]);
    let early = moment(&kept.session);
    let insert = |key: &str| format!("SELECT insert_entity('Orders', 'p', '{key}', '{{\"N\": 1}}')");
    kept.then("SELECT create_table('Orders')");
    kept.archive(&[]);
    kept.then(&insert("1"));
    kept.archive(&[]);
    kept.then("ALTER TABLE table_service_data.\"Orders\" RENAME TO \"Old\"");
    kept.then("SELECT insert_entity('Old', 'p', '2', '{}')");
    kept.then("SELECT create_table('Orders')");
    kept.archive(&[]);
    kept.then(&insert("3"));
    kept.then("SELECT delete_table('Orders')");
    kept.then("ALTER TABLE table_service_data.\"Old\" RENAME TO \"Orders\"");
    kept.then(&insert("4"));
    kept.then("SELECT clear_table('Orders')");
    kept.archive(&[]);
    let of = |table: &str, more: &[&str]| {
        let path = kept.path();
        let arguments = [
            "history",
            "--from",
            text(&path),
            "--table",
            table,
            "--filter",
            "RowKey ne '4'",
            "--format",
            "text",
        ];
        let shown = output(&[&arguments[..], more].concat());
        let lines = String::from_utf8(shown.stdout).unwrap();
        let lines = lines.lines().map(|line| line.split_once("Z ").unwrap().1);
        // A table that is created is read somewhat later.
        let lines = lines.filter(|line| !line.contains("was not read yet"));
        lines.map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(
        of("orders", &[]),
        [
            "create Orders",
            "insert (\"p\", \"1\") +N: 1",
            "rename Orders -> Old",
            "create Orders",
            "insert (\"p\", \"3\") +N: 1",
            "drop   Orders",
            "rename Old -> Orders",
            "clear  (\"p\", \"1\") -N: 1",
            "clear  (\"p\", \"2\")",
        ]
    );
    assert_eq!(
        of("Old", &[]),
        ["rename Orders -> Old", "insert (\"p\", \"2\")", "rename Old -> Orders"]
    );
    // Before it was created, there was no such table: nothing is unknown then.
    let shown = of("Orders", &["--since", &early, "--until", &early]);
    assert!(shown.is_empty(), "{shown:?}");
    let path = kept.path();
    succeeds(&[&history_of(&path)[..], &["--since", &early, "--until", &early]].concat());

    let listed = succeeds(&["archive", "--list", text(&path)]);
    for shown in [
        "  called Orders from ",
        "  called Old from ",
        "  called Orders since ",
        "  it was dropped at ",
    ] {
        assert!(listed.contains(shown), "{shown}: {listed}");
    }
    let listed = succeeds(&["archive", "--list", text(&path), "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let tables = listed["tables"].as_array().unwrap();
    let names: Vec<usize> = tables
        .iter()
        .map(|table| table["names"].as_array().unwrap().len())
        .collect();
    assert_eq!(names, [1, 3, 1]);
}

#[test]
fn a_list_shows_what_is_unknown() {
    let kept = Kept::new(&["Orders", "Others"]);
    kept.archive(&[]);
    kept.session
        .run("SELECT drop_change_feed(feed_name) FROM query_change_feeds()");
    kept.then("SELECT insert_entity('Orders', 'p', '1', '{}')");
    kept.archive(&[]);
    let path = kept.path();
    let listed = succeeds(&["archive", "--list", text(&path)]);
    assert_eq!(listed.matches("  unknown from ").count(), 2, "{listed}");
    assert!(
        listed.contains("the feed was dropped") && !listed.contains("called"),
        "{listed}"
    );
    std::fs::remove_file(path.join("v1-base-000000000001.jsonl.zst")).unwrap();
    let listed = ends_with(4, &["archive", "--verify", text(&path)]);
    assert_eq!(listed.matches("  unknown from ").count(), 2, "{listed}");
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

#[test]
fn a_table_that_is_not_selected_for_a_while_is_not_known_then() {
    let kept = Kept::new(&["Orders", "Others"]);
    kept.archive(&[]);
    kept.then("SELECT insert_entity('Orders', 'p', '1', '{}')");
    kept.archive(&[]);
    kept.archive(&["--table", "Others"]);
    kept.then("SELECT insert_entity('Orders', 'p', '2', '{}')");
    kept.archive(&["--table", "*"]);
    kept.then("SELECT insert_entity('Orders', 'p', '3', '{}')");
    kept.archive(&[]);
    let (kinds, status, said) = history(&kept, &[]);
    // Then it was not read yet.
    assert_eq!(kinds, ["insert", "gap", "gap", "insert"], "{said}");
    assert_eq!(status, Some(4));
    assert!(said.contains("did not select the table"), "{said}");
}
