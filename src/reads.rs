//! Reads of entities whose keys are known. They see the caller's snapshot and write nothing, so they also work in READ
//! ONLY transactions and on a standby.

use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::key::{self, PARTITION_KEY, ROW_KEY};
use table_service_model::projection::Projection;

use crate::arguments::{Keys, required};
use crate::direct::{self, Purpose};
use crate::error::OrRaise;
use crate::result_set::{Entities, ResultSet};
use crate::spi::{Rows, Statement, connect};
use crate::tables::{Access, Table};
use crate::types::{PropertiesArg, TextArg, varlena};

/// The entity with these keys, or no row. `projection` is a comma list of the properties to return.
#[pg_extern(stable, parallel_restricted)]
fn get_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    projection: default!(Option<TextArg<'_>>, "NULL"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> Entities {
    let get = || {
        let table_name = required("table_name", table_name)?.get();
        let keys = Keys::new(partition_key, row_key)?;
        let projection = Projection::parse(projection.map_or("", TextArg::get))?;
        let table = Table::open(table_name, Access::Read)?;
        // SAFETY: this function returns SETOF entity.
        let mut result = unsafe { ResultSet::open(fcinfo) };
        if !keys.within_limits() {
            return Ok(Entities);
        }
        let read = direct::with(&table, Purpose::Get, |table| {
            if let Some(row) = table.get(keys) {
                // SAFETY: the row has the attributes of an entity.
                unsafe { result.push_entity(row, &projection) };
            }
            Some(())
        });
        if read.is_none() {
            connect(|spi| {
                let rows = spi.run(Statement::Get, &table, keys.datums());
                push_entities(&mut result, &rows, &projection);
            });
        }
        Ok(Entities)
    };
    get().or_raise()
}

/// Those of the entities with these keys that exist, in key order. `projection` is a comma list of the properties to
/// return.
#[pg_extern(stable, parallel_restricted)]
fn get_entities(
    table_name: Option<&str>,
    partition_key: Option<&str>,
    row_keys: Option<Array<'_, &str>>,
    projection: default!(Option<&str>, "NULL"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> Entities {
    let get = || {
        let table_name = required("table_name", table_name)?;
        let partition_key = partition_key.ok_or(Error::KeyMissing { key: PARTITION_KEY })?;
        key::check_characters(PARTITION_KEY, partition_key)?;
        let mut wanted = Vec::new();
        let row_keys = required("row_keys", row_keys)?;
        for row_key in row_keys.iter() {
            let row_key = row_key.ok_or(Error::KeyMissing { key: ROW_KEY })?;
            key::check_characters(ROW_KEY, row_key)?;
            if key::within_limits(partition_key, row_key) {
                wanted.push(row_key);
            }
        }
        let projection = Projection::parse(projection.unwrap_or_default())?;
        let table = Table::open(table_name, Access::Read)?;
        // SAFETY: this function returns SETOF entity.
        let mut result = unsafe { ResultSet::open(fcinfo) };
        if let Some(wanted) = wanted.into_datum() {
            connect(|spi| {
                let arguments = [varlena(partition_key.as_bytes()), wanted];
                push_entities(
                    &mut result,
                    &spi.run(Statement::GetMany, &table, arguments),
                    &projection,
                );
            });
        }
        Ok(Entities)
    };
    get().or_raise()
}

/// Adds the rows of a statement that selects entities.
fn push_entities(result: &mut ResultSet, rows: &Rows, projection: &Projection) {
    for &tuple in rows.tuples() {
        if matches!(projection, Projection::All) {
            // SAFETY: the statement selects the attributes of an entity.
            unsafe { result.push_tuple(tuple) };
            continue;
        }
        let properties = rows.value(tuple, 4);
        // SAFETY: the fourth column is a bag.
        let properties = properties.and_then(|datum| unsafe { PropertiesArg::from_datum(datum, false) });
        let projected = properties.map(|bag| projection.apply(bag.get()));
        let values = [
            rows.value(tuple, 1),
            rows.value(tuple, 2),
            rows.value(tuple, 3),
            projected.map(|bag| varlena(bag.as_bytes())),
        ];
        // SAFETY: the attributes of an entity.
        unsafe { result.push(values) };
    }
}
