//! Reads the records of one file in chunks.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Seek};
use std::path::Path;

use table_service_files::json::Objects;
use table_service_files::lines::{self, Line};
use table_service_files::mapping::Mapping;
use table_service_files::{Fault, Guess, Header, Input, LineColumn, Row, WINDOW_LOG, header};

use crate::created;
use crate::failure::Failure;
use crate::records::{Chunk, Position, Record, Reject, reason};

use super::azurite;
use super::format::{Format, Layout, ReadOptions};

const BUFFER: usize = 1 << 16;
/// How much of the text of a record is shown.
const SHOWN: usize = 4096;

/// How a file is read.
#[derive(Clone, Copy)]
pub struct Options<'o> {
    pub format: Format,
    pub delimiter: u8,
    pub reading: &'o ReadOptions,
}

/// The name of a file in messages, or of standard input.
pub fn name_of(path: Option<&Path>) -> String {
    path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string())
}

/// Opens a file, or standard input. A compressed file is checked to its end first: its checksum is there, and damaged
/// bits must not be read as other entities.
///
/// # Errors
/// An empty file, one that is not compressed or damaged, errors of the operating system.
pub fn open(path: Option<&Path>, format: Format) -> std::io::Result<Box<dyn Read + Send>> {
    let Some(path) = path else {
        return decoded(std::io::stdin(), format.compressed);
    };
    let file = created::data(path)?;
    if format.compressed && file.metadata()?.is_file() {
        std::io::copy(&mut decoded(file.try_clone()?, true)?, &mut std::io::sink())?;
        (&file).rewind()?;
    }
    decoded(file, format.compressed)
}

fn decoded(raw: impl Read + Send + 'static, compressed: bool) -> std::io::Result<Box<dyn Read + Send>> {
    let mut raw = BufReader::with_capacity(BUFFER, raw);
    let begin = raw.fill_buf()?;
    if !compressed {
        if begin.is_empty() {
            return Err(Error::new(
                ErrorKind::UnexpectedEof,
                "there is not one byte in it, so it is not whole; a table without entities is an empty line, a header or []",
            ));
        }
        return Ok(Box::new(raw));
    }
    if !begins_as_zstd(begin) {
        return Err(Error::new(ErrorKind::InvalidData, "it is not compressed with zstd"));
    }
    let mut decoder = zstd::Decoder::with_buffer(raw)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(Box::new(Unpacked(decoder)))
}

/// A decoder with errors for users.
struct Unpacked<R>(R);

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(out).map_err(|error| {
            let text = error.to_string();
            if text.contains("requires too much memory") {
                let most = 1 << (WINDOW_LOG - 20);
                Error::other(format!(
                    "it was compressed with a window of more than {most} MiB; do it again without --ultra and --long"
                ))
            } else {
                Error::new(
                    error.kind(),
                    format!("the compressed file is damaged or cut short: {text}"),
                )
            }
        })
    }
}

/// Returns whether these bytes begin one of zstd's frames (RFC 8878, 3.1).
fn begins_as_zstd(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]
    )
}

/// Collects records into chunks and hands them on.
struct Chunks<'s> {
    table: &'s str,
    /// The file's name in messages.
    name: &'s str,
    chunk: Chunk,
    /// Records so far, bad ones included.
    count: u64,
    /// How many of them are known already.
    skip: u64,
    send: &'s mut dyn FnMut(Chunk) -> bool,
    closed: bool,
}

impl Chunks<'_> {
    /// Notes the next record of the file; false when nobody wants more.
    fn push(&mut self, record: Result<Record, (LineColumn, String)>, text: &dyn Fn() -> String) -> bool {
        self.count += 1;
        match record {
            Ok(record) => self.chunk.add(record),
            Err((position, reason)) => {
                let position = format!("{}: record {}, {position}", self.name, self.count);
                let (text, reason) = (text(), clipped(reason.as_bytes()));
                let bytes = position.len() + text.len() + reason.len() + 128;
                self.chunk
                    .reject(Reject::of_text(self.table, position, &text, reason), bytes);
            }
        }
        if let Some(full) = self.chunk.take_full(|| Position::Records(self.count)) {
            self.closed |= !(self.send)(full);
        }
        !self.closed
    }

    /// Returns whether the next record is known already. Then it is only counted.
    fn skips(&mut self) -> bool {
        let skips = self.count < self.skip;
        self.count += u64::from(skips);
        skips
    }
}

/// The beginning of a text that may be very long and no text at all.
fn clipped(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..SHOWN).unwrap_or(bytes)).into_owned()
}

/// Reads a file from a position on. `send` returns false when it wants no more; `note` gets notes for the user.
///
/// # Errors
/// A file that cannot be read any further. Records that are no entities are rejects.
pub fn read(
    table: &str,
    path: Option<&Path>,
    options: Options<'_>,
    position: Option<Position>,
    send: &mut dyn FnMut(Chunk) -> bool,
    note: &mut dyn FnMut(String),
) -> Result<(), Failure> {
    let name = name_of(path);
    let skip = match position {
        Some(Position::Records(count)) => count,
        _ => 0,
    };
    let notes = chunks((table, &name), &|| open(path, options.format), options, skip, send);
    for text in notes.map_err(|fault| Failure::new(format!("{name}: {fault}")))? {
        note(format!("{name}: {text}"));
    }
    Ok(())
}

