//! The port for operators: /live, /ready and /metrics; also /explorer; of an emulator /reset and /faults.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, ORIGIN};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use table_service_explorer::{Body, Explorer};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout};

use crate::database::{Node, Session, usable};
use crate::faults::FaultSettings;
use crate::gateway::Gateway;
use crate::request::Host;
use crate::response::error::HINT;
use crate::server::refuse;
use crate::write_limit::WriteLimited;

const OPENMETRICS: HeaderValue = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// Most connections of the admin port. Their file descriptors are kept for it, and it takes no others: neither of the two ports
/// can keep clients from the other one. If there are more, the one that has waited longest for a request is closed, so that
/// connections without a request keep no probe out.
pub const CONNECTIONS: usize = 64;
/// How long a client may take to send the head of a request, or be idle before it, and to read the answer.
const HEAD_TIME: Duration = Duration::from_secs(10);
const ANSWER_TIME: Duration = Duration::from_secs(30);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The most bytes of the body of `POST /faults`.
const FAULTS_BYTES: usize = 64 * 1024;
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The admin endpoint.
pub struct Admin {
    pub gateway: Arc<Gateway>,
    /// Set when the gateway is shutting down.
    pub stopping: AtomicBool,
    /// Whether `POST /reset` deletes all tables.
    pub allow_reset: bool,
    /// Whether `/faults` shows and changes the faults that are injected.
    pub allow_faults: bool,
    /// Whether only this machine reaches the port.
    pub is_loopback: bool,
    /// The names, beside `localhost`, by which requests may call the port.
    pub hosts: Vec<String>,
    /// The page that shows the tables, if it is wanted.
    pub explorer: Option<Explorer>,
}

/// The connections that wait for a request or for the end of their answer, the oldest first. Each is told when it is closed.
#[derive(Default)]
struct Idle(Mutex<VecDeque<Arc<Notify>>>);

impl Idle {
    fn add(&self, connection: &Arc<Notify>) {
        self.lock().push_back(connection.clone());
    }

    fn remove(&self, connection: &Arc<Notify>) {
        self.lock().retain(|waiting| !Arc::ptr_eq(waiting, connection));
    }

