//! The process that the emulator ends with.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open};

/// Sends this process SIGTERM when that one is gone, however it ends.
///
/// # Errors
/// If there is no such process.
pub fn watch(process: u32) -> Result<(), String> {
    let missing = || format!("--parent: there is no process {process}");
    let pid = i32::try_from(process)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(missing)?;
    // Another process never gets this handle, as it may get the number.
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => missing(),
        error => format!("--parent {process}: {error}"),
    })?;
    std::thread::spawn(move || {
        // It can be read when the process has ended.
        while poll(&mut [PollFd::new(&handle, PollFlags::IN)], None) == Err(Errno::INTR) {}
        let _ = kill_process(getpid(), Signal::TERM);
    });
    Ok(())
}
