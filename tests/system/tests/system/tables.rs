//! Sessions that create, rename and delete the same tables at the same time.

use system_tests::{Database, Expect, Session};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// Begins a transaction and takes its snapshot.
fn begin(session: &Session, level: &str) {
    session.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM pg_class"));
}

fn tables(session: &Session) -> Vec<String> {
    let rows = session.run("SELECT table_name FROM table_service.query_tables()");
    rows.into_iter().map(|row| row[0].clone().unwrap()).collect()
}

#[test]
fn two_spellings_of_one_name_make_one_table() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for level in LEVELS {
        for second in ["Orders", "orderS"] {
            begin(&a, level);
            begin(&b, level);
            a.run("SELECT table_service.create_table('Orders')");
            let second = b
                .start(&format!("SELECT table_service.create_table('{second}')"))
                .waits();
            a.run("COMMIT");
            let failure = second.finish().fails_with("42P07", "TableAlreadyExists");
            assert_eq!(
                failure.message,
                "TableAlreadyExists: The table specified already exists."
            );
            b.run("ROLLBACK");
            assert_eq!(tables(&a), ["Orders"]);
            a.run("SELECT table_service.delete_table('ORDERS')");
        }
    }
}

#[test]
fn the_second_creator_wins_when_the_first_rolls_back() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for level in LEVELS {
        for spelling in ["Orders", "ORDERS"] {
            begin(&a, level);
            begin(&b, level);
            a.run("SELECT table_service.create_table('Orders')");
            let second = b
                .start(&format!("SELECT table_service.create_table('{spelling}')"))
                .waits();
            a.run("ROLLBACK");
            assert_eq!(second.text(), format!("table_service_data.\"{spelling}\""));
            b.run("COMMIT");
            assert_eq!(tables(&a), [spelling]);
            a.run("SELECT table_service.insert_entity('orders', 'p', 'r', '{}')");
            a.run("SELECT table_service.delete_table('orders')");
        }
    }
}

#[test]
fn with_if_not_exists_both_creators_get_the_same_table() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for level in LEVELS {
        for spelling in ["Same", "SAME"] {
            begin(&a, level);
            begin(&b, level);
            let first = a.text("SELECT table_service.create_table('Same', if_not_exists => true)::oid");
            let second = b
                .start(&format!("SELECT table_service.create_table('{spelling}', true)::oid"))
                .waits();
            a.run("COMMIT");
            assert_eq!(second.text(), first);
            // Its transaction goes on, with the table that the other session made.
            b.run("SELECT table_service.insert_entity('same', 'p', 'r', '{}'); COMMIT");
            a.run("SELECT table_service.delete_table('same')");
        }
    }
}

#[test]
fn one_of_many_creators_wins() {
    let db = Database::new();
    let sessions: Vec<_> = (0..6).map(|n| db.session(&format!("creator {n}"))).collect();
    for round in 0..5 {
        let pending: Vec<_> = sessions
            .iter()
            .zip(["Many", "many", "MANY", "mANY", "Many", "maNY"])
            .map(|(session, name)| session.start(&format!("SELECT table_service.create_table('{name}{round}')")))
            .collect();
        let (won, lost): (Vec<_>, Vec<_>) = pending.into_iter().map(|p| p.finish()).partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        for result in lost {
            result.fails_with("42P07", "TableAlreadyExists");
        }
    }
}

#[test]
fn a_table_that_a_transaction_did_not_find_is_found_once_it_exists() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for level in LEVELS {
        begin(&b, level);
        b.run("SAVEPOINT before");
        b.sql("SELECT table_service.get_entity('Later', 'p', 'r')")
            .fails_with("42P01", "TableNotFound");
        b.run("ROLLBACK TO before");
        a.run("SELECT table_service.create_table('Later')");
        b.run("SELECT table_service.get_entity('later', 'p', 'r'); COMMIT");
        a.run("SELECT table_service.delete_table('later')");
    }
}

#[test]
fn two_sessions_delete_one_table() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for level in LEVELS {
        for (statement, expected) in [
            ("SELECT table_service.delete_table('twice')", None),
            (
                "SELECT table_service.delete_table('TWICE', if_exists => true)",
                Some("f"),
            ),
        ] {
            a.run("SELECT table_service.create_table('Twice')");
            begin(&a, level);
            begin(&b, level);
            assert_eq!(a.text("SELECT table_service.delete_table('Twice')"), "t");
            let second = b.start(statement).waits();
            a.run("COMMIT");
            match expected {
                None => {
                    let failure = second.finish().fails_with("42P01", "ResourceNotFound");
                    assert_eq!(
                        failure.message,
                        "ResourceNotFound: The specified resource does not exist."
                    );
                }
                Some(text) => assert_eq!(second.text(), text),
            }
            b.run("ROLLBACK");
        }
        // The first rolls back: the second deletes it.
        a.run("SELECT table_service.create_table('Twice')");
        a.run("BEGIN; SELECT table_service.delete_table('Twice')");
        let second = b.start("SELECT table_service.delete_table('twice')").waits();
        a.run("ROLLBACK");
        assert_eq!(second.text(), "t");
    }
}

