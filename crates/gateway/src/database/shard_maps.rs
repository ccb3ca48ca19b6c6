//! The maps that say which node of a cluster has which partitions (`shard_map` of the SQL API).
//!
//! A map is a hint. Every node serves every call, so an old map costs a call the way over another server, and nothing else.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::node::Node;
use super::types::{ServerName, Shard};

/// The time after which a map is read again, when a request needs it.
const FRESH: Duration = Duration::from_secs(5);
/// The same for a table without a map, which is most likely not distributed.
const FRESH_WITHOUT: Duration = Duration::from_secs(30);
/// The same while the node of a partition is away.
const FRESH_WHILE_AWAY: Duration = Duration::from_secs(1);
/// The number of tables with maps that are kept.
const TABLES: usize = 1000;

/// The maps of a database with several nodes.
#[derive(Default)]
pub struct ShardMaps(Mutex<State>);

#[derive(Default)]
struct State {
    maps: HashMap<String, Map>,
    /// The node of each server, if the node has named its server.
    nodes: HashMap<ServerName, usize>,
    /// The number of maps that were read. Nodes are asked in turn.
    count: usize,
    /// Whether a map is being read. One at a time is enough: requests do not wait for it.
    is_reading: bool,
}

struct Map {
    /// In the order of their hashes.
    shards: Vec<Shard>,
    read: Instant,
}

impl Map {
    fn is_fresh(&self, is_away: bool) -> bool {
        let limit = match (is_away, self.shards.is_empty()) {
            (true, _) => FRESH_WHILE_AWAY,
            (false, true) => FRESH_WITHOUT,
            (false, false) => FRESH,
        };
        self.read.elapsed() < limit
    }

    /// Returns the server that has this hash.
    fn server(&self, hash: i32) -> Option<&ServerName> {
        let after = self.shards.partition_point(|shard| shard.from_hash <= hash);
        let shard = self.shards.get(after.checked_sub(1)?)?;
        (hash <= shard.to_hash).then_some(&shard.server)
    }
}

impl ShardMaps {
    /// Returns the node that has a hash of a table, as far as that is known. Reads the map in the background if it is not known, or if
    /// it is old.
    pub fn owner<'n>(
        self: &Arc<Self>,
        nodes: impl Iterator<Item = &'n Arc<Node>> + Clone,
        table: &str,
        hash: i32,
    ) -> Option<usize> {
        let mut state = self.0.lock();
        let map = state.maps.get(table);
        let owner = map
            .and_then(|map| map.server(hash))
            .and_then(|server| state.nodes.get(server))
            .copied();
        let is_away = owner
            .and_then(|owner| nodes.clone().nth(owner))
            .is_some_and(|node| node.is_away());
        if !state.is_reading && !map.is_some_and(|map| map.is_fresh(is_away)) {
            state.is_reading = true;
            let reading = Reading(self.clone());
            let (nodes, table): (Vec<_>, _) = (nodes.cloned().collect(), table.to_owned());
            tokio::spawn(async move { reading.read(&nodes, table).await });
        }
        owner.filter(|_| !is_away)
    }
}

/// The task that reads a map. When it is dropped, the next one may begin.
struct Reading(Arc<ShardMaps>);

impl Reading {
    /// Asks the next node for the map, and also the nodes that have not yet named their server.
    async fn read(self, nodes: &[Arc<Node>], table: String) {
        let (next, known) = {
            let mut state = self.0.0.lock();
            state.count += 1;
            let known: HashSet<usize> = state.nodes.values().copied().collect();
            (state.count % nodes.len().max(1), known)
        };
        let mut shards = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            if node.is_away() || (index != next && known.contains(&index)) {
                continue;
            }
            match node.shard_map(&table).await {
                Ok(found) => {
                    self.0.0.lock().learn(index, &found);
                    if shards.is_empty() {
                        shards = found;
                    }
                }
                // Requests find out whether the node is away.
                Err(problem) => tracing::debug!(node = node.name, table, problem, "no shard map"),
            }
        }
        let mut state = self.0.0.lock();
        if state.maps.len() >= TABLES && !state.maps.contains_key(&table) {
            state.maps.clear();
        }
        let read = Instant::now();
        state.maps.insert(table, Map { shards, read });
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.0.lock().is_reading = false;
    }
}

impl State {
    /// Learns the server of a node from its answer. A node without a shard owns nothing.
    fn learn(&mut self, index: usize, shards: &[Shard]) {
        let Some(local) = shards.iter().find(|shard| shard.is_local) else {
            return;
        };
        self.nodes.retain(|_, node| *node != index);
        self.nodes.insert(local.server.clone(), index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(from_hash: i32, to_hash: i32, port: i32, is_local: bool) -> Shard {
        Shard {
            from_hash,
            to_hash,
            server: ("127.0.0.1".to_owned(), port),
            is_local,
        }
    }

    #[test]
    fn a_hash_has_the_server_of_its_range() {
        let map = Map {
            shards: vec![
                shard(i32::MIN, -1, 1, false),
                shard(0, 9, 2, false),
                shard(20, i32::MAX, 3, false),
            ],
            read: Instant::now(),
        };
        let port = |hash| map.server(hash).map(|(_, port)| *port);
        assert_eq!(
            [i32::MIN, -1, 0, 9, 10, 19, 20, i32::MAX].map(port),
            [Some(1), Some(1), Some(2), Some(2), None, None, Some(3), Some(3)]
        );
        let none = Map {
            shards: Vec::new(),
            read: Instant::now(),
        };
        assert_eq!(none.server(0), None);
    }

    #[test]
    fn a_node_is_the_server_that_it_says_last() {
        let mut state = State::default();
        state.learn(0, &[shard(0, 1, 1, false), shard(2, 3, 2, true)]);
        state.learn(1, &[shard(0, 1, 1, true), shard(2, 3, 2, false)]);
        state.learn(2, &[shard(0, 1, 1, false)]);
        assert_eq!(
            state.nodes,
            [(("127.0.0.1".to_owned(), 2), 0), (("127.0.0.1".to_owned(), 1), 1)].into()
        );
        // Another server has taken the address of the first node.
        state.learn(0, &[shard(2, 3, 5, true)]);
        assert_eq!(
            state.nodes,
            [(("127.0.0.1".to_owned(), 5), 0), (("127.0.0.1".to_owned(), 1), 1)].into()
        );
    }
}
