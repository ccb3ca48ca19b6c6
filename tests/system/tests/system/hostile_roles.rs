//! Roles that mean harm: the objects that they make before the extension is there, and the locks that they hold.

use system_tests::{Database, Expect, Session};

/// A database in which a role may make schemas.
fn database_with_an_attacker() -> (Database, String, Session) {
    let db = Database::empty();
    let role = db.role("attacker");
    db.session("superuser")
        .run(&format!("GRANT CREATE ON DATABASE {} TO {role}", db.name()));
    let attacker = db.session_as(&role, "attacker");
    (db, role, attacker)
}

#[test]
fn the_extension_takes_no_schema_of_another_role() {
    let (db, _, attacker) = database_with_an_attacker();
    attacker.run("CREATE SCHEMA table_service");
    let superuser = db.session("superuser");
    superuser
        .sql("CREATE EXTENSION table_service")
        .fails_in_postgres("42501");
    attacker.run("DROP SCHEMA table_service; CREATE SCHEMA table_service_data");
    superuser
        .sql("CREATE EXTENSION table_service")
        .fails_in_postgres("42P06");
    attacker.run("DROP SCHEMA table_service_data");
    superuser.run("CREATE EXTENSION table_service");
}

#[test]
fn the_extension_takes_no_schema_that_others_have_been_in() {
    let (db, role, attacker) = database_with_an_attacker();
    let superuser = db.session("superuser");
    superuser.run(&format!(
        "CREATE SCHEMA table_service; GRANT CREATE ON SCHEMA table_service TO {role}"
    ));
    superuser
        .sql("CREATE EXTENSION table_service")
        .fails_in_postgres("55000");
    for (make, drop) in [
        (
            "CREATE FUNCTION table_service.insert_entity(text, text, text, jsonb) RETURNS text LANGUAGE sql RETURN current_user",
            "FUNCTION table_service.insert_entity",
        ),
        ("CREATE TABLE table_service.t ()", "TABLE table_service.t"),
        ("CREATE DOMAIN table_service.d AS integer", "DOMAIN table_service.d"),
        (
            "CREATE OPERATOR table_service.=== (FUNCTION = int4eq, LEFTARG = integer, RIGHTARG = integer)",
            "OPERATOR table_service.=== (integer, integer)",
        ),
    ] {
        superuser.run(&format!("GRANT CREATE ON SCHEMA table_service TO {role}"));
        attacker.run(make);
        // Even when the way in is closed again.
        superuser.run(&format!("REVOKE CREATE ON SCHEMA table_service FROM {role}"));
        superuser
            .sql("CREATE EXTENSION table_service")
            .fails_in_postgres("55000");
        superuser.run(&format!("DROP {drop}"));
    }
    // An empty schema of the installing role will do: a restored dump brings one along.
    superuser.run("CREATE EXTENSION table_service");
}

#[test]
fn no_role_holds_a_lock_that_keeps_others_waiting() {
    let (db, role, attacker) = database_with_an_attacker();
    let owner = db.session("owner");
    owner.run(&format!(
        "CREATE EXTENSION table_service; GRANT CREATE ON SCHEMA table_service_data TO {role}"
    ));
    for relation in ["access_policies", "service_properties"] {
        for mode in ["ROW SHARE", "ROW EXCLUSIVE", "SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"] {
            attacker
                .sql(&format!("BEGIN; LOCK TABLE table_service.{relation} IN {mode} MODE"))
                .fails_in_postgres("42501");
            attacker.run("ROLLBACK");
        }
    }
    // A lock that it may have is no hindrance.
    attacker
        .run("BEGIN; LOCK TABLE table_service.access_policies, table_service.service_properties IN ACCESS SHARE MODE");
    owner.run("SET statement_timeout = '10s'");
    owner.run("SELECT table_service.create_table('Employees')");
    owner.run("SELECT table_service.set_access_policies('Employees', '[{\"Id\": \"a\"}]')");
    owner.run("SELECT table_service.set_service_properties('{\"Cors\": []}')");
    owner.run("SELECT table_service.delete_table('Employees')");
    attacker.run("ROLLBACK");
}

#[test]
fn no_role_keeps_a_name_from_others() {
    let (db, role, attacker) = database_with_an_attacker();
    let owner = db.session("owner");
    owner.run(&format!(
        "CREATE EXTENSION table_service; GRANT CREATE ON SCHEMA table_service_data TO {role}; SET statement_timeout = '10s'"
    ));
    // The name of the primary key, taken by another relation.
    attacker.run("CREATE TABLE table_service_data.employees_pkey ()");
    assert_eq!(
        owner.text("SELECT table_service.create_table('Employees')"),
        "table_service_data.\"Employees\""
    );
    owner
        .sql("SELECT table_service.create_table('EMPLOYEES')")
        .fails_with("42P07", "TableAlreadyExists");
    owner.run("SELECT table_service.insert_entity('employees', 'p', 'r', '{}')");

    // A table that its owner has renamed keeps the name of its index, and may be locked for as long as its owner likes.
    attacker.run("SELECT table_service.create_table('Offices')");
    attacker.run("ALTER TABLE table_service_data.\"Offices\" RENAME TO \"Mine\"");
    attacker.run("BEGIN; LOCK TABLE table_service_data.\"Mine\" IN ACCESS EXCLUSIVE MODE");
    owner.run("SELECT table_service.create_table('Offices')");
    owner
        .sql("SELECT table_service.create_table('OFFICES')")
        .fails_with("42P07", "TableAlreadyExists");
    owner.run("SELECT table_service.insert_entity('offices', 'p', 'r', '{}')");
    attacker.run("ROLLBACK");
    attacker.run("SELECT table_service.insert_entity('mine', 'p', 'r', '{}')");
}
