//! The connections to one database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolBuilder, PoolError, RecyclingMethod, Runtime,
    TimeoutType,
};
use rustls::ClientConfig;
use table_service_model::error::RequestError;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::statements::READY;
use super::version::mismatch;
use crate::failure::{Failure, with_sources};

/// The size and the time limits of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolSettings {
    pub size: usize,
    /// How long a request waits for a connection.
    pub timeout: Duration,
    pub statement_timeout: Duration,
}

/// The state of the pool of one database.
#[derive(Debug, Clone, Copy)]
pub struct PoolStatus {
    pub in_use: usize,
    pub waiting: usize,
    pub size: usize,
    /// How many requests got no connection in time, since the start.
    pub timeouts: u64,
}

/// The database of an account.
pub struct Database {
    pool: Pool,
    /// A separate connection for /ready, so that it works when all others are busy.
    readiness: Pool,
    tls: Option<MakeRustlsConnect>,
    timeouts: AtomicU64,
}

/// How long it may take to connect. A server that hangs must not hold a request for minutes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Database {
    /// Makes the pool. It connects when a connection is needed. With `sslmode=require` it uses TLS and checks the server's
    /// certificate.
    pub fn new(mut config: Config, settings: PoolSettings, tls: Option<Arc<ClientConfig>>) -> Result<Database, String> {
        let milliseconds = settings.statement_timeout.as_millis();
        let mut options = config.get_options().unwrap_or_default().to_owned();
        // `jit` costs more than our statements gain from it.
        options.push_str(&format!(" -c statement_timeout={milliseconds} -c jit=off"));
        config.options(options.trim());
        if config.get_application_name().is_none() {
            config.application_name("table-service-gateway");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        // Closes connections over a network that has stopped to deliver.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(settings.statement_timeout);
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Require => {
                let client = tls.ok_or("sslmode=require needs the system's certificates or database_ca")?;
                Some(MakeRustlsConnect::new((*client).clone()))
            }
            _ => {
                config.ssl_mode(SslMode::Disable);
                None
            }
        };
        Ok(Database {
            pool: pool(&config, tls.clone(), settings.size, settings.timeout)
                .post_create(known_version())
                .build()
                .map_err(|error| error.to_string())?,
            readiness: pool(&config, tls.clone(), 1, CONNECT_TIMEOUT)
                .build()
                .map_err(|error| error.to_string())?,
            tls,
            timeouts: AtomicU64::new(0),
        })
    }

    /// A connection for one statement.
    pub(super) async fn connection(&self) -> Result<Object, Failure> {
        let reason = match self.pool.get().await {
            Ok(connection) => return Ok(connection),
            Err(PoolError::Timeout(TimeoutType::Wait)) => {
                self.timeouts.fetch_add(1, Ordering::Relaxed);
                "All connections to the database are in use".to_owned()
            }
            Err(PoolError::PostCreateHook(HookError::Message(problem))) => {
                tracing::error!(%problem, "requests are refused");
                problem.into_owned()
            }
            Err(error) => format!("The database cannot be reached: {}", with_sources(&error)),
        };
        Err(RequestError::ServerBusy { reason }.into())
    }

    /// Closes a connection instead of giving it back.
    pub(super) fn discard(&self, connection: Object) {
        drop(Object::take(connection));
    }

    /// Cancels the statement that a connection is running.
    pub(super) async fn cancel(&self, connection: &Object) {
        let token = connection.cancel_token();
        let cancelled = tokio::time::timeout(CONNECT_TIMEOUT, async {
            match &self.tls {
                Some(tls) => token.cancel_query(tls.clone()).await,
                None => token.cancel_query(NoTls).await,
            }
        });
        if let Ok(Err(error)) = cancelled.await {
            tracing::debug!(error = %with_sources(&error), "a statement could not be cancelled");
        }
    }

    /// The version of the extension, or `None` if the database lacks it.
    ///
    /// # Errors
    /// Why the database cannot be reached.
    pub async fn extension_version(&self) -> Result<Option<String>, String> {
        let connection = self.readiness.get().await.map_err(|error| with_sources(&error))?;
        let query = tokio::time::timeout(CONNECT_TIMEOUT, connection.query_opt(READY, &[]));
        match query.await {
            Ok(Ok(row)) => Ok(row.and_then(|row| row.try_get(0).ok())),
            Ok(Err(error)) => {
                drop(Object::take(connection));
                Err(with_sources(&error))
            }
            Err(_) => {
                drop(Object::take(connection));
                Err("it does not answer".to_owned())
            }
        }
    }

    pub fn status(&self) -> PoolStatus {
        let status = self.pool.status();
        PoolStatus {
            in_use: status.size.saturating_sub(status.available),
            waiting: status.waiting,
            size: status.max_size,
            timeouts: self.timeouts.load(Ordering::Relaxed),
        }
    }
}

/// Refuses connections to a database whose extension has a version that this gateway does not know.
fn known_version() -> Hook {
    Hook::async_fn(|connection, _| {
        Box::pin(async move {
            let row = connection.query_opt(READY, &[]).await.map_err(HookError::Backend)?;
            // Without the extension, statements fail and say so.
            let version: Option<String> = row.and_then(|row| row.try_get(0).ok());
            match version.and_then(|version| mismatch(&version)) {
                Some(problem) => Err(HookError::message(problem)),
                None => Ok(()),
            }
        })
    })
}

fn pool(config: &Config, tls: Option<MakeRustlsConnect>, size: usize, timeout: Duration) -> PoolBuilder {
    let manager_config = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = match tls {
        Some(tls) => Manager::from_config(config.clone(), tls, manager_config),
        None => Manager::from_config(config.clone(), NoTls, manager_config),
    };
    Pool::builder(manager)
        .max_size(size)
        .wait_timeout(Some(timeout))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .recycle_timeout(Some(CONNECT_TIMEOUT))
        .runtime(Runtime::Tokio1)
}
