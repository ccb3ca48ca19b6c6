//! TLS for clients.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring as provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::{Error, PemObject};
use table_service_connect::certificates;
use tokio_rustls::TlsAcceptor;

use crate::config::{ConfigError, Reread, TlsFiles};

/// The certificate for clients and its key, as the files have them. Existing connections keep the one that they began
/// with.
pub struct Identity(pub Reread<CertifiedKey, 2>);

impl Identity {
    /// Reads the files.
    ///
    /// # Errors
    /// If the files are missing, or are not a certificate and its key.
    pub fn read(TlsFiles { certificate, key }: TlsFiles) -> Result<Arc<Identity>, ConfigError> {
        let settings = ["tls_certificate", "tls_key"];
        let files = Reread::read("the certificate for clients", settings, [certificate, key], certified)?;
        Ok(Arc::new(Identity(files)))
    }

    /// Returns the acceptor for the handshakes with clients.
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
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current())
    }
}

impl fmt::Debug for Identity {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Returns the certificate with its key.
fn certified(
    [certificate_file, key_file]: &[PathBuf; 2],
    [certificate, key]: &[Vec<u8>; 2],
) -> Result<CertifiedKey, ConfigError> {
    let certificates =
        certificates(certificate_file, certificate).map_err(|problem| ConfigError::new("tls_certificate", problem))?;
    let key_problem =
        |error: &dyn fmt::Display| ConfigError::new("tls_key", format!("{}: {error}", key_file.display()));
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        Error::NoItemsFound => key_problem(&"it has no private key, or one with a password"),
        error => key_problem(&error),
    })?;
    CertifiedKey::from_der(certificates, key, &provider::default_provider()).map_err(|error| key_problem(&error))
}
