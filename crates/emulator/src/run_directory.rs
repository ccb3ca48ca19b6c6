//! The directory of an emulator while it runs.
//!
//! Each emulator has a directory in the base directory of its user, and holds a lock on a file in it. A directory without a locked
//! file is left by a killed emulator, and the next emulator removes it.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use table_service_command_line::files;

use crate::postgres;
use crate::server_user::{ServerUser, owned, problem, remove_tree, require_trusted};

/// The directory of a running emulator. Its lock is held as long as this lives.
#[derive(Debug)]
pub struct RunDirectory {
    pub directory: PathBuf,
    _lock: File,
}

/// The time that an ending emulator may still hold its tables. The next one waits for that, not the user.
const ENDING: Duration = Duration::from_secs(5);
/// The file in a directory that its user has locked.
const LOCK: &str = "lock";
/// The subdirectory that belongs to the server: its socket, and its data if they are not kept. This process makes no name in it.
const SERVER: &str = "server";
/// The log of the server. Only its emulator has made this file, so a process that writes there is its server.
const LOG: &str = "log";
/// PostgreSQL's programs, if the server's user cannot reach them where they are.
const PROGRAMS: &str = "postgresql";

impl RunDirectory {
    /// Makes a directory, and removes those of emulators that were killed.
    ///
    /// # Errors
    /// If the base directory belongs to another user or cannot be written.
    pub fn new(owner: ServerUser) -> Result<RunDirectory, String> {
        let base = Base::lock(base()?)?;
        for entry in fs::read_dir(&base.directory).into_iter().flatten().flatten() {
            if entry.path().is_dir() && is_left(&entry.path()) {
                remove(&entry.path());
            }
        }
        let directory = base.new_directory()?;
        let lock = open_lock(&directory).map_err(|error| problem(&directory, &error))?;
        lock.try_lock()
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let run_directory = RunDirectory { directory, _lock: lock };
        owned(&run_directory.server(), owner)?;
        Ok(run_directory)
    }

    /// The directory of the server.
    pub fn server(&self) -> PathBuf {
        self.directory.join(SERVER)
    }

    /// The directory for a copy of PostgreSQL's programs.
    pub fn programs(&self) -> PathBuf {
        self.directory.join(PROGRAMS)
    }

    /// Makes the log of the server.
    pub fn log(&self) -> Result<File, String> {
        let log = self.directory.join(LOG);
        files::new_log(&log, files::PRIVATE).map_err(|error| problem(&log, &error))
    }
}

/// Locks a directory of data.
///
/// # Errors
/// If another emulator has locked it, and does not end soon.
pub fn lock_data(directory: &Path) -> Result<File, String> {
    let file = open_lock(directory).map_err(|error| problem(directory, &error))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < ENDING => sleep(Duration::from_millis(50)),
            Err(TryLockError::WouldBlock) => return Err(format!("another emulator uses {}", directory.display())),
            Err(TryLockError::Error(error)) => return Err(problem(directory, &error)),
        }
    }
}

fn open_lock(directory: &Path) -> std::io::Result<File> {
    files::kept(&directory.join(LOCK), files::PRIVATE)
}

/// The directory of all emulators of this user.
fn base() -> Result<PathBuf, String> {
    let named = std::env::temp_dir();
    // An empty TMPDIR is none.
    let temporary = if named.as_os_str().is_empty() {
        Path::new("/tmp")
    } else {
        &named
    };
    let temporary = std::path::absolute(temporary).map_err(|error| format!("TMPDIR: {error}"))?;
    Ok(temporary.join(format!("table-service-emulator-{}", geteuid().as_raw())))
}

/// A base directory that is locked: one process at a time adds to it or removes it.
struct Base {
    directory: PathBuf,
    _lock: File,
}

impl Base {
    /// Makes the directory if it does not exist, and waits for its lock.
    fn lock(directory: PathBuf) -> Result<Base, String> {
        let of_directory = |error: std::io::Error| problem(&directory, &error);
        loop {
            match DirBuilder::new().mode(0o711).create(&directory) {
                Ok(()) => fs::set_permissions(&directory, Permissions::from_mode(0o711)).map_err(of_directory)?,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let instead = "set TMPDIR to a directory that you can write";
                    return Err(format!("{}; {instead}", problem(&directory, &error)));
                }
            }
            // In a directory that all may write, another user may have made it.
            let is = match fs::symlink_metadata(&directory) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                is => is.map_err(of_directory)?,
            };
            if !is.is_dir() || is.uid() != geteuid().as_raw() || is.permissions().mode() & 0o022 != 0 {
                return Err(format!(
                    "{} belongs to another user or can be written by one: remove it, or set TMPDIR to a directory of yours",
                    directory.display()
                ));
            }
            require_trusted(&directory)?;
            let lock = match open_lock(&directory) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                lock => lock.map_err(of_directory)?,
            };
            lock.lock().map_err(of_directory)?;
            // The emulator that had the lock before may have removed it.
            let locked = lock.metadata().map_err(of_directory)?;
            if fs::metadata(directory.join(LOCK)).is_ok_and(|now| now.ino() == locked.ino()) {
                return Ok(Base { directory, _lock: lock });
            }
        }
    }

    /// A new directory in it. Another system's process may have this process's number, if both share the base directory.
    fn new_directory(&self) -> Result<PathBuf, String> {
        let number = std::process::id();
        let mut directory = self.directory.join(number.to_string());
        let mut count = 0;
        loop {
            match DirBuilder::new().create(&directory) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    count += 1;
                    directory = self.directory.join(format!("{number}.{count}"));
                }
                Err(error) => return Err(problem(&directory, &error)),
            }
        }
        fs::set_permissions(&directory, Permissions::from_mode(0o711))
            .map(|()| directory.clone())
            .map_err(|error| problem(&directory, &error))
    }

    /// Removes the base directory if no emulator has a directory in it.
    fn leave(self) {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        if entries.into_iter().all(|entry| entry.file_name() == LOCK) {
            // An emulator that makes a new lock between the two keeps the directory.
            let _ = fs::remove_file(self.directory.join(LOCK));
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

fn is_left(directory: &Path) -> bool {
    match files::again(&directory.join(LOCK), files::PRIVATE) {
        Ok(file) => file.try_lock().is_ok(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Waits until the emulator of that directory has ended, then stops its server and removes the directory.
pub fn remove_when_left(directory: &Path) -> Result<(), String> {
    match files::again(&directory.join(LOCK), files::PRIVATE) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(problem(directory, &error)),
        Ok(file) => {
            file.lock().map_err(|error| problem(directory, &error))?;
            remove(directory);
        }
    }
    if let Some(base) = directory.parent().filter(|base| base.is_dir()) {
        Base::lock(base.to_owned())?.leave();
    }
    Ok(())
}

fn remove(directory: &Path) {
    postgres::stop(&directory.join(LOG));
    remove_tree(directory);
}
