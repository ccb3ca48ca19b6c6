//! Writes of a table that share a transaction: each has its own outcome, and none undoes another.
//!
//! Each is the single call of [`write`](super::write), in a subtransaction. None waits: a write that would wait is
//! given back, to be executed alone. So groups cannot deadlock.

use table_service_model::Error;
use table_service_model::batch::{Action, Operation};

use super::rewrite::Rewrite;
use super::write;
use crate::postgres::guc::with_lock_timeout;
use crate::postgres::raised::concerns_session;
use crate::postgres::{PropertiesArg, has_one_snapshot, has_room, in_subtransaction, rethrow};
use crate::storage::arguments::{self, EntityKeys, exact};
use crate::storage::direct::runs_code_of_users;
use crate::storage::statement::UpdateMode;
use crate::storage::table::Table;

/// The most writes of a group. Each takes a subtransaction, and many of these slow down other sessions.
pub const MOST_WRITES: usize = 32;

/// One write of a group.
pub struct GroupedWrite<'a> {
    pub keys: EntityKeys<'a>,
    pub properties: Option<PropertiesArg<'a>>,
    pub operation: Operation<'a>,
}

/// The outcome of one write.
pub enum Outcome {
    /// The entity has this Timestamp; `None` after a delete.
    Done(Option<i64>),
    /// The error that the single call would raise.
    Failed(Error),
    /// Only a single call can execute it: it would wait, or run code of users, or PostgreSQL raised an error.
    Alone,
}

/// Executes writes in their order. Errors among them have failed already.
///
/// # Errors
/// `TableNotFound`, and the errors of names of tables.
///
/// Raises errors that concern the session or the server. Then nothing is written.
pub fn write_group<'a>(table_name: &str, writes: Vec<Result<GroupedWrite<'a>, Error>>) -> Result<Vec<Outcome>, Error> {
    let table = Table::open_without_waiting(table_name)?;
    // A wait for a lock fails at once: after the shortest time limit that PostgreSQL has.
    let outcomes = with_lock_timeout(c"1", || {
        let table = table.filter(|table| !has_one_snapshot() && has_plain_writes(table));
        let mut alone: Vec<EntityKeys<'a>> = Vec::new();
        let outcome = |write: Result<GroupedWrite<'a>, Error>| {
            let write = match write {
                Ok(write) => write,
                Err(error) => return Outcome::Failed(error),
            };
            // Later writes of the same entity must come after it.
            let is_behind = |before: &EntityKeys<'a>| before.is_of_same_entity(write.keys);
            let table = table.as_ref().filter(|_| has_room() && !alone.iter().any(is_behind));
            let outcome = table.map_or(Outcome::Alone, |table| write.execute(table));
            if matches!(outcome, Outcome::Alone) {
                alone.push(write.keys);
            }
            outcome
        };
        writes.into_iter().map(outcome).collect()
    });
    Ok(outcomes)
}

/// Returns whether writes of a table run only code of the extension. Another session may be changing one of its
/// indexes.
fn has_plain_writes(table: &Table) -> bool {
    unless_alone(|| Ok(!runs_code_of_users(table))).is_some_and(|is_plain| is_plain == Ok(true))
}

/// Runs `f` in a subtransaction. Returns `None` if PostgreSQL raised an error that concerns only this write.
fn unless_alone<R>(f: impl FnOnce() -> Result<R, Error>) -> Option<Result<R, Error>> {
    let result = in_subtransaction(|| {
        let result = f();
        // The time limit of a lock may have passed just when it was there.
        pgrx::check_for_interrupts!();
        result
    });
    match result {
        Ok(result) => Some(result),
        Err(error) if concerns_session(&error) => rethrow(error),
        Err(_) => None,
    }
}

impl GroupedWrite<'_> {
    fn execute(&self, table: &Table) -> Outcome {
        let [partition_key, row_key] = [self.keys.partition_key, self.keys.row_key].map(|key| key.get());
        match unless_alone(|| self.write(table)) {
            Some(Ok(timestamp)) => Outcome::Done(timestamp),
            Some(Err(error)) => Outcome::Failed(error.of_written(partition_key, row_key)),
            None => Outcome::Alone,
        }
    }

    fn write(&self, table: &Table) -> Result<Option<i64>, Error> {
        let (keys, operation) = (self.keys, &self.operation);
        let if_match = exact(operation.if_match);
        let properties = || arguments::properties(self.properties);
        let update = |mode| write::update(table, mode, keys, properties()?, if_match);
        let upsert = |mode| write::upsert(table, mode, keys, properties()?);
        let written = match operation.action {
            Action::Insert => write::insert(table, keys, properties()?),
            Action::Replace => update(UpdateMode::Replace),
            Action::Merge => update(UpdateMode::Merge),
            Action::InsertOrReplace => upsert(UpdateMode::Replace),
            Action::InsertOrMerge => upsert(UpdateMode::Merge),
            Action::Delete => return write::delete(table, keys, if_match).map(|()| None),
            Action::Patch => {
                let rewrite = Rewrite {
                    table,
                    keys,
                    if_match,
                    create_missing: operation.may_insert(),
                    make: &|stored| operation.changed(stored),
                };
                rewrite.run().map(|rewritten| rewritten.timestamp)
            }
        };
        written.map(Some)
    }
}
