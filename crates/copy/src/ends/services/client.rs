//! Requests: signed, repeated while the service is away or busy.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use table_service_connect::{Certificates, is_refused_by_tls, with_sources};
use table_service_model::access::SignedRequest;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::ends::backoff::Backoff;
use crate::failure::Failure;
use crate::printable;

use super::answers::error_in;
use super::endpoint::{Credential, Endpoint};

/// The most bytes of an answer. One entity has about 3 MiB of JSON at most, and a caller can ask for fewer entities.
const LARGEST_ANSWER: usize = 4 << 20;
/// Answers up to this size are read at once; larger ones wait for a permit.
const SMALL_ANSWER: usize = 64 << 10;
/// The permits for large answers, of all clients: 64 MiB.
static LARGE_ANSWERS: Semaphore = Semaphore::const_new((64 << 20) / LARGEST_ANSWER);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a request is sent that the service answers with 500. Some services answer so to an entity that they cannot
/// take, and would do it for ever.
const TRIES_OF_500: u32 = 5;
const VERSION: &str = "2019-02-02";

/// The characters that are not escaped in a part of a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A text as a part of a URL.
pub fn escape(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// A key or a table's name in quotes, escaped for a URL.
pub fn quoted(text: &str) -> String {
    format!("%27{}%27", escape(&text.replace('\'', "''")))
}

/// A text as a literal of a filter.
pub fn filter_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A client of one endpoint.
#[derive(Clone)]
pub struct RestClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    endpoint: Endpoint,
    patience: Duration,
}

/// A request.
pub struct Call<'a> {
    pub method: Method,
    /// The path behind the account, escaped.
    pub resource: &'a str,
    /// The query, escaped, without the question mark.
    pub query: &'a str,
    pub content_type: &'a str,
    pub headers: &'a [(&'static str, &'static str)],
    pub if_match: Option<&'a str>,
    pub body: Bytes,
}

impl<'a> Call<'a> {
    /// Reads a resource.
    pub fn get(resource: &'a str, query: &'a str) -> Call<'a> {
        Call {
            method: Method::GET,
            resource,
            query,
            content_type: "",
            headers: &[("accept", "application/json;odata=minimalmetadata")],
            if_match: None,
            body: Bytes::new(),
        }
    }

    /// Writes one entity or table. The answer need not have its new state.
    pub fn write(method: Method, resource: &'a str, body: String) -> Call<'a> {
        Call {
            method,
            content_type: "application/json",
            headers: &[
                ("accept", "application/json;odata=nometadata"),
                ("prefer", "return-no-content"),
            ],
            body: Bytes::from(body),
            ..Call::get(resource, "")
        }
    }

    /// Deletes an entity in this version; `*` is any version.
    pub fn delete(resource: &'a str, etag: &'a str) -> Call<'a> {
        Call {
            method: Method::DELETE,
            if_match: Some(etag),
            ..Call::get(resource, "")
        }
    }
}

/// A response with its body.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether an earlier try may have had its effect although its answer did not come.
    pub ambiguous: bool,
    /// The permit of a large one.
    pub _permit: Option<SemaphorePermit<'static>>,
}

/// An error of the service.
#[derive(Debug, Clone)]
pub struct ServiceError {
    pub status: u16,
    pub code: String,
    pub message: String,
}

impl ServiceError {
    /// The error in one line.
    pub fn text(&self) -> String {
        match (self.code.as_str(), self.message.as_str()) {
            ("", "") => format!("HTTP status {}", self.status),
            ("", message) => printable::said(message),
            (code, message) => {
                let message = message.lines().next().unwrap_or_default();
                format!("{}: {}", printable::said(code), printable::said(message))
            }
        }
    }
}

impl Answer {
    /// A header that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The error in an answer that is no success.
    pub fn error(&self) -> ServiceError {
        let (code, message) = error_in(&self.body);
        ServiceError {
            status: self.status.as_u16(),
            code: code
                .or_else(|| self.header("x-ms-error-code").map(str::to_owned))
                .unwrap_or_default(),
            message,
        }
    }
}

