//! Answers of the explorer.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde::Serialize;

/// A body that is there, or one that is made while it is sent.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What the page may do in a browser: run its own scripts, and call its own server. Nothing else, whatever an entity holds.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'";

const HEADERS: [(HeaderName, &str); 6] = [
    (http::header::CONTENT_SECURITY_POLICY, POLICY),
    (http::header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (http::header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (CACHE_CONTROL, "no-store"),
];

/// Why a call was not executed.
#[derive(Debug, Serialize)]
pub struct Problem {
    #[serde(skip)]
    pub status: StatusCode,
    /// A code of the service.
    code: String,
    message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Problem {
    pub fn new(status: StatusCode, code: impl Into<String>, message: impl Into<String>, hint: Option<&str>) -> Problem {
        Problem {
            status,
            code: code.into(),
            message: message.into(),
            hint: hint.map(str::to_owned),
        }
    }

    /// What the caller has got wrong.
    pub fn input(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "InvalidInput", message, None)
    }

    pub fn answer(&self) -> Response<Body> {
        #[derive(Serialize)]
        struct Wrapper<'a> {
            error: &'a Problem,
        }
        let json = serde_json::to_string(&Wrapper { error: self }).unwrap_or_default();
        with(self.status, "application/json", full(json))
    }
}

/// An answer with the headers that all have.
pub fn with(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

pub fn json(text: impl Into<Bytes>) -> Response<Body> {
    with(StatusCode::OK, "application/json", full(text))
}

/// A body that is there.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}
