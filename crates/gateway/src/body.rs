//! Receiving the body of a request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use table_service_model::Error;
use table_service_model::error::RequestError;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::request::header;
use crate::shares::Share;

/// What is read of a body that is not wanted, so that the client gets to read why.
const UNWANTED_BYTES: usize = 16 * 1024 * 1024;
const UNWANTED_TIME: Duration = Duration::from_secs(5);

/// A body that was not read yet, if there is one.
pub struct Pending(Option<Incoming>);

impl Pending {
    pub fn new(body: Incoming) -> Pending {
        Pending(Some(body).filter(|body| !body.is_end_stream()))
    }

    /// Whether the client still has to send something.
    pub fn is_expected(&self) -> bool {
        self.0.is_some()
    }

    /// The whole body, which the client has to send in time and within the limit. `memory` grows with what has arrived.
    ///
    /// # Errors
    /// `RequestBodyTooLarge`, `OperationTimedOut`, `ServerBusy` without memory, `InvalidInput` for a broken body.
    pub async fn read(
        &mut self,
        headers: &HeaderMap,
        limit: usize,
        time: Duration,
        memory: &mut Share,
    ) -> Result<Bytes, Failure> {
        let announced = header(headers, CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(Error::BatchTooLarge.into());
        }
        let Some(mut incoming) = self.0.take() else {
            return Ok(Bytes::new());
        };
        let mut bytes = BytesMut::new();
        let read = timeout(time, async {
            while let Some(frame) = incoming.frame().await {
                let frame = frame.map_err(|error| Error::MalformedJson {
                    reason: format!("The body cannot be read: {error}"),
                })?;
                let Ok(data) = frame.into_data() else { continue };
                if bytes.len() + data.len() > limit {
                    return Err(Error::BatchTooLarge);
                }
                if !memory.try_grow(data.len()) {
                    let reason = "The account has too many bodies and answers in memory".to_owned();
                    return Err(RequestError::ServerBusy { reason }.into());
                }
                bytes.extend_from_slice(&data);
            }
            Ok(())
        });
        match read.await {
            Ok(Ok(())) => Ok(bytes.freeze()),
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

    /// Reads what is left, within limits: a client that is still sending would not read our answer.
    pub async fn drain(self) {
        let Some(body) = self.0.filter(|body| !body.is_end_stream()) else {
            return;
        };
        let mut body = Limited::new(body, UNWANTED_BYTES);
        let _ = timeout(UNWANTED_TIME, async { while let Some(Ok(_)) = body.frame().await {} }).await;
    }
}
