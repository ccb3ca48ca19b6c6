//! One request after the other through its stages: head, account, operation, credentials, body, execution, answer. Each
//! stage can end it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use table_service_model::error::RequestError;
use table_service_model::json::Metadata;
use table_service_model::{Code, Error};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::account::Tenants;
use crate::auth::{Bearer, authenticate};
use crate::cors;
use crate::database::Session;
use crate::failure::Failure;
use crate::observe::{self, Event, Metrics, Outcome};
use crate::operations::{self, Context};
use crate::request::forwarded::TrustedProxies;
use crate::request::negotiation::{Prefer, accepted};
use crate::request::operation::Operation;
use crate::request::resource::Resource;
use crate::request::target::Target;
use crate::request::{Head, Peer, header};
use crate::response::error::{self, Form};
use crate::response::odata::Base;
use crate::response::{Echo, Reply};

/// What is read of a body that is not wanted, so that the client gets to read why.
const UNWANTED_BYTES: usize = 16 * 1024 * 1024;
const UNWANTED_TIME: Duration = Duration::from_secs(5);

/// How long everything may take.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// The operation, from the head of the request to the last answer of the database.
    pub request: Duration,
    pub body: Duration,
}

/// Everything that requests have in common.
pub struct Gateway {
    pub tenants: Tenants,
    pub bearer: Option<Bearer>,
    pub metrics: Metrics,
    /// How many requests may be served at a time, and how many more may be now.
    pub max_requests: usize,
    pub permits: Semaphore,
    pub limits: TimeLimits,
    pub proxies: TrustedProxies,
}

impl Gateway {
    /// Answers a request. What it has begun it finishes, even if the client does not wait for it.
    pub async fn serve(self: Arc<Self>, peer: Peer, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let id = Uuid::new_v4();
        let event = Event::begin(id);
        let (parts, body) = request.into_parts();
        let echo = Echo::of(&parts.headers);
        let peer = self.proxies.client(peer, &parts.headers);
        let form = Form::of_query(parts.uri.query().unwrap_or_default());
        match Head::read(id, peer, parts) {
            Ok(head) => {
                let (gateway, repeated) = (self.clone(), echo.clone());
                let served = tokio::spawn(async move {
                    let mut event = event;
                    let reply = gateway.respond(&head, body, &mut event).await;
                    gateway.finish(reply, &event, repeated)
                });
                // If it panicked, the connection and all others go on.
                served.await.unwrap_or_else(|fault| {
                    let reason = fault.to_string();
                    let reply = plain_error(RequestError::Internal { reason }.into(), form, id);
                    self.finish(reply, &Event::begin(id), echo)
                })
            }
            Err(error) => self.finish(plain_error(error.into(), form, id), &event, echo),
        }
    }

    /// Adds what all answers have, and tells the metrics and the log.
    fn finish(&self, reply: Reply, event: &Event, echo: Echo) -> Response<Full<Bytes>> {
        let outcome = Outcome {
            status: reply.status,
            error: reply.error.as_ref().map(|(code, hint)| (*code, hint.as_deref())),
            response_bytes: reply.body.len(),
            duration: event.started.elapsed(),
            client_request_id: echo.client_request_id.as_ref(),
        };
        observe::record(&self.metrics, event, &outcome);
        into_http(reply.finish(event.id, echo))
    }

    async fn respond(&self, head: &Head, body: Incoming, event: &mut Event) -> Reply {
        let _active = Active::begin(&self.metrics);
        let mut body = Some(body);
        let accepted = accepted(head.query.get("$format"), head.header("accept"));
        let form = match &accepted {
            _ if is_xml(head) => Form::Xml,
            Ok(metadata) => Form::Json(*metadata),
            // Who takes Atom alone reads XML.
            Err(RequestError::AtomFormatNotSupported) => Form::Xml,
            Err(_) => Form::Json(Metadata::Minimal),
        };
        let mut prefer = Prefer::parse(head.header("prefer"));
        let result = self.stages(head, &mut body, event, accepted, &mut prefer).await;
        if let Some(body) = body
            && !head.headers.contains_key("expect")
        {
            drain(body).await;
        }
        let reply = match result {
            Ok(reply) => reply,
            Err(failure) => self.refuse(&failure, form, prefer, head.id),
        };
        self.for_browsers(head, reply).await
    }

    fn refuse(&self, failure: &Failure, form: Form, prefer: Option<Prefer>, id: Uuid) -> Reply {
        let reply = error::reply(failure, form, prefer, id);
        match &self.bearer {
            // SDKs learn from it where they get a token.
            Some(bearer) if failure.code == Code::NoAuthenticationInformation => {
                reply.with_text(WWW_AUTHENTICATE, &bearer.challenge())
            }
            _ => reply,
        }
    }

    async fn for_browsers(&self, head: &Head, reply: Reply) -> Reply {
        let is_asked = head.headers.contains_key("origin") || head.sent_method == Method::GET;
        // A database that does not answer is not asked again.
        if !is_asked || head.method == Method::OPTIONS || reply.status.is_server_error() {
            return reply;
        }
        let target = Target::parse(&head.host, &head.path);
        let Some(tenant) = target.and_then(|target| self.tenants.get(target.account)) else {
            return reply;
        };
        let session = Session::new(&tenant.database, Instant::now() + self.limits.request);
        cors::decorate(&tenant.cors, &session, head, reply).await
    }

