//! The other services of an account, on the ports where azurite has them. Lists of containers and queues, which checks of a container's
//! health read, are empty ones, and everything else is refused.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use quick_xml::escape::escape;
use table_service_gateway::config::ConfigError;
use table_service_gateway::connection::accept::{accept_each, http};
use table_service_gateway::connection::body::Pending;
use table_service_gateway::failure::Failure;
use table_service_gateway::gateway::into_http;
use table_service_gateway::request::Host;
use table_service_gateway::response::error::{ERROR_CODE, with_id_and_time};
use table_service_gateway::response::{Echo, Reply};
use table_service_gateway::server::clients::refuse;
use table_service_gateway::server::run::bind;
use table_service_model::error::RequestError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use uuid::Uuid;

const CONNECTIONS: usize = 64;
const TLS_TIME: Duration = Duration::from_secs(10);
const HEAD_TIME: Duration = Duration::from_secs(60);

/// A service that is not the Table service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherService {
    Blob,
    Queue,
}

impl OtherService {
    /// Returns the name of the setting that says where it listens.
    fn setting(self) -> &'static str {
        match self {
            OtherService::Blob => "blob_listen",
            OtherService::Queue => "queue_listen",
        }
    }

    /// Returns its name, as the service writes it.
    pub fn name(self) -> &'static str {
        match self {
            OtherService::Blob => "Blob",
            OtherService::Queue => "Queue",
        }
    }
}

/// The port of another service.
pub struct OtherPort {
    pub service: OtherService,
    pub address: SocketAddr,
    listener: TcpListener,
}

impl OtherPort {
    /// Listens, and answers nothing yet.
    ///
    /// # Errors
    /// The address cannot be had, under the name of its setting.
    pub async fn bind(service: OtherService, listen: &str) -> Result<OtherPort, ConfigError> {
        let listener = bind(service.setting(), listen).await?;
        let address = listener.local_addr();
        Ok(OtherPort {
            service,
            address: address.map_err(|error| ConfigError::new(service.setting(), error))?,
            listener,
        })
    }

    /// Answers until the process ends.
    pub async fn run(self, tls: Option<TlsAcceptor>) {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        let service = self.service;
        let take = |stream, _| {
            let Ok(permit) = connections.clone().try_acquire_owned() else {
                return refuse(stream);
            };
            let tls = tls.clone();
            tokio::spawn(async move {
                let _permit = permit;
                match tls {
                    None => serve(service, "http", stream).await,
                    Some(tls) => {
                        if let Ok(Ok(stream)) = timeout(TLS_TIME, tls.accept(stream)).await {
                            serve(service, "https", stream).await;
                        }
                    }
                }
            });
        };
        accept_each(&self.listener, service.name(), take).await;
    }
}

async fn serve(service: OtherService, scheme: &'static str, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let answer = service_fn(async |request| Ok::<_, Infallible>(answer(service, scheme, request).await));
    if let Err(error) = http(HEAD_TIME).serve_connection(TokioIo::new(stream), answer).await {
        tracing::debug!(%error, service = service.name(), "a connection ended");
    }
}

async fn answer(service: OtherService, scheme: &str, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let id = Uuid::new_v4();
    let (head, body) = request.into_parts();
    let reply = match Host::of(&head.uri, &head.headers) {
        Ok(host) if head.method == Method::GET && is_list(head.uri.path(), head.uri.query().unwrap_or_default()) => {
            let path = head.uri.path().trim_end_matches('/');
            nothing(service, &format!("{scheme}://{}{path}", host.as_str()))
        }
        _ => refusal(service, id),
    };
    Pending::new(&head.headers, body).drain().await;
    into_http(reply.finish(id, Echo::of(&head.headers)))
}

/// Returns whether a request lists the containers or the queues of an account. Such a list within one of them has another path, or a
/// `restype`.
fn is_list(path: &str, query: &str) -> bool {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let has = |name: &str| pairs.iter().any(|(given, _)| given == name);
    let is_of_the_account = path.trim_matches('/').split('/').count() == 1;
    is_of_the_account && pairs.iter().any(|(name, value)| name == "comp" && value == "list") && !has("restype")
}

fn nothing(service: OtherService, endpoint: &str) -> Reply {
    let list = match service {
        OtherService::Blob => "Containers",
        OtherService::Queue => "Queues",
    };
    Reply::xml(format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"{}/\"><{list} /><NextMarker /></EnumerationResults>",
        escape(endpoint)
    ))
}

/// Returns the error in the form of these services.
fn refusal(service: OtherService, id: Uuid) -> Reply {
    let failure = Failure::from(RequestError::ServiceNotEmulated {
        service: service.name(),
    });
    let message = with_id_and_time(&failure.message, id);
    Reply::new(failure.status())
        .with(CONTENT_TYPE, HeaderValue::from_static("application/xml"))
        .with(ERROR_CODE, HeaderValue::from_static(failure.code.as_str()))
        .with_body(format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{}</Code><Message>{}</Message></Error>",
            failure.code,
            escape(&message)
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_account_are_told_from_those_within() {
        for (path, query) in [
            ("/devstoreaccount1", "comp=list"),
            ("/devstoreaccount1/", "maxresults=1&comp=list&include=metadata"),
            ("/", "comp=list"),
        ] {
            assert!(is_list(path, query), "{path}?{query}");
        }
        for (path, query) in [
            ("/devstoreaccount1/container", "restype=container&comp=list"),
            ("/container", "restype=container&comp=list"),
            ("/devstoreaccount1/queue/messages", "comp=list"),
            ("/devstoreaccount1", "restype=service&comp=properties"),
            ("/devstoreaccount1", ""),
        ] {
            assert!(!is_list(path, query), "{path}?{query}");
        }
    }
}
