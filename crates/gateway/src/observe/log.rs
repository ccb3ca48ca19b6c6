//! The log of requests.

use std::time::Duration;

use super::event::{Event, Outcome};
use crate::request::Trace;

/// Logs a request. Failures of the server are errors or warnings; all else is for debugging, including injected faults.
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
                fault = event.fault,
                milliseconds = milliseconds(outcome.duration),
                request_bytes = event.request_bytes,
                response_bytes = outcome.response_bytes,
                "request"
            )
        };
    }
    match outcome.status.as_u16() {
        _ if event.fault.is_some() => write!(debug),
        503 => write!(warn),
        500 | 502.. => write!(error),
        _ => write!(debug),
    }
}

/// Whole microseconds: a quotient of whole numbers has no binary tail.
fn milliseconds(duration: Duration) -> f64 {
    let micros = u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
    f64::from(micros) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_three_digits_behind_the_point() {
        for (nanos, text) in [
            (35_327_000, "35.327"),
            (35_327, "0.035"),
            (1_247_356, "1.247"),
            (0, "0"),
            (294_908, "0.294"),
        ] {
            assert_eq!(milliseconds(Duration::from_nanos(nanos)).to_string(), text);
        }
    }
}
