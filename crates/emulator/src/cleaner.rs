//! The cleaner: a process that outlives the emulator, however that ends, and cleans up after it.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::run_directory;

/// A running cleaner, as the emulator sees it.
pub struct Cleaner(Child);

impl Cleaner {
    /// Starts the cleaner of a directory.
    pub fn start(directory: &Path) -> Result<Cleaner, String> {
        let program = std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
        // In a process group of its own, no Ctrl-C reaches it. Under the name of azurite-table, the program would take other arguments.
        let child = Command::new(program)
            .arg0("table-service-emulator")
            .arg("clean-up")
            .arg(directory)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        child
            .map(Cleaner)
            .map_err(|error| format!("the cleaner does not start: {error}"))
    }

    /// Lets it clean up, and waits for that. The lock of the directory must be free.
    pub fn clean(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Waits for the end of the emulator, which ends the standard input, and cleans up.
pub fn clean_up(directory: &Path) -> Result<(), String> {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    run_directory::remove_when_left(directory)
}
