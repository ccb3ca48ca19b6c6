//! `--follow` by a change feed of the source: with deletions, and without missing changes.
//!
//! The feed is made before the copy. Its changes say which keys to look at: entities that the source has there now
//! replace those of the target, and the others are deleted, whichever is newer: the Timestamps of replaced entities are
//! of the target's clock. So it does no harm that a change comes again, or is older than the copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest, Sha256};
use table_service_model::table_name;
use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::sync::CancellationToken;

use crate::ends::databases::{Change, ChangeFeed, Event, Images, Known, PAGE, SqlWriter, StoredTable};
use crate::ends::{End, Target};
use crate::failure::Failure;
use crate::printable::tell;
use crate::records::{
    Followed, Journal, Key, LeftOut, OnConflict, Outcome, Record, Report, Selection, TableReport, WriteMode,
};
use crate::work::{Bulk, CopyContext, Delete, DeleteReport, Pace};

use super::arguments::CopyArguments;
use super::interrupt::pause;
use super::rounds::{again, round};

/// Changes that wait to be applied.
const WAITING: usize = 100;
/// How many keys are looked at in one go. The entities are in memory together.
const KEYS: usize = 100;
/// The most tables to which connections stay open.
const WRITERS: usize = 8;
/// Fewer changes than these are few.
const FEW: usize = 1000;
/// How long to wait for changes when there are none.
const IDLE: Duration = Duration::from_millis(100);
/// The pause between checks that the feed still has all tables.
const LOOK: Duration = Duration::from_secs(1);
/// Why `--follow` does not go by Timestamps with `--on-conflict newer`.
pub const NEWER_NEEDS_A_FEED: &str = "With --on-conflict newer, --follow needs a change feed of the source: an entity that the target has \
     replaced has a Timestamp of the target's clock, so what the source wrote shortly before would count as older for ever. Give \
     --on-conflict replace.";
/// Why tables are copied again.
const GONE: &str = "The change feed is gone";
const LACKS_TABLE: &str = "it was taken out of the change feed";
const OTHER: &str = "it was dropped, moved or renamed meanwhile, or another table has its name";

/// Makes a feed of the tables, or finds the feed of an earlier run. With a new feed nothing counts as copied. `None` if
/// the source cannot have one: the reason is said and reported.
pub async fn begin(
    arguments: &CopyArguments,
    target: &Target,
    tables: &[String],
    journal: &Journal,
    report: &mut Report,
) -> Result<Option<ChangeFeed>, Failure> {
    let replaces = matches!(arguments.on_conflict, OnConflict::Replace | OnConflict::Newer);
    if arguments.follow.is_none() || arguments.since.is_some() || !replaces {
        return Ok(None);
    }
    let End::Database(url) = End::read(arguments.ends.from()?)? else {
        return Ok(None);
    };
    let options = &arguments.ends.options;
    let feed = ChangeFeed::new(options.work.reach.database(url)?, &name(report, &options.tables));
    if journal.followed() == Followed::Whole {
        let known = FollowedTables::new(tables, &journal.relations());
        if feed.is_whole(tables).await? && known.other(&feed.relations().await?).is_none() {
            return Ok(Some(feed));
        }
        journal.lose_feed()?;
    }
    // A feed that an earlier run has left.
    let left = feed.drop().await;
    let made = match left {
        Ok(()) => feed.create(tables).await?,
        Err(failure) => Err(failure.to_string()),
    };
    if let Err(reason) = made {
        if arguments.on_conflict == OnConflict::Newer {
            return Err(Failure::new(format!(
                "{NEWER_NEEDS_A_FEED} The source cannot have one: {reason}"
            )));
        }
        let note = format!(
            "Without a change feed, changes are found by their Timestamps, and deletions are not found: {reason}"
        );
        say(note, report);
        return Ok(None);
    }
    if journal.followed() == Followed::Lost {
        let reason = "that of the interrupted copy is not there, has lost changes, does not have all tables, or tables were renamed";
        empty(arguments, target, tables, report, reason).await?;
    } else if journal.is_resumed {
        let note = "The interrupted copy had no change feed, so all entities are copied again, and followed from now on. \
                    What the source has deleted since they were copied stays in the target.";
        say(note.to_owned(), report);
    }
    journal.begin_feed(feed.relations().await?)?;
    Ok(Some(feed))
}

