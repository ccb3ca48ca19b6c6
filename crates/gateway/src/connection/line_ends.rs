//! Refuses heads with a line that ends with a LF alone. HTTP lets a server take that for a line end (RFC 9112, 2.2),
//! and hyper does. A proxy may take it for a part of a value, and would not see the headers, or the request, behind it.
//!
//! hyper does not show the bytes of a head. So this reader is in front of it: it hands out one head or body at a time,
//! and turns a bare LF in a head into a byte that hyper refuses with 400.

use std::io::Result;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use super::head_limit::{CHUNKED, HeadMeter};

/// No part of a head (RFC 9110, 5.5).
const REFUSED: u8 = 0;
/// The part to which the next byte belongs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// A body with so many bytes left.
    Body(u64),
    /// The line before a chunk. Its length is the number that it begins with.
    Length { number: u64, is_over: bool },
    /// A chunk with its line end.
    Chunk(u64),
    /// The lines behind the last chunk.
    Trailers,
}

const LENGTH: Part = Part::Length {
    number: 0,
    is_over: false,
};

/// Finds the ends of heads and bodies.
#[derive(Default)]
struct Reader {
    part: Part,
    /// Of a head: the last byte, and whether its line has other bytes than the line end.
    last: u8,
    has_text: bool,
}

impl Reader {
    /// Returns the number of bytes that belong to the same head or body as the first one. Changes bare LFs of a head.
    /// `body` is the length of a body that begins here.
    fn take(&mut self, body: u64, bytes: &mut [u8]) -> usize {
        match body {
            0 => {}
            CHUNKED => self.part = LENGTH,
            length => self.part = Part::Body(length),
        }
        let (mut at, length) = (0, bytes.len());
        while let Some(byte) = bytes.get_mut(at) {
            match &mut self.part {
                Part::Body(left) | Part::Chunk(left) => {
                    let skipped = usize::try_from(*left).unwrap_or(usize::MAX).min(length - at);
                    at += skipped;
                    *left -= skipped as u64;
                    match self.part {
                        Part::Body(0) => {
                            self.part = Part::Head;
                            return at;
                        }
                        Part::Chunk(0) => self.part = LENGTH,
                        _ => {}
                    }
                }
                Part::Length { number, is_over } => {
                    at += 1;
                    match char::from(*byte).to_digit(16).filter(|_| !*is_over) {
                        Some(digit) => *number = number.saturating_mul(16).saturating_add(digit.into()),
                        None if *byte != b'\n' => *is_over = true,
                        None if *number == 0 => self.part = Part::Trailers,
                        None => self.part = Part::Chunk(number.saturating_add(2)),
                    }
                }
                Part::Head | Part::Trailers => {
                    at += 1;
                    if self.ends_with(byte) {
                        self.part = Part::Head;
                        return at;
                    }
                }
            }
        }
        at
    }

    /// Returns whether a head ends with this byte.
    fn ends_with(&mut self, byte: &mut u8) -> bool {
        if *byte == b'\n' && self.last != b'\r' {
            *byte = REFUSED;
        }
        let ends = *byte == b'\n' && !self.has_text;
        self.has_text = *byte != b'\n' && (self.has_text || *byte != b'\r');
        self.last = *byte;
        ends
    }
}

/// The reading half of a stream. The lines of its heads end with CR LF.
pub struct StrictHeads<S> {
    stream: S,
    head: HeadMeter,
    reader: Reader,
    /// The bytes that have arrived behind the end of a head or a body.
    held: BytesMut,
}

impl<S> StrictHeads<S> {
    /// Reads a stream from the beginning of a head.
    pub fn new(stream: S, head: HeadMeter) -> StrictHeads<S> {
        StrictHeads {
            stream,
            head,
            reader: Reader::default(),
            held: BytesMut::new(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StrictHeads<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let StrictHeads {
            stream,
            head,
            reader,
            held,
        } = &mut *self;
        let before = buffer.filled().len();
        if held.is_empty() {
            ready!(Pin::new(stream).poll_read(context, buffer))?;
        } else {
            let length = held.len().min(buffer.remaining());
            buffer.put_slice(held.get(..length).unwrap_or_default());
            held.advance(length);
        }
        let read = buffer.filled_mut().get_mut(before..).unwrap_or_default();
        let end = before + reader.take(head.take_body(), read);
        let behind = buffer.filled().get(end..).unwrap_or_default();
        if !behind.is_empty() {
            let mut all = BytesMut::with_capacity(behind.len() + held.len());
            all.extend_from_slice(behind);
            all.extend_from_slice(held);
            *held = all;
            buffer.set_filled(end);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the parts that are handed out for pieces of a length. After each head its body is set.
    fn parts(text: &str, piece: usize, bodies: &[u64]) -> Vec<String> {
        let (mut reader, mut next) = (Reader::default(), 0);
        let (mut parts, mut bodies) = (vec![String::new()], bodies.iter());
        let mut left = text.as_bytes().to_vec();
        while !left.is_empty() {
            let length = left.len().min(piece);
            let is_body = reader.part != Part::Head || next > 0;
            let taken = reader.take(std::mem::take(&mut next), &mut left[..length]);
            parts
                .last_mut()
                .unwrap()
                .push_str(std::str::from_utf8(&left[..taken]).unwrap());
            left.drain(..taken);
            let part = parts.last().unwrap();
            let is_end = reader.part == Part::Head && (is_body || part.ends_with("\r\n\r\n"));
            if is_end {
                if parts.last().unwrap().starts_with("POST") {
                    next = *bodies.next().unwrap();
                }
                parts.push(String::new());
            }
        }
        parts.pop();
        parts
    }

    #[test]
    fn heads_and_bodies_are_handed_out_one_by_one() {
        let heads = [
            "POST /1 HTTP/1.1\r\nA: b\r\n\r\n",
            "GET /2 HTTP/1.1\r\n\r\n",
            "POST /3 HTTP/1.1\r\n\r\n",
        ];
        let bodies = [
            "{\n\n\"a\": 1}",
            "9;x=y\r\n{\"a\":\n1}\n\r\n2\r\n\n\n\r\n0\r\nT: x\r\n\r\n",
        ];
        let expected = [heads[0], bodies[0], heads[1], heads[2], bodies[1], heads[1]];
        for piece in [1, 2, 3, 7, 1000] {
            let told = [bodies[0].len() as u64, CHUNKED];
            assert_eq!(parts(&expected.concat(), piece, &told), expected, "{piece}");
        }
    }

    #[test]
    fn a_bare_lf_in_a_head_becomes_what_is_refused() {
        for (head, read) in [
            ("GET / HTTP/1.1\nHost: a\r\n\r\n", "GET / HTTP/1.1\0Host: a\r\n\r\n"),
            ("GET / HTTP/1.1\r\nA: b\n\r\n", "GET / HTTP/1.1\r\nA: b\0\r\n"),
            ("\nGET / HTTP/1.1\r\n", "\0GET / HTTP/1.1\r\n"),
        ] {
            let mut bytes = head.as_bytes().to_vec();
            Reader::default().take(0, &mut bytes);
            assert!(String::from_utf8(bytes).unwrap().starts_with(read), "{head:?}");
        }
    }
}
