//! The program `table-service-emulator`.

use std::process::ExitCode;

use clap::Parser;
use table_service_emulator::command_line::{Command, CommandLine};
use table_service_emulator::{emulator, health, keeper};

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let result = match &command_line.command {
        None => emulator::run(&command_line),
        Some(Command::Healthcheck) => healthcheck(&command_line),
        Some(Command::Keep { directory }) => keeper::keep(directory),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("table-service-emulator: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn healthcheck(command_line: &CommandLine) -> Result<(), String> {
    let report = health::check(command_line.ports.admin()?)?;
    if !command_line.quiet {
        println!("{report}");
    }
    Ok(())
}
