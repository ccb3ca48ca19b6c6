//! A problem that lasts, in the log.

use std::time::{Duration, Instant};

/// The time after which the log has a problem again.
const INTERVAL: Duration = Duration::from_secs(60);

/// When the log had a problem last.
#[derive(Debug, Default)]
pub struct Reminder(Option<(String, Instant)>);

impl Reminder {
    /// Returns whether a problem belongs into the log now: it is new, another one, or was there some time ago.
    pub fn is_due(&mut self, problem: &str) -> bool {
        if let Some((told, at)) = &self.0
            && told == problem
            && at.elapsed() < INTERVAL
        {
            return false;
        }
        self.0 = Some((problem.to_owned(), Instant::now()));
        true
    }

    /// Notes that the problem is over. Returns whether the log had it.
    pub fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}
