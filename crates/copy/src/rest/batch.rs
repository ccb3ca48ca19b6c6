//! Entity group transactions as multipart bodies.

use std::fmt::Write;

use http::Method;

use super::answers::error_in;
use super::client::{Answer, ServiceError};

/// One operation of a batch.
pub struct Operation {
    pub method: Method,
    pub url: String,
    pub body: String,
    /// The version that it is for. An operation with a body has none.
    pub if_match: Option<String>,
}

/// The body of a batch; `id` makes its boundaries.
pub fn body(id: &str, operations: &[&Operation]) -> String {
    let mut body = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        body,
        "--batch_{id}\r\nContent-Type: multipart/mixed; boundary=changeset_{id}\r\n\r\n"
    );
    for operation in operations {
        let own = match &operation.if_match {
            Some(etag) => format!("If-Match: {etag}\r\n"),
            None => "Content-Type: application/json\r\nPrefer: return-no-content\r\n".to_owned(),
        };
        let _ = write!(
            body,
            "--changeset_{id}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             {} {} HTTP/1.1\r\n{own}Accept: application/json;odata=minimalmetadata\r\n\
             DataServiceVersion: 3.0;\r\n\r\n{}\r\n",
            operation.method, operation.url, operation.body
        );
    }
    let _ = write!(body, "--changeset_{id}--\r\n--batch_{id}--\r\n");
    body
}

/// What a batch of so many operations has come to: nothing if all succeeded.
pub fn result(answer: &Answer, operations: usize) -> Result<(), ServiceError> {
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
        // The body stands between the blank line and the next boundary.
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
