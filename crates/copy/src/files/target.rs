//! Files as a target.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use table_service_model::table_name;

use crate::failure::Failure;
use crate::record::Record;

use super::csv_rows;
use super::format::{Format, Layout};
use super::lines;
use super::read;

const BUFFER: usize = 1 << 16;

/// A directory, a file, or standard output.
pub struct FileTarget {
    /// `None` is standard output.
    path: Option<PathBuf>,
    is_directory: bool,
    format: Format,
}

impl FileTarget {
    /// A path that exists and is no directory is a file; so is one whose ending is that of a format. Every other path
    /// is a directory, which is made if it is not there.
    ///
    /// # Errors
    /// A directory that cannot be made.
    pub fn new(path: Option<PathBuf>, format: Option<Format>) -> Result<FileTarget, Failure> {
        let default = Format {
            layout: Layout::Jsonl,
            compressed: false,
        };
        let Some(path) = path else {
            return Ok(FileTarget {
                path: None,
                is_directory: false,
                format: format.unwrap_or(default),
            });
        };
        let by_name = Format::of_path(&path);
        let is_directory = path.is_dir() || (by_name.is_none() && !path.exists() && !is_device(&path));
        Ok(FileTarget {
            format: format.or(if is_directory { None } else { by_name }).unwrap_or(default),
            is_directory,
            path: Some(path),
        })
    }

    pub fn name(&self) -> String {
        self.path
            .as_deref()
            .map_or_else(|| "standard output".to_owned(), |path| path.display().to_string())
    }

    pub fn is_stream(&self) -> bool {
        self.path.is_none()
    }

    pub fn holds_one_table(&self) -> bool {
        !self.is_directory
    }

    /// The file of a table; `None` is standard output.
    pub fn file_of(&self, table: &str) -> Option<PathBuf> {
        let path = self.path.as_ref()?;
        Some(if self.is_directory {
            path.join(format!("{table}.{}", self.format.ending()))
        } else {
            path.clone()
        })
    }

    /// Whether the file of a table has its name and no part of it is left.
    pub fn is_complete(&self, table: &str) -> bool {
        let Some(file) = self.file_of(table) else { return false };
        file.exists() && part_of(Some(&file), self.format).is_none_or(|part| !part.exists())
    }

    /// Begins the file of a table, or goes on with it where `length` says.
    ///
    /// # Errors
    /// A file that exists already, unless `overwrite`; what the operating system says.
    pub fn open(&self, table: &str, length: Option<u64>, overwrite: bool) -> Result<Writer, Failure> {
        // A name from elsewhere must not lead out of the directory.
        table_name::check_form(table).map_err(|error| Failure::new(format!("{table}: {error}")))?;
        if let (true, Some(path)) = (self.is_directory, &self.path) {
            std::fs::create_dir_all(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        }
        let file = self.file_of(table);
        if let (Some(file), None, false) = (&file, length, overwrite)
            && file.exists()
            && !is_device(file)
        {
            return Err(Failure::new(format!(
                "{} exists already. Give --on-conflict replace to overwrite it.",
                file.display()
            )));
        }
        Writer::open(file, self.format, length)
    }

    /// Writes a document beside the tables.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write_document(&self, name: &str, text: &str) -> Result<bool, Failure> {
        let Some(path) = self.path.as_ref().filter(|_| self.is_directory) else {
            return Ok(false);
        };
        let file = path.join(name);
        std::fs::create_dir_all(path)
            .and_then(|()| std::fs::write(&file, text))
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
        Ok(true)
    }
}

/// `/dev/stdout`, a pipe.
fn is_device(path: &Path) -> bool {
    path.exists() && !path.is_file() && !path.is_dir()
}

