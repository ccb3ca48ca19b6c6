//! Reads the files of an archive.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use table_service_files::Input;
use table_service_files::lines::{self, Line};
use table_service_model::json::parse_properties;
use table_service_model::{Lsn, PropertiesBuf, Ticks};

use table_service_command_line::files as created;
use table_service_files::WINDOW_LOG;

use crate::directory::Directory;
use crate::manifest::{Contents, Kind, Manifest, Moment};

const BUFFER: usize = 1 << 16;

/// A line of a segment. Its members are the columns of `query_feed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChangeLine<'a> {
    #[serde(borrow)]
    pub position: Cow<'a, str>,
    #[serde(borrow)]
    pub committed: Cow<'a, str>,
    #[serde(borrow)]
    pub table_name: Cow<'a, str>,
    /// The OID of its table; `None` in an archive of 0.4.0.
    #[serde(default)]
    pub relation: Option<u32>,
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    #[serde(default)]
    pub partition_key: Option<String>,
    #[serde(default)]
    pub row_key: Option<String>,
    #[serde(default)]
    pub timestamp: Option<String>,
    #[serde(borrow, default)]
    pub properties: Option<&'a RawValue>,
}

impl<'a> ChangeLine<'a> {
    /// Reads a line.
    pub fn read(line: &'a [u8]) -> Result<ChangeLine<'a>, String> {
        serde_json::from_slice(line).map_err(|error| format!("a line is no change: {error}"))
    }

    /// When the change was committed.
    pub fn position_and_moment(&self) -> Result<(Lsn, Moment), String> {
        let both = Lsn::parse(&self.position).ok().zip(Moment::parse(&self.committed));
        both.ok_or_else(|| "a change has no position or no moment".to_owned())
    }

    /// The properties after the change; `None` if the change does not have them.
    pub fn bag(&self) -> Result<Option<PropertiesBuf>, String> {
        let bag = self.properties.map(|json| parse_properties(json.get()));
        bag.transpose()
            .map_err(|error| format!("a change has no properties: {}", error.report()))
    }

    /// The line with these properties.
    pub fn with_properties(&self, json: &[u8]) -> Result<Vec<u8>, String> {
        let properties: &RawValue = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let line = ChangeLine {
            properties: Some(properties),
            ..self.clone()
        };
        serde_json::to_vec(&line).map_err(|error| error.to_string())
    }

    /// The Timestamp of the entity.
    pub fn ticks(&self) -> Option<Ticks> {
        self.timestamp.as_deref().and_then(Ticks::parse)
    }
}

/// The lines of a file, as far as it counts.
pub struct Lines {
    input: Input<'static>,
    line: Vec<u8>,
    name: String,
}

impl Lines {
    /// # Errors
    /// A link, an error of the operating system.
    pub fn open(directory: &Directory, kind: Kind, number: u64, contents: &Contents) -> Result<Lines, String> {
        let path = directory.file(kind, number);
        let name = path.display().to_string();
        let open = || -> std::io::Result<Input<'static>> {
            let file = created::read_only(&path)?.take(contents.bytes);
            let mut decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(BUFFER, file))?;
            decoder.window_log_max(WINDOW_LOG)?;
            // A small compressed file must not expand to more than the manifest says.
            Input::new(decoder.take(contents.raw))
        };
        Ok(Lines {
            input: open().map_err(|error| format!("{name}: {error}"))?,
            line: Vec::new(),
            name,
        })
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// A line that is too long, a damaged file.
    pub fn next(&mut self) -> Result<Option<&[u8]>, String> {
        match lines::next(&mut self.input, &mut self.line).map_err(|error| format!("{}: {error}", self.name))? {
            None => Ok(None),
            Some(Line::Whole) => Ok(Some(&self.line)),
            Some(Line::TooLong) => Err(format!("{}: a line is longer than an entity can be", self.name)),
        }
    }
}

/// Looks whether a file is as it was written.
pub fn check_file(
    directory: &Directory,
    kind: Kind,
    number: u64,
    contents: &Contents,
    may_grow: bool,
) -> Result<(), String> {
    let path = directory.file(kind, number);
    let file = created::read_only(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "it is missing".to_owned(),
        _ => error.to_string(),
    })?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    if length < contents.bytes {
        return Err(format!("it is cut off: it has {length} of {} bytes", contents.bytes));
    }
    if length > contents.bytes && !may_grow {
        return Err(format!("it has {} bytes behind its end", length - contents.bytes));
    }
    match counted(&file, contents).map_err(|error| error.to_string())? {
        Some(_) => Ok(()),
        None => Err("it was changed: its digest is another one".to_owned()),
    }
}

