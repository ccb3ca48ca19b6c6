//! Files as a source.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;
use table_service_files::{Fault, Input};
use table_service_model::table_name;
use tokio::sync::mpsc::Sender;

use crate::created;
use crate::failure::Failure;
use crate::printable::{said, tell};
use crate::records::{Chunk, Position, Range};

use super::azurite;
use super::format::{FileOptions, Format, Layout, POLICIES_ENDING, ReadOptions, SERVICE_FILE, table_of};
use super::read::{self, Options};

/// How many files a directory may have.
const MOST_FILES: usize = 100_000;
/// The largest document beside tables: the service's properties and five policies are much smaller.
const LARGEST_DOCUMENT: u64 = 1 << 20;

/// The messages that the user has read already: a file may be read several times.
static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A directory, a file, or standard input.
pub struct FileSource {
    /// `None` is standard input.
    path: Option<PathBuf>,
    options: FileOptions,
    reading: ReadOptions,
    /// The only table, if the command line names exactly one.
    table: Option<String>,
    /// The files of each table, once they are known: a database file has to be read to its end for them.
    found: OnceLock<BTreeMap<String, Vec<PathBuf>>>,
}

impl FileSource {
    /// The files of a path, or standard input.
    pub fn new(path: Option<PathBuf>, options: &FileOptions, reading: &ReadOptions, tables: &[String]) -> FileSource {
        let table = match tables {
            [table] => Some(table.clone()),
            _ => None,
        };
        FileSource {
            path,
            options: options.clone(),
            reading: reading.clone(),
            table,
            found: OnceLock::new(),
        }
    }

    /// Files of this program need no mapping.
    pub fn as_written(mut self) -> FileSource {
        self.reading.mapping = None;
        self
    }

    /// The file's name in reports.
    pub fn name(&self) -> String {
        read::name_of(self.path.as_deref())
    }

    /// The tables that there are, each with its files.
    ///
    /// # Errors
    /// A path that cannot be read, a name that is no table's name.
    pub fn tables(&self) -> Result<Vec<String>, Failure> {
        Ok(self.files()?.into_keys().collect())
    }

    fn files(&self) -> Result<BTreeMap<String, Vec<PathBuf>>, Failure> {
        if let Some(found) = self.found.get() {
            return Ok(found.clone());
        }
        let files = self.find()?;
        Ok(self.found.get_or_init(|| files).clone())
    }

    fn find(&self) -> Result<BTreeMap<String, Vec<PathBuf>>, Failure> {
        let mut files = BTreeMap::<String, Vec<PathBuf>>::new();
        let Some(path) = &self.path else {
            let table = self
                .table
                .clone()
                .ok_or_else(|| Failure::usage("Standard input is one table; name it with --table."))?;
            files.insert(table, Vec::new());
            return Ok(files);
        };
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
        if !path.metadata().map_err(failed)?.is_dir() {
            if self.format_of(Some(path))?.layout == Layout::Azurite {
                self.database(path, &mut files)?;
                return Ok(files);
            }
            let named = || table_of(path).filter(|name| table_name::check_form(name).is_ok());
            let table = self.table.clone().or_else(named).ok_or_else(|| {
                Failure::usage(format!(
                    "{} is not named after a table; name the table with --table.",
                    path.display()
                ))
            })?;
            files.insert(table, vec![path.clone()]);
            return Ok(files);
        }
        self.find_in(path, &mut files)?;
        Ok(files)
    }

