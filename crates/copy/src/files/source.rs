//! Files as a source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use table_service_model::table_name;
use tokio::sync::mpsc::Sender;

use crate::failure::Failure;
use crate::record::{Chunk, Position, Range};

use super::format::{Format, Layout, POLICIES_ENDING, SERVICE_FILE, table_of};
use super::read;

/// A directory, a file, or standard input.
pub struct FileSource {
    /// `None` is standard input.
    path: Option<PathBuf>,
    /// What the command line says of standard input and of files whose names do not say it.
    format: Option<Format>,
    /// The only table, if the command line names exactly one.
    table: Option<String>,
}

impl FileSource {
    pub fn new(path: Option<PathBuf>, format: Option<Format>, tables: &[String]) -> FileSource {
        let table = match tables {
            [table] => Some(table.clone()),
            _ => None,
        };
        FileSource { path, format, table }
    }

    /// What reports call it.
    pub fn name(&self) -> String {
        self.path
            .as_deref()
            .map_or_else(|| "standard input".to_owned(), |path| path.display().to_string())
    }

    /// The tables that there are, each with its files.
    ///
    /// # Errors
    /// A path that cannot be read, a name that is not that of a table.
    pub fn tables(&self) -> Result<Vec<String>, Failure> {
        Ok(self.files()?.into_keys().collect())
    }

    fn files(&self) -> Result<BTreeMap<String, Vec<PathBuf>>, Failure> {
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
        for entry in path.read_dir().map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            if file.is_file()
                && !is_ours(&file)
                && let Some(table) = table_of(&file)
            {
                files.entry(table).or_default().push(file);
            }
        }
        files.values_mut().for_each(|files| files.sort());
        Ok(files)
    }

    fn format_of(&self, path: Option<&Path>) -> Result<Format, Failure> {
        let default = Format {
            layout: Layout::Jsonl,
            compressed: false,
        };
        path.and_then(Format::of_path)
            .or(self.format)
            .or(if path.is_none() { Some(default) } else { None })
            .ok_or_else(|| {
                Failure::usage(format!(
                    "{}: the format cannot be told from the name; give it with --format.",
                    self.name()
                ))
            })
    }

    /// The ranges of a table: its files.
    ///
    /// # Errors
    /// As [`FileSource::tables`].
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
    ///
    /// # Errors
    /// A file that cannot be read.
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
        let format = self.format_of(path.as_deref())?;
        let table = table.to_owned();
        tokio::task::spawn_blocking(move || {
            read::read(&table, path.as_deref(), format, position, &mut |chunk| {
                chunks.blocking_send(chunk).is_ok()
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
        match std::fs::read_to_string(path.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::new(format!("{}: {error}", path.join(name).display()))),
        }
    }
}

/// Documents beside the tables, which are no tables.
fn is_ours(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.ends_with(POLICIES_ENDING) || name == SERVICE_FILE)
}
