//! Checks the settings and fills in defaults.

use std::path::PathBuf;
use std::time::Duration;

use table_service_connect::DatabaseUrl;
use table_service_model::access::{Account, AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use table_service_model::{Dialect, Secret};

use super::error::ConfigError;
use super::file::{AccountSettings, BearerSettings};
use super::settings::{ExplorerMode, LogFormat, Settings, WriteGroups};
use crate::request::forwarded::TrustedProxies;

const MIB: usize = 1024 * 1024;
/// The longest time that PostgreSQL takes for a setting, in whole seconds: 2³¹ − 1 milliseconds. A much longer one is too far ahead
/// for the clock.
const MOST_SECONDS: u64 = 2_147_483;

/// The checked settings.
#[derive(Debug)]
pub struct Config {
    pub listen: String,
    pub admin_listen: String,
    /// In lower case.
    pub admin_hosts: Vec<String>,
    pub explorer: ExplorerMode,
    pub explorer_address_file: Option<PathBuf>,
    pub accounts: Vec<AccountConfig>,
    pub database_ca: Option<PathBuf>,
    pub tls: Option<TlsFiles>,
    /// Whether clients may connect from this machine only, because an account is the development account or has its key.
    pub loopback_only: bool,
    pub pool_size: usize,
    /// Whether writes may share a transaction.
    pub write_groups: bool,
    pub pool_timeout: Duration,
    pub statement_timeout: Duration,
    /// The largest lag of a standby that serves reads.
    pub max_staleness: Option<Duration>,
    pub max_connections: Option<usize>,
    pub max_requests: usize,
    /// In bytes.
    pub max_memory: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub response_timeout: Duration,
    /// The time between two sweeps of expired entities. `None` if there are none.
    pub expiry_interval: Option<Duration>,
    pub trusted_proxies: TrustedProxies,
    pub shutdown_timeout: Duration,
    pub log: String,
    pub log_format: LogFormat,
    /// The names, beside local ones, by which requests may call the port for clients. `None` allows all. Only the emulator sets it.
    pub client_hosts: Option<Vec<String>>,
    /// A file for the log instead of standard error. Only the emulator sets it.
    pub log_file: Option<PathBuf>,
}

/// An account, with its database.
#[derive(Debug)]
pub struct AccountConfig {
    pub account: Account,
    /// Whether its first key is the public one, which every SDK has.
    pub has_public_key: bool,
    pub database: DatabaseUrl,
    /// Further nodes of the same database.
    pub other_databases: Vec<DatabaseUrl>,
    /// The standbys that serve the secondary endpoint, one host each. Without any the database serves it.
    pub standbys: Vec<DatabaseUrl>,
    pub filter_dialect: Dialect,
    pub bearer: Option<BearerSettings>,
}

/// The files that TLS for clients needs.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Checks the settings and fills in the defaults.
///
/// # Errors
/// The first setting that cannot be used.
pub fn check(settings: Settings) -> Result<Config, ConfigError> {
    let tls = match (&settings.tls_certificate, &settings.tls_key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(TlsFiles {
            certificate: certificate.clone(),
            key: key.clone(),
        }),
        (Some(_), None) => return Err(ConfigError::new("tls_key", "is missing beside tls_certificate")),
        (None, Some(_)) => return Err(ConfigError::new("tls_certificate", "is missing beside tls_key")),
    };
    let accounts = accounts(&settings)?;
    if settings.max_staleness.is_some() && accounts.iter().all(|account| account.standbys.is_empty()) {
        return Err(ConfigError::new(
            "max_staleness",
            "is for standbys, and no account has a secondary_url",
        ));
    }
    let explorer = settings.explorer.unwrap_or_default();
    if settings.explorer_address_file.is_some() && explorer == ExplorerMode::Off {
        return Err(ConfigError::new(
            "explorer_address_file",
            "is for the address of the explorer, which is off",
        ));
    }
    let has_development_account = accounts
        .iter()
        .any(|account| account.account.name() == DEVELOPMENT_ACCOUNT);
    // An account of another name with this key is as open.
    let has_development_key = settings
        .accounts
        .iter()
        .flat_map(|account| &account.keys)
        .chain(&settings.key)
        .any(|key| key.expose().trim() == DEVELOPMENT_KEY);
    Ok(Config {
        listen: settings.listen.unwrap_or_else(|| "127.0.0.1:10002".to_owned()),
        admin_hosts: host_names("admin_hosts", &settings.admin_hosts)?,
        admin_listen: settings.admin_listen.unwrap_or_else(|| "127.0.0.1:10003".to_owned()),
        explorer,
        explorer_address_file: settings.explorer_address_file,
        accounts,
        database_ca: settings.database_ca,
        tls,
        loopback_only: (has_development_account || has_development_key)
            && !settings.expose_development_account.unwrap_or(false),
        pool_size: number("pool_size", settings.pool_size, 16)?,
        write_groups: settings.write_groups.unwrap_or_default() == WriteGroups::On,
        pool_timeout: seconds("pool_timeout", settings.pool_timeout, 5)?,
        statement_timeout: seconds("statement_timeout", settings.statement_timeout, 30)?,
        max_staleness: settings
            .max_staleness
            .map(|given| seconds("max_staleness", Some(given), given))
            .transpose()?,
        max_connections: settings
            .max_connections
            .map(|given| number("max_connections", Some(given), given))
            .transpose()?,
        max_requests: number("max_requests", settings.max_requests, 512)?,
        max_memory: number("max_memory", settings.max_memory, 512)?.saturating_mul(MIB),
        header_timeout: seconds("header_timeout", settings.header_timeout, 60)?,
        body_timeout: seconds("body_timeout", settings.body_timeout, 30)?,
        response_timeout: seconds("response_timeout", settings.response_timeout, 120)?,
        expiry_interval: match settings.expiry_interval.unwrap_or(10) {
            0 => None,
            interval => Some(seconds("expiry_interval", Some(interval), interval)?),
        },
        trusted_proxies: TrustedProxies::parse(&settings.trusted_proxies)
            .map_err(|problem| ConfigError::new("trusted_proxies", problem))?,
        shutdown_timeout: seconds("shutdown_timeout", settings.shutdown_timeout, 30)?,
        log: settings.log.unwrap_or_else(|| "info".to_owned()),
        log_format: settings.log_format.unwrap_or_default(),
        client_hosts: None,
        log_file: None,
    })
}

fn seconds(setting: &str, given: Option<u64>, default: u64) -> Result<Duration, ConfigError> {
    match given.unwrap_or(default) {
        0 => Err(ConfigError::new(setting, "must be at least 1 second")),
        seconds if seconds > MOST_SECONDS => {
            let problem = format!("must be at most {MOST_SECONDS} seconds, which are 24 days");
            Err(ConfigError::new(setting, problem))
        }
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

fn number(setting: &str, given: Option<usize>, default: usize) -> Result<usize, ConfigError> {
    match given.unwrap_or(default) {
        0 => Err(ConfigError::new(setting, "must be at least 1")),
        number => Ok(number),
    }
}

/// Returns names of hosts in lower case.
///
/// # Errors
/// For a text that is no name, or has a port.
pub fn host_names(setting: &str, given: &[String]) -> Result<Vec<String>, ConfigError> {
    let read = |text: &String| match crate::request::Host::parse(text.trim()) {
        Some(host) if !host.has_port() => Ok(host.name().to_owned()),
        _ => Err(ConfigError::new(
            setting,
            format!("{text:?} is no host: write its name only, such as gateway.example.com"),
        )),
    };
    given.iter().map(read).collect()
}

/// Returns all accounts: those of `[[accounts]]`, and the one of `account`, `key` and `database_url`. Without any of
/// them it is the development account.
fn accounts(settings: &Settings) -> Result<Vec<AccountConfig>, ConfigError> {
    let mut accounts = Vec::new();
    for (index, account) in settings.accounts.iter().enumerate() {
        accounts.push(read_account(account, |name| format!("accounts[{index}].{name}"))?);
    }
    let has_none = settings.account.is_none() && settings.key.is_empty() && settings.database_url.is_empty();
    if accounts.is_empty() && has_none {
        return Err(ConfigError::new(
            "database_url",
            "there is no account yet. Write one into the configuration file, which is /etc/table-service-gateway.toml for the service: \
             [[accounts]] with its name, its keys and its database_url. Or give the development account a database by \
             database_url (--database-url, TABLE_SERVICE_DATABASE_URL), such as postgresql://role:password@localhost/database",
        ));
    }
    if accounts.is_empty() || settings.account.is_some() || !settings.database_url.is_empty() {
        accounts.push(single_account(settings)?);
    } else if !settings.secondary_url.is_empty() {
        return Err(ConfigError::new(
            "secondary_url",
            "needs a database_url beside it; the accounts of the file have a secondary_url of their own",
        ));
    } else if !settings.key.is_empty() {
        return Err(ConfigError::new(
            "key",
            "needs an account; those of the file have keys of their own",
        ));
    }
    if settings.bearer.is_some() && (accounts.len() > 1 || !settings.accounts.is_empty()) {
        return Err(ConfigError::new(
            "bearer.issuer",
            "belongs to one account: with several of them write [accounts.bearer] behind its [[accounts]]",
        ));
    }
    if settings.filter_dialect.is_some() && !settings.accounts.is_empty() {
        return Err(ConfigError::new(
            "filter_dialect",
            "belongs to one account: the accounts of the file have a filter_dialect of their own, in their [[accounts]]",
        ));
    }
    let mut names: Vec<&str> = accounts.iter().map(|account| account.account.name()).collect();
    names.sort_unstable();
    if let Some([twice, _]) = names.array_windows().find(|[a, b]| a == b) {
        return Err(ConfigError::new("account", format!("{twice} is configured twice")));
    }
    Ok(accounts)
}

/// Returns the account of `account`, `key` and `database_url`.
fn single_account(settings: &Settings) -> Result<AccountConfig, ConfigError> {
    let name = settings.account.as_deref().unwrap_or(DEVELOPMENT_ACCOUNT);
    let setting = |name: &str| match name {
        "name" => "account".to_owned(),
        "keys" => "key".to_owned(),
        same => same.to_owned(),
    };
    let keys = match (name, settings.key.is_empty()) {
        (DEVELOPMENT_ACCOUNT, true) => vec![DEVELOPMENT_KEY.into()],
        (_, true) => return Err(ConfigError::new("key", "the account needs a key")),
        _ => settings.key.clone(),
    };
    let account = AccountSettings {
        name: name.to_owned(),
        keys,
        database_url: settings.database_url.clone(),
        secondary_url: settings.secondary_url.clone(),
        filter_dialect: settings.filter_dialect,
        bearer: settings.bearer.clone(),
    };
    read_account(&account, setting)
}

/// Reads an account. `setting` gives the whole names of its settings.
fn read_account(account: &AccountSettings, setting: impl Fn(&str) -> String) -> Result<AccountConfig, ConfigError> {
    let known = read_keys(&account.name, &account.keys, &setting("name"), &setting("keys"))?;
    let (database, other_databases) = read_database_urls(&account.database_url, &setting("database_url"))?;
    let secondary = setting("secondary_url");
    Ok(AccountConfig {
        account: known,
        has_public_key: is_public(&account.keys),
        standbys: read_secondary_urls(&account.secondary_url, &database, &other_databases, &secondary)?,
        database,
        other_databases,
        filter_dialect: account.filter_dialect.unwrap_or_default(),
        bearer: account.bearer.clone(),
    })
}

fn is_public(keys: &[Secret]) -> bool {
    keys.first().is_some_and(|key| key.expose().trim() == DEVELOPMENT_KEY)
}

fn read_keys(name: &str, keys: &[Secret], name_setting: &str, key_setting: &str) -> Result<Account, ConfigError> {
    let problem = |error: table_service_model::Error| error.hint().unwrap_or_default();
    let keys = keys
        .iter()
        .map(|key| AccountKey::parse(key.expose()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| ConfigError::new(key_setting, problem(error)))?;
    if !(1..=2).contains(&keys.len()) {
        return Err(ConfigError::new(key_setting, "an account has one or two keys"));
    }
    Account::new(name, keys).map_err(|error| ConfigError::new(name_setting, problem(error)))
}

/// Returns the first database, and the other ones.
fn read_database_urls(urls: &[Secret], setting: &str) -> Result<(DatabaseUrl, Vec<DatabaseUrl>), ConfigError> {
    let Some((first, others)) = urls.split_first() else {
        return Err(ConfigError::new(
            setting,
            "is missing: name the database that holds the tables, such as postgresql://role:password@localhost/database",
        ));
    };
    let first = read_database_url(first, setting)?;
    let mut read: Vec<DatabaseUrl> = Vec::with_capacity(others.len());
    for url in others {
        let other = read_database_url(url, setting)?;
        if std::iter::once(&first)
            .chain(&read)
            .any(|known| known.is_same_database(&other))
        {
            return Err(ConfigError::new(setting, "names a database twice"));
        }
        read.push(other);
    }
    Ok((first, read))
}

/// Returns the standbys, each of them alone.
fn read_secondary_urls(
    urls: &[Secret],
    database: &DatabaseUrl,
    other_databases: &[DatabaseUrl],
    setting: &str,
) -> Result<Vec<DatabaseUrl>, ConfigError> {
    if !urls.is_empty() && !other_databases.is_empty() {
        let problem = "cannot stand beside several database URLs: these are the nodes of a distributed database, and a \
                       standby of one of them has only a part of the tables. The hosts of a primary and its standbys stand \
                       in one URL, such as postgresql://role:password@host1,host2/database";
        return Err(ConfigError::new(setting, problem));
    }
    let mut standbys: Vec<DatabaseUrl> = Vec::new();
    for url in urls {
        for standby in read_database_url(url, setting)?.servers() {
            if standbys.iter().any(|known| known.is_same_database(&standby)) {
                return Err(ConfigError::new(setting, "names a standby twice"));
            }
            standbys.push(standby);
        }
    }
    // The current primary among several hosts serves no reads there. A single host stays the primary.
    if let ([only], true) = (database.servers().as_slice(), !standbys.is_empty())
        && standbys.iter().any(|standby| standby.is_same_database(only))
    {
        return Err(ConfigError::new(
            setting,
            "names the database of database_url: name its standbys, or name all hosts in both",
        ));
    }
    Ok(standbys)
}

fn read_database_url(url: &Secret, setting: &str) -> Result<DatabaseUrl, ConfigError> {
    let url = DatabaseUrl::read(url).map_err(|problem| ConfigError::new(setting, problem))?;
    if url.wants_read_only() {
        return Err(ConfigError::new(
            setting,
            "asks for target_session_attrs=read-only: the gateway itself finds the primary among the hosts of database_url; \
             standbys for reads stand in secondary_url",
        ));
    }
    Ok(url)
}
