//! The program `table-service-emulator`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use table_service_emulator::azurite::{self, Azurite, AzuriteTable};
use table_service_emulator::command_line::{Command, CommandLine};
use table_service_emulator::{cleaner, emulator, health};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("table-service-emulator: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[OsString]) -> Result<(), String> {
    if let Some(arguments) = in_place_of(azurite::TABLE, arguments) {
        let arguments = azurite::without_values_of_switches(arguments);
        return emulator::run(read::<AzuriteTable>(arguments).settings()?);
    }
    if let Some(arguments) = in_place_of(azurite::ALL, arguments) {
        let arguments = azurite::without_values_of_switches(arguments);
        return emulator::run(read::<Azurite>(arguments).settings()?);
    }
    let command_line: CommandLine = read(arguments.to_vec());
    match &command_line.command {
        None => emulator::run(command_line.settings()?),
        Some(Command::Healthcheck) => healthcheck(&command_line),
        Some(Command::AzuriteTable) => Err(not_first(azurite::TABLE)),
        Some(Command::Azurite) => Err(not_first(azurite::ALL)),
        Some(Command::CleanUp { directory }) => cleaner::clean_up(directory),
    }
}

/// The arguments of the program. Ends it if they are wrong, or ask for help.
fn read<C: Parser>(arguments: Vec<OsString>) -> C {
    table_service_command_line::read_with_values(arguments).unwrap_or_else(|error| error.exit())
}

/// The arguments of another program, if this one was started under its name, or with it first.
fn in_place_of<'a>(other: &str, arguments: &'a [OsString]) -> Option<&'a [OsString]> {
    let (program, behind) = arguments.split_first()?;
    if Path::new(program).file_name().is_some_and(|name| name == other) {
        return Some(arguments);
    }
    behind.first().is_some_and(|first| first == other).then_some(behind)
}

fn not_first(command: &str) -> String {
    format!("{command} has options of its own: write it first")
}

fn healthcheck(command_line: &CommandLine) -> Result<(), String> {
    let report = health::check(command_line.ports.admin()?)?;
    if !command_line.quiet {
        println!("{report}");
    }
    Ok(())
}
