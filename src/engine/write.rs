//! Writes of one entity. Each is one statement, or what that would do. Where a condition failed, a second look says why.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use table_service_model::etag::IfMatch;
use table_service_model::{Error, entity};

use super::direct::{self, Purpose};
use super::table::Table;
use crate::postgres::arguments::Keys;
use crate::postgres::clock::now;
use crate::postgres::error::raise;
use crate::postgres::row::broken;
use crate::postgres::spi::{Connection, Rows, connect};
use crate::postgres::statement::{Change, Statement};
use crate::postgres::subtransaction::{in_subtransaction, sqlerrcode};
use crate::postgres::types::value::Text;
use crate::postgres::types::{PropertiesArg, TextArg};

/// Inserts an entity. Returns its Timestamp.
///
/// # Errors
/// `EntityAlreadyExists`, and those of the limits.
pub fn insert(table: &Table, keys: Keys<'_>, properties: PropertiesArg<'_>) -> Result<i64, Error> {
    let stamp = Stamp::new();
    let clock = stamp.clock;
    let direct = direct::with(table, Purpose::Insert, |table| {
        // An entity that it cannot see yet is a conflict with another transaction, which a statement tells from one that it can see.
        (!direct::has_one_snapshot()).then(|| table.insert(keys, clock, properties))
    });
    if let Some(inserted) = direct {
        return inserted.map(|()| stamp.settle(table, keys, clock));
    }
    check_limits(keys, properties)?;
    let inserted = connect(|spi| {
        spi.run(table.name(), &Statement::insert(keys, clock, properties))
            .processed()
    });
    if inserted == 0 {
        return Err(not_inserted(table, keys, properties));
    }
    Ok(stamp.settle(table, keys, clock))
}

/// The clock of an insert, taken before it waits for locks.
pub struct Stamp {
    /// In microseconds since 2000-01-01.
    pub clock: i64,
    completed: u64,
}

impl Stamp {
    pub fn new() -> Stamp {
        let completed = direct::completed_transactions();
        Stamp {
            clock: now(),
            completed,
        }
    }

    /// The Timestamp of an entity that was inserted with `written`: later than those of all versions before it.
    pub fn settle(&self, table: &Table, keys: Keys<'_>, written: i64) -> i64 {
        if self.completed == direct::completed_transactions() {
            return written;
        }
        direct::settle(table, keys, written)
    }

    /// As [`Stamp::settle`], for one entity of many in a partition.
    pub fn settle_key(&self, table: &Table, partition_key: TextArg<'_>, row_key: &str, written: i64) -> i64 {
        if self.completed == direct::completed_transactions() {
            return written;
        }
        let row_key = Text::new(row_key);
        let row_key = row_key.arg();
        direct::settle(table, Keys { partition_key, row_key }, written)
    }
}

/// Inserts an entity or changes the one with these keys. Returns its Timestamp.
///
/// # Errors
/// Those of the limits, and `AuthorizationFailure` if a policy or a trigger kept it from being written.
pub fn upsert(table: &Table, change: Change, keys: Keys<'_>, properties: PropertiesArg<'_>) -> Result<i64, Error> {
    check_limits(keys, properties)?;
    let stamp = Stamp::new();
    let written = with_primary_key(|| {
        connect(|spi| {
            let statement = Statement::upsert(change, keys, stamp.clock, properties);
            written(keys, &spi.run(table.name(), &statement))
        })
    });
    let written = written.ok_or_else(suppressed)?;
    Ok(stamp.settle(table, keys, written))
}

/// Changes an entity that must exist, in the version that `if_match` means. Returns its new Timestamp.
///
/// # Errors
/// `ResourceNotFound`, `UpdateConditionNotSatisfied`, those of the limits, and `AuthorizationFailure`.
pub fn update(
    table: &Table,
    change: Change,
    keys: Keys<'_>,
    properties: PropertiesArg<'_>,
    if_match: IfMatch,
) -> Result<i64, Error> {
    if !keys.within_limits() {
        return Err(Error::EntityNotFound);
    }
    let direct = direct::with(table, Purpose::Update, |table| {
        table.update(keys, version(if_match), change, properties).transpose()
    });
    if let Some(updated) = direct {
        return updated;
    }
    conditional(table, keys, if_match, |spi, version| {
        let statement = Statement::update(change, keys, now(), properties, version);
        written(keys, &spi.run(table.name(), &statement))
    })
}

/// Deletes an entity, in the version that `if_match` means.
///
/// # Errors
/// `ResourceNotFound`, `UpdateConditionNotSatisfied`, and `AuthorizationFailure`.
pub fn delete(table: &Table, keys: Keys<'_>, if_match: IfMatch) -> Result<(), Error> {
    conditional(table, keys, if_match, |spi, version| {
        let rows = spi.run(table.name(), &Statement::delete(keys, version));
        (rows.processed() > 0).then_some(())
    })
}

