//! The certificates that servers are checked against.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use table_service_command_line::files;

/// The certificates that servers are checked against.
#[derive(Clone)]
pub struct Certificates {
    client: Arc<ClientConfig>,
    is_empty: bool,
}

impl Certificates {
    /// Reads a PEM file, or those of the system, which may have none.
    pub fn read(file: Option<&Path>) -> Result<Certificates, String> {
        let mut roots = RootCertStore::empty();
        match file {
            Some(file) => {
                let mut pem = Vec::new();
                files::settings(file)
                    .and_then(|mut opened| opened.read_to_end(&mut pem))
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                roots.add_parsable_certificates(certificates(file, &pem)?)
            }
            None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
        };
        let is_empty = roots.is_empty();
        if is_empty && file.is_some() {
            return Err("none of its certificates can be used".to_owned());
        }
        let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = Arc::new(client);
        Ok(Certificates { client, is_empty })
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Returns the settings of a client that checks its servers.
    pub fn client(&self) -> ClientConfig {
        ClientConfig::clone(&self.client)
    }
}

/// Returns the certificates of a PEM file with these bytes.
pub fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| problem(&error))?;
    if certificates.is_empty() {
        return Err(problem(&"it has no certificate"));
    }
    Ok(certificates)
}