/// Says it now, and in the report.
fn say(note: String, report: &mut Report) {
    tell(&format!("table-service-copy: {note}"));
    report.note(note);
}

/// The feed's name depends on the copy alone, so that a later run finds it, whatever tables the source has then.
fn name(report: &Report, asked_for: &[String]) -> String {
    let mut hash = Sha256::new();
    let asked_for: Vec<String> = asked_for.iter().map(|table| table_name::fold(table)).collect();
    for part in [&report.from, &report.to].into_iter().chain(&asked_for) {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    let hash: [u8; 32] = hash.finalize().into();
    let digits: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("copy_{digits}")
}

/// Applies changes until there are few, and applying them takes less than `limit` seconds, or until it is told to stop. `tables`
/// become those that are followed at the end.
pub async fn follow(
    arguments: &CopyArguments,
    copy: &Arc<CopyContext>,
    feed: &ChangeFeed,
    tables: &mut Vec<String>,
    limit: f64,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut following = Following {
        arguments,
        copy,
        feed,
        known: FollowedTables::new(tables, &copy.journal.relations()),
        pending: BTreeMap::new(),
        writers: BTreeMap::new(),
        report,
    };
    let mut looked = Instant::now();
    while !copy.stop.is_cancelled() {
        let begin = Instant::now();
        let (events, changes) = channel(WAITING);
        let (read, applied) = tokio::join!(feed.read(Images::None, PAGE, events), following.apply(changes));
        let count = applied?;
        let confirmed = match read {
            Ok(Some(position)) => feed.confirm(&position).await,
            Ok(None) => {
                pause(IDLE.as_secs_f64(), &copy.stop).await;
                Ok(())
            }
            Err(failure) => Err(failure),
        };
        let ends = count < FEW && begin.elapsed().as_secs_f64() < limit;
        let visited = match confirmed {
            Ok(()) if ends || looked.elapsed() >= LOOK => {
                looked = Instant::now();
                following.visit(tables).await
            }
            confirmed => confirmed.map(|()| Visit::Same),
        };
        match visited {
            Ok(Visit::Same) => {}
            Ok(Visit::CopiedAgain) => continue,
            // A feed can be lost at any moment.
            Err(failure) => {
                if feed.is_whole(&[]).await? {
                    return Err(failure);
                }
                *tables = following.copy_again(&failure.to_string()).await?;
                continue;
            }
        }
        if ends {
            break;
        }
    }
    Ok(())
}

/// The tables that a copy follows, also those that are dropped meanwhile: they may come again.
#[derive(Default)]
struct FollowedTables {
    /// By their names in lower case.
    followed: BTreeMap<String, FollowedTable>,
    /// Names in changes that are not followed: tables that were renamed.
    renamed: BTreeSet<String>,
    /// Those of the source that are not followed, as long as nobody was told of them.
    new: Vec<String>,
    told: BTreeSet<String>,
    /// Those with changes that could not be read.
    with_gaps: BTreeSet<String>,
    /// Those that could not be visited, and are not followed any more.
    left_out: BTreeSet<String>,
    /// Where the source has the entities of a table, since the last check.
    stored: BTreeMap<String, StoredTable>,
}

#[derive(Clone)]
struct FollowedTable {
    name: String,
    /// Its OID, if the target's entities are known to come from it.
    relation: Option<u32>,
}

impl FollowedTables {
    fn new(tables: &[String], relations: &BTreeMap<String, u32>) -> FollowedTables {
        let mut followed = BTreeMap::new();
        for name in tables {
            let folded = table_name::fold(name);
            let table = FollowedTable {
                name: name.clone(),
                relation: relations.get(&folded).copied(),
            };
            followed.entry(folded).or_insert(table);
        }
        FollowedTables {
            followed,
            ..FollowedTables::default()
        }
    }

    /// Returns the table of a change. A feed without OIDs has the spelling of names: another table that had the name
    /// for a moment had another spelling.
    fn of_change(&self, change: &Change) -> Option<FollowedTable> {
        let mut followed = self.followed.values();
        let of = |table: &&FollowedTable| match change.relation {
            Some(relation) => table.relation == Some(relation),
            None => table.name == change.table,
        };
        followed.find(of).cloned()
    }

    /// Returns how the source finds a table: by its OID if that is known, else by its name.
    fn identity<'t>(&self, table: &'t str) -> Known<'t> {
        let followed = self.followed.get(&table_name::fold(table));
        match followed.and_then(|table| table.relation) {
            Some(relation) => Known::ByOid(relation),
            None => Known::ByName(table),
        }
    }

    /// A table that had another name for a time, in which its changes were not applied, is not the copied table any
    /// more: not under its old name either. If the other name is gone, nobody knows which table had it.
    fn look_at_renamed(&mut self, relations: &BTreeMap<String, u32>) {
        for name in std::mem::take(&mut self.renamed) {
            let renamed = relations.get(&name);
            for copied in self.followed.values_mut() {
                if renamed.is_none() || copied.relation.as_ref() == renamed {
                    copied.relation = None;
                }
            }
        }
    }

    /// Returns the name of a copied table that another table has now.
    fn other(&self, relations: &BTreeMap<String, u32>) -> Option<&str> {
        let is_other = |name, of: &FollowedTable| relations.get(name).is_some_and(|now| Some(*now) != of.relation);
        let mut followed = self.followed.iter();
        let other = followed.find(|(name, copied)| is_other(*name, copied));
        other.map(|(name, _)| name.as_str())
    }

    /// Returns the names of copied tables that are others now, or that the feed has not, each with the reason. One that is left out stays so.
    async fn others(
        &self,
        relations: &BTreeMap<String, u32>,
        feed: &ChangeFeed,
        tables: &[String],
    ) -> Result<Vec<(String, &'static str)>, Failure> {
        let served = tables.iter().filter(|table| !self.left_out.contains(*table)).cloned();
        let is_whole = feed.is_whole(&served.collect::<Vec<String>>()).await?;
        let mut others = Vec::new();
        for (folded, FollowedTable { name, relation }) in &self.followed {
            let Some(now) = relations.get(folded).filter(|_| !self.left_out.contains(name)) else {
                continue;
            };
            if Some(*now) != *relation {
                others.push((name.clone(), OTHER));
            } else if !is_whole && !feed.is_whole(std::slice::from_ref(name)).await? {
                others.push((name.clone(), LACKS_TABLE));
            }
        }
        Ok(others)
    }

    /// Those that the source has now. Where their entities are is to be looked up again.
    async fn there(&mut self, arguments: &CopyArguments) -> Result<Vec<String>, Failure> {
        self.stored.clear();
        let options = &arguments.ends.options;
        let tables = options.source(arguments.ends.from()?, None)?.tables().await?;
        let follows = |table: &String| self.followed.contains_key(&table_name::fold(table));
        let (there, new) = tables.into_iter().partition(follows);
        // With --table, others are not asked for.
        self.new = if options.tables.is_empty() { new } else { Vec::new() };
        Ok(there)
    }

    /// Says once of each table that changes of it are missing in the target.
    fn tell_of_gap(&mut self, table: &str, reason: &str, report: &mut Report) {
        if self.with_gaps.insert(table.to_owned()) {
            let reason =
                format!("Changes of the table {table} cannot be followed, and are missing in the target: {reason}");
            tell(&format!("table-service-copy: {reason}"));
            report.left_out.push(LeftOut {
                table: table.to_owned(),
                reason,
            });
        }
    }

    /// Follows a table no more, and says why.
    fn leave_out(&mut self, table: &str, reason: &str, report: &mut Report) {
        self.tell_of_gap(table, reason, report);
        self.left_out.insert(table.to_owned());
    }

    /// Says once which tables are new.
    fn tell_of_new(&mut self, report: &mut Report) {
        let told = &mut self.told;
        let new: Vec<String> = self.new.drain(..).filter(|table| told.insert(table.clone())).collect();
        if !new.is_empty() {
            let note = format!(
                "The source has new tables, which are not followed: {}. Copy them with --table.",
                new.join(", ")
            );
            say(note, report);
        }
    }
}

