//! Databases of every earlier version, with this library: before ALTER EXTENSION … UPDATE, and after it.
//!
//! `sql/releases` has the install script of each version. Tests with the libraries of these versions are in `tests/upgrade`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use system_tests::{Database, Expect, Session};

const CATALOG: &str = include_str!("../../../upgrade/catalog.sql");
const DATA: &str = include_str!("../../../upgrade/data.sql");
const ANSWERS: &str = concat!(
    include_str!("../../../upgrade/answers.sql"),
    include_str!("../../../upgrade/definitions.sql"),
    include_str!("../../../upgrade/matches.sql")
);

fn releases() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql/releases");
    let release = |name: &str| Some(name.strip_prefix("table_service--")?.strip_suffix(".sql")?.to_owned());
    let mut releases: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .filter_map(|entry| release(entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    releases.sort();
    assert!(!releases.is_empty());
    releases
}

/// A database of the role `owner`, with that version of the extension.
fn database_of(owner: &str, version: Option<&str>) -> (Database, Session) {
    let db = Database::empty();
    db.session("superuser")
        .run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
    let session = db.session_as(owner, "owner");
    let version = version.map_or(String::new(), |version| format!("VERSION '{version}'"));
    session.run(&format!("CREATE EXTENSION table_service {version}"));
    (db, session)
}

/// Object, property and value of everything that belongs to the extension.
fn catalog(db: &Database) -> BTreeSet<(String, String, String)> {
    // As another user than the owner, and with no schema on the path, so that names have their schemas.
    let session = db.session("catalog");
    session.run("SET search_path = ''");
    let rows = session.run(CATALOG);
    let rows: BTreeSet<_> = rows
        .into_iter()
        .map(|row| {
            let mut values = row.into_iter().map(Option::unwrap);
            let mut next = || values.next().unwrap();
            (next(), next(), next())
        })
        .collect();
    assert!(rows.len() > 500, "the catalog has only {} rows", rows.len());
    rows
}

/// Each property that two catalogs do not have in common, with the name of its object.
fn differences(one: &Database, one_name: &str, other: &Database, other_name: &str) -> Vec<String> {
    let (one, other) = (catalog(one), catalog(other));
    let only = |these: &BTreeSet<(String, String, String)>, those: &BTreeSet<_>, name: &str| -> Vec<String> {
        these
            .difference(those)
            .map(|(object, property, value)| format!("{object}: {property}, only in {name}: {value}"))
            .collect()
    };
    let mut differences = only(&one, &other, one_name);
    differences.extend(only(&other, &one, other_name));
    differences.sort();
    differences
}

#[test]
fn an_upgraded_database_has_the_catalog_of_a_new_one() {
    let roles = Database::empty();
    let owner = roles.role("owner");
    let (new, _) = database_of(&owner, None);
    for release in releases() {
        let (upgraded, session) = database_of(&owner, Some(&release));
        session.run("ALTER EXTENSION table_service UPDATE");
        let differences = differences(&upgraded, "the upgraded one", &new, "the new one");
        assert!(
            differences.is_empty(),
            "A database that was upgraded from {release} is not like a new one. The upgrade script in sql/ lacks a statement:\n{}",
            differences.join("\n")
        );
        drop(session);
    }
    drop(new);
}

#[test]
fn every_kind_of_difference_is_found() {
    let changes = [
        (
            "CREATE FUNCTION table_service.extra() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER EXTENSION table_service ADD FUNCTION table_service.extra()",
            "function table_service.extra()",
        ),
        (
            "ALTER FUNCTION table_service.ticks(timestamptz) CALLED ON NULL INPUT",
            "function table_service.ticks(timestamp with time zone): definition",
        ),
        (
            "ALTER FUNCTION table_service.ticks(timestamptz) COST 7",
            "function table_service.ticks(timestamp with time zone): definition",
        ),
        (
            "REVOKE EXECUTE ON FUNCTION table_service.ticks(timestamptz) FROM PUBLIC",
            "function table_service.ticks(timestamp with time zone): privileges",
        ),
        (
            "ALTER FUNCTION table_service.ticks(timestamptz) OWNER TO pg_monitor",
            "function table_service.ticks(timestamp with time zone): owner",
        ),
        (
            "ALTER EXTENSION table_service DROP FUNCTION table_service.ticks(timestamptz)",
            "function table_service.ticks(timestamp with time zone)",
        ),
        (
            "COMMENT ON TYPE table_service.entity IS 'other'",
            "type table_service.entity: comment",
        ),
        (
            "ALTER TYPE table_service.batch_operation ADD ATTRIBUTE more text",
            "composite type table_service.batch_operation: column 5",
        ),
        (
            "ALTER TYPE table_service.properties SET (STORAGE = main)",
            "type table_service.properties: typstorage",
        ),
        (
            "CREATE POLICY other ON table_service.access_policies USING (true)",
            "policy other on table_service.access_policies: definition",
        ),
        (
            "ALTER POLICY readable ON table_service.access_policies USING (true)",
            "policy readable on table_service.access_policies: definition",
        ),
        (
            "ALTER TABLE table_service.access_policies DISABLE ROW LEVEL SECURITY",
            "table table_service.access_policies: row-level security",
        ),
        (
            "GRANT INSERT ON table_service.access_policies TO PUBLIC",
            "table table_service.access_policies: privileges",
        ),
        (
            "ALTER TABLE table_service.access_policies ALTER policies DROP NOT NULL",
            "table table_service.access_policies: column 2",
        ),
        (
            "GRANT CREATE ON SCHEMA table_service_data TO PUBLIC",
            "schema table_service_data: privileges",
        ),
        (
            "ALTER OPERATOR table_service.? (table_service.properties, text) SET (RESTRICT = eqsel)",
            "operator table_service.?(table_service.properties,pg_catalog.text): definition",
        ),
        (
            "UPDATE pg_catalog.pg_extension SET extcondition = ARRAY['', ''] WHERE extname = 'table_service'",
            "extension table_service: tables that a dump has",
        ),
    ];
    let new = Database::new();
    let changed = Database::new();
    let session = changed.session("s");
    for (change, object) in changes {
        session.run("BEGIN");
        session.run(change);
        session.run("COMMIT");
        let differences = differences(&changed, "the changed one", &new, "the new one");
        assert!(
            differences.iter().any(|difference| difference.starts_with(object)),
            "{change}: not found in {differences:#?}"
        );
        session.run("DROP EXTENSION table_service; DROP FUNCTION IF EXISTS table_service.ticks; DROP SCHEMA IF EXISTS table_service CASCADE; CREATE EXTENSION table_service");
    }
}

#[test]
fn this_library_works_with_the_objects_of_every_release() {
    let new = Database::new();
    let expected = {
        let session = new.session("new");
        session.run(DATA);
        session.run(ANSWERS)
    };
    for release in releases() {
        let db = Database::empty();
        let before = db.session("before");
        before.run(&format!("CREATE EXTENSION table_service VERSION '{release}'"));
        before.run(DATA);
        assert_eq!(before.run(ANSWERS), expected, "objects of {release}");
        db.session("update").run("ALTER EXTENSION table_service UPDATE");
        assert_eq!(
            before.run(ANSWERS),
            expected,
            "a session that was open while {release} was upgraded"
        );
        assert_eq!(db.session("after").run(ANSWERS), expected, "upgraded from {release}");
    }
}

#[test]
fn a_dump_of_every_release_is_restored_into_this_one() {
    let new = Database::new();
    let expected = {
        let session = new.session("new");
        session.run(DATA);
        session.run(ANSWERS)
    };
    for release in releases() {
        let db = Database::empty();
        let session = db.session("dumped");
        session.run(&format!("CREATE EXTENSION table_service VERSION '{release}'"));
        session.run(DATA);
        let dump = db.program("pg_dump", &[], b"").unwrap();
        let restored = Database::empty();
        restored
            .program("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1"], &dump)
            .unwrap();
        let session = restored.session("restored");
        let version = "SELECT extversion FROM pg_extension WHERE extname = 'table_service'";
        assert_eq!(session.text(version), env!("CARGO_PKG_VERSION"));
        assert_eq!(session.run(ANSWERS), expected, "restored from {release}");
        assert_eq!(
            differences(&restored, "the restored one", &new, "the new one"),
            Vec::<String>::new()
        );
    }
}

