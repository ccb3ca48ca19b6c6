//! `PgBouncer` in transaction mode.

use std::net::TcpStream;
use std::path::Path;

use anyhow::bail;

use crate::background::{Background, free_port};
use crate::environment::{Environment, Result, is_root, text, write};
use crate::temporary::Server;

/// Starts this program in front of a server, with the settings of `docs/guide/proxies.md`. Returns its port of 127.0.0.1.
pub fn start(environment: &Environment, program: &str, directory: &Path, server: &Server) -> Result<(Background, u16)> {
    let port = free_port()?;
    let write = |name: &str, text: &str| write(directory.join(format!("pgbouncer.{name}")), text);
    // It listens on 127.0.0.1 only, and takes everybody as the server there does.
    let users = write("users", "\"postgres\" \"\"\n\"gateway\" \"\"\n")?;
    let version = text(environment.command(program).arg("--version"))?;
    if !keeps_prepared_statements(&version) {
        let version = version.lines().next().unwrap_or_default();
        bail!(
            "{program} is {version}, which loses prepared statements in transaction mode: give --program with 1.21 or later"
        );
    }
    let settings = write(
        "ini",
        &format!(
            "[databases]
* = host={} port={}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {}
pool_mode = transaction
default_pool_size = 4
max_prepared_statements = 200
ignore_startup_parameters = options, extra_float_digits
server_idle_timeout = 5
",
            server.connection("PGHOST")?,
            server.connection("PGPORT")?,
            users.display()
        ),
    )?;
    let mut command = environment.command(program);
    command.arg("--quiet");
    if is_root() {
        command.args(["--user", "postgres"]);
    }
    let mut bouncer = Background::start(command.arg(settings), directory, "pgbouncer")?;
    bouncer.wait_until(|| TcpStream::connect(("127.0.0.1", port)).ok())?;
    Ok((bouncer, port))
}

/// Since 1.21.
fn keeps_prepared_statements(version: &str) -> bool {
    let minor = version
        .strip_prefix("PgBouncer 1.")
        .and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    minor.is_none_or(|minor| minor >= 21)
}
