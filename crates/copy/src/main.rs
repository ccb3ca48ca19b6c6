//! The program `table-service-copy`.

use std::process::ExitCode;

use table_service_command_line::read;
use table_service_copy::commands::{self, CommandLine};

/// The arguments that never hold a secret: moments and durations.
const HARMLESS: [&str; 7] = ["at", "follow", "keep", "overlap", "retry-for", "since", "until"];

fn main() -> ExitCode {
    let command_line: CommandLine = read(std::env::args_os(), &HARMLESS).unwrap_or_else(|error| error.exit());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("table-service-copy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = match runtime.block_on(commands::run(command_line)) {
        Ok(code) => code,
        Err(failure) => {
            commands::tell(&format!("table-service-copy: {failure}"));
            failure.code
        }
    };
    // A thread that still reads a file does not keep the program.
    runtime.shutdown_background();
    ExitCode::from(code)
}
