//! Files that settings name, and that are read again when they have changed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use ring::digest::{SHA256, digest};
use table_service_command_line::files;
use tokio::signal::unix::Signal;
use tokio::time::sleep;

use super::error::ConfigError;
use crate::reminder::Reminder;

/// The time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most bytes of a file that are read.
const LONGEST: u64 = 1024 * 1024;

/// Makes a value of the bytes of files with these paths.
type Parse<T, const N: usize> = fn(&[PathBuf; N], &[Vec<u8>; N]) -> Result<T, ConfigError>;

/// A value as some files have it.
pub struct Reread<T, const N: usize> {
    /// The name of the value, for the log.
    name: &'static str,
    settings: [&'static str; N],
    files: [PathBuf; N],
    parse: Parse<T, N>,
    state: RwLock<State<T, N>>,
}

struct State<T, const N: usize> {
    current: Arc<T>,
    /// The digests of the files that were read last.
    digests: [Vec<u8>; N],
}

impl<T, const N: usize> Reread<T, N> {
    /// Reads the files of these settings.
    ///
    /// # Errors
    /// If one is missing, and those of `parse`.
    pub fn read(
        name: &'static str,
        settings: [&'static str; N],
        files: [PathBuf; N],
        parse: Parse<T, N>,
    ) -> Result<Reread<T, N>, ConfigError> {
        let contents = contents(&settings, &files)?;
        let state = RwLock::new(State {
            current: Arc::new(parse(&files, &contents)?),
            digests: digests(&contents),
        });
        Ok(Reread {
            name,
            settings,
            files,
            parse,
            state,
        })
    }

    /// Returns the value as it is now.
    pub fn current(&self) -> Arc<T> {
        self.state.read().current.clone()
    }

    /// Reads the files as long as the process runs, again and again and after each hangup. If they cannot be used, the
    /// log says why, and the value stays.
    pub async fn keep_reading(&self, mut hangup: Option<Signal>) {
        let (name, mut problem) = (self.name, Reminder::default());
        loop {
            let is_asked = tokio::select! {
                () = sleep(INTERVAL) => false,
                () = hung_up(&mut hangup) => true,
            };
            match self.read_again() {
                Ok(true) => {
                    problem.end();
                    tracing::info!("{name} was read again, and is in use");
                }
                Ok(false) if is_asked => tracing::info!("{name} is in use already"),
                Ok(false) => {}
                Err(error) => {
                    let text = error.to_string();
                    if problem.is_due(&text) || is_asked {
                        let what = "cannot be read again: the one of before stays in use";
                        tracing::error!(problem = text, "{name} {what}");
                    }
                }
            }
        }
    }

    /// Takes the files if they have changed, and returns whether they have.
    fn read_again(&self) -> Result<bool, ConfigError> {
        // A pipe is read once.
        let is_other = |path: &PathBuf| path.metadata().is_ok_and(|about| !about.is_file());
        if self.files.iter().any(is_other) {
            return Ok(false);
        }
        let contents = contents(&self.settings, &self.files)?;
        let digests = digests(&contents);
        if self.state.read().digests == digests {
            return Ok(false);
        }
        let current = Arc::new((self.parse)(&self.files, &contents)?);
        *self.state.write() = State { current, digests };
        Ok(true)
    }
}

/// Ends when the signal has arrived; never without one.
pub async fn hung_up(hangup: &mut Option<Signal>) {
    let received = match hangup {
        Some(hangup) => hangup.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending().await
    }
}

/// Returns the bytes of each file.
fn contents<const N: usize>(settings: &[&'static str; N], files: &[PathBuf; N]) -> Result<[Vec<u8>; N], ConfigError> {
    let mut contents = [const { Vec::new() }; N];
    for ((setting, path), bytes) in settings.iter().zip(files).zip(&mut contents) {
        let path: &Path = path;
        files::settings(path)
            .and_then(|opened| opened.take(LONGEST).read_to_end(bytes))
            .map_err(|error| ConfigError::new(*setting, format!("{}: {error}", path.display())))?;
    }
    Ok(contents)
}

fn digests<const N: usize>(contents: &[Vec<u8>; N]) -> [Vec<u8>; N] {
    contents
        .each_ref()
        .map(|bytes| digest(&SHA256, bytes).as_ref().to_vec())
}
