//! Ways to a server that can be cut, as a network can.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The fate of connections on a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    Open,
    /// They are closed.
    Cut,
    /// They get no answer.
    Silent,
}

/// A way to a server, which can be cut.
pub struct Way {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// Connections go to these servers in turn.
    sockets: Mutex<Vec<PathBuf>>,
    passage: Mutex<Passage>,
    streams: Mutex<Vec<TcpStream>>,
    /// How many connections were begun.
    begun: AtomicUsize,
}

impl Way {
    /// A way to the server with its socket in a directory.
    pub fn to(directory: &str, port: u16) -> Way {
        Way::in_turn(&[(directory, port)])
    }

    /// One address in front of several servers, as services for reads have it.
    pub fn in_turn(servers: &[(&str, u16)]) -> Way {
        Way::behind(TcpListener::bind("127.0.0.1:0").unwrap(), servers)
    }

    /// Ways to two servers from the same port of 127.0.0.1 and 127.0.0.2, which are addresses of one machine here and of two
    /// elsewhere.
    pub fn of_two_addresses(one: (&str, u16), other: (&str, u16)) -> (Way, Way) {
        loop {
            let first = TcpListener::bind("127.0.0.1:0").unwrap();
            // Somebody else may have that port.
            if let Ok(second) = TcpListener::bind(("127.0.0.2", first.local_addr().unwrap().port())) {
                return (Way::behind(first, &[one]), Way::behind(second, &[other]));
            }
        }
    }

    fn behind(listener: TcpListener, servers: &[(&str, u16)]) -> Way {
        let way = Way {
            address: listener.local_addr().unwrap(),
            shared: Arc::new(Shared {
                sockets: Mutex::new(servers.iter().map(socket).collect()),
                passage: Mutex::new(Passage::Open),
                streams: Mutex::default(),
                begun: AtomicUsize::new(0),
            }),
        };
        let shared = way.shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                shared.connected(stream.unwrap());
            }
        });
        way
    }

    /// Changes the passage, and cuts the existing connections.
    pub fn set(&self, passage: Passage) {
        *self.shared.passage.lock().unwrap() = passage;
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// New connections lead to another server. The existing ones stay.
    pub fn leads_to(&self, directory: &str, port: u16) {
        *self.shared.sockets.lock().unwrap() = vec![socket(&(directory, port))];
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@{}/{database}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn begun(&self) -> usize {
        self.shared.begun.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn connected(&self, stream: TcpStream) {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        // Under this lock, so that no connection escapes a change.
        let passage = self.passage.lock().unwrap();
        if *passage == Passage::Cut {
            return;
        }
        self.streams.lock().unwrap().push(stream.try_clone().unwrap());
        if *passage == Passage::Open {
            // The server may be away itself.
            let socket = {
                let sockets = self.sockets.lock().unwrap();
                sockets[number % sockets.len()].clone()
            };
            let Ok(server) = UnixStream::connect(socket) else {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            };
            let (from, to) = (stream.try_clone().unwrap(), server.try_clone().unwrap());
            pass(from, to, |to| to.shutdown(Shutdown::Both));
            pass(server, stream, |to| to.shutdown(Shutdown::Both));
        }
    }
}

fn socket((directory, port): &(&str, u16)) -> PathBuf {
    PathBuf::from(format!("{directory}/.s.PGSQL.{port}"))
}

/// Passes on everything from one stream to another, and then the end.
fn pass<T: Write + Send + 'static>(
    mut from: impl Read + Send + 'static,
    mut to: T,
    end: impl Fn(&T) -> std::io::Result<()> + Send + 'static,
) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = end(&to);
    });
}
