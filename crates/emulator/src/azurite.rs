//! The command lines of azurite-table and azurite 3.37, the emulators that test set-ups start today.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser};
use table_service_gateway::config::{AccountSettings, Settings};

use crate::messages::Messages;
use crate::other_services::OtherService;
use crate::settings::{CommonOptions, EmulatorSettings};

/// The names of the commands, and of this program if it runs as one of them.
pub const TABLE: &str = "azurite-table";
/// The name of the command that also serves blobs and queues.
pub const ALL: &str = "azurite";
/// The directory of the tables, in that of --location.
const DATA: &str = "table-service-emulator";
/// Accounts with their keys, instead of the development account.
const ACCOUNTS: &str = "AZURITE_ACCOUNTS";
/// The options that have no value.
const SWITCHES: [&str; 8] = [
    "-s",
    "--silent",
    "-L",
    "--loose",
    "--skipApiVersionCheck",
    "--disableProductStyleUrl",
    "--disableTelemetry",
    "--inMemoryPersistence",
];

/// Takes the options of azurite-table, and prints what it prints.
///
/// The environment variable AZURITE_ACCOUNTS may name accounts instead of the development account, as
/// `account1:key1[:key2];account2:key1`.
#[derive(Debug, Parser)]
#[command(
    name = TABLE,
    version,
    args_override_self = true,
    disable_version_flag = true,
    after_help = "Examples:\n  \
                  azurite-table --inMemoryPersistence\n  \
                  azurite-table --tablePort 0 --location ./tables"
)]
pub struct AzuriteTable {
    /// Where to listen for clients. With another address than one of this machine's own, other machines can connect
    #[arg(long = "tableHost", value_name = "HOST", default_value = "127.0.0.1")]
    host: String,

    /// The port for clients; 0 takes a free one
    #[arg(long = "tablePort", value_name = "PORT", default_value_t = 10002)]
    port: u16,

    /// How many seconds a connection may be idle
    #[arg(long = "tableKeepAliveTimeout", value_name = "SECONDS")]
    keep_alive_timeout: Option<u64>,

    /// Keep the tables in the directory table-service-emulator of this one [default: the current directory]
    #[arg(
        short = 'l',
        long,
        value_name = "DIRECTORY",
        conflicts_with = "in_memory_persistence"
    )]
    location: Option<PathBuf>,

    /// Keep no tables: they are gone at the end
    #[arg(long = "inMemoryPersistence")]
    in_memory_persistence: bool,

    /// Write what happens to this file
    #[arg(short = 'd', long, value_name = "FILE")]
    debug: Option<PathBuf>,

    /// Take bearer tokens over HTTPS: basic looks at their times, issuer and audience, and at no signature
    #[arg(long, value_name = "LEVEL", value_parser = ["basic"], ignore_case = true)]
    oauth: Option<String>,

    /// Serve HTTPS with this PEM certificate
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,

    /// The PEM private key of the certificate
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Not supported: the certificate is in PEM files
    #[arg(long, value_name = "PASSWORD")]
    pwd: Option<Option<String>>,

    /// Where to listen for /live, /ready, /metrics, /reset and /faults; 0 takes a free port
    #[arg(
        long,
        env = "TABLE_SERVICE_EMULATOR_ADMIN_PORT",
        value_name = "PORT",
        default_value_t = 0
    )]
    admin_port: u16,

    /// Print the version
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,

    #[command(flatten)]
    not_needed: NotNeeded,

    #[command(flatten)]
    more: CommonOptions,
}

/// Takes the options of azurite, prints what it prints, and serves tables only.
///
/// The ports of blobs and queues say that there are none, and refuse everything else with NotImplemented. The environment variable
/// AZURITE_ACCOUNTS may name accounts instead of the development account, as `account1:key1[:key2];account2:key1`.
#[derive(Debug, Parser)]
#[command(
    name = ALL,
    version,
    args_override_self = true,
    disable_version_flag = true,
    after_help = "Examples:\n  \
                  azurite --inMemoryPersistence --silent\n  \
                  azurite --location ./tables --tablePort 10002"
)]
pub struct Azurite {
    #[command(flatten)]
    table: AzuriteTable,

    /// Where to refuse clients of the Blob service
    #[arg(long = "blobHost", value_name = "HOST", default_value = "127.0.0.1")]
    blob_host: String,

    /// The port for clients of the Blob service; 0 takes a free one
    #[arg(long = "blobPort", value_name = "PORT", default_value_t = 10000)]
    blob_port: u16,

    /// Where to refuse clients of the Queue service
    #[arg(long = "queueHost", value_name = "HOST", default_value = "127.0.0.1")]
    queue_host: String,

    /// The port for clients of the Queue service; 0 takes a free one
    #[arg(long = "queuePort", value_name = "PORT", default_value_t = 10001)]
    queue_port: u16,

    /// Taken, and not needed: there are no blobs
    #[arg(long = "blobKeepAliveTimeout", value_name = "SECONDS")]
    blob_keep_alive_timeout: Option<u64>,

