//! A program that is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::failure::exit;

/// How long the writes under way may take when the copy is told to stop. A service that is away does not answer them.
const GRACE: Duration = Duration::from_secs(10);

/// Ctrl-C and SIGTERM let the writes under way end, for [`GRACE`]; a second one does not wait.
pub fn stop_on_signal(stop: &Arc<AtomicBool>) {
    let stop = Arc::downgrade(stop);
    tokio::spawn(async move {
        let mut signals = 0;
        let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
            return;
        };
        loop {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            signals += 1;
            match stop.upgrade() {
                Some(stop) if signals == 1 => stop.store(true, Ordering::Relaxed),
                Some(_) => std::process::exit(i32::from(exit::INTERRUPTED)),
                // An earlier round; the present one hears the signal itself.
                None => return,
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
