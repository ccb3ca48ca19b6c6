//! Entity group transactions: all operations on one partition, or none.
//!
//! Rows are locked in key order whatever the order of the operations, so that two batches cannot deadlock: the
//! operations are sorted, and runs of neighbours of one kind are one statement each. An operation on an existing entity
//! first locks it, and writes only what the lock returned. No statement raises an error of the service; failures are
//! collected, and the one of the operation with the lowest index is raised.

use std::collections::HashMap;
use std::ffi::CStr;
use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;
use table_service_model::batch::{Action, Batch, Operation};
use table_service_model::etag::IfMatch;
use table_service_model::key::{self, PARTITION_KEY};
use table_service_model::{Error, Properties, PropertiesBuf, Ticks, entity};

use crate::arguments::{Keys, prevent_if_read_only, required};
use crate::catalog;
use crate::clock::{etag, now};
use crate::direct::{self, Purpose};
use crate::error::OrRaise;
use crate::result_set::{BatchResults, ResultSet};
use crate::spi::{self, Connection, Rows, Statement, connect};
use crate::tables::{Access, Table};
use crate::types::{BatchOperationOut, BatchOperationsArg, PropertiesArg, TextArg, varlena, varlenas};
use crate::writes::{not_inserted, suppressed};

/// Executes up to 100 operations on one partition: all of them or, with an error, none. Returns the new ETags in the
/// order of the operations, NULL for a delete.
///
/// Raises the error of the operation with the lowest index, which stands before its message.
#[pg_extern(sql = "
CREATE FUNCTION table_service.execute_batch(
    table_name text, partition_key text, VARIADIC operations table_service.batch_operation[])
RETURNS TABLE (index integer, row_key text, etag text)
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn execute_batch(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    operations: Option<BatchOperationsArg<'_>>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> BatchResults {
    let execute = || {
        let (table_name, partition_key) = target(c"execute_batch()", table_name, partition_key)?;
        let operations = required("operations", operations)?;
        let rows = operations.rows().iter().map(|row| {
            let row = required("An operation", *row)?;
            let properties = row.properties.map(|properties| properties.get());
            let [operation, row_key, if_match] =
                [row.operation, row.row_key, row.if_match].map(|text| text.map(TextArg::get));
            Operation::new(operation, row_key, properties, if_match)
        });
        let batch = Batch::new(partition_key.get(), rows)?;
        execute(table_name, partition_key, &batch, fcinfo)
    };
    execute().or_raise()
}

/// `execute_batch` for drivers: the operations are a JSON array of `{"<operation>": {entity}, "if_match": "…"}`.
#[pg_extern]
fn execute_batch_json(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    operations: Option<TextArg<'_>>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> BatchResults {
    let execute = || {
        let (table_name, partition_key) = target(c"execute_batch_json()", table_name, partition_key)?;
        let batch = Batch::parse(partition_key.get(), required("operations", operations)?.get())?;
        execute(table_name, partition_key, &batch, fcinfo)
    };
    execute().or_raise()
}

/// An insert for `execute_batch`.
#[pg_extern(immutable, parallel_safe)]
fn batch_insert(row_key: Option<TextArg<'_>>, properties: Option<PropertiesArg<'_>>) -> BatchOperationOut {
    operation(Action::Insert, row_key, properties, None)
}

