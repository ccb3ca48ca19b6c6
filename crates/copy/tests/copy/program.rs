//! The program, and ends to copy between.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use raw_http::{ACCOUNT, KEY};
use system_tests::Database;
use system_tests::gateway::{Gateway, url};
use tempfile::TempDir;

/// The program with these arguments, and nothing of the environment.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_table-service-copy"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TABLE_SERVICE_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The arguments of a copy that shows no progress.
pub fn quietly<'a>(from: &'a str, to: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--from", from, "--to", to, "--quiet"], more].concat()
}

/// The arguments of a comparison that shows no progress.
pub fn verifying<'a>(from: &'a str, to: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["verify"], quietly(from, to, more).as_slice()].concat()
}

/// Runs the program to its end.
pub fn output(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Runs it and returns its messages; it has to end with this status.
#[track_caller]
pub fn ends_with(status: i32, arguments: &[&str]) -> String {
    let output = output(arguments);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    said
}

#[track_caller]
pub fn succeeds(arguments: &[&str]) -> String {
    ends_with(0, arguments)
}

/// Starts it, with its output thrown away.
pub fn start(arguments: &[&str]) -> Child {
    command(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

pub fn database_url(database: &Database) -> String {
    url(database.cluster(), database.name(), "postgres")
}

/// The connection string of a gateway.
pub fn connection_string(address: std::net::SocketAddr) -> String {
    format!(
        "DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=http://{address}/{ACCOUNT};"
    )
}

/// A gateway with a database of its own.
pub struct Service {
    pub gateway: Gateway,
    pub database: Database,
}

/// A end that tables can be copied from and to.
pub enum End {
    Sql(Database),
    Gateway(Box<Service>),
    Directory(TempDir, &'static str),
}

impl End {
    pub fn of(kind: &'static str) -> End {
        match kind {
            "sql" => End::Sql(Database::new()),
            "rest" => {
                let database = Database::new();
                let gateway = Gateway::start(&["--database-url", &database_url(&database)]);
                End::Gateway(Box::new(Service { gateway, database }))
            }
            format => End::Directory(tempfile::tempdir().unwrap(), format),
        }
    }

    pub fn argument(&self) -> String {
        match self {
            End::Sql(database) => database_url(database),
            End::Gateway(service) => connection_string(service.gateway.address),
            End::Directory(directory, _) => directory.path().to_str().unwrap().to_owned(),
        }
    }

    /// The format of its files.
    pub fn format(&self) -> Option<&'static str> {
        match self {
            End::Directory(_, format) => Some(format),
            _ => None,
        }
    }
}

/// A file in a directory of its own.
pub fn file(directory: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
