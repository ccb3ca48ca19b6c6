//! One attempt of a batch. Operations on existing entities first lock them and then write only the rows that the lock returned. No statement
//! raises an error of the service. Failures are collected, and the one of the operation with the lowest index is raised.

use std::collections::HashMap;

use table_service_model::batch::{Action, Attempts, Operation, Undone};
use table_service_model::{Entity, Error, IfMatch, Properties, PropertiesBuf, Ticks, key};

use super::order::{Looked, Run, Step, by_key, runs};
use crate::engine::attempts::{ClockReading, InTheWay, not_inserted, remove_expired, suppressed};
use crate::engine::write::with_primary_key;
use crate::postgres::{Array, Bag, Connection, Rows, Text, TextArg, Tuple, Value, connect};
use crate::storage::arguments::KeyTexts;
use crate::storage::direct;
use crate::storage::expiry::Expiries;
use crate::storage::row::broken;
use crate::storage::statement::{Kind, Statement, UpdateMode, WriteMany};
use crate::storage::table::Table;

/// The new Timestamps in the order of the operations. A delete has `None`.
pub type Timestamps = Vec<Option<i64>>;

/// An entity that is stored, but not locked.
struct Found {
    timestamp: i64,
    has_expired: bool,
}

/// Why an attempt failed.
pub enum Failed {
    /// The batch fails.
    Batch(Error),
    Undone(Undone),
}

impl From<Undone> for Failed {
    fn from(undone: Undone) -> Failed {
        Failed::Undone(undone)
    }
}

/// One attempt to execute the operations of a batch.
pub struct BatchAttempt<'a> {
    table: &'a Table,
    partition_key: TextArg<'a>,
    operations: &'a [Operation<'a>],
    earlier: &'a Attempts,
    expiries: Expiries,
    /// The latest Timestamp of an earlier version.
    latest: Option<i64>,
    timestamps: Timestamps,
    failure: Option<(usize, Error)>,
}