/// A replace for `execute_batch`, of the version with the ETag `if_match`, or `*` for any.
#[pg_extern(immutable, parallel_safe)]
fn batch_replace(
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> BatchOperationOut {
    operation(Action::Replace, row_key, properties, if_match)
}

/// A merge for `execute_batch`, into the version with the ETag `if_match`, or `*` for any.
#[pg_extern(immutable, parallel_safe)]
fn batch_merge(
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> BatchOperationOut {
    operation(Action::Merge, row_key, properties, if_match)
}

/// An insert or replace for `execute_batch`.
#[pg_extern(immutable, parallel_safe)]
fn batch_insert_or_replace(row_key: Option<TextArg<'_>>, properties: Option<PropertiesArg<'_>>) -> BatchOperationOut {
    operation(Action::InsertOrReplace, row_key, properties, None)
}

/// An insert or merge for `execute_batch`.
#[pg_extern(immutable, parallel_safe)]
fn batch_insert_or_merge(row_key: Option<TextArg<'_>>, properties: Option<PropertiesArg<'_>>) -> BatchOperationOut {
    operation(Action::InsertOrMerge, row_key, properties, None)
}

/// A delete for `execute_batch`, of the version with the ETag `if_match`, or `*` for any.
#[pg_extern(immutable, parallel_safe)]
fn batch_delete(row_key: Option<TextArg<'_>>, if_match: default!(Option<TextArg<'_>>, "'*'")) -> BatchOperationOut {
    operation(Action::Delete, row_key, None, if_match)
}

fn operation(
    action: Action,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> BatchOperationOut {
    let bag = properties.map(|properties| properties.get());
    let name = action.name();
    Operation::new(Some(name), row_key.map(TextArg::get), bag, if_match.map(TextArg::get)).or_raise();
    BatchOperationOut::new(name, row_key, properties, if_match)
}

fn target<'a>(
    function: &CStr,
    table_name: Option<TextArg<'a>>,
    partition_key: Option<TextArg<'a>>,
) -> Result<(&'a str, TextArg<'a>), Error> {
    let table_name = required("table_name", table_name)?.get();
    let partition_key = partition_key.ok_or(Error::KeyMissing { key: PARTITION_KEY })?;
    prevent_if_read_only(function);
    Ok((table_name, partition_key))
}

fn execute(
    table_name: &str,
    partition_key: TextArg<'_>,
    batch: &Batch<'_>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<BatchResults, Error> {
    key::check_characters(PARTITION_KEY, partition_key.get()).map_err(|error| error.at(0))?;
    let table = Table::open(table_name, Access::Write).map_err(|error| error.at(0))?;
    batch.check_limits(partition_key.get())?;
    let timestamps = write(&table, partition_key, batch)?;
    // SAFETY: the functions return TABLE (index integer, row_key text, etag text).
    let mut result = unsafe { ResultSet::open(fcinfo) };
    let row_keys: Vec<_> = batch
        .operations()
        .iter()
        .map(|operation| operation.row_key.as_bytes())
        .collect();
    // What is inserted together has one Timestamp.
    let mut last = None;
    let rows: Vec<_> = varlenas(&row_keys)
        .into_iter()
        .zip(timestamps)
        .enumerate()
        .map(|(index, (row_key, timestamp))| {
            let tag = timestamp.map(|timestamp| match last {
                Some((of, tag)) if of == timestamp => tag,
                _ => last.insert((timestamp, varlena(etag(timestamp).as_bytes()))).1,
            });
            [Some(pg_sys::Datum::from(index as i32)), Some(row_key), tag]
        })
        .collect();
    // SAFETY: as above.
    unsafe { result.push_all(&rows) };
    Ok(BatchResults)
}

/// The new Timestamps in the order of the operations, `None` for a delete.
type Timestamps = Vec<Option<i64>>;

/// Why an attempt came to nothing.
enum Failure {
    Error(Error),
    /// Entities were deleted and inserted again while we waited for them: only a new attempt can lock them in order.
    Moved(Vec<Version>),
}

/// The index of an operation, and the Timestamp of the entity that it found.
type Version = (usize, i64);

fn write(table: &Table, partition_key: TextArg<'_>, batch: &Batch<'_>) -> Result<Timestamps, Error> {
    if let Some(timestamps) = insert_directly(table, partition_key, batch.operations()) {
        return Ok(timestamps);
    }
    let mut seen = Vec::new();
    loop {
        let attempt = || Attempt::new(table, partition_key.get(), batch.operations(), &seen).run();
        // Only operations on existing entities may need another attempt, which must give back the locks of this one.
        let conditional = batch
            .operations()
            .iter()
            .any(|operation| operation.action.is_conditional());
        let outcome = if conditional {
            spi::in_subtransaction(AssertUnwindSafe(attempt)).unwrap_or_else(|error| error.rethrow())
        } else {
            attempt()
        };
        match outcome {
            Ok(timestamps) => return Ok(timestamps),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::Moved(versions)) => {
                seen = versions;
                pgrx::check_for_interrupts!();
            }
        }
    }
}

/// Fewer operations are not worth a subtransaction.
const WORTH_IT: usize = 8;

/// Beyond so many subtransactions of one transaction, PostgreSQL keeps them where all sessions have to look them up.
const SUBTRANSACTIONS: u8 = 48;

