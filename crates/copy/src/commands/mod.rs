//! The program: runs a command line from beginning to end.

use crate::failure::Failure;

mod archive;
mod arguments;
mod as_it_was;
mod bulk;
mod changes;
mod common;
mod copy;
mod definitions;
mod follow;
mod history;
mod interrupt;
mod policies;
mod restore;
mod rounds;
mod verify;

pub use arguments::CommandLine;
use arguments::{Command, VerifyArguments};

pub use crate::printable::tell;

/// Does it, and returns the exit status.
pub async fn run(command_line: CommandLine) -> Result<u8, Failure> {
    match command_line.command {
        Some(Command::Verify(VerifyArguments {
            ends,
            timestamps,
            max_differences,
        })) => verify::compare(&ends, None, timestamps, max_differences).await,
        Some(Command::Delete(arguments)) => bulk::delete(&arguments).await,
        Some(Command::Count(arguments)) => bulk::count(&arguments).await,
        Some(Command::Changes(arguments)) => changes::changes(&arguments).await,
        Some(Command::Archive(arguments)) => archive::archive(&arguments).await,
        Some(Command::Restore(arguments)) => restore::restore(&arguments).await,
        Some(Command::History(arguments)) => history::history(&arguments),
        None => copy::copy(&command_line.copy).await,
    }
}
