//! The command `changes`.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};

use tokio::sync::mpsc::{Receiver, channel};
use tokio_util::sync::CancellationToken;

use crate::created;
use crate::ends::databases::{Change, ChangeFeed, Event, Images, PAGE};
use crate::ends::files::{Format, Layout};
use crate::ends::{End, output};
use crate::failure::{Failure, exit};
use crate::printable::tell;

use super::arguments::ChangesArguments;
use super::interrupt::{overdue, pause, stopped_by_signals};

const BUFFER: usize = 1 << 16;
/// Changes that wait to be written. Each may have 6 MiB.
const WAITING: usize = 8;

/// Where the lines go.
struct Lines {
    out: BufWriter<Box<dyn Write>>,
    /// The same file, and its length when the page began; `None` for standard output.
    file: Option<(File, u64)>,
}

impl Lines {
    fn open(to: End) -> Result<Lines, Failure> {
        let path = match to {
            End::Path(path) => path,
            End::Stream => {
                let out: Box<dyn Write> = Box::new(output::for_data()?);
                let out = BufWriter::with_capacity(BUFFER, out);
                return Ok(Lines { out, file: None });
            }
            End::Service(_) | End::Database(_) => {
                return Err(Failure::usage(
                    "changes writes JSON lines: give --to a file, or - for standard output. --follow applies changes to another target.",
                ));
            }
        };
        let of_path = |problem: &str| format!("{}: {problem}", path.display());
        let named = |error: std::io::Error| Failure::new(of_path(&error.to_string()));
        if let Some(format) = Format::of_path(&path)
            && (format.layout != Layout::Jsonl || format.compressed)
        {
            let ending = format.ending();
            return Err(Failure::usage(of_path(&format!(
                "changes writes JSON lines that are not compressed, and the name of this file says {ending}."
            ))));
        }
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            let problem = "it is no file. With --to - the changes go to standard output.";
            return Err(Failure::usage(of_path(problem)));
        }
        let mut file = created::alone(&path, created::SHARED).map_err(named)?;
        let Some(end) = whole_lines(&mut file).map_err(named)? else {
            return Err(Failure::new(of_path("it is no file of changes, so it stays as it is.")));
        };
        let out: Box<dyn Write> = Box::new(file.try_clone().map_err(named)?);
        Ok(Lines {
            out: BufWriter::with_capacity(BUFFER, out),
            file: Some((file, end)),
        })
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
            self.out.write_all(&line)?;
            count += 1;
        }
        if count > 0 {
            self.out.flush()?;
            if let Some((file, end)) = &mut self.file {
                file.sync_all()?;
                *end = file.stream_position()?;
            }
        }
        Ok(count)
    }

    /// Takes back the lines since the page began, if that is possible.
    fn undo(&mut self) -> std::io::Result<()> {
        let Some((file, end)) = &mut self.file else {
            return Ok(());
        };
        self.out.flush()?;
        file.set_len(*end)?;
        file.seek(SeekFrom::Start(*end)).map(drop)
    }
}

/// Cuts off half a line of an earlier run, and goes to the end. Returns its position; `None` for a file that is not of
/// changes, which stays as it is.
fn whole_lines(file: &mut File) -> std::io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    let mut end = length;
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
    if !begins_line(file, 0)? || !begins_line(file, end)? {
        return Ok(None);
    }
    if end < length {
        file.set_len(end)?;
    }
    file.seek(SeekFrom::Start(end)).map(Some)
}

/// Returns whether a file has nothing at a position, or the beginning of a line of changes, or a part of that at its end.
fn begins_line(file: &mut File, position: u64) -> std::io::Result<bool> {
    let mut there = Vec::new();
    file.seek(SeekFrom::Start(position))?;
    file.take(Change::BEGINNING.len() as u64).read_to_end(&mut there)?;
    Ok(Change::BEGINNING.as_bytes().starts_with(&there))
}

/// Writes the changes of a feed, page after page, and confirms each page when it is written.
pub async fn changes(arguments: &ChangesArguments) -> Result<u8, Failure> {
    let database = arguments
        .database
        .open("changes reads a change feed of a database: give --from its postgresql:// URL.")?;
    let lines = Lines::open(End::read(&arguments.to)?)?;
    let feed = ChangeFeed::new(database, &arguments.feed);
    let stop = stopped_by_signals();
    let mut count: u64 = 0;
    tokio::select! {
        written = write(&feed, lines, arguments.follow, &stop, &mut count) => written?,
        // The program waits for a database that is away. Changes that are written and not confirmed come again.
        () = overdue(&stop) => {}
    }
    if !arguments.quiet {
        tell(&format!("{}: {count} changes", arguments.feed));
    }
    Ok(if stop.is_cancelled() && arguments.follow.is_none() {
        exit::INTERRUPTED
    } else {
        exit::DONE
    })
}

/// Writes pages until there are no more changes, or until it is told to stop. `count` becomes the number of the changes that were written.
async fn write(
    feed: &ChangeFeed,
    mut lines: Lines,
    follow: Option<f64>,
    stop: &CancellationToken,
    count: &mut u64,
) -> Result<(), Failure> {
    while !stop.is_cancelled() {
        let (events, changes) = channel(WAITING);
        let (last, written) = tokio::join!(feed.read(Images::All, PAGE, events), lines.write_page(changes));
        *count += written.map_err(|error| Failure::new(format!("The changes cannot be written: {error}")))?;
        match (last?, follow) {
            (Some(position), _) => feed.confirm(&position).await?,
            (None, Some(seconds)) => pause(seconds, stop).await,
            (None, None) => break,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_cut_off() {
        let line = format!("{}\"0/1\"}}\n", Change::BEGINNING);
        let long = format!("{}{}\n", Change::BEGINNING, "x".repeat(BUFFER));
        let cut = format!("{}{}", Change::BEGINNING, "y".repeat(2 * BUFFER));
        for (whole, rest) in [
            ("", ""),
            ("", "{"),
            ("", Change::BEGINNING),
            (&line, ""),
            (&line, "{\"pos"),
            (&line, &cut),
            (&long, ""),
            (&long, &cut),
        ] {
            let mut file = created::unnamed().unwrap();
            file.write_all(format!("{whole}{rest}").as_bytes()).unwrap();
            let length = whole.len() as u64;
            assert_eq!(whole_lines(&mut file).unwrap(), Some(length));
            assert_eq!(file.metadata().unwrap().len(), length);
            assert_eq!(file.stream_position().unwrap(), length);
        }
    }

    #[test]
    fn a_file_of_something_else_stays_as_it_is() {
        let line = format!("{}\"0/1\"}}\n", Change::BEGINNING);
        for text in [
            "a".to_owned(),
            "\n".to_owned(),
            "a\nb".to_owned(),
            "{\"PartitionKey\":\"p\"}\n".to_owned(),
            "{\n".to_owned(),
            format!("{line}precious"),
            format!("precious\n{}", Change::BEGINNING),
            "\0".repeat(2 * BUFFER),
        ] {
            let mut file = created::unnamed().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert_eq!(whole_lines(&mut file).unwrap(), None, "{text:?}");
            assert_eq!(file.metadata().unwrap().len(), text.len() as u64);
        }
    }
}
