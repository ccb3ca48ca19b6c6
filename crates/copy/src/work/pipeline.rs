//! One table from a source into a target: readers of ranges, lanes of writers, and the chunks
//! that say how far everything is written.
//!
//! All entities of a key, or over REST of a partition, go through the same lane in the order in which they were read. So
//! of two lines with the same key the later one counts, and two lanes never wait for each other's locks.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use table_service_model::Ticks;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::ends::databases::SqlWriter;
use crate::ends::files::Writer;
use crate::ends::services::RestWriter;
use crate::ends::{Source, Target};
use crate::failure::Failure;
use crate::records::{
    Chunk, Counters, Journal, OnConflict, Outcome, Part, Position, Record, Rejects, TableReport, WriteMode,
};

use super::workers::joined;

/// The limits of one write.
const WRITE_RECORDS: usize = 5000;
const WRITE_BYTES: usize = 4 << 20;
/// Parts of chunks that wait before a lane.
const WAITING: usize = 8;
/// The most memory of entities that are read and not yet written, in KiB. All readers take permits of it.
const HELD_KIB: u32 = 64 << 10;

/// Everything that the copies of all tables share.
pub struct CopyContext {
    pub source: Source,
    pub target: Target,
    pub mode: WriteMode,
    pub readers: usize,
    pub since: Option<Ticks>,
    pub pace: Pace,
    pub counters: Arc<Counters>,
    pub room: Arc<Semaphore>,
    pub rejects: Rejects,
    pub journal: Journal,
    /// Set when the user wants it to end.
    pub stop: CancellationToken,
}

impl CopyContext {
    /// A copy of all entities, as fast as it goes.
    pub fn new(
        source: Source,
        target: Target,
        on_conflict: OnConflict,
        rejects: Rejects,
        journal: Journal,
    ) -> CopyContext {
        CopyContext {
            mode: WriteMode {
                on_conflict,
                resumed: journal.is_resumed,
            },
            source,
            target,
            readers: 1,
            since: None,
            pace: Pace::new(None),
            counters: Arc::default(),
            room: Arc::new(Semaphore::new(HELD_KIB as usize)),
            rejects,
            journal,
            stop: CancellationToken::new(),
        }
    }
}

/// Limits the entities read or deleted in a second.
pub struct Pace {
    rate: Option<u32>,
    next: Mutex<Instant>,
}

impl Pace {
    /// At most so many entities a second.
    pub fn new(rate: Option<u32>) -> Pace {
        Pace {
            rate,
            next: Mutex::new(Instant::now()),
        }
    }

    /// How many of so many entities are done at once: no more than in a second.
    pub fn at_once(&self, count: usize) -> usize {
        let rate = self.rate.and_then(|rate| usize::try_from(rate).ok());
        rate.map_or(count, |rate| rate.min(count))
    }

    /// Waits until so many entities may be read.
    pub async fn take(&self, count: usize) {
        if let Some(begin) = self.note(count as u64) {
            tokio::time::sleep_until(begin.into()).await;
        }
    }

    /// Notes that so many entities are deleted. Returns when their time begins.
    pub fn note(&self, count: u64) -> Option<Instant> {
        let rate = self.rate?;
        let mut next = self.next.lock();
        let begin = (*next).max(Instant::now());
        *next = begin + Duration::from_secs_f64(count as f64 / f64::from(rate));
        Some(begin)
    }
}

/// A part of a chunk, for one lane.
struct ChunkPart {
    records: Vec<Record>,
    chunk: Arc<PendingChunk>,
}

/// Notes when all parts of a chunk are written.
struct PendingChunk {
    range: usize,
    number: u64,
    position: Position,
    left: AtomicUsize,
    /// Given back with the last part.
    _held: OwnedSemaphorePermit,
}

/// The chunks of a range that are written although an earlier one is not.
#[derive(Default)]
struct RangeProgress {
    next: u64,
    waiting: BTreeMap<u64, Position>,
}