#[test]
fn statements_that_wait_for_a_delete_find_no_table() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for level in LEVELS {
        for statement in [
            "SELECT table_service.insert_entity('Going', 'p', 'new', '{}')",
            "SELECT table_service.replace_entity('Going', 'p', 'r', '{}', '*')",
            "SELECT table_service.merge_entity('Going', 'p', 'r', '{}', '*')",
            "SELECT table_service.insert_or_replace_entity('Going', 'p', 'r', '{}')",
            "SELECT table_service.insert_or_merge_entity('Going', 'p', 'r', '{}')",
            "SELECT table_service.delete_entity('Going', 'p', 'r')",
            "SELECT table_service.get_entity('Going', 'p', 'r')",
            "SELECT table_service.get_entities('Going', 'p', '{r}')",
            // In another spelling, and in a plan that the session has kept by now.
            "SELECT table_service.insert_entity('GOING', 'p', 'new', '{}')",
            "SELECT table_service.get_entity('going', 'p', 'r')",
        ] {
            a.run("SELECT table_service.create_table('Going')");
            a.run("SELECT table_service.insert_entity('Going', 'p', 'r', '{}')");
            begin(&b, level);
            a.run("BEGIN; SELECT table_service.delete_table('Going')");
            let waiting = b.start(statement).waits();
            a.run("COMMIT");
            waiting.finish().fails_with("42P01", "TableNotFound");
            b.run("ROLLBACK");
        }
    }
}

#[test]
fn statements_that_wait_for_a_rolled_back_delete_go_on() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    a.run("SELECT table_service.create_table('Staying')");
    for statement in [
        "SELECT table_service.insert_entity('Staying', 'p', 'r', '{}')",
        "SELECT table_service.get_entity('Staying', 'p', 'r')",
    ] {
        a.run("BEGIN; SELECT table_service.delete_table('Staying')");
        let waiting = b.start(statement).waits();
        a.run("ROLLBACK");
        assert_eq!(waiting.finish().unwrap().len(), 1);
    }
}

#[test]
fn a_delete_waits_for_those_who_use_the_table() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    a.run("SELECT table_service.create_table('Used')");
    for statement in [
        "SELECT table_service.insert_entity('Used', 'p', 'r', '{}')",
        "SELECT table_service.get_entity('Used', 'p', 'r')",
        // No entity is found, but the transaction may look again.
        "SELECT table_service.get_entity('Used', 'p', 'absent')",
    ] {
        a.run(&format!("BEGIN; {statement}"));
        let delete = b.start("BEGIN; SELECT table_service.delete_table('Used')").waits();
        a.run("COMMIT");
        delete.finish().unwrap();
        b.run("ROLLBACK");
    }
}

#[test]
fn a_delete_and_a_create_of_one_name_follow_each_other() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for spelling in ["Phoenix", "PHOENIX"] {
        // Create waits for an uncommitted delete of the same table …
        a.run("SELECT table_service.create_table('Phoenix')");
        a.run("BEGIN; SELECT table_service.delete_table('Phoenix')");
        let create = b.start(&format!("SELECT table_service.create_table('{spelling}')"));
        let create = match a.sql("SELECT 1") {
            // … or finds that it still exists: both are right until the delete is committed.
            Ok(_) => create,
            Err(failure) => panic!("{failure:?}"),
        };
        a.run("COMMIT");
        match create.finish() {
            Ok(_) => assert_eq!(tables(&a), [spelling]),
            result => {
                result.fails_with("42P07", "TableAlreadyExists");
                a.run(&format!("SELECT table_service.create_table('{spelling}')"));
            }
        }
        // A delete of a table that is not committed yet finds none.
        a.run("SELECT table_service.delete_table('phoenix')");
        a.run("BEGIN; SELECT table_service.create_table('Phoenix')");
        b.sql("SELECT table_service.delete_table('Phoenix')")
            .fails_with("42P01", "ResourceNotFound");
        b.sql("SELECT table_service.insert_entity('Phoenix', 'p', 'r', '{}')")
            .fails_with("42P01", "TableNotFound");
        a.run("ROLLBACK");
        // A table is dropped and created again while a session waits to write: it writes into the new one.
        a.run("SELECT table_service.create_table('Phoenix')");
        b.run("SELECT table_service.insert_entity('Phoenix', 'p', 'before', '{}')");
        a.run("BEGIN; SELECT table_service.delete_table('Phoenix')");
        a.run(&format!("SELECT table_service.create_table('{spelling}')"));
        let insert = b
            .start("SELECT table_service.insert_entity('Phoenix', 'p', 'after', '{}')")
            .waits();
        a.run("COMMIT");
        insert.finish().unwrap();
        assert_eq!(
            a.text("SELECT string_agg(row_key, ',') FROM table_service.get_entities('phoenix', 'p', '{before,after}')"),
            "after"
        );
        a.run("SELECT table_service.delete_table('phoenix')");
    }
}

