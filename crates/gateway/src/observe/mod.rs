//! Metrics and log. Both record the same event for each request.

mod event;
mod hot;
mod log;
mod metrics;

pub use event::{Event, Outcome};
pub use metrics::Metrics;

/// Counts an answered request, and logs it.
pub fn record(metrics: &Metrics, event: &Event, outcome: &Outcome<'_>) {
    metrics.count(event, outcome);
    log::log(event, outcome);
}
