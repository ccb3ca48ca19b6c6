//! The seam for a program that has the gateway in it, such as the emulator. The gateway itself has no hook.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use table_service_model::{Error, Grant};
use tokio_rustls::TlsAcceptor;

use crate::accounts::tenant::{Tenant, Tenants};
use crate::connection::body::Pending;
use crate::failure::Failure;
use crate::request::Head;
use crate::request::operation::Operation;

/// A hook around the requests of clients, with paths of its own on the admin port.
pub trait Hook: Send + Sync {
    /// Decides about a request before it is executed. The request is permitted and complete.
    fn decide(&self, request: &HookedRequest<'_>) -> Decision;

    /// Checks a bearer token to an account without an issuer. Without a result it is refused, as the gateway refuses it.
    fn check_token(&self, tenant: &Tenant, token: &str, https: bool) -> Option<Result<Grant, Error>>;

    /// Begins to serve other ports, with the gateway's certificate if it has one. The gateway listens.
    fn serve_beside(&self, tls: Option<TlsAcceptor>);

    /// Returns whether a path of the admin port is the hook's.
    fn has_path(&self, path: &str) -> bool;

    /// Answers a request to such a path.
    fn answer<'a>(&'a self, tenants: &'a Tenants, head: &'a Parts, body: &'a mut Pending) -> HookAnswer<'a>;
}

/// The answer to a request on the admin port.
pub type HookAnswer<'a> = Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send + 'a>>;

/// A request before its execution.
pub struct HookedRequest<'a> {
    pub tenant: &'a Tenant,
    pub head: &'a Head,
    pub operation: &'a Operation,
    pub body: &'a [u8],
}

/// The decision about a request. The default changes nothing.
#[derive(Debug, Default)]
pub struct Decision {
    /// A name for the log and the metrics.
    pub name: Option<&'static str>,
    /// The table of a batch, for the log.
    pub table: Option<String>,
    /// The pause before the execution.
    pub delay: Duration,
    /// The end of the request in place of its execution.
    pub before: Option<End>,
    /// The end of the request in place of its result.
    pub after: Option<End>,
}

/// The end of a request that a hook has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Failure(Failure),
    /// The connection is closed without an answer.
    Close,
}
