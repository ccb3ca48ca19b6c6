//! The files that programs open by a name: nothing else in them opens one.
//!
//! A name is looked up once. The file that it leads to is held by a descriptor, looked at, and opened through that
//! descriptor, so that nobody puts another file in its place meanwhile.
//!
//! - A file is a regular one. Where a stream will do, it may be a pipe or a device of the user or of root, for example from `<(…)`,
//!   or a stream that the program was started with.
//! - Where others may put names, a file is the user's or root's, and has one name if it is written. Only data, which no program believes,
//!   may be anybody's.
//! - A link is the user's or root's. It may lead to a file that is read, and to none that is written.
//! - A new file gets a name that nobody has. A file for the user alone can be written by nobody else. A file for one moment has no name.
//!
//! Root makes files for others to find only where nobody else can make or change a name on the way.

use std::fs::{self, File, Metadata};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FileType, FlockOperation, Mode, OFlags, PROC_SUPER_MAGIC, Stat, flock, fstat, fstatfs, openat, readlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The mode of a file that only the user of the program reads.
pub const PRIVATE: u32 = 0o600;
/// The mode of a file that others read as the umask says.
pub const SHARED: u32 = 0o666;
/// As many links as Linux follows.
const MOST_LINKS: usize = 40;

/// The purpose for which a file is opened.
struct Opening {
    access: OFlags,
    takes_files: bool,
    takes_streams: bool,
    follows_links: bool,
    /// Whether it may be anybody's where others put names.
    of_anybody: bool,
    /// The mode in which the program makes such files.
    mode: u32,
}

/// A regular file that is read and not believed.
const UNTRUSTED: Opening = Opening {
    access: OFlags::RDONLY,
    takes_files: true,
    takes_streams: false,
    follows_links: false,
    of_anybody: true,
    mode: SHARED,
};
const DATA: Opening = Opening {
    takes_streams: true,
    follows_links: true,
    ..UNTRUSTED
};
const SETTINGS: Opening = Opening {
    of_anybody: false,
    ..DATA
};
/// A regular file that an earlier run has made.
const KEPT: Opening = Opening {
    access: OFlags::RDWR,
    of_anybody: false,
    ..UNTRUSTED
};
const APPENDED: Opening = Opening {
    access: OFlags::WRONLY.union(OFlags::APPEND),
    takes_streams: true,
    ..KEPT
};
const STREAM: Opening = Opening {
    takes_files: false,
    ..APPENDED
};

/// The file that a name leads to: a descriptor that reads and writes nothing yet.
struct Found {
    descriptor: OwnedFd,
    about: Stat,
    directory: Stat,
    is_linked: bool,
}

impl Found {
    fn at(path: &Path) -> Result<Found> {
        const HELD: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
        let (mut path, mut is_linked) = (std::path::absolute(path)?, false);
        for _ in 0..MOST_LINKS {
            let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(refused("it is a directory"));
            };
            let directory = openat(CWD, above, HELD | OFlags::DIRECTORY, Mode::empty())?;
            let mut descriptor = openat(&directory, name, HELD | OFlags::NOFOLLOW, Mode::empty())?;
            let mut about = fstat(&descriptor)?;
            if FileType::from_raw_mode(about.st_mode) == FileType::Symlink {
                is_linked = true;
                if !is_trusted(about.st_uid) {
                    return Err(refused("it is a link, which belongs to another user"));
                }
                if fstatfs(&descriptor)?.f_type != PROC_SUPER_MAGIC {
                    let target = readlinkat(&descriptor, "", Vec::new())?.into_bytes();
                    path = above.join(std::ffi::OsString::from_vec(target));
                    continue;
                }
                // A file that a process has open may have no name.
                descriptor = openat(&directory, name, HELD, Mode::empty())?;
                about = fstat(&descriptor)?;
            }
            return Ok(Found {
                descriptor,
                about,
                directory: fstat(&directory)?,
                is_linked,
            });
        }
        Err(Errno::LOOP.into())
    }

    /// Returns why it is not the file that the program means to open.
    fn problem(&self, opening: &Opening) -> Option<&'static str> {
        let (is_own, writes) = (is_trusted(self.about.st_uid), opening.access != OFlags::RDONLY);
        match FileType::from_raw_mode(self.about.st_mode) {
            FileType::RegularFile if opening.takes_files => {}
            FileType::Fifo | FileType::CharacterDevice if opening.takes_streams => {
                let is_other = !is_own && !is_standard_stream(&self.about);
                return is_other.then_some("it is a pipe or a device of another user");
            }
            FileType::Directory => return Some("it is a directory"),
            _ => return Some("it is no file"),
        }
        if self.is_linked && !opening.follows_links {
            return Some("it is a link: name the file itself");
        }
        // Who reads a file of a directory has chosen the owner of the directory.
        let is_open = self.directory.st_mode & 0o022 != 0 || writes && !is_trusted(self.directory.st_uid);
        if is_open && !is_own && !opening.of_anybody {
            return Some("it belongs to another user, in a directory where others may put files");
        }
        if is_open && writes && self.about.st_nlink > 1 {
            return Some("it has several names, in a directory where others may put files");
        }
        let is_loose = self.about.st_mode & 0o022 & !opening.mode != 0;
        is_loose.then_some("others may write to it")
    }
}

