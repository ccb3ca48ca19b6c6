//! How the program takes its settings, and how it ends if they are wrong.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use clap::{Arg, CommandFactory};
use system_tests::Database;
use table_service_gateway::config::CommandLine;

use crate::gateway::{Gateway, program, url};

/// The exit status of a program that does not start, and its messages.
fn ends(program: &mut Command) -> (Option<i32>, String) {
    let ended = program.output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[test]
fn an_empty_variable_is_an_unset_setting() {
    let command = CommandLine::command();
    let variables: Vec<_> = command.get_arguments().filter_map(Arg::get_env).collect();
    assert!(variables.len() > 20, "{variables:?}");
    let empty = variables.iter().map(|name| (name, ""));
    let (_, said) = ends(program(&["--database-url", "nonsense"]).envs(empty));
    assert!(
        said.starts_with("table-service-gateway: database_url (--database-url"),
        "{said}"
    );
}

/// A service manager does not start it again, because only the operator can mend that.
#[test]
fn wrong_settings_have_an_exit_status_of_their_own() {
    let unit = include_str!("../../../../packaging/table-service-gateway.service");
    assert!(unit.contains("\nRestart=on-failure\n") && unit.contains("\nRestartPreventExitStatus=2\n"));
    for (arguments, says) in [
        (
            &[][..],
            "there is no account yet. Write one into the configuration file",
        ),
        (&["--config", "/dev/null"], "[[accounts]]"),
        (&["--pool-size", "x"], "for '--pool-size <NUMBER>'"),
        (&["--config", "/nonexistent"], "/nonexistent"),
        (
            &["--database-url", "postgresql://localhost/d", "--pool-size", "0"],
            "pool_size",
        ),
    ] {
        let (status, said) = ends(&mut program(arguments));
        assert!(status == Some(2) && said.contains(says), "{status:?} {said}");
    }
}

/// The services have no rights that they do not need.
#[test]
fn services_are_confined() {
    for unit in [
        include_str!("../../../../packaging/table-service-gateway.service"),
        include_str!("../../../../deploy/archive/table-service-archive.service"),
        include_str!("../../../../deploy/archive/table-service-archive-verify.service"),
    ] {
        for line in [
            "CapabilityBoundingSet=",
            "NoNewPrivileges=yes",
            "ProtectProc=invisible",
            "SystemCallArchitectures=native",
            "UMask=0077",
        ] {
            assert!(unit.lines().any(|found| found == line), "{line}: {unit}");
        }
    }
}

/// The state of the service shows the databases that it waits for, also long after its start.
#[test]
fn a_database_that_cannot_be_used_is_told_as_long_as_it_is_so() {
    let database = Database::new();
    let missing = format!("{}_missing", database.name());
    let url = url(database.cluster(), &missing, "postgres");
    let socket = std::env::temp_dir().join(format!("gateway-notify-{}", std::process::id()));
    let manager = UnixDatagram::bind(&socket).unwrap();
    let said = || {
        let mut bytes = [0; 4096];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let gateway = Gateway::start_by(
        &["env", &format!("NOTIFY_SOCKET={}", socket.display())],
        "127.0.0.1:0",
        &["--database-url", &url],
    );
    let problem = format!("database \"{missing}\" does not exist");
    let told = said();
    assert!(
        told.starts_with("READY=1\nSTATUS=Waiting for databases: devstoreaccount1, ") && told.contains(&problem),
        "{told}"
    );
    gateway.waits_for_log("waiting for the database, which could not be used since the start");
    for _ in 0..2 {
        let ready = gateway.admin("/ready").expect(503);
        assert!(ready.text().contains(&problem), "{}", ready.text());
    }
    let session = database.cluster().session();
    session.run(&format!(
        "CREATE DATABASE \"{missing}\" TEMPLATE \"{}\"",
        database.name()
    ));
    assert_eq!(said(), "READY=1\nSTATUS=Serving all accounts");
    gateway.waits_for_log("the database can be reached again");
    gateway.client().get("Tables").expect(200);
    std::fs::remove_file(socket).unwrap();
}

/// The other program may end.
#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let database = Database::new();
    let url = url(database.cluster(), database.name(), "postgres");
    let (status, said) = ends(&mut program(&["--database-url", &url, "--listen", &address]));
    let says = format!("cannot listen on {address}: ");
    assert!(
        said.contains(&says) && said.contains("Another program listens there: end it, or choose another port"),
        "{said}"
    );
    assert_eq!(status, Some(1));
}
