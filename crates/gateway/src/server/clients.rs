//! Connections: listening, TLS, limits, shutdown.

use std::io::Write;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use table_service_connect::with_sources;
use tokio::io::{AsyncRead, AsyncWrite, join, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::connection::accept::{accept_each, http};
use crate::connection::head_limit::{HEAD_BYTES, HeadLimited, HeadMeter};
use crate::connection::line_ends::StrictHeads;
use crate::connection::self_waking::SelfWaking;
use crate::connection::write_limit::WriteLimited;
use crate::gateway::{Gateway, NoAnswer};
use crate::limits::shares::Shares;
use crate::request::Peer;

const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// The response to a connection beyond the limit.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The public endpoint.
pub struct Server {
    pub gateway: Arc<Gateway>,
    pub listener: TcpListener,
    pub tls: Option<TlsAcceptor>,
    pub max_connections: usize,
    /// Memory for heads of requests that have not been served, and for handshakes, in bytes.
    pub head_memory: Arc<Shares>,
    /// The time in which a client has to send the head of a request.
    pub header_timeout: Duration,
    /// The time in which a client has to receive a response.
    pub response_timeout: Duration,
}

impl Server {
    /// Serves until `stop` ends, then finishes the accepted requests, for `patience` at most.
    pub async fn run(self, stop: impl Future<Output = ()>, patience: Duration) {
        let connections = Arc::new(Semaphore::new(self.max_connections));
        let graceful = GracefulShutdown::new();
        let accepting = accept_each(&self.listener, "clients", |stream, address| {
            match connections.clone().try_acquire_owned() {
                Ok(permit) => self.connected(stream, address, permit, &graceful),
                Err(_) => {
                    self.gateway.metrics.refused_connections.inc();
                    refuse(stream);
                }
            }
        });
        tokio::select! {
            () = accepting => {}
            () = stop => {}
        }
        drop(self.listener);
        // A request may still be running after its client has disconnected.
        let finished = timeout(patience, async {
            graceful.shutdown().await;
            self.gateway.permits.all_given_back().await;
        });
        if finished.await.is_err() {
            tracing::warn!("requests were still running when the time to finish them was over");
        }
    }

    fn connected(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        permit: OwnedSemaphorePermit,
        graceful: &GracefulShutdown,
    ) {
        let watcher = graceful.watcher();
        let (gateway, tls, header_timeout) = (self.gateway.clone(), self.tls.clone(), self.header_timeout);
        let (response_timeout, head) = (self.response_timeout, HeadMeter::new(self.head_memory.clone()));
        let handshake = HeadMeter::new(self.head_memory.clone());
        let peer = Peer {
            address: address.ip().to_canonical(),
            https: tls.is_some(),
        };
        tokio::spawn(async move {
            let _permit = permit;
            gateway.metrics.connections.inc();
            match tls {
                None => {
                    let stream = WriteLimited::new(stream, response_timeout);
                    serve(&gateway, stream, head, peer, header_timeout, watcher).await;
                }
                // A message of a handshake may have 64 KiB, and is kept until it is complete, as a head is.
                Some(acceptor) => {
                    let (reader, writer) = split(stream);
                    let stream = join(HeadLimited::new(reader, handshake.clone()), writer);
                    match timeout(TLS_TIMEOUT, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            handshake.end();
                            let stream = WriteLimited::new(stream, response_timeout);
                            serve(&gateway, stream, head, peer, header_timeout, watcher).await;
                        }
                        Ok(Err(error)) => tracing::debug!(%error, client = %peer.address, "no TLS"),
                        Err(_) => tracing::debug!(client = %peer.address, "no TLS in time"),
                    }
                }
            }
            gateway.metrics.connections.dec();
        });
    }
}

/// Answers a connection beyond the limit and closes it.
pub fn refuse(stream: TcpStream) {
    // tokio does not yet know that the stream can be written. The operating system has room for these bytes.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write_all(TOO_MANY);
    }
}

async fn serve(
    gateway: &Arc<Gateway>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    head: HeadMeter,
    peer: Peer,
    header_timeout: Duration,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let (reader, writer) = split(stream);
    let reader = StrictHeads::new(HeadLimited::new(reader, head.clone()), head.clone());
    let stream = join(reader, writer);
    let service = service_fn(|request: Request<Incoming>| {
        head.complete(request.body());
        let (served, head) = (gateway.clone().serve(peer, request), head.clone());
        async move {
            let response = served.await;
            head.expect_next();
            match response.extensions().get::<NoAnswer>() {
                None => Ok(response),
                Some(closed) => Err(*closed),
            }
        }
    });
    let connection = http(header_timeout)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = SelfWaking::new(pin!(watcher.watch(connection))).await {
        tracing::debug!(error = %with_sources(&error), client = %peer.address, "a connection ended");
    }
}
