//! A program that is told to stop.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::failure::exit;

/// How long the writes under way may take when the copy is told to stop. A service that is away does not answer them.
const GRACE: Duration = Duration::from_secs(10);

/// Signals that come together are one: `timeout` sends its own to the program and to its group, and so do others that start programs.
const TOGETHER: Duration = Duration::from_millis(500);

/// The token that Ctrl-C and SIGTERM cancel. Writes under way may end, for [`GRACE`]; a second signal does not wait.
pub fn stopped_by_signals() -> CancellationToken {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        let mut first: Option<Instant> = None;
        let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
            return;
        };
        loop {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            match first {
                None => {
                    stop.cancel();
                    first = Some(Instant::now());
                }
                Some(first) if first.elapsed() < TOGETHER => {}
                Some(_) => std::process::exit(i32::from(exit::INTERRUPTED)),
            }
        }
    });
    stopped
}

/// Ends [`GRACE`] after it was told to stop.
pub async fn overdue(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// Waits, but not after the program was told to stop.
pub async fn pause(seconds: f64, stop: &CancellationToken) {
    let pause = Duration::from_secs_f64(seconds.clamp(0.01, 86_400.0));
    // Whichever ends it.
    let _ = tokio::time::timeout(pause, stop.cancelled()).await;
}
