//! The faults in the logs of servers and gateways.

use std::path::Path;

use crate::environment::Result;

/// Prints the lines of a file that contain one of these signs. Returns whether there are any.
pub fn show_lines(path: &Path, signs: &[&str]) -> Result<bool> {
    let content = fs_err::read(path)?;
    let mut found = false;
    for (number, line) in String::from_utf8_lossy(&content).lines().enumerate() {
        if signs.iter().any(|sign| line.contains(sign)) {
            println!("{}:{}:{line}", path.display(), number + 1);
            found = true;
        }
    }
    Ok(found)
}

/// Prints the lines of a server's log that are faults. Returns whether there are any. The last messages of a server that was killed
/// on purpose are none: its processes see the end of their server and may panic before their own. A line of the file `killed`,
/// which `cluster.sh` writes, has the first byte of these messages, and the first byte after them.
pub fn show_faults(log: &Path, killed: &Path) -> Result<bool> {
    let content = fs_err::read(log)?;
    let killed = fs_err::read_to_string(killed).unwrap_or_default();
    let faults = faults(&content, &killed);
    for fault in &faults {
        println!("{}:{fault}", log.display());
    }
    Ok(!faults.is_empty())
}

fn faults(log: &[u8], killed: &str) -> Vec<String> {
    let killed: Vec<(usize, usize)> = killed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)))
        .collect();
    let (mut begin, mut faults) = (0, Vec::new());
    for (number, bytes) in log.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(bytes);
        let is_fault = ["terminated by signal", " PANIC: ", "TRAP: "]
            .iter()
            .any(|sign| line.contains(sign));
        if is_fault && !killed.iter().any(|&(from, to)| (from..to).contains(&begin)) {
            faults.push(format!("{}:{}", number + 1, line.trim_end()));
        }
        begin += bytes.len();
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::faults;

    #[test]
    fn what_killed_processes_say_is_no_fault() {
        let log =
            "LOG: ready\nPID PANIC: first\nPID PANIC: of the killed\nprocess was terminated by signal 6\nTRAP: last\n";
        let lines = |killed: &str| -> Vec<String> {
            let faults = faults(log.as_bytes(), killed);
            let number = |fault: String| fault.split(':').next().unwrap_or_default().to_owned();
            faults.into_iter().map(number).collect()
        };
        assert_eq!(lines(""), ["2", "3", "4", "5"]);
        let first = "LOG: ready\nPID PANIC: first\n".len();
        let of_the_killed = format!("0 0\n{first} {}\n", first + "PID PANIC: of the killed\n".len());
        assert_eq!(lines(&of_the_killed), ["2", "4", "5"]);
        assert_eq!(lines(&format!("0 {}\n", log.len())), Vec::<String>::new());
    }
}
