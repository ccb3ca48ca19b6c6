//! TLS for clients. The files of the certificate and its key are read again when they have changed.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use ring::digest::{SHA256, digest};
use rustls::ServerConfig;
use rustls::crypto::ring as provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::{Error, PemObject};
use table_service_command_line::files;
use table_service_connect::certificates;
use tokio::signal::unix::Signal;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::config::{ConfigError, TlsFiles};
use crate::reminder::Reminder;

/// The time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(5);
/// The most bytes of a file that are read.
const LONGEST: u64 = 1024 * 1024;

/// The certificate for clients and its key, as the files have them.
pub struct Identity {
    files: TlsFiles,
    state: RwLock<State>,
}

struct State {
    current: Arc<CertifiedKey>,
    /// The digests of the files that were read last.
    digests: [Vec<u8>; 2],
}

impl Identity {
    /// Reads the files.
    ///
    /// # Errors
    /// If the files are missing, or are not a certificate and its key.
    pub fn read(files: TlsFiles) -> Result<Arc<Identity>, ConfigError> {
        let contents = contents(&files)?;
        let state = RwLock::new(State {
            current: key(&files, &contents)?,
            digests: digests(&contents),
        });
        Ok(Arc::new(Identity { files, state }))
    }

    /// Returns what makes the handshakes with clients.
    ///
    /// # Errors
    /// None: the versions of TLS fit the provider.
    pub fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, ConfigError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| ConfigError::new("tls_certificate", error))?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files as long as the process runs, every few seconds and after each hangup. Connections that there are stay as they are.
    /// If the files cannot be used, the log says why, and the certificate stays.
    pub async fn keep_reading(&self, mut hangup: Option<Signal>) {
        let mut problem = Reminder::default();
        loop {
            let is_asked = tokio::select! {
                () = sleep(INTERVAL) => false,
                () = hung_up(&mut hangup) => true,
            };
            match self.read_again() {
                Ok(true) => {
                    problem.end();
                    tracing::info!("the certificate for clients was read again, and is in use");
                }
                Ok(false) if is_asked => tracing::info!("the certificate for clients is in use already"),
                Ok(false) => {}
                Err(error) => {
                    let text = error.to_string();
                    if problem.is_due(&text) || is_asked {
                        tracing::error!(
                            problem = text,
                            "the certificate for clients cannot be read again: the one of before stays in use"
                        );
                    }
                }
            }
        }
    }

    /// Takes the files if they have changed, and returns whether they have.
    fn read_again(&self) -> Result<bool, ConfigError> {
        // A pipe is read once.
        let is_other = |path: &Path| path.metadata().is_ok_and(|about| !about.is_file());
        if is_other(&self.files.certificate) || is_other(&self.files.key) {
            return Ok(false);
        }
        let contents = contents(&self.files)?;
        let digests = digests(&contents);
        if self.state.read().digests == digests {
            return Ok(false);
        }
        let current = key(&self.files, &contents)?;
        *self.state.write() = State { current, digests };
        Ok(true)
    }
}

/// Ends when the signal has arrived; never without one.
pub async fn hung_up(hangup: &mut Option<Signal>) {
    let received = match hangup {
        Some(hangup) => hangup.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending().await
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let state = self.state.read();
        Some(state.current.clone())
    }
}

impl fmt::Debug for Identity {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Returns the bytes of the certificate's file and of the key's.
fn contents(files: &TlsFiles) -> Result<[Vec<u8>; 2], ConfigError> {
    let read = |setting, path: &Path| {
        let mut bytes = Vec::new();
        files::settings(path)
            .and_then(|opened| opened.take(LONGEST).read_to_end(&mut bytes))
            .map_err(|error| ConfigError::new(setting, format!("{}: {error}", path.display())))?;
        Ok(bytes)
    };
    Ok([
        read("tls_certificate", &files.certificate)?,
        read("tls_key", &files.key)?,
    ])
}

fn digests(contents: &[Vec<u8>; 2]) -> [Vec<u8>; 2] {
    contents
        .each_ref()
        .map(|bytes| digest(&SHA256, bytes).as_ref().to_vec())
}

/// Returns the certificate with its key.
fn key(files: &TlsFiles, [certificate, key]: &[Vec<u8>; 2]) -> Result<Arc<CertifiedKey>, ConfigError> {
    let certificates = certificates(&files.certificate, certificate)
        .map_err(|problem| ConfigError::new("tls_certificate", problem))?;
    let key_problem =
        |error: &dyn fmt::Display| ConfigError::new("tls_key", format!("{}: {error}", files.key.display()));
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        Error::NoItemsFound => key_problem(&"it has no private key, or one with a password"),
        error => key_problem(&error),
    })?;
    CertifiedKey::from_der(certificates, key, &provider::default_provider())
        .map(Arc::new)
        .map_err(|error| key_problem(&error))
}
