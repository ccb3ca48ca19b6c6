//! Takes the connections of a port.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The pause after a connection could not be accepted, most likely for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until this is dropped. `port` is the name of the port in the log.
pub async fn accept_each(listener: &TcpListener, port: &str, mut take: impl FnMut(TcpStream, SocketAddr)) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY cannot be set");
                }
                take(stream, address);
            }
            Err(error) => {
                tracing::warn!(%error, port, "a connection could not be accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Returns a server of HTTP that waits so long for the head of a request.
pub fn http(head_time: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head_time);
    builder
}
