//! Errors of users' triggers, constraints, policies and functions arrive from every function as from a direct statement.

use system_tests::random::{Random, rounds};
use system_tests::{Database, Failure, Session};

/// Statements of a user, and the functions that do the same. The table has the entities p/r, but not p/new.
const WRITES: [(&str, &[&str]); 3] = [
    (
        "INSERT INTO table_service_data.\"Raising\" VALUES ('p', 'new', '2020-01-01', '{}')",
        &[
            "SELECT insert_entity('Raising', 'p', 'new', '{}')",
            "SELECT insert_or_replace_entity('Raising', 'p', 'new', '{}')",
            "SELECT insert_or_merge_entity('Raising', 'p', 'new', '{}')",
            "SELECT execute_batch('Raising', 'p', batch_insert('new', '{}'))",
            "SELECT execute_batch('Raising', 'p', batch_insert('new', '{}'), batch_insert('newer', '{}'))",
            "SELECT execute_batch('Raising', 'p', batch_insert_or_merge('new', '{}'))",
            "SELECT execute_batch_json('Raising', 'p', '[{\"insert\": {\"RowKey\": \"new\"}}]')",
            "INSERT INTO table_service_data.\"Raising\" SELECT 'p', 'new', '2020-01-01', '{}'",
        ],
    ),
    (
        "UPDATE table_service_data.\"Raising\" SET properties = '{}' WHERE partition_key = 'p'",
        &[
            "SELECT replace_entity('Raising', 'p', 'r', '{}', '*')",
            "SELECT merge_entity('Raising', 'p', 'r', '{}', '*')",
            "SELECT execute_batch('Raising', 'p', batch_replace('r', '{}', '*'))",
            "SELECT execute_batch('Raising', 'p', batch_merge('r', '{}', '*'), batch_merge('s', '{}', '*'))",
        ],
    ),
    (
        "DELETE FROM table_service_data.\"Raising\" WHERE partition_key = 'p'",
        &[
            "SELECT delete_entity('Raising', 'p', 'r')",
            "SELECT execute_batch('Raising', 'p', batch_delete('r', '*'))",
        ],
    ),
];

const READS: (&str, &[&str]) = (
    "SELECT * FROM table_service_data.\"Raising\" WHERE partition_key = 'p'",
    &[
        "SELECT get_entity('Raising', 'p', 'r')",
        "SELECT get_entities('Raising', 'p', '{r}')",
        "SELECT query_entities('Raising', $$PartitionKey eq 'p' and A eq 1$$)",
        "SELECT query_page('Raising', $$PartitionKey eq 'p'$$)",
        "SELECT query_page_json('Raising', $$A eq 1$$)",
        "SELECT partition_statistics('Raising')",
        "SELECT merge_entity('Raising', 'p', 'r', '{}', '*')",
        "SELECT delete_entity('Raising', 'p', 'r')",
        "SELECT execute_batch('Raising', 'p', batch_merge('r', '{}', '*'))",
    ],
);

fn raising() -> (Database, Session) {
    let db = Database::new();
    let session = db.session("owner");
    session.run(
        "SET search_path = public, table_service;
         SELECT create_table('Raising');
         SELECT insert_entity('Raising', 'p', 'r', '{\"A\": 1}'), insert_entity('Raising', 'p', 's', '{\"A\": 1}');",
    );
    (db, session)
}

#[track_caller]
fn failure(session: &Session, statement: &str) -> Failure {
    match session.sql(statement) {
        Err(failure) => failure,
        Ok(rows) => panic!("{statement} does not fail: {rows:?}"),
    }
}

/// All fields, one by one, are those of the direct statement.
#[track_caller]
fn assert_same(session: &Session, direct: &str, functions: &[&str]) -> Failure {
    let expected = failure(session, direct);
    for statement in functions {
        let found = failure(session, statement);
        assert_eq!(
            (&found.sqlstate, &found.message, &found.hint, &found.others),
            (&expected.sqlstate, &expected.message, &expected.hint, &expected.others),
            "{statement}, compared with {direct}"
        );
    }
    expected
}

/// A RAISE with random fields. Some codes are those that PostgreSQL gives its own errors; XX000 would be a bug of ours.
fn raise(random: &mut Random) -> String {
    const CODES: [&str; 20] = [
        "45000", "P0001", "P0002", "UX001", "99999", "ZZZZZ", "23505", "23514", "23P01", "22023", "40001", "40002",
        "42P10", "42P01", "42P07", "42710", "55000", "54000", "57014", "0A000",
    ];
    const TEXTS: [&str; 7] = [
        "the order is closed",
        "",
        "EntityAlreadyExists: The specified entity already exists.",
        "a line\nand another",
        "%s %d ü € \u{1F600} \\",
        "SQL statement \"SELECT 1\"",
        "tuple concurrently updated",
    ];
    let mut options = vec![format!("ERRCODE = '{}'", random.pick(&CODES))];
    for field in [
        "MESSAGE",
        "DETAIL",
        "HINT",
        "COLUMN",
        "CONSTRAINT",
        "DATATYPE",
        "TABLE",
        "SCHEMA",
    ] {
        if random.chance(60) {
            options.push(format!("{field} = $t${}$t$", random.pick(&TEXTS)));
        }
    }
    format!("RAISE EXCEPTION USING {}", options.join(", "))
}

