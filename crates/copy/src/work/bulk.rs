//! Counts or deletes the entities of a source that a filter selects.
//!
//! A service gives the keys of several ranges at a time, page by page; a page is deleted, then its range goes on behind
//! it. A database does the work itself. Files are read, and the filter is tested here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::ends::Source;
use crate::ends::databases::{self, LARGEST_STEP, SqlDeleter};
use crate::ends::services::{KeyReader, RestDeleter, RestSource};
use crate::failure::Failure;
use crate::records::{Chunk, Counters, Journal, Outcome, Part, Position, Range, Rejects, Selection, rate};

use super::pipeline::Pace;
use super::workers::each;

/// The deleted entities of a table.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DeleteReport {
    pub from: String,
    pub table: String,
    /// Of those that passed the filter.
    #[serde(flatten)]
    pub outcome: Outcome,
    pub seconds: f64,
    pub notes: Vec<String>,
}

impl DeleteReport {
    /// The report for people.
    pub fn text(&self) -> String {
        let Outcome {
            read,
            deleted,
            gone,
            changed,
            rejected,
            ..
        } = &self.outcome;
        let rate = rate(*deleted, self.seconds);
        let mut lines = vec![
            format!(
                "{}: {read} read, {deleted} deleted, {gone} gone already, {changed} changed meanwhile and no longer selected, {rejected} rejected",
                self.table
            ),
            format!("{:.1} s, {rate:.0} a second", self.seconds),
        ];
        lines.extend(self.notes.iter().cloned());
        lines.join("\n")
    }
}

/// Everything that the workers on one table share.
pub struct Bulk {
    pub source: Source,
    pub selection: Selection,
    pub readers: usize,
    pub counters: Arc<Counters>,
}

impl Bulk {
    /// How many entities of a table are selected.
    pub async fn count(self: &Arc<Bulk>, table: &str) -> Result<u64, Failure> {
        let counted = Arc::new(AtomicU64::new(0));
        let add = |count: usize| {
            self.counters.read(count);
            counted.fetch_add(count as u64, Ordering::Relaxed);
        };
        match &self.source {
            Source::Database(source) => add(databases::count(&source.database, table, self.selection.text()).await?),
            Source::Files(_) | Source::Archive(_) => {
                for range in self.source.ranges(table, 1).await? {
                    let count = |chunk: Chunk| {
                        if let Some(reject) = chunk.rejects.first() {
                            let place = reject.place.as_deref().unwrap_or_default();
                            return Err(Failure::new(format!("Table {table}, {place}: {}", reject.reason)));
                        }
                        let selected = chunk.records.iter().filter(|record| self.selection.selects(record));
                        add(selected.count());
                        Ok(())
                    };
                    self.source.each_chunk(table, &range, count).await?;
                }
            }
            Source::Service(source) => {
                let parts = self.ranges(source, table).await?;
                let (bulk, name, sum) = (self.clone(), table.to_owned(), counted.clone());
                each(self.readers, parts, move |range| {
                    let (bulk, table, sum) = (bulk.clone(), name.clone(), sum.clone());
                    let part = Part { range, position: None };
                    async move {
                        let Source::Service(source) = &bulk.source else {
                            return Ok(());
                        };
                        let mut reader = bulk.reader(source, &table, &part);
                        while let Some((keys, _)) = reader.next().await? {
                            bulk.counters.read(keys.len());
                            sum.fetch_add(keys.len() as u64, Ordering::Relaxed);
                        }
                        Ok(())
                    }
                })
                .await?;
            }
        }
        Ok(counted.load(Ordering::Relaxed))
    }

    async fn ranges(&self, source: &RestSource, table: &str) -> Result<Vec<Range>, Failure> {
        let readers = if self.selection.can_be_divided() {
            self.readers
        } else {
            1
        };
        source.ranges(table, readers).await
    }

    fn reader<'a>(&'a self, source: &'a RestSource, table: &'a str, part: &'a Part) -> KeyReader<'a> {
        let range = match &part.range {
            Range::Filter(filter) => filter.as_deref(),
            _ => None,
        };
        KeyReader::new(source, table, &[range, self.selection.text()], part.position.clone())
    }
}