#[test]
fn concurrent_creates_and_deletes_of_one_name_raise_no_catalog_error() {
    let db = Database::new();
    let sessions: Vec<_> = (0..4).map(|n| db.session(&format!("churn {n}"))).collect();
    for round in 0..100 {
        let pending: Vec<_> = sessions
            .iter()
            .zip(["Churn", "CHURN", "churn", "Churn"])
            .enumerate()
            .map(|(n, (session, name))| {
                session.start(&if (n + round) % 2 == 0 {
                    format!("SELECT table_service.create_table('{name}')")
                } else {
                    format!("SELECT table_service.delete_table('{name}')")
                })
            })
            .collect();
        for failure in pending.into_iter().filter_map(|pending| pending.finish().err()) {
            let expected = ["42P07 TableAlreadyExists: ", "42P01 ResourceNotFound: "];
            let found = format!("{} {}", failure.sqlstate, failure.message);
            assert!(expected.iter().any(|start| found.starts_with(start)), "{found}");
        }
    }
}

#[test]
fn a_recreated_table_works_at_once_in_other_sessions() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    // Session b keeps a plan for each of these.
    let uses = "SELECT table_service.insert_entity('Again', 'p', 'r', '{\"A\": 1}');
        SELECT table_service.merge_entity('Again', 'p', 'r', '{\"B\": 2}', '*');
        SELECT table_service.insert_or_merge_entity('again', 'p', 'r', '{\"C\": 3}');
        SELECT table_service.insert_or_replace_entity('AGAIN', 'p', 's', '{}');
        SELECT table_service.replace_entity('Again', 'p', 's', '{}', '*');
        SELECT row_key, properties FROM table_service.get_entities('Again', 'p', '{r,s}');
        SELECT table_service.delete_entity('Again', 'p', 's')";
    let mut first = None;
    for (drop, create) in [
        ("", "SELECT table_service.create_table('Again')"),
        (
            "SELECT table_service.delete_table('again')",
            "SELECT table_service.create_table('Again')",
        ),
        (
            "DROP TABLE table_service_data.\"Again\"",
            "SELECT table_service.create_table('AGAIN')",
        ),
        (
            "DROP TABLE table_service_data.\"AGAIN\"",
            "SELECT table_service.create_table('Again')",
        ),
        ("TRUNCATE table_service_data.\"Again\"", ""),
    ] {
        a.run(drop);
        if drop.contains("DROP") {
            b.sql(uses).fails_with("42P01", "TableNotFound");
        }
        a.run(create);
        let mut result = b.run(uses);
        // Without the ETags.
        result.retain(|row| row.len() == 2);
        assert_eq!(*first.get_or_insert_with(|| result.clone()), result);
    }
}

#[test]
fn a_renamed_table_works_at_once_in_other_sessions() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    let count = |name: &str| {
        let entities = format!("SELECT count(*) FROM table_service.get_entity('{name}', 'p', 'r')");
        b.sql(&entities).map(|rows| rows[0][0].clone().unwrap())
    };
    a.run("SELECT table_service.create_table('OldName')");
    b.run("SELECT table_service.insert_entity('OldName', 'p', 'r', '{}')");
    assert_eq!(count("oldname").unwrap(), "1");

    a.run("ALTER TABLE table_service_data.\"OldName\" RENAME TO \"NewName\"");
    for name in ["OldName", "oldname"] {
        count(name).fails_with("42P01", "TableNotFound");
    }
    for name in ["NewName", "newname"] {
        assert_eq!(count(name).unwrap(), "1");
    }

    // A new table of the old name, in any spelling, is another one.
    a.run("SELECT table_service.create_table('OLDNAME')");
    for (name, expected) in [("OldName", "0"), ("oldname", "0"), ("OLDNAME", "0"), ("newname", "1")] {
        assert_eq!(count(name).unwrap(), expected, "{name}");
    }
    // They swap their names.
    a.run(
        "BEGIN;
        ALTER TABLE table_service_data.\"OLDNAME\" RENAME TO x;
        ALTER TABLE table_service_data.\"NewName\" RENAME TO \"OLDNAME\";
        ALTER TABLE table_service_data.x RENAME TO \"NewName\";
        COMMIT",
    );
    for (name, expected) in [("OldName", "1"), ("OLDNAME", "1"), ("newname", "0"), ("NewName", "0")] {
        assert_eq!(count(name).unwrap(), expected, "{name}");
    }
    assert_eq!(tables(&b), ["NewName", "OLDNAME"]);
    for name in ["oldname", "newname"] {
        assert_eq!(b.text(&format!("SELECT table_service.delete_table('{name}')")), "t");
    }
    assert_eq!(tables(&b), [""; 0]);
}

