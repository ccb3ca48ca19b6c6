//! Programs that run beside the tests.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};
use fs_err::File;

use crate::environment::{Environment, Result, text};

/// A program that ends when this is dropped.
pub struct Background {
    child: Child,
    output: PathBuf,
    log: PathBuf,
}

impl Background {
    /// Starts a program in a directory, with its output in `NAME.out` and its errors in `NAME.log`.
    pub fn start(command: &mut Command, directory: &Path, name: &str) -> Result<Background> {
        let file = |ending: &str| directory.join(format!("{name}.{ending}"));
        let (output, log) = (file("out"), file("log"));
        // The cleaner of temporary servers ends programs that are left over in the directory of a test.
        command
            .current_dir(directory)
            .stdout(File::create(&output)?.into_file())
            .stderr(File::create(&log)?.into_file());
        let child = command.spawn().with_context(|| name.to_owned())?;
        Ok(Background { child, output, log })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until something is true, for example until a program listens.
    ///
    /// # Errors
    /// The program has ended, or half a minute has passed.
    pub fn wait_until<T>(&mut self, mut seen: impl FnMut() -> Option<T>) -> Result<T> {
        for _ in 0..300 {
            if let Some(seen) = seen() {
                return Ok(seen);
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            sleep(Duration::from_millis(100));
        }
        let said = fs_err::read_to_string(&self.log).unwrap_or_default();
        bail!("{said}{} does not start", self.log.display())
    }

    /// Waits until it has printed a line that begins so, and returns the rest of that line.
    pub fn wait_for_line(&mut self, begin: &str) -> Result<String> {
        let output = self.output.clone();
        self.wait_until(|| {
            let printed = fs_err::read_to_string(&output).ok()?;
            let (lines, _) = printed.rsplit_once('\n')?;
            Some(lines.lines().find_map(|line| line.strip_prefix(begin))?.to_owned())
        })
    }
}

/// The command line of a gateway for the nodes of a database, on free ports.
pub fn command_line_of_gateway(database_urls: &[String]) -> Vec<&str> {
    let mut words = vec!["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    words.extend(database_urls.iter().flat_map(|url| ["--database-url", url]));
    words
}

/// Starts a gateway, and waits until it listens. Returns it with its address: host and port.
pub fn start_gateway(command: &mut Command, directory: &Path, name: &str) -> Result<(Background, String)> {
    let mut gateway = Background::start(command, directory, name)?;
    let listens = gateway.wait_for_line("listening on ")?;
    let address = listens.split(',').next().unwrap_or_default();
    let address = address.rsplit('/').next().unwrap_or_default().to_owned();
    Ok((gateway, address))
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = text(Command::new("kill").arg(self.child.id().to_string()));
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of 127.0.0.1 that nobody uses, below the range that the kernel hands out.
pub fn free_port() -> Result<u16> {
    let first = u16::try_from(std::process::id() % 10_000).unwrap_or_default();
    (20_000 + first..32_000)
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .context("no port of 127.0.0.1 is free")
}

/// A new secret of 64 bytes, in Base64.
pub fn new_key(environment: &Environment) -> Result<String> {
    text(
        environment
            .command("sh")
            .args(["-c", "head -c 64 /dev/urandom | base64 -w 0"]),
    )
}
