//! Settings: flags beat environment variables, which beat the file, which beats the defaults.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use figment::Figment;
use figment::providers::{Format, Serialized, Toml};
use serde::{Deserialize, Serialize};
use table_service_model::access::{Account, AccountKey};

use crate::request::forwarded::TrustedProxies;

/// The account of `UseDevelopmentStorage=true`, and its key, which is built into every SDK.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The command line.
#[derive(Debug, clap::Parser)]
#[command(name = "table-service-gateway", version)]
/// Serves the REST protocol of the Azure Table service from PostgreSQL databases with the extension table_service.
///
/// Every flag has an environment variable and, under its name with `_` for `-`, a setting in the file.
pub struct CommandLine {
    /// A TOML file with settings
    #[arg(long, env = "TABLE_SERVICE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,
}

/// Every setting, as it may stand in the file, in the environment and on the command line.
#[derive(Debug, Default, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Where to listen for clients [default: 127.0.0.1:10002]
    #[arg(long, env = "TABLE_SERVICE_LISTEN", value_name = "HOST:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,

    /// Where to listen for /live, /ready and /metrics [default: 127.0.0.1:10003]
    #[arg(long, env = "TABLE_SERVICE_ADMIN_LISTEN", value_name = "HOST:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    admin_listen: Option<String>,

    /// The name of the account; more accounts go into the file [default: devstoreaccount1]
    #[arg(long, env = "TABLE_SERVICE_ACCOUNT", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,

    /// A key of the account; a second one may be valid at the same time
    #[arg(
        long,
        env = "TABLE_SERVICE_KEY",
        value_name = "BASE64",
        value_delimiter = ',',
        hide_env_values = true
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    key: Vec<String>,

    /// The database of the account, such as postgresql://role:password@host/database
    #[arg(long, env = "TABLE_SERVICE_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    database_url: Option<String>,

    /// PEM certificates that databases with sslmode=require are checked against [default: the system's]
    #[arg(long, env = "TABLE_SERVICE_DATABASE_CA", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    database_ca: Option<PathBuf>,

    /// The PEM certificate chain to serve HTTPS with; needs --tls-key
    #[arg(long, env = "TABLE_SERVICE_TLS_CERTIFICATE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_certificate: Option<PathBuf>,

    /// The PEM private key of the certificate
    #[arg(long, env = "TABLE_SERVICE_TLS_KEY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_key: Option<PathBuf>,

    /// Serve the well-known development account also beyond this machine: everybody has its key
    #[arg(long, env = "TABLE_SERVICE_EXPOSE_DEVELOPMENT_ACCOUNT", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    #[serde(skip_serializing_if = "Option::is_none")]
    expose_development_account: Option<bool>,

    /// Most connections to each database, without the one for /ready [default: 16]
    #[arg(long, env = "TABLE_SERVICE_POOL_SIZE", value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_size: Option<usize>,

    /// How long a request waits for a connection to the database before it is refused [default: 5]
    #[arg(long, env = "TABLE_SERVICE_POOL_TIMEOUT", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_timeout: Option<u64>,

    /// How long one statement may run in the database [default: 30]
    #[arg(long, env = "TABLE_SERVICE_STATEMENT_TIMEOUT", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    statement_timeout: Option<u64>,

    /// Most connections of clients [default: 10000, or what the limit of open files allows]
    #[arg(long, env = "TABLE_SERVICE_MAX_CONNECTIONS", value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_connections: Option<usize>,

    /// Most requests at a time; more are refused with ServerBusy [default: 512]
    #[arg(long, env = "TABLE_SERVICE_MAX_REQUESTS", value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_requests: Option<usize>,

    /// How long a client may take to send the head of a request, or be idle before it [default: 60]
    #[arg(long, env = "TABLE_SERVICE_HEADER_TIMEOUT", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    header_timeout: Option<u64>,

    /// How long a client may take to send the body of a request [default: 30]
    #[arg(long, env = "TABLE_SERVICE_BODY_TIMEOUT", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    body_timeout: Option<u64>,

    /// How long a client may take to read an answer [default: 120]
    #[arg(long, env = "TABLE_SERVICE_RESPONSE_TIMEOUT", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    response_timeout: Option<u64>,

    /// Reverse proxies, by address or network: their X-Forwarded-For and X-Forwarded-Proto are believed [default: none]
    #[arg(
        long,
        env = "TABLE_SERVICE_TRUSTED_PROXIES",
        value_name = "ADDRESS[/BITS]",
        value_delimiter = ','
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trusted_proxies: Vec<String>,

    /// How long requests may take to finish when the gateway is asked to stop [default: 30]
    #[arg(long, env = "TABLE_SERVICE_SHUTDOWN_TIMEOUT", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    shutdown_timeout: Option<u64>,

    /// What to log, such as info, debug or table_service_gateway=debug [default: info]
    #[arg(long, env = "TABLE_SERVICE_LOG", value_name = "FILTER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,

    /// The form of the log [default: text]
    #[arg(long, env = "TABLE_SERVICE_LOG_FORMAT", value_name = "FORMAT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_format: Option<LogFormat>,

    /// Several accounts, each with its own database.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accounts: Vec<AccountSettings>,

    /// Whose bearer tokens are accepted.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    bearer: Option<BearerSettings>,
}

