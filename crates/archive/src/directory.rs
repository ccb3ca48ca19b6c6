//! The directory of an archive: its files, the lock of the only writer, and the manifest.

use std::fs::{DirBuilder, File};
use std::io::{BufReader, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use table_service_command_line::failure::{Failure, exit};
use table_service_command_line::files as created;

use crate::manifest::{Kind, Manifest};
use table_service_files::WINDOW_LOG;

/// How many files a directory may have.
const MOST_NAMES: usize = 2_000_000;

/// An archive's directory.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
}

/// The contents of the directory.
pub struct Found {
    pub manifest: Manifest,
    /// The damage of a manifest's file, with its name. If the newest one is damaged, the manifest is the one before.
    pub damage: Option<String>,
    /// Whether the manifest is the one before the newest.
    pub is_earlier: bool,
}

/// A name in the directory.
pub struct Entry {
    pub name: String,
    /// The number of a segment or a base.
    pub number: Option<u64>,
    /// Whether the archive has files of this name for its own use.
    pub is_own: bool,
}

impl Directory {
    /// The archive in a directory, which need not be there.
    pub fn new(path: &Path) -> Directory {
        Directory { path: path.to_owned() }
    }

    /// An error with the name of the directory.
    pub fn failed(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!("{}: {error}", self.path.display()))
    }

    /// The path.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn of(&self, name: &str) -> PathBuf {
        self.path.join(format!("v1-{name}"))
    }

    fn manifest_file(&self) -> PathBuf {
        self.of("manifest.jsonl.zst")
    }

    /// The manifest before the newest one.
    fn earlier_file(&self) -> PathBuf {
        self.of("manifest-before.jsonl.zst")
    }

    /// The path of a segment or a base. No name in it is from elsewhere.
    pub fn file(&self, kind: Kind, number: u64) -> PathBuf {
        self.path.join(kind.file_name(number))
    }

    /// Makes the directory if it is not there, and takes the lock of the only writer. It goes with the process.
    ///
    /// # Errors
    /// Another writer; a directory of something else; an error of the operating system.
    pub fn write(&self) -> Result<File, Failure> {
        let is_new = match DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            made => made.map(|()| true).map_err(|error| self.failed(&error))?,
        };
        if !is_new {
            let entries = self.entries()?;
            let is_archive = self.has_manifest() || entries.iter().all(|entry| entry.is_own || entry.number.is_some());
            if !is_archive {
                return Err(self.failed(&"it is no archive and not empty, so it stays as it is"));
            }
        }
        let lock = self.of("lock");
        let file = created::alone(&lock, created::PRIVATE)
            .map_err(|error| Failure::new(format!("{}: {error}", lock.display())))?;
        // Readers lock it, so that nothing goes while they read; it may be locked now.
        let _ = created::alone(&self.of("reading"), created::PRIVATE);
        Ok(file)
    }

    fn has_manifest(&self) -> bool {
        [self.manifest_file(), self.earlier_file()]
            .iter()
            .any(|path| std::fs::symlink_metadata(path).is_ok())
    }

    /// Keeps the files from being removed while they are read, as far as the directory allows it.
    pub fn read_lock(&self) -> Option<File> {
        let lock = created::again(&self.of("reading"), created::PRIVATE).ok();
        lock.filter(|file| flock(file, FlockOperation::LockShared).is_ok())
    }

    /// Takes the lock under which files are removed; `None` if somebody reads.
    pub fn remove_lock(&self) -> Result<Option<File>, Failure> {
        match created::alone(&self.of("reading"), created::PRIVATE) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Reads the manifest; `None` if there is none yet.
    ///
    /// # Errors
    /// The damage, if the manifest before it does not help either.
    pub fn manifest(&self) -> Result<Option<Found>, Failure> {
        let (newest, earlier) = (self.manifest_file(), self.earlier_file());
        let first = read_manifest(&newest);
        let second = read_manifest(&earlier);
        let named = |path: &Path, problem: &str| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            format!("{}: {problem}", name.unwrap_or_default())
        };
        let missing = "it is missing";
        Ok(match (first, second) {
            (Ok(Some(manifest)), second) => Some(Found {
                manifest,
                damage: second.err().map(|problem| named(&earlier, &problem)),
                is_earlier: false,
            }),
            (first, Ok(Some(manifest))) => Some(Found {
                manifest,
                damage: Some(named(&newest, first.err().as_deref().unwrap_or(missing))),
                is_earlier: true,
            }),
            (Ok(None), Ok(None)) => None,
            (newer, older) => {
                let of = |path, read: Result<_, String>| read.err().map(|problem| named(path, &problem));
                let problems: Vec<String> = [of(&newest, newer), of(&earlier, older)]
                    .into_iter()
                    .flatten()
                    .collect();
                let mut failure = self.failed(&problems.join("; "));
                failure.code = exit::DIFFERENT;
                return Err(failure);
            }
        })
    }

    /// Reads the manifest of an archive that must be there.
    ///
    /// # Errors
    /// As for [`Directory::manifest`]; that there is none.
    pub fn found(&self) -> Result<Found, Failure> {
        self.manifest()?
            .ok_or_else(|| self.failed(&"there is no archive: it has no manifest"))
    }

    /// Replaces the manifest. When this returns, the new one is on the disk, and so is every file that it names.
    ///
    /// # Errors
    /// A manifest that no reader would accept; an error of the operating system.
    pub fn set_manifest(&self, manifest: &Manifest) -> Result<(), Failure> {
        let lines = manifest.to_lines().map_err(|problem| {
            let what = "the archive cannot go on, and stays as it is";
            self.failed(&format!(
                "{what}: {problem}. --keep and --table make it smaller; a new directory begins another one"
            ))
        })?;
        let replace = || -> std::io::Result<()> {
            let mut encoder = zstd::Encoder::new(Vec::new(), 3)?;
            encoder.include_checksum(true)?;
            encoder.write_all(&lines)?;
            let bytes = encoder.finish()?;
            let newest = self.manifest_file();
            if std::fs::symlink_metadata(&newest).is_ok() {
                let link = created::beside(&self.earlier_file(), ".new");
                match std::fs::remove_file(&link) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                std::fs::hard_link(&newest, &link)?;
                std::fs::rename(&link, self.earlier_file())?;
            }
            // The files that it names have their names on the disk before it has its own.
            self.sync()?;
            created::replaced(&newest, &bytes, created::PRIVATE)?;
            self.sync()
        };
        replace().map_err(|error| self.failed(&error))
    }

    /// Brings the names of the directory to the disk.
    fn sync(&self) -> std::io::Result<()> {
        created::sync_names(&self.path)
    }

    /// The entries of the directory.
    pub fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let own: Vec<String> = [
            self.manifest_file(),
            self.earlier_file(),
            self.of("lock"),
            self.of("reading"),
            created::beside(&self.manifest_file(), ".new"),
            created::beside(&self.earlier_file(), ".new"),
        ]
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .collect();
        let list = || -> std::io::Result<Vec<Entry>> {
            let mut entries = Vec::new();
            for entry in std::fs::read_dir(&self.path)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if entries.len() >= MOST_NAMES {
                    return Err(std::io::Error::other(format!("it has more than {MOST_NAMES} files")));
                }
                entries.push(Entry {
                    number: Directory::number_of(&name),
                    is_own: own.contains(&name),
                    name,
                });
            }
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        };
        list().map_err(|error| self.failed(&error))
    }

    /// The number in the name of a segment or a base.
    fn number_of(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(".jsonl.zst")?.rsplit('-').next()?;
        let number = digits.parse().ok()?;
        let is_of = |kind: Kind| kind.file_name(number) == name;
        (is_of(Kind::Segment) || is_of(Kind::Base)).then_some(number)
    }

    /// Removes the segments and bases with these numbers, if they are there.
    pub fn remove(&self, is_gone: &dyn Fn(u64) -> bool) -> Result<(), Failure> {
        for entry in self.entries()? {
            if entry.number.is_some_and(is_gone) {
                std::fs::remove_file(self.path.join(&entry.name)).map_err(|error| self.failed(&error))?;
            }
        }
        Ok(())
    }
}

/// Reads a manifest's file; `None` if there is none. The error says why it cannot be read.
fn read_manifest(path: &Path) -> Result<Option<Manifest>, String> {
    let file = match created::read_only(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| error.to_string())?,
    };
    let mut decoder = zstd::Decoder::with_buffer(BufReader::new(file)).map_err(|error| error.to_string())?;
    decoder.window_log_max(WINDOW_LOG).map_err(|error| error.to_string())?;
    Manifest::read(decoder)
        .map(Some)
        .map_err(|problem| format!("it is no manifest, or damaged: {problem}"))
}