impl<'a> BatchAttempt<'a> {
    /// Makes an attempt after earlier ones.
    pub fn new(
        table: &'a Table,
        partition_key: TextArg<'a>,
        operations: &'a [Operation<'a>],
        earlier: &'a Attempts,
    ) -> BatchAttempt<'a> {
        BatchAttempt {
            table,
            partition_key,
            operations,
            earlier,
            expiries: Expiries::of(table),
            latest: earlier.latest(),
            timestamps: vec![None; operations.len()],
            failure: None,
        }
    }

    /// Executes the operations.
    ///
    /// # Errors
    /// The error of the failed operation with the lowest index, as an error of the batch; or why another attempt is needed.
    pub fn run(mut self) -> Result<Timestamps, Failed> {
        let steps = by_key(self.operations);
        let looked = self.look_first(&steps);
        for (run, mut steps) in runs(&steps, &looked, !self.expiries.is_empty()) {
            // After a failure, only an operation with a lower index can change the outcome.
            steps.retain(|step| self.matters(step.index));
            if steps.is_empty() {
                continue;
            }
            match run {
                Run::Insert => self.insert(&steps)?,
                Run::InsertOverExpired => self.insert_over_expired(&steps)?,
                Run::Upsert(change) => self.upsert(&steps, change)?,
                Run::Existing => self.change(&steps)?,
                Run::New => self.create(&steps)?,
            }
        }
        match self.failure.take() {
            Some((index, error)) if self.is_outdated(index, &error) => Err(Undone::Outdated(index).into()),
            Some((index, error)) => {
                let row_key = self.operations.get(index).map_or("", |operation| &operation.row_key);
                let error = error.of_written(self.partition_key.get(), row_key);
                Err(Failed::Batch(error.at(index)))
            }
            None => Ok(self.timestamps),
        }
    }

    /// Finds out which entities that operations may insert are stored, if separate statements insert and change them.
    fn look_first(&self, steps: &[Step<'a>]) -> Looked {
        let expires = !self.expiries.is_empty();
        let keys: Vec<_> = steps
            .iter()
            .filter(|step| step.needs_look(expires))
            .map(Step::row_key)
            .collect();
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

    /// Returns which of these entities are stored now, by RowKey, under a new snapshot.
    fn look<'c>(&self, spi: &'c Connection, keys: impl ExactSizeIterator<Item = &'a str>) -> HashMap<&'c str, Found> {
        let keys = Array::of_texts(keys);
        if self.expiries.is_empty() {
            let rows = spi.run(
                self.table.name(),
                &Statement::of_row_keys(Kind::LookMany, self.partition_key(), &keys),
            );
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
            &Statement::of_row_keys(Kind::LookEntities, self.partition_key(), &keys),
        );
        let found = |stored: Stored<'_>| Found {
            timestamp: stored.timestamp,
            has_expired: stored.has_expired,
        };
        let stored = entities(&rows, &self.expiries);
        stored.into_iter().map(|(key, stored)| (key, found(stored))).collect()
    }

    /// Returns whether the operation that failed would not fail any more.
    fn is_outdated(&self, index: usize, error: &Error) -> bool {
        let (Some(operation), Some(exists)) = (self.operations.get(index), self.earlier.in_doubt(index, error)) else {
            return false;
        };
        if !key::within_limits(self.partition_key.get(), &operation.row_key) || !direct::may_read(self.table) {
            return false;
        }
        connect(|spi| {
            let found = self.look(spi, [&*operation.row_key].into_iter());
            found.values().any(|found| !found.has_expired) != exists
        })
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
    fn insert(&mut self, run: &[Step<'a>]) -> Result<(), Failed> {
        let bags = run.iter().map(|step| step.operation.properties());
        let unwritten = connect(|spi| self.write_bags(spi, WriteMany::Insert, None, run, bags))?;
        if let Some(first) = unwritten.into_iter().min_by_key(|step| step.index) {
            self.fail_to_insert(first, first.operation.properties());
        }
        Ok(())
    }

    /// Inserts entities in place of expired ones.
    fn insert_over_expired(&mut self, run: &[Step<'a>]) -> Result<(), Failed> {
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
    fn upsert(&mut self, run: &[Step<'a>], change: UpdateMode) -> Result<(), Failed> {
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
        let rows = spi.run(
            self.table.name(),
            &Statement::of_row_keys(Kind::LockMany, self.partition_key(), &key),
        );
        match entities(&rows, &self.expiries).values().next() {
            Some(stored) => {
                let changed = step.operation.changed(&stored.entity(self.partition_key.get(), step));
                changed.err().unwrap_or_else(suppressed)
            }
            None => suppressed(),
        }
    }

    /// Changes and deletes entities that exist. It locks them in key order, checks each operation, and writes the locked rows.
    fn change(&mut self, run: &[Step<'a>]) -> Result<(), Failed> {
        let (known, unknown): (Vec<_>, Vec<_>) = run
            .iter()
            .copied()
            .partition(|step| key::within_limits(self.partition_key.get(), step.row_key()));
        for step in unknown {
            self.fail(step.index, Error::EntityNotFound);
        }
        connect(|spi| {
            let keys = Array::of_texts(known.iter().map(Step::row_key));
            let rows = spi.run(
                self.table.name(),
                &Statement::of_row_keys(Kind::LockMany, self.partition_key(), &keys),
            );
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
                        // The entity was deleted after the first look-up.
                        None if step.operation.may_insert() && !self.earlier.are_over(step.index) => {
                            return Err(Undone::Outdated(step.index).into());
                        }
                        None if step.operation.may_insert() => self.fail(step.index, suppressed()),
                        None => self.fail(step.index, Error::EntityNotFound),
                        // The previous attempt found the same version, so no concurrent write prevents the lock.
                        Some(timestamp) if self.earlier.have_seen((step.index, timestamp)) => {
                            self.fail(step.index, suppressed());
                        }
                        Some(timestamp) => moved.push((step.index, timestamp)),
                    }
                }
                if !moved.is_empty() {
                    return Err(Undone::Moved(moved).into());
                }
            }
            self.write_locked(spi, &known, &locked)
        })
    }

    /// Inserts the missing entities of operations that may insert.
    fn create(&mut self, run: &[Step<'a>]) -> Result<(), Failed> {
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
        if !self.earlier.are_over(first.index) {
            return Err(Undone::Outdated(first.index).into());
        }
        if let Some((_, bag)) = created.iter().zip(&bags).find(|(step, _)| step.index == first.index) {
            self.fail_to_insert(first, bag.as_properties());
        }
        Ok(())
    }

    /// Checks the operations on locked entities, and writes these. If locks do not last, it writes only entities that
    /// still have the locked versions.
    fn write_locked(
        &mut self,
        spi: &Connection,
        steps: &[Step<'a>],
        locked: &HashMap<&str, Stored<'_>>,
    ) -> Result<(), Failed> {
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
        let entities_stay = self.table.entities_stay();
        let versions = |steps: &[Step<'_>]| (!entities_stay).then(|| Array::of_timestamps(steps.iter().map(version)));
        let mut unwritten = Vec::new();
        if !replaced.is_empty() {
            let bags = bags.iter().map(PropertiesBuf::as_properties);
            let versions = versions(&replaced);
            unwritten = self.write_bags(spi, WriteMany::Replace, versions.as_ref(), &replaced, bags)?;
        }
        if !deleted.is_empty() {
            let keys = Array::of_texts(deleted.iter().map(Step::row_key));
            let versions = versions(&deleted);
            let statement = Statement::delete_many(self.partition_key(), &keys, versions.as_ref());
            let rows = spi.run(self.table.name(), &statement);
            let gone: Vec<&str> = rows.iter().map(|row| row_key(&row, 1)).collect();
            unwritten.extend(deleted.iter().filter(|step| !gone.contains(&step.row_key())));
        }
        let mut moved = Vec::new();
        for step in unwritten {
            let version = (step.index, version(&step));
            // If the previous attempt failed with the same version, the shard has not moved.
            if !entities_stay && !self.earlier.have_seen(version) {
                moved.push(version);
            } else {
                self.fail(step.index, suppressed());
            }
        }
        if moved.is_empty() {
            Ok(())
        } else {
            Err(Undone::Moved(moved).into())
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
    ) -> Result<Vec<Step<'a>>, Failed> {
        let stamp = ClockReading::after(self.latest);
        let (table, partition_key) = (self.table.name(), self.partition_key());
        let rows = if write != WriteMany::Replace && !self.table.inserts_arrays() {
            let keys = run.iter().map(|step| Text::new(step.row_key()));
            let rows: Vec<_> = keys.zip(bags.map(Bag::new)).collect();
            spi.run(table, &Statement::write_rows(write, partition_key, stamp.clock, &rows))
        } else {
            let keys = Array::of_texts(run.iter().map(Step::row_key));
            let bags = Array::of_bags(bags);
            let kind = versions.map_or(Kind::WriteMany(write), |_| Kind::ReplaceVersions);
            let statement = Statement::of_arrays(kind, partition_key, &keys, stamp.clock, &bags);
            spi.run(table, &statement.with(versions.map(Array::value)))
        };
        let written = timestamps(&rows);
        let mut unwritten = Vec::new();
        for &step in run {
            match written.get(step.row_key()) {
                Some(&timestamp) => {
                    let settled = stamp.settle_key(self.table, self.partition_key, step.row_key(), timestamp);
                    self.timestamps[step.index] = Some(settled.map_err(Undone::Late)?);
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
