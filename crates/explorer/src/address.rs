//! The address of the page. It has the token, so the operator gets it on the terminal or in a file that only its owner can read, and
//! no log has it.

use std::io::{IsTerminal, Write};
use std::path::Path;

use table_service_command_line::files;

/// Prints the address on standard output if that is a terminal. Returns whether it is one.
pub fn print(address: &str) -> bool {
    let mut out = std::io::stdout().lock();
    let is_terminal = out.is_terminal();
    if is_terminal {
        // The reader may have gone.
        let _ = writeln!(out, "explorer on {address}");
    }
    is_terminal
}

/// Writes the address to a file.
///
/// # Errors
/// If that cannot be done.
pub fn write(address: &str, path: &Path) -> Result<(), String> {
    let written = files::replace(path).and_then(|mut file| writeln!(file, "{address}"));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
