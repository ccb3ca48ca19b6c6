//! Start and shutdown.

use std::error::Error;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use table_service_command_line::files;
use table_service_connect::Certificates;
use table_service_explorer::Explorer;
use table_service_model::Dialect;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::admin::{Admin, CONNECTIONS as ADMIN_CONNECTIONS};
use super::clients::Server;
use super::explorer::ExplorerDatabases;
use super::service_manager;
use crate::accounts::tenant::{Tenant, Tenants};
use crate::background::{feed_watch, sweeper};
use crate::config::{Config, ConfigError, ExplorerMode, LogFormat, hung_up};
use crate::connection::head_limit::LONG_BYTES;
use crate::connection::tls::Identity;
use crate::database::{Node, OF_CITUS};
use crate::gateway::hook::Hook;
use crate::gateway::{Gateway, TimeLimits};
use crate::limits::needs::ONE_REQUEST;
use crate::limits::shares::Shares;
use crate::observe::Metrics;

/// The default of `max_connections`.
const CONNECTIONS: usize = 10_000;
const MIB: usize = 1024 * 1024;
/// Heads of requests that have not been served, and handshakes, have this part of the memory.
const HEAD_PART: usize = 8;
/// With a timer that is due so soon, time limits of requests never are the next ones that are due. Such a timer would wake
/// the thread that waits for events, only to wait less: on a quiet gateway a system call or two for every request.
const TICK: Duration = Duration::from_millis(500);
/// File descriptors for everything but connections: listeners, the log, files that are read at the start.
const OTHER_FILES: usize = 64;
/// For each node of a database, beside its pool: the connection of /ready, attempts to reach it, and cancels.
const NODE_FILES: usize = 8;
/// For the explorer's connections to the database of an account.
const EXPLORER_FILES: usize = 4;

