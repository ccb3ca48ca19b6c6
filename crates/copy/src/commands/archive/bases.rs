//! Bases: of tables that are read, of the files of the archive, and those that no moment needs.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use table_service_archive::{Base, BaseWriter, Contents, Directory, Fold, Folded, Manifest, Moment, Table, pruned};
use tokio::sync::mpsc::channel;
use tokio::task::{JoinHandle, block_in_place};

use crate::commands::interrupt::pause;
use crate::ends::databases::{Freeze, Frozen};
use crate::failure::Failure;
use crate::printable::tell;
use crate::records::{LeftOut, Range};

use super::kept::{Kept, Run};
use super::pages::IDLE;

/// New bases are made when the segments since the last ones are as large as those, and no smaller than this.
const FOLD_BYTES: u64 = 64 << 20;
/// How often a table is read anew after it, or its changes, could not be read.
const MEND_EVERY: Duration = Duration::from_secs(60);
/// How often a table that others use is tried again.
const BUSY_EVERY: Duration = Duration::from_secs(5);
/// How often a table that others use is tried, if no later round tries it again, and the pause between two tries, in seconds.
const BUSY_TRIES: usize = 4;
const BUSY_PAUSE: f64 = 0.5;
/// How often a table is read again because the server was away meanwhile.
const AWAY_TRIES: usize = 10;

/// A problem of a table.
struct Trouble {
    again: Instant,
    /// `None` if it was read anew a short time ago.
    reason: Option<String>,
}

impl Trouble {
    fn for_now(time: Duration, reason: Option<String>) -> Trouble {
        let again = Instant::now() + time;
        Trouble { again, reason }
    }
}

/// Makes bases, and deletes files that no moment needs.
#[derive(Default)]
pub struct Bases {
    /// How many were made.
    pub count: u64,
    /// Of tables, by their numbers.
    troubles: HashMap<u32, Trouble>,
    /// The tables that are read again, because no base can be made of the files.
    unfolded: BTreeSet<u32>,
    folding: Option<JoinHandle<Result<Vec<Folded>, Failure>>>,
    pruned: Option<Instant>,
}

impl Bases {
    /// Forgets the troubles of tables.
    pub fn forget(&mut self) {
        self.troubles.clear();
        self.unfolded.clear();
    }

    /// Returns whether tables are to be read because no base can be made of the files.
    pub fn must_read_again(&self) -> bool {
        !self.unfolded.is_empty()
    }

    /// The tables that are not archived now.
    pub fn left_out(&self, kept: &Kept) -> Vec<LeftOut> {
        let lacking = kept.manifest.lacking().into_iter();
        let left_out = lacking.filter_map(|table| {
            let gap = table.gaps.last().filter(|gap| gap.until.is_none());
            let trouble = self.troubles.get(&table.id).and_then(|trouble| trouble.reason.clone());
            let reason = trouble.or(gap.map(|gap| gap.reason.clone()))?;
            let table = table.name().to_owned();
            Some(LeftOut { table, reason })
        });
        left_out.collect()
    }

    /// Reads the tables without a base or with an open gap, up to a newest one. Trouble with one table does not stop the others: anybody may own a table. Returns
    /// whether any table was read: its base counts when the feed gives its mark.
    pub async fn read(&mut self, run: &Run<'_>, kept: &mut Kept, newest: u32) -> Result<bool, Failure> {
        let mut wanted = kept.manifest.lacking();
        wanted.retain(|table| table.id < newest);
        let unfolded = kept.manifest.living().filter(|table| self.unfolded.contains(&table.id));
        wanted.extend(unfolded.cloned().collect::<Vec<Table>>());
        let (mut any, begin) = (false, Instant::now());
        for table in wanted {
            // The bases read so far are not lost if the next table takes long.
            if run.stop.is_cancelled() || any && begin.elapsed() >= IDLE {
                break;
            }
            if self
                .troubles
                .get(&table.id)
                .is_some_and(|trouble| Instant::now() < trouble.again)
            {
                continue;
            }
            let trouble = match read_base(run, kept, &table).await {
                Ok(Some((mark, base))) => {
                    any = true;
                    self.count += 1;
                    kept.pending.insert(mark, base);
                    self.unfolded.remove(&table.id);
                    // If more changes cannot be read, the next base waits.
                    Trouble::for_now(MEND_EVERY, None)
                }
                // It is gone, and the feed says when.
                Ok(None) => continue,
                Err((failure, time)) if failure.is_of_table => Trouble::for_now(time, Some(failure.to_string())),
                Err((failure, _)) => return Err(failure),
            };
            let told = self.troubles.get(&table.id).and_then(|before| before.reason.as_ref());
            if let Some(reason) = trouble.reason.as_ref().filter(|reason| told != Some(reason)) {
                tell(&format!(
                    "table-service-copy: the table {} is not archived now: {reason}",
                    table.name()
                ));
            }
            self.troubles.insert(table.id, trouble);
        }
        Ok(any)
    }

    /// Makes new bases of the last ones and the segments since then, if it is time for that.
    pub async fn fold(&mut self, run: &Run<'_>, kept: &mut Kept) -> Result<(), Failure> {
        if self.folding.as_ref().is_some_and(JoinHandle::is_finished) {
            self.end_folding(kept).await?;
        }
        if self.folding.is_some() || run.stop.is_cancelled() {
            return Ok(());
        }
        let keep = run.arguments.keep.map(micros);
        let Some(fold) = Fold::due(&mut kept.manifest, FOLD_BYTES, keep, &self.unfolded) else {
            return Ok(());
        };
        kept.change(|_| ());
        // The segments that are folded do not change any more.
        kept.end_segment();
        let directory = kept.directory.clone();
        self.folding = Some(tokio::task::spawn_blocking(move || fold.run(&directory)));
        if run.arguments.follow.is_none() {
            self.end_folding(kept).await?;
        }
        Ok(())
    }

