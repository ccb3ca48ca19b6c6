//! Start and shutdown.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::account::{Tenant, Tenants};
use crate::admin::Admin;
use crate::config::{Config, ConfigError, LogFormat};
use crate::database::mismatch;
use crate::gateway::{Gateway, TimeLimits};
use crate::observe::Metrics;
use crate::server::Server;
use crate::shares::Shares;
use crate::tls;

/// The default of `max_connections`.
const CONNECTIONS: usize = 10_000;
/// Unfinished heads of requests have this part of the memory.
const HEAD_PART: usize = 8;
/// File descriptors for everything but clients: databases, the log, the admin port.
const OTHER_FILES: usize = 256;
/// The pause between attempts to reach a database.
const RETRY: Duration = Duration::from_secs(2);

/// Starts the log, on standard error.
///
/// # Errors
/// For a filter that does not parse.
pub fn start_log(config: &Config) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.log).map_err(|error| ConfigError::new("log", error))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Where the gateway listens.
pub struct Addresses {
    /// `http` or `https`.
    pub scheme: &'static str,
    pub clients: SocketAddr,
    pub admin: SocketAddr,
}

/// Runs the gateway until SIGTERM or SIGINT. `announce` is called when it listens.
///
/// # Errors
/// If it cannot start: an address is in use, a file is missing, a database lacks the extension.
pub async fn run(config: Config, announce: impl FnOnce(&Addresses)) -> Result<(), Box<dyn Error>> {
    let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
    let tenants = Tenants::new(&config, tls::database(config.database_ca.as_deref())?)?;
    for tenant in tenants.iter() {
        check_database(tenant).await?;
    }

    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let listener = bind("listen", &config.listen).await?;
    let address = listener.local_addr()?;
    if config.loopback_only && !address.ip().is_loopback() {
        return Err(ConfigError::new(
            "expose_development_account",
            format!(
                "the key of the account devstoreaccount1 is public, an account has that name or that key, and {} can be \
                 reached from other machines: listen on 127.0.0.1, configure another account and another key, or set this to true",
                config.listen
            ),
        )
        .into());
    }
    let admin_listener = bind("admin_listen", &config.admin_listen).await?;
    let admin_address = admin_listener.local_addr()?;

    let gateway = Arc::new(Gateway {
        places: Shares::new(config.max_requests, tenants.len()),
        memory: Shares::new(config.max_memory, tenants.len()),
        tenants,
        metrics: Metrics::default(),
        proxies: config.trusted_proxies.clone(),
        limits: TimeLimits {
            request: config.statement_timeout,
            body: config.body_timeout,
            memory: config.pool_timeout,
        },
    });
    let admin = Arc::new(Admin {
        gateway: gateway.clone(),
        stopping: AtomicBool::new(false),
        allow_reset: config.allow_reset,
    });
    tokio::spawn(admin.clone().run(admin_listener));

    announce(&Addresses {
        scheme: if tls.is_some() { "https" } else { "http" },
        clients: address,
        admin: admin_address,
    });
    let server = Server {
        gateway,
        listener,
        tls,
        max_connections: max_connections(&config),
        head_memory: Shares::new(config.max_memory / HEAD_PART, 1),
        header_timeout: config.header_timeout,
        response_timeout: config.response_timeout,
    };
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        admin.stopping.store(true, Ordering::Relaxed);
    };
    server.run(stop, config.shutdown_timeout).await;
    tracing::info!("stopped");
    Ok(())
}

async fn bind(setting: &str, address: &str) -> Result<TcpListener, ConfigError> {
    TcpListener::bind(address)
        .await
        .map_err(|error| ConfigError::new(setting, format!("cannot listen on {address}: {error}")))
}

/// Refuses a database without the extension, or with a version of it that this gateway does not know. If a database cannot be
/// reached, the gateway starts, retries in the background, and answers 503 meanwhile.
async fn check_database(tenant: &Arc<Tenant>) -> Result<(), String> {
    match state(tenant).await {
        Ok(()) => Ok(()),
        Err(State::Away(problem)) => {
            tracing::warn!(
                account = tenant.account.name(),
                problem,
                "the database cannot be reached; trying again"
            );
            let tenant = tenant.clone();
            tokio::spawn(async move {
                let account = tenant.account.name();
                loop {
                    tokio::time::sleep(RETRY).await;
                    match state(&tenant).await {
                        Ok(()) => break tracing::info!(account, "the database can be reached"),
                        Err(State::Unusable(problem)) => break tracing::error!(problem),
                        Err(State::Away(problem)) => {
                            tracing::debug!(account, problem, "the database cannot be reached")
                        }
                    }
                }
            });
            Ok(())
        }
        Err(State::Unusable(problem)) => Err(problem),
    }
}

enum State {
    Away(String),
    Unusable(String),
}

async fn state(tenant: &Tenant) -> Result<(), State> {
    match tenant.database.extension_version().await {
        Ok(Some(version)) => {
            if let Some(problem) = mismatch(&version) {
                return Err(State::Unusable(format!(
                    "the account {}: {problem}",
                    tenant.account.name()
                )));
            }
            tracing::debug!(
                account = tenant.account.name(),
                version,
                "the database has the extension"
            );
            Ok(())
        }
        Ok(None) => Err(State::Unusable(format!(
            "the database of the account {} lacks the extension: run CREATE EXTENSION table_service in it, as its owner",
            tenant.account.name()
        ))),
        Err(problem) => Err(State::Away(problem)),
    }
}

/// The limit of connections: the setting, or less if the limit of open files is lower.
fn max_connections(config: &Config) -> usize {
    let files = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(files) => usize::try_from(files).unwrap_or(usize::MAX),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            1024
        }
    };
    let possible = files.saturating_sub(OTHER_FILES).max(1);
    let wanted = config.max_connections.unwrap_or(CONNECTIONS);
    if config.max_connections.is_some() && wanted > possible {
        tracing::warn!(
            max_connections = wanted,
            possible,
            "the limit of open files allows fewer connections"
        );
    }
    wanted.min(possible)
}
