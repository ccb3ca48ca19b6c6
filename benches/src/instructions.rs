//! The instructions of a server process, which are the same in each run, also on a busy machine.

use std::fs;
use std::path::PathBuf;

use tokio_postgres::Client;

use crate::Error;

/// Counts the instructions of a process of a server under callgrind, which writes them to a file after each statement.
pub struct Instructions {
    directory: PathBuf,
    /// The beginning of the names of the process's files.
    prefix: String,
}

impl Instructions {
    /// Of the process that serves this client. callgrind writes to this directory.
    pub async fn of(client: &Client, directory: PathBuf) -> Result<Instructions, Error> {
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
        let prefix = format!("callgrind.{pid}.");
        Ok(Instructions { directory, prefix })
    }

    /// How many since the last call.
    ///
    /// # Errors
    /// The files cannot be read, or have another form.
    pub fn since_last_call(&self) -> Result<u64, Error> {
        let mut instructions = 0;
        for file in fs::read_dir(&self.directory)? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with(&self.prefix) {
                instructions += total(&fs::read(file.path())?).ok_or("a file of callgrind without its total")?;
                fs::remove_file(file.path())?;
            }
        }
        Ok(instructions)
    }
}

/// Returns the instructions in a file of callgrind.
fn total(file: &[u8]) -> Option<u64> {
    let line = file
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"totals: "))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}
