//! The names of relations in `table_service_data`: the conflicts of roles and sessions over them, and those that the event trigger prevents.
//! `tests/pg_regress/sql/names.sql` has every statement, `tests/isolation/specs/names.spec` sessions at once.

use system_tests::{Database, Expect, Session};

/// A database with a table of its owner, and a role that may create relations beside it.
fn table_and_stranger() -> (Database, Session, Session) {
    let db = Database::new();
    let role = db.role("stranger");
    let superuser = db.session("superuser");
    superuser.run(&format!(
        "GRANT CREATE ON SCHEMA table_service_data TO {role};
         SELECT table_service.create_table('Orders'), table_service.insert_entity('Orders', 'p', 'r', '{{\"A\": 1}}')"
    ));
    let stranger = db.session_as(&role, "stranger");
    stranger.run(
        "CREATE TABLE table_service_data.mine OF table_service.entity (PRIMARY KEY (partition_key, row_key));
         GRANT ALL ON table_service_data.mine TO PUBLIC",
    );
    (db, superuser, stranger)
}

const RENAME: &str = "ALTER TABLE table_service_data.mine RENAME TO orders";

#[test]
fn no_relation_of_a_stranger_takes_the_name_of_a_table() {
    let (db, superuser, stranger) = table_and_stranger();
    for statement in [
        RENAME,
        "CREATE TABLE table_service_data.orders OF table_service.entity (PRIMARY KEY (partition_key, row_key))",
        "BEGIN; ALTER TABLE table_service_data.mine RENAME TO \"ORDERS\"; COMMIT",
    ] {
        stranger.sql(statement).fails_in_postgres("42P07");
        stranger.run("ROLLBACK");
    }
    // Nor does the trigger yield to the owner of the extension, which owns the database here, or to the stranger.
    let owner = db.role("owner");
    superuser.run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    let owner = db.session_as(&owner, "owner");
    for session in [&stranger, &owner] {
        for statement in [
            "ALTER EVENT TRIGGER table_service_definitions DISABLE",
            "DROP EVENT TRIGGER table_service_definitions",
            "ALTER EXTENSION table_service DROP EVENT TRIGGER table_service_definitions",
            "SET session_replication_role = 'replica'",
        ] {
            session.sql(statement).fails_in_postgres("42501");
        }
    }
    // Its statement holds up only those that want the same name.
    stranger.run("BEGIN; ALTER TABLE table_service_data.mine RENAME TO invoices");
    superuser
        .run("SELECT table_service.create_table('Customers'), table_service.insert_entity('orders', 'p', 'r2', '{}')");
    stranger.run("ROLLBACK");
}

#[test]
fn foreign_tables_that_are_imported_take_no_name() {
    let (db, superuser, _) = table_and_stranger();
    // A server that was built from sources has no other extensions.
    if superuser.text("SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'") == "0" {
        return;
    }
    let cluster = db.cluster();
    superuser.run(&format!(
        "CREATE SCHEMA far; CREATE TABLE far.orders (a int); CREATE TABLE far.free (a int);
         CREATE EXTENSION postgres_fdw;
         CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{}', port '{}', dbname '{}');
         CREATE USER MAPPING FOR CURRENT_USER SERVER loop OPTIONS (user 'postgres')",
        cluster.host(),
        cluster.port(),
        db.name(),
    ));
    let import = "IMPORT FOREIGN SCHEMA far FROM SERVER loop INTO table_service_data";
    superuser.sql(import).fails_in_postgres("42P07");
    superuser.run("ALTER TABLE far.orders RENAME TO other");
    superuser.run(import);
    assert_eq!(superuser.text("SELECT table_service.count_entities('orders')"), "1");
}

#[test]
fn where_the_trigger_does_not_run_nobody_is_served_from_either_table() {
    let (db, superuser, stranger) = table_and_stranger();
    let other = db.session("other");
    let insert = "SELECT table_service.insert_entity('Orders', 'p', 'new', '{}') IS NOT NULL";
    other.run("BEGIN; SELECT table_service.count_entities('Orders'); COMMIT");
    let mut ways = vec![(
        &stranger,
        "ALTER EVENT TRIGGER table_service_definitions DISABLE",
        "ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS",
    )];
    // A setting of superusers since PostgreSQL 17.
    if superuser.text("SELECT count(*) FROM pg_settings WHERE name = 'event_triggers'") == "1" {
        ways.push((&superuser, "SET event_triggers = off", "RESET event_triggers"));
    }
    for (defining, off, on) in ways {
        superuser.run(off);
        defining.run(RENAME);
        superuser.run(on);
        // Neither by the session that has used the table, in the spelling that is stored, nor by others.
        for session in [&other, &superuser, &stranger] {
            for name in ["Orders", "orders"] {
                let failure = session.sql(&insert.replace("Orders", name)).fails_in_postgres("42P09");
                for table in ["\"Orders\"", "\"orders\""] {
                    assert!(failure.hint.contains(table), "{failure:?}");
                }
            }
        }
        // The owner of either ends it.
        stranger.run("ALTER TABLE table_service_data.orders RENAME TO mine");
        assert_eq!(other.text(insert), "t");
        other.run("SELECT table_service.delete_entity('Orders', 'p', 'new')");
    }
}

/// Makes the functions of the extension those of a library that is not there.
fn remove_library(superuser: &Session) {
    superuser.run("UPDATE pg_catalog.pg_proc SET probin = '$libdir/gone' WHERE probin LIKE '%table_service'");
}

#[test]
fn without_the_library_only_definitions_beside_tables_fail() {
    let (db, superuser, _) = table_and_stranger();
    remove_library(&superuser);
    let session = db.session("no library");
    session.run(
        "CREATE TABLE public.other (id bigserial PRIMARY KEY);
         CREATE VIEW public.others AS SELECT * FROM public.other;
         ALTER TABLE public.other RENAME TO another;
         CREATE INDEX ON public.another (id);
         CREATE TEMPORARY TABLE t AS SELECT 1 AS one;
         CREATE TYPE public.pair AS (a int, b int);
         CREATE FUNCTION public.one() RETURNS int LANGUAGE sql RETURN 1;
         ALTER EXTENSION plpgsql ADD FUNCTION public.one();
         ALTER EXTENSION plpgsql DROP FUNCTION public.one()",
    );
    session
        .sql("CREATE TABLE table_service_data.fresh ()")
        .fails_in_postgres("58P01");
    session.run("SET client_min_messages = warning; DROP EXTENSION table_service CASCADE; CREATE TABLE public.last ()");
}
