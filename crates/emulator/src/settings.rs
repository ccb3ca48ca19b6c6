//! The settings of an emulator. Each of its command lines makes them.

use std::path::PathBuf;

use clap::Args;
use table_service_gateway::config::{ConfigError, ExplorerMode, Settings};

use crate::faults::FaultSettings;
use crate::messages::Messages;
use crate::other_services::OtherService;

/// The settings of an emulator.
#[derive(Debug)]
pub struct EmulatorSettings {
    /// The settings of the gateway. Its accounts have no databases yet; without accounts the development account is served.
    pub gateway: Settings,
    /// The directory that keeps the tables; without it they are gone at the end.
    pub data: Option<PathBuf>,
    /// HOST:PORT of services that are not here, which refuse requests.
    pub other_services: Vec<(OtherService, String)>,
    /// Whether unsigned bearer tokens are accepted.
    pub unsigned_tokens: bool,
    /// A file for the log instead of standard error.
    pub log_file: Option<PathBuf>,
    pub messages: Messages,
    /// The name that users of this command line know for a setting of the gateway.
    pub names: fn(&str) -> Option<String>,
    pub more: CommonOptions,
}

/// Returns the problem of a setting of the gateway, under the name of its option.
pub fn under_name_of_option(names: fn(&str) -> Option<String>, error: &ConfigError) -> String {
    match names(&error.setting) {
        Some(name) => format!("{name}: {}", error.problem),
        None => error.to_string(),
    }
}

/// Options that both command lines have.
#[derive(Debug, Args)]
pub struct CommonOptions {
    /// The directory of PostgreSQL's programs [default: those that came with this program, else the latest in /usr/lib/postgresql
    /// that has the extension]
    #[arg(long, env = "TABLE_SERVICE_EMULATOR_POSTGRES", value_name = "DIRECTORY")]
    pub postgres: Option<PathBuf>,

    /// End when this process ends, however it does
    #[arg(long, env = "TABLE_SERVICE_EMULATOR_PARENT", value_name = "PID")]
    pub parent: Option<u32>,

    /// Whether /explorer on the admin port shows the tables, and may change them
    #[arg(
        long,
        env = "TABLE_SERVICE_EMULATOR_EXPLORER",
        value_name = "MODE",
        value_enum,
        default_value_t = ExplorerMode::Write
    )]
    pub explorer: ExplorerMode,

    /// A file for the address of the explorer, which has a secret: only its owner can read it [default: it is printed on a terminal]
    #[arg(long, env = "TABLE_SERVICE_EMULATOR_EXPLORER_ADDRESS_FILE", value_name = "FILE")]
    pub explorer_address_file: Option<PathBuf>,

    /// A name, beside local ones, by which requests may call the emulator while it serves the development account; repeat it for several.
    /// Addresses, localhost, names without a dot, and those that end with .localhost, .internal, .local, .test, .lan or .home.arpa always may
    #[arg(
        long = "allowed-host",
        env = "TABLE_SERVICE_EMULATOR_ALLOWED_HOSTS",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub allowed_hosts: Vec<String>,

    #[command(flatten)]
    pub faults: FaultSettings,
}