#[test]
fn a_schema_that_others_control_is_not_upgraded() {
    let db = Database::empty();
    let session = db.session("superuser");
    let stranger = db.role("stranger");
    session.run("CREATE EXTENSION table_service VERSION '0.1.0'");
    session.run(&format!("GRANT CREATE ON SCHEMA table_service TO {stranger}"));
    let update = "ALTER EXTENSION table_service UPDATE TO '0.2.0'";
    let failure = session.sql(update).fails_in_postgres("55000");
    assert_eq!(
        failure.message,
        "others may create objects in the schema \"table_service\""
    );
    session.run(&format!(
        "REVOKE CREATE ON SCHEMA table_service FROM {stranger}; ALTER SCHEMA table_service OWNER TO {stranger}"
    ));
    let failure = session.sql(update).fails_in_postgres("42501");
    assert_eq!(
        failure.message,
        "schema \"table_service\" belongs to a role that could change what others run"
    );
    session.run("ALTER SCHEMA table_service OWNER TO postgres");
    session.run(update);
}

/// Objects that a role planted in the schema before it was the extension's stay when its rights are taken away. An upgrade
/// names them, whichever version it comes from.
#[test]
fn a_schema_with_objects_of_others_is_not_upgraded() {
    for version in releases() {
        let db = Database::empty();
        let session = db.session("superuser");
        let stranger = db.role("stranger");
        session.run(&format!(
            "CREATE EXTENSION table_service VERSION '{version}'; GRANT CREATE ON SCHEMA table_service TO {stranger}"
        ));
        db.session_as(&stranger, "stranger").run(
            "CREATE FUNCTION table_service.insert_entity(text, text, text, jsonb) RETURNS text LANGUAGE sql AS $$ SELECT 'planted' $$;
             CREATE DOMAIN table_service.planted_domain AS text;
             CREATE TABLE table_service.citus_anchor_1 ();
             CREATE VIEW table_service.planted_view AS SELECT 1 AS a",
        );
        session.run(&format!("REVOKE CREATE ON SCHEMA table_service FROM {stranger}"));
        let update = "ALTER EXTENSION table_service UPDATE";
        let failure = session.sql(update).fails_in_postgres("55000");
        for name in [
            "function insert_entity(text,text,text,jsonb)",
            "type planted_domain",
            "table citus_anchor_1",
            "view planted_view",
        ] {
            assert!(failure.message.contains(name), "{name}: {failure:?}");
        }
        session.run(
            "DROP FUNCTION table_service.insert_entity(text, text, text, jsonb);
             DROP VIEW table_service.planted_view;
             DROP TABLE table_service.citus_anchor_1;
             ALTER DOMAIN table_service.planted_domain SET SCHEMA public",
        );
        // enable_citus gives service_properties to the owner of the database, and Citus its shards.
        let owner = db.role("owner");
        session.run(&format!("ALTER DATABASE {} OWNER TO {owner}", db.name()));
        session.run(&format!(
            "CREATE TABLE table_service.service_properties_1 (); ALTER TABLE table_service.service_properties_1 OWNER TO {owner}"
        ));
        session.run(update);
    }
}