/// The hash of a file's bytes, as far as they count; `None` if they are not as they were written.
pub fn counted(file: &File, contents: &Contents) -> std::io::Result<Option<Sha256>> {
    let mut hash = Sha256::new();
    let mut counted = BufReader::with_capacity(BUFFER, file.take(contents.bytes));
    loop {
        let part = counted.fill_buf()?;
        if part.is_empty() {
            let is_same = hex(&hash.clone().finalize()) == contents.sha256.to_ascii_lowercase();
            return Ok(is_same.then_some(hash));
        }
        hash.update(part);
        let count = part.len();
        counted.consume(count);
    }
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Knows which files are damaged. It reads each file once, when it is needed.
pub struct Checker<'m> {
    directory: &'m Directory,
    files: HashMap<u64, (Kind, &'m Contents)>,
    /// The segment that may have grown since the manifest was read.
    growing: Option<u64>,
    known: RefCell<HashMap<u64, Option<String>>>,
}

impl<'m> Checker<'m> {
    /// Knows nothing of the files yet.
    pub fn new(directory: &'m Directory, manifest: &'m Manifest) -> Checker<'m> {
        let files = manifest.files();
        Checker {
            directory,
            files: files
                .map(|(number, kind, contents)| (number, (kind, contents)))
                .collect(),
            growing: manifest.segments.last().map(|segment| segment.number),
            known: RefCell::default(),
        }
    }

    /// The damage of a file; `None` if there is none.
    pub fn damage(&self, number: u64) -> Option<String> {
        if let Some(known) = self.known.borrow().get(&number) {
            return known.clone();
        }
        let found = match self.files.get(&number) {
            Some((kind, contents)) => {
                check_file(self.directory, *kind, number, contents, self.growing == Some(number)).err()
            }
            None => Some("it is no file of the archive".to_owned()),
        };
        self.known.borrow_mut().insert(number, found.clone());
        found
    }

    /// Returns whether a file is not as it was written.
    pub fn is_damaged(&self, number: u64) -> bool {
        self.damage(number).is_some()
    }

    /// Finds the first transaction in a segment, behind a position, with a commit later than a moment.
    ///
    /// # Errors
    /// A damaged segment, unless gaps are allowed.
    pub fn first_later(
        &self,
        segment: &crate::manifest::Segment,
        moment: Moment,
        after: Lsn,
        allow_gaps: bool,
    ) -> Result<Option<Lsn>, String> {
        if let Some(damage) = self.damage(segment.number) {
            return match allow_gaps {
                true => Ok(None),
                false => Err(format!(
                    "{}: {damage}. It has the changes from {} to {}, and nothing says which of them were before {moment}. With \
                     --allow-gaps it is left out",
                    self.directory.file(Kind::Segment, segment.number).display(),
                    segment.earliest,
                    segment.latest
                )),
            };
        }
        let mut lines = Lines::open(self.directory, Kind::Segment, segment.number, &segment.contents)?;
        while let Some(line) = lines.next()? {
            let (position, committed) = ChangeLine::read(line)?.position_and_moment()?;
            if position > after && committed > moment {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_line_with_the_names_of_query_changes() {
        let line = br#"{"position":"0/16B3748","committed":"2026-11-27T14:03:00.123456Z","table_name":"Orders","kind":"update","partition_key":"p\"","row_key":"r","timestamp":"2026-11-27T14:03:00Z","properties":{"A@odata.type":"Edm.Int64","A":"1"},"old_properties":null}"#;
        let change = ChangeLine::read(line).unwrap();
        assert_eq!(change.position_and_moment().unwrap().0, Lsn(0x16B_3748));
        assert_eq!(change.partition_key.as_deref(), Some("p\""));
        assert_eq!(change.bag().unwrap().unwrap().as_properties().len(), 1);
        for wrong in [&b""[..], b"{}", b"[]", b"{\"position\":1}"] {
            assert!(ChangeLine::read(wrong).is_err());
        }
    }
}