/// Starts the log, on standard error.
///
/// # Errors
/// For a filter that does not parse, and a file that cannot be written.
pub fn start_log(config: &Config) -> Result<(), ConfigError> {
    let filter: Targets = config.log.parse().map_err(|error| ConfigError::new("log", error))?;
    let writer = match &config.log_file {
        None => BoxMakeWriter::new(std::io::stderr),
        Some(path) => {
            let file = files::log(path)
                .map_err(|error| ConfigError::new("log_file", format!("{}: {error}", path.display())))?;
            BoxMakeWriter::new(Mutex::new(file))
        }
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines = match config.log_format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    Ok(())
}

/// The addresses of the gateway.
pub struct Addresses {
    /// `http` or `https`.
    pub scheme: &'static str,
    pub clients: SocketAddr,
    pub admin: SocketAddr,
    /// The address of the explorer, which has a secret, if there is one and no file was named for it.
    pub explorer: Option<String>,
}

/// Runs the gateway until SIGTERM or SIGINT, with the hook of the program that it is a part of. `announce` is called when it listens.
///
/// # Errors
/// If it cannot start: an address is in use, a file is missing, a database lacks the extension.
pub async fn run(
    config: Config,
    hook: Option<Arc<dyn Hook>>,
    announce: impl FnOnce(&Addresses),
) -> Result<(), Box<dyn Error>> {
    let (permits, memory) = shares(&config)?;
    let identity = config.tls.clone().map(Identity::read).transpose()?;
    let tls = identity.as_ref().map(Identity::acceptor).transpose()?;
    let (tenants, explorer_databases) = start_databases(&config, &memory).await?;

    // A program that has the gateway in it ends with its terminal.
    let takes_hangups = hook.is_none();
    let hangup = || takes_hangups.then(|| signal(SignalKind::hangup())).transpose();
    let hangup_of_tls = hangup()?;
    let signals = StopSignals::new()?;
    let listener = listen_for_clients(&config).await?;
    let address = listener.local_addr()?;
    let admin_listener = listen_for_operators(&config).await?;
    let admin_address = admin_listener.local_addr()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let explorer = explorer_databases
        .map(|databases| Explorer::new(databases, format!("{scheme}://{}", reachable(address))))
        .transpose()?;
    let mut explorer_address = explorer.as_ref().map(|explorer| explorer.address(admin_address));

    let gateway = Arc::new(new_gateway(&config, tenants, permits, memory, hook));
    let admin = Arc::new(Admin {
        gateway: gateway.clone(),
        stopping: AtomicBool::new(false),
        is_loopback: admin_address.ip().to_canonical().is_loopback(),
        hosts: config.admin_hosts.clone(),
        explorer,
    });
    tokio::spawn(admin.clone().run(admin_listener));
    tokio::spawn(keep_reading(identity, hangup_of_tls));
    start_background(&gateway, config.expiry_interval, hangup)?;

    if let Some(path) = &config.explorer_address_file
        && let Some(address) = explorer_address.take()
    {
        table_service_explorer::write(&address, path)
            .map_err(|problem| ConfigError::new("explorer_address_file", problem))?;
    }
    if let Some(hook) = &gateway.hook {
        hook.serve_beside(tls.clone());
    }
    announce(&Addresses {
        scheme,
        clients: address,
        admin: admin_address,
        explorer: explorer_address,
    });
    serve(&config, gateway, &admin, listener, tls, signals).await?;
    Ok(())
}

/// Begins to reach the databases of the accounts and of the explorer, and checks those of the accounts.
async fn start_databases(
    config: &Config,
    memory: &Arc<Shares>,
) -> Result<(Tenants, Option<Arc<ExplorerDatabases>>), Box<dyn Error>> {
    let certificates = Certificates::read(config.database_ca.as_deref())
        .map_err(|problem| ConfigError::new("database_ca", problem))?;
    let explorer_databases = match config.explorer {
        ExplorerMode::Off => None,
        ExplorerMode::Read | ExplorerMode::Write => {
            Some(Arc::new(ExplorerDatabases::new(config, memory.clone(), &certificates)?))
        }
    };
    let tenants = Tenants::new(config, &certificates)?;
    for tenant in tenants
        .iter()
        .filter(|tenant| tenant.filter_dialect == Dialect::Extended)
    {
        tracing::warn!(
            account = tenant.account.name(),
            "filters may say more than the service's can: a program that passes here may fail there"
        );
    }
    tenants.iter().for_each(|tenant| tenant.database.start());
    explorer_databases.iter().for_each(|databases| databases.start());
    let checks: Vec<_> = tenants
        .iter()
        .flat_map(|tenant| tenant.database.nodes().map(move |node| (tenant.clone(), node.clone())))
        .map(|(tenant, node)| tokio::spawn(check_database(tenant, node)))
        .collect();
    for check in checks {
        check.await??;
    }
    for tenant in tenants.iter() {
        tenant.database.check_members().await;
    }
    for tenant in tenants.iter().cloned() {
        if !tenant.database.first.is_away() {
            tenant.cors.read(&tenant.database.first).await;
        }
        tokio::spawn(async move { tenant.cors.keep_reading(&tenant.database.first).await });
    }
    Ok((tenants, explorer_databases))
}

/// Listens for clients. The development account, whose key is public, is for this machine alone.
async fn listen_for_clients(config: &Config) -> Result<TcpListener, Box<dyn Error>> {
    let listener = bind("listen", &config.listen).await?;
    if config.loopback_only && !listener.local_addr()?.ip().is_loopback() {
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
    Ok(listener)
}

/// Listens for operators. The explorer is for this machine alone.
async fn listen_for_operators(config: &Config) -> Result<TcpListener, Box<dyn Error>> {
    let listener = bind("admin_listen", &config.admin_listen).await?;
    if config.explorer != ExplorerMode::Off && !listener.local_addr()?.ip().to_canonical().is_loopback() {
        let problem = format!(
            "{} can be reached from other machines, and the explorer is for this one: listen for operators on 127.0.0.1, and use \
             ssh -L or kubectl port-forward from elsewhere",
            config.admin_listen
        );
        return Err(ConfigError::new("explorer", problem).into());
    }
    Ok(listener)
}

fn new_gateway(
    config: &Config,
    tenants: Tenants,
    permits: Arc<Shares>,
    memory: Arc<Shares>,
    hook: Option<Arc<dyn Hook>>,
) -> Gateway {
    Gateway {
        permits,
        memory,
        tenants,
        metrics: Metrics::default(),
        proxies: config.trusted_proxies.clone(),
        hook,
        hosts: config.client_hosts.clone(),
        limits: TimeLimits {
            request: config.statement_timeout,
            body: config.body_timeout,
            memory: config.pool_timeout,
        },
    }
}

/// Starts the tasks that run beside the requests.
fn start_background(
    gateway: &Arc<Gateway>,
    expiry_interval: Option<Duration>,
    hangup: impl Fn() -> std::io::Result<Option<Signal>>,
) -> std::io::Result<()> {
    tokio::spawn(service_manager::keep_telling(gateway.tenants.iter().cloned().collect()));
    for tenant in gateway.tenants.iter().filter(|tenant| tenant.bearer.is_some()) {
        let (tenant, hangup) = (tenant.clone(), hangup()?);
        tokio::spawn(async move {
            if let Some(bearer) = &tenant.bearer {
                bearer.keys.keep_reading(hangup).await;
            }
        });
    }
    tokio::spawn(async {
        loop {
            tokio::time::sleep(TICK).await;
        }
    });
    for tenant in gateway.tenants.iter().cloned() {
        if let Some(interval) = expiry_interval {
            tokio::spawn(sweeper::keep_sweeping(gateway.clone(), tenant.clone(), interval));
        }
        tokio::spawn(feed_watch::keep_watching(gateway.clone(), tenant));
    }
    Ok(())
}

/// Serves clients until a signal, and then ends their requests.
async fn serve(
    config: &Config,
    gateway: Arc<Gateway>,
    admin: &Admin,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    mut signals: StopSignals,
) -> Result<(), ConfigError> {
    let server = Server {
        gateway,
        listener,
        tls,
        max_connections: max_connections(config),
        head_memory: Shares::new((config.max_memory / HEAD_PART).max(LONG_BYTES), 1, LONG_BYTES)
            .map_err(|needed| ConfigError::new("max_memory", format!("must be at least {needed} bytes")))?,
        header_timeout: config.header_timeout,
        response_timeout: config.response_timeout,
    };
    let stop = async {
        signals.any().await;
        tracing::info!("stopping");
        admin.stopping.store(true, Ordering::Relaxed);
    };
    server.run(stop, config.shutdown_timeout).await;
    tracing::info!("stopped");
    Ok(())
}

/// The signals that end a program in peace.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Takes the signals, which end the program no more by themselves.
    ///
    /// # Errors
    /// If the system does not let this program take them.
    pub fn new() -> std::io::Result<StopSignals> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them.
    pub async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Reads the certificate for clients again when it has changed, and after SIGHUP, which else ends the program.
async fn keep_reading(identity: Option<Arc<Identity>>, mut hangup: Option<Signal>) {
    match identity {
        Some(identity) => identity.0.keep_reading(hangup).await,
        None => loop {
            hung_up(&mut hangup).await;
            tracing::info!(
                "SIGHUP: there is no certificate to read again, and settings are read when the program starts"
            );
        },
    }
}

/// Returns where this machine reaches a listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// Listens on the address of a setting.
///
/// # Errors
/// The address cannot be had, under the name of the setting.
pub async fn bind(setting: &str, address: &str) -> Result<TcpListener, ConfigError> {
    TcpListener::bind(address).await.map_err(|error| {
        let more = match error.kind() {
            ErrorKind::AddrInUse => {
                ". Another program listens there: end it, or choose another port; 0 takes a free one"
            }
            _ => "",
        };
        ConfigError {
            may_pass: matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable),
            ..ConfigError::new(setting, format!("cannot listen on {address}: {error}{more}"))
        }
    })
}

/// Refuses a database without the extension, or with a version of it that this gateway does not know. If a node cannot be
/// reached, the gateway starts, tries again in the background, and answers 503 meanwhile.
async fn check_database(tenant: Arc<Tenant>, node: Arc<Node>) -> Result<(), String> {
    let account = tenant.account.name();
    let version = match node.version().await {
        Ok(version) => version.map_err(|problem| format!("the account {account}, {}: {problem}", node.name))?,
        Err(problem) => {
            node.leave_out(problem);
            return Ok(());
        }
    };
    tracing::debug!(account, node = node.name, version, "the database has the extension");
    if tenant.database.secondary().is_some() && node.has_citus().await == Ok(true) {
        let problem = format!("the account {account} cannot have a secondary_url: {OF_CITUS}");
        return Err(problem);
    }
    Ok(())
}

/// Returns the permits and the memory that the accounts share. Every account has its own part, in which any request fits.
fn shares(config: &Config) -> Result<(Arc<Shares>, Arc<Shares>), ConfigError> {
    let accounts = config.accounts.len();
    let permits = Shares::new(config.max_requests, accounts, 1).map_err(|needed| {
        let problem = format!("must be at least {needed} for {accounts} accounts: each needs one of its own");
        ConfigError::new("max_requests", problem)
    })?;
    let memory = Shares::new(config.max_memory, accounts, ONE_REQUEST).map_err(|needed| {
        let (needed, each) = (needed.div_ceil(MIB), ONE_REQUEST.div_ceil(MIB));
        let problem = match accounts {
            1 => format!("must be at least {needed}: one request may need {each} MiB"),
            _ => format!("must be at least {needed} for {accounts} accounts: one request may need {each} MiB"),
        };
        ConfigError::new("max_memory", problem)
    })?;
    Ok((permits, memory))
}

/// Returns the limit of connections: the setting, or less if the limit of open files is lower.
fn max_connections(config: &Config) -> usize {
    let files = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(files) => usize::try_from(files).unwrap_or(usize::MAX),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            1024
        }
    };
    let nodes: usize = config
        .accounts
        .iter()
        .map(|account| 1 + account.other_databases.len() + account.standbys.len())
        .sum();
    let databases = nodes.saturating_mul(config.pool_size.saturating_add(NODE_FILES));
    let explorers = config.accounts.len().saturating_mul(EXPLORER_FILES);
    let others = databases.saturating_add(explorers + ADMIN_CONNECTIONS + OTHER_FILES);
    let possible = files.saturating_sub(others).max(1);
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
