//! Which roles may read and set access policies and service properties, through the functions and around them.

use system_tests::{Database, Expect, Session};

const SET: &str = "SELECT table_service.set_access_policies('Guarded', '[{\"Id\": \"new\"}]')";
const GET: &str = "SELECT table_service.get_access_policies('Guarded')";
const PROPERTIES: &str = "SELECT table_service.set_service_properties('{\"Cors\": []}')";
const POLICIES: &str = "[{\"Id\":\"readers\",\"Permission\":\"r\"}]";

/// A database with an owner that is no superuser, a table of another role with a policy, and a third role.
struct Guarded {
    db: Database,
    database_owner: Session,
    table_owner: Session,
    role: String,
    user: Session,
}

fn guarded() -> Guarded {
    let db = Database::empty();
    let (owner, creator, role) = (db.role("owner"), db.role("creator"), db.role("user"));
    db.session("superuser")
        .run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    let database_owner = db.session_as(&owner, "database owner");
    database_owner.run(&format!(
        "CREATE EXTENSION table_service; GRANT CREATE ON SCHEMA table_service_data TO {creator}"
    ));
    let table_owner = db.session_as(&creator, "table owner");
    table_owner.run("SELECT table_service.create_table('Guarded')");
    table_owner.run(&format!(
        "SELECT table_service.set_access_policies('Guarded', '{POLICIES}')"
    ));
    let user = db.session_as(&role, "user");
    Guarded {
        db,
        database_owner,
        table_owner,
        role,
        user,
    }
}

/// Checks that a role that may not set policies cannot do it without the function.
fn cannot_write_directly(user: &Session) {
    user.sql("INSERT INTO table_service.access_policies VALUES ('table_service_data.\"Guarded\"', '[]') ON CONFLICT (relation) DO UPDATE SET policies = '[]'")
        .fails_in_postgres("42501");
    user.sql("INSERT INTO table_service.access_policies VALUES (1, '[]')")
        .fails_in_postgres("42501");
    for statement in [
        "UPDATE table_service.access_policies SET policies = '[]' RETURNING 1",
        "DELETE FROM table_service.access_policies RETURNING 1",
        "TRUNCATE table_service.access_policies",
        "DROP POLICY readable ON table_service.access_policies",
        "ALTER TABLE table_service.access_policies DISABLE ROW LEVEL SECURITY",
        "CREATE TRIGGER t BEFORE INSERT ON table_service.access_policies EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    ] {
        user.sql(statement).fails_in_postgres("42501");
    }
}

#[test]
fn a_role_without_privileges_neither_sees_nor_sets_policies() {
    let Guarded {
        user,
        table_owner,
        db: _db,
        ..
    } = guarded();
    user.sql(GET).fails_with("42501", "AuthorizationFailure");
    user.sql(SET).fails_with("42501", "AuthorizationFailure");
    user.sql("SELECT table_service.set_access_policies('Guarded', '[]')")
        .fails_with("42501", "AuthorizationFailure");
    assert!(user.run("SELECT * FROM table_service.access_policies").is_empty());
    cannot_write_directly(&user);
    user.sql("SELECT table_service.delete_table('Guarded')")
        .fails_in_postgres("42501");
    assert_eq!(table_owner.text(GET), POLICIES);
}

#[test]
fn roles_with_privileges_on_the_entities_see_the_policies() {
    for right in ["SELECT", "INSERT", "UPDATE", "DELETE"] {
        let Guarded {
            user,
            role,
            table_owner,
            db: _db,
            ..
        } = guarded();
        table_owner.run(&format!("GRANT {right} ON table_service_data.\"Guarded\" TO {role}"));
        assert_eq!(user.text(GET), POLICIES, "{right}");
        assert_eq!(
            user.run("SELECT relation FROM table_service.access_policies").len(),
            1,
            "{right}"
        );
        user.sql(SET).fails_with("42501", "AuthorizationFailure");
        cannot_write_directly(&user);
    }
}

#[test]
fn the_owner_and_who_has_its_rights_set_policies() {
    let guarded = guarded();
    let superuser = guarded.db.session("superuser");
    superuser.run(&format!(
        "DO $$ BEGIN EXECUTE format('GRANT %I TO %I', (SELECT tableowner FROM pg_tables WHERE tablename = 'Guarded'), '{}'); END $$",
        guarded.role
    ));
    for session in [&guarded.user, &guarded.table_owner, &superuser] {
        session.run("SELECT table_service.set_access_policies('Guarded', '[]')");
        assert_eq!(session.text(GET), "[]");
        session.run(SET);
        assert_eq!(session.text(GET), "[{\"Id\":\"new\"}]");
    }
    // The database's owner is not the table's.
    guarded
        .database_owner
        .sql(SET)
        .fails_with("42501", "AuthorizationFailure");
}

#[test]
fn settings_of_the_session_do_not_matter() {
    let Guarded {
        table_owner, db: _db, ..
    } = guarded();
    table_owner.run(
        "CREATE TEMP TABLE access_policies (relation regclass PRIMARY KEY, policies jsonb);
        CREATE FUNCTION pg_temp.has_table_privilege(oid, text) RETURNS boolean LANGUAGE sql RETURN false;
        SET search_path = pg_temp; SET row_security = off",
    );
    assert_eq!(table_owner.text(GET), POLICIES);
    table_owner.run(SET);
    assert_eq!(table_owner.text(GET), "[{\"Id\":\"new\"}]");
    assert_eq!(table_owner.text("SHOW row_security"), "off");
    table_owner.run("SELECT table_service.delete_table('Guarded')");
    table_owner.run("SELECT table_service.create_table('Guarded')");
    assert_eq!(table_owner.text(GET), "[]");
}

#[test]
fn service_properties_are_the_database_owners() {
    let Guarded {
        user,
        role,
        database_owner,
        db: _db,
        ..
    } = guarded();
    database_owner.run(PROPERTIES);
    let expected = database_owner.text("SELECT table_service.get_service_properties()");
    assert_eq!(user.text("SELECT table_service.get_service_properties()"), expected);
    user.sql(PROPERTIES).fails_in_postgres("42501");
    user.sql("DELETE FROM table_service.service_properties")
        .fails_in_postgres("42501");
    database_owner.run(&format!(
        "GRANT INSERT, UPDATE ON table_service.service_properties TO {role}"
    ));
    user.run(PROPERTIES);
}
