//! The PostgreSQL server of an emulator.

use std::fs::{self, File, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, Command};
use tokio_postgres::{Client, NoTls};

use crate::owner::{Owner, owned, problem, read_of_server, remove_tree};

/// Where Debian and apt.postgresql.org install PostgreSQL: a directory for each major version.
const PACKAGED: &str = "/usr/lib/postgresql";
/// How long the server may take to start: it may have to recover.
const START: Duration = Duration::from_secs(120);
/// How much of the server's log a message has.
const LOG_LINES: usize = 20;
/// The most bytes of it that are read for that.
const LOG_BYTES: u64 = 64 << 10;
/// Between two looks whether something has happened.
const PAUSE: Duration = Duration::from_millis(10);

/// PostgreSQL's programs, of a version that has the extension.
#[derive(Debug)]
pub struct Installation {
    programs: PathBuf,
    major: u32,
}

impl Installation {
    /// The given directory of programs; else the latest major version that has the extension, or the one that has made the data.
    ///
    /// # Errors
    /// What is missing.
    pub fn find(given: Option<&Path>, data: Option<&Path>) -> Result<Installation, String> {
        let made_by = data.and_then(|data| read_of_server(&data.join("PG_VERSION")).ok());
        let made_by: Option<u32> = made_by.and_then(|major| major.trim().parse().ok());
        let mut found = match given {
            Some(programs) => vec![Installation::of(programs)?],
            None => packaged(),
        };
        found.sort_by_key(|installation| std::cmp::Reverse(installation.major));
        let Some(latest) = found.first().map(|installation| installation.major) else {
            return Err(format!(
                "no PostgreSQL in {PACKAGED} has the extension: install the package postgresql-<major>-table-service, \
                 or name the directory of PostgreSQL's programs with --postgres"
            ));
        };
        let wanted = made_by.unwrap_or(latest);
        found.into_iter().find(|installation| installation.major == wanted).ok_or_else(|| {
            format!("the data were made with PostgreSQL {wanted}, and only PostgreSQL {latest} has the extension here; pg_upgrade moves data to it")
        })
    }

    fn of(programs: &Path) -> Result<Installation, String> {
        let ask = |option: &str| {
            let output = std::process::Command::new(programs.join("pg_config"))
                .arg(option)
                .output();
            let output =
                output.map_err(|error| format!("{} does not run: {error}", programs.join("pg_config").display()))?;
            Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let control = Path::new(&ask("--sharedir")?).join("extension/table_service.control");
        if !control.exists() {
            return Err(format!(
                "the PostgreSQL of {} lacks the extension: {} is not there",
                programs.display(),
                control.display()
            ));
        }
        let version = ask("--version")?;
        let number = version.trim_start_matches(|c: char| !c.is_ascii_digit());
        let major = number
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|major| major.parse().ok());
        let major = major.ok_or_else(|| format!("{} says {version}", programs.join("pg_config").display()))?;
        Ok(Installation {
            programs: programs.to_owned(),
            major,
        })
    }

    fn program(&self, name: &str, owner: Owner) -> Command {
        let mut command = std::process::Command::new(self.programs.join(name));
        command.current_dir("/").stdin(Stdio::null()).env_remove("PGOPTIONS");
        // In a process group of its own: Ctrl-C ends the emulator, which finishes its requests and then stops the server.
        command.process_group(0);
        if Owner::is_root() {
            command.gid(owner.gid).uid(owner.uid);
        }
        command.into()
    }
}

fn packaged() -> Vec<Installation> {
    let directories = fs::read_dir(PACKAGED).into_iter().flatten().flatten();
    directories
        .filter_map(|directory| Installation::of(&directory.path().join("bin")).ok())
        .collect()
}

/// What the server needs to know.
pub struct Settings {
    pub owner: Owner,
    pub data: PathBuf,
    /// Where its socket is.
    pub directory: PathBuf,
    /// What it says, and all that it starts.
    pub log: File,
    /// Whether the data outlive the emulator.
    pub durable: bool,
}

/// A running server.
pub struct Server {
    process: Child,
    log: File,
}

impl Server {
    /// Makes the data if they do not exist, starts the server and waits for it. Its database has the extension.
    ///
    /// # Errors
    /// What PostgreSQL says.
    pub async fn start(installation: &Installation, settings: &Settings) -> Result<Server, String> {
        if settings.data.exists() {
            wait_for_end(&settings.data).await?;
        } else {
            initialise(installation, settings).await?;
        }
        let log = same(&settings.log)?;
        let mut command = installation.program("postgres", settings.owner);
        command
            .arg("-D")
            .arg(&settings.data)
            .stdout(Stdio::null())
            .stderr(same(&log)?);
        command.args([
            "-c",
            &format!("unix_socket_directories={}", settings.directory.display()),
        ]);
        for setting in ["listen_addresses=", "port=5432", "unix_socket_permissions=0700"] {
            command.args(["-c", setting]);
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
        let client = server.connect(&settings.directory).await?;
        for statement in [
            "CREATE EXTENSION IF NOT EXISTS table_service",
            "ALTER EXTENSION table_service UPDATE",
        ] {
            let done = client
                .batch_execute(&format!("SET client_min_messages = warning; {statement}"))
                .await;
            done.map_err(|error| format!("{statement}: {error}"))?;
        }
        Ok(server)
    }

    async fn connect(&mut self, directory: &Path) -> Result<Client, String> {
        let begin = Instant::now();
        let mut config = tokio_postgres::Config::new();
        config.host_path(directory).user("postgres").dbname("postgres");
        loop {
            let failure = match config.connect(NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return Ok(client);
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

/// Another handle of the same file, for a process that is started.
fn same(file: &File) -> Result<File, String> {
    file.try_clone().map_err(|error| format!("the log: {error}"))
}

/// What the server has said last. Its log is removed with its directory.
fn end_of_log(log: &File) -> String {
    let length = log.metadata().map_or(0, |log| log.len());
    let begin = length.saturating_sub(LOG_BYTES);
    let mut bytes = vec![0; usize::try_from(length.saturating_sub(begin)).unwrap_or_default()];
    let read = log.read_at(&mut bytes, begin).unwrap_or_default();
    bytes.truncate(read);
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
    let mut command = installation.program("initdb", settings.owner);
    command
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-D"])
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
        let hint = if Owner::is_root() {
            "\n(As root, PostgreSQL runs as the user postgres, who must be able to reach the directory.)"
        } else {
            ""
        };
        return Err(format!("initdb fails; {}{hint}", end_of_log(&settings.log)));
    }
    fs::rename(&unfinished, &settings.data).map_err(of_data)?;
    if settings.durable {
        File::open(parent)
            .and_then(|parent| parent.sync_all())
            .map_err(of_data)?;
    }
    Ok(())
}

/// Waits for the end of the server that an emulator of these data has left: its keeper stops it.
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
    // What a crash has left. Another process may have that number by now, for which PostgreSQL would take it.
    let _ = fs::remove_file(data.join("postmaster.pid"));
    Ok(())
}

/// The process of the server of these data. The number in the file may be another process's by now; a server works in its data.
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

/// The processes whose standard error is that log. Others cannot open it, so nobody else is among them, whatever its arguments say.
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
