//! A connection to PostgreSQL, and how a pool makes and checks connections.

use std::future::poll_fn;
use std::ops::{ControlFlow, DerefMut};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream;
use postgres_types::Json;
use serde_json::value::RawValue;
use table_service_connect::{Opened, Server, Wire, extension_in, with_sources};
use table_service_model::extension::{self, Extension};
use table_service_model::replication::Role;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{CancelToken, Client, Error, Row};

use super::error::lacks_library;
use super::membership::{Cluster, Identity};
use super::probe::{self, Probe};
use super::statements::{BEGIN_READ_ONLY, CLUSTER, HAS_CLUSTER, IN_RECOVERY, LIBRARY, PROBE, ROLLBACK, Statement};
use super::types::{Measured, Parameters, Shard};
use super::version::outdated;

/// The time limit of a connect. A server that hangs must not hold a request for minutes.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit where another server can be tried.
const ONE_OF_SEVERAL_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest message of a connection that is used again. The driver's buffers keep the size of the longest one.
const LARGE: usize = 256 * 1024;

/// A connection to PostgreSQL. It reads and writes in the task of the request that uses it. In a task of its own it would cost
/// every statement two switches between tasks.
pub struct Connection {
    client: Client,
    /// The part that reads and writes; `None` when the connection has ended.
    wire: Option<Wire>,
    /// Each statement, and the same of a table that is held.
    prepared: [[Option<tokio_postgres::Statement>; 2]; Statement::ALL.len()],
    /// A warning about the server's version, for the log.
    outdated: Option<String>,
    /// The version of the extension, or why the gateway cannot use the database.
    pub version: Result<String, String>,
    /// The number of its server among several.
    pub server: usize,
    /// The last probe of the server over this connection, and when it began.
    pub last_probe: Option<(Probe, Instant)>,
    size: Size,
}

/// The size of the driver's buffers, as far as a connection knows it.
struct Size {
    /// Whether a message was so large that they may have grown.
    has_grown: bool,
    /// A flag of the pool for such connections.
    some_have_grown: Arc<AtomicBool>,
}

impl Size {
    fn count(&mut self, message: usize) {
        if message > LARGE && !self.has_grown {
            self.has_grown = true;
            self.some_have_grown.store(true, Ordering::Relaxed);
        }
    }
}

impl Connection {
    fn new(opened: Opened, some_have_grown: Arc<AtomicBool>) -> Connection {
        Connection {
            client: opened.client,
            wire: Some(opened.wire),
            outdated: opened.server_version.as_deref().and_then(outdated),
            prepared: Default::default(),
            version: Err("the database was not asked for the extension".to_owned()),
            server: 0,
            last_probe: None,
            size: Size {
                has_grown: false,
                some_have_grown,
            },
        }
    }

    /// Executes a statement. The table that it names must be the relation `held`, if there is one. After an error of the connection, or if
    /// this is dropped before its end, the connection cannot be used any more.
    pub async fn query(
        &mut self,
        statement: Statement,
        parameters: Parameters<'_>,
        held: Option<u32>,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let _: ControlFlow<()> = self
            .stream(statement, parameters, held, |row| {
                rows.push(row);
                ControlFlow::Continue(())
            })
            .await?;
        Ok(rows)
    }

