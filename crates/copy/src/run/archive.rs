//! The command `archive`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use table_service_archive::{
    Base, BaseWriter, Contents, Directory, Ended, Epoch, Fold, Folded, Gap, Manifest, Moment, Position, SegmentWriter,
    Table, Until, WhyEnded, check, is_selected, is_selection, list, pruned,
};
use table_service_model::table_name;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::{JoinHandle, block_in_place};

use crate::cli::ArchiveArguments;
use crate::failure::{Failure, exit};
use crate::interrupt::{overdue, pause, stop_on_signal};
use crate::places::{answer, print};
use crate::printable::tell;
use crate::record::Range;
use crate::sql::{Change, ChangeFeed, Database, Event, FeedStatus, Freeze, Frozen, Images, PAGE, Probe};

/// Changes that wait to be written. Each may have 6 MiB.
const WAITING: usize = 8;
/// A segment does not grow beyond this.
const SEGMENT_BYTES: u64 = 16 << 20;
/// New bases are made when the segments since the last ones are as large as those, and no smaller than this.
const FOLD_BYTES: u64 = 64 << 20;
/// How often an archive with nothing new says on the disk that there is nothing new.
const IDLE: Duration = Duration::from_secs(5);
/// How far the log may be behind what is archived if there is nothing new.
const IDLE_LOG: u64 = 1 << 20;
/// How often a table that cannot be read, or whose changes cannot, is read anew.
const MEND_EVERY: Duration = Duration::from_secs(60);
/// How long others have a table to themselves between two attempts to lock it, in seconds.
const BUSY: f64 = 0.5;
/// How often a table is read again because the server was away meanwhile.
const TRIES: usize = 10;

pub async fn archive(arguments: &ArchiveArguments) -> Result<u8, Failure> {
    if let Some(directory) = &arguments.verify {
        return verify(directory, arguments.json);
    }
    if let Some(directory) = &arguments.list {
        let listing = block_in_place(|| list(&Directory::new(directory)))?;
        answer(arguments.json, "archive", &listing, &listing.text());
        return Ok(exit::DONE);
    }
    let Some(to) = &arguments.to else {
        return Err(Failure::usage("--to DIRECTORY is missing; --help explains it."));
    };
    if let Some(name) = arguments.tables.iter().find(|name| !is_selection(name)) {
        return Err(Failure::usage(format!(
            "--table {name:?}: it is the name of a table, in which * may stand for any characters."
        )));
    }
    let database = arguments
        .database
        .open("archive reads a database: give --from its postgresql:// URL.")?;
    let directory = Directory::new(to);
    let _lock = directory.write()?;
    let stop: Arc<AtomicBool> = Arc::default();
    stop_on_signal(&stop);
    let mut keeper = Keeper::open(arguments, database, directory, stop.clone())?;
    tokio::select! {
        done = keeper.run() => done?,
        // A database that is away is waited for. What is read and not confirmed comes again.
        () = overdue(&stop) => {}
    }
    keeper.report();
    Ok(if stop.load(Ordering::Relaxed) && arguments.follow.is_none() {
        exit::INTERRUPTED
    } else {
        exit::DONE
    })
}

fn verify(directory: &Path, json: bool) -> Result<u8, Failure> {
    let (damages, notes, listing) = block_in_place(|| check(&Directory::new(directory)))?;
    for damage in &damages {
        answer(json, "damage", damage, &format!("{}: {}", damage.file, damage.problem));
    }
    if !json {
        notes.iter().for_each(|note| tell(note));
    }
    answer(json, "archive", &listing, &listing.text());
    Ok(if damages.is_empty() {
        exit::DONE
    } else {
        exit::DIFFERENT
    })
}

/// A change of a table that nobody can know.
struct Unknown {
    table: u32,
    from: Until,
    reason: String,
}

