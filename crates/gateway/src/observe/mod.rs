//! What the gateway tells about itself: one type of event, read by the metrics and by the log.

mod hot;
mod metrics;

use std::time::{Duration, Instant};

use http::{HeaderValue, StatusCode};
use table_service_model::Code;
use uuid::Uuid;

pub use metrics::Metrics;

/// A request that was answered.
#[derive(Debug)]
pub struct Event {
    pub id: Uuid,
    pub started: Instant,
    pub operation: &'static str,
    pub account: String,
    pub table: String,
    /// The partition that it was on, if it was on one.
    pub partition: Option<String>,
    pub request_bytes: usize,
}

impl Event {
    pub fn begin(id: Uuid) -> Event {
        Event {
            id,
            started: Instant::now(),
            operation: "Unknown",
            account: String::new(),
            table: String::new(),
            partition: None,
            request_bytes: 0,
        }
    }
}

/// How a request was answered.
#[derive(Debug)]
pub struct Outcome<'a> {
    pub status: StatusCode,
    pub error: Option<(Code, Option<&'a str>)>,
    pub response_bytes: usize,
    pub duration: Duration,
    /// The client's own name for the request.
    pub client_request_id: Option<&'a HeaderValue>,
}

/// Counts an answered request, and logs it.
pub fn record(metrics: &Metrics, event: &Event, outcome: &Outcome<'_>) {
    metrics.count(event, outcome);
    log(event, outcome);
}

/// Faults are errors, what the client did is information for those who ask for it.
fn log(event: &Event, outcome: &Outcome<'_>) {
    macro_rules! write {
        ($level:ident) => {
            tracing::$level!(
                request_id = %event.id,
                client_request_id = outcome.client_request_id.map(tracing::field::debug),
                operation = event.operation,
                account = event.account,
                table = event.table,
                status = outcome.status.as_u16(),
                code = outcome.error.map(|(code, _)| code.as_str()),
                reason = outcome.error.and_then(|(_, reason)| reason),
                milliseconds = outcome.duration.as_secs_f64() * 1000.0,
                request_bytes = event.request_bytes,
                response_bytes = outcome.response_bytes,
                "request"
            )
        };
    }
    match outcome.status.as_u16() {
        503 => write!(warn),
        500 | 502.. => write!(error),
        _ => write!(debug),
    }
}