    /// Waits for the new bases that are being made, and puts them into the manifest. Returns whether there were any.
    pub async fn end_folding(&mut self, kept: &mut Kept) -> Result<bool, Failure> {
        let Some(folding) = self.folding.take() else {
            return Ok(false);
        };
        for folded in folding.await.map_err(|error| Failure::new(error.to_string()))?? {
            match kept.change(|manifest| folded.apply(manifest)) {
                Ok(is_new) => self.count += u64::from(is_new),
                Err((id, problem)) => {
                    tell(&format!(
                        "table-service-copy: no new base can be made of the archive's files: {problem}. The table is read again"
                    ));
                    self.unfolded.insert(id);
                }
            }
        }
        kept.save()?;
        Ok(true)
    }

    /// Deletes the files that no moment of the kept time needs.
    pub fn prune(&mut self, run: &Run<'_>, kept: &mut Kept) -> Result<(), Failure> {
        let Some(keep) = run.arguments.keep.filter(|_| self.folding.is_none()) else {
            return Ok(());
        };
        let every = (keep / 64).clamp(Duration::from_millis(500), Duration::from_secs(600));
        if self.pruned.is_some_and(|last| last.elapsed() < every) {
            return Ok(());
        }
        self.pruned = Some(Instant::now());
        let (directory, manifest) = (&kept.directory, &kept.manifest);
        let from = Moment(manifest.last().0.saturating_sub(micros(keep)));
        let Some((pruned, gone)) = block_in_place(|| pruned(directory, manifest, from)) else {
            return Ok(());
        };
        let Some(_alone) = directory.remove_lock()? else {
            return Ok(());
        };
        // Twice, so that the manifest before this one does not name them either.
        for _ in 0..2 {
            kept.change(|manifest| manifest.clone_from(&pruned));
            kept.save()?;
        }
        // The one that is written to may go: later changes are in another one.
        kept.end_segment();
        kept.directory.remove(&|number| gone.contains(&number))
    }
}

/// Reads all entities of a table as they are at one position, behind which the feed has a mark; `None` if there is no such table. The error says when to try again.
async fn read_base(
    run: &Run<'_>,
    kept: &mut Kept,
    table: &Table,
) -> Result<Option<(String, Base)>, (Failure, Duration)> {
    let later = |failure: Failure| (failure, MEND_EVERY);
    let mut busy = if run.arguments.follow.is_some() { 1 } else { BUSY_TRIES };
    for _ in 0..AWAY_TRIES {
        let mark = uuid::Uuid::new_v4().to_string();
        let frozen = loop {
            match run.feed.freeze(table.oid, &mark).await.map_err(later)? {
                Freeze::Done(frozen) => break *frozen,
                Freeze::Gone => return Ok(None),
                Freeze::Refused(failure) => return Err(later(Failure::of_table(failure.to_string()))),
                Freeze::Busy if busy > 1 && !run.stop.is_cancelled() => pause(BUSY_PAUSE, &run.stop).await,
                Freeze::Busy => {
                    let reason = "others have used it for too long";
                    return Err((Failure::of_table(reason), BUSY_EVERY));
                }
            }
            busy -= 1;
        };
        let number = kept.change(Manifest::take_number);
        let contents = copy_base(&kept.directory, &frozen, number).await;
        if !matches!(contents, Ok(Some(_))) {
            kept.directory.remove(&|other| other == number).map_err(later)?;
        }
        let Some(contents) = contents.map_err(later)? else {
            continue;
        };
        let base = Base {
            number,
            table: table.id,
            epoch: kept.manifest.reached().epoch,
            position: frozen.position,
            moment: frozen.clock,
            through: frozen.position,
            contents,
        };
        return Ok(Some((mark, base)));
    }
    Err(later(Failure::of_table(format!(
        "it could not be read at once: the database was away {AWAY_TRIES} times meanwhile"
    ))))
}

/// Writes a base; `None` if not all of it was read at one position.
async fn copy_base(directory: &Directory, frozen: &Frozen, number: u64) -> Result<Option<Contents>, Failure> {
    let of_table = |failure: Failure| Failure::of_table(failure.to_string());
    let mut writer = block_in_place(|| BaseWriter::begin(directory, number))?;
    let (sender, mut chunks) = channel(2);
    let reading = async {
        let read = frozen.source.read(&frozen.name, &Range::WHOLE, None, sender);
        read.await.map_err(of_table)
    };
    let writing = async {
        while let Some(chunk) = chunks.recv().await {
            if let Some(reject) = chunk.rejects.first() {
                return Err(Failure::of_table(format!(
                    "it has a row that is no entity: {}",
                    reject.reason
                )));
            }
            block_in_place(|| chunk.records.iter().try_for_each(|record| writer.add(record)))?;
        }
        Ok(())
    };
    // If one of them fails, the other ends.
    tokio::try_join!(reading, writing)?;
    frozen.source.release().await;
    if frozen.source.note().is_some() {
        return Ok(None);
    }
    block_in_place(|| writer.finish()).map(Some)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