/// Runs `upsert`, whose statement names the primary key. A table that a user made may have none.
pub fn with_primary_key<R>(upsert: impl FnOnce() -> R) -> R {
    let without_key = |_| {
        raise(Error::StoredEntityInvalid {
            reason: "An upsert needs the primary key that create_table gives a table: PRIMARY KEY (partition_key, row_key), not deferrable".to_owned(),
        })
    };
    PgTryBuilder::new(AssertUnwindSafe(upsert))
        .catch_when(PgSqlErrorCode::ERRCODE_INVALID_COLUMN_REFERENCE, without_key)
        .catch_when(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, without_key)
        .execute()
}

/// The limits of an entity that may be inserted: here they come before the look-up of the row (semantics 0.2).
fn check_limits(keys: Keys<'_>, properties: PropertiesArg<'_>) -> Result<(), Error> {
    if !keys.within_limits() {
        return Err(Error::KeyTooLong);
    }
    entity::check_size(keys.partition_key.get(), keys.row_key.get(), properties.get())
}

/// The Timestamp that a statement has written, if it has written.
fn written(keys: Keys<'_>, rows: &Rows<'_>) -> Option<i64> {
    let row = rows.first()?;
    match (row.timestamptz(1), row.boolean(2)) {
        (Some(timestamp), Some(false)) => Some(timestamp),
        _ => broken(
            &format!(
                "with PartitionKey '{}' and RowKey '{}'",
                keys.partition_key.get(),
                keys.row_key.get()
            ),
            "is NULL in its Timestamp or its properties",
        ),
    }
}

/// Runs `write` until it writes, or a second look with a new snapshot tells why it does not: 404 before 412 (semantics 2.2). `write`
/// gets the Timestamp that the entity must have, or `None` for any.
fn conditional<T>(
    table: &Table,
    keys: Keys<'_>,
    if_match: IfMatch,
    write: impl Fn(&Connection, Option<i64>) -> Option<T>,
) -> Result<T, Error> {
    if !keys.within_limits() {
        return Err(Error::EntityNotFound);
    }
    let version = version(if_match);
    let mut seen = None;
    loop {
        let outcome = connect(|spi| match write(spi, version) {
            Some(written) => Ok(written),
            None => {
                let rows = spi.run(table.name(), &Statement::get_timestamp(keys));
                Err(rows.first().map(|row| row.timestamptz(1)))
            }
        });
        let found = match outcome {
            Ok(written) => return Ok(written),
            Err(found) => found.ok_or(Error::EntityNotFound)?,
        };
        if version.is_some_and(|version| Some(version) != found) {
            return Err(Error::UpdateConditionNotSatisfied);
        }
        // It came between our two looks: write again. If it is the same version as before, it is not concurrency that keeps us from
        // writing it.
        if seen == Some(found) {
            return Err(suppressed());
        }
        seen = Some(found);
        pgrx::check_for_interrupts!();
    }
}

/// The Timestamp that the entity must have, `None` for any.
fn version(if_match: IfMatch) -> Option<i64> {
    match if_match {
        IfMatch::Any => None,
        IfMatch::Version(version) => Some(version.to_postgres_micros()),
        // The statement runs all the same, so that it asks for the right to write.
        IfMatch::Never => Some(NO_TIMESTAMP),
    }
}

/// `-infinity`, which no entity has: the CHECK keeps it out.
const NO_TIMESTAMP: i64 = i64::MIN;

/// Why an insert did nothing: there is such an entity, or a trigger took the row away. To look for the entity would ask for the right
/// to read it; an insert that raises tells too.
pub fn not_inserted(table: &Table, keys: Keys<'_>, properties: PropertiesArg<'_>) -> Error {
    // Without need it does not wait a second time for whoever is about to delete the entity, out of the order of the keys.
    if !table.has_insert_trigger() {
        return Error::EntityAlreadyExists;
    }
    let insert = || {
        let statement = Statement::insert_or_raise(keys, now(), properties);
        // As an error, so that nothing of it stays.
        Err::<(), _>(connect(|spi| spi.run(table.name(), &statement).processed()))
    };
    match in_subtransaction(AssertUnwindSafe(insert)) {
        Ok(Err(0)) => suppressed(),
        Ok(_) => Error::EntityAlreadyExists,
        Err(error) if is_conflict(&error) => Error::EntityAlreadyExists,
        Err(error) => error.rethrow(),
    }
}

/// What ON CONFLICT DO NOTHING passes over.
fn is_conflict(error: &CaughtError) -> bool {
    matches!(
        sqlerrcode(error),
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION | PgSqlErrorCode::ERRCODE_EXCLUSION_VIOLATION
    )
}

/// The error for a row that may be read and not written, or that a trigger kept from being written.
pub fn suppressed() -> Error {
    Error::NotAuthorized {
        reason: "A row-level security policy or a trigger of the table kept the entity from being written".to_owned(),
    }
}