    /// Closes the oldest; false if there is none.
    fn close_first(&self) -> bool {
        let first = self.lock().pop_front();
        first.is_some_and(|connection| {
            connection.notify_one();
            true
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admin {
    /// Serves until the process ends.
    pub async fn run(self: Arc<Self>, listener: TcpListener) {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        let idle = Arc::new(Idle::default());
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection of the admin port could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let permit = match connections.clone().try_acquire_owned() {
                Ok(permit) => permit,
                Err(_) if idle.close_first() => match connections.clone().acquire_owned().await {
                    Ok(permit) => permit,
                    Err(_) => return,
                },
                Err(_) => {
                    refuse(stream);
                    continue;
                }
            };
            let admin = self.clone();
            let idle = idle.clone();
            let closed = Arc::new(Notify::new());
            idle.add(&closed);
            tokio::spawn(async move {
                let _permit = permit;
                let stream = WriteLimited::new(stream, ANSWER_TIME);
                let service = service_fn(|request| {
                    idle.remove(&closed);
                    let (admin, idle, closed) = (admin.clone(), idle.clone(), closed.clone());
                    async move {
                        let response = admin.answer(request).await;
                        idle.add(&closed);
                        Ok::<_, Infallible>(response)
                    }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIME)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    ended = connection => if let Err(error) = ended {
                        tracing::debug!(%error, "a connection of the admin port ended");
                    },
                    () = closed.notified() => {}
                }
                idle.remove(&closed);
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if !self.may_call(&request) {
            return whole(misdirected());
        }
        let path = request.uri().path();
        match &self.explorer {
            Some(explorer) if path == "/explorer" || path.starts_with("/explorer/") => explorer.answer(request).await,
            _ => whole(self.answer_operators(request).await),
        }
    }

    async fn answer_operators(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/reset") if self.allow_reset => self.reset(&request).await,
            // Only an emulator has faults.
            (&Method::POST, "/reset") if self.allow_faults => {
                not_allowed("This emulator keeps its tables, so it cannot be reset\n")
            }
            (_, "/reset") if self.allow_faults => not_allowed("Only POST is allowed\n"),
            (&Method::POST, "/faults") if self.allow_faults => self.set_faults(request).await,
            (&Method::GET | &Method::HEAD, path) => self.state(path).await,
            (_, "/faults") if self.allow_faults => not_allowed("Only GET, HEAD and POST are allowed\n"),
            _ => not_allowed("Only GET and HEAD are allowed\n"),
        }
    }

    async fn state(&self, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/live" => text(StatusCode::OK, TEXT, "live\n".to_owned()),
            "/ready" => {
                let (ready, report) = self.readiness().await;
                let status = if ready {
                    StatusCode::OK
                } else {
                    StatusCode::SERVICE_UNAVAILABLE
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
            "/faults" if self.allow_faults => faults(&self.gateway.faults.settings()),
            _ => text(
                StatusCode::NOT_FOUND,
                TEXT,
                "There are /live, /ready and /metrics\n".to_owned(),
            ),
        }
    }

    /// Returns whether a request calls this port by a name that is meant for it. A page of any site can have a name that
    /// leads to this machine, so a browser here would let that page read and do what it likes. Probes may say what they like.
    fn may_call(&self, request: &Request<Incoming>) -> bool {
        let is_checked = match request.uri().path() {
            "/live" | "/ready" => false,
            "/metrics" => self.is_loopback,
            _ => true,
        };
        let is_known = |host: Host| {
            host.is_address() || host.name() == "localhost" || self.hosts.iter().any(|known| known == host.name())
        };
        !is_checked || Host::of(request.uri(), request.headers()).is_ok_and(is_known)
    }

    /// Deletes all tables and the properties of the service, so that tests begin with nothing.
    async fn reset(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if is_of_a_page(request) {
            let refused = "Web pages may not reset the emulator\n".to_owned();
            return text(StatusCode::FORBIDDEN, TEXT, refused);
        }
        for tenant in self.gateway.tenants.iter() {
            let session = Session::new(&tenant.database, Instant::now() + self.gateway.limits.request);
            if let Err(failure) = session.empty().await {
                return text(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{failure}\n"));
            }
            tenant.cors.changed(&session).await;
        }
        self.gateway.faults.begin_anew();
        text(StatusCode::OK, TEXT, "empty\n".to_owned())
    }

    /// Sets the faults that are injected to those of the body, and no others. Without a body there are none.
    async fn set_faults(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if is_of_a_page(&request) {
            let refused = "Web pages may not inject faults\n".to_owned();
            return text(StatusCode::FORBIDDEN, TEXT, refused);
        }
        let body = Limited::new(request.into_body(), FAULTS_BYTES).collect();
        let Ok(Ok(body)) = timeout(HEAD_TIME, body).await else {
            return text(StatusCode::BAD_REQUEST, TEXT, "The body cannot be read\n".to_owned());
        };
        match FaultSettings::read(&body.to_bytes()) {
            Ok(settings) => {
                self.gateway.faults.set(settings);
                faults(&self.gateway.faults.settings())
            }
            Err(error) => {
                let example = r#"{"throttle": "partition=2000", "inject": "503=1%,timeout=0.1%", "seed": 7}"#;
                let problem = format!("These are no faults: {error}. They look like {example}\n");
                text(StatusCode::BAD_REQUEST, TEXT, problem)
            }
        }
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
                    false => writeln!(report, "{}, {}: {state}", tenant.account.name(), node.name()),
                };
            }
            for (standby, status) in tenant.database.standby_states() {
                any |= status.is_serving;
                let state = match status.is_serving {
                    true => "serves reads",
                    false => "serves no reads",
                };
                let _ = writeln!(report, "{}, standby {}: {state}", tenant.account.name(), standby.name());
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
    usable(node.extension().await.map_err(away)?)
}

/// Returns whether a web page has sent a request: browsers send this header with every POST. A page must not change the
/// emulator of who visits it.
fn is_of_a_page(request: &Request<Incoming>) -> bool {
    request.headers().contains_key(ORIGIN)
}

fn not_allowed(what_is: &str) -> Response<Full<Bytes>> {
    text(StatusCode::METHOD_NOT_ALLOWED, TEXT, what_is.to_owned())
}

fn faults(settings: &FaultSettings) -> Response<Full<Bytes>> {
    let mut json = serde_json::to_string(settings).unwrap_or_default();
    json.push('\n');
    text(StatusCode::OK, JSON, json)
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

fn text(status: StatusCode, content_type: HeaderValue, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