/// Brings an archive up to date.
struct Keeper<'a> {
    arguments: &'a ArchiveArguments,
    feed: ChangeFeed,
    directory: Directory,
    manifest: Manifest,
    writer: Option<SegmentWriter>,
    stop: Arc<AtomicBool>,
    /// What the server showed before its tables were compared last.
    compared: Option<(Position, Moment)>,
    saved: Instant,
    confirmed: Position,
    /// Whether something is not yet in the manifest's file.
    is_changed: bool,
    folding: Option<JoinHandle<Result<Vec<Folded>, String>>>,
    /// Making bases has failed, and will again.
    cannot_fold: bool,
    pruned: Option<Instant>,
    /// Tables that could not be read, or were read anew, and when.
    skipped: HashMap<String, Instant>,
    changes: u64,
    bases: u64,
}

impl<'a> Keeper<'a> {
    fn open(
        arguments: &'a ArchiveArguments,
        database: Database,
        directory: Directory,
        stop: Arc<AtomicBool>,
    ) -> Result<Keeper<'a>, Failure> {
        let mut manifest = match directory.manifest()? {
            Some(found) => {
                if let Some(damage) = &found.damage {
                    tell(&format!(
                        "table-service-copy: {damage}. The archive goes on with the other manifest"
                    ));
                }
                found.manifest
            }
            None => Manifest::new(uuid::Uuid::new_v4().to_string(), arguments.feed.as_deref()),
        };
        if let Some(feed) = arguments
            .feed
            .as_ref()
            .filter(|feed| !feed.eq_ignore_ascii_case(&manifest.feed))
        {
            return Err(Failure::usage(format!(
                "--feed {feed}: this archive has the feed {}.",
                manifest.feed
            )));
        }
        if !arguments.tables.is_empty() {
            manifest.selected.clone_from(&arguments.tables);
        }
        // What a run that was killed has left.
        let known = manifest.numbers();
        directory.remove(&|number| !known.contains(&number))?;
        let writer = match manifest.segments.last() {
            Some(last) if Some(last.epoch) == manifest.epoch().map(|epoch| epoch.number) => {
                let again = block_in_place(|| SegmentWriter::again(&directory, last))?;
                if again.is_none() {
                    tell(
                        "table-service-copy: the newest segment is damaged. archive --verify says what can be restored",
                    );
                }
                again
            }
            _ => None,
        };
        Ok(Keeper {
            arguments,
            feed: ChangeFeed::new(database, &manifest.feed),
            directory,
            manifest,
            writer,
            stop,
            compared: None,
            saved: Instant::now(),
            confirmed: Position(0),
            is_changed: false,
            folding: None,
            cannot_fold: false,
            pruned: None,
            skipped: HashMap::new(),
            changes: 0,
            bases: 0,
        })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report(&self) {
        if self.arguments.quiet && !self.arguments.json {
            return;
        }
        let done = serde_json::json!({
            "archive": self.directory.name(), "feed": self.manifest.feed, "changes": self.changes, "bases": self.bases,
            "first": self.manifest.floor.moment.to_string(), "last": self.manifest.last().to_string(),
            "bytes": self.manifest.bytes(),
        });
        let text = format!(
            "{}: {} changes, {} new bases. Moments from {} to {} can be restored.",
            self.directory.name(),
            self.changes,
            self.bases,
            self.manifest.floor.moment,
            self.manifest.last()
        );
        print(self.arguments.json, "report", &done, &text);
    }

    async fn run(&mut self) -> Result<(), Failure> {
        loop {
            let begin = Instant::now();
            let probe = self.begin().await?;
            self.compare_tables(&probe).await?;
            if let Err(failure) = self.read().await {
                // A feed that is lost gives errors, and the next probe says so.
                match self.lost(&self.feed.probe().await?) {
                    Some(_) => continue,
                    None => return Err(failure),
                }
            }
            self.mend().await?;
            self.fold().await?;
            self.prune()?;
            let Some(seconds) = self.arguments.follow.filter(|_| !self.is_stopped()) else {
                break;
            };
            pause(seconds - begin.elapsed().as_secs_f64(), &self.stop).await;
        }
        self.finish().await
    }

