//! The servers of a history, and what happens to them.

use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use system_tests::Cluster;
use system_tests::gateway::{Gateway, url};
use system_tests::random::Random;

use crate::history::Recorder;
use crate::workload::TABLE;

/// A PostgreSQL server with a table, and gateways.
pub struct Service {
    pub cluster: Cluster,
    gateways: Vec<Mutex<Option<Gateway>>>,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// All processes of PostgreSQL are killed; it starts again and recovers.
    KillPostgres,
    KillGateway,
    /// Some of PostgreSQL's processes stand still for a while.
    StopSessions,
    StopPostgres,
    StopGateway,
    /// PostgreSQL ends the sessions of clients and gateways.
    EndSessions,
    /// HTTP connections break while requests run.
    CutConnections,
}

impl Fault {
    const OTHERS: [Fault; 6] = [
        Fault::KillGateway,
        Fault::StopSessions,
        Fault::StopPostgres,
        Fault::StopGateway,
        Fault::EndSessions,
        Fault::CutConnections,
    ];

    /// The faults of a history, in the order in which they happen. PostgreSQL is killed in each.
    pub fn of_seed(random: &mut Random, count: usize) -> Vec<Fault> {
        let mut faults = Fault::OTHERS.to_vec();
        random.shuffle(&mut faults);
        faults.truncate(count.saturating_sub(1));
        faults.push(Fault::KillPostgres);
        random.shuffle(&mut faults);
        faults
    }
}

impl Service {
    /// # Panics
    /// If the servers do not start.
    pub fn start(settings: &[&str], gateways: usize) -> Service {
        // Processes may be killed in the middle of writing a page.
        let mut all = vec!["full_page_writes=on"];
        all.extend(settings);
        let cluster = Cluster::start(&all);
        // The set-up must survive a kill, whatever the settings are.
        let set_up = format!(
            "SET synchronous_commit = on; CREATE EXTENSION table_service; SELECT table_service.create_table('{TABLE}')"
        );
        cluster.session().run(&set_up);
        let service = Service {
            cluster,
            gateways: (0..gateways).map(|_| Mutex::new(None)).collect(),
        };
        for gateway in 0..gateways {
            service.start_gateway(gateway);
        }
        service
    }

    fn start_gateway(&self, number: usize) {
        let mut gateway = self.gateways[number].lock().unwrap();
        // The old one is killed first.
        drop(gateway.take());
        *gateway = Some(Gateway::start(&[
            "--database-url",
            &url(&self.cluster, "postgres", "postgres"),
        ]));
    }

    pub fn gateways(&self) -> usize {
        self.gateways.len()
    }

    /// A client of a gateway, unless that one is just being started.
    pub fn http(&self, gateway: usize) -> Option<raw_http::Client> {
        self.gateways[gateway].lock().unwrap().as_ref().map(Gateway::client)
    }

    /// Makes a fault happen. Returns when the servers run again.
    pub fn suffer(
        &self,
        fault: Fault,
        random: &mut Random,
        sockets: &[Mutex<Option<TcpStream>>],
        recorders: &[Recorder],
    ) {
        match fault {
            Fault::KillPostgres => {
                // It dies some time between the two.
                recorders.iter().for_each(Recorder::killed);
                self.cluster.crash();
                recorders.iter().for_each(Recorder::killed);
            }
            Fault::KillGateway => self.start_gateway(random.below(self.gateways.len())),
            Fault::StopSessions => {
                let mut sessions = self.sessions();
                random.shuffle(&mut sessions);
                sessions.truncate(2);
                stop(&sessions, random);
            }
            Fault::StopPostgres => stop(&self.sessions(), random),
            Fault::StopGateway => {
                let gateway = self.gateways[random.below(self.gateways.len())].lock().unwrap();
                let id = gateway.as_ref().map(Gateway::id);
                drop(gateway);
                stop(&id.iter().map(u32::to_string).collect::<Vec<_>>(), random);
            }
            Fault::EndSessions => {
                let end = format!("SELECT pg_terminate_backend(pid) {OF_CLIENTS} AND random() < 0.7");
                self.cluster.session().run(&end);
            }
            Fault::CutConnections => {
                for _ in 0..5 {
                    for socket in sockets {
                        if let Some(socket) = &*socket.lock().unwrap() {
                            let _ = socket.shutdown(Shutdown::Both);
                        }
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    /// The processes of the sessions of clients and gateways.
    fn sessions(&self) -> Vec<String> {
        let rows = self.cluster.session().run(&format!("SELECT pid {OF_CLIENTS}"));
        rows.into_iter().filter_map(|mut row| row.remove(0)).collect()
    }
}

const OF_CLIENTS: &str = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

/// Processes stand still for a while.
fn stop(processes: &[String], random: &mut Random) {
    let signal = |signal: &str| {
        if !processes.is_empty() {
            // Some may have ended in between.
            let _ = Command::new("kill").arg(signal).args(processes).output();
        }
    };
    signal("-STOP");
    std::thread::sleep(Duration::from_millis(50 + random.below(300) as u64));
    signal("-CONT");
}
