//! The settings that flags, environment variables and the file have in common.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::{Deserialize, Serialize};
use table_service_model::{Dialect, Secret};

use super::file::{AccountSettings, BearerSettings, exposed, one_or_more};

/// The headings of `--help`, each with its settings.
const HEADINGS: [(&str, &str); 7] = [
    ("Addresses", "listen admin_listen admin_hosts trusted_proxies"),
    ("Explorer", "explorer explorer_address_file"),
    (
        "Accounts and databases",
        "account key database_url secondary_url filter_dialect max_staleness database_ca expose_development_account expiry_interval",
    ),
    ("TLS", "tls_certificate tls_key"),
    (
        "Limits",
        "pool_size write_groups max_connections max_requests max_memory",
    ),
    (
        "Time limits",
        "pool_timeout statement_timeout header_timeout body_timeout response_timeout shutdown_timeout",
    ),
    ("Log", "log log_format"),
];

/// Every setting, as it may stand in the file, in the environment and on the command line.
#[derive(Debug, Default, clap::Args, Serialize, Deserialize)]
#[command(mut_args(with_env_and_heading))]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where to listen for clients [default: 127.0.0.1:10002]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,

    /// Where to listen for /live, /ready and /metrics [default: 127.0.0.1:10003]
    #[arg(long, value_name = "HOST:PORT")]
    pub admin_listen: Option<String>,

    /// Names, beside localhost, by which requests may call the admin port; addresses always may [default: none]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub admin_hosts: Vec<String>,

    /// Whether /explorer on the admin port shows the tables (read) and may change them (write); the port must be of this machine only
    /// [default: off]
    #[arg(long, value_name = "MODE")]
    pub explorer: Option<ExplorerMode>,

    /// A file for the address of the explorer, which has a secret: only its owner can read it [default: it is printed on a terminal]
    #[arg(long, value_name = "FILE")]
    pub explorer_address_file: Option<PathBuf>,

    /// The name of the account; the file can have more accounts [default: devstoreaccount1]
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,

    /// A key of the account; a second one may be valid at the same time
    #[arg(long, value_name = "BASE64", value_delimiter = ',', hide_env_values = true)]
    #[serde(serialize_with = "exposed")]
    pub key: Vec<Secret>,

    /// The database of the account, such as postgresql://role:password@host/database. Several hosts in one URL are a primary and
    /// the standbys that may take its place. Repeat it for the nodes of a distributed database, the one that creates tables first
    #[arg(long, value_name = "URL", value_delimiter = '\n', hide_env_values = true)]
    #[serde(serialize_with = "exposed", deserialize_with = "one_or_more")]
    pub database_url: Vec<Secret>,

    /// A hot standby of the database, which serves reads of the secondary endpoint; repeat it for several. Without it the
    /// database itself serves them [default: none]
    #[arg(long, value_name = "URL", value_delimiter = '\n', hide_env_values = true)]
    #[serde(serialize_with = "exposed", deserialize_with = "one_or_more")]
    pub secondary_url: Vec<Secret>,

    /// Whether $filter says only what the service's can, or also startswith, endswith, contains, in, and eq null [default: service]
    #[arg(long, value_name = "DIALECT", value_parser = dialect())]
    pub filter_dialect: Option<Dialect>,

    /// How far a standby may be behind the database and still serve reads [default: without a limit]
    #[arg(long, value_name = "SECONDS")]
    pub max_staleness: Option<u64>,

    /// PEM certificates for checking databases with sslmode=require [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub database_ca: Option<PathBuf>,

    /// The PEM certificate chain to serve HTTPS with; needs --tls-key
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,

    /// The PEM private key of the certificate
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Let other machines connect although the development account is served, whose key is public
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub expose_development_account: Option<bool>,

    /// Most connections to each database, besides one for /ready [default: 16]
    #[arg(long, value_name = "NUMBER")]
    pub pool_size: Option<usize>,

    /// Whether writes that come at the same time may share a transaction; each keeps its own outcome [default: on]
    #[arg(long, value_name = "MODE")]
    pub write_groups: Option<WriteGroups>,

    /// How long a request waits for a database connection or for memory before it is refused [default: 5]
    #[arg(long, value_name = "SECONDS")]
    pub pool_timeout: Option<u64>,

    /// How long one statement may run in the database [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub statement_timeout: Option<u64>,

    /// Most connections of clients [default: 10000, or what the limit of open files allows]
    #[arg(long, value_name = "NUMBER")]
    pub max_connections: Option<usize>,

    /// Most requests that run at a time; more are refused with ServerBusy [default: 512]
    #[arg(long, value_name = "NUMBER")]
    pub max_requests: Option<usize>,

    /// Memory for bodies and responses, at least 20 for each account; without it requests wait, then are refused with
    /// ServerBusy [default: 512]
    #[arg(long, value_name = "MIB")]
    pub max_memory: Option<usize>,

    /// How long a client may take to send the head of a request, or be idle before it [default: 60]
    #[arg(long, value_name = "SECONDS")]
    pub header_timeout: Option<u64>,

    /// How long a client may take to send the body of a request [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub body_timeout: Option<u64>,

    /// How long a client may take to read a response [default: 120]
    #[arg(long, value_name = "SECONDS")]
    pub response_timeout: Option<u64>,

    /// How often entities that have expired are removed from the databases; 0 turns that off [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub expiry_interval: Option<u64>,

    /// Addresses or networks of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are believed [default: none]
    #[arg(long, value_name = "ADDRESS[/BITS]", value_delimiter = ',')]
    pub trusted_proxies: Vec<String>,

    /// How long running requests may take to finish on shutdown [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub shutdown_timeout: Option<u64>,

    /// What to log, such as info, debug or table_service_gateway=debug [default: info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,

    /// The form of the log [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Several accounts, each with its own database.
    #[arg(skip)]
    #[serde(skip_serializing)]
    pub accounts: Vec<AccountSettings>,

    /// The issuer of the account's bearer tokens.
    #[arg(skip)]
    #[serde(skip_serializing)]
    pub bearer: Option<BearerSettings>,
}

/// The form of the log's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The rights of the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExplorerMode {
    #[default]
    Off,
    Read,
    Write,
}

/// Whether writes may share a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteGroups {
    #[default]
    On,
    Off,
}

/// Returns a reader of the names of dialects.
fn dialect() -> impl TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(["service", "extended"]).try_map(|name| name.parse::<Dialect>())
}

/// Puts a setting under its heading, and gives it its environment variable, which has its name.
fn with_env_and_heading(setting: clap::Arg) -> clap::Arg {
    let id = setting.get_id().to_string();
    let setting = setting.env(&*format!("TABLE_SERVICE_{}", id.to_ascii_uppercase()).leak());
    match HEADINGS
        .iter()
        .find(|(_, settings)| settings.split(' ').any(|name| name == id))
    {
        Some((heading, _)) => setting.help_heading(*heading),
        None => setting,
    }
}
