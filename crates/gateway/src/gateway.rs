//! Takes a request through its stages: head, account, operation, credentials, body, faults, execution, response. Each stage
//! can end it.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, EXPECT, HeaderValue, IF_MATCH, ORIGIN, WWW_AUTHENTICATE};
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use table_service_model::error::RequestError;
use table_service_model::json::Metadata;
use table_service_model::{Code, Error};
use tokio::time::Instant;
use uuid::Uuid;

use crate::account::{Tenant, Tenants};
use crate::auth::{authenticate, refuse_unknown_account};
use crate::body::Pending;
use crate::cors::{self, Preflight};
use crate::database::{Endpoint, Session};
use crate::failure::Failure;
use crate::faults::{Asked, Faults};
use crate::needs::Need;
use crate::observe::{self, Event, Metrics, Outcome};
use crate::operations::{self, Context};
use crate::request::forwarded::TrustedProxies;
use crate::request::negotiation::{Prefer, accepted};
use crate::request::operation::Operation;
use crate::request::resource::Resource;
use crate::request::target::Target;
use crate::request::{Head, Peer, Trace};
use crate::response::error::{self, Form};
use crate::response::odata::Base;
use crate::response::{Echo, Reply};
use crate::shares::{Share, Shares};
use crate::uncancelled::Uncancelled;

/// Time limits.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// From the head of the request to the last result of the database.
    pub request: Duration,
    pub body: Duration,
    /// How long a request waits for memory.
    pub memory: Duration,
}

/// Everything that requests have in common.
pub struct Gateway {
    pub tenants: Tenants,
    pub metrics: Metrics,
    /// Places for requests. A request takes its place when it can run, so a client that sends slowly holds none.
    pub places: Arc<Shares>,
    /// Memory for bodies that have arrived and responses that clients have not taken, in bytes.
    pub memory: Arc<Shares>,
    pub limits: TimeLimits,
    pub proxies: TrustedProxies,
    /// Faults that an emulator injects. A gateway has none.
    pub faults: Faults,
}

impl Gateway {
    /// Answers a request. A request that has begun is finished even if its client disconnects.
    pub async fn serve(self: Arc<Self>, peer: Peer, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let id = Uuid::new_v4();
        let (parts, body) = request.into_parts();
        let mut event = Event::begin(id);
        event.trace = Trace::of(&parts.headers);
        let echo = Echo::of(&parts.headers);
        let peer = self.proxies.client(peer, &parts.headers);
        let form = Form::of_query(parts.uri.query().unwrap_or_default());
        match Head::read(id, peer, parts) {
            Ok(head) => {
                let (gateway, repeated) = (self.clone(), echo.clone());
                let served = Uncancelled::new(async move {
                    let mut event = event;
                    let target = Target::parse(&head.host, &head.path);
                    let reply = gateway.respond(&head, target.as_ref(), body, &mut event).await;
                    let tenant = target.and_then(|target| gateway.tenants.get(target.account));
                    gateway.finish(reply, &event, repeated, tenant.map(|tenant| (&head, tenant)))
                });
                // After a panic the connection and all other requests go on.
                served.await.unwrap_or_else(|panic| {
                    let reason = panic_text(panic.as_ref());
                    let reply = plain_error(RequestError::Internal { reason }.into(), form, id);
                    self.finish(reply, &Event::begin(id), echo, None)
                })
            }
            Err(error) => {
                let mut refused = self.finish(plain_error(error.into(), form, id), &event, echo, None);
                // What stands behind it may be its body or another request.
                let close = HeaderValue::from_static("close");
                refused.headers_mut().insert(CONNECTION, close);
                refused
            }
        }
    }

    /// Adds the common headers, and to an answer of an account those for browsers; counts the request and logs it.
    fn finish(
        &self,
        reply: Reply,
        event: &Event,
        echo: Echo,
        asked: Option<(&Head, &Arc<Tenant>)>,
    ) -> Response<Full<Bytes>> {
        let outcome = Outcome {
            status: reply.status,
            error: reply.error.as_ref().map(|(code, hint)| (*code, hint.as_deref())),
            response_bytes: reply.body.len(),
            duration: event.started.elapsed(),
            client_request_id: echo.client_request_id.as_ref(),
        };
        observe::record(&self.metrics, event, &outcome);
        let reply = reply.finish(event.id, echo);
        into_http(match asked {
            Some((head, tenant)) => for_browsers(head, tenant, reply),
            None => reply,
        })
    }

