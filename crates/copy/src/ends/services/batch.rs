//! Entity group transactions as multipart bodies.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::AddAssign;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::Method;
use table_service_model::limits;

use crate::failure::Failure;

use super::answers::error_in;
use super::client::{Answer, Call, RestClient, ServiceError};

/// One operation of a batch.
pub struct Operation {
    pub method: Method,
    /// The path behind the account, escaped.
    pub resource: String,
    pub body: String,
    /// The version that it is for. An operation with a body has none.
    pub if_match: Option<String>,
}

/// How many batches one lane has under way.
pub const AT_ONCE: usize = 4;
/// The most bytes of a batch's body; the headers of its parts come on top.
const BYTES: usize = limits::BATCH_BYTES * 3 / 4;

/// Groups operations by their partitions, within the limits of a batch. `measure` gives the partition and the bytes of one.
pub fn groups<T>(operations: Vec<T>, measure: impl Fn(&T) -> (&str, usize)) -> Vec<Vec<T>> {
    let mut open: HashMap<String, (Vec<T>, usize)> = HashMap::new();
    let mut full = Vec::new();
    for operation in operations {
        let (partition, bytes) = measure(&operation);
        let (batch, size) = open.entry(partition.to_owned()).or_default();
        if batch.len() == limits::BATCH_OPERATIONS || (*size + bytes > BYTES && !batch.is_empty()) {
            full.push(std::mem::take(batch));
            *size = 0;
        }
        *size += bytes;
        batch.push(operation);
    }
    full.extend(open.into_values().map(|(batch, _)| batch));
    full
}

/// Sends a batch. Returns its result, and whether an earlier try may have had its effect.
pub async fn send(client: &RestClient, operations: &[&Operation]) -> Result<(Result<(), ServiceError>, bool), Failure> {
    let id = uuid::Uuid::new_v4().to_string();
    let content_type = format!("multipart/mixed; boundary=batch_{id}");
    let call = Call {
        method: Method::POST,
        content_type: &content_type,
        headers: &[("accept", "multipart/mixed")],
        body: Bytes::from(body(client, &id, operations)),
        ..Call::get("$batch", "")
    };
    let answer = client.send(&call).await?;
    Ok((result(&answer, operations.len()), answer.ambiguous))
}

/// Writes or deletes several at a time. Returns the sum of the results.
pub async fn at_once<T, F, S>(all: Vec<T>, write: impl Fn(T) -> F) -> Result<S, Failure>
where
    F: Future<Output = Result<S, Failure>>,
    S: Default + AddAssign,
{
    let mut sum = S::default();
    let mut writes = stream::iter(all).map(write).buffer_unordered(AT_ONCE);
    while let Some(result) = writes.next().await {
        sum += result?;
    }
    Ok(sum)
}

/// The body of a batch; `id` makes its boundaries.
fn body(client: &RestClient, id: &str, operations: &[&Operation]) -> String {
    let mut body = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        body,
        "--batch_{id}\r\nContent-Type: multipart/mixed; boundary=changeset_{id}\r\n\r\n"
    );
    for operation in operations {
        // MERGE is for batches: emulators know PATCH outside of them as the service does.
        let method = match operation.method {
            Method::PATCH => "MERGE",
            ref method => method.as_str(),
        };
        let own = match &operation.if_match {
            Some(etag) => format!("If-Match: {etag}\r\n"),
            None => "Content-Type: application/json\r\nPrefer: return-no-content\r\n".to_owned(),
        };
        let _ = write!(
            body,
            "--changeset_{id}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             {} {} HTTP/1.1\r\n{own}Accept: application/json;odata=minimalmetadata\r\n\
             DataServiceVersion: 3.0;\r\n\r\n{}\r\n",
            method,
            client.url(&operation.resource),
            operation.body
        );
    }
    let _ = write!(body, "--changeset_{id}--\r\n--batch_{id}--\r\n");
    body
}

/// The outcome of a batch of so many operations: nothing if all succeeded.
fn result(answer: &Answer, operations: usize) -> Result<(), ServiceError> {
    if answer.status.as_u16() != 202 {
        return Err(answer.error());
    }
    let succeeded = parts(&answer.body)?;
    if succeeded == operations {
        return Ok(());
    }
    Err(ServiceError {
        status: 0,
        code: String::new(),
        message: format!("a batch of {operations} changes was answered with {succeeded}"),
    })
}

/// How many operations have succeeded, if none has failed.
pub fn parts(body: &[u8]) -> Result<usize, ServiceError> {
    let text = String::from_utf8_lossy(body);
    let mut succeeded = 0;
    for part in text.split("HTTP/1.1 ").skip(1) {
        let status: u16 = part.get(..3).and_then(|status| status.parse().ok()).unwrap_or(0);
        if (200..300).contains(&status) {
            succeeded += 1;
            continue;
        }
        // The body is between the blank line and the next boundary.
        let body = part.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let body = body.split("\r\n--").next().unwrap_or_default();
        let (code, message) = error_in(body.trim().as_bytes());
        return Err(ServiceError {
            status,
            code: code.unwrap_or_default(),
            message,
        });
    }
    Ok(succeeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &'static str) -> Answer {
        Answer {
            status: http::StatusCode::ACCEPTED,
            headers: http::HeaderMap::new(),
            body: body.into(),
            ambiguous: false,
            _permit: None,
        }
    }

    #[test]
    fn answers_to_batches() {
        let good = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/\"x\"\r\n\r\n\r\n--c\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\r\n--c--\r\n--b--";
        assert!(result(&answer(good), 2).is_ok());
        assert!(result(&answer(good), 3).is_err());
        let bad = "--b\r\n\r\n--c\r\n\r\nHTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n\r\n{\"odata.error\":{\"code\":\"EntityAlreadyExists\",\"message\":{\"lang\":\"en-US\",\"value\":\"3:The specified entity already exists.\"}}}\r\n--c--\r\n--b--";
        let error = result(&answer(bad), 2);
        assert_eq!(
            error.err().map(|e| (e.status, e.code)),
            Some((409, "EntityAlreadyExists".to_owned()))
        );
    }
}
