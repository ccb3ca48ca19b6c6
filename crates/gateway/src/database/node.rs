//! One PostgreSQL server with the tables of an account: its connections, and whether it can be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use deadpool::Runtime;
use deadpool::managed::{Object, Pool, PoolError, QueueMode, TimeoutType};
use parking_lot::Mutex;
use table_service_connect::{Certificates, DatabaseUrl, Server};
use table_service_model::Dialect;

use super::connection::{CONNECT_TIMEOUT, Connection, Connector};
use super::failover::Failover;
use super::grouped_calls::{PointRead, PointWrite};
use super::groups::Groups;
use super::manager::{Manager, Reach, Refusal, STANDBY_TRIES, Superseded};
use super::membership::{Identity, Membership};
use super::probe::Probe;
use super::probing::keep_probing;
use super::standbys::Secondary;
use super::types::Shard;
use crate::reminder::Reminder;

/// The size and the time limits of a pool, and the dialect of its connections' filters.
#[derive(Debug, Clone, Copy)]
pub struct PoolSettings {
    pub size: usize,
    /// The time that a request waits for a connection.
    pub timeout: Duration,
    pub statement_timeout: Duration,
    pub filter_dialect: Dialect,
    /// Whether writes of several requests may be one statement.
    pub write_groups: bool,
}

/// The state of a node.
#[derive(Debug, Clone, Copy)]
pub struct NodeStatus {
    pub away: bool,
    pub in_use: usize,
    pub waiting: usize,
    pub size: usize,
    /// The number of requests that got no connection in time, since the start.
    pub timeouts: u64,
    /// The number of requests that were sent here because it has their partition, since the start.
    pub at_owner: u64,
    /// The number of writes that shared a transaction, since the start.
    pub grouped_writes: u64,
}

/// The pauses between attempts to reach a node that is away.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// A node that has been back for so long is steady. If it leaves earlier, the next pause is longer.
const STEADY: Duration = Duration::from_secs(10);

/// One PostgreSQL server with the tables of an account.
pub struct Node {
    /// Its address and database, such as `db1:5432/tables`.
    pub name: String,
    pool: Pool<Manager>,
    /// The point reads that go to it.
    pub reads: Arc<Groups<PointRead>>,
    /// The writes that go to it, if they may be in groups.
    pub writes: Option<Arc<Groups<PointWrite>>>,
    /// A separate connection for /ready, the CORS rules and maps of shards, so that they work when all others are busy.
    aside: tokio::sync::Mutex<Option<Connection>>,
    timeouts: AtomicU64,
    /// Requests that were sent here because it has their partition.
    at_owner: AtomicU64,
    /// Statements that run or wait for a connection.
    load: AtomicUsize,
    /// Whether it was reached since the start.
    was_reached: AtomicBool,
    /// Whether the log says that it takes no writes although it is the primary.
    told_read_only: AtomicBool,
    presence: Mutex<Presence>,
}

/// Whether a node can be used.
struct Presence {
    /// Why it is away, if so.
    problem: Option<String>,
    told_away: Reminder,
    membership: Membership,
    told_stranger: Reminder,
    /// The next pause before an attempt to reach it.
    pause: Duration,
    /// When it came back.
    back: Instant,
}

/// A connection for one statement. It goes back when this is dropped.
pub struct Lease {
    object: Object<Manager>,
    /// Behind the connection, so that it is dropped when that has gone back.
    load: CountedStatement,
}

/// Counts a statement.
struct CountedStatement(Arc<Node>);

