//! Takes a request, whose head is read, through its stages: account, operation, credentials, body, hook, permit,
//! execution, end. Each takes the results of those before it, and each but the last can end the request with an error.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HeaderValue, IF_MATCH, ORIGIN, WWW_AUTHENTICATE};
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use table_service_model::access::ServiceOperation;
use table_service_model::json::Metadata;
use table_service_model::{Code, Error, Grant, RequestError};
use tokio::time::Instant;
use uuid::Uuid;

use super::hook::{Decision, End, Hook, HookedRequest};
use crate::accounts::auth::{authenticate, refuse_unknown_account};
use crate::accounts::cors::{self, Preflight};
use crate::accounts::tenant::{Tenant, Tenants};
use crate::connection::body::Pending;
use crate::connection::uncancelled::Uncancelled;
use crate::database::{Endpoint, Session};
use crate::failure::Failure;
use crate::limits::needs::Need;
use crate::limits::shares::{Share, Shares};
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

/// Time limits.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// From the head of the request to the last result of the database.
    pub request: Duration,
    pub body: Duration,
    /// Of the wait for memory.
    pub memory: Duration,
}

/// Everything that requests have in common.
pub struct Gateway {
    pub tenants: Tenants,
    pub metrics: Metrics,
    /// Permits to run. A request takes its permit when its body has arrived, so a slow client holds none.
    pub permits: Arc<Shares>,
    /// Memory for bodies that have arrived and responses that clients have not received, in bytes.
    pub memory: Arc<Shares>,
    pub limits: TimeLimits,
    pub proxies: TrustedProxies,
    /// The hook of the program that the gateway is a part of, if it has one.
    pub hook: Option<Arc<dyn Hook>>,
    /// The names, beside local ones, by which requests may call the gateway, unless all are allowed.
    pub hosts: Option<Vec<String>>,
}

/// A request with credentials that permit its operation.
struct Permitted<'r> {
    tenant: &'r Tenant,
    session: Session<'r>,
    grant: Grant,
}