/// One of `[[accounts]]` in the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountSettings {
    name: String,
    keys: Vec<String>,
    database_url: String,
}

/// `[bearer]` in the file: tokens of one issuer, checked against its published keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BearerSettings {
    /// The claim `iss` that tokens must have.
    pub issuer: String,
    /// The claims `aud` that tokens may have; the first one is that of clients which ask for it.
    pub audiences: Vec<String>,
    /// Where clients without a valid token are sent for one, such as `https://login.microsoftonline.com/<tenant>/oauth2/authorize`
    /// [default: the issuer].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_uri: Option<String>,
    /// A file with the issuer's JSON Web Key Set.
    pub jwks_file: PathBuf,
    /// The claim that names the roles, a string or a list of strings.
    #[serde(default = "roles_claim")]
    pub roles_claim: String,
    /// The values of that claim that allow reading.
    #[serde(default = "reader_roles")]
    pub reader_roles: Vec<String>,
    /// The values of that claim that allow everything with tables and entities.
    #[serde(default = "contributor_roles")]
    pub contributor_roles: Vec<String>,
}

fn roles_claim() -> String {
    "roles".to_owned()
}

fn reader_roles() -> Vec<String> {
    vec!["Storage Table Data Reader".to_owned()]
}

fn contributor_roles() -> Vec<String> {
    vec!["Storage Table Data Contributor".to_owned()]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// A setting that cannot be used. `Display` names it.
#[derive(Debug)]
pub struct ConfigError {
    setting: String,
    problem: String,
}

impl ConfigError {
    pub fn new(setting: impl Into<String>, problem: impl fmt::Display) -> ConfigError {
        ConfigError {
            setting: setting.into(),
            problem: problem.to_string(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { setting, problem } = self;
        if setting.is_empty() {
            return f.write_str(problem);
        }
        let flag = setting.replace('_', "-");
        let variable = setting.to_ascii_uppercase();
        if setting.contains(['[', '.']) {
            return write!(f, "{setting} in the configuration file: {problem}");
        }
        write!(
            f,
            "{setting} (--{flag}, TABLE_SERVICE_{variable}, or {setting} in the configuration file): {problem}"
        )
    }
}

impl std::error::Error for ConfigError {}

/// What the gateway runs with.
#[derive(Debug)]
pub struct Config {
    pub listen: String,
    pub admin_listen: String,
    pub accounts: Vec<AccountConfig>,
    pub database_ca: Option<PathBuf>,
    pub tls: Option<TlsFiles>,
    pub bearer: Option<BearerSettings>,
    /// The well-known account is among the accounts, and must not be reachable from other machines.
    pub loopback_only: bool,
    pub pool_size: usize,
    pub pool_timeout: Duration,
    pub statement_timeout: Duration,
    pub max_connections: Option<usize>,
    pub max_requests: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub response_timeout: Duration,
    pub trusted_proxies: TrustedProxies,
    pub shutdown_timeout: Duration,
    pub log: String,
    pub log_format: LogFormat,
}

#[derive(Debug)]
pub struct AccountConfig {
    pub account: Account,
    pub database: tokio_postgres::Config,
}

#[derive(Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl CommandLine {
    /// Brings all sources together and checks them.
    ///
    /// # Errors
    /// Of the first setting that is wrong, by its name.
    pub fn config(self) -> Result<Config, ConfigError> {
        let mut figment = Figment::new();
        if let Some(path) = &self.config {
            figment = figment.merge(Toml::file_exact(path));
        }
        let settings: Settings = figment
            .merge(Serialized::defaults(&self.settings))
            .extract()
            .map_err(|error| ConfigError::new("", error))?;
        settings.check()
    }
}

impl Settings {
    fn check(self) -> Result<Config, ConfigError> {
        let seconds = |setting: &str, given: Option<u64>, default: u64| match given.unwrap_or(default) {
            0 => Err(ConfigError::new(setting, "must be at least 1 second")),
            seconds => Ok(Duration::from_secs(seconds)),
        };
        let number = |setting: &str, given: Option<usize>, default: usize| match given.unwrap_or(default) {
            0 => Err(ConfigError::new(setting, "must be at least 1")),
            number => Ok(number),
        };
        let tls = match (self.tls_certificate, self.tls_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (Some(_), None) => return Err(ConfigError::new("tls_key", "is missing beside tls_certificate")),
            (None, Some(_)) => return Err(ConfigError::new("tls_certificate", "is missing beside tls_key")),
        };
        let mut accounts = Vec::new();
        for (index, account) in self.accounts.iter().enumerate() {
            let setting = |name: &str| format!("accounts[{index}].{name}");
            accounts.push(AccountConfig {
                account: read_account(&account.name, &account.keys, &setting("name"), &setting("keys"))?,
                database: read_database_url(&account.database_url, &setting("database_url"))?,
            });
        }
        if accounts.is_empty() || self.account.is_some() || self.database_url.is_some() {
            let name = self.account.as_deref().unwrap_or(DEVELOPMENT_ACCOUNT);
            let keys = match (name, self.key.is_empty()) {
                (DEVELOPMENT_ACCOUNT, true) => vec![DEVELOPMENT_KEY.to_owned()],
                (_, true) => return Err(ConfigError::new("key", format!("the account {name} needs a key"))),
                _ => self.key,
            };
            let database_url = self.database_url.ok_or_else(|| {
                ConfigError::new(
                    "database_url",
                    "is missing: name the database that holds the tables, such as postgresql://role:password@localhost/database",
                )
            })?;
            accounts.push(AccountConfig {
                account: read_account(name, &keys, "account", "key")?,
                database: read_database_url(&database_url, "database_url")?,
            });
        } else if !self.key.is_empty() {
            return Err(ConfigError::new(
                "key",
                "needs an account; those of the file have keys of their own",
            ));
        }
        let mut names: Vec<&str> = accounts.iter().map(|account| account.account.name()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            return Err(ConfigError::new(
                "account",
                format!("{} is configured twice", twice.concat()),
            ));
        }
        let has_development_account = names.contains(&DEVELOPMENT_ACCOUNT);
        Ok(Config {
            listen: self.listen.unwrap_or_else(|| "127.0.0.1:10002".to_owned()),
            admin_listen: self.admin_listen.unwrap_or_else(|| "127.0.0.1:10003".to_owned()),
            accounts,
            database_ca: self.database_ca,
            tls,
            bearer: self.bearer,
            loopback_only: has_development_account && !self.expose_development_account.unwrap_or(false),
            pool_size: number("pool_size", self.pool_size, 16)?,
            pool_timeout: seconds("pool_timeout", self.pool_timeout, 5)?,
            statement_timeout: seconds("statement_timeout", self.statement_timeout, 30)?,
            max_connections: self
                .max_connections
                .map(|given| number("max_connections", Some(given), given))
                .transpose()?,
            max_requests: number("max_requests", self.max_requests, 512)?,
            header_timeout: seconds("header_timeout", self.header_timeout, 60)?,
            body_timeout: seconds("body_timeout", self.body_timeout, 30)?,
            response_timeout: seconds("response_timeout", self.response_timeout, 120)?,
            trusted_proxies: TrustedProxies::parse(&self.trusted_proxies)
                .map_err(|problem| ConfigError::new("trusted_proxies", problem))?,
            shutdown_timeout: seconds("shutdown_timeout", self.shutdown_timeout, 30)?,
            log: self.log.unwrap_or_else(|| "info".to_owned()),
            log_format: self.log_format.unwrap_or_default(),
        })
    }
}

fn read_account(name: &str, keys: &[String], name_setting: &str, key_setting: &str) -> Result<Account, ConfigError> {
    let problem = |error: table_service_model::Error| error.hint().unwrap_or_default();
    let keys = keys
        .iter()
        .map(|key| AccountKey::parse(key))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| ConfigError::new(key_setting, problem(error)))?;
    if !(1..=2).contains(&keys.len()) {
        return Err(ConfigError::new(
            key_setting,
            format!("the account {name} has one or two keys"),
        ));
    }
    Account::new(name, keys).map_err(|error| ConfigError::new(name_setting, problem(error)))
}

fn read_database_url(url: &str, setting: &str) -> Result<tokio_postgres::Config, ConfigError> {
    url.parse::<tokio_postgres::Config>().map_err(|error| {
        // The text holds a password: it is not repeated.
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        ConfigError::new(
            setting,
            format!("is no database URL ({reason}); it looks like postgresql://role:password@host/database"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    const KEY: &str = "a2V5";

    fn config(arguments: &[&str]) -> Result<Config, String> {
        let arguments = std::iter::once("table-service-gateway").chain(arguments.iter().copied());
        let command_line = CommandLine::try_parse_from(arguments).map_err(|error| error.to_string())?;
        command_line.config().map_err(|error| error.to_string())
    }

    fn with_file(content: &str, arguments: &[&str]) -> Result<Config, String> {
        let file = std::env::temp_dir().join(format!(
            "gateway-config-{}-{}.toml",
            std::process::id(),
            fingerprint(content)
        ));
        std::fs::write(&file, content).unwrap();
        let mut all = vec!["--config", file.to_str().unwrap()];
        all.extend(arguments);
        let result = config(&all);
        std::fs::remove_file(&file).unwrap();
        result
    }

    fn fingerprint(content: &str) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn without_an_account_it_is_the_development_account_on_loopback() {
        let config = config(&["--database-url", "postgresql://localhost/tables"]).unwrap();
        assert_eq!(config.listen, "127.0.0.1:10002");
        assert_eq!(config.accounts[0].account.name(), DEVELOPMENT_ACCOUNT);
        assert!(config.loopback_only);
    }

    #[test]
    fn flags_beat_the_file() {
        let file = "listen = \"0.0.0.0:1\"\npool_size = 3\naccount = \"one\"\nkey = [\"a2V5\"]\ndatabase_url = \"postgresql://h/d\"\n";
        let config = with_file(file, &["--listen", "127.0.0.1:2"]).unwrap();
        assert_eq!((config.listen.as_str(), config.pool_size), ("127.0.0.1:2", 3));
        assert!(!config.loopback_only);
    }

    #[test]
    fn several_accounts_have_a_database_each() {
        let file = "[[accounts]]\nname = \"one\"\nkeys = [\"a2V5\"]\ndatabase_url = \"postgresql://h/one\"\n\
                    [[accounts]]\nname = \"two\"\nkeys = [\"a2V5\", \"a2V6\"]\ndatabase_url = \"postgresql://h/two\"\n";
        let config = with_file(file, &[]).unwrap();
        let databases: Vec<_> = config
            .accounts
            .iter()
            .map(|account| account.database.get_dbname().unwrap())
            .collect();
        assert_eq!(databases, ["one", "two"]);
    }

    #[test]
    fn errors_name_the_setting() {
        for (arguments, expected) in [
            (
                &[][..],
                "database_url (--database-url, TABLE_SERVICE_DATABASE_URL, or database_url in the configuration file): is missing",
            ),
            (&["--database-url", "nonsense"], "database_url (--database-url"),
            (
                &["--database-url", "postgresql://h/d", "--account", "one"],
                "key (--key, TABLE_SERVICE_KEY",
            ),
            (
                &["--database-url", "postgresql://h/d", "--account", "one", "--key", "%"],
                "key (--key, TABLE_SERVICE_KEY",
            ),
            (
                &["--database-url", "postgresql://h/d", "--account", "One!", "--key", KEY],
                "account (--account",
            ),
            (
                &["--database-url", "postgresql://h/d", "--pool-size", "0"],
                "pool_size (--pool-size",
            ),
            (
                &["--database-url", "postgresql://h/d", "--pool-size", "many"],
                "--pool-size",
            ),
            (
                &["--database-url", "postgresql://h/d", "--tls-key", "k"],
                "tls_certificate (--tls-certificate",
            ),
            (&["--config", "/does/not/exist.toml"], "/does/not/exist.toml"),
        ] {
            let error = config(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn errors_of_the_file_name_the_setting() {
        for (file, expected) in [
            ("lissten = \"x\"", "lissten"),
            ("pool_size = \"x\"", "pool_size"),
            (
                "[[accounts]]\nname = \"one\"\nkeys = [\"%\"]\ndatabase_url = \"postgresql://h/d\"",
                "accounts[0].keys",
            ),
            (
                "[[accounts]]\nname = \"one\"\nkeys = [\"a2V5\"]\ndatabase_url = \"x\"",
                "accounts[0].database_url",
            ),
        ] {
            let error = with_file(file, &[]).unwrap_err();
            assert!(error.contains(expected), "{file}: {error}");
        }
    }

    #[test]
    fn proxies_are_trusted_by_address_and_network() {
        let url = "postgresql://role@host/db";
        let config = |proxies: &str| config(&["--database-url", url, "--trusted-proxies", proxies]);
        assert!(config("10.0.0.0/8, fd00::1").is_ok());
        let error = config("10.0.0.0/8,proxy").unwrap_err();
        assert!(
            error.contains("trusted_proxies (--trusted-proxies") && error.contains("\"proxy\""),
            "{error}"
        );
    }

    #[test]
    fn no_secret_is_in_an_error_or_the_debug_form() {
        let url = "postgresql://role:secret@host:port/db";
        assert!(!config(&["--database-url", url]).unwrap_err().contains("secret"));
        let config = config(&["--database-url", "postgresql://role:secret@host/db"]).unwrap();
        let debug = format!("{config:?}");
        assert!(!debug.contains("secret") && !debug.contains("Eby8"), "{debug}");
    }
}
