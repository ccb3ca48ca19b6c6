//! The gateway's statements only call functions of the SQL API, and all of these exist.

use system_tests::gateway::{program, url};
use system_tests::planted;
use system_tests::{Cluster, Database};
use table_service_explorer::{CALLS, EXPORTED};
use table_service_gateway::database::{LIBRARY, Statement};
use table_service_model::extension::LOOK;

/// The functions that a statement calls.
fn functions(sql: &str) -> Vec<String> {
    let words: Vec<&str> = sql
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '('))
        .collect();
    let mut functions = Vec::new();
    for word in words {
        if let Some((name, _)) = word.split_once('(') {
            functions.push(name.to_owned());
        }
    }
    functions
}

#[test]
fn every_statement_is_a_call_of_the_sql_api() {
    let database = Database::new();
    let session = database.session("catalog");
    for statement in Statement::ALL {
        let sql = statement.sql();
        let called = functions(sql);
        assert!(!called.is_empty(), "{sql}");
        for function in called {
            let name = function
                .strip_prefix("table_service.")
                .unwrap_or_else(|| panic!("{sql}"));
            let is_api: bool = session.value(
                "SELECT EXISTS (SELECT FROM pg_proc AS p JOIN pg_depend AS d ON d.objid = p.oid AND d.deptype = 'e'
                 WHERE p.pronamespace = 'table_service'::regnamespace AND p.proname = $1)",
                &[&name],
            );
            assert!(is_api, "{sql}");
        }
        // It names no relation, and no other schema but for types.
        let rest = sql.replace("::pg_catalog.", "").to_lowercase();
        assert!(!rest.contains("table_service_data") && !rest.contains("pg_"), "{sql}");
        // It has the parameters and the columns of the function.
        session.run(&format!("PREPARE s AS {sql}; DEALLOCATE s"));
    }
    assert_eq!(session.run(LOOK)[0][1], None);
}

/// A database with an owner that is no superuser, and that owner.
fn of_an_owner(name: &str) -> (Database, String) {
    Cluster::shared()
        .session()
        .run(&format!("CREATE ROLE {name} LOGIN NOSUPERUSER"));
    let database = Database::with(&format!("OWNER {name}"));
    let owner = database.session_as(name, "owner");
    owner.run("CREATE EXTENSION table_service; SELECT table_service.create_table('Orders')");
    (database, name.to_owned())
}

#[test]
fn no_statement_calls_what_the_owner_of_the_database_has_planted() {
    let (database, owner) = of_an_owner("planter");
    let session = database.session("caller");
    planted::plant(&database.session_as(&owner, "owner"));
    let of_tables = Statement::ALL
        .into_iter()
        .filter(|statement| statement.sql().contains("($1::pg_catalog.text"));
    let held = |statement: Statement| {
        let count = (1..)
            .take_while(|number| statement.sql().contains(&format!("${number}::")))
            .count();
        statement.sql_of_held(count + 1)
    };
    let held: Vec<String> = of_tables.map(held).collect();
    let explorer = CALLS.iter().map(|call| call.sql).chain([EXPORTED]);
    for sql in Statement::ALL
        .map(Statement::sql)
        .into_iter()
        .chain([LIBRARY])
        .chain(explorer)
        .chain(held.iter().map(String::as_str))
    {
        session.run(&format!("PREPARE s AS {sql}"));
        let count = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 's'";
        let nulls = vec!["NULL"; session.text(count).parse().unwrap()].join(", ");
        let call = if nulls.is_empty() {
            "EXECUTE s".to_owned()
        } else {
            format!("EXECUTE s({nulls})")
        };
        // It may refuse the NULLs.
        if let Err(failure) = session.sql(&call) {
            assert_ne!(failure.message, "planted", "{sql}");
        }
        assert!(!planted::has_run(&session), "{sql}");
        session.run("DEALLOCATE s");
    }
    // They would be found.
    let failure = session
        .sql("SELECT table_service.create_table(1::numeric, false)")
        .unwrap_err();
    assert_eq!(failure.message, "planted");
    assert!(planted::has_run(&session));
}

#[test]
fn a_schema_in_the_place_of_the_extensions_is_refused() {
    let (database, owner) = of_an_owner("exchanger");
    let session = database.session_as(&owner, "owner");
    let refuses = |stranger: &str| {
        let url = url(database.cluster(), database.name(), "postgres");
        let gateway = program(&["--listen", "127.0.0.1:0", "--database-url", &url])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&gateway.stderr).into_owned();
        assert!(!gateway.status.success(), "{said}");
        assert!(
            said.contains(&format!("the {stranger} of the database is not of the extension")),
            "{said}"
        );
    };
    // A member of the extension that is not in C.
    session.run(
        "CREATE FUNCTION table_service.helper() RETURNS integer LANGUAGE sql AS 'SELECT 1';
        ALTER EXTENSION table_service ADD FUNCTION table_service.helper()",
    );
    refuses("function table_service.helper()");
    session.run("ALTER EXTENSION table_service DROP FUNCTION table_service.helper()");
    // One that makes calls ambiguous.
    session.run(
        "CREATE FUNCTION table_service.get_service_properties(integer DEFAULT 0) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    );
    refuses("function table_service.get_service_properties(integer)");
    session.run("DROP FUNCTION table_service.get_service_properties(integer)");
    planted::exchange_schema(&session);
    refuses("schema table_service");
    assert!(!planted::has_run(&session));
}
