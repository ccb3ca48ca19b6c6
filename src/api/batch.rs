//! Entity group transactions: all operations on one partition succeed, or none.

use std::ffi::CStr;

use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::batch::{Action, Batch, Operation, PatchArguments};
use table_service_model::key::{self, PARTITION_KEY};

use super::results::BatchResults;
use crate::engine::batch;
use crate::postgres::{
    Call, OrRaise, PropertiesArg, Text, TextArg, TextArrayArg, Value, etag, filter_dialect, raising,
};
use crate::storage::arguments::{self, prevent_if_read_only, required};
use crate::storage::batch_operation::{BatchOperationOut, BatchOperationsArg};
use crate::storage::result_set::ResultSet;
use crate::storage::table::{Table, TableLock};

/// Executes up to 100 operations on one partition: all of them, or none if one fails. Returns the new ETags in the
/// order of the operations, with NULL for a delete.
///
/// Raises the error of the failed operation with the lowest index. The index precedes the error's message.
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
    call: Call<'_>,
) -> BatchResults {
    raising(|| {
        let (table_name, partition_key) = target(c"execute_batch()", table_name, partition_key)?;
        let operations = required("operations", operations)?;
        let rows = operations.0.iter();
        let rows = rows.map(|row| required("An operation", row.as_ref())?.operation());
        let batch = Batch::new(partition_key.get(), rows)?;
        execute(table_name, partition_key, &batch, call)
    })
}

/// Executes a batch that is given as JSON, for drivers: an array of `{"<operation>": {entity}, "if_match": "…"}`.
#[pg_extern]
fn execute_batch_json(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    operations: Option<TextArg<'_>>,
    call: Call<'_>,
) -> BatchResults {
    raising(|| {
        let (table_name, partition_key) = target(c"execute_batch_json()", table_name, partition_key)?;
        let batch = Batch::parse(
            partition_key.get(),
            required("operations", operations)?.get(),
            filter_dialect(),
        )?;
        execute(table_name, partition_key, &batch, call)
    })
}

/// Makes an insert for `execute_batch`.
#[pg_extern(immutable, parallel_safe)]
fn batch_insert(row_key: Option<TextArg<'_>>, properties: Option<PropertiesArg<'_>>) -> BatchOperationOut {
    operation(Action::Insert.name(), row_key, properties, None)
}

/// Makes a replace for `execute_batch`. `if_match` is the ETag that the entity must have, or `*` for any.
#[pg_extern(immutable, parallel_safe)]
fn batch_replace(
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> BatchOperationOut {
    operation(Action::Replace.name(), row_key, properties, if_match)
}

/// Makes a merge for `execute_batch`. `if_match` is the ETag that the entity must have, or `*` for any.
#[pg_extern(immutable, parallel_safe)]
fn batch_merge(
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> BatchOperationOut {
    operation(Action::Merge.name(), row_key, properties, if_match)
}

/// Makes an insert-or-replace for `execute_batch`.
#[pg_extern(immutable, parallel_safe)]
fn batch_insert_or_replace(row_key: Option<TextArg<'_>>, properties: Option<PropertiesArg<'_>>) -> BatchOperationOut {
    operation(Action::InsertOrReplace.name(), row_key, properties, None)
}

/// Makes an insert-or-merge for `execute_batch`.
#[pg_extern(immutable, parallel_safe)]
fn batch_insert_or_merge(row_key: Option<TextArg<'_>>, properties: Option<PropertiesArg<'_>>) -> BatchOperationOut {
    operation(Action::InsertOrMerge.name(), row_key, properties, None)
}

/// Makes a delete for `execute_batch`. `if_match` is the ETag that the entity must have, or `*` for any.
#[pg_extern(immutable, parallel_safe)]
fn batch_delete(row_key: Option<TextArg<'_>>, if_match: default!(Option<TextArg<'_>>, "'*'")) -> BatchOperationOut {
    operation(Action::Delete.name(), row_key, None, if_match)
}

/// Makes a patch for `execute_batch`. The arguments are those of `patch_entity`.
#[allow(clippy::too_many_arguments)]
#[pg_extern(immutable, parallel_safe)]
fn batch_patch(
    row_key: Option<TextArg<'_>>,
    properties: default!(Option<PropertiesArg<'_>>, "NULL"),
    increment: default!(Option<PropertiesArg<'_>>, "NULL"),
    remove: default!(Option<TextArrayArg<'_>>, "NULL"),
    condition: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    if_match: default!(Option<TextArg<'_>>, "'*'"),
    create_missing: default!(Option<bool>, "false"),
) -> BatchOperationOut {
    let [increment, parameters] = [increment, parameters].map(|bag| bag.map(|bag| bag.get()));
    let arguments = PatchArguments {
        increment,
        remove: arguments::names(remove.as_ref()),
        condition: condition.map(TextArg::get),
        parameters,
        create_missing: required("create_missing", create_missing).or_raise(),
    };
    operation(&arguments.pack(), row_key, properties, if_match)
}

fn operation(
    name: &str,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> BatchOperationOut {
    let bag = properties.map(|properties| properties.get());
    let (row_key_text, tag) = (row_key.map(TextArg::get), if_match.map(TextArg::get));
    Operation::new(Some(name), row_key_text, bag, tag, filter_dialect()).or_raise();
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
    call: Call<'_>,
) -> Result<BatchResults, Error> {
    key::check_characters(PARTITION_KEY, partition_key.get()).map_err(|error| error.at(0))?;
    let table = Table::open(table_name, TableLock::Write).map_err(|error| error.at(0))?;
    batch.check_limits(partition_key.get())?;
    let timestamps = batch::write(&table, partition_key, batch)?;
    let mut result = ResultSet::open(call);
    // Entities that one statement inserts have the same Timestamp, so most ETags repeat the one before.
    let mut last: Option<(i64, Text)> = None;
    for ((index, operation), timestamp) in (0..).zip(batch.operations()).zip(timestamps) {
        if let Some(timestamp) = timestamp
            && last.as_ref().is_none_or(|&(of, _)| of != timestamp)
        {
            last = Some((timestamp, Text::new(&etag(timestamp))));
        }
        let tag = last.as_ref().filter(|_| timestamp.is_some());
        let row_key = Text::new(&operation.row_key);
        result.push([
            Some(Value::int4(index)),
            Some(row_key.value()),
            tag.map(|(_, tag)| tag.value()),
        ]);
    }
    Ok(BatchResults)
}
