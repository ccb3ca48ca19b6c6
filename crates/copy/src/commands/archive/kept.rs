//! The state that a run keeps: the manifest as it is known, and the segment that is written.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use table_service_archive::{Base, Directory, Expected, Follower, Manifest, Moment, Seen, SegmentWriter, Until};
use table_service_model::Lsn;
use tokio::sync::mpsc::Receiver;
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use crate::commands::arguments::ArchiveArguments;
use crate::ends::databases::{Change, ChangeFeed, Event};
use crate::failure::Failure;
use crate::printable::tell;

/// A segment does not grow beyond this.
const SEGMENT_BYTES: u64 = 16 << 20;

/// How often tables are asked for their access policies, property indexes and expiry.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The values that all parts of a run share.
pub struct Run<'a> {
    pub arguments: &'a ArchiveArguments,
    pub feed: ChangeFeed,
    pub stop: CancellationToken,
}

/// The archive as this run knows it.
pub struct Kept {
    pub directory: Directory,
    pub manifest: Manifest,
    writer: Option<SegmentWriter>,
    /// Whether something is not yet in the manifest's file.
    is_changed: bool,
    saved: Instant,
    /// When tables were last asked for their access policies, property indexes and expiry: no feed tells them.
    pub looked: Option<Instant>,
    /// How many changes were written.
    pub changes: u64,
    /// Up to where the feed was told that it is read.
    pub confirmed: Lsn,
    /// Whether there is something new to save.
    pub has_news: bool,
    /// The new bases, by the marks that the feed has not given yet.
    pub pending: HashMap<String, Base>,
}

/// The contents of a page of the feed.
pub struct Page {
    follower: Follower,
    /// How many rows it has, and how many of them are changes that were written.
    pub rows: u64,
    changes: u64,
    told: Vec<Told>,
}

/// The messages of a feed beside changes.
enum Told {
    /// The name that a relation had, and the one that it has.
    Definition(u32, Option<String>, Option<String>, Until),
    /// A table with changes that cannot be known, and the reason.
    Gap(u32, Until, String),
    Mark(String),
}

impl Kept {
    /// Reads the archive, and removes the files that a killed run has left.
    pub fn open(directory: Directory, arguments: &ArchiveArguments) -> Result<Kept, Failure> {
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
        let is_other = |feed: &&String| !feed.eq_ignore_ascii_case(&manifest.feed);
        if let Some(feed) = arguments.feed.as_ref().filter(is_other) {
            return Err(Failure::usage(format!(
                "--feed {feed}: this archive has the feed {}.",
                manifest.feed
            )));
        }
        if !arguments.tables.is_empty() {
            manifest.select(&arguments.tables);
        }
        // Files that a killed run has left.
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
        Ok(Kept {
            directory,
            manifest,
            writer,
            is_changed: !arguments.tables.is_empty(),
            saved: Instant::now(),
            looked: None,
            changes: 0,
            confirmed: Lsn(0),
            has_news: false,
            pending: HashMap::new(),
        })
    }

