//! Who runs the server, and the directories that belong to it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use rustix::process::{getegid, geteuid};

/// Who runs the server: PostgreSQL does not run as root.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// Whether this process may become another user.
    pub fn is_root() -> bool {
        geteuid().is_root()
    }

    /// This user; for root the user `postgres`.
    ///
    /// # Errors
    /// If there is no such user.
    pub fn of_server() -> Result<Owner, String> {
        if !Owner::is_root() {
            return Ok(Owner {
                uid: geteuid().as_raw(),
                gid: getegid().as_raw(),
            });
        }
        let users =
            fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd cannot be read: {error}"))?;
        users.lines().find_map(user_postgres).ok_or_else(|| {
            "PostgreSQL does not run as root, and there is no user postgres to run it as: run this as an ordinary user".to_owned()
        })
    }
}

fn user_postgres(line: &str) -> Option<Owner> {
    let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
    Some(Owner {
        uid: fields.next()?.parse().ok()?,
        gid: fields.next()?.parse().ok()?,
    })
}

/// Makes a directory that belongs to the server, if it does not exist.
///
/// # Errors
/// If it cannot be made.
pub fn owned(directory: &Path, owner: Owner) -> Result<(), String> {
    make(directory, 0o700)?;
    let made = fs::metadata(directory).map_err(|error| problem(directory, &error))?;
    if made.uid() != owner.uid {
        chown(directory, Some(owner.uid), Some(owner.gid)).map_err(|error| problem(directory, &error))?;
    }
    Ok(())
}

/// Makes a directory and those above it, if it does not exist.
///
/// # Errors
/// If it cannot be made.
pub fn make(directory: &Path, mode: u32) -> Result<(), String> {
    if directory.is_dir() {
        return Ok(());
    }
    // Whatever the umask is: the user postgres must get through.
    fs::create_dir_all(directory)
        .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(mode)))
        .map_err(|error| problem(directory, &error))
}

/// Removes a directory and what is in it, as far as that is possible.
pub fn remove_tree(directory: &Path) {
    // A process that was making data may still write.
    for _ in 0..100 {
        if fs::remove_dir_all(directory).is_ok() || !directory.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What went wrong with a file.
#[must_use]
pub fn problem(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
