//! Certificates for servers of tests.

use std::fs::{Permissions, metadata, set_permissions, write};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// A certificate for `localhost` that nobody has signed but itself, and its key.
pub struct Certificate {
    pub made: rcgen::CertifiedKey<rcgen::KeyPair>,
    /// The path of the certificate.
    pub certificate: String,
    /// The path of the key. Only the user of the PostgreSQL servers can read it, as PostgreSQL requires.
    pub key: String,
}

impl Certificate {
    /// Makes the files `<name>.pem` and `<name>.key`.
    pub fn new(directory: &Path, name: &str) -> Certificate {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = |ending: &str, content: String| {
            let path = directory.join(format!("{name}.{ending}"));
            write(&path, content).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let certificate = file("pem", made.cert.pem());
        let key = file("key", made.signing_key.serialize_pem());
        make_servers_own(&key);
        Certificate { made, certificate, key }
    }

    /// Status and text of the answer to a request over HTTPS, from a client that trusts this certificate.
    pub fn exchange(&self, address: SocketAddr, request: &[u8]) -> (u16, String) {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.made.cert.der().clone()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut tcp = TcpStream::connect(address).unwrap();
        let mut stream = rustls::Stream::new(&mut client, &mut tcp);
        stream.write_all(request).unwrap();
        let mut bytes = Vec::new();
        // If the peer closes TCP without closing TLS, that is an error after all bytes.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        (status, text)
    }
}

/// Gives a file to the user of the servers, and removes access for all others.
fn make_servers_own(file: &str) {
    set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    if metadata("/proc/self").unwrap().uid() == 0 {
        let id = Command::new("id").args(["-u", "postgres"]).output().unwrap();
        let id: u32 = String::from_utf8(id.stdout).unwrap().trim().parse().unwrap();
        chown(file, Some(id), None).unwrap();
    }
}
