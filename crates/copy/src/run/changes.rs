//! The command `changes`.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};

use crate::cli::ChangesArguments;
use crate::created;
use crate::failure::{Failure, exit};
use crate::interrupt::stop_on_signal;
use crate::location::Location;
use crate::places::from_of;
use crate::printable::tell;
use crate::sql::{ChangeFeed, Event, Images};

const BUFFER: usize = 1 << 16;
/// Changes that wait to be written.
const WAITING: usize = 100;

/// Where the lines go.
enum Lines {
    Output(BufWriter<std::io::Stdout>),
    File {
        file: BufWriter<File>,
        /// How long the file was when the page began.
        end: u64,
    },
}

impl Lines {
    fn open(to: Location) -> Result<Lines, Failure> {
        match to {
            Location::Stream => Ok(Lines::Output(BufWriter::with_capacity(BUFFER, std::io::stdout()))),
            Location::Path(path) => {
                let named = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
                let file = if path.exists() {
                    created::again(&path)
                } else {
                    created::anew(&path)
                };
                let mut file = file.map_err(named)?;
                let end = whole_lines(&mut file).map_err(named)?;
                Ok(Lines::File {
                    file: BufWriter::with_capacity(BUFFER, file),
                    end,
                })
            }
            Location::Rest(_) | Location::Sql(_) => Err(Failure::usage(
                "changes writes JSON lines: give --to a file, or - for standard output. --follow applies changes to another place.",
            )),
        }
    }

    /// Writes the changes of a page, and returns their number when they are where they should be.
    async fn write_page(&mut self, mut changes: Receiver<Event>) -> std::io::Result<u64> {
        let (mut count, mut line) = (0, Vec::new());
        while let Some(event) = changes.recv().await {
            let Event::Change(change) = event else {
                self.undo()?;
                count = 0;
                continue;
            };
            line.clear();
            change.append_line(&mut line);
            match self {
                Lines::Output(output) => output.write_all(&line)?,
                Lines::File { file, .. } => file.write_all(&line)?,
            }
            count += 1;
        }
        if count > 0 {
            self.finish()?;
        }
        Ok(count)
    }

    /// Takes back what was written since the page began, if it can be.
    fn undo(&mut self) -> std::io::Result<()> {
        match self {
            Lines::Output(_) => Ok(()),
            Lines::File { file, end } => {
                file.flush()?;
                file.get_ref().set_len(*end)?;
                file.seek(SeekFrom::Start(*end)).map(|_| ())
            }
        }
    }

    /// Returns when the page is where it should be.
    fn finish(&mut self) -> std::io::Result<()> {
        match self {
            Lines::Output(output) => output.flush(),
            Lines::File { file, end } => {
                file.flush()?;
                file.get_ref().sync_all()?;
                *end = file.stream_position()?;
                Ok(())
            }
        }
    }
}

/// Cuts off what an earlier run has left of a line, and goes to the end. Returns its position.
fn whole_lines(file: &mut File) -> std::io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut part = vec![0; BUFFER];
    while end > 0 {
        let begin = end.saturating_sub(BUFFER as u64);
        let length = usize::try_from(end - begin).unwrap_or(BUFFER);
        let part = part.get_mut(..length).unwrap_or_default();
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(part)?;
        if let Some(last) = part.iter().rposition(|&byte| byte == b'\n') {
            end = begin + last as u64 + 1;
            break;
        }
        end = begin;
    }
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))
}

/// Writes the changes of a feed, page after page, and confirms each page when it is written.
pub async fn changes(arguments: &ChangesArguments) -> Result<u8, Failure> {
    let Location::Sql(config) = Location::read(from_of(arguments.from.as_ref())?)? else {
        return Err(Failure::usage(
            "changes reads a change feed of a database: give --from its postgresql:// URL.",
        ));
    };
    let to = Location::read(&arguments.to)?;
    let mut lines = Lines::open(to)?;
    let feed = ChangeFeed::new(*config, Duration::from_secs(arguments.retry_for), &arguments.feed);
    let stop: Arc<AtomicBool> = Arc::default();
    stop_on_signal(&stop);
    let mut count: u64 = 0;
    while !stop.load(Ordering::Relaxed) {
        let (events, changes) = channel(WAITING);
        let (last, written) = tokio::join!(feed.read(Images::All, events), lines.write_page(changes));
        count += written.map_err(|error| Failure::new(format!("The changes cannot be written: {error}")))?;
        match (last?, arguments.follow) {
            (Some(position), _) => feed.confirm(&position).await?,
            (None, Some(seconds)) => pause(seconds, &stop).await,
            (None, None) => break,
        }
    }
    if !arguments.quiet {
        tell(&format!("{}: {count} changes", arguments.feed));
    }
    Ok(if stop.load(Ordering::Relaxed) && arguments.follow.is_none() {
        exit::INTERRUPTED
    } else {
        exit::DONE
    })
}

/// Waits, but not after the program was told to stop.
pub async fn pause(seconds: f64, stop: &AtomicBool) {
    let end = tokio::time::Instant::now() + Duration::from_secs_f64(seconds.clamp(0.01, 86_400.0));
    while tokio::time::Instant::now() < end && !stop.load(Ordering::Relaxed) {
        let step = Duration::from_millis(100).min(end - tokio::time::Instant::now());
        tokio::time::sleep(step).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_cut_off() {
        let long = format!("{}\n{}", "x".repeat(BUFFER), "y".repeat(2 * BUFFER));
        for (text, whole) in [
            ("", 0),
            ("a", 0),
            ("a\n", 2),
            ("a\nb", 2),
            ("a\nb\n", 4),
            (&long, BUFFER as u64 + 1),
        ] {
            let mut file = created::unnamed().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert_eq!(whole_lines(&mut file).unwrap(), whole);
            assert_eq!(file.metadata().unwrap().len(), whole);
        }
    }
}
