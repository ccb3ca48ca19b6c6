//! `restore --as-it-was`: tables of a database become what they were.
//!
//! The entities of the moment and those of a snapshot of the database come in the order of keys. What differs is written
//! or deleted, batch by batch, each entity only if it is still the one of the snapshot.

use std::cmp::Ordering as Order;
use std::sync::atomic::Ordering;
use std::vec::IntoIter;

use table_service_model::Secret;
use tokio::sync::mpsc::{Receiver, channel};

use crate::cli;
use crate::failure::Failure;
use crate::interrupt::overdue;
use crate::location::Location;
use crate::peer::Source;
use crate::pipeline::CopyContext;
use crate::progress::{Counters, Progress, Style};
use crate::record::{CHUNK_BYTES, CHUNK_RECORDS, Chunk, Key, Range, Record};
use crate::report::{AsItWas, Report, TableReport};
use crate::selection::Selection;
use crate::sql::{Database, Leveller, SqlSource, Step};

use super::rounds::each_table;

/// How many entities that others have changed are named.
const NAMED: u64 = 10;

/// What makes tables of a database as they were.
pub struct Level {
    /// The target, where policies may hide entities from what is read only if the user says so.
    reading: Database,
    writing: Database,
    /// What is compared: each entity that passes now or passed then.
    selection: Selection,
}

/// Entities in the order of keys.
struct Entities<'c> {
    chunks: Receiver<Chunk>,
    records: IntoIter<Record>,
    copy: &'c CopyContext,
    rejected: &'c mut u64,
    last: Option<Key>,
}

impl Entities<'_> {
    async fn next(&mut self) -> Result<Option<Record>, Failure> {
        loop {
            if let Some(record) = self.records.next() {
                let key = Key {
                    partition_key: record.partition_key.clone(),
                    row_key: record.row_key.clone(),
                };
                // What is in another order would be written and deleted without a reason.
                if self.last.replace(key.clone()).is_some_and(|last| last >= key) {
                    return Err(Failure::of_table("Entities do not come in the order of their keys."));
                }
                return Ok(Some(record));
            }
            let Some(chunk) = self.chunks.recv().await else {
                return Ok(None);
            };
            *self.rejected += chunk.rejects.len() as u64;
            self.copy.rejects.add(&chunk.rejects)?;
            self.records = chunk.records.into_iter();
        }
    }
}

impl Level {
    pub fn open(work: &cli::Work, to: &Secret, selection: Selection) -> Result<Level, Failure> {
        let Location::Sql(url) = Location::read(to)? else {
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
            if !copy.stop.load(Ordering::Relaxed) {
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

    /// Makes a table as it was, until it is told to stop. Returns what was done, and names what others have changed.
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
        let (_, _, done) = tokio::try_join!(
            archive.read(table, then_sender),
            now.read(table, &Range::WHOLE, None, now_sender),
            self.merge(copy, table, &leveller, then, now_chunks),
        )?;
        Ok(done)
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
            copy,
            rejected,
            last: None,
        };
        let (mut then, mut now) = (entities(then, &mut of_archive), entities(now, &mut of_target));
        let mut work = Work::new(copy, table, leveller);
        let (mut was, mut is) = (then.next().await?, now.next().await?);
        while !copy.stop.load(Ordering::Relaxed) {
            fn key(record: &Record) -> (&str, &str) {
                (&record.partition_key, &record.row_key)
            }
            let order = match (&was, &is) {
                (None, None) => break,
                (Some(_), None) => Order::Less,
                (None, Some(_)) => Order::Greater,
                (Some(was), Some(is)) => key(was).cmp(&key(is)),
            };
            let before = was.take_if(|_| order != Order::Greater);
            let after = is.take_if(|_| order != Order::Less);
            if before.is_some() {
                was = then.next().await?;
            }
            if after.is_some() {
                is = now.next().await?;
            }
            let selects =
                |record: &Option<Record>| record.as_ref().is_some_and(|record| self.selection.selects(record));
            if selects(&before) || selects(&after) {
                work.compare(before, after).await?;
            }
        }
        let (mut report, named) = work.finish().await?;
        report.rejected += of_archive + of_target;
        Ok((report, named))
    }
}

/// The steps that wait, and what was done.
struct Work<'w> {
    copy: &'w CopyContext,
    leveller: &'w Leveller,
    steps: Vec<Step>,
    bytes: usize,
    report: TableReport,
    done: AsItWas,
    /// What others have changed.
    named: Vec<String>,
}

impl<'w> Work<'w> {
    fn new(copy: &'w CopyContext, table: &str, leveller: &'w Leveller) -> Work<'w> {
        Work {
            copy,
            leveller,
            steps: Vec::new(),
            bytes: 0,
            report: TableReport {
                table: table.to_owned(),
                ..TableReport::default()
            },
            done: AsItWas::default(),
            named: Vec::new(),
        }
    }

    async fn compare(&mut self, was: Option<Record>, is: Option<Record>) -> Result<(), Failure> {
        self.report.read += 1;
        Counters::add(&self.copy.counters.read, 1);
        let step = match (was, is) {
            (Some(was), Some(is)) if was.properties == is.properties => {
                self.done.left += 1;
                return Ok(());
            }
            (Some(was), Some(is)) => Step::Replace(was, is.timestamp),
            (Some(was), None) => Step::Insert(was),
            (None, Some(is)) => Step::Delete(is),
            (None, None) => return Ok(()),
        };
        self.bytes += step.record().weight();
        self.steps.push(step);
        if self.steps.len() >= CHUNK_RECORDS || self.bytes >= CHUNK_BYTES {
            self.level().await?;
        }
        Ok(())
    }

    async fn level(&mut self) -> Result<(), Failure> {
        self.bytes = 0;
        let levelled = self.leveller.level(std::mem::take(&mut self.steps)).await?;
        let (rejected, changed) = (levelled.rejects.len() as u64, levelled.changed.len() as u64);
        self.report.written += levelled.written;
        self.report.rejected += rejected;
        self.done.deleted += levelled.deleted;
        for key in levelled.changed {
            self.done.changed += 1;
            if self.done.changed <= NAMED {
                self.named.push(format!(
                    "{}: PartitionKey {:?}, RowKey {:?} was written by others meanwhile, and stays as it is.",
                    self.report.table, key.partition_key, key.row_key
                ));
            }
        }
        let counters = &self.copy.counters;
        Counters::add(&counters.written, levelled.written);
        Counters::add(&counters.deleted, levelled.deleted);
        Counters::add(&counters.skipped, changed);
        Counters::add(&counters.rejected, rejected);
        self.copy.rejects.add(&levelled.rejects)
    }

    async fn finish(mut self) -> Result<(TableReport, Vec<String>), Failure> {
        self.level().await?;
        self.report.as_it_was = Some(self.done);
        Ok((self.report, self.named))
    }
}