    /// Changes the manifest, which is to be saved then.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut Manifest) -> T) -> T {
        self.is_changed = true;
        change(&mut self.manifest)
    }

    /// Brings the manifest to the disk, if it has changed.
    pub fn save(&mut self) -> Result<(), Failure> {
        if self.is_changed {
            block_in_place(|| self.directory.set_manifest(&self.manifest))?;
            self.is_changed = false;
            self.saved = Instant::now();
        }
        Ok(())
    }

    /// Saves it, if that was long ago.
    pub fn save_after(&mut self, time: Duration) -> Result<(), Failure> {
        match self.saved.elapsed() >= time {
            true => self.save(),
            false => Ok(()),
        }
    }

    /// Returns whether the manifest is on the disk.
    pub fn is_saved(&self) -> bool {
        !self.is_changed
    }

    /// Asks tables for their access policies, property indexes and expiry, if it is time for that.
    pub async fn look(&mut self, run: &Run<'_>) -> Result<(), Failure> {
        if run.stop.is_cancelled() || self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let living = self.manifest.living();
        let known = living.map(|table| (table.oid, table.definitions.last().map(|last| last.definition.clone())));
        let others = run.feed.database.other_definitions(&known.collect()).await?;
        if !others.is_empty() {
            for name in self.change(|manifest| manifest.define_as_seen(others)) {
                tell(&format!(
                    "table-service-copy: there is no room for the access policies, property indexes and expiry of the table {name}"
                ));
            }
        }
        Ok(())
    }

    /// The last transaction that was read of the feed.
    pub fn seen(&self) -> Option<Seen> {
        self.manifest.epoch()?.seen.clone()
    }

    /// The segment that was written does not change any more.
    pub fn end_segment(&mut self) {
        self.writer = None;
    }

    /// Takes back the written changes of a page.
    pub fn undo(&mut self) -> Result<(), Failure> {
        self.writer.as_mut().map_or(Ok(()), SegmentWriter::undo)
    }

    /// Writes the changes of a page that come behind the last seen transaction.
    pub async fn write(&mut self, seen: &Seen, mut events: Receiver<Event>) -> Result<Page, Failure> {
        let begin = || Page {
            follower: Follower::new(Expected::Seen(seen.clone()), seen.confirmed),
            rows: 0,
            changes: 0,
            told: Vec::new(),
        };
        let living: HashMap<u32, u32> = self.manifest.living().map(|table| (table.oid, table.id)).collect();
        let number = self.manifest.epoch().map_or(0, |epoch| epoch.number);
        let (mut page, mut line) = (begin(), Vec::new());
        while let Some(event) = events.recv().await {
            let Event::Change(change) = event else {
                self.undo()?;
                page = begin();
                continue;
            };
            page.rows += 1;
            let (position, committed) = place_of(&change)?;
            let mark = change.mark();
            if !page.follower.take(position, || change.identity(), mark.as_deref()) {
                continue;
            }
            let Some(oid) = change.relation else {
                page.told.extend(mark.map(Told::Mark));
                continue;
            };
            let at = Until::new(number, position, committed);
            match change.kind.as_str() {
                "create" => page.told.push(Told::Definition(oid, None, Some(change.table), at)),
                "rename" => {
                    let before = change.name_before();
                    page.told.push(Told::Definition(oid, before, Some(change.table), at));
                }
                "drop" => page.told.push(Told::Definition(oid, Some(change.table), None, at)),
                _ => {
                    let Some(id) = living.get(&oid) else { continue };
                    if let Some(reason) = change.gap() {
                        page.told.push(Told::Gap(*id, at, reason));
                    }
                    line.clear();
                    change.append_line(&mut line);
                    let writer = match &mut self.writer {
                        Some(writer) => writer,
                        none => {
                            let file = self.manifest.take_number();
                            none.insert(SegmentWriter::begin(&self.directory, file, number)?)
                        }
                    };
                    writer.add(&line, position, committed)?;
                    page.changes += 1;
                }
            }
        }
        Ok(page)
    }

    /// Takes in a page, and brings its changes to the disk. Returns how many rows the last transaction has; `None` if
    /// the log is not the one of before.
    pub fn take_in(&mut self, page: Page) -> Result<Option<u64>, Failure> {
        let Some(followed) = page.follower.finish() else {
            return self.undo().map(|()| None);
        };
        if let Some(writer) = &mut self.writer {
            block_in_place(|| writer.end_page())?;
            if writer.segment.contents.lines > 0 {
                self.is_changed |= self.manifest.set_segment(&writer.segment);
            }
            if writer.segment.contents.bytes >= SEGMENT_BYTES {
                self.writer = None;
            }
        }
        self.changes += page.changes;
        self.has_news |= page.changes > 0;
        for told in page.told {
            self.has_news |= self.take_told(told);
        }
        self.change(|manifest| manifest.see(followed.last));
        Ok(Some(followed.rows))
    }

    /// Returns whether it is news.
    fn take_told(&mut self, told: Told) -> bool {
        match told {
            Told::Definition(oid, before, now, at) => self.manifest.define(oid, before.as_deref(), now.as_deref(), at),
            Told::Gap(table, from, reason) => {
                let is_new = self.manifest.note_gap(table, from, &reason);
                if let Some(table) = self.manifest.table(table).filter(|_| is_new) {
                    tell(&format!(
                        "table-service-copy: changes of the table {} are missing from {} on: {reason}",
                        table.name(),
                        from.moment
                    ));
                }
                return is_new;
            }
            Told::Mark(mark) => match self.pending.remove(&mark) {
                Some(base) => self.manifest.add_base(base),
                None => return false,
            },
        }
        true
    }
}

/// The position and the moment of a change.
pub fn place_of(change: &Change) -> Result<(Lsn, Moment), Failure> {
    let place = Lsn::parse(&change.position).ok().zip(Moment::parse(&change.committed));
    place.ok_or_else(|| Failure::new("The server sends a change without a position or a moment."))
}
