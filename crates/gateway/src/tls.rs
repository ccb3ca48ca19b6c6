//! TLS for clients.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::{Error, PemObject};
use table_service_command_line::files::settings;
use table_service_connect::certificates;
use tokio_rustls::TlsAcceptor;

use crate::config::{ConfigError, TlsFiles};

/// Returns the certificate and the key for clients.
///
/// # Errors
/// If the files are missing, or are not a certificate and its key.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ConfigError> {
    let certificates =
        certificates(&files.certificate).map_err(|problem| ConfigError::new("tls_certificate", problem))?;
    let key_problem =
        |error: &dyn std::fmt::Display| ConfigError::new("tls_key", format!("{}: {error}", files.key.display()));
    let opened = settings(&files.key).map_err(|error| key_problem(&error))?;
    let key = PrivateKeyDer::from_pem_reader(opened).map_err(|error| match error {
        Error::NoItemsFound => key_problem(&"it has no private key, or one with a password"),
        error => key_problem(&error),
    })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| key_problem(&error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
