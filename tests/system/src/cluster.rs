//! Throwaway servers.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::Failure;
use crate::session::{Session, connect};

/// Runs a command when this process ends, however it ends, or when the keeper is dropped.
pub struct Keeper(Child);

impl Keeper {
    pub fn new(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Keeper {
        // It notices the end of this process by the end of its input. In a process group of its own, no Ctrl-C hits it. The cleaner of
        // `cargo xtask` waits for those that work in the directory of all servers, and only then removes it.
        let child = Command::new("sh")
            .args(["-c", "cat >/dev/null; \"$@\" >&2", "sh"])
            .arg(program)
            .args(arguments)
            .env_remove("RUST_BACKTRACE")
            .current_dir(directory_of_all())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Keeper(child)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A running server.
pub struct Cluster {
    directory: PathBuf,
    host: String,
    port: u16,
    /// Of a server that this process has started.
    _keeper: Option<Keeper>,
}

impl Cluster {
    /// The server that the tests of this binary share.
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        // Tests of the limits set them themselves. Without this, a slow machine has more pages.
        let settings = [
            "wal_level=logical",
            "max_replication_slots=100",
            "table_service.page_time_limit=60s",
        ];
        SHARED.get_or_init(|| Cluster::start(&settings))
    }

    /// A server for the caller alone, which stops when it is dropped.
    pub fn start(settings: &[&str]) -> Cluster {
        Cluster::start_with(settings, &[])
    }

    /// The same, also listening on 127.0.0.1.
    pub fn start_on_tcp(settings: &[&str]) -> Cluster {
        let on_tcp = ["listen_addresses=127.0.0.1"];
        Cluster::start(&[settings, &on_tcp].concat())
    }

    /// The same, in this environment.
    pub fn start_with(settings: &[&str], environment: &[(&str, &str)]) -> Cluster {
        let script = script();
        let directory = free_directory();
        let path = directory.to_str().unwrap();
        let keeper = Keeper::new(&script, &["stop", path]);
        let mut arguments = vec!["start", path, "log_line_prefix=%m [%p] %e %d "];
        arguments.extend(settings);
        run_script_with(&arguments, environment);
        Cluster::at(directory, Some(keeper))
    }

    /// A server that somebody else started in this directory, and stops.
    pub fn running_in(directory: impl Into<PathBuf>) -> Cluster {
        Cluster::at(directory.into(), None)
    }

    fn at(directory: PathBuf, keeper: Option<Keeper>) -> Cluster {
        let connection = std::fs::read_to_string(directory.join("env")).unwrap();
        let value = |name: &str| {
            let line = connection.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.strip_prefix('=')).unwrap().to_owned()
        };
        Cluster {
            host: value("PGHOST"),
            port: value("PGPORT").parse().unwrap(),
            directory,
            _keeper: keeper,
        }
    }

    /// Kills all processes of the server at once, and starts it again on the same data.
    pub fn crash(&self) {
        self.kill();
        self.start_again();
    }

    /// Kills all processes of the server at once.
    pub fn kill(&self) {
        run_script(&["crash", self.directory.to_str().unwrap()]);
    }

    /// Starts a server that was killed on the same data.
    pub fn start_again(&self) {
        run_script(&["again", self.directory.to_str().unwrap()]);
    }

    /// Kills the server, copies its data to another directory, and starts it again.
    pub fn cold_copy(&self, name: &str) {
        self.kill();
        copy(&self.directory.join("data"), &self.directory.join(name));
        self.start_again();
    }

    /// Kills the server, puts its data back to a cold copy, and starts it again.
    pub fn put_back(&self, name: &str) {
        self.kill();
        let data = self.directory.join("data");
        std::fs::remove_dir_all(&data).unwrap();
        copy(&self.directory.join(name), &data);
        self.start_again();
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether this PostgreSQL is built with TLS. Says so if it is not: then a test has nothing to test.
    pub fn has_tls() -> bool {
        let library = Cluster::shared().session().text("SHOW ssl_library");
        if library.is_empty() {
            println!("This PostgreSQL is built without TLS.");
        }
        !library.is_empty()
    }

    /// A session of a superuser in the database `postgres`.
    pub fn session(&self) -> Session {
        connect(&self.host, self.port, "postgres", "postgres", "cluster").unwrap()
    }

    /// A session of a role in a database, if the server takes it.
    pub fn try_session(&self, database: &str, role: &str, name: &str) -> Result<Session, Failure> {
        connect(&self.host, self.port, database, role, name)
    }

    /// One of PostgreSQL's programs, set up to connect to this server.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(program(name));
        command
            .env("PGHOST", &self.host)
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", "postgres");
        command
    }

    /// The server's log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.directory.join("log")).unwrap()).into_owned()
    }

    /// Which bytes of the log come from processes that crashes have killed.
    pub fn killed(&self) -> Vec<std::ops::Range<usize>> {
        let killed = std::fs::read_to_string(self.directory.join("killed")).unwrap_or_default();
        let bounds = killed.lines().map(|line| line.split_once(' ').unwrap());
        bounds
            .map(|(from, to)| from.parse().unwrap()..to.parse().unwrap())
            .collect()
    }
}

/// One of PostgreSQL's programs.
fn program(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let output = Command::new(pg_config()).arg("--bindir").output().unwrap();
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
    });
    directory.join(name)
}

/// Copies a directory with its owner.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// One of PostgreSQL's programs that refuse to run as root: then it runs as the user `postgres`.
pub fn as_server(name: &str) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program(name));
        command
    } else {
        Command::new(program(name))
    };
    command.env_remove("RUST_BACKTRACE").current_dir("/");
    command
}

/// A new directory that belongs to the user of [`as_server`]. The directory around it may be root's.
pub fn directory_of_server() -> PathBuf {
    let directory = free_directory();
    std::fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    if is_root() {
        let owned = Command::new("chown").arg("postgres:").arg(&directory).status().unwrap();
        assert!(owned.success());
    }
    directory
}

/// The directory in which all servers have theirs.
fn directory_of_all() -> PathBuf {
    std::env::var_os("TABLE_SERVICE_CLUSTERS").map_or_else(std::env::temp_dir, PathBuf::from)
}

/// The name of a directory that does not exist, short enough for sockets.
pub fn free_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("table_service_system.{}.{number}", std::process::id());
        let directory = directory_of_all().join(name);
        if !directory.exists() {
            return directory;
        }
    }
}

fn pg_config() -> String {
    std::env::var("PG_CONFIG").unwrap_or_else(|_| "pg_config".to_owned())
}

/// Runs the script that starts and stops servers, and returns its output.
fn run_script(arguments: &[&str]) -> String {
    run_script_with(arguments, &[])
}

fn run_script_with(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let script = script();
    let output = Command::new(&script)
        .args(arguments)
        .envs(environment.iter().copied())
        .env("PG_CONFIG", pg_config())
        .output()
        .unwrap_or_else(|error| panic!("{} does not run: {error}", script.display()));
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn script() -> PathBuf {
    match std::env::var_os("TABLE_SERVICE_CLUSTER_SCRIPT") {
        Some(script) => script.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pgrx-config/cluster.sh"),
    }
}

/// Runs a program with this input and returns its output.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // A program that has failed reads no more input.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().unwrap()
    });
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
