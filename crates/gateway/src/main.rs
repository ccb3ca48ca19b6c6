//! The program `table-service-gateway`.

use std::process::ExitCode;

use table_service_command_line::read;
use table_service_gateway::config::{CommandLine, ConfigError};
use table_service_gateway::server::run;

/// The exit status for wrong settings, as for a wrong command line. The service manager does not start the program again then.
const WRONG_SETTINGS: u8 = 2;

fn main() -> ExitCode {
    let command_line: CommandLine = read(std::env::args_os(), &[]).unwrap_or_else(|error| error.exit());
    let run = || -> Result<(), Box<dyn std::error::Error>> {
        let config = command_line.config()?;
        run::start_log(&config)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(run::run(config, None, |listening| {
            println!(
                "listening on {}://{}, admin on http://{}",
                listening.scheme, listening.clients, listening.admin
            );
            if let Some(address) = &listening.explorer
                && !table_service_explorer::print(address)
            {
                tracing::warn!(
                    "the explorer's address has a secret, and standard output is no terminal: \
                     name a file for it with --explorer-address-file"
                );
            }
        }))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("table-service-gateway: {error}");
            match error.downcast_ref::<ConfigError>() {
                Some(error) if !error.may_pass => WRONG_SETTINGS.into(),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