#[test]
fn what_a_trigger_raises_arrives_whole() {
    let (_db, session) = raising();
    let mut random = Random::new(36);
    for _ in 0..rounds(20) {
        let raise = raise(&mut random);
        let (time, level) = (*random.pick(&["BEFORE", "AFTER"]), *random.pick(&["ROW", "STATEMENT"]));
        session.run(&format!(
            "CREATE OR REPLACE FUNCTION inner_one() RETURNS void LANGUAGE plpgsql AS $f$ BEGIN {raise}; END $f$;
             CREATE OR REPLACE FUNCTION raising() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN PERFORM inner_one(); RETURN NEW; END $f$;
             CREATE OR REPLACE TRIGGER raising {time} INSERT OR UPDATE OR DELETE ON table_service_data.\"Raising\"
                 FOR EACH {level} EXECUTE FUNCTION raising()"
        ));
        for (direct, functions) in WRITES {
            let expected = assert_same(&session, direct, functions);
            let context = expected.others.context.unwrap();
            assert!(
                context.contains("PL/pgSQL function inner_one() line 1 at RAISE"),
                "{context}"
            );
        }
    }
}

#[test]
fn what_a_policy_raises_arrives_whole() {
    let (db, session) = raising();
    let role = db.role("reader");
    session.run(&format!(
        "CREATE FUNCTION may_see(text) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN
             RAISE EXCEPTION 'closed' USING ERRCODE = '45000', DETAIL = 'on Sundays', HINT = 'Come back.', CONSTRAINT = 'hours';
         END $f$;
         ALTER TABLE table_service_data.\"Raising\" ENABLE ROW LEVEL SECURITY;
         CREATE POLICY seen ON table_service_data.\"Raising\" USING (may_see(row_key));
         GRANT ALL ON table_service_data.\"Raising\" TO {role}"
    ));
    let reader = db.session_as(&role, "reader");
    reader.run("SET search_path = public, table_service");
    let expected = assert_same(&reader, READS.0, READS.1);
    assert_eq!(expected.sqlstate, "45000");
    assert_eq!(expected.others.constraint.as_deref(), Some("hours"));
}

/// Constraints name themselves, their table and schema, the column or the data type.
#[test]
fn what_a_constraint_raises_arrives_whole() {
    let (_db, session) = raising();
    let update = "UPDATE table_service_data.\"Raising\" SET properties = '{\"B\": \"x\"}' WHERE row_key = 'r'";
    let functions = [
        "SELECT replace_entity('Raising', 'p', 'r', '{\"B\": \"x\"}', '*')",
        "SELECT insert_or_replace_entity('Raising', 'p', 'r', '{\"B\": \"x\"}')",
        "SELECT execute_batch('Raising', 'p', batch_replace('r', '{\"B\": \"x\"}', '*'))",
        "SELECT execute_batch('Raising', 'p', batch_merge('s', '{}', '*'), batch_insert_or_replace('r', '{\"B\": \"x\"}'))",
    ];

    session.run("CREATE UNIQUE INDEX one_of_each ON table_service_data.\"Raising\" ((properties ->> 'B'))");
    session.run("SELECT merge_entity('Raising', 'p', 's', '{\"B\": \"x\"}', '*')");
    let expected = assert_same(&session, update, &functions);
    assert_eq!(expected.sqlstate, "23505");
    assert_eq!(expected.others.constraint.as_deref(), Some("one_of_each"));
    assert_eq!(expected.others.table.as_deref(), Some("Raising"));
    session.run("DROP INDEX table_service_data.one_of_each");

    session.run(
        "CREATE DOMAIN short AS text CONSTRAINT is_short CHECK (length(VALUE) < 1);
         CREATE FUNCTION as_short(text) RETURNS boolean LANGUAGE plpgsql AS $f$ BEGIN RETURN $1::short IS NULL; END $f$;
         ALTER TABLE table_service_data.\"Raising\" ADD CONSTRAINT shortness CHECK (as_short(properties ->> 'B')) NOT VALID",
    );
    let expected = assert_same(&session, update, &functions[..3]);
    assert_eq!(expected.sqlstate, "23514");
    assert_eq!(expected.others.datatype.as_deref(), Some("short"));
    session.run("ALTER TABLE table_service_data.\"Raising\" DROP CONSTRAINT shortness");

    // DETAIL has the Timestamp, which differs.
    session.run(
        "ALTER TABLE table_service_data.\"Raising\" ADD CONSTRAINT no_x CHECK (properties ->> 'B' <> 'x') NOT VALID",
    );
    for statement in functions.iter().chain([&update]) {
        let found = failure(&session, statement);
        assert_eq!(found.sqlstate, "23514", "{statement}");
        assert_eq!(
            found.message,
            "new row for relation \"Raising\" violates check constraint \"no_x\""
        );
        assert!(
            found.others.detail.unwrap().starts_with("Failing row contains (p, r, "),
            "{statement}"
        );
        assert_eq!(found.others.constraint.as_deref(), Some("no_x"), "{statement}");
        assert_eq!(
            found.others.schema.as_deref(),
            Some("table_service_data"),
            "{statement}"
        );
        assert_eq!(found.others.context, None, "{statement}");
    }
}

