//! A proxy before a gateway that answers 503 and cuts connections, as a seed says.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use system_tests::random::Random;

pub struct Proxy {
    pub address: SocketAddr,
    /// How many times it was of no help.
    pub faults: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
}

/// One of so many requests has a fault, whichever connection it comes on.
const FAULTY: usize = 4;

/// The fault of a request.
enum Fault {
    Busy,
    /// The server does not see the request.
    CutBefore,
    /// The server has done its work.
    CutAfter,
    /// The client gets a part of the answer.
    CutWithin,
}

impl Fault {
    /// The fault of the request with this number.
    fn of(number: usize) -> Option<Fault> {
        if !number.is_multiple_of(FAULTY) {
            return None;
        }
        Some(match number / FAULTY % 4 {
            0 => Fault::Busy,
            1 => Fault::CutBefore,
            2 => Fault::CutAfter,
            _ => Fault::CutWithin,
        })
    }
}

impl Proxy {
    pub fn start(before: SocketAddr, seed: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (faults, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, ended) = (faults.clone(), ends.clone());
        std::thread::spawn(move || {
            let requests = Arc::new(AtomicUsize::new(Random::new(seed).below(FAULTY * 4)));
            while let Ok((client, _)) = listener.accept() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (requests, counted) = (requests.clone(), counted.clone());
                std::thread::spawn(move || serve(client, before, &requests, &counted));
            }
        });
        Proxy { address, faults, ends }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// One connection, request by request.
fn serve(mut client: TcpStream, before: SocketAddr, requests: &AtomicUsize, faults: &AtomicUsize) -> Option<()> {
    let mut server = TcpStream::connect(before).ok()?;
    loop {
        let request = message(&mut client)?;
        let number = requests.fetch_add(1, Ordering::Relaxed);
        let fault = Fault::of(number);
        faults.fetch_add(usize::from(fault.is_some()), Ordering::Relaxed);
        match fault {
            Some(Fault::Busy) => {
                let body =
                    r#"{"odata.error":{"code":"ServerBusy","message":{"lang":"en-US","value":"The server is busy."}}}"#;
                let answer = format!(
                    "HTTP/1.1 503 Server Busy\r\nRetry-After: 0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                client.write_all(answer.as_bytes()).ok()?;
                continue;
            }
            Some(Fault::CutBefore) => return None,
            _ => {}
        }
        server.write_all(&request).ok()?;
        let answer = message(&mut server)?;
        let part = match fault {
            Some(Fault::CutAfter) => 0,
            Some(Fault::CutWithin) => Random::new(number as u64).below(answer.len()),
            _ => answer.len(),
        };
        client.write_all(&answer[..part]).ok()?;
        if fault.is_some() {
            return None;
        }
    }
}

/// A request or an answer with a Content-Length, or without a body.
fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16384];
    let mut length = None;
    loop {
        if length.is_none()
            && let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let body = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"))
                .map_or(0, |value| value.trim().parse().unwrap());
            length = Some(end + 4 + body);
        }
        if length.is_some_and(|length: usize| bytes.len() >= length) {
            return Some(bytes);
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}
