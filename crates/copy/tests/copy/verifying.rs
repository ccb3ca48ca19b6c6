//! The comparison: it finds the entities that differ, and names the difference.

use crate::entities::lines;
use crate::program::{End, ends_with, file, quietly, succeeds, text, verifying};

#[test]
fn differences_are_listed_by_key() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(11, 2000));
    for kind in ["sql", "rest"] {
        let end = End::of(kind);
        succeeds(&quietly(text(&begin), &end.argument(), &["--verify"]));
        let database = match &end {
            End::Sql(database) => database,
            End::Gateway(service) => &service.database,
            End::Directory(..) => unreachable!(),
        };
        let session = database.session("writer");
        session.run("SELECT table_service.insert_entity('Nasty', 'extra', 'one', '{}')");
        session.run("SELECT table_service.insert_or_merge_entity('Nasty', 'changed', 'one', '{\"A\": 1.5}')");
        let more = format!(
            "{}{}\n{}\n",
            std::fs::read_to_string(&begin).unwrap(),
            r#"{"PartitionKey":"changed","RowKey":"one","A":1}"#,
            r#"{"PartitionKey":"lost","RowKey":"one"}"#
        );
        let other = file(&directory, "other.jsonl", &more);
        let said = ends_with(4, &verifying(text(&other), &end.argument(), &["--table", "Nasty"]));
        for line in [
            "Nasty: different, 2002 entities",
            r#"PartitionKey "changed", RowKey "one": A is "1" (Edm.Int32) in the source, "1.5" (Edm.Double) in the target"#,
            r#"PartitionKey "extra", RowKey "one": only in the target"#,
            r#"PartitionKey "lost", RowKey "one": only in the source"#,
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
        assert_eq!(said.matches("PartitionKey").count(), 3, "{said}");
        let few = ends_with(
            4,
            &verifying(
                text(&other),
                &end.argument(),
                &["--table", "Nasty", "--max-differences", "1"],
            ),
        );
        assert!(
            few.matches("PartitionKey").count() == 1 && few.contains("and more"),
            "{few}"
        );
    }
}

#[test]
fn a_missing_table_is_a_difference() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Orders.jsonl", "");
    let end = End::of("sql");
    let said = ends_with(4, &verifying(text(&begin), &end.argument(), &[]));
    assert!(said.contains("the target does not have this table"), "{said}");
}

#[test]
fn the_names_of_tables_are_compared_too() {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Orders.jsonl", "");
    std::fs::write(&begin, "\n").unwrap();
    let end = End::of("sql");
    let (from, to) = (text(directory.path()), end.argument());
    let nothing = tempfile::tempdir().unwrap();
    let said = ends_with(1, &verifying(text(nothing.path()), &to, &[]));
    assert!(said.contains("Nothing was compared"), "{said}");

    succeeds(&quietly(from, &to, &["--verify"]));
    let End::Sql(database) = &end else { unreachable!() };
    database
        .session("writer")
        .run("SELECT table_service.create_table('Others')");
    let said = ends_with(4, &verifying(from, &to, &[]));
    assert!(
        said.contains("Orders: equal, 0 entities") && said.contains("Others: the source does not have this table"),
        "{said}"
    );
    // The target may have more tables than those that were copied or asked for.
    succeeds(&verifying(from, &to, &["--table", "Orders"]));
    succeeds(&quietly(from, &to, &["--verify"]));
    let said = ends_with(4, &verifying(text(nothing.path()), &to, &[]));
    assert!(said.contains("Orders: the source does not have this table"), "{said}");
}

/// Copies, changes the source, follows, and compares: a migration while the application runs.
#[test]
fn changes_are_followed_until_both_sides_are_the_same() {
    for (from_kind, to_kind) in [("sql", "rest"), ("rest", "sql")] {
        let directory = tempfile::tempdir().unwrap();
        let begin = file(&directory, "Nasty.jsonl", &lines(13, 500));
        let (source, target) = (End::of(from_kind), End::of(to_kind));
        succeeds(&quietly(text(&begin), &source.argument(), &[]));
        let database = match &source {
            End::Sql(database) => database,
            End::Gateway(service) => &service.database,
            End::Directory(..) => unreachable!(),
        };
        let (from, to) = (source.argument(), target.argument());
        let json = crate::program::output(&["--from", &from, "--to", &to, "--json"]);
        let report = String::from_utf8(json.stdout).unwrap();
        let report: serde_json::Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
        let started = report["started"].as_str().unwrap().to_owned();
        let session = database.session("application");
        session.run("SELECT table_service.insert_or_replace_entity('Nasty', 'p', 'new', '{\"V\": 1}')");
        session.run(
            "SELECT table_service.merge_entity('Nasty', partition_key, row_key, '{\"V\": 2}', '*') \
             FROM (SELECT * FROM table_service_data.\"Nasty\" LIMIT 10) AS e",
        );
        ends_with(4, &verifying(&from, &to, &[]));
        succeeds(&quietly(
            &from,
            &to,
            &[
                "--since",
                &started,
                "--on-conflict",
                "replace",
                "--follow",
                "60",
                "--verify",
            ],
        ));
    }
}