    /// Adds the tables of a directory, and names the files that are not read.
    ///
    /// # Errors
    /// Also if there are only such files.
    fn find_in(&self, path: &Path, files: &mut BTreeMap<String, Vec<PathBuf>>) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
        let (mut others, mut has_documents) = (BTreeSet::new(), false);
        for (index, entry) in path.read_dir().map_err(failed)?.enumerate() {
            let file = entry.map_err(failed)?.path();
            if index == MOST_FILES {
                let reason = format!("{}: there are more than {MOST_FILES} files.", path.display());
                return Err(Failure::new(reason));
            }
            if !file.is_file() {
                continue;
            }
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if Format::of_path(&file).is_some_and(|format| format.layout == Layout::Azurite) {
                self.database(&file, files)?;
                has_documents = true;
            } else if is_document(&name) {
                has_documents = true;
            } else if let Some(table) = table_of(&file) {
                files.entry(table).or_default().push(file);
            } else if !name.starts_with('.') {
                others.insert(said(&name));
            }
        }
        if !others.is_empty() {
            let some: Vec<String> = others.iter().take(20).cloned().collect();
            let reason = format!(
                "{}: files that are not read, because their names are not those of tables with the ending of a format ({}): {}",
                path.display(),
                others.len(),
                some.join(", ")
            );
            match files.is_empty() && !has_documents {
                true => return Err(Failure::new(format!("{reason}."))),
                false => tell_once(reason),
            }
        }
        files.values_mut().for_each(|files| files.sort());
        Ok(())
    }

    /// Adds the tables of an emulator's database file.
    fn database(&self, path: &Path, files: &mut BTreeMap<String, Vec<PathBuf>>) -> Result<(), Failure> {
        let read = || -> Result<_, Fault> {
            let raw = read::open(Some(path), self.format_of(Some(path)).map_err(std::io::Error::other)?)?;
            azurite::tables(&mut Input::new(raw)?)
        };
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        let mut tables = read().map_err(|fault| failed(&fault))?;
        match &self.reading.account {
            Some(account) => tables.retain(|table| table.account == *account),
            None => {
                let accounts: BTreeSet<&str> = tables.iter().map(|table| table.account.as_str()).collect();
                if accounts.len() > 1 {
                    let some: Vec<String> = accounts.into_iter().take(20).map(said).collect();
                    return Err(Failure::usage(format!(
                        "{}: it has tables of several accounts ({}); name one with --account.",
                        path.display(),
                        some.join(", ")
                    )));
                }
            }
        }
        for table in tables {
            table_name::check_form(&table.table)
                .map_err(|error| failed(&format!("{}: {error}", said(&table.table))))?;
            files.entry(table.table).or_default().push(path.to_owned());
        }
        Ok(())
    }

    fn format_of(&self, path: Option<&Path>) -> Result<Format, Failure> {
        path.and_then(Format::of_path)
            .or(self.options.format)
            .or(path.is_none().then(Format::default))
            .ok_or_else(|| {
                Failure::usage(format!(
                    "{}: the format cannot be told from the name; give it with --format.",
                    self.name()
                ))
            })
    }

    /// The ranges of a table: its files.
    pub fn ranges(&self, table: &str) -> Result<Vec<Range>, Failure> {
        let files = self.files()?.remove(table).unwrap_or_default();
        if self.path.is_none() {
            return Ok(vec![Range::Stream]);
        }
        Ok(files.into_iter().map(Range::File).collect())
    }

    /// How many bytes the files of a table have.
    pub fn bytes(&self, table: &str) -> Option<u64> {
        let files = self.files().ok()?.remove(table)?;
        self.path.as_ref()?;
        files
            .iter()
            .map(|file| file.metadata().map(|data| data.len()).ok())
            .sum()
    }

    /// Reads a range from a position on.
    pub async fn read(
        &self,
        table: &str,
        range: &Range,
        position: Option<Position>,
        chunks: Sender<Chunk>,
    ) -> Result<(), Failure> {
        let path = match range {
            Range::File(path) => Some(path.clone()),
            _ => None,
        };
        if path.is_none() && matches!(position, Some(Position::Records(_))) {
            return Err(Failure::usage(
                "A copy from standard input cannot be resumed: what was read is gone.",
            ));
        }
        if path.is_none() && self.reading.infer_types {
            return Err(Failure::usage(
                "--infer-types reads a file twice, so it is not for standard input.",
            ));
        }
        let format = self.format_of(path.as_deref())?;
        let (table, delimiter, reading) = (table.to_owned(), self.options.delimiter, self.reading.clone());
        tokio::task::spawn_blocking(move || {
            let options = Options {
                format,
                delimiter,
                reading: &reading,
            };
            let mut send = |chunk| chunks.blocking_send(chunk).is_ok();
            read::read(&table, path.as_deref(), options, position, &mut send, &mut |note| {
                tell_once(note);
            })
        })
        .await
        .map_err(|error| Failure::new(error.to_string()))?
    }

    /// The stored access policies of a table, or of the service for `None`, as they were written beside the tables.
    pub fn document(&self, name: &str) -> Result<Option<String>, Failure> {
        let Some(path) = self.path.as_ref().filter(|path| path.is_dir()) else {
            return Ok(None);
        };
        let path = path.join(name);
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        let file = match created::data(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| failed(&error))?,
        };
        let mut text = String::new();
        let read = file.take(LARGEST_DOCUMENT + 1).read_to_string(&mut text);
        read.map_err(|error| failed(&error))?;
        if text.len() as u64 > LARGEST_DOCUMENT {
            return Err(failed(&"it is too long for access policies or service properties"));
        }
        Ok(Some(text))
    }
}

/// Returns whether a file is beside the tables, and has none: one of this program's, of `AzCopy`'s or of azurite's.
fn is_document(name: &str) -> bool {
    let is_ours = name.ends_with(POLICIES_ENDING) || name == SERVICE_FILE;
    is_ours || name.ends_with(".manifest") || name.starts_with("__azurite_db_") && name.ends_with(".json")
}

/// Says it, if the user has not read it already.
fn tell_once(note: String) {
    if TOLD.lock().insert(note.clone()) {
        tell(&format!("table-service-copy: {note}."));
    }
}
