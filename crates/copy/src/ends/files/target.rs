//! Files as a target.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use table_service_files::{Fault, Input, MOST_COLUMNS, Names, lines, writer};
use table_service_model::table_name;

use crate::created;
use crate::ends::output;
use crate::failure::Failure;
use crate::records::Record;

use super::format::{FileOptions, Format, Layout};

const BUFFER: usize = 1 << 16;
/// While a file is written, this is behind its name.
const PART: &str = ".part";

/// A directory, a file, or standard output.
pub struct FileTarget {
    /// `None` is standard output.
    path: Option<PathBuf>,
    is_directory: bool,
    format: Format,
    delimiter: u8,
}

impl FileTarget {
    /// A path that exists and is no directory is a file; so is a path that has the ending of a format. Every other path
    /// is a directory, which is made if it is not there.
    ///
    /// # Errors
    /// A format that is only read.
    pub fn new(path: Option<PathBuf>, options: &FileOptions) -> Result<FileTarget, Failure> {
        let by_name = path.as_deref().and_then(Format::of_path);
        let is_directory = path
            .as_ref()
            .is_some_and(|path| path.is_dir() || (by_name.is_none() && !path.exists() && !is_device(path)));
        if path.is_none() {
            output::for_data()?;
        }
        let format = options.format.or(by_name.filter(|_| !is_directory)).unwrap_or_default();
        if format.layout == Layout::Azurite {
            return Err(Failure::usage(
                "azurite is a format to read; write jsonl, csv or azcopy.",
            ));
        }
        Ok(FileTarget {
            path,
            is_directory,
            format,
            delimiter: options.delimiter,
        })
    }

    /// The path, without a secret.
    pub fn name(&self) -> String {
        name_of(self.path.as_deref())
    }

    /// Returns whether it is standard output.
    pub fn is_stream(&self) -> bool {
        self.path.is_none()
    }

    /// Returns whether there is room for one table alone.
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

    /// Returns whether the file of a table has its name and no part of it is left.
    pub fn is_complete(&self, table: &str) -> bool {
        let Some(file) = self.file_of(table) else { return false };
        file.exists() && (is_device(&file) || !created::beside(&file, PART).exists())
    }

