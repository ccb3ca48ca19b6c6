//! The servers of a history, and their faults.

use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::{Mutex, OnceLock, RwLock};
use std::time::Duration;

use system_tests::gateway::{Gateway, socket_url, url};
use system_tests::random::Random;
use system_tests::{Cluster, Failure, Session, Standby, wait_until};

use crate::history::Recorder;
use crate::model::VERSION;
use crate::workload::{BLOCK, TABLE};

/// A database with a table, and gateways.
pub struct Service {
    /// The server with the table; on Citus the coordinator.
    pub cluster: Cluster,
    /// Workers of Citus, which have the data.
    workers: Vec<Cluster>,
    /// The servers to which clients with SQL connect, by their numbers. One that has left the cluster answers wrongly.
    members: RwLock<Vec<usize>>,
    /// Synchronous standbys of the server, and which of them was promoted.
    standbys: Vec<Standby>,
    promoted: OnceLock<usize>,
    /// The database, and the role that uses it.
    database: &'static str,
    role: &'static str,
    gateways: Vec<Mutex<Option<Gateway>>>,
}

/// The faults that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// All processes of PostgreSQL are killed, on Citus those of one server; it starts again and recovers.
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
    /// A shard moves from one worker of Citus to another.
    MoveShard,
    /// A shard is split in two, on any of the workers.
    SplitShard,
    /// Citus moves shards until all workers have as many.
    Rebalance,
    /// A worker leaves the cluster of Citus as the guide says, and joins it again.
    LeaveAndJoin,
    /// The tables become those of the coordinator, and are distributed again.
    OneServer,
    /// Another table, and an index of this one, come and go.
    Define,
    /// All processes of PostgreSQL are killed, and a standby is promoted. The gateways find it.
    Promote,
}

impl Fault {
    const OTHERS: [Fault; 7] = [
        Fault::KillGateway,
        Fault::StopSessions,
        Fault::StopPostgres,
        Fault::StopGateway,
        Fault::EndSessions,
        Fault::CutConnections,
        Fault::Define,
    ];

    /// Those that do not ask which server is the primary.
    const BESIDE_A_PROMOTION: [Fault; 3] = [Fault::KillGateway, Fault::StopGateway, Fault::CutConnections];

    /// The faults of a history, in the order in which they happen. PostgreSQL is killed in each. On Citus a shard also
    /// moves, another one is split or all are rebalanced, members leave, and something is defined. With standbys one of them is promoted.
    pub fn of_seed(random: &mut Random, count: usize, service: &Service) -> Vec<Fault> {
        let mut faults = match service.standbys.is_empty() {
            true => Fault::OTHERS.to_vec(),
            false => Fault::BESIDE_A_PROMOTION.to_vec(),
        };
        random.shuffle(&mut faults);
        let mut always = match (service.is_distributed(), service.standbys.is_empty()) {
            (true, _) => {
                let shards = *random.pick(&[Fault::SplitShard, Fault::Rebalance]);
                let members = *random.pick(&[Fault::LeaveAndJoin, Fault::OneServer]);
                vec![Fault::KillPostgres, Fault::MoveShard, shards, members, Fault::Define]
            }
            (false, true) => vec![Fault::KillPostgres],
            (false, false) => vec![Fault::Promote],
        };
        faults.truncate(count.saturating_sub(always.len()).max(1));
        faults.append(&mut always);
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
        cluster.session().run("CREATE EXTENSION table_service");
        Service::of(cluster, Vec::new(), "postgres", "postgres", gateways)
    }

    /// The same with two synchronous standbys.
    ///
    /// # Panics
    /// If the servers do not start.
    pub fn with_standbys(gateways: usize) -> Service {
        // The checkpoint for the second standby must leave the log that the first one has not asked for yet.
        let cluster = Cluster::start(&["full_page_writes=on", "wal_keep_size=1GB"]);
        let session = cluster.session();
        session.run("CREATE EXTENSION table_service");
        let standbys = vec![Standby::of(&cluster, &[]), Standby::of(&cluster, &[])];
        session.run("ALTER SYSTEM SET synchronous_standby_names = 'ANY 2 (*)'");
        session.run("SELECT pg_reload_conf()");
        wait_until("both are synchronous", || {
            session.text("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'") == "2"
        });
        drop(session);
        Service::of_all(cluster, Vec::new(), standbys, "postgres", "postgres", gateways)
    }

