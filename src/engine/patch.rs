//! Patches of one entity. The new properties depend on the stored ones, so they are made from the row that they replace.

use std::cell::Cell;

use table_service_model::entity::Entity;
use table_service_model::etag::IfMatch;
use table_service_model::patch::Patch;
use table_service_model::{Error, Properties, PropertiesBuf, Ticks};

use super::direct::{self, Changed, Purpose};
use super::table::Table;
use super::write::{broken_by_null, conditional, in_attempts, not_inserted, version};
use crate::postgres::arguments::Keys;
use crate::postgres::clock::now;
use crate::postgres::row::Row;
use crate::postgres::spi::{Rows, connect};
use crate::postgres::statement::Statement;
use crate::postgres::types::PropertiesArg;
use crate::postgres::types::value::{Array, Bag, Value};

/// An entity as it is stored after a patch.
pub struct Patched {
    /// In microseconds since 2000-01-01.
    pub timestamp: i64,
    pub properties: PropertiesBuf,
}

/// How often a patch that may insert finds no entity, although an insert finds one. Other sessions may insert and delete it
/// in between. It is bounded because a policy may hide the entity, a unique index of a user may refuse it, and a trigger may
/// suppress the insert.
const ATTEMPTS: usize = 10;

/// Patches an entity if its version matches `if_match`. With `create_missing`, one that does not exist is patched as an entity
/// without properties, and inserted, if `if_match` is any version.
///
/// # Errors
/// `ResourceNotFound`, `UpdateConditionNotSatisfied`, the errors of the patch and of the limits, and `AuthorizationFailure`.
pub fn patch(
    table: &Table,
    keys: Keys<'_>,
    patch: &Patch<'_>,
    if_match: IfMatch,
    create_missing: bool,
) -> Result<Patched, Error> {
    let may_insert = create_missing && if_match == IfMatch::Any;
    if may_insert && !keys.within_limits() {
        return Err(Error::KeyTooLong);
    }
    let mut attempt = 1;
    loop {
        match change(table, keys, patch, if_match) {
            Err(Error::EntityNotFound) if may_insert => {}
            outcome => return outcome,
        }
        let missing = Entity::missing(keys.partition_key.get(), keys.row_key.get());
        let bag = Bag::new(patch.apply_to(&missing)?.as_properties());
        match insert(table, keys, bag.arg()) {
            Some(inserted) => return Ok(inserted),
            None if attempt == ATTEMPTS => return Err(not_inserted(table, keys, bag.arg())),
            None => attempt += 1,
        }
        pgrx::check_for_interrupts!();
    }
}

/// Patches an entity that exists.
fn change(table: &Table, keys: Keys<'_>, patch: &Patch<'_>, if_match: IfMatch) -> Result<Patched, Error> {
    if !keys.within_limits() {
        return Err(Error::EntityNotFound);
    }
    // Another transaction may be about to change the row. The patch fails only if it fails after that one has ended, for
    // which a statement waits.
    let patched = |row: &Row<'_>| Ok(patch.apply_to(&row.entity()).ok().map(Changed::Made));
    let direct = direct::with(table, Purpose::Update, |table| {
        table.update(keys, version(if_match), patched).transpose()
    });
    match direct.transpose()? {
        Some((timestamp, Changed::Made(properties))) => Ok(Patched { timestamp, properties }),
        _ => change_locked(table, keys, patch, if_match),
    }
}

/// Patches an entity by statements: one locks it, and one replaces the version that was locked. On a distributed table the lock
/// does not last if Citus moves the shard in between; then the version is not written, and both run again.
fn change_locked(table: &Table, keys: Keys<'_>, patch: &Patch<'_>, if_match: IfMatch) -> Result<Patched, Error> {
    conditional(table, keys, if_match, |spi, version| {
        let row_key = Array::of_texts([keys.row_key.get()].into_iter());
        let lock = Statement::lock_many(Value::text(keys.partition_key), &row_key);
        let rows = spi.run(table.name(), &lock);
        let (timestamp, properties) = entity(keys, &rows)?;
        if version.is_some_and(|version| version != timestamp) {
            return Some(Err(Error::UpdateConditionNotSatisfied));
        }
        match patch.apply_to(&stored(keys, timestamp, properties)) {
            Err(error) => Some(Err(error)),
            Ok(bag) => {
                let bag = Bag::new(bag.as_properties());
                let write = Statement::replace_version(keys, now(), bag.arg(), timestamp);
                patched(keys, &spi.run(table.name(), &write)).map(Ok)
            }
        }
    })?
}

/// Inserts an entity, unless there is one. By a statement, which then leaves nothing behind.
fn insert(table: &Table, keys: Keys<'_>, properties: PropertiesArg<'_>) -> Option<Patched> {
    // A trigger may have changed the properties.
    let written = Cell::new(None);
    let inserted = in_attempts(table, keys, |clock| {
        connect(|spi| {
            let rows = spi.run(table.name(), &Statement::insert_returning(keys, clock, properties));
            let patched = patched(keys, &rows).ok_or(Error::EntityAlreadyExists)?;
            written.set(Some(patched.properties));
            Ok(patched.timestamp)
        })
    });
    Some(Patched {
        timestamp: inserted.ok()?,
        properties: written.take()?,
    })
}

fn stored<'a>(keys: Keys<'a>, timestamp: i64, properties: Properties<'a>) -> Entity<'a> {
    Entity {
        partition_key: Some(keys.partition_key.get()),
        row_key: Some(keys.row_key.get()),
        timestamp: Ticks::from_postgres_micros(timestamp),
        properties,
    }
}

/// Returns the Timestamp and the properties of the entity that a statement returns, if it returns one.
fn entity<'c>(keys: Keys<'_>, rows: &Rows<'c>) -> Option<(i64, Properties<'c>)> {
    let row = rows.first()?;
    let with_key = || format!("with RowKey '{}'", keys.row_key.get());
    match (row.timestamptz(3), row.properties(4, with_key)) {
        (Some(timestamp), Some(properties)) => Some((timestamp, properties)),
        _ => broken_by_null(keys),
    }
}

fn patched(keys: Keys<'_>, rows: &Rows<'_>) -> Option<Patched> {
    let (timestamp, properties) = entity(keys, rows)?;
    Some(Patched {
        timestamp,
        properties: properties.to_buf(),
    })
}
