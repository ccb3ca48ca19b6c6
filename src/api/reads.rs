//! Reads of entities by their keys.
//!
//! They use the caller's snapshot and write nothing. So they also work in READ ONLY transactions and on a hot standby.

use pgrx::prelude::*;
use table_service_model::key::{self, PARTITION_KEY, ROW_KEY};
use table_service_model::{Error, Predicate, Projection};

use super::results::{Entities, EntitiesByKeys};
use crate::engine::scan::predicate;
use crate::postgres::{Array, Call, TextArg, TextArrayArg, Value, connect, raising};
use crate::storage::arguments::{EntityKeys, required};
use crate::storage::direct::{Lookup, Reader};
use crate::storage::result_set::ResultSet;
use crate::storage::statement::{Kind, Statement};
use crate::storage::table::{Table, TableLock};

/// Returns the entity with these keys, or no row. `projection` is a comma-separated list of the properties to return.
#[pg_extern(stable, parallel_restricted)]
fn get_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    projection: default!(Option<TextArg<'_>>, "NULL"),
    call: Call<'_>,
) -> Entities {
    raising(|| {
        let table_name = required("table_name", table_name)?.get();
        let keys = EntityKeys::new(partition_key, row_key)?;
        let projection = Projection::parse(projection.map_or("", TextArg::get))?;
        let table = Table::open(table_name, TableLock::Read)?;
        let mut result = ResultSet::open(call);
        if !keys.within_limits() {
            return Ok(Entities);
        }
        let predicate = predicate(&table, None);
        let mut reader = Reader::open(&table, Lookup::Keys(Some(keys.partition_key)));
        let wanted = (&table, predicate.as_ref(), &projection);
        look_up(&mut result, wanted, &mut reader, keys, None);
        Ok(Entities)
    })
}

/// Returns the existing entities among those with these keys, in key order. `projection` is a comma-separated list of
/// the properties to return.
#[pg_extern(stable, parallel_restricted)]
fn get_entities(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_keys: Option<TextArrayArg<'_>>,
    projection: default!(Option<TextArg<'_>>, "NULL"),
    call: Call<'_>,
) -> Entities {
    raising(|| {
        let table_name = required("table_name", table_name)?.get();
        let partition_key = partition_key.ok_or(Error::KeyMissing { key: PARTITION_KEY })?;
        key::check_characters(PARTITION_KEY, partition_key.get())?;
        let row_keys = required("row_keys", row_keys)?;
        let mut wanted = Vec::with_capacity(row_keys.len());
        for row_key in row_keys.iter() {
            let row_key = row_key.ok_or(Error::KeyMissing { key: ROW_KEY })?;
            let row_key = row_key.get();
            key::check_characters(ROW_KEY, row_key)?;
            if key::within_limits(partition_key.get(), row_key) {
                wanted.push(row_key);
            }
        }
        let projection = Projection::parse(projection.map_or("", TextArg::get))?;
        let table = Table::open(table_name, TableLock::Read)?;
        let mut result = ResultSet::open(call);
        let wanted = Array::of_texts(wanted.into_iter());
        let statement = Statement::of_row_keys(Kind::GetMany, Value::text(partition_key), &wanted);
        let predicate = predicate(&table, None);
        read_into(&mut result, (&table, predicate.as_ref(), &projection), &statement, None);
        Ok(Entities)
    })
}

/// Returns the existing entities among those with these pairs of keys, in the order of the pairs, each with the index
/// of its pair. `projection` is a comma-separated list of the properties to return.
#[pg_extern(stable, parallel_restricted)]
fn get_entities_by_keys(
    table_name: Option<TextArg<'_>>,
    partition_keys: Option<TextArrayArg<'_>>,
    row_keys: Option<TextArrayArg<'_>>,
    projection: default!(Option<TextArg<'_>>, "NULL"),
    call: Call<'_>,
) -> EntitiesByKeys {
    raising(|| {
        let table_name = required("table_name", table_name)?.get();
        let partition_keys = required("partition_keys", partition_keys)?;
        let row_keys = required("row_keys", row_keys)?;
        if partition_keys.len() != row_keys.len() {
            return Err(Error::argument(
                "partition_keys and row_keys have as many elements as each other",
            ));
        }
        let pairs = partition_keys.iter().zip(row_keys.iter());
        let pairs: Result<Vec<_>, Error> = pairs.map(|(partition, row)| EntityKeys::new(partition, row)).collect();
        let pairs = pairs?;
        let projection = Projection::parse(projection.map_or("", TextArg::get))?;
        let table = Table::open(table_name, TableLock::Read)?;
        let mut result = ResultSet::open(call);
        let predicate = predicate(&table, None);
        let mut reader = Reader::open(&table, Lookup::Keys(None));
        let wanted = (&table, predicate.as_ref(), &projection);
        for (index, &keys) in (0..).zip(&pairs).filter(|(_, keys)| keys.within_limits()) {
            if table.is_distributed() {
                // Each partition may be in another shard.
                reader = Reader::open(&table, Lookup::Keys(Some(keys.partition_key)));
            }
            look_up(&mut result, wanted, &mut reader, keys, Some(Value::int4(index)));
            pgrx::check_for_interrupts!();
        }
        Ok(EntitiesByKeys)
    })
}

/// A table, the test of its rows, and the properties that are wanted of them.
type Wanted<'w> = (&'w Table, Option<&'w Predicate>, &'w Projection);

/// Adds the entity with these keys to the result, with this in the last column, if it exists and passes.
fn look_up(
    result: &mut ResultSet<'_>,
    wanted: Wanted<'_>,
    reader: &mut Option<Reader>,
    keys: EntityKeys<'_>,
    last: Option<Value<'_>>,
) {
    let (_, predicate, projection) = wanted;
    let Some(reader) = reader else {
        return read_into(result, wanted, &Statement::of_keys(Kind::Get, keys), last);
    };
    if reader.seek(keys) && predicate.is_none_or(|predicate| reader.row().passes(predicate)) {
        result.push_entity(&reader.row(), projection, last);
    }
}

/// Adds the entities that a statement selects, and that pass, to the result, each with this in the last column.
fn read_into(
    result: &mut ResultSet<'_>,
    (table, predicate, projection): Wanted<'_>,
    statement: &Statement<'_>,
    last: Option<Value<'_>>,
) {
    connect(|spi| {
        let mut fetch = spi.fetch(table.name(), statement);
        while let Some(row) = fetch.next_row() {
            if predicate.is_none_or(|predicate| row.passes(predicate)) {
                result.push_entity(&row, projection, last);
            }
        }
    });
}
