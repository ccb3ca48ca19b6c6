//! A database's answers, with a limit for each message.
//!
//! The driver reads a message as a whole, however long its head says that it is. So the limit stands before the driver.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// What a message may have. A row with an entity has less than 3 MiB, and a change has two bags as JSON, of 3 MiB each if all
/// characters are escaped.
const LARGEST_MESSAGE: usize = 8 << 20;
/// What a server may report of its parameters, which the driver keeps.
const MOST_PARAMETERS: usize = 256 << 10;

/// A stream that ends with an error where a message is too long.
pub struct Bounded<S> {
    stream: S,
    messages: Messages,
}

impl<S> Bounded<S> {
    pub fn new(stream: S) -> Bounded<S> {
        Bounded {
            stream,
            messages: Messages::default(),
        }
    }
}

/// Follows the messages: a byte with the kind, four with the length, and the rest.
#[derive(Default)]
struct Messages {
    head: Vec<u8>,
    left: usize,
    parameters: usize,
}

impl Messages {
    fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.left > 0 {
                let passed = self.left.min(bytes.len());
                self.left -= passed;
                bytes = bytes.get(passed..).unwrap_or_default();
                continue;
            }
            self.head.push(byte);
            bytes = rest;
            let &[kind, a, b, c, d] = self.head.as_slice() else {
                continue;
            };
            self.head.clear();
            let length = u32::from_be_bytes([a, b, c, d]);
            // The length counts itself.
            self.left = usize::try_from(length).unwrap_or(usize::MAX).saturating_sub(4);
            if self.left > LARGEST_MESSAGE {
                return Err(too_much(format!(
                    "a message of {length} bytes, and none may have more than {LARGEST_MESSAGE}"
                )));
            }
            if kind == b'S' {
                self.parameters += self.left;
                if self.parameters > MOST_PARAMETERS {
                    return Err(too_much(format!("more than {MOST_PARAMETERS} bytes of parameters")));
                }
            }
        }
        Ok(())
    }
}

fn too_much(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server sends {what}"))
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let new = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(self.messages.read(new))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: TlsStream + Unpin> TlsStream for Bounded<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

/// TLS whose clear text is bounded.
pub struct BoundedTls<T>(pub T);

impl<S, T> TlsConnect<S> for BoundedTls<T>
where
    T: TlsConnect<S>,
    T::Future: Send + 'static,
    T::Stream: 'static,
    T::Error: 'static,
{
    type Stream = Bounded<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, T::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connecting = self.0.connect(stream);
        Box::pin(async move { connecting.await.map(Bounded::new) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn message(kind: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(u32::try_from(length + 4).unwrap().to_be_bytes());
        bytes.resize(bytes.len() + length, b'x');
        bytes
    }

    #[test]
    fn messages_are_followed_however_they_are_cut() {
        let mut bytes = Vec::new();
        for length in [0, 1, 4, 1000, LARGEST_MESSAGE] {
            bytes.extend(message(b'd', length));
        }
        let too_long = message(b'd', LARGEST_MESSAGE + 1);
        for cut in [1, 3, 4096, usize::MAX] {
            let mut messages = Messages::default();
            assert!(bytes.chunks(cut).all(|part| messages.read(part).is_ok()), "{cut}");
            let heads = too_long.get(..16).unwrap();
            assert!(heads.chunks(cut).any(|part| messages.read(part).is_err()), "{cut}");
        }
    }

    #[test]
    fn parameters_end() {
        let mut messages = Messages::default();
        let parameter = message(b'S', 1000);
        let taken = (0..10_000).take_while(|_| messages.read(&parameter).is_ok()).count();
        assert_eq!(taken, MOST_PARAMETERS / 1000);
    }
}
