//! Programs that are measured: their processor time and memory, as proc(5) has them.

use std::process::{Child, Command, Stdio};

use crate::Error;

/// The processor time that a process has used, in seconds.
pub fn processor_seconds(id: u32) -> Result<f64, Error> {
    /// The unit of these times, which Linux has fixed for programs.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(str::parse::<u32>).sum::<Result<u32, _>>()?;
    Ok(f64::from(ticks) / TICKS)
}

/// A program that ends with this.
pub struct Running(pub Child);

impl Running {
    /// Starts it without its output.
    pub fn start(command: &mut Command) -> Result<Running, Error> {
        Ok(Running(command.stdout(Stdio::null()).spawn()?))
    }

    /// The largest memory that it has had, in MiB.
    pub fn peak_memory(&self) -> Result<u64, Error> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.ok_or("the program has ended")?.parse::<u64>()? >> 10)
    }

    /// Its processor time, in seconds.
    pub fn processor_seconds(&self) -> Result<f64, Error> {
        processor_seconds(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