impl RestClient {
    /// # Errors
    /// A system without certificates, if the endpoint needs them.
    pub fn new(endpoint: Endpoint, patience: Duration) -> Result<RestClient, Failure> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(Duration::from_secs(15)));
        let certificates = Certificates::read(None).map_err(Failure::new)?;
        if endpoint.origin.starts_with("https:") && certificates.is_empty() {
            return Err(Failure::new(
                "The system has no certificates to check the endpoint's with.",
            ));
        }
        let builder = HttpsConnectorBuilder::new().with_tls_config(certificates.client());
        let connector = builder.https_or_http().enable_http1().wrap_connector(http);
        Ok(RestClient {
            client: Client::builder(TokioExecutor::new()).build(connector),
            endpoint,
            patience,
        })
    }

    /// The endpoint, without its credentials.
    pub fn name(&self) -> String {
        self.endpoint.name()
    }

    /// The table that the endpoint's URL names.
    pub fn only_table(&self) -> Option<&str> {
        self.endpoint.table.as_deref()
    }

    /// The URL of a resource, as the requests within a batch have it.
    pub fn url(&self, resource: &str) -> String {
        format!("{}{}/{resource}", self.endpoint.origin, self.endpoint.prefix)
    }

    /// An error of the service for users.
    pub fn failure(&self, what: &str, error: &ServiceError) -> Failure {
        Failure::new(format!("{}: {what}: {}", self.name(), error.text()))
    }

    /// Sends a request until the service answers it with something else than a passing error, or often enough with 500.
    ///
    /// # Errors
    /// A service that stays away, with the last reason; an answer that is too large.
    pub async fn send(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        self.reply(call).await?.ok_or_else(|| self.too_large())
    }

    /// The failure of an answer that is larger than [`LARGEST_ANSWER`].
    pub fn too_large(&self) -> Failure {
        let most = LARGEST_ANSWER >> 20;
        Failure::new(format!("{}: an answer is larger than {most} MiB.", self.name()))
    }

    /// Returns an answer that is a success. Another one becomes an error that names its subject.
    pub fn succeeded(&self, answer: Answer, what: &str) -> Result<Answer, Failure> {
        match answer.status.is_success() {
            true => Ok(answer),
            false => Err(self.failure(what, &answer.error())),
        }
    }

    /// An answer that is not of the protocol.
    pub fn unreadable(&self, error: &serde_json::Error) -> Failure {
        let error = printable::said(&error.to_string());
        Failure::new(format!("{}: an answer cannot be read: {error}", self.name()))
    }

    /// Reads the JSON of an answer.
    pub fn parse<'a, T: Deserialize<'a>>(&self, answer: &'a Answer) -> Result<T, Failure> {
        serde_json::from_slice(&answer.body).map_err(|error| self.unreadable(&error))
    }

    /// As [`RestClient::send`], for callers that can ask for fewer entities: `None` is a larger answer.
    ///
    /// # Errors
    /// A service that stays away, with the last reason.
    pub async fn reply(&self, call: &Call<'_>) -> Result<Option<Answer>, Failure> {
        let mut backoff = Backoff::new(self.patience);
        let mut ambiguous = false;
        let mut internal_errors = 0;
        loop {
            let tried = tokio::time::timeout(REQUEST_TIMEOUT, self.try_send(call)).await;
            let (reason, retry_after) = match tried {
                Ok(Ok(mut answer)) => {
                    internal_errors += u32::from(answer.status == StatusCode::INTERNAL_SERVER_ERROR);
                    if !is_passing(answer.status) || internal_errors == TRIES_OF_500 {
                        answer.ambiguous = ambiguous;
                        return Ok(Some(answer));
                    }
                    // A 500 can come after the work was done.
                    ambiguous |= answer.status != StatusCode::SERVICE_UNAVAILABLE;
                    let retry_after = answer.header("retry-after").and_then(|seconds| seconds.parse().ok());
                    (answer.error().text(), retry_after.map(Duration::from_secs))
                }
                Ok(Err(Unsent::TooLarge)) => return Ok(None),
                Ok(Err(Unsent::ForEver(reason))) => return Err(Failure::new(format!("{}: {reason}", self.name()))),
                Ok(Err(Unsent::ForNow(reason))) => {
                    ambiguous = true;
                    (reason, None)
                }
                Err(_) => {
                    ambiguous = true;
                    ("it does not answer in time".to_owned(), None)
                }
            };
            let reason = format!("{}: {reason}", self.name());
            if !backoff.wait(retry_after, &reason).await {
                return Err(Failure::new(reason));
            }
        }
    }

    async fn try_send(&self, call: &Call<'_>) -> Result<Answer, Unsent> {
        let path = format!("{}/{}", self.endpoint.prefix, call.resource);
        let date = OffsetDateTime::now_utc()
            .format(&Rfc2822)
            .map_err(|error| Unsent::ForEver(error.to_string()))?
            .replace("+0000", "GMT");
        let mut query = call.query.to_owned();
        let mut authorization = None;
        match &self.endpoint.credential {
            Credential::Sas(sas) => {
                if !query.is_empty() {
                    query.push('&');
                }
                query.push_str(sas.expose());
            }
            Credential::Key(account) => {
                let signed = SignedRequest {
                    verb: call.method.as_str(),
                    content_md5: "",
                    content_type: call.content_type,
                    date: &date,
                    path: &path,
                    comp: call.query.split('&').find_map(|pair| pair.strip_prefix("comp=")),
                };
                authorization = Some(signed.authorization(account, false));
            }
        }
        let separator = if query.is_empty() { "" } else { "?" };
        let uri = format!("{}{path}{separator}{query}", self.endpoint.origin);
        let mut request = Request::builder()
            .method(&call.method)
            .uri(uri)
            .header("x-ms-date", date)
            .header("x-ms-version", VERSION)
            .header("user-agent", concat!("table-service-copy/", env!("CARGO_PKG_VERSION")))
            .header("dataserviceversion", "3.0;NetFx")
            .header("maxdataserviceversion", "3.0;NetFx");
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        if !call.content_type.is_empty() {
            request = request.header("content-type", call.content_type);
        }
        for (name, value) in call.headers {
            request = request.header(*name, *value);
        }
        if let Some(etag) = call.if_match {
            request = request.header("if-match", etag);
        }
        // The text of these errors has no URL in it, so no signature.
        let request = request
            .body(Full::new(call.body.clone()))
            .map_err(|_| Unsent::ForEver("the request cannot be made of these keys".to_owned()))?;
        let response = self.client.request(request).await.map_err(|error| Unsent::of(&error))?;
        let (head, body) = response.into_parts();
        let (body, permit) = read_body(body).await?;
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
            ambiguous: false,
            _permit: permit,
        })
    }
}

