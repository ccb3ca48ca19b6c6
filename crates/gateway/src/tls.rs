//! TLS for clients and for databases.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{Error, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::{ConfigError, TlsFiles};

/// Returns the certificate and the key for clients.
///
/// # Errors
/// If the files are missing, or are not a certificate and its key.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ConfigError> {
    let certificates = certificates("tls_certificate", &files.certificate)?;
    let key_problem =
        |error: &dyn std::fmt::Display| ConfigError::new("tls_key", format!("{}: {error}", files.key.display()));
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
        Error::NoItemsFound => key_problem(&"it has no private key, or one with a password"),
        error => key_problem(&error),
    })?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| key_problem(&error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns the certificates that database servers are checked against. `None` if the system has none.
///
/// # Errors
/// If the file is missing or has no certificates.
pub fn database(ca: Option<&Path>) -> Result<Option<Arc<ClientConfig>>, ConfigError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => roots.add_parsable_certificates(certificates("database_ca", file)?),
        None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
    };
    if roots.is_empty() {
        return match ca {
            Some(_) => Err(ConfigError::new("database_ca", "none of its certificates can be used")),
            None => Ok(None),
        };
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| ConfigError::new("database_ca", error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(Arc::new(config)))
}

fn certificates(setting: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let problem = |error: &dyn std::fmt::Display| ConfigError::new(setting, format!("{}: {error}", file.display()));
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| problem(&error))?;
    if certificates.is_empty() {
        return Err(problem(&"it has no certificate"));
    }
    Ok(certificates)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
