//! A response: status, headers and body (semantics 3.4).

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, SERVER};
use http::{HeaderMap, StatusCode};
use hyper::ext::ReasonPhrase;
use table_service_model::Code;
use table_service_model::access::is_version;
use table_service_model::json::Metadata;

use crate::request::negotiation::{Prefer, content_type};

/// The header with the URL of the created resource, if the payload is left out.
pub const DATA_SERVICE_ID: HeaderName = HeaderName::from_static("dataserviceid");
/// The header with the preference that was respected.
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// The header that keeps browsers from guessing the type of a payload.
pub const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
const VERSION: HeaderName = HeaderName::from_static("x-ms-version");

/// The longest client request id that is returned, in bytes.
const CLIENT_REQUEST_ID_BYTES: usize = 1024;
/// The version in the response if the client names none.
const DEFAULT_VERSION: HeaderValue = HeaderValue::from_static("2019-02-02");
const SERVER_NAME: HeaderValue = HeaderValue::from_static("Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0");
/// About as many headers as a response has, so that their map does not have to grow.
const HEADERS: usize = 12;
/// The pause of a client before a retry, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// A response without the headers that all responses have.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The reason phrase, if it is not the standard one.
    pub reason: Option<ReasonPhrase>,
    /// The error in the response, for metrics and the log.
    pub error: Option<(Code, Option<String>)>,
    /// Whether the connection is closed instead of an answer. A hook decides that.
    pub is_none: bool,
}

impl Reply {
    /// Returns a response with a status alone.
    pub fn new(status: StatusCode) -> Reply {
        Reply {
            status,
            headers: HeaderMap::with_capacity(HEADERS),
            body: Bytes::new(),
            reason: None,
            error: None,
            is_none: false,
        }
    }

    /// No answer at all.
    pub fn none() -> Reply {
        Reply {
            error: Some((
                Code::ServerBusy,
                Some("An injected fault: the connection is closed".to_owned()),
            )),
            is_none: true,
            ..Reply::new(StatusCode::SERVICE_UNAVAILABLE)
        }
    }

    /// Returns an OData payload.
    pub fn json(status: StatusCode, metadata: Metadata, body: Vec<u8>) -> Reply {
        Reply::new(status)
            .with(CONTENT_TYPE, HeaderValue::from_static(content_type(metadata)))
            .of_data()
            .with_body(body)
    }

    /// Returns the response to a write that returns no data.
    pub fn no_content() -> Reply {
        Reply::new(StatusCode::NO_CONTENT).of_data()
    }

    /// Returns a document of XML.
    pub fn xml(body: String) -> Reply {
        Reply::new(StatusCode::OK)
            .with(CONTENT_TYPE, HeaderValue::from_static("application/xml"))
            .with_body(body)
    }

    /// Adds the headers of responses about tables and entities.
    pub fn of_data(self) -> Reply {
        self.with(CACHE_CONTROL, HeaderValue::from_static("no-cache"))
            .with(NOSNIFF, HeaderValue::from_static("nosniff"))
    }

    /// Adds a header.
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Reply {
        self.headers.insert(name, value);
        self
    }

    /// Adds a header with a value from the client. A value that no header can have is left out.
    pub fn with_text(self, name: HeaderName, value: &str) -> Reply {
        match HeaderValue::from_str(value) {
            Ok(value) => self.with(name, value),
            Err(_) => self,
        }
    }

    /// Adds the preference that was respected.
    pub fn with_preference(self, prefer: Option<Prefer>) -> Reply {
        match prefer {
            Some(prefer) => self.with(PREFERENCE_APPLIED, HeaderValue::from_static(prefer.as_str())),
            None => self,
        }
    }

    /// Adds the body. It has no spare capacity: its memory is its length.
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Reply {
        let mut body = body.into();
        body.shrink_to_fit();
        self.body = body.into();
        self
    }

    /// Adds the headers that all responses have.
    pub fn finish(mut self, id: uuid::Uuid, echo: Echo) -> Reply {
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            self.headers.insert(RETRY_AFTER, RETRY_SECONDS);
        }
        self.headers.insert(SERVER, SERVER_NAME);
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let id: &str = id.as_hyphenated().encode_lower(&mut text);
        if let Ok(id) = HeaderValue::from_str(id) {
            self.headers.insert(REQUEST_ID, id);
        }
        self.headers.insert(VERSION, echo.version);
        if let Some(id) = echo.client_request_id {
            self.headers.insert(CLIENT_REQUEST_ID, id);
        }
        self
    }
}

/// The headers of a request that its response repeats.
#[derive(Debug, Clone)]
pub struct Echo {
    version: HeaderValue,
    pub client_request_id: Option<HeaderValue>,
}

impl Echo {
    /// Takes them from the headers of a request.
    pub fn of(request: &HeaderMap) -> Echo {
        Echo {
            version: request
                .get(&VERSION)
                .filter(|version| is_version(version.as_bytes()))
                .cloned()
                .unwrap_or(DEFAULT_VERSION),
            client_request_id: request
                .get(&CLIENT_REQUEST_ID)
                .filter(|id| id.len() <= CLIENT_REQUEST_ID_BYTES)
                .cloned(),
        }
    }
}