    /// Begins the file of a table, or goes on with it where `length` says.
    ///
    /// # Errors
    /// The file exists already, unless `overwrite`; errors of the operating system.
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
        Writer::open(file, self.format, self.delimiter, length)
    }

    /// Writes a document beside the tables.
    pub fn write_document(&self, name: &str, text: &str) -> Result<bool, Failure> {
        let Some(path) = self.path.as_ref().filter(|_| self.is_directory) else {
            return Ok(false);
        };
        let file = path.join(name);
        std::fs::create_dir_all(path)
            .and_then(|()| created::replaced(&file, text.as_bytes(), created::SHARED))
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

impl Output {
    fn new(raw: Box<dyn Write + Send>) -> Output {
        Output::Plain(BufWriter::with_capacity(BUFFER, raw))
    }

    /// Begins a frame. It ends with a checksum of its contents, which every decoder checks.
    fn begin_frame(&mut self) -> std::io::Result<()> {
        if let Output::Plain(plain) = std::mem::replace(self, Output::None) {
            let mut encoder = zstd::Encoder::new(plain, 3)?;
            encoder.include_checksum(true)?;
            *self = Output::Compressed(Box::new(encoder));
        }
        Ok(())
    }

    /// Ends the frame, if there is one, and hands everything to the operating system.
    fn end_frame(&mut self) -> std::io::Result<()> {
        *self = match std::mem::replace(self, Output::None) {
            Output::Compressed(encoder) => Output::Plain(encoder.finish()?),
            other => other,
        };
        self.flush()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Output::Plain(output) => output.write(bytes),
            Output::Compressed(output) => output.write(bytes),
            Output::None => Err(std::io::Error::other("the file is not open")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Output::Plain(output) => output.flush(),
            Output::Compressed(output) => output.flush(),
            Output::None => Err(std::io::Error::other("the file is not open")),
        }
    }
}

/// Where entities go while they come.
enum Destination {
    /// Into a file with another name, so that nobody takes a part for the whole; its handle and that name.
    Part(File, PathBuf),
    /// CSV for standard output or a device: into a file without a name, which is gone however the program ends.
    Unnamed(File),
    /// As they come: standard output or a device.
    Through,
}

/// Writes the entities of one table, in one thread at a time.
///
/// CSV needs the names of all properties before its first row. So its entities are first written as lines of JSON.
pub struct Writer {
    output: Output,
    destination: Destination,
    /// `None` is standard output.
    file: Option<PathBuf>,
    format: Format,
    delimiter: u8,
    buffer: Vec<u8>,
    any: bool,
}

impl Writer {
    fn open(file: Option<PathBuf>, format: Format, delimiter: u8, length: Option<u64>) -> Result<Writer, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", name_of(file.as_deref())));
        let regular = file.as_deref().filter(|file| !is_device(file));
        let opened = || -> std::io::Result<(Destination, Box<dyn Write + Send>)> {
            Ok(match regular {
                Some(file) => {
                    let part = created::beside(file, PART);
                    let handle = match length {
                        Some(length) => part_again(&part, length)?,
                        None => created::anew(&part, created::SHARED)?,
                    };
                    let raw = handle.try_clone()?;
                    (Destination::Part(handle, part), Box::new(raw))
                }
                None if format.layout == Layout::Csv => {
                    let unnamed = created::unnamed()?;
                    let raw = unnamed.try_clone()?;
                    (Destination::Unnamed(unnamed), Box::new(raw))
                }
                None => (Destination::Through, stream(file.as_deref())?),
            })
        };
        let (destination, raw) = opened().map_err(|error| failed(&error))?;
        let mut writer = Writer {
            output: Output::new(raw),
            destination,
            format,
            delimiter,
            buffer: Vec::new(),
            any: length.is_some_and(|length| length > 0),
            file,
        };
        if writer.spool().compressed {
            writer.output.begin_frame().map_err(|error| writer.failed(&error))?;
        }
        Ok(writer)
    }

    /// The format of the file while entities come.
    fn spool(&self) -> Format {
        match self.format.layout {
            Layout::Csv => Format {
                layout: Layout::Jsonl,
                compressed: true,
            },
            _ => self.format,
        }
    }

    /// Appends entities.
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
        let written = self.output.write_all(&buffer);
        self.buffer = buffer;
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!("{}: {error}", name_of(self.file.as_deref())))
    }

    /// Brings everything to the disk, and returns the length that the file has then. A resumed copy goes on there.
    pub fn checkpoint(&mut self) -> Result<u64, Failure> {
        let compressed = self.spool().compressed;
        let Destination::Part(part, _) = &self.destination else {
            return Ok(0);
        };
        let output = &mut self.output;
        let mut done = || -> std::io::Result<u64> {
            output.end_frame()?;
            part.sync_data()?;
            let length = part.metadata()?.len();
            if compressed {
                output.begin_frame()?;
            }
            Ok(length)
        };
        done().map_err(|error| self.failed(&error))
    }

    /// Ends the file and gives it its name.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.end().map_err(|error| self.failed(&error))
    }

    fn end(&mut self) -> Result<(), Fault> {
        let end: &[u8] = match (self.format.layout, self.any) {
            (Layout::Azcopy, true) => b"\n]\n",
            (Layout::Azcopy, false) => b"[]\n",
            // An empty file is one that was not written to its end.
            (Layout::Jsonl, false) => b"\n",
            _ => b"",
        };
        self.output.write_all(end)?;
        self.output.end_frame()?;
        match (&self.destination, self.file.as_deref()) {
            (Destination::Through, _) => {}
            (Destination::Part(spool, part), Some(file)) if self.format.layout == Layout::Csv => {
                let rows = created::beside(file, ".csv-part");
                let target = created::anew(&rows, created::SHARED)?;
                let write = || -> Result<(), Fault> {
                    self.to_csv(spool, Box::new(target.try_clone()?))?;
                    target.sync_all()?;
                    Ok(std::fs::rename(&rows, file)?)
                };
                if let Err(error) = write() {
                    // The first error is its message.
                    let _ = std::fs::remove_file(&rows);
                    return Err(error);
                }
                std::fs::remove_file(part)?;
            }
            (Destination::Part(spool, part), Some(file)) => {
                spool.sync_all()?;
                std::fs::rename(part, file)?;
            }
            (Destination::Part(spool, _) | Destination::Unnamed(spool), file) => self.to_csv(spool, stream(file)?)?,
        }
        Ok(())
    }

    /// Writes lines of JSON as CSV, reading them twice: for the names of the properties, and for the rows.
    fn to_csv(&self, spool: &File, raw: Box<dyn Write + Send>) -> Result<(), Fault> {
        let mut names = Names::default();
        // Keys and Timestamp have a column each.
        let most = (MOST_COLUMNS - 3) / 2;
        each(spool, &mut |record| match names.add(&record.as_entity()) > most {
            false => Ok(()),
            true => Err(format!(
                "its entities have more than {most} different properties, too many for columns; write jsonl"
            )
            .into()),
        })?;
        let mut output = Output::new(raw);
        if self.format.compressed {
            output.begin_frame()?;
        }
        {
            let mut rows = writer(&mut output, self.delimiter, BUFFER);
            names.write_header(&mut rows)?;
            each(spool, &mut |record| Ok(names.write(&mut rows, &record.as_entity())?))?;
            rows.flush()?;
        }
        Ok(output.end_frame()?)
    }
}

/// Reads the lines that this program has written.
fn each(mut spool: &File, take: &mut dyn FnMut(&Record) -> Result<(), Fault>) -> Result<(), Fault> {
    spool.rewind()?;
    let mut input = Input::new(zstd::Decoder::with_buffer(BufReader::with_capacity(BUFFER, spool))?)?;
    let mut line = Vec::new();
    while lines::next(&mut input, &mut line)?.is_some() {
        let record = Record::from_json(std::str::from_utf8(&line)?).map_err(|error| error.to_string())?;
        take(&record)?;
    }
    Ok(())
}

fn name_of(file: Option<&Path>) -> String {
    file.map_or_else(|| "standard output".to_owned(), |file| file.display().to_string())
}

/// Standard output, or a device.
fn stream(file: Option<&Path>) -> std::io::Result<Box<dyn Write + Send>> {
    Ok(match file {
        Some(file) => Box::new(created::stream(file)?),
        None => Box::new(std::io::stdout()),
    })
}

/// Goes on with the file of an earlier run behind so many bytes.
fn part_again(part: &Path, length: u64) -> std::io::Result<File> {
    let mut handle = match created::again(part, created::SHARED) {
        // Nothing was written.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && length == 0 => {
            created::anew(part, created::SHARED)?
        }
        handle => handle?,
    };
    if handle.metadata()?.len() < length {
        return Err(std::io::Error::other(
            "its file with .part behind the name is shorter than the resume file says. Start again without the resume file",
        ));
    }
    handle.set_len(length)?;
    handle.seek(SeekFrom::Start(length))?;
    Ok(handle)
}