impl Node {
    /// The database of a URL. If this has several hosts, or if standbys follow it, it is always the primary among them.
    /// A node that must be a member is not asked until it is known to be one.
    ///
    /// # Errors
    /// For `sslmode=require` without certificates.
    pub fn new(
        url: DatabaseUrl,
        settings: PoolSettings,
        certificates: &Certificates,
        secondary: Option<Arc<Secondary>>,
        membership: Membership,
    ) -> Result<Arc<Node>, String> {
        let name = url.name();
        let some_have_grown = Arc::<AtomicBool>::default();
        let mut servers = prepare(url, settings, certificates)?;
        let reach = match servers.pop() {
            Some(only) if servers.is_empty() && secondary.is_none() => {
                let mut connector = Connector::new(only, some_have_grown.clone());
                connector.probes = !matches!(membership, Membership::First);
                Reach::Server(Box::new(connector))
            }
            last => {
                let servers = servers.into_iter().chain(last).enumerate();
                let connector = |(index, server)| Connector::new(server, some_have_grown.clone()).of_several(index);
                Reach::Primary(Failover::new(servers.map(connector).collect(), secondary))
            }
        };
        Node::with_pool(name, Manager::new(reach, some_have_grown), settings, membership)
    }

    /// A standby of an account, one of those in `secondary`.
    ///
    /// # Errors
    /// For `sslmode=require` without certificates.
    pub fn standby(
        url: DatabaseUrl,
        settings: PoolSettings,
        certificates: &Certificates,
        secondary: Arc<Secondary>,
        index: usize,
    ) -> Result<Arc<Node>, String> {
        let name = url.name();
        let server = prepare(url, settings, certificates)?
            .pop()
            .ok_or("the URL names no host")?;
        let some_have_grown = Arc::<AtomicBool>::default();
        let mut connector = Connector::new(server, some_have_grown.clone()).of_several(0);
        connector.is_standby = true;
        let reach = Reach::Standby {
            connector: Box::new(connector),
            secondary,
            index,
            silent: Mutex::default(),
        };
        Node::with_pool(name, Manager::new(reach, some_have_grown), settings, Membership::First)
    }

