//! Sorts more than fits into memory: each full buffer goes, sorted, to a file without a name, and the files are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Error, Read, Result, Seek, Write};

use table_service_command_line::files as created;

/// The bytes that are sorted in memory at a time.
const BUFFER: usize = 32 << 20;
/// How many files are merged at a time.
const MOST_RUNS: usize = 32;
/// The longest key or document.
const LONGEST: u32 = 16 << 20;

/// Takes documents with keys, in any order. No key comes twice.
pub struct Sorter {
    bytes: Vec<u8>,
    /// Where documents are: the beginning of the key, its end, and the end of the document.
    index: Vec<(usize, usize, usize)>,
    runs: Vec<File>,
    room: usize,
}

impl Sorter {
    /// An empty sorter.
    pub fn new() -> Sorter {
        Sorter::with_room(BUFFER)
    }

    fn with_room(room: usize) -> Sorter {
        Sorter {
            bytes: Vec::new(),
            index: Vec::new(),
            runs: Vec::new(),
            room,
        }
    }

    /// Takes a document.
    pub fn push(&mut self, key: &[u8], document: &[u8]) -> Result<()> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(document);
        self.index.push((begin, middle, self.bytes.len()));
        // An entry of the index has 24 bytes.
        if self.bytes.len() + self.index.len() * 24 >= self.room {
            self.spill()?;
        }
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.index
            .sort_unstable_by(|a, b| bytes.get(a.0..a.1).cmp(&bytes.get(b.0..b.1)));
    }

    fn spill(&mut self) -> Result<()> {
        self.sort();
        let mut run = BufWriter::with_capacity(1 << 16, created::unnamed()?);
        for &(begin, middle, end) in &self.index {
            let part = |from, to| self.bytes.get(from..to).unwrap_or_default();
            write(&mut run, part(begin, middle), part(middle, end))?;
        }
        self.runs
            .push(run.into_inner().map_err(std::io::IntoInnerError::into_error)?);
        self.bytes.clear();
        self.index.clear();
        if self.runs.len() >= MOST_RUNS {
            let mut merged = BufWriter::with_capacity(1 << 16, created::unnamed()?);
            let mut sorted = merge(std::mem::take(&mut self.runs), None)?;
            while let Some((key, document)) = sorted.next()? {
                write(&mut merged, &key, &document)?;
            }
            self.runs
                .push(merged.into_inner().map_err(std::io::IntoInnerError::into_error)?);
        }
        Ok(())
    }

    /// Sorts everything.
    pub fn finish(mut self) -> Result<Sorted> {
        self.sort();
        let runs = std::mem::take(&mut self.runs);
        merge(runs, Some(self))
    }
}

fn write(run: &mut impl Write, key: &[u8], document: &[u8]) -> Result<()> {
    let length = |part: &[u8]| u32::try_from(part.len()).ok().filter(|&length| length <= LONGEST);
    let (Some(key_length), Some(length)) = (length(key), length(document)) else {
        return Err(Error::other("a document is too long to be sorted"));
    };
    run.write_all(&key_length.to_le_bytes())?;
    run.write_all(&length.to_le_bytes())?;
    run.write_all(key)?;
    run.write_all(document)
}

/// A sorted run, in a file or in memory.
enum Run {
    File(BufReader<File>),
    Memory(Sorter, usize),
}

impl Run {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        match self {
            Run::Memory(sorter, next) => {
                let Some(&(begin, middle, end)) = sorter.index.get(*next) else {
                    return Ok(None);
                };
                *next += 1;
                let part = |from, to| sorter.bytes.get(from..to).unwrap_or_default().to_vec();
                Ok(Some((part(begin, middle), part(middle, end))))
            }
            Run::File(file) => {
                let mut lengths = [0; 8];
                if let Err(error) = file.read_exact(&mut lengths) {
                    return match error.kind() {
                        std::io::ErrorKind::UnexpectedEof => Ok(None),
                        _ => Err(error),
                    };
                }
                let (key, document) = (
                    u64::from_le_bytes(lengths) & 0xffff_ffff,
                    u64::from_le_bytes(lengths) >> 32,
                );
                let mut take = |length: u64| -> Result<Vec<u8>> {
                    let mut part = vec![0; usize::try_from(length).map_err(Error::other)?];
                    file.read_exact(&mut part)?;
                    Ok(part)
                };
                Ok(Some((take(key)?, take(document)?)))
            }
        }
    }
}

fn merge(runs: Vec<File>, memory: Option<Sorter>) -> Result<Sorted> {
    let mut sorted = Sorted {
        runs: Vec::new(),
        heads: BinaryHeap::new(),
    };
    for mut file in runs {
        file.rewind()?;
        sorted.runs.push(Run::File(BufReader::with_capacity(1 << 16, file)));
    }
    sorted.runs.extend(memory.map(|sorter| Run::Memory(sorter, 0)));
    for index in 0..sorted.runs.len() {
        sorted.fill(index)?;
    }
    Ok(sorted)
}

/// The next key of a run, the run, and the document.
type Head = (Vec<u8>, usize, Vec<u8>);

/// Gives documents in the order of their keys.
pub struct Sorted {
    runs: Vec<Run>,
    heads: BinaryHeap<Reverse<Head>>,
}

impl Sorted {
    fn fill(&mut self, index: usize) -> Result<()> {
        if let Some(run) = self.runs.get_mut(index)
            && let Some((key, document)) = run.next()?
        {
            self.heads.push(Reverse((key, index, document)));
        }
        Ok(())
    }

    /// The key of the next document.
    pub fn peek(&self) -> Option<&[u8]> {
        self.heads.peek().map(|Reverse((key, ..))| key.as_slice())
    }

    /// The next key with its document; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some(Reverse((key, index, document))) = self.heads.pop() else {
            return Ok(None);
        };
        self.fill(index)?;
        Ok(Some((key, document)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_in_order() {
        for room in [0, 100, 10_000, 10_000_000] {
            let mut sorter = Sorter::with_room(room);
            let mut expected = Vec::new();
            let mut number: u32 = 1;
            for _ in 0..500 {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (key, document) = (number.to_be_bytes().to_vec(), vec![1; (number % 7) as usize]);
                sorter.push(&key, &document).unwrap();
                expected.push((key, document));
            }
            expected.sort();
            let mut sorted = sorter.finish().unwrap();
            let mut found = Vec::new();
            while let Some(pair) = sorted.next().unwrap() {
                found.push(pair);
            }
            assert!(sorted.peek().is_none());
            assert_eq!(found, expected, "{room}");
        }
    }
}
