//! The command `archive`.

mod bases;
mod kept;
mod pages;

use std::time::{Duration, Instant};

use table_service_archive::{Directory, Epoch, Expected, Manifest, Moment, check, is_selected, is_selection, list};
use table_service_model::Lsn;
use tokio::task::block_in_place;

use crate::ends::databases::{ChangeFeed, FeedStatus, Probe};
use crate::failure::{Failure, exit};
use crate::printable::tell;

use super::arguments::ArchiveArguments;
use super::common::{answer, print};
use super::interrupt::{overdue, pause, stopped_by_signals};
use super::rounds::told;
use bases::Bases;
use kept::{Kept, Run};
use pages::{IDLE, IDLE_LOG, Read, find};

/// Runs the command with these arguments, and returns the exit status.
pub async fn archive(arguments: &ArchiveArguments) -> Result<u8, Failure> {
    if let Some(directory) = arguments.verify.as_ref().or(arguments.list.as_ref()) {
        return look(&Directory::new(directory), arguments);
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
    let stop = stopped_by_signals();
    let kept = Kept::open(directory, arguments)?;
    let mut keeper = Keeper {
        run: Run {
            arguments,
            feed: ChangeFeed::new(database, &kept.manifest.feed),
            stop: stop.clone(),
        },
        kept,
        bases: Bases::default(),
        takes_new_source: arguments.new_source,
        is_beginning: false,
    };
    tokio::select! {
        done = keeper.keep() => done?,
        // A round waits for a database that is away. Changes that are read and not confirmed come again.
        () = overdue(&stop) => {}
    }
    keeper.report();
    let otherwise = match stop.is_cancelled() && arguments.follow.is_none() {
        true => exit::INTERRUPTED,
        false => exit::DONE,
    };
    Ok(told(arguments.json, &keeper.bases.left_out(&keeper.kept), otherwise))
}

fn look(directory: &Directory, arguments: &ArchiveArguments) -> Result<u8, Failure> {
    let (look, json) = (if arguments.verify.is_some() { check } else { list }, arguments.json);
    let (damages, notes, listing) = block_in_place(|| look(directory))?;
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

/// Why the archive cannot go on where it is.
enum Lost {
    /// It has not begun.
    New,
    /// The changes since the last read are unknown.
    Gap(String),
    /// The feed is not the one that was read before.
    Other(String),
}

/// Brings an archive up to date.
struct Keeper<'a> {
    run: Run<'a>,
    kept: Kept,
    bases: Bases,
    /// Whether another source than before is taken.
    takes_new_source: bool,
    /// Whether the first tables of the last epoch are being read.
    is_beginning: bool,
}

impl Keeper<'_> {
    fn report(&self) {
        if self.run.arguments.quiet && !self.run.arguments.json {
            return;
        }
        let Kept {
            directory, manifest, ..
        } = &self.kept;
        let (name, first, last) = (directory.name(), manifest.floor.moment, manifest.last());
        let done = serde_json::json!({
            "archive": name, "feed": manifest.feed, "changes": self.kept.changes, "bases": self.bases.count,
            "first": first.to_string(), "last": last.to_string(), "bytes": manifest.bytes(),
        });
        let text = format!(
            "{name}: {} changes, {} new bases. Moments from {first} to {last} can be restored.",
            self.kept.changes, self.bases.count,
        );
        print(self.run.arguments.json, "report", &done, &text);
    }

    async fn keep(&mut self) -> Result<(), Failure> {
        loop {
            let begin = Instant::now();
            self.round().await?;
            let Some(seconds) = self.run.arguments.follow.filter(|_| !self.run.stop.is_cancelled()) else {
                break;
            };
            pause(seconds - begin.elapsed().as_secs_f64(), &self.run.stop).await;
        }
        // Work that is under way ends, and the files on the disk are confirmed.
        if self.bases.end_folding(&mut self.kept).await? {
            self.bases.prune(&self.run, &mut self.kept)?;
        }
        self.kept.save()?;
        self.kept.confirm(&self.run, 0).await
    }

    /// Takes in everything that there is now.
    async fn round(&mut self) -> Result<(), Failure> {
        let probe = self.run.feed.probe().await?;
        if let Some(lost) = self.lost(&probe, true) {
            self.begin_epoch(&probe, lost).await?;
        }
        self.kept.has_news = self.run.arguments.follow.is_none();
        self.catch_up().await?;
        self.bases.fold(&self.run, &mut self.kept).await?;
        if self.bases.must_read_again() && self.run.arguments.follow.is_none() {
            self.catch_up().await?;
        }
        self.bases.prune(&self.run, &mut self.kept)
    }

    /// Reads the feed and the tables until everything is known that there was when it began.
    async fn catch_up(&mut self) -> Result<(), Failure> {
        let mut newest = None;
        loop {
            let Some(clock) = self.read_or_begin().await? else {
                break;
            };
            let known = self.kept.manifest.known();
            let listed = self.run.feed.tables().await?;
            if !self.kept.manifest.matches(&listed) {
                // Tables that were committed before the list are known when the feed is read once more.
                let Some(later) = self.read_or_begin().await? else {
                    break;
                };
                self.kept.change(|manifest| manifest.compare(&listed, known, later));
            }
            self.kept.change(|manifest| manifest.reach(known, clock));
            // Tables that users make meanwhile do not keep the program here.
            let newest = *newest.get_or_insert(self.kept.manifest.next_table);
            if !self.bases.read(&self.run, &mut self.kept, newest).await? {
                if std::mem::take(&mut self.is_beginning) {
                    self.kept.change(Manifest::end_beginning);
                }
                break;
            }
            self.kept.looked = None;
        }
        self.kept.look(&self.run).await?;
        let (time, little) = match self.kept.has_news {
            true => (Duration::ZERO, 0),
            false => (IDLE, IDLE_LOG),
        };
        self.kept.save_after(time)?;
        self.kept.confirm(&self.run, little).await
    }

    /// Reads the feed to its end. Returns the time of the server's clock before that, or `None` if it is told to stop.
    /// If the log is not the one of before, everything begins anew.
    async fn read_or_begin(&mut self) -> Result<Option<Moment>, Failure> {
        let (is_met, failure) = match self.kept.read(&self.run).await? {
            Read::All(clock) => {
                self.takes_new_source = false;
                return Ok(Some(clock));
            }
            Read::Stopped => return Ok(None),
            Read::Other => (false, None),
            Read::Failed(failure) => (true, Some(failure)),
        };
        // A feed that is lost gives errors.
        let probe = self.run.feed.probe().await?;
        match (self.lost(&probe, is_met), failure) {
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(None),
            (Some(lost), _) => {
                self.begin_epoch(&probe, lost).await?;
                Box::pin(self.read_or_begin()).await
            }
        }
    }

    /// Returns why the archive cannot go on, as far as the server shows it. `is_met` says whether the feed may have the last seen transaction.
    fn lost(&self, probe: &Probe, is_met: bool) -> Option<Lost> {
        const OTHER: &str = "the server does not have the log that this archive ends with: it was put back to an earlier state, or another \
                             server has taken its place without the end of its log";
        let Some(epoch) = self.kept.manifest.epoch() else {
            return Some(Lost::New);
        };
        if !probe.server.is_empty() && !epoch.server.is_empty() && probe.server != epoch.server {
            return Some(Lost::Other("it is another server or database than before".to_owned()));
        }
        let Some(seen) = &epoch.seen else {
            let reason = "it was written by version 0.4.0, which knew tables by their names alone";
            return Some(Lost::Gap(reason.to_owned()));
        };
        if probe.written < seen.position {
            return Some(Lost::Other(OTHER.to_owned()));
        }
        let limit = if is_met {
            seen.position
        } else {
            Lsn(seen.confirmed.0 + 1)
        };
        match &probe.feed {
            FeedStatus::None => Some(Lost::Gap(
                "the feed was dropped, or the server is a copy that has none".to_owned(),
            )),
            FeedStatus::Lost(reason) => Some(Lost::Gap(reason.clone())),
            FeedStatus::Kept(confirmed) if *confirmed >= limit => {
                let reason = "the feed was confirmed by somebody else, or made anew";
                Some(Lost::Gap(reason.to_owned()))
            }
            FeedStatus::Kept(_) => (!is_met).then(|| Lost::Other(OTHER.to_owned())),
        }
    }

    /// Begins a time in which all changes are known.
    async fn begin_epoch(&mut self, probe: &Probe, lost: Lost) -> Result<(), Failure> {
        let (reason, is_same) = match lost {
            Lost::New => (None, true),
            Lost::Gap(reason) => (Some(reason), true),
            Lost::Other(reason) if self.takes_new_source => (Some(format!("{reason} (--new-source)")), false),
            Lost::Other(reason) => {
                return Err(Failure::new(format!(
                    "{}: {reason}. The archive stays as it is. --new-source takes it as a new source: all tables are read again",
                    self.run.feed.database.name
                )));
            }
        };
        self.bases.end_folding(&mut self.kept).await?;
        self.kept.end_segment();
        if let (Some(epoch), Some(reason)) = (self.kept.manifest.epoch(), &reason) {
            let end = self.kept.manifest.end_of(epoch);
            tell(&format!(
                "table-service-copy: the archive has a gap from {end} on: {reason}. All tables are read again"
            ));
        } else {
            self.require_selected().await?;
            // A run that is killed before it has a feed leaves its name, so that the next one makes no other.
            self.kept.change(|_| ());
            self.kept.save()?;
        }
        if let FeedStatus::Lost(_) = probe.feed {
            self.run.feed.drop().await?;
        }
        if !matches!(probe.feed, FeedStatus::Kept(_)) {
            self.run.feed.prepare().await?;
        }
        // Changes before this mark are not of this time.
        let mark = uuid::Uuid::new_v4().to_string();
        let written = self.run.feed.mark(&mark).await?;
        self.run.feed.confirm(&written.to_string()).await?;
        let seen = find(&self.run.feed, Expected::Mark(mark), written).await?;
        let listed = self.run.feed.tables().await?;
        let now = self.run.feed.probe().await?;
        let epoch = Epoch {
            number: 0,
            server: now.server,
            from: seen.position,
            begins: now.clock,
            through: Lsn(0),
            reached: now.clock,
            seen: Some(seen),
            reason,
        };
        self.kept
            .change(|manifest| manifest.begin_epoch(epoch, is_same, &listed));
        self.kept.pending.clear();
        self.bases.forget();
        self.kept.looked = None;
        // It is another log.
        (self.kept.confirmed, self.kept.has_news) = (Lsn(0), true);
        (self.takes_new_source, self.is_beginning) = (false, true);
        self.kept.save()
    }

    /// # Errors
    /// A name or a pattern that has no table.
    async fn require_selected(&self) -> Result<(), Failure> {
        let tables = self.run.feed.tables().await?;
        let is_missing = |name: &&String| {
            let name = std::slice::from_ref(*name);
            !tables.iter().any(|(table, _)| is_selected(name, table))
        };
        match self.kept.manifest.selected.iter().find(is_missing) {
            Some(missing) => Err(Failure::new(format!(
                "{}: there is no table {missing}.",
                self.run.feed.database.name
            ))),
            None => Ok(()),
        }
    }
}
