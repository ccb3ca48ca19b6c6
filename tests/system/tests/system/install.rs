//! Which roles may install the extension, and how it goes away again.

use system_tests::{Database, Expect};

#[test]
fn a_database_owner_installs_it_without_being_superuser() {
    let db = Database::empty();
    let owner = db.role("owner");
    db.session("superuser")
        .run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    let session = db.session_as(&owner, "owner");
    session.run("CREATE EXTENSION table_service");
    session.run(
        "SELECT table_service.create_table('Mine');
        SELECT table_service.insert_entity('Mine', 'p', 'r', '{\"A\": 1}')",
    );
    // The schema of the tables is the database owner's to grant.
    let user = db.role("user");
    let other = db.session_as(&user, "user");
    other
        .sql("SELECT table_service.create_table('Theirs')")
        .fails_in_postgres("42501");
    session.run(&format!("GRANT CREATE ON SCHEMA table_service_data TO {user}"));
    other.run("SELECT table_service.create_table('Theirs')");
    // The database's owner may also delete tables that others created there.
    other.run("SELECT table_service.delete_table('Theirs')");
    session.run("SELECT table_service.delete_table('Mine'); DROP EXTENSION table_service");
}

#[test]
fn other_roles_cannot_install_it() {
    let db = Database::empty();
    let role = db.role("nobody");
    db.session_as(&role, "nobody")
        .sql("CREATE EXTENSION table_service")
        .fails_in_postgres("42501");
}

#[test]
fn a_database_that_is_not_utf8_refuses_it() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let db = Database::with(&format!(
            "TEMPLATE template0 ENCODING {encoding} LC_COLLATE 'C' LC_CTYPE 'C'"
        ));
        let session = db.session("s");
        let failure = session.sql("CREATE EXTENSION table_service").fails_in_postgres("0A000");
        assert_eq!(failure.message, "table_service needs a database with encoding UTF8");
        assert_eq!(
            session.text("SELECT count(*) FROM pg_extension WHERE extname = 'table_service'"),
            "0"
        );
    }
}

#[test]
fn clients_of_another_encoding_are_served() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Names')");
    // simple_query reads only UTF-8, so the texts that go out are ASCII.
    session.run("SET client_encoding = 'LATIN1'");
    session.run("SELECT table_service.insert_entity('Names', 'p', 'r', '{\"Name\": \"J\\u00fcrgen\"}')");
    session.run("SET client_encoding = 'UTF8'");
    assert_eq!(
        session.text(
            "SELECT properties OPERATOR(table_service.->>) 'Name' FROM table_service.get_entity('Names', 'p', 'r')"
        ),
        "Jürgen"
    );
}

#[test]
fn it_cannot_be_dropped_while_a_table_exists() {
    let db = Database::new();
    let session = db.session("s");
    session.run("SELECT table_service.create_table('Precious')");
    session.run("SELECT table_service.insert_entity('Precious', 'p', 'r', '{}')");
    // 2BP01: dependent objects still exist.
    let failure = session.sql("DROP EXTENSION table_service").fails_in_postgres("2BP01");
    assert_eq!(
        failure.message,
        "cannot drop extension table_service because other objects depend on it"
    );
    assert_eq!(
        session
            .run("SELECT table_service.get_entity('Precious', 'p', 'r')")
            .len(),
        1
    );
}

#[test]
fn it_can_be_dropped_and_created_again_in_a_session_with_kept_plans() {
    let db = Database::new();
    let (session, other) = (db.session("s"), db.session("other"));
    let uses = "SELECT table_service.create_table('Plans');
        SELECT table_service.insert_entity('Plans', 'p', 'r', '{\"A\": 1}');
        SELECT table_service.merge_entity('Plans', 'p', 'r', '{\"B\": 2}', '*');
        SELECT table_service.insert_or_replace_entity('Plans', 'p', 'r', '{\"C\": 3}');
        SELECT properties FROM table_service.get_entity('Plans', 'p', 'r')";
    for round in 0..3 {
        let rows = session.run(uses);
        assert_eq!(rows.last().unwrap()[0].as_deref(), Some("{\"C\":3}"), "round {round}");
        other.run("SELECT table_service.merge_entity('plans', 'p', 'r', '{}', '*')");
        session.run("SELECT table_service.delete_table('Plans'); DROP EXTENSION table_service");
        // 3F000: there is no such schema; or the schema is left, and 42883: there is no such function.
        let failure = session.sql("SELECT table_service.query_tables()").unwrap_err();
        assert!(["3F000", "42883"].contains(&failure.sqlstate.as_str()), "{failure:?}");
        session.run("CREATE EXTENSION table_service");
    }
}

#[test]
fn drop_cascade_takes_the_tables_along() {
    let db = Database::new();
    let session = db.session("s");
    session.run(
        "SELECT table_service.create_table('Gone');
        SELECT table_service.insert_entity('Gone', 'p', 'r', '{}');
        SET client_min_messages = warning;
        DROP EXTENSION table_service CASCADE;
        CREATE EXTENSION table_service",
    );
    assert_eq!(session.run("SELECT table_service.query_tables()").len(), 0);
    session.run("SELECT table_service.create_table('Gone')");
}
