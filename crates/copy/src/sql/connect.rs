//! Connections.

use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::failure::{Failure, with_sources};

/// What the program calls a database: without user and password.
pub fn name(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgresql://{host}:{port}/{database}")
}

/// A connection whose settings do not depend on the role or the database.
///
/// # Errors
/// Why there is none.
pub async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let mut config = config.clone();
    if config.get_application_name().is_none() {
        config.application_name("table-service-copy");
    }
    let client = match config.get_ssl_mode() {
        SslMode::Require => {
            let (client, connection) = config.connect(tls()).await?;
            tokio::spawn(connection);
            client
        }
        _ => {
            config.ssl_mode(SslMode::Disable);
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            client
        }
    };
    client
        .batch_execute(
            "SET search_path = pg_catalog; SET statement_timeout = 0; SET lock_timeout = 0; SET jit = off; \
             SET idle_in_transaction_session_timeout = 0; SET client_encoding = 'UTF8'; \
             SET standard_conforming_strings = on; SET datestyle = 'ISO'; SET timezone = 'UTC'; \
             SET row_security = on",
        )
        .await?;
    Ok(client)
}

fn tls() -> MakeRustlsConnect {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    // The default versions are those of the provider, so there is no error to report.
    let builder = versions.unwrap_or_else(|_| ClientConfig::builder());
    MakeRustlsConnect::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// An error of a database in one line, with the service's message and its hint.
pub fn text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => match db.hint() {
            Some(hint) => format!("{} {hint}", db.message()),
            None => db.message().to_owned(),
        },
        None => with_sources(error),
    }
}

pub fn failure(name: &str, error: &tokio_postgres::Error) -> Failure {
    Failure::new(format!("{name}: {}", text(error)))
}

/// Whether the same statement may succeed later: the server is away or busy.
pub fn is_passing(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => {
            let code = code.code();
            ["08", "53"].iter().any(|class| code.starts_with(class))
                || ["40001", "40P01", "55P03", "57P01", "57P02", "57P03"].contains(&code)
        }
        // Not an answer of the server: the connection is gone or was not made.
        None => true,
    }
}

/// A text as a literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
