//! Files that the program makes, where other users may put names too.
//!
//! A new file is made under a name that nobody has, so it is nobody else's and no link is followed. A file that is gone on
//! with is no link and belongs to the user of the program. Files for one moment have no name.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// The mode of a file that only the user of the program reads.
pub const PRIVATE: u32 = 0o600;
/// The mode of a file that others read as the umask says.
pub const SHARED: u32 = 0o666;

fn no_follow() -> i32 {
    // The flags of Linux fit.
    (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed()
}

/// Makes a file for reading and writing under a name. A file that an earlier run has left there goes, and so does
/// a link, but not its target.
///
/// # Errors
/// What the operating system says: the file of another user, in a directory that keeps it, stays.
pub fn anew(path: &Path, mode: u32) -> Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create_new(path, mode)
}

/// Opens a file of anybody to read it.
///
/// # Errors
/// A link, something that is no file, what the operating system says.
pub fn read_only(path: &Path) -> Result<File> {
    // A pipe would be waited for.
    let flags = no_follow() | OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no file"));
    }
    Ok(file)
}

fn create_new(path: &Path, mode: u32) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
}

/// Makes a file without a name, in the directory for temporary files. It is gone when nobody has it open.
pub fn unnamed() -> Result<File> {
    // `tempfile::tempfile` does the same, but its file is readable by others until its mode is changed.
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::TMPFILE.bits().cast_signed())
        .mode(PRIVATE)
        .open(std::env::temp_dir())
        // A file system that makes no unnamed files: the name is taken away at once.
        .or_else(|_| Ok(tempfile::NamedTempFile::new()?.into_file()))
}

/// Opens a file that an earlier run has made, to go on with it.
///
/// # Errors
/// A link, a file of another user, what the operating system says.
pub fn again(path: &Path) -> Result<File> {
    checked(
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(no_follow())
            .open(path)?,
    )
}

/// Opens a file as [`again`], or makes it, for this program alone: another run that has it is told from one that has ended.
///
/// # Errors
/// As [`again`]; another run that has the file open.
pub fn alone(path: &Path, mode: u32) -> Result<File> {
    let file = match again(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => create_new(path, mode)?,
        file => file?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Error::new(
            ErrorKind::ResourceBusy,
            "another run of this program writes to it",
        )),
        // A file system without locks has none of others either.
        _ => Ok(file),
    }
}

/// Opens a file to append to it, or makes it for the user alone. A device or a pipe is opened as it is.
///
/// # Errors
/// A link to a file, a file of another user, what the operating system says.
pub fn appended(path: &Path) -> Result<File> {
    match OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(path)
    {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        done => return done,
    }
    match OpenOptions::new().append(true).custom_flags(no_follow()).open(path) {
        Ok(file) => checked(file),
        // `/dev/stderr` is a link.
        Err(error) => {
            let file = OpenOptions::new().append(true).open(path)?;
            if file.metadata()?.is_file() {
                Err(error)
            } else {
                Ok(file)
            }
        }
    }
}

/// Reads a file that an earlier run has made, if it is there and has no more bytes than this.
///
/// # Errors
/// As [`again`]; a larger file.
pub fn contents(path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    // A pipe has nothing of an earlier run, and would be waited for.
    let flags = no_follow() | OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => checked(file?)?,
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Error::new(
            ErrorKind::FileTooLarge,
            format!("it has more than {most} bytes"),
        ));
    }
    Ok(Some(bytes))
}

/// Puts a whole file into the place of another one.
pub fn replaced(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let temporary = beside(path, ".new");
    let mut file = anew(&temporary, mode)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

/// The name with an ending behind it.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn checked(file: File) -> Result<File> {
    let data = file.metadata()?;
    if data.is_file() && data.uid() != rustix::process::geteuid().as_raw() {
        return Err(Error::new(ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, link) = (directory.path().join("victim"), directory.path().join("link"));
        let put = || {
            std::fs::write(&victim, "precious").unwrap();
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(&victim, &link).unwrap();
        };
        put();
        anew(&link, SHARED).unwrap().write_all(b"new").unwrap();
        put();
        assert!(again(&link).is_err() && appended(&link).is_err() && contents(&link, 100).is_err());
        replaced(&link, b"new", PRIVATE).unwrap();
        assert_eq!(std::fs::metadata(&link).unwrap().mode() & 0o777, 0o600);
        let waiting = beside(&link, ".new");
        std::os::unix::fs::symlink(&victim, &waiting).unwrap();
        replaced(&link, b"newer", PRIVATE).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert_eq!(contents(&link, 5).unwrap().unwrap(), b"newer");
        assert!(contents(&link, 4).is_err());
        appended(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn a_file_is_for_one_run_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("changes");
        let first = alone(&path, SHARED).unwrap();
        assert_eq!(alone(&path, SHARED).unwrap_err().kind(), ErrorKind::ResourceBusy);
        drop(first);
        alone(&path, SHARED).unwrap();
    }
}
