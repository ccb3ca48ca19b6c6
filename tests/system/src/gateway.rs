//! Gateways as programs that run beside a test.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use raw_http::{Answer, Client, raw};

use crate::cluster::{Cluster, free_directory};
use crate::log::Log;

/// A gateway that runs until it is dropped.
pub struct Gateway {
    child: Child,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    log: Log,
}

/// The URL of a database on the server of the tests.
pub fn url(cluster: &Cluster, database: &str, role: &str) -> String {
    socket_url(&[(cluster.host(), cluster.port())], database, role)
}

/// The URL of a database on servers with their sockets in these directories.
pub fn socket_url(servers: &[(&str, u16)], database: &str, role: &str) -> String {
    let hosts: Vec<String> = servers
        .iter()
        .map(|(directory, port)| format!("{}:{port}", directory.replace('/', "%2F")))
        .collect();
    format!("postgresql://{role}@{}/{database}", hosts.join(","))
}

/// The program with these arguments, and nothing of the environment. It must have been built.
pub fn program(arguments: &[&str]) -> Command {
    program_by(&[], arguments)
}

/// The same, which another program with its arguments starts.
fn program_by(starter: &[&str], arguments: &[&str]) -> Command {
    // Cargo puts it beside the directory of the tests' binaries.
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().and_then(Path::parent).unwrap();
    let gateway = directory.join("table-service-gateway");
    let mut command = match starter {
        [] => Command::new(gateway),
        [starter, own @ ..] => {
            let mut command = Command::new(starter);
            command.args(own).arg(gateway);
            command
        }
    };
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TABLE_SERVICE_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Gateway {
    /// A gateway with these arguments, on ports that are free.
    pub fn start(arguments: &[&str]) -> Gateway {
        Gateway::start_on("127.0.0.1:0", arguments)
    }

    pub fn start_on(listen: &str, arguments: &[&str]) -> Gateway {
        Gateway::start_by(&[], listen, arguments)
    }

    /// A gateway for which this is `/etc/hosts`. `None` where that cannot be, which is said: it needs a mount namespace.
    pub fn start_with_hosts(hosts: &str, arguments: &[&str]) -> Option<Gateway> {
        let file = free_directory();
        std::fs::write(&file, hosts).unwrap();
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        let mut starter = vec!["unshare", "--mount"];
        // This user is root there, if the system allows it.
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            starter.push("--map-root-user");
        }
        starter.extend(["sh", "-c", script, file.to_str().unwrap()]);
        let tried = Command::new(starter[0]).args(&starter[1..]).arg("true").output();
        let gateway = match tried {
            Ok(output) if output.status.success() => Some(Gateway::start_by(&starter, "127.0.0.1:0", arguments)),
            _ => {
                println!("This user cannot have an /etc/hosts of its own.");
                None
            }
        };
        std::fs::remove_file(file).unwrap();
        gateway
    }

    /// A gateway that another program with its arguments starts, such as `env`.
    pub fn start_by(starter: &[&str], listen: &str, arguments: &[&str]) -> Gateway {
        let mut all = vec!["--listen", listen];
        for (flag, usual) in [("--admin-listen", "127.0.0.1:0"), ("--log", "debug")] {
            if !arguments.contains(&flag) {
                all.extend([flag, usual]);
            }
        }
        all.extend(arguments);
        let mut child = program_by(starter, &all).spawn().unwrap();
        let log = Log::of(child.stderr.take().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let addresses: Vec<SocketAddr> = line
            .split("://")
            .skip(1)
            .map(|rest| rest.split([',', '\n']).next().unwrap().parse().unwrap())
            .collect();
        let [address, admin] = addresses[..] else {
            panic!("it does not start: {line}{}", log.text());
        };
        Gateway {
            child,
            address,
            admin,
            log,
        }
    }

    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// The answer of the admin port.
    pub fn admin(&self, path: &str) -> Answer {
        Client::new(self.admin).exchange(&raw("GET", path, &[("Host", &self.admin.to_string())], b""))
    }

    /// A counter or gauge of /metrics: the one with a line that begins with this.
    pub fn metric(&self, begin: &str) -> Option<f64> {
        let answer = self.admin("/metrics").expect(200);
        let line = answer.text().lines().find(|line| line.starts_with(begin))?.to_owned();
        line.rsplit_once(' ').unwrap().1.parse().ok()
    }

    /// The bytes of memory that it has now, and the most that it has had.
    pub fn memory(&self) -> f64 {
        self.status("VmRSS:")
    }

    pub fn most_memory(&self) -> f64 {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024.0
    }

    /// The log as far as it has been read: a line may come later than its event.
    pub fn log(&self) -> String {
        self.log.text()
    }

    pub fn waits_for_log(&self, text: &str) {
        self.log.waits_for(text);
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(kill.success());
    }

    /// How it ended.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(20).collect();
            for line in tail.iter().rev() {
                eprintln!("{line}");
            }
        }
    }
}