    /// Makes the pool. It connects when a connection is needed.
    fn with_pool(
        name: String,
        manager: Manager,
        settings: PoolSettings,
        membership: Membership,
    ) -> Result<Arc<Node>, String> {
        let pool = Pool::builder(manager)
            .max_size(settings.size)
            .wait_timeout(Some(settings.timeout))
            .runtime(Runtime::Tokio1)
            // The connection that was used last is still warm in the processor's caches.
            .queue_mode(QueueMode::Lifo)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Arc::new(Node {
            name,
            pool,
            reads: Arc::default(),
            writes: settings.write_groups.then(Arc::default),
            aside: tokio::sync::Mutex::default(),
            timeouts: AtomicU64::new(0),
            at_owner: AtomicU64::new(0),
            load: AtomicUsize::new(0),
            was_reached: AtomicBool::new(false),
            told_read_only: AtomicBool::new(false),
            presence: Mutex::new(Presence {
                problem: None,
                told_away: Reminder::default(),
                membership,
                told_stranger: Reminder::default(),
                pause: Duration::ZERO,
                back: Instant::now(),
            }),
        }))
    }

    /// Begins to probe its servers, if that is needed.
    pub fn start(self: &Arc<Self>) {
        match &self.pool.manager().reach {
            Reach::Server(_) => {}
            Reach::Primary(failover) => failover.start(),
            Reach::Standby { .. } => {
                let node = self.clone();
                tokio::spawn(async move {
                    if let Reach::Standby {
                        connector,
                        secondary,
                        index,
                        ..
                    } = &node.pool.manager().reach
                    {
                        let accepts = |probe: &Probe| secondary.admits(*probe).is_ok();
                        let report = |probe| secondary.standby(*index, probe);
                        keep_probing(connector, None, STANDBY_TRIES, accepts, report).await;
                    }
                });
            }
        }
    }

    /// The hosts among which it is the primary, and whether each is it now.
    pub fn hosts(&self) -> Vec<(&str, bool)> {
        match &self.pool.manager().reach {
            Reach::Primary(failover) => failover.servers().collect(),
            Reach::Server(_) | Reach::Standby { .. } => Vec::new(),
        }
    }

    /// Returns whether its database is distributed by Citus.
    pub async fn has_citus(&self) -> Result<bool, String> {
        Ok(self.pool.manager().open().await?.probe().await?.has_citus)
    }

    /// Returns whether it is a standby that serves the secondary endpoint.
    pub fn is_standby(&self) -> bool {
        matches!(self.pool.manager().reach, Reach::Standby { .. })
    }

    /// A connection for one statement.
    pub async fn connection(self: &Arc<Self>) -> Result<Lease, Refusal> {
        let load = CountedStatement::begin(self.clone());
        loop {
            let object = match self.pool.get().await {
                Ok(object) => object,
                Err(PoolError::Timeout(TimeoutType::Wait)) => {
                    self.timeouts.fetch_add(1, Ordering::Relaxed);
                    return Err(Refusal::Busy);
                }
                Err(PoolError::Backend(refusal)) => return Err(refusal),
                Err(error) => return Err(Refusal::Away(error.to_string())),
            };
            match self.leads_to_member(&object) {
                Ok(true) => return Ok(Lease { object, load }),
                // Another server has got the address of the one that was checked, or had it before.
                Ok(false) => {
                    let is_new = Object::metrics(&object).recycled.is_none();
                    drop(Object::take(object));
                    if is_new {
                        self.ask_anew();
                        return Err(Refusal::Unfit(
                            "its address leads to a server that was not checked yet".to_owned(),
                        ));
                    }
                }
                Err(problem) => return Err(Refusal::Unfit(problem)),
            }
        }
    }

    /// The statements that run or wait for a connection.
    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Counts requests that were sent here because it has their partition.
    pub fn count_at_owner(&self, requests: usize) {
        self.at_owner.fetch_add(requests as u64, Ordering::Relaxed);
    }

    /// Why it is away, if so.
    pub fn problem(&self) -> Option<String> {
        self.presence.lock().problem.clone()
    }

    /// Returns whether it is left out, because it is away or a stranger.
    pub fn is_away(&self) -> bool {
        let presence = self.presence.lock();
        presence.problem.is_some() || !presence.membership.is_current()
    }

    /// Why it is left out, if so.
    pub fn why_out(&self) -> Option<String> {
        let presence = self.presence.lock();
        presence.problem.clone().or_else(|| presence.membership.why_not())
    }

    /// Why it is not asked although it can be reached, if so: it is not known to have the tables of the first node.
    pub fn stranger(&self) -> Option<String> {
        self.presence.lock().membership.why_not()
    }

    /// Takes its identity and the time of the question, if it has the tables of the first node, or why it is not asked.
    pub fn judge(&self, verdict: Result<(Identity, Instant), String>) {
        let mut presence = self.presence.lock();
        match &verdict {
            Err(problem) if presence.told_stranger.is_due(problem) => {
                tracing::warn!(node = self.name, problem, "the node is no member, and is not asked");
            }
            Ok(_) if presence.told_stranger.end() => tracing::info!(node = self.name, "the node is a member again"),
            _ => {}
        }
        presence.membership = match verdict {
            Ok((identity, at)) => Membership::Confirmed { identity, at },
            Err(problem) => {
                self.ask_anew();
                Membership::Unconfirmed(problem)
            }
        };
    }

    /// Closes the separate connection, so that the next check asks the server that has the address now.
    fn ask_anew(&self) {
        if let Ok(mut aside) = self.aside.try_lock() {
            *aside = None;
        }
    }

    /// Takes the reason why the node does not tell its identity. It is a member until the time for that is over. Then
    /// the log has the reason, unless it has it already because the node is away.
    pub fn did_not_answer(&self, problem: &str) {
        let mut presence = self.presence.lock();
        if presence.membership.is_current() {
            return;
        }
        let problem = format!("it does not tell its identity: {problem}");
        if presence.problem.is_none() && presence.told_stranger.is_due(&problem) {
            tracing::warn!(node = self.name, problem, "the node is not asked");
        }
        presence.membership = Membership::Unconfirmed(problem);
    }

    /// Returns whether a connection leads to the server that was found to be a member.
    ///
    /// # Errors
    /// Why the node is not asked now.
    fn leads_to_member(&self, connection: &Connection) -> Result<bool, String> {
        let place = connection.last_probe.map(|(probe, _)| probe.place());
        self.presence.lock().membership.has(place)
    }

    /// Leaves the node out until it can be reached again. One task tries that, at once, and then after growing pauses.
    pub fn leave_out(self: &Arc<Self>, problem: String) {
        let mut presence = self.presence.lock();
        tracing::debug!(node = self.name, problem, "the node is left out");
        if presence.problem.replace(problem).is_some() {
            return;
        }
        if presence.back.elapsed() > STEADY {
            presence.pause = Duration::ZERO;
        }
        drop(presence);
        let node = self.clone();
        tokio::spawn(async move { node.come_back().await });
    }

    async fn come_back(&self) {
        let name = &self.name;
        loop {
            let pause = self.presence.lock().pause;
            tokio::time::sleep(pause).await;
            let reached = self.try_to_reach().await;
            let mut presence = self.presence.lock();
            presence.pause = (2 * pause).clamp(FIRST_PAUSE, LAST_PAUSE);
            match reached {
                Ok(()) => {
                    presence.problem = None;
                    presence.back = Instant::now();
                    if presence.told_away.end() {
                        tracing::info!(node = name, "the database can be reached again");
                    }
                    return;
                }
                Err(problem) => {
                    if presence.told_away.is_due(&problem) {
                        match self.was_reached.load(Ordering::Relaxed) {
                            true => tracing::warn!(node = name, problem, "the database cannot be used; trying again"),
                            false => tracing::warn!(
                                node = name,
                                problem,
                                "waiting for the database, which could not be used since the start; trying again"
                            ),
                        }
                    }
                    presence.problem = Some(problem);
                }
            }
        }
    }

    /// Connects as requests do.
    async fn try_to_reach(&self) -> Result<(), String> {
        self.pool.manager().open().await?.version?;
        self.was_reached.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The version of the extension, or why this gateway cannot use the database.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn version(&self) -> Result<Result<String, String>, String> {
        let mut aside = self.aside.lock().await;
        let connection = match self.take_open(&mut aside) {
            Some(mut connection) => {
                connection.look_again().await?;
                connection
            }
            None => self.pool.manager().open().await?,
        };
        let version = connection.version.clone();
        // Other statements also run over it.
        *aside = version.is_ok().then_some(connection);
        self.was_reached.fetch_or(version.is_ok(), Ordering::Relaxed);
        Ok(version)
    }

    /// The identity of its server.
    pub async fn identity(&self) -> Result<Identity, String> {
        self.ask_aside(Connection::identity).await
    }

    /// The properties of the service, as JSON.
    pub async fn service_properties(&self) -> Result<String, String> {
        self.ask_aside(Connection::service_properties).await
    }

    /// The shards of a table, if its database is distributed.
    pub async fn shard_map(&self, table: &str) -> Result<Vec<Shard>, String> {
        self.ask_aside(async |connection| connection.shards(table).await).await
    }

    /// Asks over the separate connection. After an error it is not used again.
    async fn ask_aside<T>(&self, ask: impl AsyncFnOnce(&mut Connection) -> Result<T, String>) -> Result<T, String> {
        let mut aside = self.aside.lock().await;
        let mut connection = match self.take_open(&mut aside) {
            Some(connection) => connection,
            None => self.pool.manager().open().await?,
        };
        connection.version.clone()?;
        let answer = ask(&mut connection).await?;
        *aside = Some(connection);
        Ok(answer)
    }

    /// Returns the state of the node and of its pool, for the metrics.
    pub fn status(&self) -> NodeStatus {
        let status = self.pool.status();
        NodeStatus {
            away: self.is_away(),
            in_use: status.size.saturating_sub(status.available),
            waiting: status.waiting,
            size: status.max_size,
            timeouts: self.timeouts.load(Ordering::Relaxed),
            at_owner: self.at_owner.load(Ordering::Relaxed),
            grouped_writes: self.writes.as_ref().map_or(0, |writes| writes.executed()),
        }
    }

    /// Takes a connection out, so that it is not used again if that fails or is dropped.
    fn take_open(&self, aside: &mut Option<Connection>) -> Option<Connection> {
        let mut known = aside.take()?;
        // No request is served over it, so a standby may be behind.
        let is_right = self.is_standby() || self.pool.manager().is_right(&known);
        (known.is_open() && is_right).then_some(known)
    }
}

