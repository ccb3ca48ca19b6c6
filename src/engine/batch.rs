//! Execution of entity group transactions: all operations on one partition succeed, or none.
//!
//! Rows are locked in key order, whatever the order of the operations, so that two batches cannot deadlock. To this end
//! the operations are sorted by key, and each run of neighbours of one kind is one statement. Operations on existing
//! entities first lock them and then write only the rows that the lock returned. No statement raises an error of the
//! service. Failures are collected, and the one of the operation with the lowest index is raised.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;
use table_service_model::batch::{Action, Batch, Operation};
use table_service_model::entity::Entity;
use table_service_model::etag::IfMatch;
use table_service_model::{Error, Properties, PropertiesBuf, Ticks, key};

use super::attempts::{ClockReading, InTheWay, not_inserted, remove_expired, suppressed};
use super::write::with_primary_key;
use crate::postgres::raised::{has_sqlstate, rethrow};
use crate::postgres::spi::{Connection, Rows, Tuple, connect};
use crate::postgres::subtransaction::{has_room, in_subtransaction};
use crate::postgres::types::TextArg;
use crate::postgres::types::value::{Array, Bag, Text, Value};
use crate::storage::arguments::KeyTexts;
use crate::storage::direct;
use crate::storage::expiry::Expiries;
use crate::storage::row::broken;
use crate::storage::statement::{Statement, UpdateMode, WriteMany};
use crate::storage::table::Table;

/// The new Timestamps in the order of the operations. A delete has `None`.
pub type Timestamps = Vec<Option<i64>>;

/// Why an attempt failed.
enum FailedAttempt {
    Error(Error),
    /// These entities were deleted and inserted again while the attempt waited for their locks, or its locks did not last
    /// (see [`BatchAttempt::write_locked`]). Only a new attempt can lock them in key order.
    Moved(Vec<Version>),
    /// An insert wrote a Timestamp that is not later than this one, which an earlier version of the entity has.
    Late(i64),
    /// The operation with this index failed, but would not fail any more.
    Outdated(usize),
}

/// How often an attempt is made again because the operation that failed would not fail any more. It is bounded because
/// what made it fail may be hidden from the caller, for instance by a row-level security policy.
const OUTDATED: usize = 3;

/// The findings of earlier attempts.
#[derive(Default)]
struct EarlierAttempts {
    /// The versions that the last attempt found but could not lock or write.
    seen: Vec<Version>,
    /// The latest Timestamp of an earlier version.
    latest: Option<i64>,
    /// The operation that failed in the last attempts, but would not fail any more; and how many attempts that were.
    outdated: Option<(usize, usize)>,
    /// Whether an attempt can be undone.
    is_undoable: bool,
}

/// The index of an operation, and the Timestamp of the entity that it found.
type Version = (usize, i64);

/// Executes the operations of a batch: all of them, or none if one fails.
///
/// # Errors
/// The error of the failed operation with the lowest index, as an error of the batch.
pub fn write(table: &Table, partition_key: TextArg<'_>, batch: &Batch<'_>) -> Result<Timestamps, Error> {
    if let Some(timestamps) = insert_directly(table, partition_key, batch.operations()) {
        return Ok(timestamps);
    }
    // Operations on existing entities may need another attempt. Others need one so that a refused batch names the first
    // operation that fails, or for a later Timestamp. An attempt that may be undone runs in a subtransaction, which also
    // releases its locks.
    let is_conditional = |operation: &Operation<'_>| operation.action.is_conditional();
    let mut earlier = EarlierAttempts {
        is_undoable: batch.operations().iter().any(is_conditional)
            || (batch.operations().len() > 1 && has_room())
            || direct::needs_attempts(table)
            || !Expiries::of(table).is_empty(),
        ..EarlierAttempts::default()
    };
    loop {
        let attempt = || BatchAttempt::new(table, partition_key, batch.operations(), &earlier).run();
        let outcome = if earlier.is_undoable {
            in_subtransaction(AssertUnwindSafe(attempt)).unwrap_or_else(|error| rethrow(error))
        } else {
            attempt()
        };
        match outcome {
            Ok(timestamps) => return Ok(timestamps),
            Err(FailedAttempt::Error(error)) => return Err(error),
            Err(FailedAttempt::Moved(versions)) => earlier.seen = versions,
            Err(FailedAttempt::Late(latest)) => earlier.latest = earlier.latest.max(Some(latest)),
            Err(FailedAttempt::Outdated(index)) => {
                let before = earlier.outdated.filter(|(before, _)| *before == index);
                earlier.outdated = Some((index, before.map_or(1, |(_, attempts)| attempts + 1)));
            }
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
    direct::with_inserter(table, |table| {
        let insert = || table.insert_many(partition_key, &entities, stamp.clock).ok_or(());
        match in_subtransaction(AssertUnwindSafe(insert)) {
            Ok(inserted) => inserted.ok(),
            Err(error) if has_sqlstate(&error, &[PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION]) => None,
            Err(error) => rethrow(error),
        }
    })?;
    // Direct access only inserts where the Timestamp can be written again in place.
    let settle = |operation: &Operation<'_>| {
        let settled = stamp.settle_key(table, partition_key, &operation.row_key, stamp.clock);
        settled.unwrap_or(stamp.clock)
    };
    Some(operations.iter().map(settle).map(Some).collect())
}

/// The kinds of statement that a run of neighbouring operations can share.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Insert,
    /// An insert where an entity has expired, which is removed first.
    InsertOverExpired,
    Upsert(UpdateMode),
    /// Operations on entities that exist: they are locked, and their new properties are made from the stored ones.
    Existing,
    /// Such operations on entities that do not exist, which they insert.
    New,
}