/// Reads a body. A large one takes a permit first.
async fn read_body(mut body: Incoming) -> Result<(Bytes, Option<SemaphorePermit<'static>>), Unsent> {
    let mut permit = None;
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Unsent::ForNow(with_sources(&error)))?;
        let Some(data) = frame.data_ref() else { continue };
        let length = bytes.len() + data.len();
        if length > LARGEST_ANSWER {
            return Err(Unsent::TooLarge);
        }
        if length > SMALL_ANSWER && permit.is_none() {
            let acquired = LARGE_ANSWERS.acquire().await;
            permit = Some(acquired.map_err(|error| Unsent::ForEver(error.to_string()))?);
            bytes.reserve_exact(LARGEST_ANSWER - bytes.len());
        }
        bytes.extend_from_slice(data);
    }
    Ok((Bytes::from(bytes), permit))
}

/// Why a request has no answer.
enum Unsent {
    TooLarge,
    /// A retry may help.
    ForNow(String),
    ForEver(String),
}

impl Unsent {
    fn of(error: &hyper_util::client::legacy::Error) -> Unsent {
        let reason = with_sources(error);
        if is_refused_by_tls(error) {
            Unsent::ForEver(reason)
        } else {
            Unsent::ForNow(reason)
        }
    }
}

fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped() {
        assert_eq!(quoted("O'B %é"), "%27O%27%27B%20%25%C3%A9%27");
    }
}