    async fn respond(&self, head: &Head, target: Option<&Target<'_>>, body: Incoming, event: &mut Event) -> Reply {
        let _active = Active::begin(&self.metrics);
        let mut body = Pending::new(body);
        let accepted = accepted(head.query.get("$format"), head.header(ACCEPT));
        let form = match &accepted {
            _ if is_xml(head) => Form::Xml,
            Ok(metadata) => Form::Json(*metadata),
            // A client that accepts only Atom reads XML.
            Err(RequestError::AtomFormatNotSupported) => Form::Xml,
            Err(_) => Form::Json(Metadata::Minimal),
        };
        let mut prefer = Prefer::parse(head.header("prefer"));
        let result = self.stages(head, target, &mut body, event, accepted, &mut prefer).await;
        if !head.headers.contains_key(EXPECT) {
            body.drain().await;
        }
        result.unwrap_or_else(|failure| self.refuse(&failure, form, prefer, head, target))
    }

    fn refuse(
        &self,
        failure: &Failure,
        form: Form,
        prefer: Option<Prefer>,
        head: &Head,
        target: Option<&Target<'_>>,
    ) -> Reply {
        let reply = error::reply(failure, form, prefer, head.id);
        match target.and_then(|target| self.tenants.challenger(target.account)) {
            // SDKs read in it where they get a token.
            Some(bearer) if failure.code == Code::NoAuthenticationInformation => {
                reply.with_text(WWW_AUTHENTICATE, &bearer.challenge())
            }
            _ => reply,
        }
    }

    /// Takes a place for a request that can run.
    fn place(&self, tenant: &Tenant) -> Result<Share, Failure> {
        self.places.try_take(tenant.number, 1).ok_or_else(|| {
            let reason = "The account has as many requests running as it may".to_owned();
            RequestError::ServerBusy { reason }.into()
        })
    }

    async fn stages(
        &self,
        head: &Head,
        target: Option<&Target<'_>>,
        body: &mut Pending,
        event: &mut Event,
        accepted: Result<Metadata, RequestError>,
        prefer: &mut Option<Prefer>,
    ) -> Result<Reply, Failure> {
        let target = target.ok_or(RequestError::UriInvalid)?;
        let tenant = self.tenants.get(target.account);
        let time_limit = head
            .timeout()?
            .map_or(self.limits.request, |given| given.min(self.limits.request));
        let deadline = Instant::now() + time_limit;
        if head.method == Method::OPTIONS {
            event.operation = "Preflight";
            let preflight = Preflight::read(head)?;
            let tenant = tenant.ok_or(RequestError::CorsPreflightFailure)?;
            return Ok(preflight.answer(&tenant.cors)?);
        }

        let resource = Resource::parse(target.path)?;
        let operation = Operation::read(&head.method, resource, &head.query)?;
        event.operation = operation.name();
        *prefer = prefer.filter(|_| operation.has_preference());

        // Only here the client gets an error, so that the checks before are the same for every account name.
        let challenged = self.tenants.challenger(target.account).is_some();
        let tenant = tenant.ok_or_else(|| refuse_unknown_account(head, challenged))?;
        event.account = target.account.to_owned();
        let endpoint = match target.secondary {
            true => Endpoint::Secondary,
            false => Endpoint::Primary,
        };
        let session = Session::at(endpoint, &tenant.database, deadline);
        let grant = authenticate(tenant, &session, head, target, challenged, || self.place(tenant)).await?;
        if let Some(permission) = operation.permission(head.headers.contains_key(IF_MATCH)) {
            grant.permits(permission, operation.table())?;
        }
        check_endpoint(&operation, target.secondary)?;
        let metadata = match operation {
            // In a batch the Accept of each part counts, not that of the request.
            Operation::Batch => accepted.unwrap_or(Metadata::Minimal),
            _ if is_xml(head) => Metadata::Minimal,
            _ => accepted?,
        };

        // All that the request may need, in one step. From then on it only gives back.
        let length = body.length(&head.headers, operation.body_limit())?;
        let Need { least, most } = Need::of(&operation, &head.query, length);
        let memory = self.memory.take(tenant.number, least, most, self.limits.memory).await;
        let mut memory = memory.ok_or_else(out_of_memory)?;
        let bytes = body.read(length, self.limits.body).await?;
        event.request_bytes = bytes.len();
        memory.shrink(Need::of(&operation, &head.query, bytes.len()).most);
        event.table = operation.table().unwrap_or_default().to_owned();
        let fault = self.faults.of(tenant.number, || {
            let asked = Asked::of(head, &operation, &bytes, target.account);
            // That of a batch stands in its body.
            if event.table.is_empty() {
                asked.table().clone_into(&mut event.table);
            }
            asked
        });
        event.fault = fault.name();
        if let Some(answer) = fault.before().await {
            return answer;
        }
        let _place = self.place(tenant)?;
        let context = Context {
            tenant,
            session,
            grant: &grant,
            head,
            base: base(head, target),
            metadata,
            prefer: *prefer,
            partition: OnceLock::new(),
        };
        let result = operations::execute(&context, &operation, bytes, &mut memory).await;
        event.partition = operation.address().map(|address| address.partition_key.clone());
        if let Some((table, partition)) = context.partition.into_inner() {
            event.table = table;
            event.partition = Some(partition);
        }
        // Only permitted and well-formed requests count for the most requested partitions.
        if matches!(&result, Err(failure) if failure.status().is_client_error() && !failure.is_of_data()) {
            event.partition = None;
        }
        let mut reply = fault.after(result)?;
        memory.shrink(reply.body.len());
        reply.body = Bytes::from_owner(Unsent {
            body: reply.body,
            _share: memory,
        });
        Ok(reply)
    }
}

