//! Create, drop and list property indexes: ordinary indexes by which filters find entities.

use pgrx::prelude::*;
use pgrx::spi::{quote_identifier, quote_literal};
use table_service_model::{Error, property_index, property_name};

use super::results::PropertyIndexes;
use crate::engine::distribution::require_coordinator;
use crate::engine::property_index::{self as engine, index_name};
use crate::postgres::{
    Call, PropertiesArg, RegClass, Text, TextArg, Value, catalog, connect, hold_names, raising, rethrow,
    run_on_new_rows,
};
use crate::storage::arguments::{prevent_if_read_only, required};
use crate::storage::indexes::{KnownIndex, of_index};
use crate::storage::names;
use crate::storage::property_index::{concurrent_creation, qualified_name};
use crate::storage::result_set::ResultSet;
use crate::storage::statement::index_expression;
use crate::storage::table::{Table, TableLock};

/// Returns the entry of an entity in the index on a property: the property's value, in an order that serves filters, and
/// behind it the keys. NULL if the entity lacks the property.
///
/// Indexes on disk consist of these results, so name, arguments and results never change.
#[pg_extern(sql = "
CREATE FUNCTION table_service.property_index_key(partition_key text, row_key text, properties table_service.properties, property text) RETURNS bytea
IMMUTABLE STRICT PARALLEL SAFE COST 50 LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn property_index_key(
    partition_key: TextArg<'_>,
    row_key: TextArg<'_>,
    properties: PropertiesArg<'_>,
    property: TextArg<'_>,
) -> Option<Vec<u8>> {
    property_index::entry(properties.get(), property.get(), partition_key.get(), row_key.get())
}

/// Creates an index on a property of a table, and returns it.
///
/// Raises `ResourceAlreadyExists` if the table has such an index, unless `if_not_exists`. The caller must own the table.
#[pg_extern]
fn create_property_index(
    table_name: Option<TextArg<'_>>,
    property: Option<TextArg<'_>>,
    if_not_exists: default!(Option<bool>, "false"),
) -> RegClass {
    raising(|| {
        let name = required("table_name", table_name)?.get();
        let property = checked(property)?;
        let if_not_exists = required("if_not_exists", if_not_exists)?;
        prevent_if_read_only(c"create_property_index()");
        require_coordinator("Property indexes are created")?;
        let table = Table::open_as_owner(name, TableLock::Define)?;
        if let Some(index) = engine::find(&table, property) {
            return if if_not_exists {
                Ok(RegClass(index.oid))
            } else {
                Err(exists(property))
            };
        }
        hold_names();
        let statement = definition(&table, property, names::take, "CREATE INDEX");
        connect(|spi| {
            spi.run_definition(&statement);
            // The planner knows how often values occur only after this: PostgreSQL does not collect statistics of an
            // expression when it makes an index on it.
            spi.run_definition(&format!("ANALYZE {}", table.name()));
        });
        match engine::find(&table, property) {
            Some(index) => Ok(RegClass(index.oid)),
            // PostgreSQL takes the index of a partition for a part of the new one.
            None => Err(Error::argument(format!(
                "A partition of the table has an index on the property \"{property}\" that is not valid: drop that index first"
            ))),
        }
    })
}

/// Drops the indexes on a property of a table, invalid ones included. Returns whether there was one.
///
/// Raises `ResourceNotFound` if there is none, unless `if_exists`. The caller must own the table.
#[pg_extern]
fn drop_property_index(
    table_name: Option<TextArg<'_>>,
    property: Option<TextArg<'_>>,
    if_exists: default!(Option<bool>, "false"),
) -> bool {
    raising(|| {
        let name = required("table_name", table_name)?.get();
        let property = checked(property)?;
        let if_exists = required("if_exists", if_exists)?;
        prevent_if_read_only(c"drop_property_index()");
        require_coordinator("Property indexes are dropped")?;
        let names = |table: &Table| -> Vec<String> {
            engine::all(table)
                .iter()
                .filter(|index| *index.property == *property)
                .filter_map(|index| qualified_name(index.oid))
                .collect()
        };
        match drop_indexes(name, TableLock::Read, names, |_| Ok(()))? {
            false if !if_exists => Err(Error::PropertyIndexNotFound {
                property: property.to_owned(),
            }),
            are_dropped => Ok(are_dropped),
        }
    })
}

/// Drops the indexes of a table that `names` returns. `before` runs under the lock, and may refuse. If there are none,
/// this returns false, and nobody waits: the first lock only shows that.
///
/// # Errors
/// Those of [`Table::open_as_owner`] and of `before`.
pub fn drop_indexes(
    table: &str,
    first: TableLock,
    names: impl Fn(&Table) -> Vec<String>,
    before: impl FnOnce(&Table) -> Result<(), Error>,
) -> Result<bool, Error> {
    let opened = Table::open_as_owner(table, first)?;
    if names(&opened).is_empty() {
        return Ok(false);
    }
    // Two sessions that both kept this lock would wait for each other.
    opened.unlock(first);
    let opened = opened.lock(TableLock::Drop)?;
    // Another session may have dropped them while this one waited.
    let indexes = names(&opened);
    if indexes.is_empty() {
        return Ok(false);
    }
    before(&opened)?;
    run_on_new_rows(&format!("DROP INDEX {}", indexes.join(", "))).unwrap_or_else(|error| rethrow(error));
    Ok(true)
}

