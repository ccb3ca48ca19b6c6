//! `restore --as-it-was`: brings tables of a database back to their state at a moment.
//!
//! The entities of the moment and those of a snapshot of the database come in the order of keys. An entity that differs
//! is written or deleted, batch by batch, and only if it is still the one of the snapshot.

use std::cmp::Ordering;
use std::vec::IntoIter;

use table_service_model::Secret;
use tokio::sync::mpsc::{Receiver, channel};

use crate::ends::databases::{Database, Leveller, SqlSource, Step};
use crate::ends::{End, Source, Work};
use crate::failure::Failure;
use crate::records::{
    CHUNK_BYTES, CHUNK_RECORDS, Chunk, Key, Position, Progress, Range, Record, Rejects, Report, Selection, Style,
    TableReport,
};
use crate::work::CopyContext;

use super::interrupt::overdue;
use super::rounds::each_table;

/// How many entities that others have changed are named.
const NAMED: u64 = 10;

/// Makes tables of a database as they were.
pub struct Level {
    /// The target. Row-level security may hide entities from these reads only if the user says so.
    reading: Database,
    writing: Database,
    /// The entities that are compared: each that passes now or passed then.
    selection: Selection,
}

/// Entities in the order of keys.
struct Entities<'c> {
    chunks: Receiver<Chunk>,
    records: IntoIter<Record>,
    rejects: &'c Rejects,
    rejected: &'c mut u64,
    last: Option<Key>,
    /// Whether the last chunk has come.
    is_whole: bool,
}

impl Entities<'_> {
    async fn next(&mut self) -> Result<Option<Record>, Failure> {
        loop {
            if let Some(record) = self.records.next() {
                let key = record.key();
                // Keys in another order would be written and deleted without a reason.
                if self.last.replace(key.clone()).is_some_and(|last| last >= key) {
                    return Err(Failure::of_table("Entities do not come in the order of their keys."));
                }
                return Ok(Some(record));
            }
            let Some(chunk) = self.chunks.recv().await else {
                let failed = || Failure::of_table("Not all entities were read.");
                return self.is_whole.then_some(None).ok_or_else(failed);
            };
            self.is_whole = matches!(chunk.position, Position::End);
            *self.rejected += chunk.rejects.len() as u64;
            self.rejects.add(&chunk.rejects)?;
            self.records = chunk.records.into_iter();
        }
    }
}

impl Level {
    /// Reaches the target, which must be a database.
    pub fn open(work: &Work, to: &Secret, selection: Selection) -> Result<Level, Failure> {
        let End::Database(url) = End::read(to)? else {
            return Err(Failure::usage(
                "--as-it-was is for a database: give --to its postgresql:// URL. A service takes --on-conflict replace, and files are written anew.",
            ));
        };
        let reading = work.reach.database(url)?;
        Ok(Level {
            writing: reading.clone().for_writing(),
            reading,
            selection,
        })
    }

    /// Makes tables as they were, one after the other.
    pub async fn tables(
        &self,
        copy: &CopyContext,
        tables: &[String],
        report: &mut Report,
        style: Style,
    ) -> Result<(), Failure> {
        let _progress = Progress::start(style, copy.counters.clone());
        let done = each_table(tables, async |table| {
            if !copy.stop.is_cancelled() {
                let (done, named) = self.table(copy, table).await?;
                report.add(done);
                report.notes.extend(named);
            }
            Ok(())
        });
        let left_out = tokio::select! {
            done = done => done?,
            () = overdue(&copy.stop) => Vec::new(),
        };
        report.left_out.extend(left_out);
        Ok(())
    }

    /// The tables of the database.
    pub async fn there(&self) -> Result<Vec<String>, Failure> {
        SqlSource::new(self.reading.clone(), None).tables().await
    }

    /// Makes a table as it was, until it is told to stop. Returns its report, and notes on changes by others.
    async fn table(&self, copy: &CopyContext, table: &str) -> Result<(TableReport, Vec<String>), Failure> {
        self.writing.create(table).await?;
        let gone = || Failure::of_table(format!("{}: the table {table} is gone.", self.writing.name));
        let leveller = Leveller::open(&self.writing, table).await?.ok_or_else(gone)?;
        let snapshot = || SqlSource::of_everything(self.reading.clone(), leveller.oid(), self.selection.partition());
        let now = self.reading.again(snapshot).await?;
        let (then_sender, then) = channel(1);
        let (now_sender, now_chunks) = channel(1);
        let Source::Archive(archive) = &copy.source else {
            return Err(gone());
        };
        // If one of them fails, the others end. A reader's error says more than the merge's.
        let (then, now, done) = tokio::join!(
            archive.read(table, then_sender),
            now.read(table, &Range::WHOLE, None, now_sender),
            self.merge(copy, table, &leveller, then, now_chunks),
        );
        then.and(now).and(done)
    }