    /// Taken, and not needed: there are no queues
    #[arg(long = "queueKeepAliveTimeout", value_name = "SECONDS")]
    queue_keep_alive_timeout: Option<u64>,

    /// Taken, and not needed: it is a limit of blobs and queues
    #[arg(long = "extentMemoryLimit", value_name = "MEGABYTES")]
    extent_memory_limit: Option<f64>,
}

/// Options without an effect.
#[derive(Debug, Args)]
struct NotNeeded {
    /// Taken, and not needed: requests are not printed
    #[arg(short = 's', long)]
    silent: bool,

    /// Taken, and not needed: unknown headers and parameters are ignored
    #[arg(short = 'L', long)]
    loose: bool,

    /// Taken, and not needed: every version is served
    #[arg(long = "skipApiVersionCheck")]
    skip_api_version_check: bool,

    /// Taken, and not needed: only a host name like ACCOUNT.table.localhost names an account
    #[arg(long = "disableProductStyleUrl")]
    disable_product_style_url: bool,

    /// Taken, and not needed: nothing is collected
    #[arg(long = "disableTelemetry")]
    disable_telemetry: bool,
}

impl AzuriteTable {
    /// Returns the settings that the arguments ask for.
    ///
    /// # Errors
    /// For an option that is not supported, and for accounts that cannot be read.
    pub fn settings(self) -> Result<EmulatorSettings, String> {
        if self.pwd.is_some() {
            return Err("--pwd: there are no .pfx files here; give --cert and --key in PEM files".to_owned());
        }
        if self.cert.is_some() != self.key.is_some() {
            return Err("--cert and --key belong together: both are PEM files".to_owned());
        }
        let data = match self.in_memory_persistence {
            true => None,
            false => Some(self.location.unwrap_or_else(|| PathBuf::from(".")).join(DATA)),
        };
        let accounts = std::env::var_os(ACCOUNTS).unwrap_or_default();
        let accounts = accounts
            .to_str()
            .ok_or_else(|| "it is no UTF-8".to_owned())
            .and_then(accounts_of);
        let accounts = accounts.map_err(|problem| format!("{ACCOUNTS}: {problem}"))?;
        let log = if self.debug.is_some() { "debug" } else { "warn" };
        Ok(EmulatorSettings {
            gateway: Settings {
                listen: Some(address(&self.host, self.port)),
                admin_listen: Some(format!("127.0.0.1:{}", self.admin_port)),
                accounts,
                // The user has named the address.
                expose_development_account: Some(true),
                tls_certificate: self.cert,
                tls_key: self.key,
                header_timeout: self.keep_alive_timeout.filter(|seconds| *seconds > 0),
                log: Some(log.to_owned()),
                ..Settings::default()
            },
            data,
            other_services: Vec::new(),
            unsigned_tokens: self.oauth.is_some(),
            log_file: self.debug,
            messages: Messages::AzuriteTable {
                host: self.host,
                port: self.port,
            },
            names: option_of,
            more: self.more,
        })
    }
}

impl Azurite {
    /// Returns the settings that the arguments ask for.
    pub fn settings(self) -> Result<EmulatorSettings, String> {
        Ok(EmulatorSettings {
            other_services: vec![
                (OtherService::Blob, address(&self.blob_host, self.blob_port)),
                (OtherService::Queue, address(&self.queue_host, self.queue_port)),
            ],
            messages: Messages::Azurite,
            ..self.table.settings()?
        })
    }
}

/// HOST:PORT, also of an address with colons.
fn address(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// The option that a setting of the gateway comes from.
fn option_of(setting: &str) -> Option<String> {
    let option = match setting {
        "listen" => "--tableHost and --tablePort",
        "admin_listen" => "--admin-port",
        "explorer_address_file" => "--explorer-address-file",
        "header_timeout" => "--tableKeepAliveTimeout",
        "log_file" => "--debug",
        "tls_certificate" => "--cert",
        "tls_key" => "--key",
        "account" => ACCOUNTS,
        "blob_listen" => "--blobHost and --blobPort",
        "queue_listen" => "--queueHost and --queuePort",
        _ if setting.starts_with("accounts[") => return Some(format!("{ACCOUNTS}, {setting}")),
        _ => return None,
    };
    Some(option.to_owned())
}

/// The arguments without the values of switches. azurite-table also takes `--silent true` and `--silent=false`, and a
/// switch that is there is on.
pub fn without_values_of_switches(arguments: &[OsString]) -> Vec<OsString> {
    let mut left = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.iter().peekable();
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        let (name, value) = text
            .split_once('=')
            .map_or((text, None), |(name, value)| (name, Some(value)));
        if !SWITCHES.contains(&name) {
            left.push(argument.clone());
            continue;
        }
        left.push(name.into());
        let is_value = |next: &&OsString| !next.as_encoded_bytes().starts_with(b"-");
        if value.is_none() {
            arguments.next_if(is_value);
        }
    }
    left
}