struct Table {
    copy: Arc<CopyContext>,
    name: String,
    progress: Mutex<Vec<RangeProgress>>,
    report: Mutex<TableReport>,
    /// The number of readers that have not ended. A file gets its name when it is zero.
    reading: AtomicUsize,
}

impl Table {
    /// A part of a chunk is written.
    fn complete(&self, chunk: &PendingChunk) {
        if chunk.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let mut progress = self.progress.lock();
        let Some(range) = progress.get_mut(chunk.range) else {
            return;
        };
        range.waiting.insert(chunk.number, chunk.position.clone());
        let mut reached = None;
        while let Some(position) = range.waiting.remove(&range.next) {
            range.next += 1;
            reached = Some(position);
        }
        if let Some(position) = reached {
            self.copy.journal.set_position(&self.name, chunk.range, position);
        }
    }

    fn note(&self, outcome: &Outcome) -> Result<(), Failure> {
        self.copy.counters.note(outcome);
        let mut report = self.report.lock();
        report.outcome.count(outcome);
        drop(report);
        self.copy.rejects.add(&outcome.rejects)
    }
}

/// Writes into one table, for one lane.
enum LaneWriter {
    Sql(Box<SqlWriter>),
    Rest(Box<RestWriter>),
    File(Box<Writer>),
}

impl LaneWriter {
    async fn write(&mut self, records: Vec<Record>) -> Result<Outcome, Failure> {
        match self {
            LaneWriter::Sql(writer) => writer.write(records).await,
            LaneWriter::Rest(writer) => writer.write(records).await,
            LaneWriter::File(writer) => {
                tokio::task::block_in_place(|| writer.write(&records))?;
                Ok(Outcome::of(|outcome| outcome.written = records.len() as u64))
            }
        }
    }
}

/// Copies a table, or the ranges of it that an earlier run has left. Returns early, without an error, when it is to stop.
pub async fn copy_table(copy: &Arc<CopyContext>, name: &str) -> Result<TableReport, Failure> {
    // A file has its entities in the order of the source.
    let readers = match copy.target {
        Target::Files(_) => 1,
        Target::Service(_) | Target::Database(_) => copy.readers,
    };
    let earlier = copy.journal.parts(name);
    let is_begun = earlier.is_some();
    let parts = match earlier {
        Some(parts) => parts,
        None => {
            let ranges = copy.source.ranges(name, readers).await?;
            copy.journal.begin(name, &ranges)
        }
    };
    let table = Arc::new(Table {
        copy: copy.clone(),
        name: name.to_owned(),
        progress: Mutex::new(parts.iter().map(|_| RangeProgress::default()).collect()),
        report: Mutex::new(TableReport {
            table: name.to_owned(),
            ..TableReport::default()
        }),
        reading: AtomicUsize::new(0),
    });
    let Some(writers) = writers(copy, name, is_begun, &parts).await? else {
        copy.journal.set_done(name);
        return Ok(table.report.lock().clone());
    };
    let (mut senders, mut tasks) = (Vec::new(), JoinSet::new());
    for writer in writers {
        let (sender, receiver) = channel(WAITING);
        senders.push(sender);
        tasks.spawn(lane(table.clone(), writer, receiver));
    }
    let queue: VecDeque<(usize, Part)> = parts
        .into_iter()
        .enumerate()
        .filter(|(_, part)| part.position != Some(Position::End))
        .collect();
    let readers = readers.min(queue.len());
    let queue = Arc::new(Mutex::new(queue));
    table.reading.store(readers, Ordering::Release);
    for _ in 0..readers {
        tasks.spawn(reader(table.clone(), queue.clone(), senders.clone()));
    }
    drop(senders);
    joined(tasks).await?;
    match copy.stop.is_cancelled() {
        true => copy.journal.save()?,
        false => copy.journal.set_done(name),
    }
    Ok(table.report.lock().clone())
}