/// Says that the tables are copied again, and empties those of the target.
async fn empty(
    arguments: &CopyArguments,
    target: &Target,
    tables: &[String],
    report: &mut Report,
    reason: &str,
) -> Result<(), Failure> {
    let note = format!("{GONE}, so the target's tables are emptied and copied again: {reason}");
    say(note, report);
    for table in tables {
        clear(arguments, target, table, report).await?;
    }
    Ok(())
}

/// Deletes all entities of a table of the target, if the target has it, and counts them.
async fn clear(arguments: &CopyArguments, target: &Target, table: &str, report: &mut Report) -> Result<(), Failure> {
    if target.has(table).await? != Some(true) {
        return Ok(());
    }
    let options = &arguments.ends.options;
    let source = options.source(arguments.ends.to()?, None)?;
    let delete = Arc::new(Delete {
        bulk: Arc::new(Bulk {
            source,
            selection: Selection::read(Some("true"))?,
            readers: options.work.concurrency,
            counters: Arc::default(),
        }),
        report: parking_lot::Mutex::new(DeleteReport::default()),
        pace: Pace::new(None),
        rejects: arguments.rejects.open()?,
        journal: Journal::open(None, Value::Null)?,
        stop: CancellationToken::new(),
    });
    let done = delete.table(table).await;
    let mut cleared = std::mem::take(&mut *delete.report.lock());
    // The copy has read none of these in its source.
    cleared.outcome.read = 0;
    report.add(TableReport::of_copy(table, cleared.outcome));
    report.notes.extend(cleared.notes);
    done
}