/// The findings of an attempt before its first lock: the RowKeys of stored entities that operations may insert, and whether
/// these have expired. They decide the order of the locks. The entities under the locks decide what is written.
type Looked = HashMap<String, bool>;

/// An entity that is stored, but not locked.
struct Found {
    timestamp: i64,
    has_expired: bool,
}

/// One operation and its index in the batch.
#[derive(Clone, Copy)]
struct Step<'a> {
    index: usize,
    operation: &'a Operation<'a>,
}

impl<'a> Step<'a> {
    fn row_key(&self) -> &'a str {
        &self.operation.row_key
    }
}

struct BatchAttempt<'a> {
    table: &'a Table,
    partition_key: TextArg<'a>,
    operations: &'a [Operation<'a>],
    /// In key order.
    steps: Vec<Step<'a>>,
    earlier: &'a EarlierAttempts,
    expiries: Expiries,
    /// The latest Timestamp of an earlier version.
    latest: Option<i64>,
    timestamps: Timestamps,
    failure: Option<(usize, Error)>,
}

impl<'a> BatchAttempt<'a> {
    fn new(
        table: &'a Table,
        partition_key: TextArg<'a>,
        operations: &'a [Operation<'a>],
        earlier: &'a EarlierAttempts,
    ) -> BatchAttempt<'a> {
        let mut steps: Vec<_> = operations
            .iter()
            .enumerate()
            .map(|(index, operation)| Step { index, operation })
            .collect();
        steps.sort_unstable_by_key(Step::row_key);
        BatchAttempt {
            table,
            partition_key,
            operations,
            steps,
            earlier,
            expiries: Expiries::of(table),
            latest: earlier.latest,
            timestamps: vec![None; operations.len()],
            failure: None,
        }
    }

    fn run(mut self) -> Result<Timestamps, FailedAttempt> {
        let steps = std::mem::take(&mut self.steps);
        let looked = self.look_first(&steps);
        let run_of = |step: &Step<'_>| self.run_of(step, &looked);
        let runs: Vec<_> = steps.iter().map(run_of).collect();
        let shared = |a: &(Step<'_>, Run), b: &(Step<'_>, Run)| a.1 == b.1 && a.1 != Run::InsertOverExpired;
        let steps: Vec<_> = steps.into_iter().zip(runs).collect();
        for run in steps.chunk_by(shared) {
            // After a failure, only an operation with a lower index can change the outcome.
            let matters = |(step, _): &(Step<'a>, Run)| self.matters(step.index).then_some(*step);
            let (Some((_, kind)), steps) = (run.first(), run.iter().filter_map(matters).collect::<Vec<_>>()) else {
                continue;
            };
            if steps.is_empty() {
                continue;
            }
            match kind {
                Run::Insert => self.insert(&steps)?,
                Run::InsertOverExpired => self.insert_over_expired(&steps)?,
                Run::Upsert(change) => self.upsert(&steps, *change)?,
                Run::Existing => self.change(&steps)?,
                Run::New => self.create(&steps)?,
            }
        }
        match self.failure.take() {
            Some((index, error)) if self.is_outdated(index, &error) => Err(FailedAttempt::Outdated(index)),
            Some((index, error)) => {
                let row_key = self.operations.get(index).map_or("", |operation| &operation.row_key);
                let error = error.of_written(self.partition_key.get(), row_key);
                Err(FailedAttempt::Error(error.at(index)))
            }
            None => Ok(self.timestamps),
        }
    }

    /// Looks which of the entities that operations may insert are stored, if statements of their own insert and change them.
    fn look_first(&self, steps: &[Step<'a>]) -> Looked {
        let depends = |step: &&Step<'_>| step.operation.may_insert() && self.is_made_from_stored(step.operation);
        let keys: Vec<_> = steps.iter().filter(depends).map(Step::row_key).collect();
        // A caller that may insert, but not read, learns of no entity that has expired.
        if keys.is_empty() || !direct::may_read(self.table) {
            return Looked::new();
        }
        connect(|spi| {
            let found = self.look(spi, keys.into_iter());
            found
                .into_iter()
                .map(|(key, found)| (key.to_owned(), found.has_expired))
                .collect()
        })
    }

    /// Returns whether the stored entity decides what an operation writes. With expiries it does for all: it may have expired.
    fn is_made_from_stored(&self, operation: &Operation<'_>) -> bool {
        operation.action.is_conditional() || !self.expiries.is_empty()
    }

    fn run_of(&self, step: &Step<'_>, looked: &Looked) -> Run {
        let looked = looked.get(step.row_key());
        match step.operation.action {
            Action::Insert if looked == Some(&true) => Run::InsertOverExpired,
            Action::Insert => Run::Insert,
            Action::InsertOrReplace if self.expiries.is_empty() => Run::Upsert(UpdateMode::Replace),
            Action::InsertOrMerge if self.expiries.is_empty() => Run::Upsert(UpdateMode::Merge),
            _ if step.operation.may_insert() && looked.is_none() => Run::New,
            _ => Run::Existing,
        }
    }

    /// Returns which of these entities are stored now, by RowKey, under a new snapshot.
    fn look<'c>(&self, spi: &'c Connection, keys: impl ExactSizeIterator<Item = &'a str>) -> HashMap<&'c str, Found> {
        let keys = Array::of_texts(keys);
        if self.expiries.is_empty() {
            let rows = spi.run(self.table.name(), &Statement::look_many(self.partition_key(), &keys));
            let found = |timestamp| Found {
                timestamp,
                has_expired: false,
            };
            return timestamps(&rows)
                .into_iter()
                .map(|(key, timestamp)| (key, found(timestamp)))
                .collect();
        }
        let rows = spi.run(
            self.table.name(),
            &Statement::look_entities(self.partition_key(), &keys),
        );
        let found = |stored: Stored<'_>| Found {
            timestamp: stored.timestamp,
            has_expired: stored.has_expired,
        };
        let stored = entities(&rows, &self.expiries);
        stored.into_iter().map(|(key, stored)| (key, found(stored))).collect()
    }

    /// Returns whether the operation that failed would not fail any more.
    ///
    /// Each statement of an attempt sees its own moment. All operations with a lower index have succeeded, and hold their
    /// locks: they succeed now too. So if this one fails now, it is the first one that fails in a state that really is.
    fn is_outdated(&self, index: usize, error: &Error) -> bool {
        let exists = match error {
            Error::EntityAlreadyExists => true,
            Error::EntityNotFound => false,
            // The entity is locked, so nothing has changed.
            _ => return false,
        };
        let Some(operation) = self.operations.get(index) else {
            return false;
        };
        // One operation alone has failed in a state that really was. But it may have waited until what was in its way had expired.
        let is_of_one_state = self.operations.len() == 1 && self.expiries.is_empty();
        if is_of_one_state
            || !self.earlier.is_undoable
            || self.is_last_attempt(index)
            || !key::within_limits(self.partition_key.get(), &operation.row_key)
            || !direct::may_read(self.table)
        {
            return false;
        }
        connect(|spi| {
            let found = self.look(spi, [&*operation.row_key].into_iter());
            found.values().any(|found| !found.has_expired) != exists
        })
    }

    /// Returns whether there is no further attempt because of this operation.
    fn is_last_attempt(&self, index: usize) -> bool {
        let attempts = self.earlier.outdated.filter(|(before, _)| *before == index);
        attempts.is_some_and(|(_, attempts)| attempts >= OUTDATED)
    }

    fn matters(&self, index: usize) -> bool {
        self.failure.as_ref().is_none_or(|(lowest, _)| index < *lowest)
    }

    fn fail(&mut self, index: usize, error: Error) {
        if self.matters(index) {
            self.failure = Some((index, error));
        }
    }

    /// Inserts a run. The statement does not return entities that it did not write. The one with the lowest index is
    /// the failure.
    fn insert(&mut self, run: &[Step<'a>]) -> Result<(), FailedAttempt> {
        let bags = run.iter().map(|step| step.operation.properties());
        let unwritten = connect(|spi| self.write_bags(spi, WriteMany::Insert, None, run, bags))?;
        if let Some(first) = unwritten.into_iter().min_by_key(|step| step.index) {
            self.fail_to_insert(first, first.operation.properties());
        }
        Ok(())
    }

    /// Inserts an entity where one has expired.
    fn insert_over_expired(&mut self, run: &[Step<'a>]) -> Result<(), FailedAttempt> {
        for step in run {
            let keys = KeyTexts::new(self.partition_key.get(), step.row_key());
            if let InTheWay::Expired(removed) = remove_expired(self.table, &self.expiries, keys.keys()) {
                self.latest = self.latest.max(Some(removed));
            }
        }
        self.insert(run)
    }

    fn fail_to_insert(&mut self, step: Step<'a>, properties: Properties<'_>) {
        let keys = KeyTexts::new(self.partition_key.get(), step.row_key());
        let bag = Bag::new(properties);
        let error = not_inserted(self.table, keys.keys(), bag.arg());
        self.fail(step.index, error);
    }

    /// Upserts a run. The statement does not return entities that it did not write. The one with the lowest index is
    /// the failure.
    fn upsert(&mut self, run: &[Step<'a>], change: UpdateMode) -> Result<(), FailedAttempt> {
        let bags = run.iter().map(|step| step.operation.properties());
        let unwritten =
            with_primary_key(|| connect(|spi| self.write_bags(spi, WriteMany::Upsert(change), None, run, bags)))?;
        if let Some(first) = unwritten.into_iter().min_by_key(|step| step.index) {
            let error = match change {
                UpdateMode::Merge => connect(|spi| self.merge_error(spi, first)),
                UpdateMode::Replace => suppressed(),
            };
            self.fail(first.index, error);
        }
        Ok(())
    }

    /// Returns why a merge did not write an entity, which the statement has locked.
    fn merge_error(&self, spi: &Connection, step: Step<'a>) -> Error {
        let key = Array::of_texts([step.row_key()].into_iter());
        let rows = spi.run(self.table.name(), &Statement::lock_many(self.partition_key(), &key));
        match entities(&rows, &self.expiries).values().next() {
            Some(stored) => {
                let changed = step.operation.changed(&stored.entity(self.partition_key.get(), step));
                changed.err().unwrap_or_else(suppressed)
            }
            None => suppressed(),
        }
    }

    /// Changes and deletes entities that exist. It locks them in key order, checks each operation, and writes the locked rows.
    fn change(&mut self, run: &[Step<'a>]) -> Result<(), FailedAttempt> {
        let (known, unknown): (Vec<_>, Vec<_>) = run
            .iter()
            .copied()
            .partition(|step| key::within_limits(self.partition_key.get(), step.row_key()));
        for step in unknown {
            self.fail(step.index, Error::EntityNotFound);
        }
        connect(|spi| {
            let keys = Array::of_texts(known.iter().map(Step::row_key));
            let rows = spi.run(self.table.name(), &Statement::lock_many(self.partition_key(), &keys));
            let locked = entities(&rows, &self.expiries);
            let missing: Vec<_> = known
                .iter()
                .filter(|step| !locked.contains_key(step.row_key()))
                .collect();
            if !missing.is_empty() {
                let found = self.look(spi, missing.iter().map(|step| step.row_key()));
                let mut moved = Vec::new();
                for step in missing {
                    let alive = found.get(step.row_key()).filter(|found| !found.has_expired);
                    match alive.map(|found| found.timestamp) {
                        // It was deleted after the look that came first.
                        None if step.operation.may_insert() && !self.is_last_attempt(step.index) => {
                            return Err(FailedAttempt::Outdated(step.index));
                        }
                        None if step.operation.may_insert() => self.fail(step.index, suppressed()),
                        None => self.fail(step.index, Error::EntityNotFound),
                        // The previous attempt found the same version, so no concurrent write prevents the lock.
                        Some(timestamp) if self.earlier.seen.contains(&(step.index, timestamp)) => {
                            self.fail(step.index, suppressed());
                        }
                        Some(timestamp) => moved.push((step.index, timestamp)),
                    }
                }
                if !moved.is_empty() {
                    return Err(FailedAttempt::Moved(moved));
                }
            }
            self.write_locked(spi, &known, &locked)
        })
    }

    /// Inserts the entities of operations that may insert, which do not exist.
    fn create(&mut self, run: &[Step<'a>]) -> Result<(), FailedAttempt> {
        let (mut created, mut bags) = (Vec::new(), Vec::new());
        for &step in run {
            let missing = Entity::missing(self.partition_key.get(), step.row_key());
            match step.operation.changed(&missing) {
                Ok(bag) => {
                    created.push(step);
                    bags.push(bag);
                }
                Err(error) => self.fail(step.index, error),
            }
        }
        if created.is_empty() {
            return Ok(());
        }
        let given = bags.iter().map(PropertiesBuf::as_properties);
        let unwritten = connect(|spi| self.write_bags(spi, WriteMany::Insert, None, &created, given))?;
        let Some(first) = unwritten.into_iter().min_by_key(|step| step.index) else {
            return Ok(());
        };
        // Another session may have inserted it meanwhile.
        if !self.is_last_attempt(first.index) {
            return Err(FailedAttempt::Outdated(first.index));
        }
        if let Some((_, bag)) = created.iter().zip(&bags).find(|(step, _)| step.index == first.index) {
            self.fail_to_insert(first, bag.as_properties());
        }
        Ok(())
    }

    /// Checks the operations on locked entities, and writes these.
    ///
    /// On a distributed table it writes only those that still have the versions that were locked. The lock does not last if
    /// Citus moves the shard before this transaction has written: then the new placement is written, which nobody has
    /// locked.
    fn write_locked(
        &mut self,
        spi: &Connection,
        steps: &[Step<'a>],
        locked: &HashMap<&str, Stored<'_>>,
    ) -> Result<(), FailedAttempt> {
        let (mut replaced, mut bags, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        for &step in steps {
            let Some(stored) = locked.get(step.row_key()) else {
                continue;
            };
            match outcome(self.partition_key.get(), step, stored) {
                Ok(Some(bag)) => {
                    replaced.push(step);
                    bags.push(bag);
                }
                Ok(None) => deleted.push(step),
                Err(error) => self.fail(step.index, error),
            }
        }
        if self.failure.is_some() {
            return Ok(());
        }
        let version = |step: &Step<'_>| locked.get(step.row_key()).map_or(0, |stored| stored.timestamp);
        let is_distributed = self.table.is_distributed();
        let versions = |steps: &[Step<'_>]| is_distributed.then(|| Array::of_timestamps(steps.iter().map(version)));
        let mut unwritten = Vec::new();
        if !replaced.is_empty() {
            let bags = bags.iter().map(PropertiesBuf::as_properties);
            let versions = versions(&replaced);
            unwritten = self.write_bags(spi, WriteMany::Replace, versions.as_ref(), &replaced, bags)?;
        }
        if !deleted.is_empty() {
            let keys = Array::of_texts(deleted.iter().map(Step::row_key));
            let versions = versions(&deleted);
            let statement = match &versions {
                Some(versions) => Statement::delete_versions(self.partition_key(), &keys, versions),
                None => Statement::delete_many(self.partition_key(), &keys),
            };
            let rows = spi.run(self.table.name(), &statement);
            let gone: Vec<&str> = rows.iter().map(|row| row_key(&row, 1)).collect();
            unwritten.extend(deleted.iter().filter(|step| !gone.contains(&step.row_key())));
        }
        let mut moved = Vec::new();
        for step in unwritten {
            let version = (step.index, version(&step));
            // If the previous attempt failed with the same version, the shard has not moved.
            if is_distributed && !self.earlier.seen.contains(&version) {
                moved.push(version);
            } else {
                self.fail(step.index, suppressed());
            }
        }
        if moved.is_empty() {
            Ok(())
        } else {
            Err(FailedAttempt::Moved(moved))
        }
    }

    /// Runs a statement that writes keys and bags and returns the keys and Timestamps that it wrote. With `versions`, it
    /// replaces only entities that have them. Stores the Timestamps, and returns the steps that were not written.
    fn write_bags<'b>(
        &mut self,
        spi: &Connection,
        write: WriteMany,
        versions: Option<&Array>,
        run: &[Step<'a>],
        bags: impl ExactSizeIterator<Item = Properties<'b>>,
    ) -> Result<Vec<Step<'a>>, FailedAttempt> {
        let stamp = ClockReading::after(self.latest);
        let (table, partition_key) = (self.table.name(), self.partition_key());
        let rows = if self.table.is_distributed() && write != WriteMany::Replace {
            let keys = run.iter().map(|step| Text::new(step.row_key()));
            let rows: Vec<_> = keys.zip(bags.map(Bag::new)).collect();
            spi.run(table, &Statement::write_rows(write, partition_key, stamp.clock, &rows))
        } else {
            let keys = Array::of_texts(run.iter().map(Step::row_key));
            let bags = Array::of_bags(bags);
            let statement = match versions {
                Some(versions) => Statement::replace_versions(partition_key, &keys, stamp.clock, &bags, versions),
                None => Statement::write_many(write, partition_key, &keys, stamp.clock, &bags),
            };
            spi.run(table, &statement)
        };
        let written = timestamps(&rows);
        let mut unwritten = Vec::new();
        for &step in run {
            match written.get(step.row_key()) {
                Some(&timestamp) => {
                    let settled = stamp.settle_key(self.table, self.partition_key, step.row_key(), timestamp);
                    self.timestamps[step.index] = Some(settled.map_err(FailedAttempt::Late)?);
                }
                None => unwritten.push(step),
            }
        }
        Ok(unwritten)
    }

    fn partition_key(&self) -> Value<'a> {
        Value::text(self.partition_key)
    }
}

/// An entity that is stored and locked.
struct Stored<'a> {
    timestamp: i64,
    properties: Properties<'a>,
    has_expired: bool,
}

impl Stored<'_> {
    fn entity<'e>(&'e self, partition_key: &'e str, step: Step<'e>) -> Entity<'e> {
        Entity {
            partition_key: Some(partition_key),
            row_key: Some(step.row_key()),
            timestamp: Ticks::from_postgres_micros(self.timestamp),
            properties: self.properties,
        }
    }
}

/// Returns the entity's new properties, or `None` if it is deleted. The limits are checked after the condition
/// (semantics 0.2).
fn outcome(partition_key: &str, step: Step<'_>, stored: &Stored<'_>) -> Result<Option<PropertiesBuf>, Error> {
    if stored.has_expired {
        let missing = Entity::missing(partition_key, step.row_key());
        return match step.operation.may_insert() {
            true => step.operation.changed(&missing).map(Some),
            false => Err(Error::EntityNotFound),
        };
    }
    let matches = match step.operation.if_match {
        IfMatch::Any => true,
        IfMatch::Version(version) => Ticks::from_postgres_micros(stored.timestamp) == Some(version),
        IfMatch::Never => false,
    };
    if !matches {
        return Err(Error::UpdateConditionNotSatisfied);
    }
    match step.operation.action {
        Action::Delete => Ok(None),
        _ => step.operation.changed(&stored.entity(partition_key, step)).map(Some),
    }
}

/// Returns the rows of a statement that selects entities, by RowKey, and whether these have expired by now.
fn entities<'c>(rows: &Rows<'c>, expiries: &Expiries) -> HashMap<&'c str, Stored<'c>> {
    rows.iter()
        .map(|row| {
            let key = row_key(&row, 2);
            let with_key = || format!("with RowKey '{key}'");
            let (Some(timestamp), Some(properties)) = (row.timestamptz(3), row.properties(4, with_key)) else {
                broken(&with_key(), "is NULL in its Timestamp or its properties");
            };
            let stored = Stored {
                timestamp,
                properties,
                has_expired: expiries.have_passed(timestamp, properties),
            };
            (key, stored)
        })
        .collect()
}

/// Returns the rows of a statement that returns Timestamps, by RowKey.
fn timestamps<'c>(rows: &Rows<'c>) -> HashMap<&'c str, i64> {
    rows.iter()
        .map(|row| {
            let key = row_key(&row, 1);
            let Some(timestamp) = row.timestamptz(2) else {
                broken(&format!("with RowKey '{key}'"), "is NULL in its Timestamp");
            };
            (key, timestamp)
        })
        .collect()
}