impl Opening {
    fn open(&self, path: &Path) -> Result<File> {
        let found = Found::at(path)?;
        if let Some(problem) = found.problem(self) {
            return Err(refused(problem));
        }
        let held = format!("/proc/self/fd/{}", found.descriptor.as_raw_fd());
        match openat(CWD, held, self.access | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()) {
            // The file is there.
            Err(Errno::NOENT) => Err(Error::other("/proc is not mounted")),
            opened => Ok(File::from(opened?)),
        }
    }
}

/// Returns whether this process is root.
#[must_use]
pub fn is_root() -> bool {
    geteuid().is_root()
}

fn refused(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, problem)
}

/// Returns whether a user is this one or root.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// Returns whether the program was started with a stream: `sudo` starts it with those of another user.
fn is_standard_stream(about: &Stat) -> bool {
    let streams = [
        fstat(std::io::stdin()),
        fstat(std::io::stdout()),
        fstat(std::io::stderr()),
    ];
    let same = |stream: &Stat| (stream.st_dev, stream.st_ino) == (about.st_dev, about.st_ino);
    streams.iter().flatten().any(same)
}

/// Opens data to read them: a file of anybody, or a stream.
///
/// # Errors
/// A stream of another user; an error of the operating system.
pub fn data(path: &Path) -> Result<File> {
    DATA.open(path)
}

/// Opens a regular file of anybody to read it.
///
/// # Errors
/// A link, something that is no file, an error of the operating system.
pub fn read_only(path: &Path) -> Result<File> {
    UNTRUSTED.open(path)
}

/// Opens a file that the program believes: settings, keys, certificates.
///
/// # Errors
/// A file of another user where others may put names, a stream of another user, an error of the operating system.
pub fn settings(path: &Path) -> Result<File> {
    SETTINGS.open(path)
}

/// Reads a file that the program believes, if it has no more bytes than this.
///
/// # Errors
/// As for [`settings`]; a longer text; one that is not UTF-8.
pub fn text(path: &Path, most: u64) -> Result<String> {
    let bytes = bounded(settings(path)?, most)?;
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Reads a file that an earlier run has made for the user alone, if it is there and has no more bytes than this.
///
/// # Errors
/// As for [`again`]; a larger file.
pub fn contents(path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    match again(path, PRIVATE) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => bounded(file?, most).map(Some),
    }
}

fn bounded(file: File, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A device may have no end.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let problem = format!("it has more than {most} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

/// Opens a regular file that an earlier run has made in this mode, to go on with it.
///
/// # Errors
/// A link, something that is no file, a file that others can have made or changed, an error of the operating system.
pub fn again(path: &Path, mode: u32) -> Result<File> {
    Opening { mode, ..KEPT }.open(path)
}

/// Opens a file as [`again`], or makes it.
///
/// # Errors
/// As [`again`].
pub fn kept(path: &Path, mode: u32) -> Result<File> {
    loop {
        match again(path, mode) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            file => return file,
        }
        match create_new(path, mode) {
            // Another run has just made it. A link to nothing stays.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && !path.is_symlink() => {}
            file => return file,
        }
    }
}

/// Opens a file as [`kept`] for this program alone: another run that has it is told from one that has ended.
///
/// # Errors
/// As [`again`]; another run that has the file open.
pub fn alone(path: &Path, mode: u32) -> Result<File> {
    let file = kept(path, mode)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Error::new(
            ErrorKind::ResourceBusy,
            "another run of this program writes to it",
        )),
        // A file system without locks has none of others either.
        _ => Ok(file),
    }
}

