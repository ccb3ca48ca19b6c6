//! The database of an account: one PostgreSQL server, or several nodes through which the same tables are reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use table_service_model::error::RequestError;

use super::node::{Lease, Node, Refusal};
use super::statements::Place;
use super::together::Together;
use crate::failure::Failure;

/// The database of an account.
pub struct Database {
    first: Arc<Node>,
    others: Vec<Arc<Node>>,
    /// Whose turn it is among nodes with the same load.
    turn: AtomicUsize,
    /// Its point reads.
    pub(super) reads: Arc<Together>,
}

impl Database {
    pub fn new(first: Arc<Node>, others: Vec<Arc<Node>>) -> Database {
        Database {
            first,
            others,
            turn: AtomicUsize::new(0),
            reads: Arc::default(),
        }
    }

    /// The node that has what all tables have in common.
    pub fn first(&self) -> &Arc<Node> {
        &self.first
    }

    /// All nodes, the first one first.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> + Clone {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// A connection for one statement. If a node cannot be reached, another one is tried, as far as the statement may go there.
    ///
    /// # Errors
    /// `ServerBusy`.
    pub(super) async fn connection(&self, place: Place) -> Result<Lease, Failure> {
        let mut tried = Vec::new();
        let mut problem = String::new();
        while let Some(node) = self.choose(place, &tried, &mut problem) {
            match node.connection().await {
                Ok(lease) => return Ok(lease),
                Err(Refusal::Busy) => return Err(busy("All connections to the database are in use".to_owned())),
                Err(Refusal::Away(reason)) => {
                    node.leave_out(reason.clone());
                    problem = reason;
                    tried.push(node);
                }
            }
        }
        Err(busy(format!("The database cannot be reached: {problem}")))
    }

    /// The node for a statement: of those that can be reached, the one with the fewest statements. `None` if there is none that
    /// was not tried; then `problem` says why.
    fn choose(&self, place: Place, tried: &[&Arc<Node>], problem: &mut String) -> Option<&Arc<Node>> {
        // A single node is always tried, so that it is used again as soon as it is back.
        if self.others.is_empty() {
            return tried.is_empty().then_some(&self.first);
        }
        if place == Place::First {
            // One of several is not tried while it is away: many requests need it, and each of them would wait.
            if let Some(known) = self.first.problem() {
                *problem = known;
                return None;
            }
            return tried.is_empty().then_some(&self.first);
        }
        let count = 1 + self.others.len();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % count;
        let left = self.nodes().cycle().skip(turn).take(count);
        let mut left = left.filter(|node| !tried.iter().any(|other| Arc::ptr_eq(node, other)));
        let present = left
            .clone()
            .filter(|node| !node.is_away())
            .min_by_key(|node| node.load());
        // If all are away, one of them is tried.
        present.or_else(|| left.next().filter(|_| tried.is_empty()))
    }
}

fn busy(reason: String) -> Failure {
    RequestError::ServerBusy { reason }.into()
}
