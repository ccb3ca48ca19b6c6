//! Where the operator gets the address of the page: on the terminal, or in a file that only they can read. It has the token, so it
//! is in no log.

use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Prints the address on standard output if that is a terminal. Returns whether it is one.
pub fn print(address: &str) -> bool {
    let mut out = std::io::stdout().lock();
    let is_terminal = out.is_terminal();
    if is_terminal {
        // Whoever reads this may stop reading.
        let _ = writeln!(out, "explorer on {address}");
    }
    is_terminal
}

/// Writes the address to a file.
///
/// # Errors
/// If that cannot be done.
pub fn write(address: &str, path: &Path) -> Result<(), String> {
    create(address, path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Always a new file, so that nobody else has it open. What is no file, such as `/dev/null` or `/dev/stdout`, is not removed for it.
fn create(address: &str, path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => std::fs::remove_file(path)?,
        Ok(_) => return Err(std::io::Error::other("it is there and is no file")),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{address}")
}
