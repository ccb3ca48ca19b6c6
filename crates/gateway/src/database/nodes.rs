//! The database of an account: one PostgreSQL server, or several nodes through which the same tables are reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use table_service_model::partition_hash::partition_hash;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::grouped_calls::{PointRead, PointWrite};
use super::groups::Groups;
use super::manager::Refusal;
use super::membership::{Identity, check};
use super::node::{Lease, Node};
use super::shard_maps::ShardMaps;
use super::standbys::{Secondary, StandbyStatus};
use super::statements::Nodes;
use crate::failure::Failure;

/// The time between two checks of a node.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The time that an answer of a node may take. It is so short that a member stays one between two checks.
const CHECK_TIME: Duration = Duration::from_secs(3);

/// The database of an account.
pub struct Database {
    /// The node for statements about all tables.
    pub first: Arc<Node>,
    others: Vec<Arc<Node>>,
    /// The node that is tried first among nodes with the same load.
    next: AtomicUsize,
    shards: Arc<ShardMaps>,
    /// The standbys that serve the secondary endpoint. Without any the primary serves it.
    standbys: Option<Standbys>,
}

/// The standbys of a database.
struct Standbys {
    nodes: Vec<Arc<Node>>,
    secondary: Arc<Secondary>,
    reads: Arc<Groups<PointRead>>,
}

/// The endpoint of an account that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Primary,
    /// It only reads.
    Secondary,
}

impl Database {
    /// Makes the database of these nodes. The others must be members. Standbys serve the secondary endpoint.
    pub fn new(
        first: Arc<Node>,
        others: Vec<Arc<Node>>,
        standbys: Option<(Vec<Arc<Node>>, Arc<Secondary>)>,
    ) -> Database {
        Database {
            first,
            others,
            next: AtomicUsize::new(0),
            shards: Arc::default(),
            standbys: standbys.map(|(nodes, secondary)| Standbys {
                nodes,
                secondary,
                reads: Arc::default(),
            }),
        }
    }

    /// Begins to probe servers that may fail over, and standbys.
    pub fn start(&self) {
        self.nodes().chain(self.standbys()).for_each(|node| node.start());
    }

    /// Checks that the other nodes have the tables of the first one, and then again and again. Returns when each was checked once.
    pub async fn check_members(&self) {
        let checks: Vec<_> = self
            .others
            .iter()
            .map(|node| keep_checking(self.first.clone(), node.clone()))
            .collect();
        for checked in checks {
            // It fails only at the end of the process.
            let _ = checked.await;
        }
    }

    /// The standbys, each with its state.
    pub fn standby_states(&self) -> impl Iterator<Item = (&Arc<Node>, StandbyStatus)> {
        let standbys = self.standbys.iter();
        standbys.flat_map(|standbys| {
            let nodes = standbys.nodes.iter().enumerate();
            nodes.map(|(index, node)| (node, standbys.secondary.status(index)))
        })
    }

    /// Returns the state of the standbys, if the database has any.
    pub fn secondary(&self) -> Option<&Secondary> {
        self.standbys.as_ref().map(|standbys| standbys.secondary.as_ref())
    }

    fn standbys(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.standbys.iter().flat_map(|standbys| &standbys.nodes)
    }

    /// The point reads of an endpoint, by the node that has their partition. The first node is for unknown ones.
    pub(super) fn reads(&self, endpoint: Endpoint, owner: Option<usize>) -> &Arc<Groups<PointRead>> {
        match (&self.standbys, endpoint) {
            (Some(standbys), Endpoint::Secondary) => &standbys.reads,
            _ => {
                let owner = owner.and_then(|owner| self.nodes().nth(owner));
                &owner.unwrap_or(&self.first).reads
            }
        }
    }

    /// The writes that may go in groups. On several nodes none may: their tables are distributed.
    pub(super) fn writes(&self) -> Option<&Arc<Groups<PointWrite>>> {
        self.first.writes.as_ref().filter(|_| !self.has_several_nodes())
    }

    pub(super) fn has_several_nodes(&self) -> bool {
        !self.others.is_empty()
    }

    /// The node that has a partition, if it is one of several and that is known.
    pub(super) fn owner(&self, table: &str, partition_key: &str) -> Option<usize> {
        if !self.has_several_nodes() {
            return None;
        }
        self.shards.owner(self.nodes(), table, partition_hash(partition_key))
    }

    /// Counts requests that were sent to the node that has their partition.
    pub(super) fn count_at_owner(&self, node: &Arc<Node>, owner: Option<usize>, requests: usize) {
        if owner
            .and_then(|owner| self.nodes().nth(owner))
            .is_some_and(|owner| Arc::ptr_eq(owner, node))
        {
            node.count_at_owner(requests);
        }
    }

