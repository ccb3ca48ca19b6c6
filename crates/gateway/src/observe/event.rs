//! The record of a request in the metrics and the log.

use std::time::{Duration, Instant};

use http::{HeaderValue, StatusCode};
use table_service_model::Code;
use uuid::Uuid;

use crate::request::Trace;

/// A request that was answered.
#[derive(Debug)]
pub struct Event {
    pub id: Uuid,
    /// The trace that the client says it belongs to.
    pub trace: Option<Trace>,
    pub started: Instant,
    pub operation: &'static str,
    pub account: String,
    pub table: String,
    /// The partition of the request, if it has one.
    pub partition: Option<String>,
    /// Whether it counts for its table: it was permitted and well-formed.
    pub is_of_table: bool,
    pub request_bytes: usize,
    /// The fault that an emulator has injected, if any.
    pub fault: Option<&'static str>,
}

impl Event {
    /// Begins the record when the head of the request has arrived.
    pub fn begin(id: Uuid) -> Event {
        Event {
            id,
            trace: None,
            started: Instant::now(),
            operation: "Unknown",
            account: String::new(),
            table: String::new(),
            partition: None,
            is_of_table: false,
            request_bytes: 0,
            fault: None,
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
    /// The client's own id of the request.
    pub client_request_id: Option<&'a HeaderValue>,
}