enum Output {
    Plain(BufWriter<Box<dyn Write + Send>>),
    Compressed(Box<zstd::Encoder<'static, BufWriter<Box<dyn Write + Send>>>>),
    /// Only for a moment: between two frames.
    None,
}

/// Writes the entities of one table, in one thread at a time.
///
/// While it works, a regular file has another name, so that nobody takes a part for the whole. CSV needs the names of all
/// properties before its first row. So its entities are first written as lines of JSON into a file beside it.
pub struct Writer {
    output: Output,
    /// `None` is standard output.
    file: Option<PathBuf>,
    format: Format,
    buffer: Vec<u8>,
    any: bool,
}

impl Writer {
    fn open(file: Option<PathBuf>, format: Format, length: Option<u64>) -> Result<Writer, Failure> {
        let part = part_of(file.as_deref(), format);
        let name = part.clone().unwrap_or_default();
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", name.display()));
        let raw: Box<dyn Write + Send> = match &part {
            None => Box::new(std::io::stdout()),
            Some(part) => {
                let mut file = OpenOptions::new()
                    .create(true)
                    .write(true)
                    .truncate(false)
                    .open(part)
                    .map_err(failed)?;
                if !is_device(part) {
                    let length = length.unwrap_or(0);
                    if file.metadata().map_err(failed)?.len() < length {
                        return Err(Failure::new(format!(
                            "{} is shorter than the resume file says. Start again without it.",
                            part.display()
                        )));
                    }
                    file.set_len(length).map_err(failed)?;
                    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(length)).map_err(failed)?;
                }
                Box::new(file)
            }
        };
        let mut writer = Writer {
            output: Output::Plain(BufWriter::with_capacity(BUFFER, raw)),
            file,
            format,
            buffer: Vec::new(),
            any: length.is_some_and(|length| length > 0),
        };
        if writer.spool().compressed {
            writer.begin_frame().map_err(failed)?;
        }
        Ok(writer)
    }

    /// The format of what is written while entities come.
    fn spool(&self) -> Format {
        spool_of(self.format)
    }

    fn begin_frame(&mut self) -> std::io::Result<()> {
        if let Output::Plain(plain) = std::mem::replace(&mut self.output, Output::None) {
            self.output = Output::Compressed(Box::new(zstd::Encoder::new(plain, 3)?));
        }
        Ok(())
    }

    fn end_frame(&mut self) -> std::io::Result<()> {
        match std::mem::replace(&mut self.output, Output::None) {
            Output::Compressed(encoder) => self.output = Output::Plain(encoder.finish()?),
            other => self.output = other,
        }
        Ok(())
    }

    /// Appends entities.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write(&mut self, records: &[Record]) -> Result<(), Failure> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        for record in records {
            if self.format.layout == Layout::Azcopy {
                buffer.extend_from_slice(if self.any { b",\n" } else { b"[\n" });
            }
            self.any = true;
            record.write_json(&mut buffer);
            if self.format.layout != Layout::Azcopy {
                buffer.push(b'\n');
            }
        }
        let written = self.bytes(&buffer);
        self.buffer = buffer;
        written.map_err(|error| self.failed(&error))
    }

    fn bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.output {
            Output::Plain(output) => output.write_all(bytes),
            Output::Compressed(output) => output.write_all(bytes),
            Output::None => Err(std::io::Error::other("the file is not open")),
        }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Failure {
        let name = self
            .file
            .as_deref()
            .map_or_else(|| "standard output".to_owned(), |file| file.display().to_string());
        Failure::new(format!("{name}: {error}"))
    }

    /// Brings everything to the disk, and returns the length that the file has then. A resumed copy goes on there.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn checkpoint(&mut self) -> Result<u64, Failure> {
        let Some(part) = part_of(self.file.as_deref(), self.format) else {
            return Ok(0);
        };
        let done = || -> std::io::Result<u64> {
            self.end_frame()?;
            if let Output::Plain(output) = &mut self.output {
                output.flush()?;
            }
            let file = File::open(&part)?;
            if !is_device(&part) {
                file.sync_data()?;
            }
            let length = file.metadata()?.len();
            if self.spool().compressed {
                self.begin_frame()?;
            }
            Ok(length)
        };
        let mut done = done;
        done().map_err(|error| Failure::new(format!("{}: {error}", part.display())))
    }

    /// Ends the file and gives it its name.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn finish(mut self) -> Result<(), Failure> {
        if self.format.layout == Layout::Azcopy {
            let end: &[u8] = if self.any { b"\n]\n" } else { b"[]\n" };
            self.bytes(end).map_err(|error| self.failed(&error))?;
        }
        self.end_frame().map_err(|error| self.failed(&error))?;
        if let Output::Plain(output) = &mut self.output {
            let flushed = output.flush();
            flushed.map_err(|error| self.failed(&error))?;
        }
        let Some(part) = part_of(self.file.as_deref(), self.format) else {
            return Ok(());
        };
        if self.format.layout == Layout::Csv {
            self.output = Output::None;
            to_csv(&part, spool_of(self.format), self.file.as_deref(), self.format)?;
            return std::fs::remove_file(&part).map_err(|error| self.failed(&error));
        }
        match &self.file {
            Some(file) if !is_device(file) => File::open(&part)
                .and_then(|part| part.sync_all())
                .and_then(|()| std::fs::rename(&part, file))
                .map_err(|error| self.failed(&error)),
            _ => Ok(()),
        }
    }
}