/// A batch of inserts, if the table allows it and all of them succeed. They are inserted in key order, so that it waits for
/// others in the order in which everything else does.
fn insert_directly(table: &Table, partition_key: TextArg<'_>, operations: &[Operation<'_>]) -> Option<Timestamps> {
    // SAFETY: the entry of this process in shared memory, of which it alone writes this part.
    let subtransactions = unsafe { (*pg_sys::MyProc).subxidStatus };
    let is_insert = |operation: &Operation<'_>| operation.action == Action::Insert;
    if operations.len() < WORTH_IT
        || !operations.iter().all(is_insert)
        || subtransactions.overflowed
        || subtransactions.count >= SUBTRANSACTIONS
    {
        return None;
    }
    let mut entities: Vec<_> = operations
        .iter()
        .map(|operation| (&*operation.row_key, operation.properties()))
        .collect();
    entities.sort_unstable_by_key(|&(row_key, _)| row_key);
    let clock = now();
    direct::with(table, Purpose::Insert, |table| {
        let insert = || table.insert_many(partition_key, &entities, clock).ok_or(());
        match spi::in_subtransaction(AssertUnwindSafe(insert)) {
            Ok(inserted) => inserted.ok(),
            Err(error) if spi::sqlerrcode(&error) == PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION => None,
            Err(error) => error.rethrow(),
        }
    })?;
    Some(vec![Some(clock); operations.len()])
}

/// The statements that operations of neighbouring keys can share.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Insert,
    InsertOrReplace,
    InsertOrMerge,
    /// Replace, merge and delete.
    Existing,
}

impl Run {
    fn of(action: Action) -> Run {
        match action {
            Action::Insert => Run::Insert,
            Action::InsertOrReplace => Run::InsertOrReplace,
            Action::InsertOrMerge => Run::InsertOrMerge,
            Action::Replace | Action::Merge | Action::Delete => Run::Existing,
        }
    }
}

/// One operation and its place in the batch.
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

struct Attempt<'a> {
    table: &'a Table,
    partition_key: &'a str,
    /// In key order.
    steps: Vec<Step<'a>>,
    /// What the attempt before this one found and could not lock.
    seen: &'a [Version],
    timestamps: Timestamps,
    failure: Option<(usize, Error)>,
}