/// Opens a file to append to it, or makes it for the user alone; or opens a stream to write to it.
///
/// # Errors
/// A link to a file, a file that others can have made, a stream of another user, an error of the operating system.
pub fn appended(path: &Path) -> Result<File> {
    append(path, PRIVATE)
}

fn append(path: &Path, mode: u32) -> Result<File> {
    match new_log(path, mode) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => APPENDED.open(path),
        made => made,
    }
}

/// Opens a log as [`appended`], or makes it for everybody that the umask allows.
///
/// # Errors
/// As [`appended`]; for root, if somebody else can make or change a name on the way.
pub fn log(path: &Path) -> Result<File> {
    require_trusted(&above(path)?)?;
    append(path, SHARED)
}

/// Opens a pipe or a device to write to it.
///
/// # Errors
/// A file, a stream of another user, an error of the operating system.
pub fn stream(path: &Path) -> Result<File> {
    STREAM.open(path)
}

/// Makes a file for reading and writing. Its name must be free.
///
/// # Errors
/// A file with this name, for example a link; an error of the operating system.
pub fn create_new(path: &Path, mode: u32) -> Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
}

/// Makes a file that is written at its end. Its name must be free.
///
/// # Errors
/// As [`create_new`].
pub fn new_log(path: &Path, mode: u32) -> Result<File> {
    File::options()
        .read(true)
        .append(true)
        .create_new(true)
        .mode(mode)
        .open(path)
}

/// Makes a file for reading and writing under a name. A file that an earlier run has left there goes, and so does a link, but not its
/// target.
///
/// # Errors
/// An error of the operating system: for example, the file of another user in a sticky directory stays.
pub fn anew(path: &Path, mode: u32) -> Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create_new(path, mode)
}

/// Makes a file for this user alone, and replaces one that is there, so that nobody else has it open. Devices, for
/// example `/dev/null` or `/dev/stdout`, are not removed for it.
///
/// # Errors
/// If it cannot be made; for root, if somebody else can make or change a name on the way.
pub fn replace(path: &Path) -> Result<File> {
    require_trusted(&above(path)?)?;
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => Err(refused("it is there and is no file")),
        _ => anew(path, PRIVATE),
    }
}

