//! Answers of the explorer.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use table_service_model::Code;

/// A body that is there, or one that is made while it is sent.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The rights of the page in a browser: to run its own scripts, and to call its own server. A value of an entity gets no other ones.
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

/// Why a call was not executed: an error of the service, as the page shows it.
#[derive(Debug, Serialize)]
pub struct Problem {
    #[serde(skip)]
    pub status: StatusCode,
    code: &'static str,
    message: String,
    /// Advice for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Problem {
    /// Makes a problem with the status that the service has for its code.
    pub fn new(code: Code, message: impl Into<String>, hint: Option<String>) -> Problem {
        let status = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Problem {
            status,
            code: code.as_str(),
            message: message.into(),
            hint,
        }
    }

    /// Makes a problem of a wrong argument.
    pub fn input(message: impl Into<String>) -> Problem {
        Problem::new(Code::InvalidInput, message, None)
    }

    /// Makes a problem that should not occur.
    pub fn internal(message: impl Into<String>) -> Problem {
        Problem::new(Code::InternalError, message, None)
    }

    /// Makes the problem of a path that does not exist.
    pub fn not_found(message: impl Into<String>) -> Problem {
        Problem::new(Code::ResourceNotFound, message, None)
    }

    /// Puts a sentence before the hint.
    #[must_use]
    pub fn with_hint(mut self, sentence: String) -> Problem {
        self.hint = Some(
            self.hint
                .map_or_else(|| sentence.clone(), |hint| format!("{sentence} {hint}")),
        );
        self
    }

    /// Returns the answer that the page shows as this problem.
    pub fn answer(&self) -> Response<Body> {
        let json = serde_json::json!({ "error": self });
        with(self.status, "application/json", full(json.to_string()))
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

/// Returns an answer in JSON.
pub fn json(answer: &impl Serialize) -> Response<Body> {
    let text = serde_json::to_vec(answer).unwrap_or_default();
    with(StatusCode::OK, "application/json", full(text))
}

/// A body that is there.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}
