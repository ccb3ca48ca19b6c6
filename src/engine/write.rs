//! Writes of one entity. Each is one statement, or direct access with the same result. If a condition fails, a second
//! statement finds out why.

use table_service_model::{Entity, Error, IfMatch, entity, ticks};

use super::attempts::{
    ClockReading, InTheWay, broken_by_null, conditional, in_attempts, not_inserted, remove_expired, stored_entity,
    suppressed, version,
};
use super::rewrite::Rewrite;
use crate::postgres::raised::says;
use crate::postgres::{
    PropertiesArg, Rows, caught, connect, has_one_snapshot, has_room, in_subtransaction, now, raise, rethrow,
};
use crate::storage::arguments::EntityKeys;
use crate::storage::direct::{Inserter, NewProperties, Updater};
use crate::storage::expiry::Expiries;
use crate::storage::placement::Written;
use crate::storage::row::Row;
use crate::storage::statement::{Kind, Statement, UpdateMode};
use crate::storage::table::Table;

/// How often an insert is made again because an expired entity was in its way. It is bounded because a policy or a
/// trigger may keep that entity from being removed.
const ATTEMPTS: usize = 5;

/// Inserts an entity and returns its Timestamp.
///
/// # Errors
/// `EntityAlreadyExists`, and the errors of the limits.
pub fn insert(table: &Table, keys: EntityKeys<'_>, properties: PropertiesArg<'_>) -> Result<i64, Error> {
    let stamp = ClockReading::new();
    let clock = stamp.clock;
    let expiries = Expiries::of(table);
    let direct = Inserter::open(table, keys.partition_key, Written::One).and_then(|table| {
        // With one snapshot, the existing entity may be one that the snapshot does not see. That is a serialization
        // failure, which only a statement recognises.
        if has_one_snapshot() {
            return None;
        }
        if expiries.is_empty() {
            return Some(table.insert(keys, clock, properties));
        }
        // The existing entity may have expired. A direct insert that met it has left its row, which is undone here.
        let insert = || table.insert(keys, clock, properties);
        let inserted = has_room().then(|| in_subtransaction(insert))?;
        match inserted.unwrap_or_else(|error| rethrow(error)) {
            Err(Error::EntityAlreadyExists) => None,
            inserted => Some(inserted),
        }
    });
    if let Some(inserted) = direct {
        inserted?;
        // Direct access only inserts if the Timestamp can be written again in place.
        return Ok(stamp.settle(table, keys, clock).unwrap_or(clock));
    }
    check_limits(keys, properties)?;
    in_attempts(table, keys, |clock| {
        let mut clock = clock;
        for attempt in 0..ATTEMPTS {
            let statement = Statement::of_entity(Kind::Insert, keys, clock, properties);
            if connect(|spi| spi.run(table.name(), &statement).processed()) > 0 {
                table.note_write(keys.partition_key);
                return Ok(clock);
            }
            match remove_expired(table, &expiries, keys) {
                InTheWay::Expired(removed) => clock = ticks::next_timestamp(removed, clock),
                // A sweep was faster.
                InTheWay::Nothing if attempt == 0 => {}
                InTheWay::Nothing | InTheWay::Entity => break,
            }
            pgrx::check_for_interrupts!();
        }
        Err(not_inserted(table, keys, properties))
    })
}

/// Inserts an entity or changes the existing one with these keys, and returns its Timestamp.
///
/// # Errors
/// The errors of the limits, and `AuthorizationFailure` if a policy or a trigger prevented the write.
pub fn upsert(
    table: &Table,
    change: UpdateMode,
    keys: EntityKeys<'_>,
    properties: PropertiesArg<'_>,
) -> Result<i64, Error> {
    check_limits(keys, properties)?;
    if !Expiries::of(table).is_empty() {
        // The stored entity may expire while the statement waits for its lock.
        return rewrite(table, change, keys, properties, IfMatch::Any, true);
    }
    in_attempts(table, keys, |clock| {
        let written = with_primary_key(|| {
            connect(|spi| {
                let statement = Statement::of_entity(Kind::Upsert(change), keys, clock, properties);
                written(keys, &spi.run(table.name(), &statement))
            })
        });
        written.ok_or_else(suppressed)
    })
}

