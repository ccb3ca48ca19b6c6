//! The explorer: its paths, and their functions.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use postgres_types::Json;
use serde_json::Value;
use serde_json::value::RawValue;
use table_service_model::Code;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::answer::{Body, Problem, json};
use crate::calls::{CALLS, EXPORT, IMPORT, PREVIEW};
use crate::databases::{Databases, Taken, column};
use crate::download::{Downloads, ExportRequest};
use crate::import::ImportRequest;
use crate::preview::PreviewRequest;
use crate::token::Token;
use crate::{guard, page};

/// The most bytes of a call: an entity of 1 MiB, in JSON in JSON, or many small ones.
const CALL_BYTES: usize = 8 * 1024 * 1024;
/// The time in which a call has to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);
/// The most calls that run at a time. A call waits for its permit when its body has arrived, so slow clients hold none.
const RUNNING_CALLS: usize = 4;
/// A body beyond so many bytes needs a permit to arrive, because the admin port has few connections and little memory.
const SHORT_BYTES: usize = 64 * 1024;
/// The most calls with longer bodies at a time.
const LONG_CALLS: usize = 4;
/// The memory of a call with a longer body: so many times its length, for the body, the texts and entities in it, and the message to the
/// database, and the longest answer of a preview.
const COPIES: usize = 6;
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// The body of a call, of which the explorer reads as much as it takes.
pub type RequestBody<'a> = &'a mut (dyn hyper::body::Body<Data = Bytes, Error = hyper::Error> + Send + Unpin);

/// The explorer.
pub struct Explorer {
    token: Token,
    databases: Arc<dyn Databases>,
    /// `http` or `https`, and the address for clients.
    clients: String,
    downloads: Downloads,
    running: Semaphore,
    long: Semaphore,
}