    /// A connection for one statement of a request to an endpoint. If a node or a standby cannot be reached, another one
    /// is tried, as far as the statement may go there.
    ///
    /// # Errors
    /// `ServerBusy`.
    pub(super) async fn connection_at(
        &self,
        endpoint: Endpoint,
        nodes: Nodes,
        owner: Option<usize>,
    ) -> Result<Lease, Failure> {
        let standbys = self.standbys.as_ref().filter(|_| endpoint == Endpoint::Secondary);
        let (mut tried, mut problem) = (Vec::new(), None);
        while let Some(node) = match standbys {
            Some(standbys) => self.choose_standby(standbys, &tried),
            None => self.choose(nodes, owner, &tried),
        } {
            match node.connection().await {
                Ok(lease) => return Ok(lease),
                Err(Refusal::Busy) => {
                    let name = if standbys.is_some() { "standby" } else { "database" };
                    return Err(Failure::busy(format!("All connections to the {name} are in use")));
                }
                Err(Refusal::Away(reason)) => {
                    node.leave_out(reason.clone());
                    problem = Some(reason);
                }
                // Other connections to this standby may lead to another server.
                Err(Refusal::Unfit(reason)) => problem = Some(reason),
            }
            tried.push(node);
        }
        Err(Failure::busy(match standbys {
            Some(standbys) => {
                let problem = problem.unwrap_or_else(|| standbys.secondary.why_none());
                format!("No standby can serve reads: {problem}")
            }
            None => {
                let problem = problem.or_else(|| self.first.problem()).unwrap_or_default();
                format!("The database cannot be reached: {problem}")
            }
        }))
    }

    /// The standby with the fewest statements, of those that serve reads and were not tried.
    fn choose_standby<'s>(&self, standbys: &'s Standbys, tried: &[&Arc<Node>]) -> Option<&'s Arc<Node>> {
        let count = standbys.nodes.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed) % count.max(1);
        let all = standbys.nodes.iter().enumerate().cycle().skip(first).take(count);
        let serving = all
            .filter(|(index, node)| !is_among(tried, node) && standbys.secondary.is_serving(*index) && !node.is_away());
        serving.map(|(_, node)| node).min_by_key(|node| node.load())
    }

    /// All nodes, the first one first.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> + Clone {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The node for a statement: of those that can be reached, the one that has its partition, or else the one with the fewest
    /// statements. `None` if there is none that was not tried.
    fn choose(&self, nodes: Nodes, owner: Option<usize>, tried: &[&Arc<Node>]) -> Option<&Arc<Node>> {
        // A single node is always tried, so that it is used again as soon as it is back.
        if self.others.is_empty() {
            return tried.is_empty().then_some(&self.first);
        }
        if nodes == Nodes::First {
            // One of several is not tried while it is away: many requests need it, and each of them would wait.
            return (tried.is_empty() && self.first.problem().is_none()).then_some(&self.first);
        }
        if tried.is_empty()
            && let Some(owner) = owner.and_then(|owner| self.nodes().nth(owner))
            && !owner.is_away()
        {
            return Some(owner);
        }
        let count = 1 + self.others.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed) % count;
        let left = self.nodes().cycle().skip(first).take(count);
        let mut left = left.filter(|node| !is_among(tried, node));
        let present = left
            .clone()
            .filter(|node| !node.is_away())
            .min_by_key(|node| node.load());
        // If all are away, one of them is tried.
        present.or_else(|| left.find(|node| tried.is_empty() && node.stranger().is_none()))
    }
}

fn is_among(nodes: &[&Arc<Node>], node: &Arc<Node>) -> bool {
    nodes.iter().any(|other| Arc::ptr_eq(node, other))
}

/// Asks a node for its identity. A node that does not answer delays no check of others.
async fn ask(node: &Node) -> Result<Identity, String> {
    let asking = timeout(CHECK_TIME, node.identity());
    asking.await.unwrap_or_else(|_| Err("it does not answer".to_owned()))
}

/// Checks a node as long as the process runs. The result is there when it was checked once.
fn keep_checking(first: Arc<Node>, node: Arc<Node>) -> oneshot::Receiver<()> {
    let (sender, once) = oneshot::channel();
    tokio::spawn(async move {
        let mut sender = Some(sender);
        // The identity of the node when it was a member.
        let mut confirmed: Option<Identity> = None;
        loop {
            let begun = Instant::now();
            match ask(&node).await {
                Ok(identity) => match ask(&first).await {
                    Ok(of_first) => {
                        let checked = check(&of_first, &identity);
                        confirmed = checked.is_ok().then(|| identity.clone());
                        node.judge(checked.map(|()| (identity, begun)));
                    }
                    // The first node is away, and nobody can change the cluster meanwhile.
                    Err(_) if confirmed.as_ref().is_some_and(|known| known.is_still(&identity)) => {
                        node.judge(Ok((identity, begun)));
                    }
                    Err(problem) => node.judge(Err(format!(
                        "the first node does not say whether it is a member: {problem}"
                    ))),
                },
                Err(problem) => node.did_not_answer(&problem),
            }
            if let Some(sender) = sender.take() {
                // The receiver is gone if the gateway does not start.
                let _ = sender.send(());
            }
            sleep(CHECK_INTERVAL).await;
        }
    });
    once
}
