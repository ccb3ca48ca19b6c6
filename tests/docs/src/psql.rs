//! Runs psql as a reader does: one process for each session of a page.

use std::io::{BufRead, BufReader, Write, pipe};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A block that takes longer hangs, for example because of a missing closing quote.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A running psql.
pub struct Psql {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    blocks: usize,
}

/// The output of a block, and how it ended.
pub struct Printed {
    pub text: String,
    pub end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// psql waits for the next block.
    Ready,
    /// psql has ended: an error stopped it, or its server process ended.
    Gone,
    /// The time limit is over.
    Hangs,
}

impl Psql {
    /// `command` runs psql with the settings of a connection.
    pub fn start(mut command: Command) -> Psql {
        // One pipe for results and errors, so that they arrive in their order.
        let (reader, writer) = pipe().unwrap();
        let mut child = command
            .args(["--no-psqlrc", "--quiet", "--set=SHOW_CONTEXT=never"])
            .env("PGCLIENTENCODING", "UTF8")
            .env("PSQL_PAGER", "")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .spawn()
            .unwrap();
        // The command keeps the ends of the pipe that psql writes to.
        drop(command);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Psql {
            input: child.stdin.take().unwrap(),
            child,
            lines,
            blocks: 0,
        }
    }

    /// Runs a block. With `stop_at_errors` the first error ends psql.
    pub fn run(&mut self, sql: &str, stop_at_errors: bool) -> Printed {
        self.blocks += 1;
        let marker = format!("-- end of block {} --", self.blocks);
        let stop = if stop_at_errors { "on" } else { "off" };
        let script = format!("\\set ON_ERROR_STOP {stop}\n{sql}\n\\echo '{marker}'\n");
        // A psql that has ended reads no further.
        let _ = self.input.write_all(script.as_bytes());
        let mut text = String::new();
        let end = loop {
            match self.lines.recv_timeout(TIME_LIMIT) {
                Ok(line) if line == marker => break End::Ready,
                Ok(line) => {
                    text.push_str(&line);
                    text.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break End::Gone,
                Err(RecvTimeoutError::Timeout) => break End::Hangs,
            }
        };
        Printed { text, end }
    }
}

impl Drop for Psql {
    fn drop(&mut self) {
        // A psql that hangs would not notice the end of its input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