/// Reads `account1:key1[:key2];account2:key1`. Problems repeat no key.
fn accounts_of(text: &str) -> Result<Vec<AccountSettings>, String> {
    let entries = text.trim().split(';').map(str::trim).filter(|entry| !entry.is_empty());
    let read = |entry: &str| {
        let mut parts = entry.split(':');
        let name = parts.next().unwrap_or_default().to_owned();
        let keys: Vec<_> = parts.map(Into::into).collect();
        match keys.len() {
            1 | 2 => Ok(AccountSettings {
                name,
                keys,
                ..AccountSettings::default()
            }),
            number => Err(format!(
                "an account has one or two keys, and one here has {number}: write account1:key1;account2:key1:key2"
            )),
        }
    };
    entries.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<(String, usize)>, String> {
        let accounts = accounts_of(text)?;
        Ok(accounts
            .into_iter()
            .map(|account| (account.name, account.keys.len()))
            .collect())
    }

    #[test]
    fn accounts_are_read_as_azurite_reads_them() {
        assert_eq!(names(""), Ok(vec![]));
        assert_eq!(
            names("one:a2V5;two:a2V5:a2V5;\n"),
            Ok(vec![("one".to_owned(), 1), ("two".to_owned(), 2)])
        );
        for text in ["one", "one:a2V5:a2V5:a2V5"] {
            let problem = names(text).unwrap_err();
            assert!(
                problem.contains("one or two keys") && !problem.contains("a2V5"),
                "{problem}"
            );
        }
    }

    #[test]
    fn its_options_are_taken_in_both_forms() {
        let line = "azurite-table -s -L --tableHost=0.0.0.0 --tablePort 0 --tableKeepAliveTimeout=5 --location /tmp/x --loose \
                    --skipApiVersionCheck --disableProductStyleUrl --disableTelemetry -d /tmp/log --cert c --key k";
        let settings = AzuriteTable::try_parse_from(line.split_whitespace())
            .unwrap()
            .settings()
            .unwrap();
        let gateway = settings.gateway;
        assert_eq!(gateway.listen.as_deref(), Some("0.0.0.0:0"));
        assert_eq!(settings.data, Some(PathBuf::from("/tmp/x/table-service-emulator")));
        assert_eq!(gateway.admin_listen.as_deref(), Some("127.0.0.1:0"));
        assert_eq!(gateway.header_timeout, Some(5));
        assert_eq!(gateway.expose_development_account, Some(true));
        assert!(gateway.tls_certificate.is_some() && gateway.tls_key.is_some());
        assert_eq!(gateway.log.as_deref(), Some("debug"));
        assert_eq!(settings.log_file, Some(PathBuf::from("/tmp/log")));
    }

    #[test]
    fn the_options_of_the_other_services_are_taken_too() {
        let line = "azurite --blobHost 0.0.0.0 --queueHost ::1 --tableHost 0.0.0.0 --blobPort 7777 --blobKeepAliveTimeout 5 \
                    --queueKeepAliveTimeout=5 --inMemoryPersistence --extentMemoryLimit 64 --oauth BASIC --skipApiVersionCheck -sL";
        let settings = Azurite::try_parse_from(line.split_whitespace())
            .unwrap()
            .settings()
            .unwrap();
        assert_eq!(
            settings.other_services,
            [
                (OtherService::Blob, "0.0.0.0:7777".to_owned()),
                (OtherService::Queue, "[::1]:10001".to_owned())
            ]
        );
        assert_eq!(settings.gateway.listen.as_deref(), Some("0.0.0.0:10002"));
        assert!(settings.unsigned_tokens && settings.data.is_none());
    }

    #[test]
    fn switches_may_have_values() {
        let line = "azurite-table -s true --loose=false --disableTelemetry true --location /tmp/x --skipApiVersionCheck -sL \
                    --tablePort=0";
        let line: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        let settings = AzuriteTable::try_parse_from(without_values_of_switches(&line)).unwrap();
        assert_eq!(settings.location, Some(PathBuf::from("/tmp/x")));
        let line = ["azurite-table", "--inMemoryPersistence", "true"].map(OsString::from);
        assert!(
            AzuriteTable::try_parse_from(without_values_of_switches(&line))
                .unwrap()
                .in_memory_persistence
        );
    }

    #[test]
    fn what_is_not_supported_is_said() {
        let problem = |arguments: &[&str]| {
            let all = [TABLE].iter().chain(arguments);
            match AzuriteTable::try_parse_from(all) {
                Ok(line) => line.settings().map(|_| ()).unwrap_err(),
                Err(error) => error.to_string(),
            }
        };
        for (arguments, expected) in [
            (&["--oauth", "full"][..], "[possible values: basic]"),
            (&["--oauth"], "a value is required"),
            (&["--pwd", "secret"], "no .pfx files here"),
            (&["--pwd=secret"], "no .pfx files here"),
            (&["--pwd"], "no .pfx files here"),
            (&["--blobPort", "1"], "unexpected argument '--blobPort'"),
            (&["--inMemoryPersistence", "--location", "/tmp"], "cannot be used with"),
            (&["--cert", "c"], "--cert and --key belong together"),
            (&["--cert", "c.pfx", "--pwd", "secret"], "no .pfx files here"),
        ] {
            let problem = problem(arguments);
            assert!(problem.contains(expected) && !problem.contains("secret"), "{problem}");
        }
    }
}
