//! Reads the records of one file in chunks.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read};
use std::path::Path;

use crate::failure::Failure;
use crate::record::{CHUNK_BYTES, CHUNK_RECORDS, Chunk, Position, Record, Reject, reason};

use super::csv_rows::Columns;
use super::format::{Format, Layout};
use super::json_array::Objects;
use super::lines::{self, Line};

const BUFFER: usize = 1 << 16;

/// Opens a file, or standard input.
///
/// # Errors
/// What the operating system says.
pub fn open(path: Option<&Path>, format: Format) -> std::io::Result<Box<dyn BufRead + Send>> {
    let raw: Box<dyn Read + Send> = match path {
        Some(path) => Box::new(File::open(path)?),
        None => Box::new(std::io::stdin()),
    };
    let mut raw = BufReader::with_capacity(BUFFER, raw);
    if format.compressed {
        if !begins_as_zstd(raw.fill_buf()?) {
            return Err(Error::new(ErrorKind::InvalidData, "it is not compressed with zstd"));
        }
        let decoder = zstd::Decoder::with_buffer(raw)?;
        return Ok(Box::new(BufReader::with_capacity(BUFFER, decoder)));
    }
    Ok(Box::new(raw))
}

/// Whether these bytes begin one of zstd's frames (RFC 8878, 3.1).
fn begins_as_zstd(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]
    )
}

/// Collects records into chunks and hands them on.
struct Chunks<'s> {
    table: &'s str,
    /// What messages call the file.
    name: &'s str,
    chunk: Chunk,
    bytes: usize,
    /// Records so far, bad ones included.
    count: u64,
    /// How many of them are known already.
    skip: u64,
    send: &'s mut dyn FnMut(Chunk) -> bool,
    closed: bool,
}

impl Chunks<'_> {
    /// Notes the next record of the file; false when nobody wants more.
    fn push(&mut self, record: Result<Record, String>, text: &dyn Fn() -> String) -> bool {
        self.count += 1;
        match record {
            Ok(record) => {
                self.bytes += record.weight();
                self.chunk.records.push(record);
            }
            Err(reason) => {
                let place = format!("{}: record {}", self.name, self.count);
                let reject = Reject::of_text(self.table, place, &text(), reason);
                self.chunk.rejects.push(reject);
            }
        }
        let size = self.chunk.records.len() + self.chunk.rejects.len();
        if size >= CHUNK_RECORDS || self.bytes >= CHUNK_BYTES {
            self.flush(Position::Records(self.count));
        }
        !self.closed
    }

    /// Whether the next record is known already. Then it is only counted.
    fn skips(&mut self) -> bool {
        let skips = self.count < self.skip;
        self.count += u64::from(skips);
        skips
    }

    fn flush(&mut self, position: Position) {
        let mut chunk = std::mem::replace(&mut self.chunk, Chunk::new(Position::End));
        chunk.position = position;
        self.bytes = 0;
        if !(self.send)(chunk) {
            self.closed = true;
        }
    }
}

/// Reads a file from a position on. `send` returns false when it wants no more.
///
/// # Errors
/// A file that cannot be read any further. Records that are no entities are rejects.
pub fn read(
    table: &str,
    path: Option<&Path>,
    format: Format,
    position: Option<Position>,
    send: &mut dyn FnMut(Chunk) -> bool,
) -> Result<(), Failure> {
    let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{name}: {error}"));
    let mut reader = open(path, format).map_err(|error| failed(&error))?;
    let mut chunks = Chunks {
        table,
        name: &name,
        chunk: Chunk::new(Position::End),
        bytes: 0,
        count: 0,
        skip: match position {
            Some(Position::Records(count)) => count,
            _ => 0,
        },
        send,
        closed: false,
    };
    match format.layout {
        Layout::Jsonl => json_lines(&mut *reader, &mut chunks).map_err(|error| failed(&error))?,
        Layout::Azcopy => json_array(&mut *reader, &mut chunks).map_err(|error| failed(&error))?,
        Layout::Csv => csv_rows(&mut *reader, &mut chunks).map_err(|error| failed(&error))?,
    }
    if !chunks.closed {
        chunks.flush(Position::End);
    }
    Ok(())
}

fn json_lines(reader: &mut dyn BufRead, chunks: &mut Chunks<'_>) -> std::io::Result<()> {
    let mut line = Vec::new();
    while let Some(kind) = lines::next(reader, &mut line)? {
        let is_blank = matches!(kind, Line::Whole) && line.iter().all(u8::is_ascii_whitespace);
        if is_blank || chunks.skips() {
            continue;
        }
        let record = match kind {
            Line::TooLong => Err("The line is too long to be an entity".to_owned()),
            Line::Whole => from_bytes(&line),
        };
        if !chunks.push(record, &|| String::from_utf8_lossy(&line).into_owned()) {
            break;
        }
    }
    Ok(())
}

fn json_array(reader: &mut dyn BufRead, chunks: &mut Chunks<'_>) -> std::io::Result<()> {
    let mut objects = Objects::new(reader);
    let mut object = Vec::new();
    while objects.next(&mut object)? {
        if chunks.skips() {
            continue;
        }
        if !chunks.push(from_bytes(&object), &|| String::from_utf8_lossy(&object).into_owned()) {
            break;
        }
    }
    Ok(())
}

fn csv_rows(reader: &mut dyn BufRead, chunks: &mut Chunks<'_>) -> Result<(), String> {
    let mut rows = csv::ReaderBuilder::new().flexible(true).from_reader(reader);
    let header = rows.headers().map_err(|error| error.to_string())?.clone();
    if header.is_empty() || header.iter().all(str::is_empty) {
        return Ok(());
    }
    let columns = Columns::of_header(&header)?;
    let mut row = csv::ByteRecord::new();
    while rows.read_byte_record(&mut row).map_err(|error| error.to_string())? {
        if chunks.skips() {
            continue;
        }
        let record = csv::StringRecord::from_byte_record(row.clone())
            .map_err(|_| "The row is not UTF-8".to_owned())
            .and_then(|row| {
                if row.len() > header.len() {
                    return Err("The row has more fields than the header".to_owned());
                }
                columns.record(&row)
            });
        let text = || {
            let fields: Vec<_> = row.iter().map(String::from_utf8_lossy).collect();
            fields.join(",")
        };
        if !chunks.push(record, &text) {
            break;
        }
    }
    Ok(())
}

fn from_bytes(bytes: &[u8]) -> Result<Record, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "The text is not UTF-8".to_owned())?;
    Record::from_json(text).map_err(|error| reason(&error))
}
