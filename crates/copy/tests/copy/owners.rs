//! The owners of code that runs with the rights of the program: none of them gains something by it.

use system_tests::{Cluster, Database, Session, planted, wait_until};

use crate::program::{database_url, ends_with, file, quietly, succeeds, text, verifying};

/// A role, and a schema of its own with functions that count how often they run.
fn tenant(database: &Database, session: &Session) -> String {
    let role = database.role("tenant");
    session.run(&format!(
        "CREATE SCHEMA tenant AUTHORIZATION {role}; GRANT CREATE ON SCHEMA table_service_data TO {role};
        ALTER DATABASE {} SET track_functions = 'all'",
        database.name()
    ));
    database.session_as(&role, "tenant").run(
        "CREATE FUNCTION tenant.f(x text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN x; END';
        CREATE FUNCTION tenant.is_same(x text, y text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN x = y; END';
        CREATE OPERATOR tenant.=== (LEFTARG = text, RIGHTARG = text, FUNCTION = tenant.is_same);
        CREATE FUNCTION tenant.t() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RETURN CASE WHEN TG_OP = ''DELETE'' THEN OLD ELSE NEW END; END';
        CREATE TABLE tenant.parents (p text COLLATE \"C\" PRIMARY KEY); INSERT INTO tenant.parents VALUES ('p')",
    );
    role
}

/// How often functions of the tenant have run, once no session of the program is left.
fn calls(session: &Session) -> i64 {
    wait_until("its sessions have ended", || {
        session.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'table-service-copy'") == "0"
    });
    session.value(
        "SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_user_functions WHERE schemaname = 'tenant'",
        &[],
    )
}

/// Where PostgreSQL keeps code of others than the owner of a table, which is a superuser here. `{}` is the table.
const CODE: &[(&str, &str)] = &[
    ("Expressions", "CREATE INDEX ON {} (tenant.f(row_key))"),
    ("Predicates", "CREATE INDEX ON {} (row_key) WHERE tenant.f('a') = 'a'"),
    ("Operators", "CREATE INDEX ON {} ((row_key OPERATOR(tenant.===) 'a'))"),
    (
        "Policies",
        "ALTER TABLE {} ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON {} USING (tenant.f(row_key) <> '')",
    ),
    (
        "Triggers",
        "CREATE TRIGGER t BEFORE INSERT OR DELETE ON {} FOR EACH ROW EXECUTE FUNCTION tenant.t()",
    ),
    ("Checks", "ALTER TABLE {} ADD CHECK (tenant.f(row_key) IS NOT NULL)"),
    ("Defaults", "ALTER TABLE {} ALTER row_key SET DEFAULT tenant.f('')"),
    (
        "Statistics",
        "CREATE STATISTICS table_service_data.s ON (tenant.f(row_key)), (tenant.f(partition_key)) FROM {}",
    ),
    ("Rules", "CREATE RULE r AS ON DELETE TO {} DO ALSO SELECT tenant.f('')"),
    (
        "ForeignKeys",
        "ALTER TABLE {} ADD FOREIGN KEY (partition_key) REFERENCES tenant.parents",
    ),
    (
        "References",
        "GRANT REFERENCES ON {} TO ROLE; GRANT USAGE ON SCHEMA table_service_data TO ROLE; SET ROLE ROLE;
        CREATE TABLE tenant.children (p text COLLATE \"C\", r text COLLATE \"C\",
            FOREIGN KEY (p, r) REFERENCES {} ON DELETE CASCADE);
        CREATE TRIGGER t BEFORE DELETE ON tenant.children FOR EACH ROW EXECUTE FUNCTION tenant.t(); RESET ROLE",
    ),
    (
        "Owners",
        "CREATE INDEX ON {} (tenant.f(row_key)); ALTER TABLE {} OWNER TO ROLE",
    ),
];

const ENTITY: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"new\"}\n";

#[test]
fn code_of_others_runs_only_if_the_user_trusts_them() {
    let database = Database::new();
    let session = database.session("superuser");
    let role = tenant(&database, &session);
    let url = database_url(&database);
    for (table, code) in CODE {
        let relation = format!("table_service_data.\"{table}\"");
        session.run(&format!(
            "SELECT table_service.create_table('{table}'); SELECT table_service.insert_entity('{table}', 'p', 'there', '{{}}')"
        ));
        session.run(
            &code
                .replace("{}", &relation)
                .replace("ROLE ROLE", &format!("ROLE {role}"))
                .replace("TO ROLE", &format!("TO {role}")),
        );
    }
    // A partition of the tenant.
    session.run(&format!(
        "CREATE TABLE table_service_data.\"Partitions\" OF table_service.entity
            (PRIMARY KEY (partition_key, row_key)) PARTITION BY LIST (partition_key);
        CREATE TABLE tenant.part PARTITION OF table_service_data.\"Partitions\" DEFAULT; ALTER TABLE tenant.part OWNER TO {role}"
    ));
    session.run("SELECT pg_stat_reset()");
    let before = calls(&session);
    let tables = CODE.iter().map(|(table, _)| *table).chain(["Partitions"]);
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "begin.jsonl", ENTITY);
    let nowhere = directory.path().join("copied");
    let other = Database::new();
    for table in tables.clone() {
        let only = ["--table", table];
        let there = database_url(&other);
        for arguments in [
            quietly(&url, text(&nowhere), &only),
            quietly(&url, text(&nowhere), &["--table", table, "--dry-run"]),
            quietly(text(&begin), &url, &only),
            quietly(text(&begin), &url, &["--table", table, "--on-conflict", "replace"]),
            quietly(
                &url,
                &there,
                &["--table", table, "--on-conflict", "replace", "--follow", "60"],
            ),
            verifying(text(&begin), &url, &only),
            vec!["count", "--from", &url, "--table", table],
            vec!["delete", "--from", &url, "--table", table, "--filter", "true", "--yes"],
        ] {
            let said = ends_with(1, &arguments);
            assert!(
                said.contains(&format!("belongs to {role}, whose code")) && said.contains("--trust-owners"),
                "{table}: {said}"
            );
        }
    }
    assert_eq!(calls(&session), before);
    // Of the whole database no table is left out silently.
    assert!(ends_with(1, &["count", "--from", &url]).contains(&role));

    let trust = ["--trust-owners", &format!("nobody, {role}")];
    for table in tables {
        let more = ["--table", table, "--on-conflict", "replace"];
        succeeds(&quietly(text(&begin), &url, &[&more[..], &trust].concat()));
        let counted = succeeds(&[&["count", "--from", &url, "--table", table][..], &trust].concat());
        assert!(counted.contains(" entities"), "{counted}");
    }
    succeeds(&["count", "--from", &url, "--trust-owners", "all"]);
    assert!(calls(&session) > before, "what the test has planted would run");
}

/// The owner of a table runs only its own code. An owner that may become the role that connects needs no trust either:
/// it has the rights of that role anyway.
#[test]
fn the_own_tables_need_no_trust() {
    let database = Database::new();
    let session = database.session("superuser");
    let role = tenant(&database, &session);
    let own = database.session_as(&role, "tenant");
    own.run(
        "SELECT table_service.create_table('Own'); SELECT table_service.insert_entity('Own', 'p', 'r', '{}');
        CREATE INDEX ON table_service_data.\"Own\" (tenant.f(row_key))",
    );
    let url = database_url(&database).replace("postgres@", &format!("{role}@"));
    assert!(succeeds(&["count", "--from", &url]).contains("Own: 1 entities"));
    // A role that may become the other one gains nothing, and the other one may not become it.
    let group = database.role("group");
    session.run(&format!(
        "GRANT {group} TO {role}; GRANT SELECT ON table_service_data.\"Own\" TO {group}"
    ));
    let member = database_url(&database).replace("postgres@", &format!("{group}@"));
    assert!(succeeds(&["count", "--from", &member]).contains("Own: 1 entities"));
    let above = database.role("above");
    session.run(&format!("GRANT {role} TO {above}"));
    let above = database_url(&database).replace("postgres@", &format!("{above}@"));
    assert!(ends_with(1, &["count", "--from", &above]).contains(&format!("--trust-owners {role}")));
}

/// A database with an owner that is no superuser.
fn of_an_owner(name: &str) -> Database {
    Cluster::shared()
        .session()
        .run(&format!("CREATE ROLE {name} LOGIN NOSUPERUSER"));
    let database = Database::with(&format!("OWNER {name}"));
    database.session_as(name, "owner").run(
        "CREATE EXTENSION table_service; SELECT table_service.create_table('Orders');
        SELECT table_service.insert_entity('Orders', 'p', 'r', '{}')",
    );
    database
}

/// The owner of a database can replace the functions of the extension at any moment.
#[test]
fn a_superuser_trusts_the_owner_of_a_database_only_by_name() {
    let database = of_an_owner("copy_owner");
    let url = database_url(&database);
    let said = ends_with(1, &["count", "--from", &url]);
    assert!(
        said.contains(&format!("the database {} belongs to copy_owner", database.name())),
        "{said}"
    );
    succeeds(&["count", "--from", &url, "--trust-owners", "copy_owner"]);
    succeeds(&["count", "--from", &url.replace("postgres@", "copy_owner@")]);
    // Others use the functions that the owner has installed anyway.
    let role = database.role("reader");
    database.session("superuser").run(&format!(
        "SET ROLE copy_owner; GRANT SELECT ON table_service_data.\"Orders\" TO {role}"
    ));
    let reader = url.replace("postgres@", &format!("{role}@"));
    succeeds(&["count", "--from", &reader]);
}

#[test]
fn no_call_runs_what_stands_beside_the_functions_of_the_extension() {
    let database = of_an_owner("copy_planter");
    let session = database.session("superuser");
    planted::plant(&database.session_as("copy_planter", "owner"));
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Orders.jsonl", ENTITY);
    let (begin, url, target) = (text(&begin), database_url(&database), Database::new());
    let to = database_url(&target);
    let trust = ["--trust-owners", "copy_planter"];
    let run = |arguments: &[&str]| succeeds(&[arguments, &trust].concat());
    for way in ["skip", "replace", "merge", "newer"] {
        run(&quietly(begin, &url, &["--on-conflict", way, "--with-policies"]));
    }
    run(&quietly(&url, &to, &["--with-policies", "--verify"]));
    run(&quietly(&url, &to, &["--on-conflict", "newer", "--follow", "60"]));
    run(&verifying(&url, &to, &["--timestamps"]));
    run(&["count", "--from", &url, "--filter", "RowKey gt 'a'"]);
    run(&[
        "delete",
        "--from",
        &url,
        "--table",
        "Orders",
        "--filter",
        "RowKey eq 'new'",
        "--yes",
    ]);
    assert!(!planted::has_run(&session));
    planted::exchange_schema(&database.session_as("copy_planter", "owner"));
    let said = ends_with(1, &["count", "--from", &url, "--trust-owners", "all"]);
    assert!(
        said.contains("the schema table_service of the database is not of the extension"),
        "{said}"
    );
}