    /// Executes a statement as [`Connection::query`] does. `take` gets each row when it arrives. The server waits while rows are
    /// not taken, so only one message of a few rows is in memory.
    pub async fn stream(
        &mut self,
        statement: Statement,
        parameters: Parameters<'_>,
        held: Option<u32>,
        mut take: impl FnMut(Row) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        let statement = match statement {
            // Earlier versions of the extension hold no table.
            Statement::HoldAccessPolicies if !self.has_functions_of(5) => Statement::GetAccessPolicies,
            statement => statement,
        };
        let prepared = self.prepared(statement, held.map(|_| parameters.len() + 1)).await?;
        let Connection { client, wire, size, .. } = self;
        let sent = AtomicUsize::new(0);
        let relation = held.as_ref().map(|relation| relation as &(dyn ToSql + Sync));
        let all = parameters.iter().copied().chain(relation);
        let measured: Vec<_> = all.map(|value| Measured { value, bytes: &sent }).collect();
        let call = async {
            let mut rows = pin!(client.query_raw(&prepared, measured).await?);
            while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
                let row = row?;
                size.count(row.raw_size_bytes());
                if take(row).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        let result = run(wire, pin!(call)).await;
        self.size.count(sent.into_inner());
        result
    }

    /// Executes a statement that is not kept prepared. If it may only read, it runs in a transaction that only reads.
    /// This also holds if a pooler has dropped the options of the connection.
    pub async fn query_text(
        &mut self,
        sql: &str,
        parameters: Parameters<'_>,
        is_read_only: bool,
    ) -> Result<Vec<Row>, Error> {
        let Connection { client, wire, size, .. } = self;
        if is_read_only {
            run(wire, Box::pin(client.batch_execute(BEGIN_READ_ONLY))).await?;
        }
        let result = match run(wire, Box::pin(client.prepare(sql))).await {
            Ok(prepared) => run(wire, pin!(client.query(&prepared, parameters))).await,
            Err(error) => Err(error),
        };
        if is_read_only {
            let ended = run(wire, Box::pin(client.batch_execute(ROLLBACK))).await;
            // The first error says why.
            if result.is_ok() {
                ended?;
            }
        }
        let rows = result?;
        rows.iter().for_each(|row| size.count(row.raw_size_bytes()));
        Ok(rows)
    }

    /// Prepares a statement, or the same of a table that is held by the parameter of this number.
    async fn prepared(
        &mut self,
        statement: Statement,
        held: Option<usize>,
    ) -> Result<tokio_postgres::Statement, Error> {
        let Connection {
            client, wire, prepared, ..
        } = self;
        let both = prepared.get_mut(statement as usize);
        match both.and_then(|both| both.get_mut(usize::from(held.is_some()))) {
            Some(Some(prepared)) => Ok(prepared.clone()),
            slot => {
                let sql = held.map_or_else(|| statement.sql().into(), |number| statement.sql_of_held(number));
                // In a box, because it is rare and large.
                let new = run(wire, Box::pin(client.prepare(&sql))).await?;
                if let Some(slot) = slot {
                    *slot = Some(new.clone());
                }
                Ok(new)
            }
        }
    }

    /// Asks the server for its part in replication.
    pub async fn probe(&mut self) -> Result<Probe, String> {
        let begun = Instant::now();
        let answered = timeout(ONE_OF_SEVERAL_TIMEOUT, self.query_once(PROBE)).await;
        let row = in_words(answered)?.ok_or("it says nothing of replication")?;
        let probe = probe::read(&row)?;
        self.last_probe = Some((probe, begun));
        Ok(probe)
    }

    /// Asks the server for its identity.
    pub async fn identity(&mut self) -> Result<Identity, String> {
        let probe = self.probe().await?;
        let answered = timeout(ONE_OF_SEVERAL_TIMEOUT, async {
            match self.query_once(HAS_CLUSTER).await? {
                Some(row) if row.try_get(0)? => {}
                _ => return Ok(None),
            }
            let rows = run(&mut self.wire, Box::pin(self.client.query(CLUSTER, &[]))).await?;
            Cluster::read(&rows).map(Some)
        });
        Ok(Identity {
            place: probe.place(),
            is_standby: matches!(probe.status.role, Role::Standby(_)),
            cluster: in_words(answered.await)?,
        })
    }

    /// Returns whether the server is in recovery.
    pub async fn is_in_recovery(&mut self) -> Result<bool, String> {
        let answered = timeout(ONE_OF_SEVERAL_TIMEOUT, self.query_once(IN_RECOVERY)).await;
        let row = in_words(answered)?.ok_or("it does not say whether it is in recovery")?;
        row.try_get(0).map_err(|error| with_sources(&error))
    }

    /// Checks that the server's library of the extension fits its database. A standby has the database of its primary and files of its
    /// own.
    pub async fn check_library(&mut self) -> Result<(), String> {
        let answered = timeout(ONE_OF_SEVERAL_TIMEOUT, async {
            if !self.has_functions_of(3) {
                self.look().await?;
            }
            match self.has_functions_of(3) {
                true => self.query_once(LIBRARY).await.map(drop),
                // The library of any later version also has these functions.
                false => Ok(()),
            }
        });
        match answered.await {
            Ok(Err(error)) if let Some(problem) = error.as_db_error().and_then(lacks_library) => Err(problem),
            // A role that must not call this function learns nothing, and may well read.
            Ok(Err(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(()),
            answered => in_words(answered),
        }
    }

    /// Returns the first row of a rare statement.
    async fn query_once(&mut self, sql: &str) -> Result<Option<Row>, Error> {
        run(&mut self.wire, Box::pin(self.client.query_opt(sql, &[]))).await
    }

    /// Asks for the extension.
    async fn look(&mut self) -> Result<(), Error> {
        let found = extension_in(self.query_once(extension::LOOK).await?.as_ref())?;
        self.version = Extension::usable(found, "table-service-gateway");
        Ok(())
    }

    /// Asks for the extension again.
    pub async fn look_again(&mut self) -> Result<(), String> {
        in_words(timeout(CONNECT_TIMEOUT, self.look()).await)
    }

    /// Returns the properties of the service, as JSON.
    pub async fn service_properties(&mut self) -> Result<String, String> {
        let statement = Statement::GetServiceProperties;
        let rows = in_words(timeout(CONNECT_TIMEOUT, self.query(statement, &[], None)).await)?;
        let row = rows.first().ok_or("there are none")?;
        let json: Json<&RawValue> = row.try_get(0).map_err(|error| with_sources(&error))?;
        Ok(json.0.get().to_owned())
    }

    /// Returns the shards of a table. A database with an earlier version of the extension says nothing of them.
    pub async fn shards(&mut self, table: &str) -> Result<Vec<Shard>, String> {
        if !self.has_functions_of(4) {
            return Ok(Vec::new());
        }
        let parameters: Parameters<'_> = &[&table];
        let asking = self.query(Statement::ShardMap, parameters, None);
        let rows = in_words(timeout(CONNECT_TIMEOUT, asking).await)?;
        let shard = |row: &Row| {
            Ok(Shard {
                from_hash: row.try_get(0)?,
                to_hash: row.try_get(1)?,
                server: (row.try_get(2)?, row.try_get(3)?),
                is_local: row.try_get(4)?,
            })
        };
        let shards: Result<_, Error> = rows.iter().map(shard).collect();
        shards.map_err(|error| with_sources(&error))
    }

    /// Returns whether the server has not closed the connection, as far as that is known.
    pub fn is_open(&mut self) -> bool {
        // No task waits for it.
        let mut context = Context::from_waker(Waker::noop());
        if let Some(wire) = &mut self.wire
            && wire.as_mut().poll(&mut context).is_ready()
        {
            self.wire = None;
        }
        self.wire.is_some()
    }

    /// Returns whether the database has the functions of version 0.`minor` of the extension.
    pub fn has_functions_of(&self, minor: u32) -> bool {
        self.version
            .as_ref()
            .is_ok_and(|version| extension::has_functions_of(version, minor))
    }

    /// Returns whether the driver's buffers may have grown. Then it is closed instead of being used again.
    pub fn has_grown(&self) -> bool {
        self.size.has_grown
    }

    /// With this the running statement can be cancelled.
    pub fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }
}

/// Makes a call of the client, and reads and writes for it until it ends.
async fn run<T>(
    wire: &mut Option<Wire>,
    mut call: Pin<impl DerefMut<Target: Future<Output = Result<T, Error>>>>,
) -> Result<T, Error> {
    let mut begun = false;
    poll_fn(|context| {
        // The call goes on when an answer is read, and this function reads. So the call never has to wake the task.
        let mut unwoken = Context::from_waker(Waker::noop());
        if !begun {
            begun = true;
            if let Poll::Ready(result) = call.as_mut().poll(&mut unwoken) {
                return Poll::Ready(result);
            }
        }
        let reason = poll_wire(wire, context);
        match call.as_mut().poll(&mut unwoken) {
            Poll::Ready(Err(error)) if error.is_closed() => Poll::Ready(Err(reason.unwrap_or(error))),
            polled => polled,
        }
    })
    .await
}

/// Reads and writes. Returns why the connection has ended, if it has; its calls then learn that nothing more will come.
fn poll_wire(wire: &mut Option<Wire>, context: &mut Context<'_>) -> Option<Error> {
    let Poll::Ready(ended) = wire.as_mut()?.as_mut().poll(context) else {
        return None;
    };
    *wire = None;
    ended.err()
}

/// Makes connections to one server.
pub struct Connector {
    server: Server,
    /// Its number among several servers.
    number: usize,
    /// Whether it is a standby that serves reads. Its library of the extension is also checked.
    pub is_standby: bool,
    /// Whether each connection has to know which server it leads to, because that must be a member of a cluster.
    pub probes: bool,
    /// Whether the log has the warning about the server's version.
    told: Once,
    some_have_grown: Arc<AtomicBool>,
}

impl Connector {
    /// For a single server.
    pub fn new(server: Server, some_have_grown: Arc<AtomicBool>) -> Connector {
        Connector {
            server,
            number: 0,
            is_standby: false,
            probes: false,
            told: Once::new(),
            some_have_grown,
        }
    }

    /// For one of several servers. The driver does not choose among them.
    pub fn of_several(mut self, number: usize) -> Connector {
        self.server = self.server.one_of_several(ONE_OF_SEVERAL_TIMEOUT);
        self.number = number;
        self
    }

    /// Returns the name of the server, for logs.
    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// A new connection, over which the server was asked for the extension.
    pub async fn open(&self) -> Result<Connection, String> {
        self.open_one(self.probes, |_| true).await
    }

    /// Also probes the server. If the name has several addresses, one with an accepted server is preferred.
    pub async fn open_and_probe(&self, accepts: impl Fn(&Probe) -> bool) -> Result<(Connection, Probe), String> {
        let is_accepted = |ready: &Connection| ready.last_probe.is_some_and(|(probe, _)| accepts(&probe));
        let connection = self.open_one(true, is_accepted).await?;
        let (probe, _) = connection.last_probe.ok_or("it says nothing of replication")?;
        Ok((connection, probe))
    }

    /// Returns whether the name had several addresses when it was resolved last.
    pub fn has_several_addresses(&self) -> bool {
        self.server.has_several_addresses()
    }

    async fn open_one(&self, probes: bool, is_accepted: impl Fn(&Connection) -> bool) -> Result<Connection, String> {
        let (is_standby, some_have_grown) = (self.is_standby, self.some_have_grown.clone());
        let make_ready = move |opened| make_ready(Connection::new(opened, some_have_grown.clone()), probes, is_standby);
        let mut connection = self.server.connect(make_ready, is_accepted).await?;
        connection.server = self.number;
        if let Some(problem) = connection.outdated.take() {
            self.told.call_once(|| tracing::warn!(node = self.name(), "{problem}"));
        }
        Ok(connection)
    }

    /// Cancels the statement that a connection is running.
    pub async fn cancel(&self, token: CancelToken) -> Result<(), String> {
        in_words(timeout(CONNECT_TIMEOUT, self.server.cancel(token)).await)
    }
}

/// Asks for the extension over a new connection, probes the server if its part in replication matters, and checks the library of a
/// standby.
async fn make_ready(mut connection: Connection, probes: bool, is_standby: bool) -> Result<Connection, String> {
    connection.look().await.map_err(|error| with_sources(&error))?;
    if probes {
        connection.probe().await?;
    }
    if is_standby {
        connection.check_library().await?;
    }
    Ok(connection)
}

/// An error, or no answer in time, as a text.
fn in_words<T>(result: Result<Result<T, Error>, tokio::time::error::Elapsed>) -> Result<T, String> {
    match result {
        Ok(result) => result.map_err(|error| with_sources(&error)),
        Err(_) => Err("it does not answer".to_owned()),
    }
}