impl Gateway {
    /// Answers a request. A request that has begun is finished even if its client disconnects.
    ///
    /// The future holds no part of the request but a box, because hyper moves it.
    pub fn serve(
        self: Arc<Self>,
        peer: Peer,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send {
        let id = Uuid::new_v4();
        let (parts, body) = request.into_parts();
        let mut event = Event::begin(id);
        event.trace = Trace::of(&parts.headers);
        let echo = Echo::of(&parts.headers);
        let peer = self.proxies.client(peer, &parts.headers);
        let form = Form::of_query(parts.uri.query().unwrap_or_default());
        let served = match Head::read(id, peer, parts) {
            Ok(head) => {
                let (gateway, repeated) = (self.clone(), echo.clone());
                let served = Uncancelled::new(async move { gateway.respond(&head, body, event, repeated).await });
                Ok((served, echo))
            }
            Err(error) => {
                let mut refused = into_http(self.finish(error::reply(&error.into(), form, None, id), &event, echo));
                // The bytes after it may be its body or another request.
                let close = HeaderValue::from_static("close");
                refused.headers_mut().insert(CONNECTION, close);
                Err(refused)
            }
        };
        async move {
            match served {
                // After a panic the connection and all other requests go on.
                Ok((served, echo)) => served.await.unwrap_or_else(|panic| {
                    let failure = Failure::internal(panic_text(panic.as_ref()));
                    let reply = error::reply(&failure, form, None, id);
                    into_http(self.finish(reply, &Event::begin(id), echo))
                }),
                Err(refused) => refused,
            }
        }
    }

    /// Takes a request from its head to its response.
    async fn respond(&self, head: &Head, body: Incoming, mut event: Event, echo: Echo) -> Response<Full<Bytes>> {
        self.metrics.active_requests.inc();
        scopeguard::defer! {
            self.metrics.active_requests.dec();
        }
        let target = Target::parse(&head.host, &head.path);
        let tenant = target.as_ref().and_then(|target| self.tenants.get(target.account));
        let mut body = Pending::new(&head.headers, body);
        let accepted = accepted(head.query.get("$format"), head.header(ACCEPT));
        let form = match &accepted {
            _ if is_xml(head) => Form::Xml,
            Ok(metadata) => Form::Json(*metadata),
            // A client that accepts only Atom reads XML.
            Err(RequestError::AtomFormatNotSupported) => Form::Xml,
            Err(_) => Form::Json(Metadata::Minimal),
        };
        let mut prefer = Prefer::parse(head.header("prefer"));
        let result = async {
            let (target, deadline) = self.address(head, target.as_ref())?;
            if head.method == Method::OPTIONS {
                event.operation = "Preflight";
                return preflight(head, tenant);
            }
            let operation = Operation::read(&head.method, Resource::parse(target.path)?, &head.query)?;
            event.operation = operation.name();
            prefer = prefer.filter(|_| operation.has_preference());
            event.account = tenant.map_or_else(String::new, |tenant| tenant.account.name().to_owned());
            let permitted = self.authorize(head, target, deadline, tenant, &operation).await?;
            let metadata = match operation {
                // In a batch the Accept of each part counts, not that of the request.
                Operation::Batch => accepted.unwrap_or(Metadata::Minimal),
                _ if is_xml(head) => Metadata::Minimal,
                _ => accepted?,
            };
            // The content goes before the memory that was taken for it.
            let (mut memory, content) = self.receive(head, &operation, permitted.tenant, &mut body).await?;
            event.request_bytes = content.len();
            event.table = operation.table().unwrap_or_default().to_owned();
            let decision = self.decide(head, &operation, permitted.tenant, &content);
            event.fault = decision.name;
            if let Some(table) = decision.table.filter(|_| event.table.is_empty()) {
                event.table = table;
            }
            if !decision.delay.is_zero() {
                tokio::time::sleep(decision.delay).await;
            }
            if let Some(end) = decision.before {
                return end_of(end);
            }
            let _permit = self.permit(permitted.tenant)?;
            let context = Context {
                tenant: permitted.tenant,
                session: permitted.session,
                grant: &permitted.grant,
                head,
                base: base(head, target),
                metadata,
                prefer,
                partition: OnceLock::new(),
            };
            let result = operations::execute(&context, &operation, content, &mut memory).await;
            event.partition = operation.address().map(|address| address.partition_key.clone());
            if let Some((table, partition)) = context.partition.into_inner() {
                event.table = table;
                event.partition = Some(partition);
            }
            // Only permitted and well-formed requests count for tables and partitions.
            let is_refused =
                matches!(&result, Err(failure) if failure.status().is_client_error() && !failure.is_of_data());
            event.is_of_table = !is_refused && !event.table.is_empty();
            event.partition = event.partition.take().filter(|_| !is_refused);
            let result = result.map_err(
                |failure| match permitted.grant.permits(ServiceOperation::QueryTables, None) {
                    Ok(()) => failure.with_other_tables(),
                    Err(_) => failure,
                },
            );
            match decision.after {
                Some(end) => end_of(end),
                None => result.map(|reply| holding(reply, memory)),
            }
        }
        .await;
        body.drain().await;
        let reply = result.unwrap_or_else(|failure| self.refuse(&failure, form, prefer, head, target.as_ref()));
        let reply = self.finish(reply, &event, echo);
        into_http(match tenant {
            Some(tenant) => for_browsers(head, tenant, reply),
            None => reply,
        })
    }

    /// The stage *account*. Returns the target and the deadline.
    fn address<'r>(&self, head: &Head, target: Option<&'r Target<'r>>) -> Result<(&'r Target<'r>, Instant), Failure> {
        let name = head.host.name();
        if let Some(hosts) = &self.hosts
            && !head.host.is_local()
            && !hosts.iter().any(|host| host == name)
        {
            let name = name.to_owned();
            return Err(RequestError::HostNotAllowed { name }.into());
        }
        let target = target.ok_or(RequestError::UriInvalid)?;
        let limit = self.limits.request;
        let limit = head.timeout()?.map_or(limit, |given| given.min(limit));
        Ok((target, Instant::now() + limit))
    }

