//! A time limit for clients to receive a response.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that fails if the client does not receive all written bytes in time. The limit is for the whole response: otherwise a client
/// that reads a byte now and then would keep it for ever.
pub struct WriteLimited<S> {
    stream: S,
    limit: Duration,
    /// The time by which everything that was written must be received.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteLimited<S> {
    /// Limits the time of each answer that is written to a stream.
    pub fn new(stream: S, limit: Duration) -> WriteLimited<S> {
        WriteLimited {
            stream,
            limit,
            deadline: None,
        }
    }

    /// Passes on the result of a write, or an error if the deadline has passed.
    fn in_time<T>(&mut self, context: &mut Context<'_>, result: Poll<Result<T>>) -> Poll<Result<T>> {
        if result.is_ready() {
            return result;
        }
        let limit = self.limit;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(limit)));
        deadline.as_mut().poll(context).map(|()| {
            Err(Error::new(
                ErrorKind::TimedOut,
                "the client did not take its answer in time",
            ))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteLimited<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteLimited<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.in_time(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Flushes the stream. hyper does so when it has nothing more to write, so then the response is complete.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        if result.is_ready() {
            self.deadline = None;
        }
        self.in_time(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.in_time(context, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_in_time_ends_the_stream() {
        let (stream, _other) = duplex(4);
        let mut stream = WriteLimited::new(stream, LIMIT);
        let error = stream.write_all(b"12345").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_now_and_then_is_not_enough() {
        let (stream, mut other) = duplex(4);
        let mut stream = WriteLimited::new(stream, LIMIT);
        let reader = tokio::spawn(async move {
            while other.read_u8().await.is_ok() {
                sleep(LIMIT / 5).await;
            }
        });
        let error = stream.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(stream);
        reader.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn every_answer_has_the_time_anew() {
        let (stream, mut other) = duplex(4);
        let mut stream = WriteLimited::new(stream, LIMIT);
        let reader = tokio::spawn(async move {
            let mut taken = Vec::new();
            for _ in 0..4 {
                sleep(LIMIT / 2).await;
                let mut answer = [0; 8];
                other.read_exact(&mut answer).await.unwrap();
                taken.extend_from_slice(&answer);
            }
            taken
        });
        for _ in 0..4 {
            stream.write_all(b"12345678").await.unwrap();
            stream.flush().await.unwrap();
        }
        assert_eq!(reader.await.unwrap(), b"12345678".repeat(4));
    }
}
