//! Makes and checks the connections of a pool.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use deadpool::managed::{Metrics, RecycleError, RecycleResult};
use parking_lot::Mutex;
use table_service_model::replication::Role;
use tokio_postgres::CancelToken;

use super::connection::{Connection, Connector};
use super::failover::Failover;
use super::probe::Probe;
use super::standbys::Secondary;

/// A connection that was idle for longer is not used again: a firewall between may have dropped it.
const IDLE_LIMIT: Duration = Duration::from_secs(300);
/// The servers that an attempt to connect tries. The first one may have just ceased to be the primary.
const TRIES: usize = 2;
/// The connections that an attempt to reach a standby makes. Its name may lead to several servers in turn.
pub const STANDBY_TRIES: usize = 8;
/// No further connection is tried after this time.
const STANDBY_TIME: Duration = Duration::from_secs(2);
/// A connection to a standby is used without a new probe for this time. Later its server may have been promoted.
const FRESH: Duration = Duration::from_secs(1);
/// The pause in probes over idle connections after one did not answer. Each would take as long.
const SILENCE: Duration = Duration::from_secs(2);

/// The servers of a pool's connections.
pub enum Reach {
    /// This server, whatever its part in replication.
    Server(Box<Connector>),
    /// The server that is the primary now.
    Primary(Arc<Failover>),
    /// A standby, or several behind one name. A probe over each connection says whether its server may serve reads.
    Standby {
        connector: Box<Connector>,
        secondary: Arc<Secondary>,
        index: usize,
        /// The last time when a server did not answer over an idle connection.
        silent: Mutex<Option<Instant>>,
    },
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// All are in use.
    #[error("all connections are in use")]
    Busy,
    /// The server cannot be reached or used.
    #[error("{0}")]
    Away(String),
    /// Servers answer, and the secondary endpoint must not be served by them now.
    #[error("{0}")]
    Unfit(String),
}

impl From<String> for Refusal {
    fn from(problem: String) -> Refusal {
        Refusal::Away(problem)
    }
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> String {
        refusal.to_string()
    }
}

/// Ends when a connection leads to the wrong server.
pub type Superseded = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes and checks the connections of a pool.
pub struct Manager {
    pub reach: Reach,
    some_have_grown: Arc<AtomicBool>,
}

impl Manager {
    /// Makes a manager that has no connection.
    pub fn new(reach: Reach, some_have_grown: Arc<AtomicBool>) -> Manager {
        Manager { reach, some_have_grown }
    }

