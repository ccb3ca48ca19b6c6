//! What `--from` and `--to` name.

use std::path::PathBuf;

use table_service_model::{Secret, connection};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::path::is_path;
use crate::secret;

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
    /// What is wrong with it. It may have a secret in any form, so it is not repeated.
    pub fn read(argument: &Secret) -> Result<Location, Failure> {
        let secret = secret::read(argument)?;
        let text = secret.expose();
        if text.is_empty() {
            return Err(Failure::usage("A source or a target is empty."));
        }
        if text == "-" {
            return Ok(Location::Stream);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return database(text).map(|config| Location::Sql(Box::new(config)));
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return Endpoint::from_url(text).map(Location::Rest);
        }
        if Endpoint::is_connection_string(text) {
            return Endpoint::from_connection_string(text).map(Location::Rest);
        }
        if is_path(text) {
            return Ok(Location::Path(PathBuf::from(text)));
        }
        Err(Failure::usage(format!(
            "A source or a target is not recognised: {secret:?}. It is one of\n  \
             a connection string, such as DefaultEndpointsProtocol=https;AccountName=…;AccountKey=…\n  \
             a table endpoint with a signature, such as https://account.table.core.windows.net/?sv=…&sig=…\n  \
             a database, such as postgresql://user@host/database\n  \
             a file or a directory, such as ./backup or /srv/Orders.jsonl\n  \
             - for standard input or output\n\
             without quotes around it and without a name before it."
        )))
    }
}

fn database(text: &str) -> Result<Config, Failure> {
    let wrong = || {
        Failure::usage(
            "The postgresql:// URL of a database cannot be read. It has the form postgresql://user:password@host:port/database; \
             in a password, @ is %40, / is %2F, : is %3A and % is %25.",
        )
    };
    let config: Config = text.parse().map_err(|_| wrong())?;
    let is_host = |host: &Host| match host {
        Host::Tcp(name) => connection::is_host(name),
        Host::Unix(_) => true,
    };
    // A part of a mistyped password would be looked up and shown.
    if !config.get_hosts().iter().all(is_host) {
        return Err(wrong());
    }
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => connection::Host::Name(name),
        Host::Unix(_) => connection::Host::Directory,
    });
    if config.get_ssl_mode() == SslMode::Prefer && !connection::is_this_machine(hosts, config.get_hostaddrs()) {
        return Err(Failure::usage(
            "The postgresql:// URL names another machine without sslmode: add ?sslmode=require for TLS, or \
             ?sslmode=disable to do without.",
        ));
    }
    Ok(config)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        match Location::read(&text.into()) {
            Ok(_) => panic!("{text}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn another_machine_needs_sslmode() {
        for here in [
            "postgresql://u@localhost/d",
            "postgresql://u@%2Frun%2Fpostgresql/d",
            "postgresql://u@localhost/d?hostaddr=127.0.0.1",
            "postgresql://u@h.example/d?sslmode=require&hostaddr=10.0.0.1",
        ] {
            assert!(matches!(Location::read(&here.into()), Ok(Location::Sql(_))), "{here}");
        }
        for away in [
            "postgresql://u@h.example/d",
            "postgresql://u@localhost/d?hostaddr=10.0.0.1",
            "postgresql://u@localhost,127.0.0.1/d?hostaddr=127.0.0.1,10.0.0.1",
            "postgresql:///d?hostaddr=10.0.0.1",
        ] {
            assert!(error(away).contains("sslmode"), "{away}");
        }
    }

    #[test]
    fn parts_of_a_password_are_no_host() {
        for mistyped in [
            "postgresql://u:sec@ret@h/d",
            "postgresql://h;password=secret/d",
            "postgresql://u@h/d?secret",
        ] {
            let said = error(mistyped);
            assert!(!said.contains("ret@") && !said.contains("secret"), "{said}");
        }
    }
}