#[test]
fn statements_that_wait_for_a_rename_see_its_result() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    a.run("SELECT table_service.create_table('Moving')");
    b.run("SELECT table_service.insert_entity('Moving', 'p', 'r', '{}')");
    a.run("BEGIN; ALTER TABLE table_service_data.\"Moving\" RENAME TO \"Moved\"");
    let read = b.start("SELECT table_service.get_entity('moving', 'p', 'r')").waits();
    a.run("COMMIT");
    read.finish().fails_with("42P01", "TableNotFound");

    a.run("BEGIN; ALTER TABLE table_service_data.\"Moved\" RENAME TO \"Moving\"");
    let delete = b.start("SELECT table_service.delete_table('MOVED')").waits();
    a.run("COMMIT");
    delete.finish().fails_with("42P01", "ResourceNotFound");
    assert_eq!(tables(&b), ["Moving"]);
}

#[test]
fn two_sessions_take_the_name_of_a_renamed_table() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for (number, level) in LEVELS.iter().enumerate() {
        for (round, spelling) in ["Taken", "TAKEN"].iter().enumerate() {
            a.run("SELECT table_service.create_table('Taken')");
            a.run(&format!(
                "ALTER TABLE table_service_data.\"Taken\" RENAME TO \"Away{number}{round}\""
            ));
            begin(&a, level);
            begin(&b, level);
            a.run("SELECT table_service.create_table('Taken')");
            let second = b
                .start(&format!("SELECT table_service.create_table('{spelling}')"))
                .waits();
            a.run("COMMIT");
            second.finish().fails_with("42P07", "TableAlreadyExists");
            b.run("ROLLBACK");
            a.run("SELECT table_service.delete_table('taken')");
        }
    }
}

#[test]
fn other_relations_are_not_tables_of_the_service() {
    let db = Database::new();
    let a = db.session("a");
    a.run("CREATE TABLE table_service_data.\"Mine\" (id int); CREATE VIEW table_service_data.\"View\" AS SELECT 1");
    for name in ["Mine", "View"] {
        for statement in [
            format!("SELECT table_service.get_entity('{name}', 'p', 'r')"),
            format!("SELECT table_service.insert_entity('{name}', 'p', 'r', '{{}}')"),
        ] {
            a.sql(&statement).fails_with("42P01", "TableNotFound");
        }
        a.sql(&format!("SELECT table_service.delete_table('{name}')"))
            .fails_with("42P01", "ResourceNotFound");
        // Its name is still taken.
        a.sql(&format!("SELECT table_service.create_table('{name}')"))
            .fails_in_postgres("42P07");
    }
    assert_eq!(tables(&a), [""; 0]);
}

#[test]
fn a_rolled_back_transaction_leaves_nothing() {
    let db = Database::new();
    let a = db.session("a");
    a.run("SELECT table_service.create_table('Kept'); SELECT table_service.insert_entity('Kept', 'p', 'r', '{}')");
    let before = a.run("TABLE table_service_data.\"Kept\"");
    a.run(
        "BEGIN;
        SELECT table_service.create_table('Gone');
        SELECT table_service.insert_entity('Gone', 'p', 'r', '{}');
        SELECT table_service.merge_entity('Kept', 'p', 'r', '{\"A\": 1}', '*');
        SELECT table_service.insert_entity('Kept', 'p', 's', '{}');
        SELECT table_service.delete_entity('Kept', 'p', 'r');
        SELECT table_service.delete_table('kept');
        SELECT table_service.create_table('KEPT');
        ROLLBACK",
    );
    assert_eq!(tables(&a), ["Kept"]);
    assert_eq!(a.run("TABLE table_service_data.\"Kept\""), before);
    // A savepoint rolls back like a transaction, also for tables.
    a.run("BEGIN; SAVEPOINT s; SELECT table_service.create_table('Gone'); ROLLBACK TO s");
    a.sql("SELECT table_service.insert_entity('Gone', 'p', 'r', '{}')")
        .fails_with("42P01", "TableNotFound");
    a.run("ROLLBACK");
}