/// The writers of a table; `None` if its file is complete.
async fn writers(
    copy: &CopyContext,
    name: &str,
    is_begun: bool,
    parts: &[Part],
) -> Result<Option<Vec<LaneWriter>>, Failure> {
    copy.target.create(name).await?;
    Ok(Some(match &copy.target {
        Target::Database(target) => (0..copy.readers)
            .map(|_| LaneWriter::Sql(Box::new(target.writer(name, copy.mode))))
            .collect(),
        Target::Service(target) => (0..copy.readers)
            .map(|_| LaneWriter::Rest(Box::new(target.writer(name, copy.mode))))
            .collect(),
        Target::Files(target) => {
            let all_read = parts.iter().all(|part| part.position == Some(Position::End));
            if is_begun && all_read && target.is_complete(name) {
                return Ok(None);
            }
            let length = is_begun.then(|| copy.journal.length(name).unwrap_or(0));
            let overwrite = copy.mode.on_conflict == OnConflict::Replace;
            vec![LaneWriter::File(Box::new(target.open(name, length, overwrite)?))]
        }
    }))
}

/// Reads one range after the other.
async fn reader(
    table: Arc<Table>,
    queue: Arc<Mutex<VecDeque<(usize, Part)>>>,
    lanes: Vec<Sender<ChunkPart>>,
) -> Result<(), Failure> {
    let next = || queue.lock().pop_front();
    while let Some((index, part)) = next() {
        if table.copy.stop.is_cancelled() {
            return Ok(());
        }
        let (sender, receiver) = channel(1);
        let reading = table.copy.source.read(&table.name, &part.range, part.position, sender);
        let feeding = feed(&table, index, receiver, &lanes);
        tokio::try_join!(reading, feeding)?;
    }
    table.reading.fetch_sub(1, Ordering::AcqRel);
    Ok(())
}

/// Divides the chunks of a range between the lanes.
async fn feed(
    table: &Table,
    range: usize,
    mut chunks: Receiver<Chunk>,
    lanes: &[Sender<ChunkPart>],
) -> Result<(), Failure> {
    let copy = &table.copy;
    let mut number = 0;
    while let Some(Chunk {
        mut records,
        rejects,
        position,
        ..
    }) = chunks.recv().await
    {
        if copy.stop.is_cancelled() {
            return Ok(());
        }
        table.note(&Outcome::of(|outcome| outcome.rejects = rejects))?;
        if let Some(since) = copy.since {
            records.retain(|record| record.timestamp.is_none_or(|timestamp| timestamp >= since));
        }
        copy.pace.take(records.len()).await;
        table.note(&Outcome::of(|outcome| outcome.read = records.len() as u64))?;
        let mut bytes = 0;
        let mut parts: Vec<Vec<Record>> = lanes.iter().map(|_| Vec::new()).collect();
        for record in records {
            bytes += record.weight() as u64;
            let hash = match &copy.target {
                Target::Service(_) => record.partition_hash(),
                Target::Database(_) | Target::Files(_) => record.key_hash(),
            };
            let lane = hash % (lanes.len() as u64).max(1);
            if let Some(part) = usize::try_from(lane).ok().and_then(|lane| parts.get_mut(lane)) {
                part.push(record);
            }
        }
        copy.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        // A reader takes all permits of a chunk at once and holds no others. So chunks that hold permits get written, and give them back.
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).clamp(1, HELD_KIB);
        let held = copy.room.clone().acquire_many_owned(kib).await;
        let held = held.map_err(|error| Failure::new(error.to_string()))?;
        // One more than there are parts to send: the chunk may be empty, and must not be complete before all of them are sent.
        let chunk = Arc::new(PendingChunk {
            range,
            number,
            position,
            left: AtomicUsize::new(1 + parts.iter().filter(|part| !part.is_empty()).count()),
            _held: held,
        });
        number += 1;
        for (records, lane) in parts.into_iter().zip(lanes) {
            let chunk = chunk.clone();
            if !records.is_empty() && lane.send(ChunkPart { records, chunk }).await.is_err() {
                // The lane reports its error itself.
                return Ok(());
            }
        }
        table.complete(&chunk);
    }
    Ok(())
}

