//! Receiving the body of a request.

use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use table_service_model::Error;
use table_service_model::error::RequestError;
use tokio::time::timeout;

use crate::buffer::{Buffer, Full};
use crate::failure::Failure;
use crate::request::header;

/// The limits for the rest of the body of a refused request. It is read so that the client reads the refusal.
const REMAINDER_BYTES: usize = 16 * 1024 * 1024;
const REMAINDER_TIME: Duration = Duration::from_secs(5);

/// A body that was not read yet, if there is one.
pub struct Pending(Option<Incoming>);

impl Pending {
    pub fn new(body: Incoming) -> Pending {
        Pending(Some(body).filter(|body| !body.is_end_stream()))
    }

    /// Returns whether the client still has to send bytes.
    pub fn is_expected(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the most bytes that it has: the announced length, or the limit.
    ///
    /// # Errors
    /// `RequestBodyTooLarge`.
    pub fn length(&self, headers: &HeaderMap, limit: usize) -> Result<usize, Error> {
        let announced = header(headers, CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        match announced {
            Some(length) if length > limit => Err(Error::BatchTooLarge),
            _ if self.0.is_none() => Ok(0),
            announced => Ok(announced.unwrap_or(limit)),
        }
    }

    /// Returns the whole body, which the client has to send in time. It has at most as many bytes as memory was taken for.
    ///
    /// # Errors
    /// `RequestBodyTooLarge`, `OperationTimedOut`, `InvalidInput` for a broken body.
    pub async fn read(&mut self, length: usize, time: Duration) -> Result<Vec<u8>, Failure> {
        let Some(mut incoming) = self.0.take() else {
            return Ok(Vec::new());
        };
        let mut bytes = Buffer::within(length);
        let read = timeout(time, async {
            while let Some(frame) = incoming.frame().await {
                let frame = frame.map_err(|error| Error::MalformedJson {
                    reason: format!("The body cannot be read: {error}"),
                })?;
                let Ok(data) = frame.into_data() else { continue };
                bytes.push(&data).map_err(|Full| Error::BatchTooLarge)?;
            }
            Ok::<_, Error>(())
        });
        match read.await {
            Ok(Ok(())) => Ok(bytes.into_bytes()),
            Ok(Err(error)) => {
                self.0 = Some(incoming);
                Err(error.into())
            }
            Err(_) => Err(Error::from(RequestError::OperationTimedOut {
                reason: "The body did not arrive in time".to_owned(),
            })
            .into()),
        }
    }

    /// Reads the rest, within limits: a client that is still sending would not read the answer.
    pub async fn drain(self) {
        let Some(body) = self.0.filter(|body| !body.is_end_stream()) else {
            return;
        };
        let mut body = Limited::new(body, REMAINDER_BYTES);
        let _ = timeout(REMAINDER_TIME, async { while let Some(Ok(_)) = body.frame().await {} }).await;
    }
}
