//! Makes and checks the connections of a pool.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool::managed::{Metrics, RecycleError, RecycleResult};
use table_service_model::extension::Extension;
use table_service_model::replication::Role;
use tokio_postgres::CancelToken;

use super::connection::{Connection, Connector};
use super::failover::Failover;
use super::sight::Look;
use super::standbys::Secondary;
use super::version::usable;

/// A connection that was idle for longer is not used again: something on the way may have forgotten it.
const IDLE_LIMIT: Duration = Duration::from_secs(300);
/// How many servers an attempt to connect tries. The first one may have just ceased to be the primary.
const TRIES: usize = 2;
/// How many connections an attempt to reach a standby makes. Its name may lead to several servers in turn.
pub const STANDBY_TRIES: usize = 8;
/// No further connection is tried after this time.
const STANDBY_TIME: Duration = Duration::from_secs(2);
/// A connection to a standby is used by what its server has said in this time. Then the server is asked again: it may have been
/// promoted.
const FRESH: Duration = Duration::from_secs(1);
/// For so long no server is asked over idle connections after one of them did not answer. Each would take as long.
const SILENCE: Duration = Duration::from_secs(2);

/// Where the connections of a pool lead.
pub enum Reach {
    /// To this server, whatever it is.
    Server(Box<Connector>),
    /// To the server that is the primary now.
    Primary(Arc<Failover>),
    /// To a standby, or to several behind one name: over each connection its own server says whether it may serve reads.
    Standby {
        connector: Box<Connector>,
        secondary: Arc<Secondary>,
        index: usize,
        /// When one did not answer over an idle connection.
        silent: Mutex<Option<Instant>>,
    },
}

/// Why there is no new connection.
#[derive(Debug)]
pub enum Refused {
    /// The server cannot be reached or used.
    Away(String),
    /// Servers answer, and the secondary endpoint must not be served by them now.
    Unfit(String),
}

impl From<String> for Refused {
    fn from(problem: String) -> Refused {
        Refused::Away(problem)
    }
}

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        refused.to_string()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Refused::Away(problem) | Refused::Unfit(problem)) = self;
        formatter.write_str(problem)
    }
}

/// Makes and checks the connections of a pool.
pub struct Manager {
    reach: Reach,
    some_have_grown: Arc<AtomicBool>,
}

impl Manager {
    pub fn new(reach: Reach, some_have_grown: Arc<AtomicBool>) -> Manager {
        Manager { reach, some_have_grown }
    }

    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Returns whether buffers of some connection have grown since this was asked last.
    pub fn some_have_grown(&self) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        // Nearly always nothing has changed, which is seen without a write.
        self.some_have_grown.load(Relaxed) && self.some_have_grown.swap(false, Relaxed)
    }

    /// A new connection, and the version of the extension.
    ///
    /// # Errors
    /// Why the server cannot be reached, or where the connection leads instead.
    pub async fn open(&self) -> Result<(Connection, Option<Extension>), Refused> {
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

    /// Returns whether a connection may be used for what begins now, as far as that is known: it leads to the primary on the line that is
    /// known, or to a standby that has said lately that it has what was answered.
    pub fn is_right(&self, connection: &Connection) -> bool {
        let seen = connection.seen();
        match &self.reach {
            Reach::Server(_) => true,
            Reach::Primary(failover) => seen.is_some_and(|(look, _)| failover.is_primary(connection.server(), look)),
            Reach::Standby { secondary, .. } => {
                seen.is_some_and(|(look, at)| at.elapsed() < FRESH && secondary.admits(look).is_ok())
            }
        }
    }

    /// The same, after the server of a standby was asked again.
    async fn is_right_now(&self, connection: &mut Connection) -> bool {
        let Reach::Standby { silent, .. } = &self.reach else {
            return false;
        };
        let silence = || silent.lock().unwrap_or_else(PoisonError::into_inner);
        if silence().is_some_and(|since| since.elapsed() < SILENCE) {
            return false;
        }
        match connection.look().await {
            Ok(_) => self.is_right(connection),
            Err(_) => {
                if connection.is_open() {
                    *silence() = Some(Instant::now());
                }
                false
            }
        }
    }

    /// Waits until another server has the place of the one of a connection. Of a single server it never ends.
    pub async fn superseded(&self, server: usize, seen: Option<(Look, Instant)>) {
        match (&self.reach, seen) {
            (Reach::Primary(failover), Some((look, _))) => failover.superseded(server, look).await,
            _ => std::future::pending().await,
        }
    }

    /// Tells that a server was lost, or is in recovery. Returns false if nothing was to be had from it anyway.
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
    ///
    /// # Errors
    /// Why the server cannot be reached.
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

async fn open_primary(failover: &Failover, index: usize) -> Result<(Connection, Option<Extension>), String> {
    let connector = failover.server(index).ok_or("there is no such server")?;
    let is_primary = |look: &Look| matches!(look.sight.role, Role::Primary(_));
    let (connection, extension, look) = connector.open_and_look(is_primary).await?;
    failover.check(index, look)?;
    Ok((connection, extension))
}

/// Another server may answer each time. One that must not serve reads, or is away, hides no other one.
async fn open_standby(
    connector: &Connector,
    secondary: &Secondary,
) -> Result<(Connection, Option<Extension>), Refused> {
    let begun = Instant::now();
    let mut problem: Option<Refused> = None;
    for _ in 0..STANDBY_TRIES {
        match connector.open_and_look(|look| secondary.admits(*look).is_ok()).await {
            Ok((connection, extension, look)) => match secondary.admits(look) {
                Ok(()) => return Ok((connection, extension)),
                Err(unfit) => problem = Some(Refused::Unfit(unfit)),
            },
            // That one of them answers says more.
            Err(away) => problem = problem.or(Some(Refused::Away(away))),
        }
        if begun.elapsed() > STANDBY_TIME {
            break;
        }
    }
    Err(problem.unwrap_or_else(|| Refused::Away("it was not asked".to_owned())))
}

impl deadpool::managed::Manager for Manager {
    type Type = Connection;
    type Error = Refused;

    /// A new connection, to a database with the extension in a version that this gateway knows.
    async fn create(&self) -> Result<Connection, Refused> {
        // In a box, because it is rare and large: it would be a part of every request.
        let (connection, extension) = Box::pin(self.open()).await?;
        usable(extension)?;
        Ok(connection)
    }

    async fn recycle(&self, connection: &mut Connection, metrics: &Metrics) -> RecycleResult<Refused> {
        let is_usable = metrics.last_used() < IDLE_LIMIT && !connection.has_grown() && connection.is_open();
        // In a box, as above.
        if is_usable && (self.is_right(connection) || Box::pin(self.is_right_now(connection)).await) {
            Ok(())
        } else {
            Err(RecycleError::message("it is closed"))
        }
    }
}
