//! Writes the files of an archive.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};

use sha2::{Digest, Sha256};

use table_service_command_line::failure::Failure;
use table_service_command_line::files as created;
use table_service_files::Record;

use crate::directory::Directory;
use crate::manifest::{Contents, Kind, Moment, Segment};
use crate::read::{counted, hex};
use table_service_model::Lsn;

const LEVEL: i32 = 3;
const BUFFER: usize = 1 << 16;

/// Counts and hashes the bytes that go to a file.
struct Hashed {
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// A frame that is being written. It ends with a checksum of its contents, which every decoder checks.
type Frame = zstd::Encoder<'static, BufWriter<Hashed>>;

fn frame(file: &File, hash: Sha256, bytes: u64) -> std::io::Result<Frame> {
    let hashed = Hashed {
        file: file.try_clone()?,
        hash,
        bytes,
    };
    let mut frame = zstd::Encoder::new(BufWriter::with_capacity(BUFFER, hashed), LEVEL)?;
    frame.include_checksum(true)?;
    Ok(frame)
}

fn end(frame: Frame) -> std::io::Result<Hashed> {
    frame
        .finish()?
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)
}

/// Appends pages of changes to a segment.
pub struct SegmentWriter {
    file: File,
    name: String,
    /// The part that is on the disk, with every page that has ended.
    pub segment: Segment,
    hash: Sha256,
    page: Option<Page>,
}

struct Page {
    frame: Frame,
    segment: Segment,
}

impl SegmentWriter {
    /// Begins a segment.
    pub fn begin(directory: &Directory, number: u64, epoch: u32) -> Result<SegmentWriter, Failure> {
        let path = directory.file(Kind::Segment, number);
        let name = path.display().to_string();
        let file = created::anew(&path, created::PRIVATE).map_err(|error| Failure::new(format!("{name}: {error}")))?;
        Ok(SegmentWriter {
            file,
            name,
            segment: Segment {
                number,
                epoch,
                ..Segment::default()
            },
            hash: Sha256::new(),
            page: None,
        })
    }

    /// Goes on with a segment, but not with bytes that a killed run has left behind its end. Returns `None` if it is damaged.
    pub fn again(directory: &Directory, segment: &Segment) -> Result<Option<SegmentWriter>, Failure> {
        let path = directory.file(Kind::Segment, segment.number);
        let name = path.display().to_string();
        let again = || -> std::io::Result<Option<SegmentWriter>> {
            let Ok(file) = created::again(&path, created::PRIVATE) else {
                return Ok(None);
            };
            let Some(hash) = counted(&file, &segment.contents)? else {
                return Ok(None);
            };
            file.set_len(segment.contents.bytes)?;
            Ok(Some(SegmentWriter {
                file,
                name: name.clone(),
                segment: segment.clone(),
                hash,
                page: None,
            }))
        };
        again().map_err(|error| Failure::new(format!("{name}: {error}")))
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("{}: {error}", self.name))
    }

    /// Writes a change into the page, which begins with it if there is none.
    pub fn add(&mut self, line: &[u8], position: Lsn, committed: Moment) -> Result<(), Failure> {
        let mut page = match self.page.take() {
            Some(page) => page,
            None => Page {
                frame: frame(&self.file, self.hash.clone(), self.segment.contents.bytes)
                    .map_err(|error| self.failed(&error))?,
                segment: self.segment.clone(),
            },
        };
        page.frame.write_all(line).map_err(|error| self.failed(&error))?;
        let segment = &mut page.segment;
        if segment.contents.lines == 0 {
            (segment.first, segment.earliest, segment.latest) = (position, committed, committed);
        }
        segment.last = position;
        segment.earliest = segment.earliest.min(committed);
        segment.latest = segment.latest.max(committed);
        segment.contents.lines += 1;
        segment.contents.raw += line.len() as u64;
        self.page = Some(page);
        Ok(())
    }

    /// Takes back everything that was written since the page began.
    pub fn undo(&mut self) -> Result<(), Failure> {
        self.page = None;
        let length = self.segment.contents.bytes;
        let mut file = &self.file;
        self.file
            .set_len(length)
            .and_then(|()| file.seek(SeekFrom::Start(length)))
            .map(|_| ())
            .map_err(|error| self.failed(&error))
    }

    /// Ends the page, and returns when it is on the disk.
    pub fn end_page(&mut self) -> Result<(), Failure> {
        let Some(page) = self.page.take() else { return Ok(()) };
        let done = end(page.frame).and_then(|hashed| hashed.file.sync_all().map(|()| hashed));
        let hashed = done.map_err(|error| self.failed(&error))?;
        self.segment = page.segment;
        self.segment.contents.bytes = hashed.bytes;
        self.segment.contents.sha256 = hex(&hashed.hash.clone().finalize());
        self.hash = hashed.hash;
        Ok(())
    }
}

/// Writes a base, in the order of keys.
pub struct BaseWriter {
    frame: Frame,
    name: String,
    buffer: Vec<u8>,
    last: Option<(String, String)>,
    contents: Contents,
}

