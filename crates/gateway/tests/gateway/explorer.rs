//! The explorer at the level of bytes and of statements. A browser drives it in tests/explorer.

use crate::gateway::{Service, program, url};
use system_tests::Database;
use table_service_gateway::explorer::{CALLS, EXPORTS};

#[test]
fn every_call_is_a_statement_that_the_database_knows() {
    let database = Database::new();
    let session = database.session("catalog");
    let calls = CALLS.iter().map(|call| (call.sql, call.parameters.len()));
    for (sql, parameters) in calls.chain(EXPORTS.map(|sql| (sql, 4))) {
        session.run(&format!("PREPARE s AS {sql}"));
        let types: i32 = session.value(
            "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 's'",
            &[],
        );
        assert_eq!(usize::try_from(types), Ok(parameters), "{sql}");
        // It reaches tables through the SQL API only.
        assert!(!sql.contains("table_service_data"), "{sql}");
        session.run("DEALLOCATE s");
    }
}

#[test]
fn the_explorer_is_for_this_machine() {
    let database = Database::new();
    let url = url(database.cluster(), database.name(), "postgres");
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"];
    let mut gateway = program(&listen);
    let started = gateway
        .args(["--database-url", &url, "--explorer", "read"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(!started.status.success());
    assert!(
        said.contains("explorer (--explorer, TABLE_SERVICE_EXPLORER, or explorer in the configuration file): 0.0.0.0:0 can be reached")
            && said.contains("ssh -L"),
        "{said}"
    );
}

#[test]
fn the_explorer_is_off_unless_it_is_wanted() {
    let service = Service::start();
    service.gateway.admin("/explorer").expect(404);
    service.gateway.admin("/explorer/api").expect(404);
}

#[test]
fn the_address_is_printed_on_terminals_only() {
    let service = Service::with(&["--explorer", "write"]);
    service.gateway.admin("/explorer").expect(200);
    let told = "name a file for it with --explorer-address-file";
    system_tests::wait_until("the log says so", || service.gateway.log().contains(told));
    assert!(!service.gateway.log().contains("token="));
}