    /// Ends what is under way, and confirms what is on the disk.
    async fn finish(&mut self) -> Result<(), Failure> {
        if self.end_folding().await? {
            self.prune()?;
        }
        self.save()?;
        self.confirm(0).await
    }

    fn save(&mut self) -> Result<(), Failure> {
        if self.is_changed {
            block_in_place(|| self.directory.set_manifest(&self.manifest))?;
            self.is_changed = false;
            self.saved = Instant::now();
        }
        Ok(())
    }

    /// Confirms what the manifest on the disk says, unless that is little.
    async fn confirm(&mut self, little: u64) -> Result<(), Failure> {
        let Some(epoch) = self.manifest.epoch().filter(|_| !self.is_changed) else {
            return Ok(());
        };
        let through = epoch.through;
        if through.0.saturating_sub(self.confirmed.0) > little {
            self.feed.confirm(&through.to_string()).await?;
            self.confirmed = through;
        }
        Ok(())
    }

    /// Why nobody knows what has changed since the last read, if that is so.
    fn lost(&self, probe: &Probe) -> Option<String> {
        let epoch = self.manifest.epoch()?;
        if !probe.server.is_empty() && !epoch.server.is_empty() && probe.server != epoch.server {
            return Some("it is another server or database than before".to_owned());
        }
        match &probe.feed {
            FeedStatus::None => return Some("the feed was dropped".to_owned()),
            FeedStatus::Lost(reason) => return Some(reason.clone()),
            FeedStatus::Kept(position)
                if Position::parse(position).is_some_and(|confirmed| confirmed > epoch.through) =>
            {
                return Some("the feed was confirmed by somebody else, or made anew".to_owned());
            }
            FeedStatus::Kept(_) => {}
        }
        (Position::parse(&probe.written)? < epoch.through)
            .then(|| "the server was restored to an earlier state".to_owned())
    }

    /// Begins a time in which all changes are known, unless the last one goes on. Returns what the server has shown before.
    async fn begin(&mut self) -> Result<Probe, Failure> {
        let probe = self.feed.probe().await?;
        let reason = self.lost(&probe);
        match (self.manifest.epoch(), reason) {
            (Some(_), None) => {}
            (Some(epoch), Some(reason)) => {
                let end = self.manifest.end_of(epoch);
                tell(&format!(
                    "table-service-copy: the archive has a gap from {end} on: {reason}. All tables are read again"
                ));
                self.begin_epoch(&probe, Some(reason)).await?;
            }
            (None, _) => self.begin_epoch(&probe, None).await?,
        }
        Ok(probe)
    }

