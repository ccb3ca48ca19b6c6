//! Sessions that create and delete the same tables at the same time.

use system_tests::{Database, Expect};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// Begins a transaction whose snapshot is taken already.
fn begin(level: &str) -> String {
    format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM pg_class")
}

#[test]
fn two_spellings_of_one_name_make_one_table() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for (number, level) in LEVELS.iter().enumerate() {
        a.run(&begin(level));
        b.run(&begin(level));
        a.run(&format!("SELECT table_service.create_table('Orders{number}')"));
        let second = b
            .start(&format!("SELECT table_service.create_table('orderS{number}')"))
            .waits();
        a.run("COMMIT");
        let failure = second.finish().fails_with("42P07", "TableAlreadyExists");
        assert_eq!(
            failure.message,
            "TableAlreadyExists: The table specified already exists."
        );
        b.run("ROLLBACK");
        assert_eq!(
            a.run(&format!(
                "SELECT table_name FROM table_service.query_tables() WHERE table_name ~* 'orders{number}'"
            )),
            [[Some(format!("Orders{number}"))]]
        );
    }
}

#[test]
fn the_second_creator_wins_when_the_first_rolls_back() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for (number, level) in LEVELS.iter().enumerate() {
        a.run(&begin(level));
        b.run(&begin(level));
        a.run(&format!("SELECT table_service.create_table('Orders{number}')"));
        let second = b
            .start(&format!("SELECT table_service.create_table('ORDERS{number}')"))
            .waits();
        a.run("ROLLBACK");
        assert_eq!(second.text(), format!("table_service_data.\"ORDERS{number}\""));
        b.run("COMMIT");
        a.run(&format!(
            "SELECT table_service.insert_entity('orders{number}', 'p', 'r', '{{}}')"
        ));
    }
}

#[test]
fn with_if_not_exists_both_creators_get_the_same_table() {
    let db = Database::new();
    let (a, b) = (db.session("a"), db.session("b"));
    for (number, level) in LEVELS.iter().enumerate() {
        for (first, second) in [("Same", "Same"), ("Other", "OTHER")] {
            a.run(&begin(level));
            b.run(&begin(level));
            let create = |name| format!("SELECT table_service.create_table('{name}{number}', true)::oid");
            let first = a.text(&create(first).replace("SELECT", "SELECT")).clone();
            let second = b.start(&create(second)).waits();
            a.run("COMMIT");
            assert_eq!(second.text(), first);
            // The transaction of the second can go on with the table.
            b.run("COMMIT");
        }
    }
}
