//! Reads the feed of an archive, page after page.

use std::time::Duration;

use table_service_archive::{Expected, Follower, Moment, Seen};
use table_service_model::Lsn;
use tokio::sync::mpsc::channel;

use crate::ends::databases::{ChangeFeed, Event, Images, PAGE};
use crate::failure::Failure;

use super::kept::{Kept, Run, place_of};

/// Changes that wait to be written. Each may have 6 MiB.
const WAITING: usize = 8;
/// How often an archive without changes notes on the disk that there are none.
pub const IDLE: Duration = Duration::from_secs(5);
/// How many bytes of log may come behind the last archived transaction if there is nothing new.
pub const IDLE_LOG: u64 = 1 << 20;
/// The last transaction comes again with every read. If it has more rows than this, a mark comes behind it.
const FEW: u64 = 1000;

/// How a read of the feed ended.
pub enum Read {
    /// Everything was read that was committed when the clock showed this.
    All(Moment),
    /// It was told to stop.
    Stopped,
    /// The log is not the one that was read before.
    Other,
    /// The server gives an error.
    Failed(Failure),
}

impl Kept {
    /// Reads pages of changes until there are no more.
    ///
    /// # Errors
    /// An error of the archive's directory, or of a database that is away for too long.
    pub async fn read(&mut self, run: &Run<'_>) -> Result<Read, Failure> {
        let (mut top, mut has_marked) = (PAGE, false);
        while !run.stop.is_cancelled() {
            let probe = run.feed.probe().await?;
            let Some(seen) = self.seen() else {
                return Ok(Read::Other);
            };
            let (sender, events) = channel(WAITING);
            let feed = run.feed.clone();
            let read = async { Ok(feed.read(Images::New, top, sender).await.err()) };
            // An error of the writer ends the reader. A reader that fails ends the rows, and gives its error.
            let (failed, page) = match tokio::try_join!(read, self.write(&seen, events)) {
                Ok(done) => done,
                Err(failure) => return Err(failure),
            };
            if let Some(failure) = failed {
                self.undo()?;
                return Ok(Read::Failed(failure));
            }
            let (rows, has_more) = (page.rows, page.rows >= top.unsigned_abs());
            let Some(last) = self.take_in(page)? else {
                if has_more {
                    top = PAGE.saturating_add_unsigned(rows);
                    continue;
                }
                return Ok(Read::Other);
            };
            // The last transaction comes again before the new ones.
            top = PAGE.saturating_add_unsigned(last);
            // The log is kept from the last transaction on.
            let behind = self
                .seen()
                .map_or(0, |seen| probe.written.0.saturating_sub(seen.position.0));
            let is_long = last > FEW;
            if !has_more && (has_marked || !is_long && behind <= IDLE_LOG) {
                return Ok(Read::All(probe.clock));
            }
            self.save()?;
            let mut confirmed = self.confirm(run, 0).await;
            // The read that gives a long transaction again also gives the mark, and is the last one to give it.
            if !has_marked && (is_long || !has_more) && confirmed.is_ok() {
                has_marked = true;
                confirmed = run.feed.mark(&uuid::Uuid::new_v4().to_string()).await.map(drop);
            }
            if let Err(failure) = confirmed {
                return Ok(Read::Failed(failure));
            }
        }
        Ok(Read::Stopped)
    }

    /// Confirms the position of the manifest on the disk, unless it is little beyond the last one.
    pub async fn confirm(&mut self, run: &Run<'_>, little: u64) -> Result<(), Failure> {
        let seen = self.seen().filter(|_| self.is_saved());
        if let Some(seen) = seen.filter(|seen| seen.confirmed.0.saturating_sub(self.confirmed.0) > little) {
            run.feed.confirm(&seen.confirmed.to_string()).await?;
            self.confirmed = seen.confirmed;
        }
        Ok(())
    }
}

/// Finds a transaction that the feed must have.
pub async fn find(feed: &ChangeFeed, expected: Expected, confirmed: Lsn) -> Result<Seen, Failure> {
    let (sender, mut events) = channel(WAITING);
    let look = async {
        let begin = || Follower::new(expected.clone(), confirmed);
        let mut follower = begin();
        while let Some(event) = events.recv().await {
            let Event::Change(change) = event else {
                follower = begin();
                continue;
            };
            follower.take(place_of(&change)?.0, || change.identity(), change.mark().as_deref());
        }
        Ok(follower.finish())
    };
    let (_, found) = tokio::try_join!(feed.read(Images::New, PAGE, sender), look)?;
    let found = found.ok_or_else(|| Failure::new("The change feed does not give what was written for it."))?;
    Ok(found.expected)
}