/// The functions that define tables and indexes, and an event trigger.
#[test]
fn what_an_event_trigger_raises_arrives_whole() {
    let (_db, session) = raising();
    session.run(
        "CREATE FUNCTION refusing() RETURNS event_trigger LANGUAGE plpgsql AS $f$ BEGIN
             RAISE EXCEPTION 'not today' USING ERRCODE = '45000', HINT = 'Tomorrow.', TABLE = 'calendar';
         END $f$;
         SELECT create_property_index('Raising', 'A');
         CREATE EVENT TRIGGER refusing ON ddl_command_start EXECUTE FUNCTION refusing()",
    );
    assert_same(
        &session,
        "CREATE TABLE another ()",
        &[
            "SELECT create_table('Another')",
            "SELECT delete_table('Raising')",
            "SELECT create_property_index('Raising', 'B')",
            "SELECT drop_property_index('Raising', 'A')",
        ],
    );
}

/// Our own errors have the catalog's DETAIL, or none, and no place, even where the server's environment has RUST_BACKTRACE,
/// as all servers of the tests do.
#[test]
fn errors_of_the_catalog_show_no_backtrace() {
    let (_db, session) = raising();
    let stored = "The PartitionKey is 'p', and the RowKey is 'r'.";
    let absent = "The PartitionKey is 'p', and the RowKey is 'absent'.";
    let table = "There is no table \"Absent\".";
    for (statement, detail) in [
        ("SELECT insert_entity('Raising', 'p', 'r', '{}')", Some(stored)),
        ("SELECT insert_entity('Absent', 'p', 'r', '{}')", Some(table)),
        ("SELECT merge_entity('Raising', 'p', 'absent', '{}', '*')", Some(absent)),
        (
            "SELECT replace_entity('Raising', 'p', 'r', '{}', 'W/\"no such tag\"')",
            Some(stored),
        ),
        ("SELECT query_entities('Raising', 'A >')", None),
        (
            "SELECT execute_batch('Raising', 'p', batch_delete('absent', '*'))",
            Some(absent),
        ),
        ("SELECT '{'::properties", None),
    ] {
        let found = failure(&session, statement);
        assert_eq!(found.others.detail.as_deref(), detail, "{statement}");
        assert_eq!(found.others.context, None, "{statement}");
    }
    // An error of PostgreSQL's own passes as many functions as call each other.
    session.run(
        "CREATE FUNCTION pg_temp.outer_one() RETURNS void LANGUAGE plpgsql AS $f$ BEGIN
             PERFORM merge_entity('Raising', 'p', 'r', '{}', '*');
         END $f$;
         CREATE FUNCTION raising() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
             PERFORM insert_entity('Absent', 'p', 'r', '{}'); RETURN NEW;
         END $f$;
         CREATE TRIGGER raising BEFORE UPDATE ON table_service_data.\"Raising\" FOR EACH ROW EXECUTE FUNCTION raising()",
    );
    let found = failure(&session, "SELECT pg_temp.outer_one()");
    assert_eq!(
        (found.sqlstate.as_str(), found.others.detail.as_deref()),
        ("42P01", Some(table))
    );
    let context = found.others.context.unwrap();
    let lines: Vec<_> = context
        .lines()
        .map(|line| line.split(" function ").next().unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            "SQL statement \"SELECT insert_entity('Absent', 'p', 'r', '{}')\"",
            "PL/pgSQL",
            "SQL statement \"SELECT merge_entity('Raising', 'p', 'r', '{}', '*')\"",
            "PL/pgSQL",
        ],
        "{context}"
    );
}