    /// Returns whether buffers of some connection have grown since the last call.
    pub fn some_have_grown(&self) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        // Nearly always nothing has changed, which is seen without a write.
        self.some_have_grown.load(Relaxed) && self.some_have_grown.swap(false, Relaxed)
    }

    /// A new connection, over which the server was asked for the extension.
    pub async fn open(&self) -> Result<Connection, Refusal> {
        match &self.reach {
            Reach::Server(connector) => Ok(connector.open().await?),
            Reach::Primary(failover) => {
                let mut problem = String::new();
                for _ in 0..TRIES {
                    let index = failover.primary().await?;
                    match open_primary(failover, index).await {
                        Ok(opened) => return Ok(opened),
                        Err(new) => problem = new,
                    }
                    failover.suspect(index, false);
                }
                Err(problem.into())
            }
            Reach::Standby {
                connector, secondary, ..
            } => open_standby(connector, secondary).await,
        }
    }

    /// Returns whether a connection may be used for a statement that begins now, by its last probe: its server was the primary on the
    /// known timeline, or is a standby that was not behind the last answer a moment ago.
    pub fn is_right(&self, connection: &Connection) -> bool {
        let last = connection.last_probe;
        match &self.reach {
            Reach::Server(_) => true,
            Reach::Primary(failover) => last.is_some_and(|(probe, _)| failover.is_primary(connection.server, probe)),
            Reach::Standby { secondary, .. } => {
                last.is_some_and(|(probe, at)| at.elapsed() < FRESH && secondary.admits(probe).is_ok())
            }
        }
    }

    /// Returns the same after a new probe of a standby.
    async fn is_right_now(&self, connection: &mut Connection) -> bool {
        let Reach::Standby { silent, .. } = &self.reach else {
            return false;
        };
        let silence = || silent.lock();
        if silence().is_some_and(|since| since.elapsed() < SILENCE) {
            return false;
        }
        match connection.probe().await {
            Ok(_) => self.is_right(connection),
            Err(_) => {
                if connection.is_open() {
                    *silence() = Some(Instant::now());
                }
                false
            }
        }
    }

    /// Ends when another server than the one of a connection has become the primary. Of a single server it never ends.
    pub fn superseded(&self, server: usize, last: Option<(Probe, Instant)>) -> Superseded {
        match (&self.reach, last) {
            (Reach::Primary(failover), Some((probe, _))) => {
                let failover = failover.clone();
                Box::pin(async move { failover.superseded(server, probe).await })
            }
            // A box of nothing allocates nothing.
            _ => Box::pin(std::future::pending()),
        }
    }

    /// Notes that a server was lost, or is in recovery. Returns false if it was not in use anyway.
    pub fn lost(&self, server: usize, is_standby: bool) -> bool {
        match &self.reach {
            Reach::Primary(failover) => {
                let was_primary = failover.current() == Some(server);
                failover.suspect(server, is_standby);
                was_primary
            }
            Reach::Server(_) | Reach::Standby { .. } => true,
        }
    }

    /// Cancels the statement that a connection to a server is running.
    pub async fn cancel(&self, server: usize, token: CancelToken) -> Result<(), String> {
        match &self.reach {
            Reach::Server(connector) | Reach::Standby { connector, .. } => connector.cancel(token).await,
            Reach::Primary(failover) => match failover.server(server) {
                Some(connector) => connector.cancel(token).await,
                None => Ok(()),
            },
        }
    }
}

async fn open_primary(failover: &Failover, index: usize) -> Result<Connection, String> {
    let connector = failover.server(index).ok_or("there is no such server")?;
    let is_primary = |probe: &Probe| matches!(probe.status.role, Role::Primary(_));
    let (connection, probe) = connector.open_and_probe(is_primary).await?;
    failover.check(index, probe)?;
    Ok(connection)
}

/// Opens a connection to a standby. Another server may answer each time, so one that is away or unfit hides no other one.
async fn open_standby(connector: &Connector, secondary: &Secondary) -> Result<Connection, Refusal> {
    let begun = Instant::now();
    let mut problem: Option<Refusal> = None;
    for _ in 0..STANDBY_TRIES {
        match connector.open_and_probe(|probe| secondary.admits(*probe).is_ok()).await {
            Ok((connection, probe)) => match secondary.admits(probe) {
                Ok(()) => return Ok(connection),
                Err(unfit) => problem = Some(Refusal::Unfit(unfit)),
            },
            // The problem of a server that answers says more.
            Err(away) => problem = problem.or(Some(Refusal::Away(away))),
        }
        if begun.elapsed() > STANDBY_TIME {
            break;
        }
    }
    Err(problem.unwrap_or_else(|| Refusal::Away("it was not probed".to_owned())))
}

impl deadpool::managed::Manager for Manager {
    // In a box, because a connection is moved with each lease and is large.
    type Type = Box<Connection>;
    type Error = Refusal;

    /// A new connection, to a database with the extension in a version that this gateway knows.
    async fn create(&self) -> Result<Box<Connection>, Refusal> {
        // In a box, because it is rare and large: it would be a part of every request.
        let connection = Box::pin(self.open()).await?;
        connection.version.clone()?;
        Ok(Box::new(connection))
    }

    async fn recycle(&self, connection: &mut Box<Connection>, metrics: &Metrics) -> RecycleResult<Refusal> {
        let is_usable = metrics.last_used() < IDLE_LIMIT && !connection.has_grown() && connection.is_open();
        // In a box, as above.
        if is_usable && (self.is_right(connection) || Box::pin(self.is_right_now(connection)).await) {
            Ok(())
        } else {
            Err(RecycleError::message("it is closed"))
        }
    }
}