/// Replaces a file by a whole new one.
pub fn replaced(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let temporary = beside(path, ".new");
    let mut file = anew(&temporary, mode)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

/// Makes a file without a name, in the directory for temporary files. It is gone when nobody has it open.
pub fn unnamed() -> Result<File> {
    let directory = std::env::temp_dir();
    let mut options = File::options();
    options.read(true).write(true).mode(PRIVATE);
    let made = options
        .clone()
        .custom_flags(OFlags::TMPFILE.bits().cast_signed())
        .open(&directory);
    made.or_else(|_| {
        // A file system that makes no unnamed files: the name is taken away at once.
        let file = tempfile::NamedTempFile::new_in(&directory)?;
        Ok(file.into_file())
    })
}

/// Brings the names of a directory to the disk.
pub fn sync_names(directory: &Path) -> Result<()> {
    Ok(rustix::fs::fsync(openat(
        CWD,
        directory,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)?)
}

/// Returns the name with an ending behind it.
#[must_use]
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The directory of a file.
fn above(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path)?;
    Ok(path.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Checks that a directory and all above it are root's, as they are named and as they are: a link on the way is also
/// root's. Where all may write, the sticky bit keeps root's names.
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

/// Checks that nobody else can put a name into a directory, in addition to the checks of [`require_trusted`].
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As emulators that start and end at the same time do with the lock of their directory.
    #[test]
    fn a_file_that_others_make_and_remove_meanwhile_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        kept(&path, PRIVATE).unwrap();
                        let _ = fs::remove_file(&path);
                    }
                });
            }
        });
    }

    #[test]
    fn links_lead_to_nothing_that_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, link) = (directory.path().join("victim"), directory.path().join("link"));
        let put = || {
            fs::write(&victim, "precious").unwrap();
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink("victim", &link).unwrap();
        };
        put();
        anew(&link, SHARED).unwrap().write_all(b"new").unwrap();
        put();
        assert!(again(&link, SHARED).is_err() && appended(&link).is_err() && contents(&link, 100).is_err());
        assert!(read_only(&link).is_err() && alone(&link, SHARED).is_err());
        assert_eq!(text(&link, 8).unwrap(), "precious");
        replaced(&link, b"new", PRIVATE).unwrap();
        assert_eq!(fs::metadata(&link).unwrap().mode() & 0o777, 0o600);
        let waiting = beside(&link, ".new");
        std::os::unix::fs::symlink(&victim, &waiting).unwrap();
        replaced(&link, b"newer", PRIVATE).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(contents(&link, 5).unwrap().unwrap(), b"newer");
        assert!(contents(&link, 4).is_err());
        for stream in [appended, stream, data, settings] {
            stream(Path::new("/dev/null")).unwrap();
        }
        assert!(stream(&victim).is_err());
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

    /// The purpose for which a file is opened.
    type Door = fn(&Path) -> Result<File>;
    const DOORS: [(&str, Door); 7] = [
        ("data", data),
        ("read_only", read_only),
        ("settings", settings),
        ("again", |path| again(path, PRIVATE)),
        ("alone", |path| alone(path, PRIVATE)),
        ("appended", appended),
        ("stream", stream),
    ];

    /// Returns the doors that open a file.
    fn open_to(path: &Path) -> Vec<&'static str> {
        let opens = DOORS.iter().filter(|(_, door)| door(path).is_ok());
        opens.map(|(name, _)| *name).collect()
    }

    #[test]
    fn pipes_are_streams_of_their_user_and_no_files() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o666)).unwrap();
        // Nothing waits for it.
        let _both = File::options().read(true).write(true).open(&pipe).unwrap();
        assert_eq!(open_to(&pipe), ["data", "settings", "appended", "stream"]);
        if !is_root() {
            return;
        }
        let change = |user, mode| {
            std::os::unix::fs::chown(&pipe, Some(user), None).unwrap();
            fs::set_permissions(&pipe, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        };
        change(1, 0o666);
        assert_eq!(open_to(&pipe), Vec::<&str>::new());
    }

    #[test]
    fn a_file_that_others_may_change_is_not_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state");
        drop(create_new(&file, PRIVATE).unwrap());
        for mode in [0o620, 0o602] {
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(
                open_to(&file),
                ["data", "read_only", "settings", "appended"],
                "{mode:o}"
            );
            // The umask has made it so.
            again(&file, SHARED).unwrap();
        }
    }

    #[test]
    fn where_others_put_names_only_data_are_of_others() {
        if !is_root() {
            return;
        }
        let temporary = tempfile::tempdir().unwrap();
        let (open, theirs, own) = (
            temporary.path().join("open"),
            temporary.path().join("theirs"),
            temporary.path().join("own"),
        );
        for (directory, owner, mode) in [(&open, 0, 0o1777), (&theirs, 1, 0o755), (&own, 0, 0o755)] {
            fs::create_dir(directory).unwrap();
            std::os::unix::fs::chown(directory, Some(owner), None).unwrap();
            fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        }
        for (directory, doors) in [
            (&open, &["data", "read_only"][..]),
            (&theirs, &["data", "read_only", "settings"]),
            (&own, &["data", "read_only", "settings", "again", "alone", "appended"]),
        ] {
            let file = directory.join("file");
            drop(create_new(&file, PRIVATE).unwrap());
            std::os::unix::fs::chown(&file, Some(1), None).unwrap();
            assert_eq!(open_to(&file), doors, "{}", directory.display());
            let link = directory.join("link");
            std::os::unix::fs::symlink("file", &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(1), None).unwrap();
            assert_eq!(open_to(&link), Vec::<&str>::new(), "{}", directory.display());
        }
        // A second name of the user's own file.
        let victim = own.join("victim");
        drop(create_new(&victim, PRIVATE).unwrap());
        fs::hard_link(&victim, open.join("second")).unwrap();
        assert_eq!(open_to(&open.join("second")), ["data", "read_only", "settings"]);
    }
}