    /// The stage *credentials*. It also refuses an account that does not exist: a stage before it would tell clients
    /// which accounts exist.
    async fn authorize<'r>(
        &self,
        head: &Head,
        target: &Target<'_>,
        deadline: Instant,
        tenant: Option<&'r Arc<Tenant>>,
        operation: &Operation,
    ) -> Result<Permitted<'r>, Failure> {
        let challenged = self.tenants.challenger(target.account).is_some();
        let tenant = tenant.ok_or_else(|| refuse_unknown_account(head, challenged))?;
        let endpoint = match target.secondary {
            true => Endpoint::Secondary,
            false => Endpoint::Primary,
        };
        let session = Session::at(endpoint, &tenant.database, deadline);
        let other_issuer = |token: &str| self.hook.as_ref()?.check_token(tenant, token, head.peer.https);
        let permit = || self.permit(tenant);
        let (grant, relation) = authenticate(tenant, &session, head, target, challenged, other_issuer, permit).await?;
        let session = session.holding(relation);
        if let Some(permission) = operation.permission(head.headers.contains_key(IF_MATCH)) {
            grant.permits(permission, operation.table())?;
        }
        check_endpoint(operation, target.secondary)?;
        Ok(Permitted { tenant, session, grant })
    }

    /// The stage *body*. Returns the body, and the memory for all that the request may need, which from then on only
    /// gives back.
    async fn receive(
        &self,
        head: &Head,
        operation: &Operation,
        tenant: &Tenant,
        body: &mut Pending,
    ) -> Result<(Share, Vec<u8>), Failure> {
        let length = body.length(&head.headers, operation.body_limit())?;
        let Need { least, most } = Need::of(operation, &head.query, length);
        let memory = self.memory.take(tenant.number, least, most, self.limits.memory).await;
        let mut memory = memory.ok_or_else(|| {
            Failure::busy("The account has as many bytes in bodies and answers that were not taken as it may")
        })?;
        let body = body.read(length, self.limits.body).await?;
        memory.shrink(Need::of(operation, &head.query, body.len()).most);
        Ok((memory, body))
    }

    /// The stage *hook*.
    fn decide(&self, head: &Head, operation: &Operation, tenant: &Tenant, body: &[u8]) -> Decision {
        let hook = self.hook.as_ref();
        hook.map_or_else(Decision::default, |hook| {
            hook.decide(&HookedRequest {
                tenant,
                head,
                operation,
                body,
            })
        })
    }

    /// The stage *permit*.
    fn permit(&self, tenant: &Tenant) -> Result<Share, Failure> {
        let permit = self.permits.try_take(tenant.number, 1);
        permit.ok_or_else(|| Failure::busy("The account has as many requests running as it may"))
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

    /// Adds the common headers, counts the request and logs it.
    fn finish(&self, reply: Reply, event: &Event, echo: Echo) -> Reply {
        let outcome = Outcome {
            status: reply.status,
            error: reply.error.as_ref().map(|(code, hint)| (*code, hint.as_deref())),
            response_bytes: reply.body.len(),
            duration: event.started.elapsed(),
            client_request_id: echo.client_request_id.as_ref(),
        };
        observe::record(&self.metrics, event, &outcome);
        reply.finish(event.id, echo)
    }
}

fn preflight(head: &Head, tenant: Option<&Arc<Tenant>>) -> Result<Reply, Failure> {
    let preflight = Preflight::read(head)?;
    let tenant = tenant.ok_or(RequestError::CorsPreflightFailure)?;
    Ok(preflight.answer(&tenant.cors)?)
}

/// Returns the end of a request that a hook has decided.
fn end_of(end: End) -> Result<Reply, Failure> {
    match end {
        End::Failure(failure) => Err(failure),
        End::Close => Ok(Reply::none()),
    }
}

/// Lets a response hold its part of the memory of its request until it is written to the connection.
fn holding(mut reply: Reply, mut memory: Share) -> Reply {
    memory.shrink(reply.body.len());
    reply.body = Bytes::from_owner(Unsent {
        body: reply.body,
        _memory: memory,
    });
    reply
}

/// The body of a response, with its memory.
struct Unsent {
    body: Bytes,
    _memory: Share,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.body
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
    let is_for_browsers = head.headers.contains_key(ORIGIN) || head.sent_method == Method::GET;
    if is_for_browsers && head.method != Method::OPTIONS {
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

/// Returns the message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("A panic: {}", text.unwrap_or("without a message"))
}

/// The mark of a response that is not sent: the connection is closed instead.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a hook has closed the connection")]
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