    async fn begin_epoch(&mut self, probe: &Probe, reason: Option<String>) -> Result<(), Failure> {
        self.writer = None;
        self.end_folding().await?;
        let selected = &self.manifest.selected;
        let mut tables = self.feed.tables().await?;
        tables.retain(|(name, _)| is_selected(selected, name));
        if let (true, Some(missing)) = (
            self.manifest.epochs.is_empty(),
            selected.iter().find(|name| {
                let name = std::slice::from_ref(*name);
                !tables.iter().any(|(table, _)| is_selected(name, table))
            }),
        ) {
            return Err(Failure::new(format!(
                "{}: there is no table {missing}.",
                self.feed.database.name
            )));
        }
        if let FeedStatus::Lost(_) = probe.feed {
            self.feed.drop().await?;
        }
        if !matches!(probe.feed, FeedStatus::Kept(_)) {
            let is_new = self.manifest.epochs.is_empty();
            let names = tables.iter().map(|(name, _)| name.clone());
            let names: Vec<String> = names.filter(|name| is_new || self.manifest.has_living(name)).collect();
            self.feed.create(&names).await?.map_err(Failure::new)?;
        }
        let number = self.manifest.epoch().map_or(1, |epoch| epoch.number + 1);
        let first = self.feed.probe().await?;
        let position = |text: &str| Position::parse(text).ok_or_else(|| Failure::new("The server sends no position."));
        let mut from = position(&first.written)?;
        let (through, mut begins) = (from, Moment(first.clock));
        let mut bases = Vec::new();
        for (name, _) in tables {
            if self.is_stopped() {
                return Ok(());
            }
            match self.read_base(&name, number, true).await {
                Ok(Some((frozen, base))) => {
                    from = from.max(base.position);
                    begins = begins.max(Moment(frozen.clock));
                    bases.push((frozen.name, frozen.oid, base));
                }
                Ok(None) => {}
                // Who begins an archive is there to see it.
                Err(failure) if number == 1 => return Err(failure),
                Err(failure) => self.skip(&name, &failure),
            }
        }
        let (why, at) = (WhyEnded::Dropped, Until::new(number, Position(0), begins));
        for table in self.manifest.living_mut() {
            if !bases.iter().any(|(name, oid, _)| table.is(name, *oid)) {
                table.ended = Some(Ended { why, at });
            }
        }
        for (name, oid, mut base) in bases {
            base.moment = begins;
            self.add_base(&name, oid, base);
        }
        self.manifest.epochs.push(Epoch {
            number,
            server: first.server,
            from,
            begins,
            through,
            reached: begins,
            reason,
        });
        if number == 1 {
            self.manifest.floor = Until::new(1, from, begins);
        }
        self.confirmed = Position(0);
        self.is_changed = true;
        self.save()
    }

    /// Puts a base into the manifest, with its table if that is new.
    fn add_base(&mut self, name: &str, oid: u32, mut base: Base) {
        let since = Until::new(base.epoch, base.position, base.moment);
        let living = self.manifest.living_mut().find(|table| table.is(name, oid));
        match living {
            Some(table) => {
                base.table = table.id;
                if let Some(gap) = table.gaps.last_mut().filter(|gap| gap.until.is_none()) {
                    gap.until = Some(since);
                }
            }
            None => {
                base.table = self.manifest.next_table;
                self.manifest.next_table += 1;
                self.manifest.tables.push(Table {
                    id: base.table,
                    name: name.to_owned(),
                    oid,
                    since,
                    ended: None,
                    gaps: Vec::new(),
                });
            }
        }
        self.manifest.bases.push(base);
        self.bases += 1;
        self.is_changed = true;
    }

    /// Reads all entities of a table as they are at one position; `None` if there is no such table, or if others use it and it is not to
    /// be waited for.
    async fn read_base(&mut self, table: &str, epoch: u32, wait: bool) -> Result<Option<(Frozen, Base)>, Failure> {
        for _ in 0..TRIES {
            let frozen = loop {
                match self.feed.freeze(table).await? {
                    Freeze::Done(frozen) => break *frozen,
                    Freeze::Busy if wait && !self.is_stopped() => pause(BUSY, &self.stop).await,
                    Freeze::Busy | Freeze::Gone => return Ok(None),
                }
            };
            let number = self.manifest.take_number();
            let Some(contents) = self.copy_base(&frozen, number).await? else {
                continue;
            };
            let position =
                Position::parse(&frozen.position).ok_or_else(|| Failure::new("The server sends no position."))?;
            let base = Base {
                number,
                table: 0,
                epoch,
                position,
                moment: Moment(frozen.clock),
                through: position,
                contents,
            };
            return Ok(Some((frozen, base)));
        }
        Err(Failure::new(format!(
            "{}: the table {table} could not be read at once: the database was away {TRIES} times meanwhile.",
            self.feed.database.name
        )))
    }