#[test]
fn an_upgrade_names_the_tables_that_have_one_name() {
    for version in releases() {
        let db = Database::empty();
        let session = db.session("superuser");
        session.run(&format!("CREATE EXTENSION table_service VERSION '{version}'"));
        // Since 0.5.0 such tables are made only where it does not run.
        if version.as_str() >= "0.5.0" {
            session.run("ALTER EVENT TRIGGER table_service_definitions DISABLE");
        }
        let of_entity = "OF table_service.entity (PRIMARY KEY (partition_key, row_key))";
        session.run(&format!(
            "CREATE TABLE table_service_data.\"Orders\" {of_entity}; CREATE TABLE table_service_data.orders {of_entity};
             CREATE TABLE table_service_data.\"Tables\" {of_entity}; CREATE TABLE table_service_data.\"Staff\" {of_entity}"
        ));
        session.run("ALTER EXTENSION table_service UPDATE");
        let names = "names that differ in case only, or that are reserved: \"Orders\", orders; \"Tables\"";
        let log = db.cluster().log();
        let mut warnings = log
            .lines()
            .filter(|line| line.contains(db.name()) && line.contains("WARNING"));
        let warning = warnings.next().unwrap_or_default();
        assert!(warning.ends_with(names), "{version}: {warning}");
        assert_eq!(session.text("SELECT table_service.count_entities('staff')"), "0");
        session
            .sql("SELECT table_service.count_entities('Orders')")
            .fails_in_postgres("42P09");
    }
}
