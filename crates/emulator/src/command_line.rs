//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use table_service_gateway::config::Settings;

use crate::messages::Messages;
use crate::settings::{CommonOptions, EmulatorSettings};

/// Emulates the Azure Table service on this machine: UseDevelopmentStorage=true reaches it.
///
/// It starts a PostgreSQL server of its own, which only this program can reach. What it stores is gone when it ends, unless --data
/// names a directory. `POST /reset` on the admin port deletes all tables, unless there is --data.
#[derive(Debug, Parser)]
#[command(
    name = "table-service-emulator",
    version,
    after_help = "Examples:\n  \
                  table-service-emulator\n  \
                  table-service-emulator --data ./tables --port 20002\n  \
                  table-service-emulator azurite-table --tablePort 10002 --location ."
)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Option<Command>,

    #[command(flatten)]
    pub ports: Ports,

    /// Keep the tables in this directory, which is made if it does not exist
    #[arg(long, env = "TABLE_SERVICE_EMULATOR_DATA", value_name = "DIRECTORY")]
    pub data: Option<PathBuf>,

    /// Let other machines connect. The key of the development account is public: everybody who reaches the port can change the tables
    #[arg(long, env = "TABLE_SERVICE_EMULATOR_EXPOSE")]
    pub expose: bool,

    /// Print nothing but errors
    #[arg(long, short, env = "TABLE_SERVICE_EMULATOR_QUIET", global = true)]
    pub quiet: bool,

    #[command(flatten)]
    pub more: CommonOptions,
}

/// The ports of the emulator.
#[derive(Debug, Args)]
pub struct Ports {
    /// Where to listen for clients; 0 takes a free port
    #[arg(
        long,
        env = "TABLE_SERVICE_EMULATOR_PORT",
        value_name = "PORT",
        default_value_t = 10002,
        global = true
    )]
    pub port: u16,

    /// Where to listen for /live, /ready, /metrics, /reset and /faults; 0 takes a free port [default: the one after --port]
    #[arg(long, env = "TABLE_SERVICE_EMULATOR_ADMIN_PORT", value_name = "PORT", global = true)]
    admin_port: Option<u16>,
}

impl Ports {
    /// The port of the gateway for operators.
    ///
    /// # Errors
    /// If no port comes after that of clients.
    pub fn admin(&self) -> Result<u16, String> {
        match (self.admin_port, self.port) {
            (Some(port), _) => Ok(port),
            (None, 0) => Ok(0),
            (None, port) => port
                .checked_add(1)
                .ok_or_else(|| format!("no port comes after {port}: name one with --admin-port")),
        }
    }
}

/// The option that a setting of the gateway comes from.
fn option_of(setting: &str) -> Option<String> {
    let option = match setting {
        "listen" => "--port",
        "admin_listen" => "--admin-port",
        "explorer_address_file" => "--explorer-address-file",
        _ => return None,
    };
    Some(option.to_owned())
}

/// What the program does in place of an emulator, or as another one.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Succeed if the emulator on this machine with these ports is ready for clients
    #[command(after_help = "Examples:\n  \
                            table-service-emulator healthcheck\n  \
                            table-service-emulator healthcheck --port 20002")]
    Healthcheck,
    /// Take the options of azurite-table, print what it prints, and keep the tables as it does; --help behind it lists them
    AzuriteTable,
    /// The same under the options of azurite: its ports of blobs and queues answer that only tables are served
    Azurite,
    /// Waits for the end of an emulator and removes what it leaves
    #[command(hide = true)]
    CleanUp { directory: PathBuf },
}

impl CommandLine {
    /// Returns the settings that the arguments ask for.
    ///
    /// # Errors
    /// For options that do not go together.
    pub fn settings(self) -> Result<EmulatorSettings, String> {
        let host = if self.expose { "0.0.0.0" } else { "127.0.0.1" };
        Ok(EmulatorSettings {
            gateway: Settings {
                listen: Some(format!("{host}:{}", self.ports.port)),
                admin_listen: Some(format!("127.0.0.1:{}", self.ports.admin()?)),
                expose_development_account: Some(self.expose),
                log: Some("warn".to_owned()),
                ..Settings::default()
            },
            data: self.data,
            other_services: Vec::new(),
            unsigned_tokens: false,
            log_file: None,
            messages: if self.quiet { Messages::Quiet } else { Messages::Own },
            names: option_of,
            more: self.more,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::azurite::{Azurite, AzuriteTable};

    #[test]
    fn every_help_has_examples() {
        let own = CommandLine::command();
        let commands = [&own, &AzuriteTable::command(), &Azurite::command()];
        // The other commands have their own command line.
        let healthcheck = own
            .get_subcommands()
            .filter(|command| command.get_name() == "healthcheck");
        for command in commands.into_iter().chain(healthcheck) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.starts_with("Examples:\n") && help.lines().count() >= 3,
                "{}: {help}",
                command.get_name()
            );
        }
    }
}