impl Lease {
    /// Returns the node that the connection leads to.
    pub fn node(&self) -> &Arc<Node> {
        &self.load.0
    }

    /// Returns the connection.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.object
    }

    /// Ends when another server has become the primary, if that can be.
    pub fn superseded(&self) -> Superseded {
        let manager = self.node().pool.manager();
        manager.superseded(self.object.server, self.object.last_probe)
    }

    /// Leaves the node out, because its server was lost over this connection.
    pub fn leave_out(&self, problem: String) {
        let node = self.node();
        if node.pool.manager().lost(self.object.server, false) {
            node.leave_out(problem);
        }
    }

    /// Cancels the statement that the connection is running. If the server cannot even be reached for that, the node is left out.
    pub async fn cancel(&mut self) {
        let token = self.object.cancel_token();
        let cancelled = self.node().pool.manager().cancel(self.object.server, token).await;
        if let Err(problem) = cancelled {
            self.leave_out(problem);
        }
    }

    /// Finds out why the server takes no writes. If it is in recovery, the server is left out, and the result is true.
    pub async fn is_in_recovery(&mut self) -> bool {
        let node = self.node().clone();
        let reason = match self.object.is_in_recovery().await {
            Ok(true) => {
                tracing::warn!(
                    node = node.name,
                    "the server is in recovery; statements go to another one"
                );
                node.pool.manager().lost(self.object.server, true);
                return true;
            }
            Ok(false) => "somebody has set it to read only".to_owned(),
            Err(problem) => problem,
        };
        if !node.told_read_only.swap(true, Ordering::Relaxed) {
            tracing::warn!(node = node.name, reason, "the primary takes no writes");
        }
        false
    }

    /// Returns whether it may be used for a statement that begins now.
    pub fn is_right(&self) -> bool {
        let node = self.node();
        node.pool.manager().is_right(&self.object) && node.leads_to_member(&self.object) == Ok(true)
    }

    /// Closes the connection instead of giving it back.
    pub fn discard(self) {
        drop(Object::take(self.object));
    }
}

impl CountedStatement {
    fn begin(node: Arc<Node>) -> CountedStatement {
        node.load.fetch_add(1, Ordering::Relaxed);
        CountedStatement(node)
    }
}

impl Drop for CountedStatement {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
        // The connection has gone back before.
        if self.0.pool.manager().some_have_grown() {
            self.0.pool.retain(|connection, _| !connection.has_grown());
        }
    }
}

/// Returns the servers of a URL, with the common settings of their connections.
fn prepare(mut url: DatabaseUrl, settings: PoolSettings, certificates: &Certificates) -> Result<Vec<Server>, String> {
    let milliseconds = settings.statement_timeout.as_millis();
    // `jit` costs more than our statements gain from it.
    // A role or a database may have another dialect: the account's decides. A request is one call, so its write may go straight to a shard.
    let dialect: &str = settings.filter_dialect.into();
    url.add_options(&format!(
        "-c statement_timeout={milliseconds} -c jit=off -c table_service.filter_dialect={dialect} \
        -c table_service.single_call_transactions=on"
    ));
    url.default_application_name("table-service-gateway");
    url.default_network_timeout(settings.statement_timeout);
    Server::all(&url, certificates, CONNECT_TIMEOUT)
}
