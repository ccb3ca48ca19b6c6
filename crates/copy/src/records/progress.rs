//! The progress that a user sees: a bar on a terminal, else a line every few seconds.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::printable;

use super::outcome::Outcome;

/// Counts of everything so far.
#[derive(Default)]
pub struct Counters {
    done: Mutex<Outcome>,
    /// The bytes that were read.
    pub bytes: AtomicU64,
    /// How many entities there are to read, as far as that is known.
    pub expected: AtomicU64,
}

impl Counters {
    /// Adds the outcome of entities.
    pub fn note(&self, outcome: &Outcome) {
        self.done.lock().count(outcome);
    }

    /// Adds entities that were read.
    pub fn read(&self, count: usize) {
        self.done.lock().read += count as u64;
    }

    /// Begins again, with so many entities to read.
    pub fn restart(&self, expected: u64) {
        *self.done.lock() = Outcome::default();
        self.expected.store(expected, Ordering::Relaxed);
    }
}

/// How progress is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A bar on a terminal, else lines, on standard error.
    People,
    /// Objects on standard output.
    Json,
    Quiet,
}

/// Shows the counters until it is dropped.
pub struct Progress {
    task: JoinHandle<()>,
    bar: Option<ProgressBar>,
}

const LINE_EVERY: Duration = Duration::from_secs(5);
const BAR_EVERY: Duration = Duration::from_millis(200);

impl Progress {
    /// Begins to show counters.
    pub fn start(style: Style, counters: Arc<Counters>) -> Progress {
        let begin = Instant::now();
        let bar = (style == Style::People && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(0);
            let template = "{elapsed_precise} {wide_bar} {human_pos}/{human_len} {per_sec}, {msg}, {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        let shown = bar.clone();
        let task = tokio::spawn(async move {
            let every = if shown.is_some() { BAR_EVERY } else { LINE_EVERY };
            let mut last = (Instant::now(), 0);
            loop {
                tokio::time::sleep(every).await;
                let done = counters.done.lock().clone();
                let (read, skipped) = (done.read, done.skipped + done.gone + done.changed);
                let [bytes, expected] =
                    [&counters.bytes, &counters.expected].map(|count| count.load(Ordering::Relaxed));
                if let Some(bar) = &shown {
                    bar.set_length(expected.max(read));
                    bar.set_position(read);
                    bar.set_message(HumanBytes(bytes).to_string());
                    continue;
                }
                let rate = (read - last.1) as f64 / last.0.elapsed().as_secs_f64();
                last = (Instant::now(), read);
                match style {
                    Style::Quiet => {}
                    Style::Json => {
                        let line = serde_json::json!({
                            "event": "progress", "read": read, "bytes": bytes, "written": done.written, "deleted": done.deleted,
                            "skipped": skipped, "rejected": done.rejected, "expected": (expected > 0).then_some(expected),
                            "entities_per_second": rate.round(),
                            "seconds": begin.elapsed().as_secs_f64(),
                        });
                        printable::tell_machines(&line);
                    }
                    Style::People => {
                        let left = if expected > read && rate > 0.0 {
                            format!(", about {:.0} s left", (expected - read) as f64 / rate)
                        } else {
                            String::new()
                        };
                        let size = if bytes > 0 {
                            format!("{}, ", HumanBytes(bytes))
                        } else {
                            String::new()
                        };
                        printable::tell(&format!(
                            "{} entities, {size}{} a second{left}",
                            HumanCount(read),
                            HumanCount(rate as u64),
                        ));
                    }
                }
            }
        });
        Progress { task, bar }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
