//! A program that is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::failure::exit;

/// How long the writes under way may take when the copy is told to stop. A service that is away does not answer them.
const GRACE: Duration = Duration::from_secs(10);

/// Signals that come together are one: `timeout` sends its own to the program and to its group, and so do others that start programs.
const TOGETHER: Duration = Duration::from_millis(500);

/// Ctrl-C and SIGTERM let the writes under way end, for [`GRACE`]; a second one does not wait.
pub fn stop_on_signal(stop: &Arc<AtomicBool>) {
    let stop = Arc::downgrade(stop);
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
            let Some(stop) = stop.upgrade() else { return };
            match first {
                None => {
                    stop.store(true, Ordering::Relaxed);
                    first = Some(Instant::now());
                }
                Some(first) if first.elapsed() < TOGETHER => {}
                Some(_) => std::process::exit(i32::from(exit::INTERRUPTED)),
            }
        }
    });
}

/// Ends [`GRACE`] after it was told to stop.
pub async fn overdue(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(GRACE).await;
}

/// Waits, but not after the program was told to stop.
pub async fn pause(seconds: f64, stop: &AtomicBool) {
    let end = tokio::time::Instant::now() + Duration::from_secs_f64(seconds.clamp(0.01, 86_400.0));
    while tokio::time::Instant::now() < end && !stop.load(Ordering::Relaxed) {
        let step = Duration::from_millis(100).min(end - tokio::time::Instant::now());
        tokio::time::sleep(step).await;
    }
}
