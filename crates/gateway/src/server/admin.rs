//! The port for operators: /live, /ready and /metrics, the explorer, and the paths of a hook.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use table_service_explorer::{Body, Explorer};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::connection::accept::{accept_each, http};
use crate::connection::body::Pending;
use crate::connection::write_limit::WriteLimited;
use crate::database::Node;
use crate::gateway::Gateway;
use crate::request::Host;
use crate::response::error::HINT;

const OPENMETRICS: HeaderValue = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// Most connections of the admin port. Their file descriptors are kept for it, and it takes no others: neither of the two ports
/// can keep clients from the other one. A connection beyond them closes the oldest, so that idle connections keep no probe out.
pub const CONNECTIONS: usize = 64;
/// The time in which a client has to send the head of a request, and to read the answer.
const HEAD_TIME: Duration = Duration::from_secs(10);
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The type of a text for people.
pub const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The admin endpoint.
pub struct Admin {
    pub gateway: Arc<Gateway>,
    /// Set when the gateway is shutting down.
    pub stopping: AtomicBool,
    /// Whether only this machine reaches the port.
    pub is_loopback: bool,
    /// The names, beside `localhost`, by which requests may call the port.
    pub hosts: Vec<String>,
    /// The page that shows the tables, unless it is off.
    pub explorer: Option<Explorer>,
}

impl Admin {
    /// Serves until the process ends.
    pub async fn run(self: Arc<Self>, listener: TcpListener) {
        let mut connections: VecDeque<AbortHandle> = VecDeque::new();
        let take = |stream, _| {
            connections.retain(|connection| !connection.is_finished());
            if connections.len() >= CONNECTIONS
                && let Some(oldest) = connections.pop_front()
            {
                oldest.abort();
            }
            let admin = self.clone();
            let connection = tokio::spawn(async move {
                let stream = WriteLimited::new(stream, ANSWER_TIME);
                let service = service_fn(async |request| Ok::<_, Infallible>(admin.answer(request).await));
                let connection = http(HEAD_TIME).serve_connection(TokioIo::new(stream), service);
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection of the admin port ended");
                }
            });
            connections.push_back(connection.abort_handle());
        };
        accept_each(&listener, "admin", take).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let mut body = Pending::new(&head.headers, body);
        let response = self.respond(&head, &mut body).await;
        body.drain().await;
        response
    }

    async fn respond(&self, head: &Parts, body: &mut Pending) -> Response<Body> {
        if !self.may_call(head) {
            return whole(misdirected());
        }
        let path = head.uri.path();
        match &self.explorer {
            Some(explorer) if path == "/explorer" || path.starts_with("/explorer/") => {
                explorer.answer(head, body).await
            }
            _ => whole(match &self.gateway.hook {
                Some(hook) if hook.has_path(path) => hook.answer(&self.gateway.tenants, head, body).await,
                _ if matches!(head.method, Method::GET | Method::HEAD) => self.state(path).await,
                _ => text(StatusCode::METHOD_NOT_ALLOWED, TEXT, "Only GET and HEAD are allowed\n"),
            }),
        }
    }

    async fn state(&self, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/live" => text(StatusCode::OK, TEXT, "live\n"),
            "/ready" => {
                let (ready, report) = self.readiness().await;
                let status = match ready {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                text(status, TEXT, report)
            }
            "/metrics" => text(
                StatusCode::OK,
                OPENMETRICS,
                self.gateway.metrics.text(
                    self.gateway.memory.used(),
                    self.gateway
                        .tenants
                        .iter()
                        .map(|tenant| (tenant.account.name(), &tenant.database)),
                ),
            ),
            _ => text(StatusCode::NOT_FOUND, TEXT, "There are /live, /ready and /metrics\n"),
        }
    }

    /// Returns whether a request calls this port by a name that is meant for it. A page of any site can have a name
    /// that leads to this machine, so a browser here would let that page read and do anything. Probes may use any name.
    fn may_call(&self, head: &Parts) -> bool {
        let is_checked = match head.uri.path() {
            "/live" | "/ready" => false,
            "/metrics" => self.is_loopback,
            _ => true,
        };
        let is_known = |host: Host| {
            host.is_address() || host.name() == "localhost" || self.hosts.iter().any(|known| known == host.name())
        };
        !is_checked || Host::of(&head.uri, &head.headers).is_ok_and(is_known)
    }

    /// Returns whether every account can be served, and a line about each of its nodes. One node is enough for an account: if
    /// another one is away, it is away for all gateways, and none of them would be ready. So is a standby that serves reads.
    async fn readiness(&self) -> (bool, String) {
        let mut ready = true;
        let mut report = String::new();
        if self.stopping.load(Ordering::Relaxed) {
            ready = false;
            report.push_str("stopping\n");
        }
        for tenant in self.gateway.tenants.iter() {
            let is_single = tenant.database.nodes().count() == 1;
            let mut any = false;
            for node in tenant.database.nodes() {
                let state = match state(node, is_single).await {
                    Ok(version) => {
                        any = true;
                        format!("ready, extension {version}")
                    }
                    Err(problem) => problem,
                };
                // Writing to a String cannot fail.
                let _ = match is_single {
                    true => writeln!(report, "{}: {state}", tenant.account.name()),
                    false => writeln!(report, "{}, {}: {state}", tenant.account.name(), node.name),
                };
            }
            for (standby, status) in tenant.database.standby_states() {
                any |= status.is_serving;
                let state = match status.is_serving {
                    true => "serves reads",
                    false => "serves no reads",
                };
                let _ = writeln!(report, "{}, standby {}: {state}", tenant.account.name(), standby.name);
            }
            ready &= any;
        }
        (ready, report)
    }
}

/// Returns the version of the extension of a node, or why the node cannot be used.
async fn state(node: &Node, is_single: bool) -> Result<String, String> {
    let away = |problem: String| format!("the database cannot be reached: {problem}");
    // One of several nodes that is away is asked by its own task already. The others do not wait for it.
    if let Some(problem) = node.problem().filter(|_| !is_single) {
        return Err(away(problem));
    }
    if let Some(problem) = node.stranger() {
        return Err(format!("not asked: {problem}"));
    }
    node.version().await.map_err(away)?
}

fn misdirected() -> Response<Full<Bytes>> {
    let hint = "The request has to name this port by an address, by localhost, or by a name in admin_hosts";
    let mut response = text(StatusCode::MISDIRECTED_REQUEST, TEXT, format!("{hint}\n"));
    response.headers_mut().insert(HINT, HeaderValue::from_static(hint));
    response
}

fn whole(response: Response<Full<Bytes>>) -> Response<Body> {
    response.map(|body| body.map_err(|never: Infallible| match never {}).boxed_unsync())
}

/// Returns a response with a text.
pub fn text(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