    /// Reads a table into the archive, unless it is gone, busy, or cannot be read.
    async fn take_table(&mut self, table: &str, epoch: u32) {
        match self.read_base(table, epoch, self.arguments.follow.is_none()).await {
            Ok(Some((frozen, base))) => self.add_base(&frozen.name, frozen.oid, base),
            Ok(None) => {}
            Err(failure) => self.skip(table, &failure),
        }
    }

    /// Says, not too often, why a table cannot be read. The others are archived nevertheless: anybody may own a table.
    fn skip(&mut self, table: &str, failure: &Failure) {
        tell(&format!(
            "table-service-copy: the table {table} is not archived now: {failure}"
        ));
        self.skipped.insert(table_name::fold(table), Instant::now());
    }

    /// Returns whether a table could not be read a short time ago.
    fn is_skipped(&self, table: &str) -> bool {
        let last = self.skipped.get(&table_name::fold(table));
        last.is_some_and(|last| last.elapsed() < MEND_EVERY)
    }

    /// Writes a base; `None` if not all of it was read at one position.
    async fn copy_base(&self, frozen: &Frozen, number: u64) -> Result<Option<Contents>, Failure> {
        let mut writer = block_in_place(|| BaseWriter::begin(&self.directory, number))?;
        let (sender, mut chunks) = channel(2);
        let reading = frozen.source.read(&frozen.name, &Range::WHOLE, None, sender);
        let writing = async {
            while let Some(chunk) = chunks.recv().await {
                if let Some(reject) = chunk.rejects.first() {
                    return Err(Failure::new(format!(
                        "{}: the table {} has a row that is no entity: {}",
                        self.feed.database.name, frozen.name, reject.reason
                    )));
                }
                block_in_place(|| chunk.records.iter().try_for_each(|record| writer.add(record)))?;
            }
            Ok(())
        };
        let (read, written) = tokio::join!(reading, writing);
        written?;
        read?;
        frozen.source.release().await;
        if frozen.source.note().is_some() {
            return Ok(None);
        }
        block_in_place(|| writer.finish()).map(Some)
    }

    /// Finds which tables are new and which are gone since the last probe.
    async fn compare_tables(&mut self, before: &Probe) -> Result<(), Failure> {
        let Some(number) = self.manifest.epoch().map(|epoch| epoch.number) else {
            return Ok(());
        };
        let position_of = |probe: &Probe| Position::parse(&probe.written).unwrap_or_default();
        let tables = self.feed.tables().await?;
        let is_there = |table: &Table| tables.iter().any(|(name, oid)| table.is(name, *oid));
        let after = match self.manifest.living().all(is_there) {
            true => before,
            false => &self.feed.probe().await?,
        };
        let gone = Until::new(number, position_of(after), Moment(after.clock));
        // When it surely had its name.
        let (position, moment) = self.compared.unwrap_or_else(|| {
            let epoch = self.manifest.epoch();
            epoch.map_or((Position(0), Moment(0)), |epoch| (epoch.through, epoch.reached))
        });
        let last_seen = Until::new(number, position, moment);
        self.compared = Some((position_of(before), Moment(before.clock)));
        let selected = self.manifest.selected.clone();
        for table in self.manifest.living_mut() {
            let (why, at) = if !is_selected(&selected, &table.name) {
                (WhyEnded::Deselected, last_seen)
            } else if is_there(table) {
                continue;
            } else if tables.iter().any(|(_, oid)| *oid == table.oid) {
                (WhyEnded::Renamed, last_seen)
            } else {
                (WhyEnded::Dropped, gone)
            };
            table.ended = Some(Ended { why, at });
            self.is_changed = true;
        }
        for (name, _) in tables {
            if self.is_stopped() {
                break;
            }
            if !is_selected(&selected, &name) || self.manifest.has_living(&name) || self.is_skipped(&name) {
                continue;
            }
            self.take_table(&name, number).await;
        }
        Ok(())
    }