/// Changes an existing entity if its version matches `if_match`, and returns its new Timestamp.
///
/// # Errors
/// `ResourceNotFound`, `UpdateConditionNotSatisfied`, the errors of the limits, and `AuthorizationFailure`.
pub fn update(
    table: &Table,
    change: UpdateMode,
    keys: EntityKeys<'_>,
    properties: PropertiesArg<'_>,
    if_match: IfMatch,
) -> Result<i64, Error> {
    if !keys.within_limits() {
        return Err(Error::EntityNotFound);
    }
    let changed = |row: &Row<'_>| match change {
        UpdateMode::Replace => Ok(Some(NewProperties::Given(properties))),
        UpdateMode::Merge => row
            .properties()
            .merge(properties.get())
            .map(NewProperties::Made)
            .map(Some),
    };
    let direct = Updater::open(table, keys.partition_key)
        .and_then(|mut table| table.update(keys, version(if_match), changed).transpose());
    if let Some(updated) = direct {
        return updated.map(|(timestamp, _)| timestamp);
    }
    if !Expiries::of(table).is_empty() {
        return rewrite(table, change, keys, properties, if_match, false);
    }
    conditional(table, keys, if_match, |spi, version| {
        let statement = Statement::update(change, keys, now(), properties, version);
        let updated = written(keys, &spi.run(table.name(), &statement));
        table.note_write(keys.partition_key);
        updated
    })
}

/// Changes an entity, or inserts it with `create_missing`, through the row that it replaces. Returns its new Timestamp.
fn rewrite(
    table: &Table,
    change: UpdateMode,
    keys: EntityKeys<'_>,
    properties: PropertiesArg<'_>,
    if_match: IfMatch,
    create_missing: bool,
) -> Result<i64, Error> {
    let make = |stored: &Entity<'_>| {
        let made = match change {
            UpdateMode::Replace => properties.get().to_buf(),
            UpdateMode::Merge => stored.properties.merge(properties.get())?,
        };
        entity::check_size(keys.partition_key.get(), keys.row_key.get(), made.as_properties())?;
        Ok(made)
    };
    let rewrite = Rewrite {
        table,
        keys,
        if_match,
        create_missing,
        make: &make,
    };
    rewrite.run().map(|rewritten| rewritten.timestamp)
}

/// Deletes an existing entity if its version matches `if_match`.
///
/// # Errors
/// `ResourceNotFound`, `UpdateConditionNotSatisfied`, and `AuthorizationFailure`.
pub fn delete(table: &Table, keys: EntityKeys<'_>, if_match: IfMatch) -> Result<(), Error> {
    let expiries = Expiries::of(table);
    if expiries.is_empty() {
        return conditional(table, keys, if_match, |spi, version| {
            let rows = spi.run(table.name(), &Statement::delete(keys, version, false));
            (rows.processed() > 0).then_some(())
        });
    }
    // An entity that has expired by now had expired when this got its lock: there was nothing to delete.
    conditional(table, keys, if_match, |spi, version| {
        let rows = spi.run(table.name(), &Statement::delete(keys, version, true));
        let (timestamp, properties) = stored_entity(keys, &rows)?;
        Some(match expiries.have_passed(timestamp, properties) {
            true => Err(Error::EntityNotFound),
            false => Ok(()),
        })
    })?
}

/// Runs `upsert`. Its statement needs the primary key. Raises `InternalError` if a table that a user created has none.
pub fn with_primary_key<R>(upsert: impl FnOnce() -> R) -> R {
    const WITHOUT_KEY: [&str; 2] = [
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
    ];
    caught(upsert).unwrap_or_else(|error| {
        if !WITHOUT_KEY.iter().any(|message| says(&error, message)) {
            rethrow(error)
        }
        raise(Error::StoredEntityInvalid {
            reason: "An upsert needs the primary key that create_table gives a table: PRIMARY KEY (partition_key, row_key), not deferrable".to_owned(),
        })
    })
}

/// Checks the limits of an entity that may be inserted. For inserts they come before the look-up of the row
/// (semantics 0.2).
fn check_limits(keys: EntityKeys<'_>, properties: PropertiesArg<'_>) -> Result<(), Error> {
    if !keys.within_limits() {
        return Err(Error::KeyTooLong);
    }
    entity::check_size(keys.partition_key.get(), keys.row_key.get(), properties.get())
}

/// Returns the Timestamp that a statement wrote, or `None` if it wrote no row.
fn written(keys: EntityKeys<'_>, rows: &Rows<'_>) -> Option<i64> {
    let row = rows.first()?;
    match (row.timestamptz(1), row.boolean(2)) {
        (Some(timestamp), Some(false)) => Some(timestamp),
        _ => broken_by_null(keys),
    }
}