/// Returns the RowKey in a column of a row.
fn row_key<'c>(row: &Tuple<'c>, column: i32) -> &'c str {
    // Never NULL: the statements compare the column with the keys of the batch, and NULL equals none.
    row.text(column).map_or("", TextArg::get)
}

#[cfg(any(test, feature = "pg_test"))]
#[allow(clippy::unwrap_used)]
#[pg_schema]
mod tests {
    use std::cell::Cell;

    use pgrx::prelude::*;

    thread_local! {
        static STARTED: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts the statements that PostgreSQL starts to execute: the test's own and those of the extension.
    unsafe extern "C-unwind" fn count(query: *mut pg_sys::QueryDesc, flags: std::ffi::c_int) {
        STARTED.set(STARTED.get() + 1);
        // SAFETY: PostgreSQL passes valid arguments to the hook. Without a hook it calls this function with them.
        unsafe { pg_sys::standard_ExecutorStart(query, flags) };
    }

    /// Returns how many statements a batch executes. `operations` is an expression over i that makes one operation; i
    /// is 1 to 100.
    fn statements(operations: &str) -> usize {
        let sql = format!(
            "SELECT execute_batch('Counted', 'p', VARIADIC array_agg({operations} ORDER BY random())) FROM generate_series(1, 100) AS i"
        );
        // SAFETY: nothing else in this backend sets the hook, and backends have one thread.
        unsafe { pg_sys::ExecutorStart_hook = Some(count) };
        STARTED.set(0);
        Spi::run(&sql).unwrap();
        // SAFETY: as above.
        unsafe { pg_sys::ExecutorStart_hook = None };
        // The test's own statement counts too.
        STARTED.get() - 1
    }

    #[pg_test]
    fn a_batch_is_few_statements() {
        Spi::run("SET search_path = table_service; SELECT create_table('Counted')").unwrap();
        let key = "lpad(i::text, 3, '0')";
        let inserts = statements(&format!("batch_insert({key}, '{{\"a\": 1}}')"));
        assert!(inserts <= 3, "100 inserts: {inserts}");
        let merges = statements(&format!("batch_merge({key}, '{{\"b\": 1}}', '*')"));
        assert!(merges <= 3, "100 merges: {merges}");
        let deletes = statements(&format!("batch_delete({key})"));
        assert!(deletes <= 3, "100 deletes: {deletes}");

        let half =
            format!("CASE WHEN i <= 60 THEN batch_insert({key}, '{{}}') ELSE batch_insert_or_merge({key}, '{{}}') END");
        let upserts = statements(&half);
        assert!(upserts <= 3, "two runs: {upserts}");
        // All six kinds, in runs. The entities 61 to 100 are deleted first, so that they can be inserted again.
        Spi::run("DELETE FROM table_service_data.\"Counted\" WHERE row_key > '060'").unwrap();
        let mixed = statements(&format!(
            "CASE WHEN i <= 15 THEN batch_replace({key}, '{{}}', '*') WHEN i <= 30 THEN batch_delete({key})
                WHEN i <= 45 THEN batch_merge({key}, '{{\"c\": 1}}', '*') WHEN i <= 65 THEN batch_insert_or_merge({key}, '{{\"d\": 1}}')
                WHEN i <= 85 THEN batch_insert({key}, '{{}}') ELSE batch_insert_or_replace({key}, '{{\"e\": 1}}') END"
        ));
        assert!(mixed <= 10, "100 operations of all kinds: {mixed}");
        // If the kinds alternate, there are as many statements as runs.
        let worst = statements(&format!(
            "CASE WHEN i % 2 = 0 THEN batch_insert_or_merge({key}, '{{}}') ELSE batch_insert_or_replace({key}, '{{}}') END"
        ));
        assert_eq!(worst, 100);
    }
}
