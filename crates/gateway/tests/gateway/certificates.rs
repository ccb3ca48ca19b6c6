//! Certificates for clients that are renewed while the gateway runs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use raw_http::raw;
use system_tests::tls::Certificate;
use system_tests::wait_until;

use crate::gateway::Service;

/// A gateway with a certificate in two files, and certificates that may follow it.
struct Renewal {
    service: Service,
    directory: PathBuf,
    certificates: [Certificate; 2],
}

impl Renewal {
    fn start(name: &str) -> Renewal {
        let directory = std::env::temp_dir().join(format!("gateway-renewal-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let certificates = ["one", "two"].map(|name| Certificate::new(&directory, name));
        let [certificate, key] = ["in-use.pem", "in-use.key"].map(|file| directory.join(file));
        fs::copy(&certificates[0].certificate, &certificate).unwrap();
        fs::copy(&certificates[0].key, &key).unwrap();
        let [certificate, key] = [&certificate, &key].map(|path| path.to_str().unwrap());
        let service = Service::with(&["--tls-certificate", certificate, "--tls-key", key]);
        Renewal {
            service,
            directory,
            certificates,
        }
    }

    /// Puts a file in the place of the one in use, as programs do that renew certificates.
    fn put(&self, file: &str, content: &str) {
        let new = self.directory.join("new");
        fs::write(&new, content).unwrap();
        fs::rename(&new, self.directory.join(file)).unwrap();
    }

    fn put_both(&self, certificate: &Certificate) {
        self.put("in-use.pem", &certificate.made.cert.pem());
        self.put("in-use.key", &certificate.made.signing_key.serialize_pem());
    }

    /// Returns whether a client that trusts only this certificate is served.
    fn is_in_use(&self, certificate: &Certificate) -> bool {
        let mut stream = connect(&self.service, certificate);
        let request = raw(
            "GET",
            "/devstoreaccount1/Tables",
            &[("Host", "localhost"), ("Connection", "close")],
            b"",
        );
        stream.write_all(&request).is_ok() && answer(&mut stream).starts_with("HTTP/1.1 403 ")
    }

    fn hang_up(&self) {
        let pid = self.service.gateway.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

type Stream = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

fn connect(service: &Service, certificate: &Certificate) -> Stream {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.made.cert.der().clone()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    Stream::new(client, TcpStream::connect(service.client.address).unwrap())
}

/// Returns the head of the next answer. Its body is also read.
fn answer(stream: &mut Stream) -> String {
    let mut text = String::new();
    let mut byte = [0];
    while !text.ends_with("\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
        text.push(char::from(byte[0]));
    }
    let length = text
        .to_lowercase()
        .split("content-length: ")
        .nth(1)
        .map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
    let _ = stream.read_exact(&mut vec![0; length]);
    text
}

#[test]
fn a_renewed_certificate_is_used_without_a_lost_connection() {
    let renewal = Renewal::start("new");
    let [old, new] = &renewal.certificates;
    assert!(renewal.is_in_use(old) && !renewal.is_in_use(new));
    let mut open = connect(&renewal.service, old);
    let request = raw("GET", "/devstoreaccount1/Tables", &[("Host", "localhost")], b"");
    open.write_all(&request).unwrap();
    assert!(answer(&mut open).starts_with("HTTP/1.1 403 "));

    renewal.put_both(new);
    wait_until("the new certificate is in use", || renewal.is_in_use(new));
    assert!(!renewal.is_in_use(old));
    // The connection of before goes on.
    open.write_all(&request).unwrap();
    assert!(answer(&mut open).starts_with("HTTP/1.1 403 "));
    let gateway = &renewal.service.gateway;
    gateway.waits_for_log("the certificate for clients was read again");
}

#[test]
fn what_cannot_be_used_is_logged_and_the_old_certificate_stays() {
    let renewal = Renewal::start("wrong");
    let [old, new] = &renewal.certificates;
    let secret = new.made.signing_key.serialize_pem();
    let line = secret.lines().nth(1).unwrap();
    for (file, content, why) in [
        ("in-use.key", secret.as_str(), "in-use.key: "),
        ("in-use.pem", "nothing", "in-use.pem: it has no certificate"),
        ("in-use.pem", secret.as_str(), "in-use.pem: it has no certificate"),
    ] {
        renewal.put_both(old);
        renewal.put(file, content);
        renewal.service.gateway.waits_for_log(why);
        assert!(renewal.is_in_use(old) && !renewal.is_in_use(new), "{why}");
    }
    fs::remove_file(renewal.directory.join("in-use.pem")).unwrap();
    renewal.service.gateway.waits_for_log("No such file");
    assert!(renewal.is_in_use(old));
    assert!(!renewal.service.gateway.log().contains(line));
    renewal.put_both(new);
    wait_until("the new certificate is in use", || renewal.is_in_use(new));
}

#[test]
fn a_hangup_ends_no_gateway() {
    let renewal = Renewal::start("hangup");
    let [old, new] = &renewal.certificates;
    renewal.hang_up();
    renewal
        .service
        .gateway
        .waits_for_log("the certificate for clients is in use already");
    assert!(renewal.is_in_use(old));
    renewal.put_both(new);
    renewal.hang_up();
    wait_until("the new certificate is in use", || renewal.is_in_use(new));

    let service = Service::start();
    let pid = service.gateway.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    service.gateway.waits_for_log("there is no certificate to read again");
    service.client.get("Tables").expect(200);
}
