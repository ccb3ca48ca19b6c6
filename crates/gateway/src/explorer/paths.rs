//! The paths of the explorer.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use table_service_connect::Certificates;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::answer::{Body, Problem, json};
use super::calls::CALLS;
use super::database::Databases;
use super::download::{Downloads, Wanted};
use super::token::Token;
use super::{guard, page};
use crate::config::{Config, ExplorerMode};
use crate::database::column;

/// The most bytes of a call: an entity of 1 MiB, in JSON in JSON, or many small ones.
const CALL_BYTES: usize = 8 * 1024 * 1024;
/// How long a call may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);
/// The most calls that are executed at a time. Others wait, when they have arrived: a client that sends slowly holds no place.
const CALLS_AT_ONCE: usize = 4;
/// The longest call that arrives beside any number of others, in bytes. The admin port has few connections.
const SHORT_BYTES: usize = 64 * 1024;
/// The most longer calls that arrive or are executed at a time, so that many take no more memory than a few. Others wait.
const LONG_CALLS: usize = 4;

/// The explorer.
pub struct Explorer {
    token: Token,
    databases: Arc<Databases>,
    downloads: Downloads,
    running: Semaphore,
    long: Semaphore,
}

impl Explorer {
    /// Makes it, with a new token. `None` if the configuration does not want it.
    ///
    /// # Errors
    /// Without random numbers, and for a database URL that needs TLS without certificates.
    pub fn new(config: &Config, certificates: &Certificates) -> Result<Option<Explorer>, String> {
        if config.explorer == ExplorerMode::Off {
            return Ok(None);
        }
        Ok(Some(Explorer {
            token: Token::new()?,
            databases: Arc::new(Databases::new(config, certificates)?),
            downloads: Downloads::default(),
            running: Semaphore::new(CALLS_AT_ONCE),
            long: Semaphore::new(LONG_CALLS),
        }))
    }

    /// Begins to look at the servers of databases that have several.
    pub fn start(&self) {
        self.databases.start();
    }

    /// The address of the page, with the token. Whoever has it may do what the explorer may do.
    pub fn address(&self, admin: SocketAddr) -> String {
        format!("http://{admin}/explorer#token={}", self.token.expose())
    }

    /// Answers a request for a path that is `/explorer` or begins with `/explorer/`.
    pub async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let answer = self.answer_or_refuse(request).await;
        answer.unwrap_or_else(|problem| problem.answer())
    }

    async fn answer_or_refuse(&self, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        let path = request.uri().path().to_owned();
        let path = path.strip_prefix("/explorer").unwrap_or_default();
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if let Some(name) = path
            .strip_prefix("/download/")
            .filter(|_| request.method() == Method::GET)
        {
            return self.downloads.begin(name).await;
        }
        if let Some(file) = page::file(path).filter(|_| reads) {
            return Ok(file);
        }
        let nowhere = || {
            Problem::new(
                StatusCode::NOT_FOUND,
                "ResourceNotFound",
                "There is nothing here.",
                None,
            )
        };
        let rest = path.strip_prefix("/api").ok_or_else(nowhere)?;
        if request.method() != Method::POST {
            let message = "The explorer is called with POST.";
            return Err(Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "UnsupportedHttpVerb",
                message,
                None,
            ));
        }
        guard::check(request.uri(), request.headers(), &self.token)?;
        if rest.is_empty() {
            return Ok(self.accounts());
        }
        let (account, name) = rest
            .strip_prefix('/')
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(nowhere)?;
        let (body, _long) = self.read(request.into_body()).await?;
        let place = self.running.acquire().await;
        if name == "export" {
            let wanted: Wanted = serde_json::from_slice(&body)
                .map_err(|error| Problem::input(format!("This cannot be exported: {error}")))?;
            // It can take long, page by page, so it keeps no call waiting.
            drop(place);
            let download = self.downloads.prepare(account, wanted, &self.databases).await?;
            let path = format!("/explorer/download/{download}");
            return Ok(json(serde_json::json!({ "path": path }).to_string()));
        }
        let call = CALLS.iter().find(|call| call.name == name).ok_or_else(nowhere)?;
        let parameters = parameters(&body, call.parameters)?;
        call.check(&parameters)?;
        let rows = self.databases.rows(account, call.sql, &parameters).await?;
        let Some(row) = rows.first() else {
            return Err(Problem::new(
                StatusCode::NOT_FOUND,
                "ResourceNotFound",
                "The specified resource does not exist.",
                None,
            ));
        };
        let text: crate::database::Json<'_> = column(row, 0).map_err(|failure| {
            Problem::new(
                failure.status(),
                failure.code.as_str(),
                failure.message,
                failure.hint.as_deref(),
            )
        })?;
        Ok(json(text.0.to_owned()))
    }

    /// Reads the body of a call. A long one takes a place among the long ones.
    async fn read(&self, body: Incoming) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>), Problem> {
        let mut body = Limited::new(body, CALL_BYTES);
        let (mut bytes, mut place) = (Vec::new(), None);
        let read = timeout(BODY_TIME, async {
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame?.into_data() else { continue };
                if place.is_none() && bytes.len() + data.len() > SHORT_BYTES {
                    place = Some(self.long.acquire().await?);
                }
                bytes.extend_from_slice(&data);
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
        match read.await {
            Ok(Ok(())) => Ok((bytes, place)),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestBodyTooLarge",
                "A call may have 8 MiB.",
                None,
            )),
            _ => Err(Problem::input("The body cannot be read.")),
        }
    }

    /// What the page has to know first.
    fn accounts(&self) -> Response<Body> {
        let known = serde_json::json!({
            "accounts": self.databases.names(),
            "canWrite": self.databases.mode() == ExplorerMode::Write,
            "version": env!("CARGO_PKG_VERSION"),
        });
        json(known.to_string())
    }
}

/// The values of a call's parameters, in their order, as texts.
fn parameters(body: &[u8], names: &[&str]) -> Result<Vec<Option<String>>, Problem> {
    let mut given: HashMap<String, Value> = serde_json::from_slice(body)
        .map_err(|error| Problem::input(format!("The body must be an object of JSON: {error}")))?;
    let mut values = Vec::with_capacity(names.len());
    for name in names {
        values.push(match given.remove(*name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            Some(_) => return Err(Problem::input(format!("{name} must be a text, a number or a boolean."))),
        });
    }
    match given.into_keys().next() {
        None => Ok(values),
        Some(other) => Err(Problem::input(format!("There is no parameter {other:?}."))),
    }
}
