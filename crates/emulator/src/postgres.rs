//! The PostgreSQL server of an emulator.

use std::fs::{self, File, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use table_service_command_line::files::{self, is_root};
use table_service_connect::open_socket;
use tokio::process::{Child, Command};
use tokio_postgres::Client;

use crate::installation::Installation;
use crate::server_user::{ServerUser, owned, problem, read_of_server, remove_tree};

/// The time in which the server has to start. It may have to recover.
const START: Duration = Duration::from_secs(120);
/// The length of the server's log in a message.
const LOG_LINES: usize = 20;
/// The most bytes of it that are read for that.
const LOG_BYTES: u64 = 64 << 10;
/// The pause between two checks whether something has happened.
const PAUSE: Duration = Duration::from_millis(10);

/// The settings of the server.
pub struct Settings {
    pub owner: ServerUser,
    pub data: PathBuf,
    /// The directory of its socket.
    pub directory: PathBuf,
    /// The messages of the server and of all programs that it starts.
    pub log: File,
    /// Whether the data outlive the emulator.
    pub durable: bool,
    /// The databases that have the extension.
    pub databases: Vec<String>,
}

/// The database that every server has.
pub const FIRST_DATABASE: &str = "postgres";

/// A running server.
pub struct Server {
    process: Child,
    log: File,
}

impl Server {
    /// Makes the data if they do not exist, starts the server and waits for it. Its databases have the extension.
    pub async fn start(installation: &Installation, settings: &Settings) -> Result<Server, String> {
        if settings.data.exists() {
            wait_for_end(&settings.data).await?;
        } else {
            initialise(installation, settings).await?;
        }
        let log = same(&settings.log)?;
        let mut command = Command::from(installation.program("postgres", settings.owner));
        command
            .arg("-D")
            .arg(&settings.data)
            .stdout(Stdio::null())
            .stderr(same(&log)?);
        command.args([
            "-c",
            &format!("unix_socket_directories={}", settings.directory.display()),
        ]);
        for setting in [
            "listen_addresses=",
            "port=5432",
            "unix_socket_permissions=0700",
            "wal_level=logical",
        ] {
            command.args(["-c", setting]);
        }
        for setting in installation.settings() {
            command.args(["-c", &setting]);
        }
        if !settings.durable {
            for setting in ["fsync=off", "synchronous_commit=off", "full_page_writes=off"] {
                command.args(["-c", setting]);
            }
        }
        let process = command
            .spawn()
            .map_err(|error| format!("postgres does not start: {error}"))?;
        let mut server = Server { process, log };
        let first = server.connect(&settings.directory, FIRST_DATABASE).await?;
        for database in &settings.databases {
            if database == FIRST_DATABASE {
                with_extension(&first).await?;
            } else {
                create_database(&first, database).await?;
                with_extension(&server.connect(&settings.directory, database).await?).await?;
            }
        }
        Ok(server)
    }

    async fn connect(&mut self, directory: &Path, database: &str) -> Result<Client, String> {
        let begin = Instant::now();
        loop {
            let failure = match open_socket(directory, "postgres", database).await {
                Ok(opened) => {
                    tokio::spawn(opened.wire);
                    return Ok(opened.client);
                }
                Err(error) => error,
            };
            let ended = self.process.try_wait().is_ok_and(|status| status.is_some());
            if ended || begin.elapsed() > START {
                return Err(format!(
                    "PostgreSQL does not start ({failure}); {}",
                    end_of_log(&self.log)
                ));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until the server ends, which it does not do by itself.
    pub async fn ended(&mut self) -> String {
        let problem = match self.process.wait().await {
            Ok(status) => format!("PostgreSQL has ended ({status})"),
            Err(error) => format!("PostgreSQL is lost ({error})"),
        };
        format!("{problem}; {}", end_of_log(&self.log))
    }
}

/// Makes a database if it does not exist.
async fn create_database(client: &Client, name: &str) -> Result<(), String> {
    let of_database = |error: tokio_postgres::Error| format!("the database {name}: {}", said(&error));
    let exists = client
        .query_opt("SELECT FROM pg_catalog.pg_database WHERE datname = $1", &[&name])
        .await
        .map_err(of_database)?;
    match exists {
        Some(_) => Ok(()),
        None => client
            .batch_execute(&format!("CREATE DATABASE \"{name}\""))
            .await
            .map_err(of_database),
    }
}

async fn with_extension(client: &Client) -> Result<(), String> {
    for statement in [
        "CREATE EXTENSION IF NOT EXISTS table_service",
        "ALTER EXTENSION table_service UPDATE",
    ] {
        let done = client
            .batch_execute(&format!("SET client_min_messages = warning; {statement}"))
            .await;
        done.map_err(|error| format!("{statement}: {}", said(&error)))?;
    }
    Ok(())
}

/// Returns the message of PostgreSQL.
fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    }
}

/// Another handle of the same file, for a process that is started.
fn same(file: &File) -> Result<File, String> {
    file.try_clone().map_err(|error| format!("the log: {error}"))
}

/// Returns the end of the server's log, which is removed with its directory.
fn end_of_log(log: &File) -> String {
    let length = log.metadata().map_or(0, |log| log.len());
    let begin = length.saturating_sub(LOG_BYTES);
    let mut bytes = vec![0; usize::try_from(length.saturating_sub(begin)).unwrap_or_default()];
    let read = log.read_at(&mut bytes, begin).unwrap_or_default();
    bytes.truncate(read);
    if bytes.is_empty() {
        return "its log is empty: is there space in TMPDIR?".to_owned();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default();
    format!("the end of its log:\n{}", last.join("\n"))
}

/// Makes the data. They get their name when they are complete, so that an interruption leaves no half of them.
async fn initialise(installation: &Installation, settings: &Settings) -> Result<(), String> {
    const UNFINISHED: &str = ".unfinished-";
    let of_data = |error: std::io::Error| problem(&settings.data, &error);
    let (Some(parent), Some(name)) = (settings.data.parent(), settings.data.file_name()) else {
        return Err(format!("{} is no directory for data", settings.data.display()));
    };
    let prefix = format!("{}{UNFINISHED}", name.display());
    for entry in fs::read_dir(parent).map_err(of_data)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            remove_tree(&entry.path());
        }
    }
    let unfinished = parent.join(format!("{prefix}{}", std::process::id()));
    owned(&unfinished, settings.owner)?;
    // Also if this is interrupted, which ends initdb before.
    scopeguard::defer! {
        if unfinished.exists() {
            remove_tree(&unfinished);
        }
    }
    let mut command = Command::from(installation.program("initdb", settings.owner));
    command
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8"])
        .args(installation.locale())
        .arg("-D")
        .arg(&unfinished);
    if !settings.durable {
        command.arg("--no-sync");
    }
    let status = command
        .kill_on_drop(true)
        .stdout(Stdio::null())
        .stderr(same(&settings.log)?)
        .status()
        .await
        .map_err(|error| format!("initdb does not start: {error}"))?;
    if !status.success() {
        let hint = if is_root() {
            "\n(As root, PostgreSQL runs as the user postgres or nobody, who must be able to reach the directory.)"
        } else {
            ""
        };
        return Err(format!("initdb fails; {}{hint}", end_of_log(&settings.log)));
    }
    fs::rename(&unfinished, &settings.data).map_err(of_data)?;
    if settings.durable {
        files::sync_names(parent).map_err(of_data)?;
    }
    Ok(())
}

/// Waits for the end of the server that an emulator of these data has left: its cleaner stops it.
async fn wait_for_end(data: &Path) -> Result<(), String> {
    let begin = Instant::now();
    while let Some(process) = process_of(data) {
        if begin.elapsed() > START {
            return Err(format!(
                "a server that is no emulator's uses {}: process {process}",
                data.display()
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
    // A crash has left this file. Another process may have its number by now, and PostgreSQL would take that for a
    // server.
    let _ = fs::remove_file(data.join("postmaster.pid"));
    Ok(())
}

/// Returns the process of the server of these data. The number in the file may be another process's by now, but a server works in its
/// data.
fn process_of(data: &Path) -> Option<u32> {
    let file = read_of_server(&data.join("postmaster.pid")).ok()?;
    let process: u32 = file.lines().next()?.parse().ok()?;
    let works_in = fs::read_link(format!("/proc/{process}/cwd")).ok()?;
    (works_in == fs::canonicalize(data).ok()?).then_some(process)
}

/// A process that an emulator has started, or that its server has.
struct Started {
    pid: Pid,
    /// Another process never gets this, as it may get the number.
    handle: OwnedFd,
}

/// Returns the processes with that log as standard error. No other process can open it: these are the server's.
fn started(log: &Metadata) -> Vec<Started> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            writes_to(pid, log).then_some(())?;
            let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            // The number may have become another's just before that.
            writes_to(pid, log).then_some(Started { pid, handle })
        })
        .collect()
}

fn writes_to(pid: Pid, log: &Metadata) -> bool {
    let to = fs::metadata(format!("/proc/{}/fd/2", pid.as_raw_nonzero()));
    to.is_ok_and(|to| (to.dev(), to.ino()) == (log.dev(), log.ino()))
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name of the program is in parentheses, and may have any character in it.
    let (_, fields) = stat.rsplit_once(')')?;
    Pid::from_raw(fields.split_whitespace().nth(1)?.parse().ok()?)
}

/// Stops the server that writes to that log, if there is one, and waits for the end of all that it has started.
pub fn stop(log: &Path) {
    let Ok(log) = fs::symlink_metadata(log) else {
        return;
    };
    let begin = Instant::now();
    let mut signalled = Vec::new();
    while begin.elapsed() < START {
        let running = started(&log);
        if running.is_empty() {
            return;
        }
        for process in &running {
            // The server ends its sessions itself.
            let is_first = parent(process.pid).is_none_or(|above| running.iter().all(|other| other.pid != above));
            if is_first && !signalled.contains(&process.pid) {
                // PostgreSQL's fast shutdown: it ends the sessions and writes everything.
                let _ = pidfd_send_signal(&process.handle, Signal::INT);
                signalled.push(process.pid);
            }
        }
        for process in &running {
            wait_for(&process.handle, START.saturating_sub(begin.elapsed()));
        }
    }
}

/// Waits until a process has ended. It closes its files a moment before.
fn wait_for(process: &OwnedFd, at_most: Duration) {
    let mut ends = [PollFd::new(process, PollFlags::IN)];
    let at_most = Timespec::try_from(at_most).unwrap_or_default();
    let _ = poll(&mut ends, Some(&at_most));
}