/// A copy that follows its feed.
struct Following<'a> {
    arguments: &'a CopyArguments,
    copy: &'a Arc<CopyContext>,
    feed: &'a ChangeFeed,
    known: FollowedTables,
    /// The keys to read, by table.
    pending: BTreeMap<String, BTreeSet<Key>>,
    /// To the tables of a database. Each has a connection.
    writers: BTreeMap<String, SqlWriter>,
    report: &'a mut Report,
}

/// The outcome of a comparison of the followed tables with those of the source.
enum Visit {
    Same,
    /// Some tables were copied again, so there are changes to read.
    CopiedAgain,
}

impl Following<'_> {
    /// Compares the followed tables with those of the source, and copies those again that are other tables now.
    /// `tables` become the tables of the source.
    ///
    /// # Errors
    /// Also if the feed is gone.
    async fn visit(&mut self, tables: &mut Vec<String>) -> Result<Visit, Failure> {
        *tables = self.known.there(self.arguments).await?;
        if !self.feed.is_whole(&[]).await? {
            return Err(Failure::new("it was dropped, or has lost changes"));
        }
        let relations = self.feed.relations().await?;
        self.known.look_at_renamed(&relations);
        let others = self.known.others(&relations, self.feed, tables).await?;
        for (table, reason) in &others {
            self.copy_table_again(table, reason).await?;
        }
        self.known.tell_of_new(self.report);
        Ok(if others.is_empty() {
            Visit::Same
        } else {
            Visit::CopiedAgain
        })
    }

    /// Notes from which table the target's entities under a name come.
    fn set_relation(&mut self, table: &str, relation: Option<u32>) -> Result<(), Failure> {
        let (folded, name) = (table_name::fold(table), table.to_owned());
        self.copy.journal.set_relation(&folded, relation)?;
        self.known.followed.insert(folded, FollowedTable { name, relation });
        Ok(())
    }

    /// Empties a table of the target and copies it anew: another table has its name, and the feed has not had the
    /// changes of that one. The other tables are not concerned.
    async fn copy_table_again(&mut self, table: &str, reason: &str) -> Result<(), Failure> {
        self.set_relation(table, None)?;
        let relation = match self.feed.add(table).await {
            Ok(Some(relation)) => relation,
            // If it comes again, it is looked at again.
            Ok(None) => return Ok(()),
            Err(failure) if failure.is_of_table => {
                self.known.leave_out(table, &failure.to_string(), self.report);
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let note = format!("The target's table {table} is emptied and copied again: {reason}");
        say(note, self.report);
        clear(self.arguments, &self.copy.target, table, self.report).await?;
        let (anew, mut done) = (again(self.arguments, self.copy, None)?, Report::default());
        let style = self.arguments.ends.options.work.style();
        round(&anew, &[table.to_owned()], &mut done, style).await?;
        done.tables.into_iter().for_each(|table| self.report.add(table));
        if let Some(left_out) = done.left_out.first() {
            // One that is gone comes again under its name, or not at all.
            if self.feed.relations().await?.get(&table_name::fold(table)) == Some(&relation) {
                self.known.leave_out(table, &left_out.reason, self.report);
            }
        } else if !self.copy.stop.is_cancelled() {
            self.set_relation(table, Some(relation))?;
        }
        Ok(())
    }

    /// Empties the target's tables and copies them anew, with a new feed: the old one is gone, and changes with it. Returns
    /// the tables, with those that are new in the source.
    async fn copy_again(&mut self, reason: &str) -> Result<Vec<String>, Failure> {
        let (arguments, journal) = (self.arguments, &self.copy.journal);
        let followed = self.known.there(arguments).await?;
        let tables = [followed.clone(), std::mem::take(&mut self.known.new)].concat();
        if tables.is_empty() {
            return Err(Failure::new(format!("{GONE}, and the source has no table to follow.")));
        }
        journal.lose_feed()?;
        self.feed.drop().await?;
        self.feed.create(&tables).await?.map_err(Failure::new)?;
        // Entities of the target in tables that are new do not come from this copy.
        empty(arguments, &self.copy.target, &followed, self.report, reason).await?;
        journal.begin_feed(self.feed.relations().await?)?;
        let anew = again(arguments, self.copy, None)?;
        let earlier = self.known.followed.values().map(|table| table.name.clone());
        let followed: Vec<String> = tables.iter().cloned().chain(earlier).collect();
        self.known = FollowedTables::new(&followed, &journal.relations());
        round(&anew, &tables, self.report, arguments.ends.options.work.style()).await?;
        self.report.require_all()?;
        Ok(tables)
    }

    /// Returns how many changes there were.
    async fn apply(&mut self, mut changes: Receiver<Event>) -> Result<usize, Failure> {
        let (mut count, mut waiting) = (0, 0);
        while let Some(event) = changes.recv().await {
            let Event::Change(change) = event else { continue };
            count += 1;
            let Some(FollowedTable { name, .. }) = self.known.of_change(&change) else {
                if change.relation.is_none() {
                    self.known.renamed.insert(table_name::fold(&change.table));
                }
                continue;
            };
            if change.kind == "drop" {
                self.lose(&name)?;
                continue;
            }
            if self.known.left_out.contains(&name) {
                continue;
            }
            if let Some(reason) = change.gap() {
                self.known.tell_of_gap(&name, &reason, self.report);
                continue;
            }
            if change.kind == "clear" {
                self.pending.remove(&name);
                clear(self.arguments, &self.copy.target, &name, self.report).await?;
                continue;
            }
            let (Some(partition_key), Some(row_key)) = (change.partition_key, change.row_key) else {
                continue;
            };
            let key = Key { partition_key, row_key };
            if self.pending.entry(name).or_default().insert(key) {
                waiting += 1;
            }
            if waiting >= KEYS {
                self.flush().await?;
                waiting = 0;
            }
        }
        self.flush().await?;
        Ok(count)
    }

    /// Counts a table that has left as not copied, also if the same one comes back: the feed has no changes of it meanwhile.
    fn lose(&mut self, name: &str) -> Result<(), Failure> {
        let folded = table_name::fold(name);
        self.pending.remove(name);
        self.known.stored.remove(name);
        if let Some(table) = self.known.followed.get_mut(&folded) {
            table.relation = None;
        }
        self.copy.journal.set_relation(&folded, None)
    }

    /// A problem of one table does not stop the others.
    async fn flush(&mut self) -> Result<(), Failure> {
        for (table, keys) in std::mem::take(&mut self.pending) {
            match self.apply_keys(&table, keys).await {
                Err(failure) if failure.is_of_table => {
                    self.known.leave_out(&table, &failure.to_string(), self.report);
                }
                applied => applied?,
            }
        }
        Ok(())
    }

    /// Gives the target the entities that the source has of these keys, and deletes the others.
    async fn apply_keys(&mut self, table: &str, mut keys: BTreeSet<Key>) -> Result<(), Failure> {
        if let Some(stored) = self.known.stored.remove(table)
            && self.write_present(table, &stored, &mut keys).await?.is_ok()
        {
            self.known.stored.insert(table.to_owned(), stored);
        } else if let Some(stored) = self.feed.stored_table(self.known.identity(table)).await? {
            // The known table may have another name now, or be gone.
            self.write_present(table, &stored, &mut keys).await??;
            self.known.stored.insert(table.to_owned(), stored);
        }
        if !keys.is_empty() && self.copy.target.has(table).await? == Some(true) {
            let absent: Vec<Key> = keys.into_iter().collect();
            let deleted = self.copy.target.delete(table, &absent).await?;
            let outcome = Outcome::of(|outcome| outcome.deleted = deleted);
            self.report.add(TableReport::of_copy(table, outcome));
        }
        Ok(())
    }

    /// Writes the entities that the source has of these keys, and takes their keys out. The inner error is the source's.
    async fn write_present(
        &mut self,
        table: &str,
        stored: &StoredTable,
        keys: &mut BTreeSet<Key>,
    ) -> Result<Result<(), Failure>, Failure> {
        let keys_of_page: Vec<Key> = keys.iter().cloned().collect();
        let feed = self.feed;
        // Some entities are written while the next ones come, and nothing holds all of them.
        let (batches, mut arriving) = channel::<Vec<Record>>(1);
        let write = async move {
            while let Some(records) = arriving.recv().await {
                for record in &records {
                    keys.remove(&record.key());
                }
                self.write(table, records).await?;
            }
            Ok(())
        };
        let (read, written) = tokio::join!(feed.entities(stored, &keys_of_page, batches), write);
        written.map(|()| read)
    }

    async fn write(&mut self, table: &str, records: Vec<Record>) -> Result<(), Failure> {
        if records.is_empty() {
            return Ok(());
        }
        let read = records.len() as u64;
        let mode = WriteMode {
            on_conflict: OnConflict::Replace,
            ..self.copy.mode
        };
        let mut outcome = match &self.copy.target {
            Target::Database(target) => {
                target.create(table).await?;
                if self.writers.len() >= WRITERS && !self.writers.contains_key(table) {
                    self.writers.clear();
                }
                let writer = || target.writer(table, mode);
                self.writers
                    .entry(table.to_owned())
                    .or_insert_with(writer)
                    .write(records)
                    .await?
            }
            Target::Service(target) => {
                target.create(table).await?;
                target.writer(table, mode).write(records).await?
            }
            Target::Files(_) => return Err(Failure::usage("--follow is for a service or a database.")),
        };
        self.copy.rejects.add(&outcome.rejects)?;
        outcome.read = read;
        self.report.add(TableReport::of_copy(table, outcome));
        Ok(())
    }
}