    /// Servers that run, with the extension; `workers` of Citus.
    ///
    /// # Panics
    /// If the gateways do not start.
    pub fn of(
        cluster: Cluster,
        workers: Vec<Cluster>,
        database: &'static str,
        role: &'static str,
        gateways: usize,
    ) -> Service {
        Service::of_all(cluster, workers, Vec::new(), database, role, gateways)
    }

    fn of_all(
        cluster: Cluster,
        workers: Vec<Cluster>,
        standbys: Vec<Standby>,
        database: &'static str,
        role: &'static str,
        gateways: usize,
    ) -> Service {
        let session = cluster.try_session(database, role, "set-up").unwrap();
        // It must survive a kill, whatever the settings are.
        session.run(&format!(
            "SET synchronous_commit = on; SELECT table_service.create_table('{TABLE}')"
        ));
        let service = Service {
            cluster,
            members: RwLock::new((0..=workers.len()).collect()),
            workers,
            standbys,
            promoted: OnceLock::new(),
            database,
            role,
            gateways: (0..gateways).map(|_| Mutex::new(None)).collect(),
        };
        for gateway in 0..gateways {
            service.start_gateway(gateway);
        }
        service
    }

    /// Lets entities expire, long after the test. So all reads and writes are those of a table with an expiry, and the gateways
    /// sweep it.
    pub fn set_expiry(&self) {
        let session = self.cluster.try_session(self.database, self.role, "set-up").unwrap();
        session.run(&format!(
            "SET synchronous_commit = on; SELECT table_service.set_expiry('{TABLE}', 'ExpiresAt', '30 days')"
        ));
    }

    pub fn is_distributed(&self) -> bool {
        !self.workers.is_empty()
    }

    /// All servers.
    fn nodes(&self) -> Vec<&Cluster> {
        std::iter::once(&self.cluster).chain(&self.workers).collect()
    }

    /// A session of a client, on one of the servers.
    pub fn try_session(&self, client: usize) -> Result<Session, Failure> {
        if let Some(promoted) = self.promoted.get() {
            return self.standbys[*promoted].try_session(self.database, self.role, "history");
        }
        let members = self.members.read().unwrap();
        self.nodes()[members[client % members.len()]].try_session(self.database, self.role, "history")
    }

