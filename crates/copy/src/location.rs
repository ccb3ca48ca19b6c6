//! What `--from` and `--to` name.

use std::net::IpAddr;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::secret::Secret;

/// A source or a target.
pub enum Location {
    Rest(Endpoint),
    Sql(Box<Config>),
    /// A file or a directory.
    Path(PathBuf),
    /// Standard input or output.
    Stream,
}

impl Location {
    /// Reads what an argument names, the environment or a file it refers to included.
    ///
    /// # Errors
    /// What is wrong with it. Secrets are never quoted.
    pub fn read(argument: &str) -> Result<Location, Failure> {
        let secret = Secret::read(argument)?;
        let text = secret.expose();
        if text.is_empty() {
            return Err(Failure::usage("A source or a target is empty."));
        }
        if text == "-" {
            return Ok(Location::Stream);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let config: Config = text
                .parse()
                .map_err(|_| Failure::usage("The postgresql:// URL of a database cannot be read."))?;
            if config.get_ssl_mode() == SslMode::Prefer && !config.get_hosts().iter().all(is_this_machine) {
                return Err(Failure::usage(
                    "The postgresql:// URL names another machine without sslmode: add ?sslmode=require for TLS, or \
                     ?sslmode=disable to do without.",
                ));
            }
            return Ok(Location::Sql(Box::new(config)));
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return Endpoint::from_url(text).map(Location::Rest);
        }
        if Endpoint::is_connection_string(text) {
            return Endpoint::from_connection_string(text).map(Location::Rest);
        }
        Ok(Location::Path(PathBuf::from(text)))
    }
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
        Host::Unix(_) => true,
    }
}