    /// Reads pages of changes until there are no more.
    async fn read(&mut self) -> Result<(), Failure> {
        while !self.is_stopped() {
            let probe = self.feed.probe().await?;
            let (sender, receiver) = channel(WAITING);
            let feed = self.feed.clone();
            let (last, written) = tokio::join!(feed.read(Images::New, sender), self.write_page(receiver));
            if let (true, Some(writer)) = (last.is_err() || written.is_err(), &mut self.writer) {
                writer.undo()?;
            }
            let (count, unknown) = written?;
            let last = last?.and_then(|position| Position::parse(&position));
            let has_more = count >= PAGE.unsigned_abs();
            if let Some(writer) = &mut self.writer {
                block_in_place(|| writer.end_page())?;
                let segment = writer.segment.clone();
                if segment.contents.lines > 0 {
                    self.is_changed |= self.manifest.set_segment(&segment);
                }
                if segment.contents.bytes >= SEGMENT_BYTES {
                    self.writer = None;
                }
            }
            self.note_gaps(unknown);
            let has_news = self.is_changed;
            if let Some(epoch) = self.manifest.epochs.last_mut() {
                epoch.through = epoch.through.max(last.unwrap_or_default());
                if !has_more {
                    epoch.through = epoch.through.max(Position::parse(&probe.written).unwrap_or_default());
                    epoch.reached = Moment(probe.clock);
                }
                self.is_changed = true;
            }
            let is_due = has_news || self.arguments.follow.is_none() || self.saved.elapsed() >= IDLE;
            if is_due {
                self.save()?;
                self.confirm(if has_news { 0 } else { IDLE_LOG }).await?;
            }
            if !has_more {
                break;
            }
        }
        Ok(())
    }

    /// Writes the changes of a page. Returns how many there were, and those that nobody can know.
    async fn write_page(&mut self, mut changes: Receiver<Event>) -> Result<(u64, Vec<Unknown>), Failure> {
        let Some(epoch) = self.manifest.epoch().map(|epoch| (epoch.number, epoch.through)) else {
            return Ok((0, Vec::new()));
        };
        let (number, through) = epoch;
        let mut tables: BTreeMap<String, Vec<Table>> = BTreeMap::new();
        for table in &self.manifest.tables {
            tables
                .entry(table_name::fold(&table.name))
                .or_default()
                .push(table.clone());
        }
        let before = self.changes;
        let (mut count, mut unknown, mut line) = (0, Vec::new(), Vec::new());
        while let Some(event) = changes.recv().await {
            let Event::Change(change) = event else {
                if let Some(writer) = &mut self.writer {
                    writer.undo()?;
                }
                count = 0;
                self.changes = before;
                unknown.clear();
                continue;
            };
            count += 1;
            let (position, committed) = place_of(&change)?;
            // What was confirmed may come again.
            if position <= through {
                continue;
            }
            let of_name = tables.get(&table_name::fold(&change.table));
            let Some(table) = of_name
                .into_iter()
                .flatten()
                .find(|table| table.has_change(number, position))
            else {
                continue;
            };
            if let Some(reason) = change.gap() {
                unknown.push(Unknown {
                    table: table.id,
                    from: Until::new(number, position, committed),
                    reason,
                });
            }
            line.clear();
            change.append_line(&mut line);
            let writer = match &mut self.writer {
                Some(writer) => writer,
                none => none.insert(SegmentWriter::begin(
                    &self.directory,
                    self.manifest.take_number(),
                    number,
                )?),
            };
            writer.add(&line, position, committed)?;
            self.changes += 1;
        }
        Ok((count, unknown))
    }

