//! Receiving the body of a request.

use std::pin::Pin;
use std::task::{self, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use table_service_model::Error;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::limits::buffer::{Buffer, Full};
use crate::request::header;

/// The limits for the rest of the body of a refused request. It is read so that the client reads the refusal.
const REMAINDER_BYTES: usize = 16 * 1024 * 1024;
const REMAINDER_TIME: Duration = Duration::from_secs(5);

/// The body of a request. Its rest is still to be read.
pub struct Pending {
    incoming: Option<Incoming>,
    /// Whether the client sends the body: it waits for nothing, or it was told to go on.
    is_sent: bool,
}

impl Pending {
    /// Takes the body of a request. Nothing of it has been read.
    pub fn new(headers: &HeaderMap, body: Incoming) -> Pending {
        Pending {
            incoming: Some(body).filter(|body| !body.is_end_stream()),
            is_sent: !headers.contains_key(EXPECT),
        }
    }

    /// Returns the most bytes that it has: the announced length, or the limit.
    ///
    /// # Errors
    /// `RequestBodyTooLarge`.
    pub fn length(&self, headers: &HeaderMap, limit: usize) -> Result<usize, Error> {
        let announced = header(headers, CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        match announced {
            Some(length) if length > limit => Err(Error::BatchTooLarge),
            _ if self.incoming.is_none() => Ok(0),
            announced => Ok(announced.unwrap_or(limit)),
        }
    }

    /// Returns the whole body, which the client has to send in time. It has at most as many bytes as memory was taken for.
    ///
    /// # Errors
    /// `RequestBodyTooLarge`, `OperationTimedOut`, `InvalidInput` for a broken body.
    pub async fn read(&mut self, length: usize, time: Duration) -> Result<Vec<u8>, Failure> {
        let mut bytes = Buffer::within(length);
        let read = timeout(time, async {
            while let Some(frame) = self.frame().await {
                let frame = frame.map_err(|error| Error::MalformedJson {
                    reason: format!("The body cannot be read: {error}"),
                })?;
                let Ok(data) = frame.into_data() else { continue };
                bytes.push(&data).map_err(|Full| Error::BatchTooLarge)?;
            }
            Ok::<_, Error>(())
        });
        match read.await {
            Ok(read) => {
                read?;
                Ok(bytes.into_bytes())
            }
            Err(_) => {
                self.incoming = None;
                Err(Failure::timed_out("The body did not arrive in time"))
            }
        }
    }

    /// Reads the rest, within limits: a client that is still sending would not read the answer.
    pub async fn drain(self) {
        if self.is_sent && self.incoming.is_some() {
            let mut body = Limited::new(self, REMAINDER_BYTES);
            let _ = timeout(REMAINDER_TIME, async { while let Some(Ok(_)) = body.frame().await {} }).await;
        }
    }
}

impl Body for Pending {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // hyper tells a client that waits to go on.
        self.is_sent = true;
        let Some(body) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.incoming = None;
        }
        Poll::Ready(frame)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
