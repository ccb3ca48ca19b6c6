//! A memory budget for the heads of requests, until the requests have been served.
//!
//! The account of a request is unknown while its head arrives, so the budget is common to all connections. Only long heads count, so that
//! ordinary requests are served even if the budget is used up. A long head takes the most that a head may need, in one step. Why the
//! gateway keeps no reserve for all connections instead: docs/decisions.md.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Body;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::shares::{Share, Shares};

/// Heads up to this length do not count.
const SHORT: usize = 16 * 1024;
/// The longest head of a request: the request line, with a filter of 64 KiB, and all headers.
pub const HEAD_BYTES: usize = 128 * 1024;
/// The budget that a long head takes.
pub const LONG_BYTES: usize = HEAD_BYTES - SHORT;

/// Counts the bytes of the head of a connection's next request.
#[derive(Clone)]
pub struct HeadMeter(Arc<Mutex<State>>);

struct State {
    budget: Arc<Shares>,
    received: usize,
    /// The budget that it has taken.
    share: Option<Share>,
    /// Whether a request is served, so that its body arrives and no head.
    is_served: bool,
    /// The length of that body, until the stream asks for it.
    body: u64,
}

/// The length of a body in chunks, which is unknown.
pub const CHUNKED: u64 = u64::MAX;

impl HeadMeter {
    /// Makes a meter for a new connection.
    pub fn new(budget: Arc<Shares>) -> HeadMeter {
        HeadMeter(Arc::new(Mutex::new(State {
            budget,
            received: 0,
            share: None,
            is_served: false,
            body: 0,
        })))
    }

    /// Ends the head, and begins its request, which keeps the head's budget. The stream has to know the body before it
    /// is read further.
    pub fn complete(&self, body: &impl Body) {
        let mut state = self.0.lock();
        state.received = 0;
        state.is_served = true;
        state.body = body.size_hint().exact().unwrap_or(CHUNKED);
    }

    /// Returns the length of the body that comes next, once.
    pub fn take_body(&self) -> u64 {
        std::mem::take(&mut self.0.lock().body)
    }

    /// Ends the request, and begins the next head.
    pub fn expect_next(&self) {
        let mut state = self.0.lock();
        state.share = None;
        state.is_served = false;
    }

    /// Ends the count.
    pub fn end(&self) {
        let mut state = self.0.lock();
        state.is_served = true;
        state.share = None;
    }

    /// Counts bytes that have arrived. Returns whether there is memory for them.
    fn receive(&self, bytes: usize) -> bool {
        let mut state = self.0.lock();
        if state.is_served {
            return true;
        }
        state.received += bytes;
        if state.received > SHORT && state.share.is_none() {
            state.share = state.budget.try_take(0, LONG_BYTES);
            return state.share.is_some();
        }
        // hyper refuses a head that is longer than the longest one.
        true
    }
}

/// The reading half of a stream, which fails if the budget for unfinished heads is used up.
pub struct HeadLimited<S> {
    stream: S,
    head: HeadMeter,
}

impl<S> HeadLimited<S> {
    /// Counts the bytes that are read from a stream.
    pub fn new(stream: S, head: HeadMeter) -> HeadLimited<S> {
        HeadLimited { stream, head }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadLimited<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if !self.head.receive(buffer.filled().len() - before) {
            return Poll::Ready(Err(Error::new(
                ErrorKind::OutOfMemory,
                "there are too many unfinished heads",
            )));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;

    use super::*;

    #[test]
    fn long_heads_count_until_their_requests_have_been_served() {
        let budget = Shares::new(LONG_BYTES, 1, LONG_BYTES).unwrap();
        let (one, other) = (HeadMeter::new(budget.clone()), HeadMeter::new(budget.clone()));
        assert!(one.receive(SHORT));
        assert_eq!(budget.used(), 0);
        assert!(one.receive(1) && one.receive(SHORT));
        assert_eq!(budget.used(), LONG_BYTES);
        assert!(other.receive(SHORT) && !other.receive(1));
        one.complete(&Full::new(Bytes::from_static(b"123")));
        assert_eq!((one.take_body(), one.take_body()), (3, 0));
        // The body does not count here.
        assert!(one.receive(10 * HEAD_BYTES));
        assert_eq!(budget.used(), LONG_BYTES);
        one.expect_next();
        assert_eq!(budget.used(), 0);
        assert!(one.receive(HEAD_BYTES));
        one.end();
        assert_eq!(budget.used(), 0);
        assert!(one.receive(HEAD_BYTES));
        drop((one, other));
        assert_eq!(budget.used(), 0);
    }
}