impl<'a> Attempt<'a> {
    fn new(
        table: &'a Table,
        partition_key: &'a str,
        operations: &'a [Operation<'a>],
        seen: &'a [Version],
    ) -> Attempt<'a> {
        let mut steps: Vec<_> = operations
            .iter()
            .enumerate()
            .map(|(index, operation)| Step { index, operation })
            .collect();
        steps.sort_unstable_by_key(Step::row_key);
        Attempt {
            table,
            partition_key,
            steps,
            seen,
            timestamps: vec![None; operations.len()],
            failure: None,
        }
    }

    fn run(mut self) -> Result<Timestamps, Failure> {
        let steps = std::mem::take(&mut self.steps);
        for run in steps.chunk_by(|a, b| Run::of(a.operation.action) == Run::of(b.operation.action)) {
            // Behind a failure nothing matters but an earlier one.
            let run: Vec<_> = run.iter().copied().filter(|step| self.matters(step.index)).collect();
            let Some(first) = run.first() else { continue };
            match Run::of(first.operation.action) {
                Run::Insert => self.insert(&run, Statement::InsertMany),
                Run::InsertOrReplace => self.insert(&run, Statement::InsertOrReplaceMany),
                Run::InsertOrMerge => self.insert(&run, Statement::InsertOrMergeMany),
                Run::Existing => self.change(&run)?,
            }
        }
        match self.failure {
            Some((index, error)) => Err(Failure::Error(error.at(index))),
            None => Ok(self.timestamps),
        }
    }

    fn matters(&self, index: usize) -> bool {
        self.failure.as_ref().is_none_or(|(lowest, _)| index < *lowest)
    }

    fn fail(&mut self, index: usize, error: Error) {
        if self.matters(index) {
            self.failure = Some((index, error));
        }
    }

    /// Inserts and upserts. What is not returned was not written; of that, the first operation is the failure.
    fn insert(&mut self, run: &[Step<'a>], statement: Statement) {
        let bags = run.iter().map(|step| step.operation.properties());
        let unwritten = connect(|spi| self.write_bags(spi, statement, run, bags));
        let Some(first) = unwritten.into_iter().min_by_key(|step| step.index) else {
            return;
        };
        let error = match statement {
            Statement::InsertMany => {
                let keys = Keys::of(self.partition_key, first.row_key());
                not_inserted(self.table, keys, first.operation.properties())
            }
            Statement::InsertOrMergeMany => connect(|spi| self.merge_error(spi, first)),
            _ => suppressed(),
        };
        self.fail(first.index, error);
    }

    /// Why an insert or merge did not write an entity that it holds locked.
    fn merge_error(&self, spi: &Connection, step: Step<'a>) -> Error {
        let rows = spi.run(
            Statement::LockMany,
            self.table,
            [self.partition_key(), text_array([step.row_key()])],
        );
        match entities(&rows).values().next() {
            Some(stored) => merge(self.partition_key, step, stored.properties)
                .err()
                .unwrap_or_else(suppressed),
            None => suppressed(),
        }
    }

    /// Replaces, merges and deletes: first lock, in key order, then decide, then write what was locked.
    fn change(&mut self, run: &[Step<'a>]) -> Result<(), Failure> {
        let (known, unknown): (Vec<_>, Vec<_>) = run
            .iter()
            .copied()
            .partition(|step| key::within_limits(self.partition_key, step.row_key()));
        for step in unknown {
            self.fail(step.index, Error::EntityNotFound);
        }
        connect(|spi| {
            let keys = text_array(known.iter().map(Step::row_key));
            let rows = spi.run(Statement::LockMany, self.table, [self.partition_key(), keys]);
            let locked = entities(&rows);
            let missing: Vec<_> = known
                .iter()
                .filter(|step| !locked.contains_key(step.row_key()))
                .collect();
            if !missing.is_empty() {
                let keys = text_array(missing.iter().map(|step| step.row_key()));
                let rows = spi.run(Statement::LookMany, self.table, [self.partition_key(), keys]);
                let found = timestamps(&rows);
                let mut moved = Vec::new();
                for step in missing {
                    match found.get(step.row_key()) {
                        None => self.fail(step.index, Error::EntityNotFound),
                        // Again the same version: it is not concurrency that keeps us from locking it.
                        Some(&timestamp) if self.seen.contains(&(step.index, timestamp)) => {
                            self.fail(step.index, suppressed());
                        }
                        Some(&timestamp) => moved.push((step.index, timestamp)),
                    }
                }
                if !moved.is_empty() {
                    return Err(Failure::Moved(moved));
                }
            }
            let (mut replaced, mut bags, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
            for &step in &known {
                let Some(stored) = locked.get(step.row_key()) else {
                    continue;
                };
                match outcome(self.partition_key, step, stored) {
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
            if !replaced.is_empty() {
                let bags = bags.iter().map(PropertiesBuf::as_properties);
                for step in self.write_bags(spi, Statement::ReplaceMany, &replaced, bags) {
                    self.fail(step.index, suppressed());
                }
            }
            if !deleted.is_empty() {
                let keys = text_array(deleted.iter().map(Step::row_key));
                let rows = spi.run(Statement::DeleteMany, self.table, [self.partition_key(), keys]);
                let gone: Vec<&str> = rows
                    .tuples()
                    .iter()
                    .filter_map(|&tuple| row_key(&rows, tuple))
                    .collect();
                for step in deleted.iter().filter(|step| !gone.contains(&step.row_key())) {
                    self.fail(step.index, suppressed());
                }
            }
            Ok(())
        })
    }

    /// Runs a statement that takes keys and bags and returns the keys and Timestamps it has written. Notes the
    /// Timestamps; returns the steps that were not written.
    fn write_bags<'b>(
        &mut self,
        spi: &Connection,
        statement: Statement,
        run: &[Step<'a>],
        bags: impl Iterator<Item = Properties<'b>>,
    ) -> Vec<Step<'a>> {
        let keys = text_array(run.iter().map(Step::row_key));
        let bags: Vec<_> = bags.map(|bag| bag.as_bytes()).collect();
        let bags = array(catalog::properties_type(), varlenas(&bags));
        let rows = spi.run(statement, self.table, [self.partition_key(), keys, now().into(), bags]);
        let written = timestamps(&rows);
        let mut unwritten = Vec::new();
        for &step in run {
            match written.get(step.row_key()) {
                Some(&timestamp) => self.timestamps[step.index] = Some(timestamp),
                None => unwritten.push(step),
            }
        }
        unwritten
    }

    fn partition_key(&self) -> pg_sys::Datum {
        varlena(self.partition_key.as_bytes())
    }
}

/// An entity as it is stored and locked.
struct Stored<'a> {
    timestamp: i64,
    properties: Properties<'a>,
}

/// What the entity will be, `None` when it is deleted. Limits come after the condition (semantics 0.2).
fn outcome(partition_key: &str, step: Step<'_>, stored: &Stored<'_>) -> Result<Option<PropertiesBuf>, Error> {
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
        Action::Merge => merge(partition_key, step, stored.properties).map(Some),
        _ => Ok(Some(step.operation.properties().to_buf())),
    }
}

fn merge(partition_key: &str, step: Step<'_>, stored: Properties<'_>) -> Result<PropertiesBuf, Error> {
    let merged = stored.merge(step.operation.properties())?;
    entity::check_size(partition_key, step.row_key(), merged.as_properties())?;
    Ok(merged)
}

/// The rows of a statement that selects entities, by RowKey.
fn entities<'a>(rows: &'a Rows) -> HashMap<&'a str, Stored<'a>> {
    let entity = |&tuple: &pg_sys::HeapTuple| {
        // SAFETY: the fourth column is a bag, which lives as long as the rows.
        let properties = unsafe { PropertiesArg::from_datum(rows.value(tuple, 4)?, false)? };
        let stored = Stored {
            timestamp: rows.value(tuple, 3)?.value() as i64,
            properties: properties.get(),
        };
        let key = rows.value(tuple, 2)?;
        // SAFETY: the second column is text, which lives as long as the rows.
        Some((unsafe { <&str>::from_datum(key, false)? }, stored))
    };
    rows.tuples().iter().filter_map(entity).collect()
}