/// The body of a response. It holds its memory until all of it is written to the connection.
struct Unsent {
    body: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn out_of_memory() -> Failure {
    let reason = "The account has as many bytes in bodies and answers that were not taken as it may".to_owned();
    RequestError::ServerBusy { reason }.into()
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

/// Returns whether the response is XML, whatever the client accepts.
fn is_xml(head: &Head) -> bool {
    head.query.get("comp") == Some("acl") || head.query.get("restype") == Some("service")
}

/// Refuses writes on the secondary endpoint, and stats on the primary one.
fn check_endpoint(operation: &Operation, secondary: bool) -> Result<(), Error> {
    if secondary && !operation.reads() {
        return Err(RequestError::WriteOnSecondary.into());
    }
    if !secondary && *operation == Operation::GetServiceStats {
        return Err(RequestError::QueryParameterInvalid { name: "comp" }.into());
    }
    Ok(())
}

/// Adds the headers for browsers. The others are there already, because pages may read them.
fn for_browsers(head: &Head, tenant: &Tenant, reply: Reply) -> Reply {
    let is_asked = head.headers.contains_key(ORIGIN) || head.sent_method == Method::GET;
    if is_asked && head.method != Method::OPTIONS {
        cors::decorate(&tenant.cors, head, reply)
    } else {
        reply
    }
}

fn base(head: &Head, target: &Target<'_>) -> Base {
    let scheme = if head.peer.https { "https" } else { "http" };
    let host = head.host.as_str();
    let secondary = if target.secondary { "-secondary" } else { "" };
    let account = target.account;
    Base {
        url: if target.path_style {
            [scheme, "://", host, "/", account, secondary].concat()
        } else {
            [scheme, "://", host].concat()
        },
        account: account.to_owned(),
    }
}

/// Returns what a panic says.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("A panic: {}", text.unwrap_or("without a message"))
}

fn plain_error(error: Error, form: Form, id: Uuid) -> Reply {
    error::reply(&error.into(), form, None, id)
}

/// The mark of a response that is not sent: the connection is closed instead.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("an injected fault")]
pub struct NoAnswer;

/// Returns the response as it is sent.
pub fn into_http(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    if let Some(reason) = reply.reason {
        response.extensions_mut().insert(reason);
    }
    if reply.is_none {
        response.extensions_mut().insert(NoAnswer);
    }
    response
}
