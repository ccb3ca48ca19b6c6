//! The log of requests.

use super::event::{Event, Outcome};
use crate::request::Trace;

/// Logs a request. Faults of the server are errors or warnings; everything else is for debugging.
pub fn log(event: &Event, outcome: &Outcome<'_>) {
    macro_rules! write {
        ($level:ident) => {
            tracing::$level!(
                request_id = %event.id,
                trace_id = event.trace.as_ref().map(Trace::trace_id),
                parent_id = event.trace.as_ref().map(Trace::parent_id),
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