    fn note_gaps(&mut self, unknown: Vec<Unknown>) {
        for Unknown { table, from, reason } in unknown {
            let is_covered = self
                .manifest
                .bases
                .iter()
                .any(|base| base.table == table && base.epoch == from.epoch && base.position >= from.position);
            let Some(table) = self.manifest.tables.iter_mut().find(|known| known.id == table) else {
                continue;
            };
            if is_covered || table.has_open_gap() {
                continue;
            }
            tell(&format!(
                "table-service-copy: changes of the table {} are missing from {} on: {reason}",
                table.name, from.moment
            ));
            table.gaps.push(Gap {
                from,
                until: None,
                reason,
            });
            self.is_changed = true;
        }
    }

    /// Reads tables anew of which changes are missing.
    async fn mend(&mut self) -> Result<(), Failure> {
        let Some(number) = self.manifest.epoch().map(|epoch| epoch.number) else {
            return Ok(());
        };
        let open = self.manifest.living().filter(|table| table.has_open_gap());
        let open: Vec<String> = open.map(|table| table.name.clone()).collect();
        for name in open {
            if self.is_skipped(&name) || self.is_stopped() {
                continue;
            }
            self.take_table(&name, number).await;
            // If more changes cannot be read, the next base waits.
            self.skipped.insert(table_name::fold(&name), Instant::now());
        }
        self.save()
    }

    /// Makes new bases of the last ones and the segments since then, if it is time for that.
    async fn fold(&mut self) -> Result<(), Failure> {
        if self.folding.as_ref().is_some_and(JoinHandle::is_finished) {
            self.end_folding().await?;
        }
        if self.folding.is_some() || self.cannot_fold || self.is_stopped() {
            return Ok(());
        }
        let keep = self.arguments.keep.map(micros);
        let Some(fold) = Fold::due(&mut self.manifest, FOLD_BYTES, keep) else {
            return Ok(());
        };
        // The segments that are folded do not change any more.
        self.writer = None;
        let directory = self.directory.clone();
        self.folding = Some(tokio::task::spawn_blocking(move || fold.run(&directory)));
        if self.arguments.follow.is_none() {
            self.end_folding().await?;
        }
        Ok(())
    }

    /// Waits for the new bases that are being made, and puts them into the manifest. Returns whether there were any.
    async fn end_folding(&mut self) -> Result<bool, Failure> {
        let Some(folding) = self.folding.take() else {
            return Ok(false);
        };
        match folding.await.map_err(|error| Failure::new(error.to_string()))? {
            Ok(folded) => {
                for one in folded {
                    self.bases += u64::from(one.apply(&mut self.manifest));
                }
                self.is_changed = true;
            }
            Err(problem) => {
                self.cannot_fold = true;
                tell(&format!(
                    "table-service-copy: no new bases can be made of the archive's files: {problem}. archive --verify names what is damaged"
                ));
            }
        }
        self.save()?;
        Ok(true)
    }

    /// Deletes what no moment of the kept time needs.
    fn prune(&mut self) -> Result<(), Failure> {
        let Some(keep) = self.arguments.keep.filter(|_| self.folding.is_none()) else {
            return Ok(());
        };
        let every = (keep / 64).clamp(Duration::from_millis(500), Duration::from_secs(600));
        if self.pruned.is_some_and(|last| last.elapsed() < every) {
            return Ok(());
        }
        self.pruned = Some(Instant::now());
        let from = Moment(self.manifest.last().0.saturating_sub(micros(keep)));
        let Some((kept, gone)) = block_in_place(|| pruned(&self.directory, &self.manifest, from)) else {
            return Ok(());
        };
        let Some(_alone) = self.directory.remove_lock()? else {
            return Ok(());
        };
        self.manifest = kept;
        // Twice, so that the manifest before this one does not name them either.
        for _ in 0..2 {
            self.is_changed = true;
            self.save()?;
        }
        self.directory.remove(&|number| gone.contains(&number))
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn place_of(change: &Change) -> Result<(Position, Moment), Failure> {
    let place = Position::parse(&change.position).zip(Moment::parse(&change.committed));
    place.ok_or_else(|| Failure::new("The server sends a change without a position or a moment."))
}