/// Returns the property indexes of a table, or of all tables: their property, whether queries use them, their size, and
/// how often they were scanned.
#[pg_extern(stable, parallel_restricted)]
fn query_property_indexes(table_name: default!(Option<TextArg<'_>>, "NULL"), call: Call<'_>) -> PropertyIndexes {
    const SQL: &str = "\
        SELECT c.relname::pg_catalog.text, i.indexrelid::pg_catalog.regclass, \
            COALESCE(parts.bytes, pg_catalog.pg_relation_size(i.indexrelid), 0), \
            COALESCE(parts.scans, pg_catalog.pg_stat_get_numscans(i.indexrelid), 0) \
        FROM pg_catalog.pg_class AS c \
        JOIN pg_catalog.pg_index AS i ON i.indrelid OPERATOR(pg_catalog.=) c.oid \
        CROSS JOIN LATERAL (SELECT pg_catalog.sum(pg_catalog.pg_relation_size(p.relid))::pg_catalog.int8 AS bytes, \
                pg_catalog.sum(pg_catalog.pg_stat_get_numscans(p.relid))::pg_catalog.int8 AS scans \
            FROM pg_catalog.pg_partition_tree(i.indexrelid) AS p) AS parts \
        WHERE c.relnamespace OPERATOR(pg_catalog.=) $1 \
        AND c.reloftype OPERATOR(pg_catalog.=) $2 \
        AND i.indexprs IS NOT NULL \
        AND (c.oid OPERATOR(pg_catalog.=) $3 OR $3 OPERATOR(pg_catalog.=) 0::pg_catalog.oid)";
    raising(|| {
        // The lock keeps the table until the result is complete.
        let table = table_name
            .map(|name| Table::open(name.get(), TableLock::Read))
            .transpose()?;
        connect(|spi| {
            let only = table.as_ref().map_or(pg_sys::InvalidOid, Table::oid);
            let parameters = [catalog::data_schema(), catalog::entity_type(), only].map(Value::oid);
            let mut rows = Vec::new();
            for row in spi.read_catalogs(SQL, &parameters).iter() {
                let (Some(name), Some(index)) = (row.text(1), row.relation(2)) else {
                    continue;
                };
                if let Some(KnownIndex::Property(found)) = of_index(index) {
                    rows.push((name, found, row.int8(3), row.int8(4)));
                }
            }
            // Names of tables are ASCII.
            rows.sort_by_cached_key(|(name, index, ..)| {
                let (name, property) = (name.get(), index.property.to_string());
                (name.to_ascii_lowercase(), name.to_owned(), property, index.oid.to_u32())
            });
            let mut result = ResultSet::open(call);
            for (name, index, bytes, scans) in rows {
                let property = Text::new(&index.property);
                result.push([
                    Some(Value::text(name)),
                    Some(property.value()),
                    Some(Value::regclass(index.oid)),
                    Some(Value::boolean(index.is_valid)),
                    bytes.map(Value::int8),
                    scans.map(Value::int8),
                ]);
            }
        });
        Ok(PropertyIndexes)
    })
}

/// Returns the statement that creates an index on a property while others read and write the table. It runs outside of
/// transactions only, so psql's `\gexec` must run it.
///
/// Raises `ResourceAlreadyExists` if the table has such an index.
#[pg_extern(stable, parallel_restricted)]
fn property_index_sql(table_name: Option<TextArg<'_>>, property: Option<TextArg<'_>>) -> String {
    raising(|| {
        let name = required("table_name", table_name)?.get();
        let property = checked(property)?;
        let table = Table::open(name, TableLock::Read)?;
        if engine::find(&table, property).is_some() {
            return Err(exists(property));
        }
        Ok(definition(
            &table,
            property,
            names::is_free,
            concurrent_creation(table.oid()),
        ))
    })
}

/// Returns the name of a property that can be indexed.
fn checked(property: Option<TextArg<'_>>) -> Result<&str, Error> {
    let property = required("property", property)?.get();
    property_name::check(property)?;
    match property {
        "PartitionKey" | "RowKey" => Err(Error::argument(format!(
            "{property} needs no property index: filters on keys use the primary key"
        ))),
        "Timestamp" => Err(Error::argument(
            "Timestamp is no property of the bag: create an ordinary index on the column \"timestamp\"",
        )),
        _ => Ok(property),
    }
}

fn exists(property: &str) -> Error {
    Error::PropertyIndexExists {
        property: property.to_owned(),
    }
}

/// Returns the statement that creates an index with the first name that passes a test.
fn definition(table: &Table, property: &str, test: fn(&str) -> bool, command: &str) -> String {
    format!(
        "{command} {} ON {} ({})",
        quote_identifier(index_name(table, property, test)),
        table.name(),
        index_expression("", &quote_literal(property))
    )
}
