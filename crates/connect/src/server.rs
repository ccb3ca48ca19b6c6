//! One server of a database: connections to the addresses of its name, each with a time limit.

use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use table_service_model::extension::Extension;
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::with_sources;
use crate::tls::Certificates;
use crate::url::DatabaseUrl;

/// The time after which the next address of a name is also tried.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// The part of a connection that reads and writes, until it ends.
pub type Wire = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A new connection.
pub struct Opened {
    pub client: Client,
    pub wire: Wire,
    /// The setting `server_version` of the server.
    pub server_version: Option<String>,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum Unreachable {
    Postgres(Error),
    /// A name without an address, or no answer.
    Network(String),
}

impl From<Unreachable> for String {
    fn from(problem: Unreachable) -> String {
        match problem {
            Unreachable::Postgres(error) => with_sources(&error),
            Unreachable::Network(problem) => problem,
        }
    }
}

/// Returns the extension that the answer to [`LOOK`](table_service_model::extension::LOOK) shows.
pub fn extension_in(answer: Option<&Row>) -> Result<Option<Extension>, Error> {
    let read = |row: &Row| {
        let (version, stranger) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Extension { version, stranger })
    };
    answer.map(read).transpose()
}

/// One server of a database.
pub struct Server {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// The name of the server, for logs.
    pub name: String,
    time: Duration,
    has_several_addresses: AtomicBool,
}

impl Server {
    /// Returns the servers of a URL. A connection to one may take so long, or as long as the `connect_timeout` of the URL if that is
    /// less. With `sslmode=require` it uses TLS, and the server's certificate is checked.
    ///
    /// # Errors
    /// For `sslmode=require` without certificates.
    pub fn all(url: &DatabaseUrl, certificates: &Certificates, time: Duration) -> Result<Vec<Server>, String> {
        let server = |url: DatabaseUrl| {
            let (name, mut config) = (url.name(), url.into_config());
            let tls = match config.get_ssl_mode() {
                SslMode::Require if certificates.is_empty() => {
                    return Err("sslmode=require needs the system's certificates or database_ca".to_owned());
                }
                SslMode::Require => Some(MakeRustlsConnect::new(certificates.client())),
                _ => {
                    config.ssl_mode(SslMode::Disable);
                    None
                }
            };
            Ok(Server {
                time: config.get_connect_timeout().map_or(time, |limit| time.min(*limit)),
                config,
                tls,
                name,
                has_several_addresses: AtomicBool::new(false),
            })
        };
        url.servers().into_iter().map(server).collect()
    }

    /// Returns the same server as one of several: with this time limit for a connect, and without `target_session_attrs`.
    #[must_use]
    pub fn one_of_several(mut self, time: Duration) -> Server {
        self.config.target_session_attrs(TargetSessionAttrs::Any);
        self.time = self.time.min(time);
        self
    }

    /// Returns whether the name had several addresses when it was resolved last.
    pub fn has_several_addresses(&self) -> bool {
        self.has_several_addresses.load(Ordering::Relaxed)
    }

    /// Connects to the addresses of the name, and makes each connection ready. Each address has its own limit, and a silent one delays no
    /// other one. Returns the first connection that is accepted, or else one that has answered.
    pub async fn connect<T, E, F>(
        &self,
        make_ready: impl FnOnce(Opened) -> F + Clone + Send + 'static,
        accepts: impl Fn(&T) -> bool,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Unreachable> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send,
    {
        let mut left = self.addresses().await?.into_iter();
        let mut attempts = JoinSet::new();
        let mut result = Err(Unreachable::Network("its name has no address".to_owned()).into());
        loop {
            if let Some(config) = left.next() {
                let (tls, time, make_ready) = (self.tls.clone(), self.time, make_ready.clone());
                attempts.spawn(async move {
                    let ready = timeout(time, async move {
                        let opened = match tls {
                            Some(tls) => open(&config, tls).await,
                            None => open(&config, NoTls).await,
                        };
                        make_ready(opened.map_err(Unreachable::Postgres)?).await
                    });
                    let late = |_| Err(Unreachable::Network("it does not answer".to_owned()).into());
                    ready.await.unwrap_or_else(late)
                });
            }
            let ended = match left.len() {
                0 => attempts.join_next().await,
                _ => match timeout(NEXT_ADDRESS, attempts.join_next()).await {
                    Ok(ended) => ended,
                    Err(_) => continue,
                },
            };
            match ended {
                Some(Ok(Ok(ready))) => {
                    if accepts(&ready) {
                        return Ok(ready);
                    }
                    result = Ok(ready);
                }
                Some(Ok(Err(problem))) if result.is_err() => result = Err(problem),
                Some(_) => {}
                None => return result,
            }
        }
    }

    /// Returns the settings for each address of the name. The name stays, for TLS.
    async fn addresses(&self) -> Result<Vec<Config>, Unreachable> {
        let ([Host::Tcp(host)], []) = (self.config.get_hosts(), self.config.get_hostaddrs()) else {
            return Ok(vec![self.config.clone()]);
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let looked_up = timeout(self.time, lookup_host((host.as_str(), port))).await;
        let found = looked_up.map_err(|_| Unreachable::Network("its name is not resolved in time".to_owned()))?;
        let found = found.map_err(|error| Unreachable::Network(format!("its name cannot be resolved: {error}")))?;
        let mut all: Vec<Config> = Vec::new();
        for address in found {
            let mut config = self.config.clone();
            config.hostaddr(address.ip());
            if !all.contains(&config) {
                all.push(config);
            }
        }
        self.has_several_addresses.store(all.len() > 1, Ordering::Relaxed);
        Ok(all)
    }

    /// Cancels the statement that a connection is running.
    pub async fn cancel(&self, token: CancelToken) -> Result<(), Error> {
        match &self.tls {
            Some(tls) => token.cancel_query(tls.clone()).await,
            None => token.cancel_query(NoTls).await,
        }
    }
}

/// Connects over the socket in a directory, to a server that the program has started.
pub async fn open_socket(directory: &Path, role: &str, database: &str) -> Result<Opened, Error> {
    let mut config = Config::new();
    config.host_path(directory).user(role).dbname(database);
    open(&config, NoTls).await
}

async fn open<T>(config: &Config, tls: T) -> Result<Opened, Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, wire) = config.connect(tls).await?;
    Ok(Opened {
        client,
        server_version: wire.parameter("server_version").map(str::to_owned),
        wire: Box::pin(wire),
    })
}