    fn start_gateway(&self, number: usize) {
        let mut gateway = self.gateways[number].lock().unwrap();
        // The old one is killed first.
        drop(gateway.take());
        let mut arguments = Vec::new();
        let urls = match self.standbys.as_slice() {
            [] => self
                .nodes()
                .iter()
                .map(|node| url(node, self.database, self.role))
                .collect(),
            standbys => {
                let mut hosts = vec![(self.cluster.host(), self.cluster.port())];
                hosts.extend(standbys.iter().map(|standby| (standby.host(), standby.port())));
                vec![socket_url(&hosts, self.database, self.role)]
            }
        };
        for url in urls {
            arguments.extend(["--database-url".to_owned(), url]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        *gateway = Some(Gateway::start(&arguments));
    }

    pub fn gateways(&self) -> usize {
        self.gateways.len()
    }

    /// A client of a gateway, unless that one is just being started.
    pub fn http(&self, gateway: usize) -> Option<raw_http::Client> {
        self.gateways[gateway].lock().unwrap().as_ref().map(Gateway::client)
    }

    /// The writes that shared a transaction, since each gateway was started last.
    pub fn grouped_writes(&self) -> f64 {
        let counts = self.gateways.iter().map(|gateway| {
            let gateway = gateway.lock().unwrap();
            gateway.as_ref()?.metric("table_service_grouped_writes_total{")
        });
        counts.flatten().sum()
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
                self.nodes()[random.below(1 + self.workers.len())].crash();
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
                for node in self.nodes() {
                    node.session().run(&end);
                }
            }
            Fault::MoveShard => self.move_shard(random),
            Fault::SplitShard => self.split_shard(random),
            Fault::Rebalance => self.rebalance(random),
            Fault::LeaveAndJoin => self.leave_and_join(1 + random.below(self.workers.len())),
            Fault::OneServer => self.be_one_server(),
            Fault::Define => self.define(),
            Fault::Promote => {
                recorders.iter().for_each(Recorder::killed);
                self.cluster.kill();
                recorders.iter().for_each(Recorder::killed);
                // The other one could not follow one that has received less.
                let received = |standby: &Standby| -> u64 {
                    let text = standby.session().text("SELECT pg_last_wal_receive_lsn() - '0/0'");
                    text.parse().unwrap()
                };
                let numbers = 0..self.standbys.len();
                let furthest = numbers.max_by_key(|number| received(&self.standbys[*number])).unwrap();
                self.standbys[furthest].promote();
                self.promoted.set(furthest).unwrap();
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

    /// Keeps new log in PostgreSQL's memory, until PostgreSQL is killed.
    ///
    /// # Panics
    /// If there is no process that writes it.
    pub fn stop_wal_writer(&self) {
        self.stop_processes("walwriter");
    }

    /// Lets the server acknowledge writes that its standbys never get.
    ///
    /// # Panics
    /// If there is no process that sends it.
    pub fn stop_replication(&self) {
        let session = self.cluster.session();
        session.run("ALTER SYSTEM SET synchronous_standby_names = ''");
        session.run("SELECT pg_reload_conf()");
        self.stop_processes("walsender");
    }

    /// Lets processes of the server of one kind stand still.
    fn stop_processes(&self, kind: &str) {
        let mut processes = Vec::new();
        wait_until("there is such a process", || {
            let sql = format!("SELECT pid FROM pg_stat_activity WHERE backend_type = '{kind}'");
            let rows = self.cluster.session().run(&sql);
            processes = rows.into_iter().filter_map(|mut row| row.remove(0)).collect();
            !processes.is_empty()
        });
        let stopped = Command::new("kill").arg("-STOP").args(&processes).status().unwrap();
        assert!(stopped.success());
    }

    /// The processes of the sessions of clients and gateways.
    fn sessions(&self) -> Vec<String> {
        let of = |node: &Cluster| node.session().run(&format!("SELECT pid {OF_CLIENTS}"));
        let rows = self.nodes().into_iter().flat_map(of);
        rows.filter_map(|mut row| row.remove(0)).collect()
    }

    /// Moves one shard of the table to another worker.
    fn move_shard(&self, random: &mut Random) {
        let mode = *random.pick(&MODES);
        self.change_shards("a shard moves", || {
            format!(
                "SELECT citus_move_shard_placement(s.shardid, s.nodename, s.nodeport, n.nodename, n.nodeport, '{mode}')
                 FROM {SHARDS} JOIN pg_dist_node AS n ON n.shouldhaveshards AND n.nodeport IN ({}) AND n.nodeport <> s.nodeport
                 ORDER BY random() LIMIT 1",
                self.ports_of_workers()
            )
        });
    }

    fn split_shard(&self, random: &mut Random) {
        let mode = *random.pick(&MODES);
        self.change_shards("a shard is split", || {
            format!(
                "SELECT citus_split_shard_by_split_points(s.shardid, ARRAY[((h.shardminvalue::bigint + h.shardmaxvalue::bigint) / 2)::text],
                   (SELECT array_agg(n.nodeid) FROM (
                     SELECT nodeid FROM pg_dist_node, generate_series(1, 2) WHERE nodeport IN ({}) ORDER BY random() LIMIT 2) AS n), '{mode}')
                 FROM {SHARDS} JOIN pg_dist_shard AS h USING (shardid) ORDER BY random() LIMIT 1",
                self.ports_of_workers()
            )
        });
    }

    fn rebalance(&self, random: &mut Random) {
        let mode = *random.pick(&MODES);
        self.change_shards("shards are rebalanced", || {
            format!("SELECT rebalance_table_shards('table_service_data.\"{TABLE}\"', shard_transfer_mode => '{mode}')")
        });
    }

    /// Lets a worker leave, in the order of the guide, and join again.
    fn leave_and_join(&self, number: usize) {
        let address = format!("'127.0.0.1', {}", self.nodes()[number].port());
        self.let_clients_use(&|node| node != number);
        self.change_shards("a server is drained", || format!("SELECT citus_drain_node({address})"));
        wait_until("shards that have moved are dropped", || {
            let session = self.cluster.try_session(self.database, "postgres", "move").unwrap();
            let dropped = session.sql("CALL citus_cleanup_orphaned_resources()");
            dropped.is_ok() && session.text("SELECT count(*) FROM pg_dist_cleanup") == "0"
        });
        self.change_shards("a server leaves", || format!("SELECT citus_remove_node({address})"));
        self.wait_for_gateways(1);
        // With catalogs as they were, the server that has left would write shards that are elsewhere.
        self.change_shards("a server joins", || format!("SELECT citus_add_node({address})"));
        self.rebalance(&mut Random::new(number as u64));
        self.wait_for_gateways(0);
        self.let_clients_use(&|_| true);
    }

    fn be_one_server(&self) {
        self.let_clients_use(&|node| node == 0);
        // Another suite may have distributed the tables as a superuser.
        let own = || format!("ALTER TABLE table_service.citus_anchor OWNER TO {}", self.role);
        self.change_shards("the role owns all tables", own);
        self.until_it_succeeds(self.role, "tables become local", || {
            "SELECT table_service.disable_citus()".to_owned()
        });
        self.wait_for_gateways(self.workers.len());
        self.until_it_succeeds(self.role, "tables are distributed", || {
            "SELECT table_service.enable_citus(8)".to_owned()
        });
        self.wait_for_gateways(0);
        self.let_clients_use(&|_| true);
    }

    fn define(&self) {
        for call in [
            "create_table('Beside', if_not_exists => true)".to_owned(),
            format!("create_property_index('{TABLE}', '{VERSION}', if_not_exists => true)"),
            format!("drop_property_index('{TABLE}', '{VERSION}', if_exists => true)"),
            "delete_table('Beside', if_exists => true)".to_owned(),
        ] {
            self.until_it_succeeds(self.role, &call, || format!("SELECT table_service.{call}"));
        }
    }

    /// Ends the sessions of clients with SQL on all other servers than these.
    fn let_clients_use(&self, is_member: &dyn Fn(usize) -> bool) {
        let all = 0..=self.workers.len();
        // Nobody connects meanwhile.
        let mut members = self.members.write().unwrap();
        *members = all.clone().filter(|&node| is_member(node)).collect();
        for node in all.filter(|&node| !is_member(node)) {
            let end = format!("SELECT pg_terminate_backend(pid, 5000) {OF_CLIENTS} AND application_name = 'history'");
            self.nodes()[node].session().run(&end);
        }
    }

    /// Waits until each gateway leaves as many servers out because they are no members, and can reach all others.
    fn wait_for_gateways(&self, left_out: usize) {
        for gateway in &self.gateways {
            wait_until("the gateway knows the members", || {
                let gateway = gateway.lock().unwrap();
                let ready = gateway.as_ref().unwrap().admin("/ready");
                let count = |state: &str| ready.text().lines().filter(|line| line.contains(state)).count();
                (count(": not asked: "), count(": ready, extension ")) == (left_out, self.nodes().len() - left_out)
            });
        }
    }

    /// Citus ends the transactions that it had prepared on a server that was killed.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_until_nothing_is_prepared(&self) {
        for node in self.nodes() {
            wait_until("nothing is prepared", || {
                node.session().text("SELECT count(*) FROM pg_prepared_xacts") == "0"
            });
        }
    }

    /// Returns how many of the batches that a seed has left were inserted directly into a shard: the first entity by one command, and the others
    /// by another one. A shard that has moved does not tell any more.
    ///
    /// # Panics
    /// If the table cannot be read.
    pub fn direct_batches(&self, seed: u64) -> u64 {
        let session = self.cluster.try_session(self.database, "postgres", "count").unwrap();
        let count = session.text(&format!(
            "SELECT count(*) FROM (
               SELECT FROM table_service_data.\"{TABLE}\" AS t WHERE t.partition_key LIKE 's{seed}p%'
               GROUP BY t.partition_key, t.xmin::text
               HAVING count(*) >= {} AND count(DISTINCT t.cmin::text) = 2) AS b",
            BLOCK.len()
        ));
        count.parse().unwrap()
    }

    fn ports_of_workers(&self) -> String {
        let ports: Vec<String> = self.workers.iter().map(|worker| worker.port().to_string()).collect();
        ports.join(", ")
    }

    fn change_shards(&self, what: &str, statement: impl Fn() -> String) {
        self.until_it_succeeds("postgres", what, statement);
    }

    /// Runs a statement of Citus until it succeeds: it gives way in a deadlock, and fails if its own connection ends.
    fn until_it_succeeds(&self, role: &str, what: &str, statement: impl Fn() -> String) {
        wait_until(what, || {
            let session = self.cluster.try_session(self.database, role, "move");
            session.is_ok_and(|session| session.sql(&statement()).is_ok())
        });
    }
}

/// The shards of the table.
const SHARDS: &str =
    "(SELECT * FROM citus_shards WHERE table_name = 'table_service_data.\"Histories\"'::regclass) AS s";

/// How a shard moves.
const MODES: [&str; 2] = ["block_writes", "force_logical"];

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