fn spool_of(format: Format) -> Format {
    if format.layout == Layout::Csv {
        return Format {
            layout: Layout::Jsonl,
            compressed: true,
        };
    }
    format
}

/// The file that is written until the table is complete.
fn part_of(file: Option<&Path>, format: Format) -> Option<PathBuf> {
    match file {
        Some(file) if is_device(file) && format.layout != Layout::Csv => Some(file.to_owned()),
        Some(file) => {
            let mut name = file.as_os_str().to_owned();
            name.push(".part");
            Some(PathBuf::from(name))
        }
        None if format.layout == Layout::Csv => {
            let name = format!("table-service-copy.{}.part", std::process::id());
            Some(std::env::temp_dir().join(name))
        }
        None => None,
    }
}

/// Writes lines of JSON as CSV, reading them twice: for the names of the properties, and for the rows.
fn to_csv(part: &Path, spool: Format, file: Option<&Path>, format: Format) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    each(part, spool, &mut |record| {
        for (name, _) in record.properties.as_properties().iter() {
            if !names.contains(name) {
                names.insert(name.to_owned());
            }
        }
        Ok(())
    })?;
    let to_file = file.filter(|file| !is_device(file));
    let temporary = to_file.map(|file| {
        let mut name = file.as_os_str().to_owned();
        name.push(".csv-part");
        PathBuf::from(name)
    });
    let place = temporary.as_deref().or(file);
    let shown = file.map_or_else(|| "standard output".to_owned(), |file| file.display().to_string());
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{shown}: {error}"));
    let raw: Box<dyn Write> = match place {
        Some(place) => Box::new(
            OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .open(place)
                .map_err(|error| failed(&error))?,
        ),
        None => Box::new(std::io::stdout()),
    };
    let mut output = if format.compressed {
        CsvOutput::Compressed(Box::new(zstd::Encoder::new(raw, 3).map_err(|error| failed(&error))?))
    } else {
        CsvOutput::Plain(raw)
    };
    {
        let mut rows = csv::WriterBuilder::new()
            .terminator(csv::Terminator::CRLF)
            .buffer_capacity(BUFFER)
            .from_writer(&mut output);
        rows.write_record(csv_rows::header(names.iter().map(String::as_str)))
            .map_err(|error| failed(&error))?;
        each(part, spool, &mut |record| {
            rows.write_record(csv_rows::row(record, names.iter().map(String::as_str)))
                .map_err(|error| failed(&error))
        })?;
        rows.flush().map_err(|error| failed(&error))?;
    }
    output.finish().map_err(|error| failed(&error))?;
    if let (Some(temporary), Some(file)) = (temporary, to_file) {
        File::open(&temporary)
            .and_then(|written| written.sync_all())
            .and_then(|()| std::fs::rename(&temporary, file))
            .map_err(|error| failed(&error))?;
    }
    Ok(())
}

enum CsvOutput {
    Plain(Box<dyn Write>),
    Compressed(Box<zstd::Encoder<'static, Box<dyn Write>>>),
}

impl CsvOutput {
    fn finish(self) -> std::io::Result<()> {
        match self {
            CsvOutput::Plain(mut output) => output.flush(),
            CsvOutput::Compressed(output) => output.finish()?.flush(),
        }
    }
}

impl Write for CsvOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            CsvOutput::Plain(output) => output.write(bytes),
            CsvOutput::Compressed(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            CsvOutput::Plain(output) => output.flush(),
            CsvOutput::Compressed(output) => output.flush(),
        }
    }
}

/// Reads the lines that this program has written.
fn each(part: &Path, spool: Format, take: &mut dyn FnMut(&Record) -> Result<(), Failure>) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", part.display()));
    let mut reader = read::open(Some(part), spool).map_err(|error| failed(&error))?;
    let mut line = Vec::new();
    while lines::next(&mut *reader, &mut line)
        .map_err(|error| failed(&error))?
        .is_some()
    {
        let text = std::str::from_utf8(&line).map_err(|error| failed(&error))?;
        take(&Record::from_json(text).map_err(|error| failed(&error))?)?;
    }
    Ok(())
}
