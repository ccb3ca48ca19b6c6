//! Physical copies of a server, which follow it by streaming replication until they are promoted.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cluster::{Cluster, Keeper, as_server, directory_of_server};
use crate::failure::Failure;
use crate::session::{Session, connect};
use crate::wait_until;

/// A copy of a server, in a directory of its own, which also has its socket.
pub struct Standby {
    directory: PathBuf,
    port: u16,
    keeper: Option<Keeper>,
}

impl Standby {
    /// A running hot standby with these settings.
    pub fn of(primary: &Cluster, settings: &[&str]) -> Standby {
        Standby::following(primary.host(), primary.port(), settings)
    }

    /// A running hot standby of the server that has its socket in a directory.
    pub fn following(host: &str, port: u16, settings: &[&str]) -> Standby {
        let directory = directory_of_server();
        let path = directory.to_str().unwrap();
        let copied = as_server("pg_basebackup")
            .args(["-h", host, "-p", &port.to_string(), "-U", "postgres", "-D", path])
            .args(["--checkpoint=fast", "--write-recovery-conf", "--no-sync"])
            .output()
            .unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let stop = as_server("pg_ctl");
        let mut words = vec![stop.get_program()];
        words.extend(stop.get_args());
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        let arguments = [&words[1..], &["stop", "-s", "-m", "immediate", "-D", path]].concat();
        let standby = Standby {
            keeper: Some(Keeper::new(words[0], &arguments)),
            port,
            directory,
        };
        standby.set(&format!("unix_socket_directories = '{}'", standby.host()));
        standby.set("restart_after_crash = on");
        // The name by which it is known to its primary.
        standby.set(&format!(
            "cluster_name = 'standby{}'",
            standby.directory.extension().unwrap().to_str().unwrap()
        ));
        for setting in settings {
            standby.set(setting);
        }
        standby.start();
        standby
    }

    /// The directory of its socket.
    pub fn host(&self) -> &str {
        self.directory.to_str().unwrap()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The name by which its primary knows it, for `synchronous_standby_names`.
    pub fn name(&self) -> String {
        format!("standby{}", self.directory.extension().unwrap().to_str().unwrap())
    }

    /// Adds a line to its settings, for its next start or the next time it reads them.
    pub fn set(&self, line: &str) {
        let path = self.directory.join("postgresql.auto.conf");
        let old = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{old}{line}\n")).unwrap();
    }

    /// Waits until it has replayed all that its primary has written.
    pub fn catches_up(&self, primary: &Session) {
        // The position of the next insertion can stand behind the head of an empty page, where nothing is replayed yet.
        let written = primary.text("SELECT pg_current_wal_lsn()");
        let session = self.session();
        wait_until("the standby replays", || {
            session.text(&format!("SELECT pg_last_wal_replay_lsn() >= '{written}'")) == "t"
        });
    }

    pub fn start(&self) {
        let started = self.pg_ctl(&["start", "-w", "-t", "120", "-l", &format!("{}/log", self.host())]);
        assert!(started, "{}", self.log());
    }

    /// Stops it as `pg_ctl stop` does in this mode.
    pub fn stop(&self, mode: &str) {
        assert!(self.pg_ctl(&["stop", "-w", "-t", "120", "-m", mode]));
    }

    /// Makes it a primary.
    pub fn promote(&self) {
        assert!(self.pg_ctl(&["promote", "-w", "-t", "120"]));
    }

    /// Starts it again as a primary that nobody has promoted: its timeline is that of the server that it was copied from.
    pub fn runs_alone(&self) {
        self.stop("fast");
        fs::remove_file(self.directory.join("standby.signal")).unwrap();
        self.start();
    }

    /// Starts it again as a standby that follows nobody, and promotes that.
    pub fn promotes_itself(&self) {
        self.stop("fast");
        self.set("primary_conninfo = ''");
        fs::write(self.directory.join("standby.signal"), "").unwrap();
        self.start();
        self.promote();
    }

    /// Makes it follow another server.
    pub fn follow(&self, host: &str, port: u16) {
        self.set(&format!("primary_conninfo = 'host={host} port={port} user=postgres'"));
        assert!(self.pg_ctl(&["reload"]));
    }

    /// A session of a superuser in the database `postgres`.
    pub fn session(&self) -> Session {
        connect(self.host(), self.port, "postgres", "postgres", "standby").unwrap()
    }

    /// A session of a role in a database, if the server takes it.
    pub fn try_session(&self, database: &str, role: &str, name: &str) -> Result<Session, Failure> {
        connect(self.host(), self.port, database, role, name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    fn pg_ctl(&self, arguments: &[&str]) -> bool {
        let mut command: Command = as_server("pg_ctl");
        command.args(arguments).args(["-s", "-D", self.host()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap().success()
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        self.keeper.take();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
