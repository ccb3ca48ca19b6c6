//! Execution of entity group transactions: all operations on one partition succeed, or none.
//!
//! Rows are locked in key order, for any order of the operations, so that two batches cannot deadlock. To this end the
//! operations are sorted by key, and each run of neighbours of one kind is one statement (`order`). Writes of other
//! sessions can make an attempt (`attempt`) fail although the batch does not. Then [`Attempts`] decides on the next.

mod attempt;
mod order;

use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::batch::{Action, Attempts, Batch, Operation};

use self::attempt::{BatchAttempt, Failed, Timestamps};
use super::attempts::ClockReading;
use crate::postgres::{TextArg, has_room, has_sqlstate, in_subtransaction, rethrow};
use crate::storage::direct::{self, Inserter};
use crate::storage::expiry::Expiries;
use crate::storage::placement::Written;
use crate::storage::table::Table;

/// Executes the operations of a batch: all of them, or none if one fails.
///
/// # Errors
/// The error of the failed operation with the lowest index, as an error of the batch.
pub fn write(table: &Table, partition_key: TextArg<'_>, batch: &Batch<'_>) -> Result<Timestamps, Error> {
    if let Some(timestamps) = insert_directly(table, partition_key, batch.operations()) {
        return Ok(timestamps);
    }
    // An attempt that may be undone runs in a subtransaction, which also releases its locks.
    let mut earlier = Attempts::new(batch.operations(), !Expiries::of(table).is_empty(), has_room(), || {
        direct::needs_attempts(table)
    });
    loop {
        let attempt = || BatchAttempt::new(table, partition_key, batch.operations(), &earlier).run();
        let outcome = if earlier.are_undoable() {
            in_subtransaction(attempt).unwrap_or_else(|error| rethrow(error))
        } else {
            attempt()
        };
        match outcome {
            Ok(timestamps) => return Ok(timestamps),
            Err(Failed::Batch(error)) => return Err(error),
            Err(Failed::Undone(undone)) => earlier.undo(undone),
        }
        pgrx::check_for_interrupts!();
    }
}

/// The smallest batch that is inserted directly. For fewer operations the subtransaction costs more than it saves.
const MIN_DIRECT_INSERTS: usize = 8;

/// Inserts a batch of inserts by direct access, if the table allows it and all of them succeed. It inserts in key
/// order, so that it waits for locks in the same order as statements do.
fn insert_directly(table: &Table, partition_key: TextArg<'_>, operations: &[Operation<'_>]) -> Option<Timestamps> {
    let is_insert = |operation: &Operation<'_>| operation.action == Action::Insert;
    if operations.len() < MIN_DIRECT_INSERTS || !operations.iter().all(is_insert) || !has_room() {
        return None;
    }
    let mut entities: Vec<_> = operations
        .iter()
        .map(|operation| (&*operation.row_key, operation.properties()))
        .collect();
    entities.sort_unstable_by_key(|&(row_key, _)| row_key);
    let stamp = ClockReading::new();
    let inserter = Inserter::open(table, partition_key, Written::Many)?;
    let insert = || inserter.insert_many(partition_key, &entities, stamp.clock).ok_or(());
    match in_subtransaction(insert) {
        Ok(inserted) => inserted.ok()?,
        Err(error) if has_sqlstate(&error, &[PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION]) => return None,
        Err(error) => rethrow(error),
    }
    drop(inserter);
    // Direct access only inserts if the Timestamp can be written again in place.
    let settle = |operation: &Operation<'_>| {
        let settled = stamp.settle_key(table, partition_key, &operation.row_key, stamp.clock);
        settled.unwrap_or(stamp.clock)
    };
    Some(operations.iter().map(settle).map(Some).collect())
}
