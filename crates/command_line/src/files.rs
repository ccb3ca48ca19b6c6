//! Files that a program makes or writes where its user has named them.
//!
//! Root does so only where nobody else can make or change a name: a link there would lead its writes to any file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Returns whether this process is root.
#[must_use]
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Opens a file to append to it, and makes it if it does not exist.
///
/// # Errors
/// If it cannot be opened; for root, if somebody else can make or change a name on the way, and if it is a link or another user's.
pub fn append(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.create(true).append(true);
    if !is_root() {
        return options.open(path);
    }
    require_trusted(above(path)?.as_ref())?;
    options.custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK));
    let file = options.open(path).map_err(|error| match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => {
            Error::other("it is a link, which root does not follow: name the file itself")
        }
        _ => error,
    })?;
    // Where all may write, anybody may have made it, or linked it.
    let is = file.metadata()?;
    if is.uid() != 0 || is.is_file() && is.nlink() > 1 {
        return Err(Error::other(
            "it belongs to another user than root, or has several names",
        ));
    }
    Ok(file)
}

/// Makes a file for this user alone, in the place of one that is there, so that nobody else has it open. Devices, such as
/// `/dev/null` or `/dev/stdout`, are not removed for it.
///
/// # Errors
/// If it cannot be made; for root, if somebody else can make or change a name on the way.
pub fn replace(path: &Path) -> Result<File> {
    require_trusted(above(path)?.as_ref())?;
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => fs::remove_file(path)?,
        Ok(_) => return Err(Error::other("it is there and is no file")),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The directory of a file.
fn above(path: &Path) -> Result<std::path::PathBuf> {
    let path = std::path::absolute(path)?;
    Ok(path.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Checks that a directory and all above it are root's, as they are named and as they are: a link on the way is root's too. Where all
/// may write, the sticky bit keeps root's names.
///
/// # Errors
/// For root, if somebody else can change a name on the way.
pub fn require_trusted(directory: &Path) -> Result<()> {
    if !is_root() {
        return Ok(());
    }
    let (named, resolved) = (std::path::absolute(directory)?, fs::canonicalize(directory)?);
    for above in named.ancestors().chain(resolved.ancestors()) {
        let is = fs::symlink_metadata(above)?;
        if is.uid() != 0 || is_loose(&is) {
            return Err(untrusted(above));
        }
    }
    Ok(())
}

/// Returns whether everybody may change the names in a directory.
fn is_loose(directory: &Metadata) -> bool {
    !directory.is_symlink() && directory.mode() & 0o022 != 0 && directory.mode() & 0o1000 == 0
}

/// Checks that nobody else can put a name into a directory, in addition to what [`require_trusted`] checks.
///
/// # Errors
/// For root, if somebody else can.
pub fn require_own(directory: &Path) -> Result<()> {
    if is_root() && fs::metadata(directory)?.mode() & 0o022 != 0 {
        return Err(untrusted(directory));
    }
    require_trusted(directory)
}

fn untrusted(directory: &Path) -> Error {
    Error::other(format!(
        "{} can be written by other users than root: name a directory that only root can write, or run this as another user",
        directory.display()
    ))
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}
