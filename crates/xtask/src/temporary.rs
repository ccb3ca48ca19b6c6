//! A directory for temporary servers, which is gone when this process is, however it ends.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::environment::{Environment, Result, root, text};

/// A directory in /tmp, and the servers in it.
pub struct TemporaryDirectory {
    pub directory: PathBuf,
    cleaner: Child,
}

impl TemporaryDirectory {
    /// Makes the directory. `environment` gets the variables by which tests start servers in it. `lock` is held until everything is cleaned
    /// up.
    pub fn new(environment: &mut Environment, lock: Option<File>) -> Result<TemporaryDirectory> {
        let directory = free_directory()?;
        environment.set("TABLE_SERVICE_CLUSTERS", &directory);
        environment.set("TABLE_SERVICE_CLUSTER_SCRIPT", script());
        // This program, even if it has been built again by now. It notices the end of this process by the end of its input. In a
        // process group of its own, no Ctrl-C hits it.
        let mut cleaner = environment.command("/proc/self/exe");
        cleaner
            .arg("clean-up-at-end-of-input")
            .arg(&directory)
            .stdin(Stdio::piped())
            .process_group(0);
        cleaner.stdout(lock.map_or_else(Stdio::null, Stdio::from));
        let cleaner = cleaner.spawn()?;
        Ok(TemporaryDirectory { directory, cleaner })
    }

    /// The data directory of the server that `cargo pgrx test` starts.
    pub fn of_pgrx(&self, environment: &Environment) -> Result<PathBuf> {
        let directory = self.directory.join("pgrx");
        if !directory.exists() {
            environment.make_directory_of_server(&directory)?;
        }
        Ok(directory)
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        drop(self.cleaner.stdin.take());
        let _ = self.cleaner.wait();
    }
}

/// Makes a directory that the user postgres can also reach, with a short path for sockets.
fn free_directory() -> Result<PathBuf> {
    for number in 0..1000 {
        let directory = PathBuf::from(format!("/tmp/table_service.{}.{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o755).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("there is no free name for a directory in /tmp")
}

/// Runs as the cleaner of a directory: waits for the end of its input, then ends all processes that work there and removes the
/// directory.
pub fn clean_up_at_end_of_input(directory: &Path) -> Result {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    // Tests that have ended stop their servers themselves, from this directory. A second stop would only disturb them.
    for _ in 0..300 {
        if !processes_in(directory)
            .iter()
            .any(|(_, works_in)| works_in == directory)
        {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    // A server frees its shared memory within seconds, also under valgrind.
    for round in 0..300 {
        let processes = processes_in(directory);
        if processes.is_empty() {
            break;
        }
        for (process, works_in) in processes {
            // PostgreSQL's processes work in its data directory.
            let signal = match (round, works_in.join("PG_VERSION").exists()) {
                (0, true) => "-QUIT",
                (0, false) => "-TERM",
                (299, _) => "-KILL",
                _ => continue,
            };
            let _ = Command::new("kill")
                .args([signal, &process])
                .stderr(Stdio::null())
                .status();
        }
        sleep(Duration::from_millis(100));
    }
    Ok(fs_err::remove_dir_all(directory)?)
}

/// Returns the processes that work in a directory, and where.
fn processes_in(directory: &Path) -> Vec<(String, PathBuf)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten();
    let processes = processes.filter_map(|process| {
        let process = process.ok()?;
        let works_in = std::fs::read_link(process.path().join("cwd")).ok()?;
        let name = process.file_name().into_string().ok()?;
        works_in.starts_with(directory).then_some((name, works_in))
    });
    processes.collect()
}

/// Waits until this process alone has the file.
pub fn lock(path: &Path) -> Result<File> {
    let file = fs_err::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?
        .into_file();
    if file.try_lock().is_err() {
        eprintln!("Another run has {}; waiting for it to end.", path.display());
        file.lock()?;
    }
    Ok(file)
}

/// The setting of a server that listens on 127.0.0.1.
pub const ON_TCP: &str = "listen_addresses=127.0.0.1";

/// A temporary server in a directory of its own, in a [`TemporaryDirectory`].
pub struct Server<'e> {
    pub environment: &'e Environment,
    pub directory: PathBuf,
}

impl<'e> Server<'e> {
    /// Starts one with these settings, NAME=VALUE. With [`ON_TCP`] it also listens on a free port of 127.0.0.1.
    pub fn start(environment: &'e Environment, directory: PathBuf, settings: &[&str]) -> Result<Server<'e>> {
        let server = Server { environment, directory };
        server.script("start", settings, None)?;
        Ok(server)
    }

    /// The value of a name in the file that says how to connect.
    pub fn connection(&self, name: &str) -> Result<String> {
        let path = self.directory.join("env");
        let lines = fs_err::read_to_string(&path)?;
        let value = lines
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value
            .map(str::to_owned)
            .with_context(|| format!("{}: {name} is not there", path.display()))
    }

    /// How programs connect to it.
    pub fn url(&self, user: &str, database: &str) -> Result<String> {
        let (host, port) = (self.connection("PGHOST")?, self.connection("PGPORT")?);
        Ok(format!(
            "postgresql://{user}@{}:{port}/{database}",
            host.replace('/', "%2F")
        ))
    }

    /// Creates a database, and its owner, an ordinary role, unless that is postgres.
    pub fn create_database(&self, database: &str, owner: &str) -> Result {
        let role = format!("CREATE ROLE {owner} LOGIN");
        let database = format!("CREATE DATABASE {database} OWNER {owner} ENCODING 'UTF8' TEMPLATE template0");
        let role = (owner != "postgres").then_some(role.as_str());
        let statements: Vec<&str> = role.into_iter().chain([database.as_str()]).collect();
        self.sql("postgres", "postgres", &statements).map(drop)
    }

    /// psql, which prints only values and stops at the first error.
    pub fn psql(&self, user: &str, database: &str) -> Result<Command> {
        let mut psql = self.environment.command(self.environment.of_postgres("psql"));
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &self.url(user, database)?]);
        Ok(psql)
    }

    /// Runs statements, each in a transaction of its own. Returns their output.
    pub fn sql(&self, user: &str, database: &str, statements: &[&str]) -> Result<String> {
        let statements = statements.iter().flat_map(|statement| ["-c", statement]);
        text(self.psql(user, database)?.args(statements))
    }

    /// Stops it, and leaves its directory.
    pub fn stop_and_keep(&self) -> Result {
        self.script("stop", &[], Some(("KEEP", "1")))
    }

    /// Starts it once more, and counts the instructions of each statement in a file of its directory (see `cluster.sh`).
    ///
    /// # Errors
    /// It does not start, or valgrind is missing.
    pub fn start_under_callgrind(&self) -> Result {
        self.script("again", &[], Some(("VALGRIND", "callgrind")))
    }

    /// Stops it, and leaves its directory for copies that start by themselves.
    pub fn make_template(self) -> Result {
        self.stop_and_keep()?;
        let connection = self.directory.join("env");
        fs_err::remove_file(&connection)?;
        std::mem::forget(self);
        Ok(())
    }

    fn script(&self, command: &str, settings: &[&str], variable: Option<(&str, &str)>) -> Result {
        let mut script = self.environment.command(script());
        script.arg(command).arg(&self.directory).args(settings);
        text(script.envs(variable)).map(drop)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.script("stop", &[], None) {
            eprintln!("{error}");
        }
    }
}

fn script() -> PathBuf {
    root().join("pgrx-config/cluster.sh")
}