impl BaseWriter {
    /// Begins a base.
    pub fn begin(directory: &Directory, number: u64) -> Result<BaseWriter, Failure> {
        let path = directory.file(Kind::Base, number);
        let name = path.display().to_string();
        let begin = || frame(&created::anew(&path, created::PRIVATE)?, Sha256::new(), 0);
        Ok(BaseWriter {
            frame: begin().map_err(|error| Failure::new(format!("{name}: {error}")))?,
            name,
            buffer: Vec::new(),
            last: None,
            contents: Contents::default(),
        })
    }

    /// # Errors
    /// An entity that does not come in the order of keys; an error of the operating system.
    pub fn add(&mut self, record: &Record) -> Result<(), Failure> {
        let key = (record.partition_key.as_str(), record.row_key.as_str());
        if self.last.as_ref().is_some_and(|(p, r)| key <= (p.as_str(), r.as_str())) {
            return Err(Failure::new(format!(
                "{}: the entities do not come in the order of keys",
                self.name
            )));
        }
        self.last = Some((record.partition_key.clone(), record.row_key.clone()));
        self.buffer.clear();
        record.write_json(&mut self.buffer);
        self.buffer.push(b'\n');
        self.frame
            .write_all(&self.buffer)
            .map_err(|error| Failure::new(format!("{}: {error}", self.name)))?;
        self.contents.lines += 1;
        self.contents.raw += self.buffer.len() as u64;
        Ok(())
    }

    /// Returns when the base is on the disk.
    pub fn finish(mut self) -> Result<Contents, Failure> {
        let done = end(self.frame).and_then(|hashed| hashed.file.sync_all().map(|()| hashed));
        let hashed = done.map_err(|error| Failure::new(format!("{}: {error}", self.name)))?;
        self.contents.bytes = hashed.bytes;
        self.contents.sha256 = hex(&hashed.hash.finalize());
        Ok(self.contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Lines, check_file};

    fn lines_of(directory: &Directory, segment: &Segment) -> Vec<String> {
        let mut lines = Lines::open(directory, Kind::Segment, segment.number, &segment.contents).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(String::from_utf8(line.to_vec()).unwrap());
        }
        all
    }

    /// Whatever a run that was killed has left, the next one goes on where the last page ended.
    #[test]
    fn a_segment_has_whole_pages() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::new(temporary.path());
        let mut writer = SegmentWriter::begin(&directory, 1, 1).unwrap();
        let add = |writer: &mut SegmentWriter, line: &str, number: u32| {
            writer
                .add(line.as_bytes(), Lsn(number.into()), Moment(number.into()))
                .unwrap();
        };
        add(&mut writer, "a\n", 2);
        add(&mut writer, "b\n", 2);
        writer.end_page().unwrap();
        let first = writer.segment.clone();
        assert_eq!(
            (first.first, first.last, first.contents.lines, first.contents.raw),
            (Lsn(2), Lsn(2), 2, 4)
        );
        let whole = std::fs::read(directory.file(Kind::Segment, 1)).unwrap();
        add(&mut writer, "lost\n", 3);
        writer.undo().unwrap();
        add(&mut writer, "c\n", 4);
        writer.end_page().unwrap();
        let second = writer.segment.clone();
        assert_eq!(lines_of(&directory, &second), ["a", "b", "c"]);
        assert_eq!(
            lines_of(&directory, &first),
            ["a", "b"],
            "an earlier manifest has its part"
        );
        check_file(&directory, Kind::Segment, 1, &second.contents, false).unwrap();
        check_file(&directory, Kind::Segment, 1, &first.contents, true).unwrap();
        assert!(check_file(&directory, Kind::Segment, 1, &first.contents, false).is_err());
        let long = std::fs::read(directory.file(Kind::Segment, 1)).unwrap();
        for end in whole.len()..=long.len() {
            std::fs::write(directory.file(Kind::Segment, 1), long.get(..end).unwrap()).unwrap();
            let mut again = SegmentWriter::again(&directory, &first).unwrap().unwrap();
            assert_eq!(std::fs::read(directory.file(Kind::Segment, 1)).unwrap(), whole);
            add(&mut again, "d\n", 5);
            again.end_page().unwrap();
            assert_eq!(lines_of(&directory, &again.segment), ["a", "b", "d"]);
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            *changed.get_mut(at).unwrap() ^= 1;
            std::fs::write(directory.file(Kind::Segment, 1), &changed).unwrap();
            assert!(SegmentWriter::again(&directory, &first).unwrap().is_none());
        }
    }

    #[test]
    fn a_base_is_in_the_order_of_keys() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::new(temporary.path());
        let record = |row: &str| Record::from_json(&format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#)).unwrap();
        let mut writer = BaseWriter::begin(&directory, 1).unwrap();
        writer.add(&record("a")).unwrap();
        writer.add(&record("b")).unwrap();
        assert!(writer.add(&record("b")).is_err());
        let contents = writer.finish().unwrap();
        assert_eq!(contents.lines, 2);
        check_file(&directory, Kind::Base, 1, &contents, false).unwrap();
    }
}
