//! Makes and checks the connections of a pool.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use deadpool::managed::{Metrics, RecycleError, RecycleResult};
use tokio_postgres::CancelToken;

use super::connection::{Connection, Connector};
use super::failover::Failover;
use super::standbys::Secondary;
use super::version::mismatch;

/// A connection that was idle for longer is not used again: something on the way may have forgotten it.
const IDLE_LIMIT: Duration = Duration::from_secs(300);
/// How many servers an attempt to connect tries. The first one may have just ceased to be the primary.
const TRIES: usize = 2;

/// Where the connections of a pool lead.
pub enum Reach {
    /// To this server, whatever it is.
    Server(Box<Connector>),
    /// To the server that is the primary now.
    Primary(Arc<Failover>),
    /// To a standby, as long as it serves reads.
    Standby {
        connector: Box<Connector>,
        secondary: Arc<Secondary>,
        index: usize,
    },
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
    pub async fn open(&self) -> Result<(Connection, Option<String>), String> {
        match &self.reach {
            Reach::Server(connector) => connector.open().await,
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
                Err(problem)
            }
            Reach::Standby {
                connector,
                secondary,
                index,
            } => {
                let (connection, version, look) = connector.open_and_look().await?;
                secondary.admits(*index, look)?;
                Ok((connection, version))
            }
        }
    }

    /// Returns whether a connection leads where new ones would.
    pub fn is_right(&self, connection: &Connection) -> bool {
        match &self.reach {
            Reach::Primary(failover) => failover.current() == Some(connection.server()),
            Reach::Server(_) | Reach::Standby { .. } => true,
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

async fn open_primary(failover: &Failover, index: usize) -> Result<(Connection, Option<String>), String> {
    let connector = failover.server(index).ok_or("there is no such server")?;
    let (connection, version, look) = connector.open_and_look().await?;
    failover.check(index, look)?;
    Ok((connection, version))
}

impl deadpool::managed::Manager for Manager {
    type Type = Connection;
    /// Why there is no connection.
    type Error = String;

    /// A new connection, to a database whose extension has a version that this gateway knows. Without the extension,
    /// statements fail and say so.
    async fn create(&self) -> Result<Connection, String> {
        // In a box, because it is rare and large: it would be a part of every request.
        let (connection, version) = Box::pin(self.open()).await?;
        match version.and_then(|version| mismatch(&version)) {
            Some(problem) => Err(problem),
            None => Ok(connection),
        }
    }

    async fn recycle(&self, connection: &mut Connection, metrics: &Metrics) -> RecycleResult<String> {
        let is_usable = metrics.last_used() < IDLE_LIMIT && !connection.has_grown() && connection.is_open();
        if is_usable && self.is_right(connection) {
            Ok(())
        } else {
            Err(RecycleError::message("it is closed"))
        }
    }
}