/// A delete under way.
pub struct Delete {
    pub bulk: Arc<Bulk>,
    pub pace: Pace,
    pub rejects: Rejects,
    pub journal: Journal,
    /// Set when the user wants it to end.
    pub stop: CancellationToken,
    pub report: Mutex<DeleteReport>,
}

impl Delete {
    /// Deletes the selected entities of a table, or those that an earlier run has left. Returns early, without an error, when it
    /// is to stop.
    ///
    /// # Errors
    /// A service or a database that stays away, or refuses it.
    pub async fn table(self: &Arc<Delete>, table: &str) -> Result<(), Failure> {
        let parts = match self.journal.parts(table) {
            Some(parts) => parts,
            None => {
                let ranges = match &self.bulk.source {
                    Source::Service(source) => self.bulk.ranges(source, table).await?,
                    Source::Database(_) | Source::Files(_) | Source::Archive(_) => vec![Range::WHOLE],
                };
                self.journal.begin(table, &ranges)
            }
        };
        let (delete, name) = (self.clone(), table.to_owned());
        let parts = parts.into_iter().enumerate().collect();
        let done = each(self.bulk.readers, parts, move |(index, part)| {
            let (delete, table) = (delete.clone(), name.clone());
            async move { delete.part(&table, index, part).await }
        })
        .await;
        self.journal.save()?;
        done
    }

    async fn part(&self, table: &str, index: usize, part: Part) -> Result<(), Failure> {
        let filter = self.bulk.selection.text();
        match &self.bulk.source {
            Source::Service(source) => {
                let deleter = RestDeleter { source, table, filter };
                let mut reader = self.bulk.reader(source, table, &part);
                while !self.stop.is_cancelled()
                    && let Some((mut keys, position)) = reader.next().await?
                {
                    loop {
                        let later = keys.split_off(self.pace.at_once(keys.len()));
                        let read = keys.len();
                        self.pace.take(read).await;
                        let mut removed = deleter.delete(keys).await?;
                        removed.read = read as u64;
                        // Of a page that is interrupted, the next run finds the rest.
                        let position = later.is_empty().then(|| position.clone());
                        self.note(table, index, &removed, position)?;
                        if later.is_empty() || self.stop.is_cancelled() {
                            break;
                        }
                        keys = later;
                    }
                }
            }
            Source::Database(source) => {
                let step = self.pace.at_once(LARGEST_STEP);
                let mut deleter = SqlDeleter::new(&source.database, table, filter, step, part.position);
                while !self.stop.is_cancelled() {
                    // Until more may be deleted.
                    self.pace.take(0).await;
                    let Some(step) = deleter.next().await? else { break };
                    self.pace.note(step.read);
                    let removed = Outcome {
                        read: step.read,
                        deleted: step.deleted,
                        changed: step.read.saturating_sub(step.deleted),
                        ..Outcome::default()
                    };
                    self.note(table, index, &removed, Some(step.position))?;
                }
                if deleter.is_uncertain {
                    let note = "The database was away for a while. What was deleted by a step whose answer did not come is not \
                                in these numbers.";
                    self.report().notes.push(note.to_owned());
                }
            }
            Source::Files(_) | Source::Archive(_) => return Err(Failure::usage("Nothing is deleted from files.")),
        }
        Ok(())
    }

    fn report(&self) -> MutexGuard<'_, DeleteReport> {
        self.report.lock()
    }

    fn note(&self, table: &str, range: usize, removed: &Outcome, position: Option<Position>) -> Result<(), Failure> {
        self.bulk.counters.note(removed);
        self.report().outcome.count(removed);
        self.rejects.add(&removed.rejects)?;
        if let Some(position) = position {
            self.journal.set_position(table, range, position);
        }
        if self.journal.is_due() {
            tokio::task::block_in_place(|| self.journal.save())?;
        }
        Ok(())
    }
}
