//! The user that runs the server, and the directories that belong to it.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown};
use std::path::Path;
use std::time::Duration;

use rustix::process::{getegid, geteuid};
use table_service_command_line::files;

/// The user that runs the server: PostgreSQL does not run as root.
#[derive(Debug, Clone, Copy)]
pub struct ServerUser {
    pub uid: u32,
    pub gid: u32,
}

impl ServerUser {
    /// This user; for root the user `postgres`, or `nobody` where there is none.
    ///
    /// # Errors
    /// If there is no such user.
    pub fn of_server() -> Result<ServerUser, String> {
        if !files::is_root() {
            return Ok(ServerUser {
                uid: geteuid().as_raw(),
                gid: getegid().as_raw(),
            });
        }
        let users =
            fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd cannot be read: {error}"))?;
        let user = |name| users.lines().find_map(|line| user(line, name));
        user("postgres").or_else(|| user("nobody")).ok_or_else(|| {
            "PostgreSQL does not run as root, and there is no user postgres or nobody to run it as: run this as an ordinary user"
                .to_owned()
        })
    }
}

/// The user of a line of /etc/passwd, if it has that name.
fn user(line: &str, name: &str) -> Option<ServerUser> {
    let mut fields = line.strip_prefix(name)?.strip_prefix(':')?.split(':').skip(1);
    Some(ServerUser {
        uid: fields.next()?.parse().ok()?,
        gid: fields.next()?.parse().ok()?,
    })
}

/// Makes a directory that belongs to the server. Its name must be free.
pub fn owned(directory: &Path, owner: ServerUser) -> Result<(), String> {
    // Only the server may look into it, whatever the umask is.
    let made = DirBuilder::new().mode(0o700).create(directory);
    let given = made.and_then(|()| lchown(directory, Some(owner.uid), Some(owner.gid)));
    given.map_err(|error| problem(directory, &error))
}

/// Makes a directory and those above it, if it does not exist, for names that this process makes in it.
///
/// # Errors
/// If it cannot be made; for root, if another user can put names into it.
pub fn make(directory: &Path, mode: u32) -> Result<(), String> {
    if directory.is_dir() {
        return require_trusted(directory);
    }
    let above = directory.ancestors().find(|above| above.exists());
    let above = above.unwrap_or(Path::new("/"));
    files::require_trusted(above).map_err(|error| problem(above, &error))?;
    let made = DirBuilder::new().recursive(true).mode(mode).create(directory);
    made.map_err(|error| problem(directory, &error))?;
    require_trusted(directory)?;
    // The server's user must get through, whatever the umask is.
    fs::set_permissions(directory, Permissions::from_mode(mode)).map_err(|error| problem(directory, &error))
}

/// Refuses, for root, a directory in which another user can make or change a name: a link there would lead writes to any file.
///
/// # Errors
/// For root, if another user can put names into the directory, or can move the directory.
pub fn require_trusted(directory: &Path) -> Result<(), String> {
    files::require_own(directory).map_err(|error| problem(directory, &error))
}

/// Reads a small file that the server has made.
pub fn read_of_server(path: &Path) -> std::io::Result<String> {
    const LARGEST: u64 = 64 << 10;
    files::text(path, LARGEST)
}

/// Removes a directory and its content, as far as that is possible.
pub fn remove_tree(directory: &Path) {
    // A process that was making data may still write.
    for _ in 0..100 {
        if fs::remove_dir_all(directory).is_ok() || !directory.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the message about a failure with a file.
#[must_use]
pub fn problem(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