/// The rows of a statement that returns Timestamps, by RowKey.
fn timestamps(rows: &Rows) -> HashMap<&str, i64> {
    let timestamp = |&tuple: &pg_sys::HeapTuple| Some((row_key(rows, tuple)?, rows.value(tuple, 2)?.value() as i64));
    rows.tuples().iter().filter_map(timestamp).collect()
}

/// The first column of a row, a RowKey.
fn row_key(rows: &Rows, tuple: pg_sys::HeapTuple) -> Option<&str> {
    let key = rows.value(tuple, 1)?;
    // SAFETY: the first column is text, which lives as long as the rows.
    unsafe { <&str>::from_datum(key, false) }
}

fn text_array<'a>(texts: impl IntoIterator<Item = &'a str>) -> pg_sys::Datum {
    let texts: Vec<_> = texts.into_iter().map(str::as_bytes).collect();
    array(pg_sys::TEXTOID, varlenas(&texts))
}

/// An array of a varlena type with the usual alignment.
fn array(element_type: pg_sys::Oid, mut elements: Vec<pg_sys::Datum>) -> pg_sys::Datum {
    // SAFETY: the elements are datums of that type.
    unsafe {
        pg_sys::construct_array(
            elements.as_mut_ptr(),
            elements.len() as i32,
            element_type,
            -1,
            false,
            pg_sys::TYPALIGN_INT as std::ffi::c_char,
        )
        .into()
    }
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

    /// PostgreSQL calls this for every statement that it begins to execute, ours as well as the one that calls us.
    unsafe extern "C-unwind" fn count(query: *mut pg_sys::QueryDesc, flags: std::ffi::c_int) {
        STARTED.set(STARTED.get() + 1);
        // SAFETY: what PostgreSQL does itself when there is no hook.
        unsafe { pg_sys::standard_ExecutorStart(query, flags) };
    }

    /// How many statements the batch executes that `operations`, an aggregate over i, makes of 1 to 100.
    fn statements(operations: &str) -> usize {
        let sql = format!(
            "SELECT execute_batch('Counted', 'p', VARIADIC array_agg({operations} ORDER BY random())) FROM generate_series(1, 100) AS i"
        );
        // SAFETY: nothing else in this session sets the hook.
        unsafe { pg_sys::ExecutorStart_hook = Some(count) };
        STARTED.set(0);
        Spi::run(&sql).unwrap();
        // SAFETY: as above.
        unsafe { pg_sys::ExecutorStart_hook = None };
        // Our own statement is one of them.
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
        // All six in runs: of the entities, 61 to 100 are taken away to be inserted again.
        Spi::run("DELETE FROM table_service_data.\"Counted\" WHERE row_key > '060'").unwrap();
        let mixed = statements(&format!(
            "CASE WHEN i <= 15 THEN batch_replace({key}, '{{}}', '*') WHEN i <= 30 THEN batch_delete({key})
                WHEN i <= 45 THEN batch_merge({key}, '{{\"c\": 1}}', '*') WHEN i <= 65 THEN batch_insert_or_merge({key}, '{{\"d\": 1}}')
                WHEN i <= 85 THEN batch_insert({key}, '{{}}') ELSE batch_insert_or_replace({key}, '{{\"e\": 1}}') END"
        ));
        assert!(mixed <= 10, "100 operations of all kinds: {mixed}");
        // As many as there are runs, and no more, when the kinds alternate.
        let worst = statements(&format!(
            "CASE WHEN i % 2 = 0 THEN batch_insert_or_merge({key}, '{{}}') ELSE batch_insert_or_replace({key}, '{{}}') END"
        ));
        assert_eq!(worst, 100);
    }
}