    async fn merge(
        &self,
        copy: &CopyContext,
        table: &str,
        leveller: &Leveller,
        then: Receiver<Chunk>,
        now: Receiver<Chunk>,
    ) -> Result<(TableReport, Vec<String>), Failure> {
        let (mut of_archive, mut of_target) = (0, 0);
        let entities = |chunks, rejected| Entities {
            chunks,
            records: Vec::new().into_iter(),
            rejects: &copy.rejects,
            rejected,
            last: None,
            is_whole: false,
        };
        let (mut then, mut now) = (entities(then, &mut of_archive), entities(now, &mut of_target));
        let mut work = Levelling {
            copy,
            leveller,
            steps: Vec::new(),
            bytes: 0,
            report: TableReport {
                table: table.to_owned(),
                as_it_was: true,
                ..TableReport::default()
            },
            named: Vec::new(),
        };
        let (mut was, mut is) = (then.next().await?, now.next().await?);
        while !copy.stop.is_cancelled() {
            let order = match (&was, &is) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(was), Some(is)) => was.keys().cmp(&is.keys()),
            };
            let step = Step {
                then: was.take_if(|_| order != Ordering::Greater),
                now: is.take_if(|_| order != Ordering::Less),
            };
            if step.then.is_some() {
                was = then.next().await?;
            }
            if step.now.is_some() {
                is = now.next().await?;
            }
            let mut there = step.then.iter().chain(&step.now);
            if there.any(|record| self.selection.selects(record)) {
                work.compare(step).await?;
            }
        }
        work.level().await?;
        work.report.outcome.rejected += of_archive + of_target;
        Ok((work.report, work.named))
    }
}

/// The steps that wait, and the report of those that are done.
struct Levelling<'w> {
    copy: &'w CopyContext,
    leveller: &'w Leveller,
    steps: Vec<Step>,
    bytes: usize,
    report: TableReport,
    /// Notes on the entities that others have changed.
    named: Vec<String>,
}

impl Levelling<'_> {
    async fn compare(&mut self, step: Step) -> Result<(), Failure> {
        self.copy.counters.read(1);
        self.report.outcome.read += 1;
        fn properties(record: &Option<Record>) -> Option<&[u8]> {
            record.as_ref().map(|record| record.properties.as_bytes())
        }
        if properties(&step.then) == properties(&step.now) {
            self.report.outcome.left += 1;
            return Ok(());
        }
        self.bytes += step.weight();
        self.steps.push(step);
        if self.steps.len() >= CHUNK_RECORDS || self.bytes >= CHUNK_BYTES {
            self.level().await?;
        }
        Ok(())
    }

    async fn level(&mut self) -> Result<(), Failure> {
        self.bytes = 0;
        let (done, changed) = self.leveller.level(std::mem::take(&mut self.steps)).await?;
        let table = &self.report.table;
        let room = NAMED.saturating_sub(self.report.outcome.changed);
        let named = changed.iter().take(usize::try_from(room).unwrap_or_default()).map(|key| {
            let Key { partition_key, row_key } = key;
            format!("{table}: PartitionKey {partition_key:?}, RowKey {row_key:?} was written by others meanwhile, and stays as it is.")
        });
        self.named.extend(named);
        self.copy.counters.note(&done);
        self.report.outcome.count(&done);
        self.copy.rejects.add(&done.rejects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many entities come before the end, or `None` if that is no end.
    async fn read(chunks: &[Position]) -> Option<usize> {
        let (sender, receiver) = channel(chunks.len());
        for (number, position) in chunks.iter().enumerate() {
            let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{number}"}}"#);
            let mut chunk = Chunk::new(position.clone());
            chunk.records.push(Record::from_json(&entity).unwrap());
            sender.send(chunk).await.unwrap();
        }
        drop(sender);
        let mut entities = Entities {
            chunks: receiver,
            records: Vec::new().into_iter(),
            rejects: &Rejects::open(None, None).unwrap(),
            rejected: &mut 0,
            last: None,
            is_whole: false,
        };
        let mut count = 0;
        while entities.next().await.ok()?.is_some() {
            count += 1;
        }
        Some(count)
    }

    #[tokio::test]
    async fn a_reader_that_fails_is_no_end() {
        assert_eq!(read(&[Position::Records(1), Position::End]).await, Some(2));
        assert_eq!(read(&[Position::Records(1)]).await, None);
        assert_eq!(read(&[Position::End, Position::Records(1)]).await, None);
    }
}
