//! The emulator's hook in the gateway: faults, and the paths `/reset` and `/faults` of the admin port.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, ORIGIN};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use table_service_gateway::accounts::tenant::{Tenant, Tenants};
use table_service_gateway::connection::body::Pending;
use table_service_gateway::database::Session;
use table_service_gateway::failure::Failure;
use table_service_gateway::gateway::hook::{Decision, Hook, HookAnswer, HookedRequest};
use table_service_gateway::server::admin::{self, TEXT};
use table_service_model::access::{Grant, ServiceProperties};
use table_service_model::{Code, Error};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::faults::{FaultSettings, Faults};
use crate::other_services::OtherPort;
use crate::unsigned_token;

/// The most bytes of the body of `POST /faults`, and the time in which it has to arrive.
const FAULTS_BYTES: usize = 64 * 1024;
const FAULTS_TIME: Duration = Duration::from_secs(10);
/// The time limit of a reset, for each account.
const RESET_TIME: Duration = Duration::from_secs(30);

/// The hook of an emulator.
pub struct Control {
    pub faults: Faults,
    /// Whether the tables are kept, so that nothing may reset them.
    pub keeps_tables: bool,
    /// Whether tokens are taken without a check of their signature, as azurite takes them with `--oauth basic`.
    pub takes_unsigned_tokens: bool,
    /// The ports of other services, until the gateway listens.
    pub others: Mutex<Vec<OtherPort>>,
}

impl Hook for Control {
    fn decide(&self, request: &HookedRequest<'_>) -> Decision {
        self.faults.decide(request)
    }

    fn check_token(&self, tenant: &Tenant, token: &str, https: bool) -> Option<Result<Grant, Error>> {
        self.takes_unsigned_tokens
            .then(|| unsigned_token::grant(token, https, tenant.account.name()))
    }

    fn serve_beside(&self, tls: Option<TlsAcceptor>) {
        let mut others = self.others.lock();
        for port in others.drain(..) {
            tokio::spawn(port.run(tls.clone()));
        }
    }

    fn has_path(&self, path: &str) -> bool {
        matches!(path, "/reset" | "/faults")
    }

    fn answer<'a>(&'a self, tenants: &'a Tenants, head: &'a Parts, body: &'a mut Pending) -> HookAnswer<'a> {
        Box::pin(async move {
            match (&head.method, head.uri.path()) {
                // Browsers send this header with every POST of a page. A page must not change the emulator of its visitor.
                (&Method::POST, "/reset") if head.headers.contains_key(ORIGIN) => {
                    text(StatusCode::FORBIDDEN, "Web pages may not reset the emulator\n")
                }
                (&Method::POST, _) if head.headers.contains_key(ORIGIN) => {
                    text(StatusCode::FORBIDDEN, "Web pages may not inject faults\n")
                }
                (&Method::POST, "/reset") if self.keeps_tables => {
                    not_allowed("This emulator keeps its tables, so it cannot be reset\n")
                }
                (&Method::POST, "/reset") => self.reset(tenants).await,
                (_, "/reset") => not_allowed("Only POST is allowed\n"),
                (&Method::POST, _) => self.set_faults(body).await,
                (&Method::GET | &Method::HEAD, _) => self.show_faults(),
                _ => not_allowed("Only GET, HEAD and POST are allowed\n"),
            }
        })
    }
}

impl Control {
    /// Deletes all tables and the properties of the service, so that tests begin with nothing.
    async fn reset(&self, tenants: &Tenants) -> Response<Full<Bytes>> {
        for tenant in tenants.iter() {
            if let Err(failure) = empty(tenant).await {
                return text(StatusCode::SERVICE_UNAVAILABLE, format!("{failure}\n"));
            }
        }
        self.faults.begin_anew();
        text(StatusCode::OK, "empty\n")
    }

    /// Replaces all faults by those of the body. Without a body there are none.
    async fn set_faults(&self, body: &mut Pending) -> Response<Full<Bytes>> {
        let Ok(body) = body.read(FAULTS_BYTES, FAULTS_TIME).await else {
            return text(StatusCode::BAD_REQUEST, "The body cannot be read\n");
        };
        match FaultSettings::read(&body) {
            Ok(settings) => {
                self.faults.set(settings);
                self.show_faults()
            }
            Err(error) => {
                let example = r#"{"throttle": "partition=2000", "inject": "503=1%,timeout=0.1%", "seed": 7}"#;
                let problem = format!("These are no faults: {error}. They look like {example}\n");
                text(StatusCode::BAD_REQUEST, problem)
            }
        }
    }

    fn show_faults(&self) -> Response<Full<Bytes>> {
        let json = serde_json::to_string(&self.faults.settings()).unwrap_or_default();
        admin::text(
            StatusCode::OK,
            HeaderValue::from_static("application/json"),
            json + "\n",
        )
    }
}

/// Deletes all tables of an account, and sets all properties of the service to their defaults.
async fn empty(tenant: &Tenant) -> Result<(), Failure> {
    let session = Session::new(&tenant.database, Instant::now() + RESET_TIME);
    loop {
        let (names, _) = session.query_tables(None, 1000, None).await?;
        if names.is_empty() {
            break;
        }
        for name in names {
            match session.delete_table(&name).await {
                // Another client has deleted it.
                Err(failure) if failure.code == Code::ResourceNotFound => {}
                deleted => deleted?,
            }
        }
    }
    session
        .set_service_properties(ServiceProperties::default().to_json())
        .await?;
    tenant.cors.changed(&session).await;
    Ok(())
}

fn not_allowed(reason: &'static str) -> Response<Full<Bytes>> {
    text(StatusCode::METHOD_NOT_ALLOWED, reason)
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    admin::text(status, TEXT, body)
}