    async fn stages(
        &self,
        head: &Head,
        body: &mut Option<Incoming>,
        event: &mut Event,
        accepted: Result<Metadata, RequestError>,
        prefer: &mut Option<Prefer>,
    ) -> Result<Reply, Failure> {
        let target = Target::parse(&head.host, &head.path).ok_or(RequestError::UriInvalid)?;
        let tenant = self
            .tenants
            .get(target.account)
            .ok_or_else(|| Error::AuthenticationFailed {
                reason: "There is no such account here".to_owned(),
            })?;
        event.account = target.account.to_owned();
        let time_limit = head
            .timeout()?
            .map_or(self.limits.request, |given| given.min(self.limits.request));
        let session = Session::new(&tenant.database, Instant::now() + time_limit);
        if head.method == Method::OPTIONS {
            event.operation = "Preflight";
            return cors::preflight(&tenant.cors, &session, head).await;
        }

        let resource = Resource::parse(target.path)?;
        let operation = Operation::read(&head.method, resource, &head.query)?;
        event.operation = operation.name();
        *prefer = prefer.filter(|_| operation.has_preference());

        let _permit = self.permits.try_acquire().map_err(|_| {
            Error::from(RequestError::ServerBusy {
                reason: "As many requests are served as may be at a time".to_owned(),
            })
        })?;
        let grant = authenticate(tenant, &session, self.bearer.as_ref(), head).await?;
        if let Some(permission) = operation.permission(head.headers.contains_key("if-match")) {
            grant.permits(permission, operation.table())?;
        }
        // Only those who may ask have a part in what is hot.
        event.table = operation.table().unwrap_or_default().to_owned();
        event.partition = operation.address().map(|address| address.partition_key.clone());
        check_endpoint(&operation, target.secondary)?;
        let metadata = match operation {
            // In a batch the Accept of each part counts, and that of the whole does not.
            Operation::Batch => accepted.unwrap_or(Metadata::Minimal),
            _ if is_xml(head) => Metadata::Minimal,
            _ => accepted?,
        };

        let bytes = self.read_body(body, &head.headers, operation.body_limit()).await?;
        event.request_bytes = bytes.len();
        let context = Context {
            tenant,
            session,
            grant: &grant,
            head,
            base: base(head, &target),
            metadata,
            prefer: *prefer,
            partition: OnceLock::new(),
        };
        let result = operations::execute(&context, &operation, bytes).await;
        if let Some((table, partition)) = context.partition.into_inner() {
            event.table = table;
            event.partition = Some(partition);
        }
        result
    }

    /// The body, which the client has to send in time and within the limit.
    async fn read_body(
        &self,
        body: &mut Option<Incoming>,
        headers: &HeaderMap,
        limit: usize,
    ) -> Result<Bytes, Failure> {
        let announced = header(headers, "content-length").and_then(|length| length.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(Error::BatchTooLarge.into());
        }
        let Some(mut incoming) = body.take() else {
            return Ok(Bytes::new());
        };
        let mut bytes = BytesMut::with_capacity(announced.unwrap_or_default());
        let read = timeout(self.limits.body, async {
            while let Some(frame) = incoming.frame().await {
                let frame = frame.map_err(|error| Error::MalformedJson {
                    reason: format!("The body cannot be read: {error}"),
                })?;
                if let Ok(data) = frame.into_data() {
                    bytes.extend_from_slice(&data);
                }
                if bytes.len() > limit {
                    return Err(Error::BatchTooLarge);
                }
            }
            Ok(())
        });
        match read.await {
            Ok(Ok(())) => Ok(bytes.freeze()),
            Ok(Err(error)) => {
                *body = Some(incoming);
                Err(error.into())
            }
            Err(_) => Err(Error::from(RequestError::OperationTimedOut {
                reason: "The body did not arrive in time".to_owned(),
            })
            .into()),
        }
    }
}

/// Counts a request while it is served.
struct Active<'a>(&'a Metrics);

impl<'a> Active<'a> {
    fn begin(metrics: &'a Metrics) -> Active<'a> {
        metrics.active_requests.inc();
        Active(metrics)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.active_requests.dec();
    }
}

/// Whether the operation speaks XML, whatever the client accepts.
fn is_xml(head: &Head) -> bool {
    head.query.get("comp") == Some("acl") || head.query.get("restype") == Some("service")
}

/// The secondary endpoint reads, and it alone knows how far behind it is.
fn check_endpoint(operation: &Operation, secondary: bool) -> Result<(), Error> {
    if secondary && !operation.reads() {
        return Err(RequestError::WriteOnSecondary.into());
    }
    if !secondary && *operation == Operation::GetServiceStats {
        return Err(RequestError::QueryParameterInvalid { name: "comp" }.into());
    }
    Ok(())
}

fn base(head: &Head, target: &Target<'_>) -> Base {
    let scheme = if head.peer.https { "https" } else { "http" };
    let host = &head.host;
    let secondary = if target.secondary { "-secondary" } else { "" };
    let account = target.account;
    Base {
        url: if target.path_style {
            format!("{scheme}://{host}/{account}{secondary}")
        } else {
            format!("{scheme}://{host}")
        },
        account: account.to_owned(),
    }
}

/// Reads what is left of a body, within limits: a client that is still sending would not read our answer.
async fn drain(body: Incoming) {
    if body.is_end_stream() {
        return;
    }
    let mut body = Limited::new(body, UNWANTED_BYTES);
    let _ = timeout(UNWANTED_TIME, async { while let Some(Ok(_)) = body.frame().await {} }).await;
}

fn plain_error(error: Error, form: Form, id: Uuid) -> Reply {
    error::reply(&error.into(), form, None, id)
}

fn into_http(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    if let Some(reason) = reply.reason {
        response.extensions_mut().insert(reason);
    }
    response
}