/// Writes the parts of chunks that wait, together up to a limit.
async fn lane(table: Arc<Table>, mut writer: LaneWriter, mut parts: Receiver<ChunkPart>) -> Result<(), Failure> {
    let copy = &table.copy;
    while let Some(first) = parts.recv().await {
        let (mut records, mut chunks) = (first.records, vec![first.chunk]);
        let mut bytes: usize = records.iter().map(Record::weight).sum();
        while records.len() < WRITE_RECORDS && bytes < WRITE_BYTES {
            let Ok(part) = parts.try_recv() else { break };
            bytes += part.records.iter().map(Record::weight).sum::<usize>();
            records.extend(part.records);
            chunks.push(part.chunk);
        }
        for run in runs_of_different_keys(records) {
            let outcome = writer.write(run).await?;
            table.note(&outcome)?;
        }
        for chunk in &chunks {
            table.complete(chunk);
        }
        if copy.journal.is_due() {
            checkpoint(&table, &mut writer)?;
        }
    }
    if copy.stop.is_cancelled() {
        if copy.journal.is_kept() {
            checkpoint(&table, &mut writer)?;
        }
        return Ok(());
    }
    // A reader that fails also lets go of its lanes.
    if table.reading.load(Ordering::Acquire) > 0 {
        return Ok(());
    }
    if let LaneWriter::File(_) = writer {
        // If the program ends between the last line and the file's new name, the next run finds a complete file.
        if copy.journal.is_kept() {
            checkpoint(&table, &mut writer)?;
        }
        if let LaneWriter::File(writer) = writer {
            return tokio::task::block_in_place(|| writer.finish());
        }
    }
    Ok(())
}

/// Saves how far everything is written. A file has one lane, so its length and the positions belong together.
fn checkpoint(table: &Table, writer: &mut LaneWriter) -> Result<(), Failure> {
    tokio::task::block_in_place(|| {
        if let LaneWriter::File(writer) = writer {
            let length = writer.checkpoint()?;
            table.copy.journal.set_length(&table.name, length);
        }
        table.copy.journal.save()
    })
}

/// Divides entities where a key comes again: one write has each key once.
fn runs_of_different_keys(records: Vec<Record>) -> Vec<Vec<Record>> {
    let mut again = Vec::new();
    {
        let mut seen: HashSet<(&str, &str)> = HashSet::with_capacity(records.len());
        for (index, record) in records.iter().enumerate() {
            let key = (record.partition_key.as_str(), record.row_key.as_str());
            if !seen.insert(key) {
                again.push(index);
                seen.clear();
                seen.insert(key);
            }
        }
    }
    let mut runs = Vec::with_capacity(again.len() + 1);
    let mut rest = records;
    for &index in again.iter().rev() {
        runs.push(rest.split_off(index));
    }
    runs.push(rest);
    runs.reverse();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use table_service_model::PropertiesBuf;

    #[test]
    fn a_write_has_each_key_once_and_the_order_stays() {
        let record = |key: &str| Record {
            partition_key: "p".to_owned(),
            row_key: key.to_owned(),
            timestamp: None,
            properties: PropertiesBuf::empty(),
        };
        let keys = |text: &str| -> Vec<String> {
            runs_of_different_keys(text.split(' ').map(record).collect())
                .into_iter()
                .map(|run| run.into_iter().map(|record| record.row_key).collect())
                .collect()
        };
        assert_eq!(keys("a b c"), ["abc"]);
        assert_eq!(keys("a b a b a c"), ["ab", "ab", "ac"]);
    }
}