impl Explorer {
    /// Makes an explorer of these databases, with a new token. Clients reach their accounts at `clients`, such as `http://127.0.0.1:10002`.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn new(databases: Arc<dyn Databases>, clients: String) -> Result<Explorer, String> {
        page::prepare();
        Ok(Explorer {
            token: Token::new()?,
            databases,
            clients,
            downloads: Downloads::default(),
            running: Semaphore::new(RUNNING_CALLS),
            long: Semaphore::new(LONG_CALLS),
        })
    }

    /// Returns the address of the page, with the token, which gives all rights of the explorer.
    pub fn address(&self, admin: SocketAddr) -> String {
        format!("http://{admin}/explorer#token={}", self.token.expose())
    }

    /// Answers a request for a path that is `/explorer` or begins with `/explorer/`.
    pub async fn answer(&self, head: &Parts, body: RequestBody<'_>) -> Response<Body> {
        let answer = self.answer_or_refuse(head, body).await;
        answer.unwrap_or_else(|problem| problem.answer())
    }

    async fn answer_or_refuse(&self, head: &Parts, body: RequestBody<'_>) -> Result<Response<Body>, Problem> {
        let path = head.uri.path().strip_prefix("/explorer").unwrap_or_default();
        let reads = matches!(head.method, Method::GET | Method::HEAD);
        if let Some(name) = path.strip_prefix("/download/").filter(|_| head.method == Method::GET) {
            return self.downloads.begin(name).await;
        }
        if let Some(file) = page::file(path, &head.headers).filter(|_| reads) {
            return Ok(file);
        }
        let rest = path.strip_prefix("/api").ok_or_else(no_path)?;
        if head.method != Method::POST {
            let message = "The explorer is called with POST.";
            return Err(Problem::new(Code::UnsupportedHttpVerb, message, None));
        }
        guard::check(&head.uri, &head.headers, &self.token)?;
        if rest.is_empty() {
            return Ok(self.accounts());
        }
        let (account, name) = rest
            .strip_prefix('/')
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(no_path)?;
        let (body, long) = self.read(account, body).await?;
        let (_permit, memory) = long.unzip();
        let answer = self.call(account, name, &body).await?;
        // The answer takes its part of the memory until it is written.
        Ok(answer.map(|body| holding(body, memory)))
    }

    /// Answers a call. Its body has arrived.
    async fn call(&self, account: &str, name: &str, body: &[u8]) -> Result<Response<Body>, Problem> {
        if name == EXPORT {
            let export: ExportRequest = serde_json::from_slice(body)
                .map_err(|error| Problem::input(format!("This cannot be exported: {error}")))?;
            // Without a permit: an export reads page by page, perhaps for long, and other calls need not wait for it.
            let download = self.downloads.prepare(account, export, &self.databases).await?;
            let path = format!("/explorer/download/{download}");
            return Ok(json(&serde_json::json!({ "path": path })));
        }
        if name == PREVIEW {
            let preview: PreviewRequest = serde_json::from_slice(body)
                .map_err(|error| Problem::input(format!("This cannot be shown: {error}")))?;
            return Ok(json(&preview.read()?));
        }
        let call = CALLS.iter().find(|call| call.name == name).ok_or_else(no_path)?;
        if name == IMPORT {
            let import: ImportRequest = serde_json::from_slice(body)
                .map_err(|error| Problem::input(format!("This cannot be imported: {error}")))?;
            let part = import.read()?;
            let written = self.run(account, call.sql, import.parameters(&part)).await;
            written.map_err(|problem| part.unwritten(problem))?;
            return Ok(json(&part));
        }
        let parameters = parameters(body, call.parameters)?;
        Ok(json(&self.run(account, call.sql, parameters).await?))
    }

    /// Runs the statement of a call. Returns its JSON.
    async fn run(
        &self,
        account: &str,
        sql: &'static str,
        parameters: Vec<Option<String>>,
    ) -> Result<Box<RawValue>, Problem> {
        let _permit = self.running.acquire().await;
        let rows = self.databases.rows(account, sql, parameters).await?;
        let row = rows
            .first()
            .ok_or_else(|| Problem::not_found("The specified resource does not exist."))?;
        let Json(value) = column::<Json<&RawValue>>(row, 0)?;
        Ok(value.to_owned())
    }

    /// Reads the body of a call. A long one takes a permit of the long ones, and memory.
    async fn read(
        &self,
        account: &str,
        body: RequestBody<'_>,
    ) -> Result<(Vec<u8>, Option<(SemaphorePermit<'_>, Taken)>), Problem> {
        let too_large = || Problem::new(Code::RequestBodyTooLarge, "A call may have 8 MiB.", None);
        let unreadable = || Problem::input("The body cannot be read.");
        let size = body.size_hint();
        if size.lower() > CALL_BYTES as u64 {
            return Err(too_large());
        }
        let most = size
            .exact()
            .and_then(|size| usize::try_from(size).ok())
            .unwrap_or(CALL_BYTES);
        let mut body = Limited::new(body, CALL_BYTES);
        let (mut bytes, mut long) = (Vec::new(), None);
        let read = timeout(BODY_TIME, async {
            while let Some(frame) = body.frame().await {
                let refused = |error: Box<dyn Error + Send + Sync>| match error.is::<LengthLimitError>() {
                    true => too_large(),
                    false => unreadable(),
                };
                let Ok(data) = frame.map_err(refused)?.into_data() else {
                    continue;
                };
                if long.is_none() && bytes.len() + data.len() > SHORT_BYTES {
                    let permit = self.long.acquire().await.map_err(|_| unreadable())?;
                    let memory = self.databases.memory(account, COPIES * most + ANSWER_BYTES).await?;
                    long = Some((permit, memory));
                    bytes.reserve_exact(most.saturating_sub(bytes.len()));
                }
                bytes.extend_from_slice(&data);
            }
            Ok(())
        });
        read.await.unwrap_or_else(|_| Err(unreadable()))?;
        Ok((bytes, long))
    }

    /// Returns the accounts, and whether the page may change them: the first call of the page.
    fn accounts(&self) -> Response<Body> {
        let accounts = self.databases.accounts();
        let names: Vec<&str> = accounts.iter().map(|account| account.name.as_str()).collect();
        let keys = accounts
            .iter()
            .filter_map(|account| Some((account.name.clone(), account.public_key?.into())));
        let keys: serde_json::Map<_, _> = keys.collect();
        json(&serde_json::json!({
            "accounts": names,
            "clients": self.clients,
            "keys": keys,
            "canWrite": self.databases.can_write(),
            "script": page::script_path(),
        }))
    }
}

fn no_path() -> Problem {
    Problem::not_found("The explorer has no such path.")
}

/// Lets an answer hold memory until it is written to the connection.
fn holding(body: Body, memory: Option<Taken>) -> Body {
    body.map_frame(move |frame| {
        let _held = &memory;
        frame
    })
    .boxed_unsync()
}

/// Returns the values of a call's parameters, in their order, as texts.
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
