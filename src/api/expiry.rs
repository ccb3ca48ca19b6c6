//! When entities expire: set it, drop it, list it, and remove expired entities.

use pgrx::datum::Interval;
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;
use table_service_model::{Error, Expiry, expiry as model};

use super::property_indexes::drop_indexes;
use super::results::{ExpiryIndexes, Sweeps};
use crate::engine::distribution::require_coordinator;
use crate::engine::property_index::index_name;
use crate::engine::sweep::{BEGINNING, first_expiry, look, sweep_all, sweep_named, sweep_unnamed};
use crate::postgres::{
    Call, PropertiesArg, RegClass, Text, TextArg, Value, catalog, connect, has_one_snapshot, hold_names, raising,
};
use crate::storage::arguments::{self, prevent_if_read_only, required};
use crate::storage::direct::reads_every_row;
use crate::storage::indexes::{KnownIndex, of_index, of_table};
use crate::storage::known::ExpiryIndex;
use crate::storage::names;
use crate::storage::property_index::{concurrent_creation, qualified_name};
use crate::storage::result_set::ResultSet;
use crate::storage::statement::expiry_expression;
use crate::storage::table::{Table, TableLock};

/// Returns when an entity expires, or NULL if never. If it has `property`, a DateTime there is the moment, an integer above 0 is
/// so many seconds after its Timestamp, and any other value means never. If not, it lives for `seconds`.
///
/// Indexes on disk consist of these results, so name, arguments and results never change.
#[pg_extern(sql = "
CREATE FUNCTION table_service.expires_at(\"timestamp\" timestamptz, properties table_service.properties, property text, seconds bigint) RETURNS timestamptz
IMMUTABLE PARALLEL SAFE COST 20 LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn expires_at(
    timestamp: Option<TimestampWithTimeZone>,
    properties: Option<PropertiesArg<'_>>,
    property: Option<TextArg<'_>>,
    seconds: Option<i64>,
) -> Option<TimestampWithTimeZone> {
    let (timestamp, properties) = (timestamp?.into_inner(), properties?.get());
    let moment = model::expires_at(timestamp, properties, property.map(TextArg::get), seconds)?;
    TimestampWithTimeZone::try_from(moment).ok()
}

/// Says when the entities of a table expire, and returns the index that keeps it. The property `property` decides for an entity
/// that has it; others live for `time_to_live` after their Timestamp, or for ever without it.
///
/// Raises `ResourceAlreadyExists` if the table has an expiry, unless `if_not_exists`. The caller must own the table.
#[pg_extern]
fn set_expiry(
    table_name: Option<TextArg<'_>>,
    property: default!(Option<TextArg<'_>>, "NULL"),
    time_to_live: default!(Option<Interval>, "NULL"),
    if_not_exists: default!(Option<bool>, "false"),
) -> RegClass {
    raising(|| {
        let name = required("table_name", table_name)?.get();
        let expiry = checked(property, time_to_live)?;
        let if_not_exists = required("if_not_exists", if_not_exists)?;
        prevent_if_read_only(c"set_expiry()");
        require_coordinator("Expiries are set")?;
        let table = Table::open_as_owner(name, TableLock::Define)?;
        if let Some(index) = in_force(&table) {
            return if if_not_exists {
                Ok(RegClass(index.oid))
            } else {
                Err(Error::ExpiryExists)
            };
        }
        hold_names();
        connect(|spi| spi.run_definition(&definition(&table, &expiry, names::take, "CREATE INDEX")));
        match in_force(&table) {
            Some(index) => Ok(RegClass(index.oid)),
            // PostgreSQL takes the index of a partition for a part of the new one.
            None => Err(Error::argument(
                "A partition of the table has an expiry index that is not valid: drop that index first",
            )),
        }
    })
}

/// Ends the expiry of a table, after it has removed the entities that have expired. Returns whether there was one.
///
/// Raises `ResourceNotFound` if there is none, unless `if_exists`. The caller must own the table.
#[pg_extern]
fn drop_expiry(table_name: Option<TextArg<'_>>, if_exists: default!(Option<bool>, "false")) -> bool {
    raising(|| {
        let name = required("table_name", table_name)?.get();
        let if_exists = required("if_exists", if_exists)?;
        prevent_if_read_only(c"drop_expiry()");
        if has_one_snapshot() {
            // Entities that have expired, and that the snapshot does not see, would appear again.
            return Err(Error::CalledWithOneSnapshot {
                function: "drop_expiry",
            });
        }
        require_coordinator("Expiries are dropped")?;
        let names = |table: &Table| -> Vec<String> {
            let expiries = of_table(table.oid()).expiries;
            expiries.iter().filter_map(|index| qualified_name(index.oid)).collect()
        };
        let remove = |table: &Table| {
            let kept = if reads_every_row(table).is_none() {
                "the caller does not see all of it: policies of the table, or a missing privilege, hide entities, which"
            } else if !sweep_all(table) {
                "a trigger or a rule of the table keeps some of it, which"
            } else {
                return Ok(());
            };
            Err(Error::NotAuthorized {
                reason: format!("What has expired is removed first, and {kept} would appear again"),
            })
        };
        // The first lock is that of a definition, which a distributed table also has.
        match drop_indexes(name, TableLock::Define, names, remove)? {
            false if !if_exists => Err(Error::ExpiryNotFound),
            are_dropped => Ok(are_dropped),
        }
    })
}

/// Returns the statement that sets the expiry of a table while others read and write it. It runs outside of transactions only,
/// so psql's `\gexec` must run it.
///
/// Raises `ResourceAlreadyExists` if the table has an expiry.
#[pg_extern(stable, parallel_restricted)]
fn expiry_sql(
    table_name: Option<TextArg<'_>>,
    property: default!(Option<TextArg<'_>>, "NULL"),
    time_to_live: default!(Option<Interval>, "NULL"),
) -> String {
    raising(|| {
        let name = required("table_name", table_name)?.get();
        let expiry = checked(property, time_to_live)?;
        let table = Table::open(name, TableLock::Read)?;
        if in_force(&table).is_some() {
            return Err(Error::ExpiryExists);
        }
        Ok(definition(
            &table,
            &expiry,
            names::is_free,
            concurrent_creation(table.oid()),
        ))
    })
}

/// Returns when the entities of a table, or of all tables, expire: the property, the time to live, the index that keeps it,
/// whether it is in force, and when the entity that expires first does or did so. No plan with parallel workers calls it: it has
/// subtransactions.
#[pg_extern(stable)]
fn query_expiry(table_name: default!(Option<TextArg<'_>>, "NULL"), call: Call<'_>) -> ExpiryIndexes {
    raising(|| {
        let is_named = table_name.is_some();
        let tables = tables_with_expiry(table_name)?;
        let mut result = ResultSet::open(call);
        for (table, indexes) in tables {
            // The query waits for no table that is not named, and gives its locks back.
            let oldest = |index: &ExpiryIndex| {
                let table = table.try_lock(TableLock::Read).filter(|_| index.is_valid)?;
                reads_every_row(&table)?;
                first_expiry(&table, index, is_named)
            };
            for index in &indexes {
                let property = index.expiry.property().map(Text::new);
                let time_to_live = index.expiry.time_to_live().map(interval);
                let name = Text::new(table.name().name());
                result.push([
                    Some(name.value()),
                    property.as_ref().map(Text::value),
                    time_to_live.as_ref().map(Value::interval),
                    Some(Value::regclass(index.oid)),
                    Some(Value::boolean(index.is_valid)),
                    look(|| oldest(index)).map(Value::timestamptz),
                ]);
            }
        }
        Ok(ExpiryIndexes)
    })
}

/// Removes entities that have expired, of a table or of all tables: of each at most `top`, those first that expired first. It
/// skips entities that others have locked. `since` is the moment at which it begins: the `oldest` of the sweep before. It works as the
/// owner of each table, unless the table is named without `as_owner`: then as the caller.
///
/// Returns for each table how many it has deleted, whether there may be more, where the next sweep may begin, and why it deleted nothing
/// if it was refused or failed.
#[pg_extern]
fn expire_entities(
    table_name: default!(Option<TextArg<'_>>, "NULL"),
    top: default!(Option<i64>, "10000"),
    since: default!(Option<TimestampWithTimeZone>, "NULL"),
    as_owner: default!(Option<bool>, "false"),
    call: Call<'_>,
) -> Sweeps {
    raising(|| {
        let top = required("top", arguments::top(top)?)?;
        let since = since.map_or(BEGINNING, |since| since.into_inner());
        let as_owner = required("as_owner", as_owner)? || table_name.is_none();
        prevent_if_read_only(c"expire_entities()");
        let tables = tables_with_expiry(table_name)?;
        let mut result = ResultSet::open(call);
        for (table, _) in tables {
            let swept = match as_owner {
                true => sweep_unnamed(&table, top, since),
                false => sweep_named(&table, top, since)?,
            };
            let Some(swept) = swept else { continue };
            let name = Text::new(table.name().name());
            let reason = swept.reason.as_deref().map(Text::new);
            result.push([
                Some(name.value()),
                Some(Value::int8(i64::try_from(swept.deleted).unwrap_or(i64::MAX))),
                Some(Value::boolean(swept.more)),
                swept.oldest.map(Value::timestamptz),
                reason.as_ref().map(Text::value),
            ]);
        }
        Ok(Sweeps)
    })
}

/// Returns the tables that have expiry indexes, in the order of their names, or the requested one.
fn tables_with_expiry(table_name: Option<TextArg<'_>>) -> Result<Vec<(Table, Vec<ExpiryIndex>)>, Error> {
    const SQL: &str = "\
        SELECT i.indexrelid::pg_catalog.regclass, c.oid::pg_catalog.regclass \
        FROM pg_catalog.pg_class AS c \
        JOIN pg_catalog.pg_index AS i ON i.indrelid OPERATOR(pg_catalog.=) c.oid \
        WHERE c.relnamespace OPERATOR(pg_catalog.=) $1 \
        AND i.indexprs IS NOT NULL \
        AND i.indpred IS NOT NULL \
        AND (c.oid OPERATOR(pg_catalog.=) $2 OR $2 OPERATOR(pg_catalog.=) 0::pg_catalog.oid)";
    // The lock keeps the table until the result is complete.
    let table = table_name
        .map(|name| Table::open(name.get(), TableLock::Read))
        .transpose()?;
    let mut tables: Vec<(Table, Vec<ExpiryIndex>)> = Vec::new();
    let only = table.as_ref().map_or(pg_sys::InvalidOid, Table::oid);
    connect(|spi| {
        for row in spi
            .read_catalogs(SQL, &[catalog::data_schema(), only].map(Value::oid))
            .iter()
        {
            let (Some(index), Some(oid)) = (row.relation(1), row.relation(2)) else {
                continue;
            };
            let (Some(KnownIndex::Expiry(index)), Some(table)) = (of_index(index), Table::in_catalog(oid)) else {
                continue;
            };
            match tables.iter_mut().find(|(known, _)| known.oid() == oid) {
                Some((_, indexes)) => indexes.push(index),
                None => tables.push((table, vec![index])),
            }
        }
    });
    // Names of tables are ASCII.
    tables.sort_by_cached_key(|(table, _)| {
        let name = table.name().name();
        (name.to_ascii_lowercase(), name.to_owned())
    });
    for (_, indexes) in &mut tables {
        indexes.sort_by_key(|index| index.oid.to_u32());
    }
    Ok(tables)
}

/// Returns the expiry in two arguments.
fn checked(property: Option<TextArg<'_>>, time_to_live: Option<Interval>) -> Result<Expiry, Error> {
    let seconds = time_to_live
        .map(|interval| model::time_to_live(interval.months(), interval.days(), interval.micros()))
        .transpose()?;
    Expiry::new(property.map(TextArg::get), seconds)
}

/// Returns a time to live in seconds as PostgreSQL's interval, with days of 24 hours.
fn interval(seconds: i64) -> pg_sys::Interval {
    const DAY: i64 = 24 * 3600;
    pg_sys::Interval {
        time: seconds % DAY * 1_000_000,
        day: i32::try_from(seconds / DAY).unwrap_or(i32::MAX),
        month: 0,
    }
}

/// Returns an index that says when the entities of a table expire. The caller must have locked the table.
fn in_force(table: &Table) -> Option<ExpiryIndex> {
    of_table(table.oid())
        .expiries
        .iter()
        .find(|index| index.is_valid)
        .cloned()
}

/// Returns the statement that creates an expiry index.
fn definition(table: &Table, expiry: &Expiry, test: fn(&str) -> bool, command: &str) -> String {
    let expression = expiry_expression("", expiry);
    format!(
        "{command} {} ON {} ({expression}) WHERE {expression} IS NOT NULL",
        quote_identifier(index_name(table, "expiry", test)),
        table.name(),
    )
}
