//! The keeper: a process that outlives the emulator, however that ends, and cleans up after it.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::place;

/// A running keeper, as the emulator sees it.
pub struct Keeper(Child);

impl Keeper {
    /// # Errors
    /// If this program cannot be run again.
    pub fn start(directory: &Path) -> Result<Keeper, String> {
        let program = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
        // In a process group of its own, no Ctrl-C reaches it.
        let child = Command::new(program)
            .arg("keep")
            .arg(directory)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        child
            .map(Keeper)
            .map_err(|error| format!("the keeper does not start: {error}"))
    }

    /// Lets it clean up, and waits for that. The lock of the directory must be free.
    pub fn clean(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What the keeper does. Its standard input ends when the emulator does.
///
/// # Errors
/// If it cannot wait for the emulator.
pub fn keep(directory: &Path) -> Result<(), String> {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    place::remove_when_left(directory)
}
