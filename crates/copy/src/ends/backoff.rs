//! The pauses while a service or a database is away.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::RngExt;

use crate::printable;

/// After how long, and how often, a user hears that the program waits.
const QUIET_WAIT: Duration = Duration::from_secs(5);
const NOTICE_EVERY: Duration = Duration::from_secs(60);
/// A service that asks for no wait is not asked without one.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// Waits longer and longer, until it has no more patience.
pub struct Backoff {
    begin: Instant,
    patience: Duration,
    next: Duration,
}

/// Says why the program waits: all lanes wait for the same reason, so one of them says it.
fn notice(reason: &str, left: Duration) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock();
    if last.is_none_or(|last| last.elapsed() >= NOTICE_EVERY) {
        *last = Some(Instant::now());
        let left = left.as_secs();
        printable::tell(&format!(
            "table-service-copy: {reason}. It tries again, for {left} s at most."
        ));
    }
}

impl Backoff {
    /// Waits for so long in all.
    pub fn new(patience: Duration) -> Backoff {
        Backoff {
            begin: Instant::now(),
            patience,
            next: Duration::from_millis(200),
        }
    }

    /// Waits before another attempt, as long as the service says if it does. Returns false when it has been too long.
    pub async fn wait(&mut self, retry_after: Option<Duration>, reason: &str) -> bool {
        let left = self.patience.saturating_sub(self.begin.elapsed());
        if left.is_zero() {
            return false;
        }
        if self.begin.elapsed() >= QUIET_WAIT {
            notice(reason, left);
        }
        // All lanes fail at the same moment; they must not come back at the same moment.
        let spread = rand::rng().random_range(0.5..1.0);
        let wait = retry_after
            .unwrap_or_else(|| self.next.mul_f64(spread))
            .max(SHORTEST_WAIT);
        self.next = (self.next * 2).min(Duration::from_secs(30));
        tokio::time::sleep(wait.min(left)).await;
        true
    }
}
