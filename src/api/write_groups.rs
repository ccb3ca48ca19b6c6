//! Independent writes in one transaction: each has its own outcome.

use pgrx::prelude::*;
use table_service_model::Error;

use super::results::WriteOutcomes;
use crate::engine::write_group::{GroupedWrite, MOST_WRITES, Outcome, write_group};
use crate::postgres::{Call, Text, TextArg, TextArrayArg, Texts, Value, etag, raising};
use crate::storage::arguments::{EntityKeys, prevent_if_read_only, required};
use crate::storage::batch_operation::{BatchOperationRow, BatchOperationsArg};
use crate::storage::result_set::ResultSet;

/// Executes up to 32 operations on a table, in their order, each as its single call would. `partition_keys` has the
/// PartitionKey of each. The outcome of one is `done`, with its ETag; `failed`, with its error; or `alone`, if only
/// the single call can execute it: nothing of it is written then.
///
/// Raises `TableNotFound`, `InvalidInput`, and errors that concern the session or the server: then nothing is written.
#[pg_extern]
fn write_entities(
    table_name: Option<TextArg<'_>>,
    partition_keys: Option<TextArrayArg<'_>>,
    operations: Option<BatchOperationsArg<'_>>,
    call: Call<'_>,
) -> WriteOutcomes {
    raising(|| {
        let table_name = required("table_name", table_name)?.get();
        let partition_keys = required("partition_keys", partition_keys)?;
        let operations = required("operations", operations)?.0;
        prevent_if_read_only(c"write_entities()");
        if operations.len() > MOST_WRITES {
            return Err(Error::argument(format!("A call has at most {MOST_WRITES} operations")));
        }
        if partition_keys.len() != operations.len() {
            return Err(Error::argument(
                "partition_keys has one PartitionKey for each operation",
            ));
        }
        let pairs = partition_keys.iter().zip(&operations);
        let writes: Vec<_> = pairs.map(|(key, row)| grouped_write(key, row.as_ref())).collect();
        let outcomes = write_group(table_name, writes)?;
        let mut result = ResultSet::open(call);
        for (index, outcome) in (0..).zip(outcomes) {
            push(&mut result, index, &outcome);
        }
        Ok(WriteOutcomes)
    })
}

fn grouped_write<'a>(
    partition_key: Option<TextArg<'a>>,
    row: Option<&BatchOperationRow<'a>>,
) -> Result<GroupedWrite<'a>, Error> {
    let row = required("An operation", row)?;
    let keys = EntityKeys::new(partition_key, row.row_key)?;
    Ok(GroupedWrite {
        keys,
        properties: row.properties,
        operation: row.operation()?,
    })
}

fn push(result: &mut ResultSet<'_>, index: i32, outcome: &Outcome) {
    let (name, tag, error) = match outcome {
        Outcome::Done(timestamp) => ("done", timestamp.map(|timestamp| Text::new(&etag(timestamp))), None),
        Outcome::Failed(error) => ("failed", None, Some(Texts::of(error))),
        Outcome::Alone => ("alone", None, None),
    };
    let name = Text::new(name);
    let texts = error.map_or([const { None }; 4], Texts::into_array);
    let texts = texts.map(|text| text.map(|text| Text::new(&text)));
    let [sqlstate, message, detail, hint] = texts.each_ref().map(|text| text.as_ref().map(Text::value));
    let tag = tag.as_ref().map(Text::value);
    result.push([
        Some(Value::int4(index)),
        Some(name.value()),
        tag,
        sqlstate,
        message,
        detail,
        hint,
    ]);
}
