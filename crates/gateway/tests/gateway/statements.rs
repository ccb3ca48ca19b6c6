//! The gateway's statements only call functions of the SQL API, and all of these exist.

use system_tests::Database;
use table_service_gateway::database::{READY, Statement};

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
        let [function] = &called[..] else {
            panic!("{sql}: {called:?}");
        };
        let name = function
            .strip_prefix("table_service.")
            .unwrap_or_else(|| panic!("{sql}"));
        let is_api: bool = session.value(
            "SELECT EXISTS (SELECT FROM pg_proc AS p JOIN pg_depend AS d ON d.objid = p.oid AND d.deptype = 'e'
             WHERE p.pronamespace = 'table_service'::regnamespace AND p.proname = $1)",
            &[&name],
        );
        assert!(is_api, "{sql}");
        // It names no relation and no other schema.
        assert!(
            !sql.contains("table_service_data") && !sql.to_lowercase().contains("pg_"),
            "{sql}"
        );
        // It has the parameters and the columns of the function.
        session.run(&format!("PREPARE s AS {sql}; DEALLOCATE s"));
    }
    assert!(READY.contains("pg_extension"));
    session.run(READY);
}