/// Reads a text as the records of a table, and counts records and rejects. For the fuzz targets: it does all that the program
/// does with a file.
pub fn count(bytes: &[u8], format: &str, delimiter: u8, infer_types: bool) -> Result<(usize, usize), String> {
    let options = Options {
        format: Format::parse(format)?,
        delimiter,
        reading: &ReadOptions {
            infer_types,
            mapping: None,
            account: None,
        },
    };
    let (mut read, mut rejected) = (0, 0);
    let mut send = |chunk: Chunk| {
        read += chunk.records.len();
        rejected += chunk.rejects.len();
        true
    };
    let mut all = || -> Result<(), Fault> {
        if options.format.layout == Layout::Azurite {
            azurite::tables(&mut Input::new(bytes)?)?;
        }
        chunks(("T", "text"), &|| Ok(bytes), options, 0, &mut send).map(drop)
    };
    all().map_err(|fault| fault.to_string())?;
    Ok((read, rejected))
}

/// Sends the records of a text behind so many that are known already, in chunks. Returns notes for the user. A text that
/// is read twice is opened `again`.
fn chunks<R: Read>(
    (table, name): (&str, &str),
    again: &dyn Fn() -> std::io::Result<R>,
    options: Options<'_>,
    skip: u64,
    send: &mut dyn FnMut(Chunk) -> bool,
) -> Result<Vec<String>, Fault> {
    let mut chunks = Chunks {
        table,
        name,
        chunk: Chunk::new(Position::End),
        count: 0,
        skip,
        send,
        closed: false,
    };
    let input = &mut Input::new(again()?)?;
    let mapping = options.reading.mapping.as_deref();
    let mut notes = Vec::new();
    match options.format.layout {
        Layout::Jsonl => json_lines(input, mapping, &mut chunks)?,
        Layout::Azcopy => json_document(input, mapping, &mut chunks)?,
        Layout::Azurite => azurite_table(input, options.reading.account.as_deref(), &mut chunks)?,
        Layout::Csv => {
            let guesses = match options.reading.infer_types {
                true => Some(guesses(&mut Input::new(again()?)?, options)?),
                false => None,
            };
            notes = csv_rows(input, options, guesses, &mut chunks)?;
        }
    }
    if !chunks.closed {
        (chunks.send)(chunks.chunk);
    }
    Ok(notes)
}

fn json_lines(input: &mut Input<'_>, mapping: Option<&Mapping>, chunks: &mut Chunks<'_>) -> Result<(), Fault> {
    let mut line = Vec::new();
    while let Some(kind) = lines::next(input, &mut line)? {
        let is_blank = matches!(kind, Line::Whole) && line.iter().all(u8::is_ascii_whitespace);
        if is_blank || chunks.skips() {
            continue;
        }
        let record = match kind {
            Line::TooLong => Err("The line is too long to be an entity".to_owned()),
            Line::Whole => from_bytes(&line, mapping),
        };
        let record = record.map_err(|reason| (input.record(), reason));
        if !chunks.push(record, &|| clipped(&line)) {
            break;
        }
    }
    Ok(())
}

fn json_document(input: &mut Input<'_>, mapping: Option<&Mapping>, chunks: &mut Chunks<'_>) -> Result<(), Fault> {
    let mut objects = Objects::default();
    let mut object = Vec::new();
    while objects.next(input, &mut object)? {
        if chunks.skips() {
            continue;
        }
        let record = from_bytes(&object, mapping).map_err(|reason| (input.record(), reason));
        if !chunks.push(record, &|| clipped(&object)) {
            break;
        }
    }
    Ok(())
}

fn azurite_table(input: &mut Input<'_>, account: Option<&str>, chunks: &mut Chunks<'_>) -> Result<(), Fault> {
    azurite::entities(input, account, chunks.table, &mut |position, document| {
        if chunks.skips() {
            return Ok(true);
        }
        let record = text_of(document)
            .and_then(azurite::payload)
            .and_then(|json| Record::from_json(&json).map_err(|error| reason(&error)))
            .map_err(|reason| (position, reason));
        Ok(chunks.push(record, &|| clipped(document)))
    })
}

/// Reads the header and hands on the rows with their columns, until `take` wants no more.
fn rows<'o>(
    input: &mut Input<'_>,
    options: Options<'o>,
    mut take: impl FnMut(&mut Header<'o>, &Row) -> bool,
) -> Result<Header<'o>, Fault> {
    let (mut row, mut delimiter) = (Row::default(), options.delimiter);
    if !row.read_header(input, &mut delimiter)? {
        return Err(input.fault("there is no header"));
    }
    let mut header = Header::of(&row, options.reading.mapping.as_deref())?;
    let mut first = true;
    while row.read(input, delimiter)? {
        if std::mem::take(&mut first) {
            header.learn(&row);
        }
        if !take(&mut header, &row) {
            break;
        }
    }
    Ok(header)
}

fn guesses(input: &mut Input<'_>, options: Options<'_>) -> Result<Vec<Guess>, Fault> {
    let mut guesses = Vec::new();
    rows(input, options, |header, row| {
        if let Header::Entities(columns) = header {
            columns.see(row, &mut guesses);
        }
        true
    })?;
    Ok(guesses)
}

fn csv_rows(
    input: &mut Input<'_>,
    options: Options<'_>,
    guesses: Option<Vec<Guess>>,
    chunks: &mut Chunks<'_>,
) -> Result<Vec<String>, Fault> {
    let mut begun = false;
    let header = rows(input, options, |header, row| {
        if let (false, Some(guesses), Header::Entities(columns)) = (begun, &guesses, &mut *header) {
            columns.infer(guesses);
        }
        begun = true;
        chunks.skips() || chunks.push(header.entity(row).map(Record::from), &|| row.shown(SHOWN))
    })?;
    Ok(match header {
        Header::Entities(columns) => columns.notes(),
        Header::Mapped(..) => Vec::new(),
    })
}

fn text_of(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "The text is not UTF-8".to_owned())
}

fn from_bytes(bytes: &[u8], mapping: Option<&Mapping>) -> Result<Record, String> {
    header::object(bytes, mapping).map(Record::from)
}
