use std::process::{Child, Stdio};

use crate::cluster::Cluster;
use crate::session::Session;
use crate::wait_until;

/// Another program that reads the slot of a change feed over PostgreSQL's own protocol, until it is dropped. It confirms nothing.
pub struct OtherReader(Child);

impl OtherReader {
    /// Reads the only change feed in the database of a session.
    pub fn start(cluster: &Cluster, session: &Session, feed: &str) -> OtherReader {
        let slot = session.text("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()");
        let mut program = cluster.program("pg_recvlogical");
        program.args(["--start", "--file", "-", "--slot", &slot, "--option", "proto_version=1"]);
        program.args(["--option", &format!("publication_names=table_service_{feed}")]);
        program.args(["--dbname", &session.text("SELECT current_database()")]);
        program.args(["--status-interval=0", "--fsync-interval=0"]);
        let reader = OtherReader(program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("the other program reads", || {
            session.text("SELECT is_active FROM table_service.query_change_feeds()") == "t"
        });
        reader
    }
}

impl Drop for OtherReader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
