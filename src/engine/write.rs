//! Writes of one entity. Each is one statement, or direct access with the same result. If a condition fails, a second
//! statement finds out why.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use table_service_model::etag::IfMatch;
use table_service_model::{Error, entity, ticks};

use super::direct::{self, Changed, Purpose};
use super::table::Table;
use crate::postgres::arguments::Keys;
use crate::postgres::clock::now;
use crate::postgres::error::raise;
use crate::postgres::raised::{has_sqlstate, says};
use crate::postgres::row::{Row, broken_entity};
use crate::postgres::spi::{Connection, Rows, connect};
use crate::postgres::statement::{Change, Statement};
use crate::postgres::subtransaction::in_subtransaction;
use crate::postgres::types::value::Text;
use crate::postgres::types::{PropertiesArg, TextArg};

/// Inserts an entity and returns its Timestamp.
///
/// # Errors
/// `EntityAlreadyExists`, and the errors of the limits.
pub fn insert(table: &Table, keys: Keys<'_>, properties: PropertiesArg<'_>) -> Result<i64, Error> {
    let stamp = Stamp::new();
    let clock = stamp.clock;
    let direct = direct::with(table, Purpose::Insert, |table| {
        // With one snapshot, the existing entity may be one that the snapshot does not see. That is a serialization
        // failure, which only a statement recognises.
        (!direct::has_one_snapshot()).then(|| table.insert(keys, clock, properties))
    });
    if let Some(inserted) = direct {
        inserted?;
        // Direct access only inserts where the Timestamp can be written again in place.
        return Ok(stamp.settle(table, keys, clock).unwrap_or(clock));
    }
    check_limits(keys, properties)?;
    in_attempts(table, keys, |clock| {
        let inserted = connect(|spi| {
            spi.run(table.name(), &Statement::insert(keys, clock, properties))
                .processed()
        });
        match inserted {
            0 => Err(not_inserted(table, keys, properties)),
            _ => Ok(clock),
        }
    })
}

/// Why an attempt to insert is undone.
enum Undone {
    Error(Error),
    /// It wrote a Timestamp that is not later than this one, which an earlier version has.
    Late(i64),
}

/// Runs a statement that may insert, until the Timestamp that it writes is later than those of all earlier versions.
/// `write` gets the clock and returns the Timestamp that it wrote.
pub(super) fn in_attempts(
    table: &Table,
    keys: Keys<'_>,
    write: impl Fn(i64) -> Result<i64, Error>,
) -> Result<i64, Error> {
    let needs_attempts = direct::needs_attempts(table);
    let mut latest = None;
    loop {
        let stamp = Stamp::after(latest);
        let attempt = || {
            let written = write(stamp.clock).map_err(Undone::Error)?;
            stamp.settle(table, keys, written).map_err(Undone::Late)
        };
        let outcome = if needs_attempts {
            in_subtransaction(AssertUnwindSafe(attempt)).unwrap_or_else(|error| error.rethrow())
        } else {
            attempt()
        };
        match outcome {
            Ok(timestamp) => return Ok(timestamp),
            Err(Undone::Error(error)) => return Err(error),
            Err(Undone::Late(found)) => {
                latest = Some(found);
                pgrx::check_for_interrupts!();
            }
        }
    }
}

/// The clock of an insert, read before the insert waits for locks.
pub struct Stamp {
    /// In microseconds since 2000-01-01.
    pub clock: i64,
    completed: u64,
}

impl Stamp {
    pub fn new() -> Stamp {
        Stamp::after(None)
    }

    /// A clock that is later than this Timestamp, if one is given.
    pub fn after(latest: Option<i64>) -> Stamp {
        let completed = direct::completed_transactions();
        Stamp {
            clock: latest.map_or_else(now, |latest| ticks::next_timestamp(latest, now())),
            completed,
        }
    }

    /// Makes the Timestamp of an entity that was just inserted later than those of all earlier versions, and returns
    /// it. `written` is the Timestamp that the insert wrote.
    ///
    /// # Errors
    /// The latest Timestamp of an earlier version, if only another attempt can write a later one.
    pub fn settle(&self, table: &Table, keys: Keys<'_>, written: i64) -> Result<i64, i64> {
        if self.completed == direct::completed_transactions() {
            return Ok(written);
        }
        direct::settle(table, keys, written)
    }

    /// Does the same as [`Stamp::settle`], for one of many entities in a partition.
    ///
    /// # Errors
    /// As there.
    pub fn settle_key(
        &self,
        table: &Table,
        partition_key: TextArg<'_>,
        row_key: &str,
        written: i64,
    ) -> Result<i64, i64> {
        if self.completed == direct::completed_transactions() {
            return Ok(written);
        }
        let row_key = Text::new(row_key);
        let row_key = row_key.arg();
        direct::settle(table, Keys { partition_key, row_key }, written)
    }
}

/// Inserts an entity or changes the existing one with these keys, and returns its Timestamp.
///
/// # Errors
/// The errors of the limits, and `AuthorizationFailure` if a policy or a trigger prevented the write.
pub fn upsert(table: &Table, change: Change, keys: Keys<'_>, properties: PropertiesArg<'_>) -> Result<i64, Error> {
    check_limits(keys, properties)?;
    in_attempts(table, keys, |clock| {
        let written = with_primary_key(|| {
            connect(|spi| {
                let statement = Statement::upsert(change, keys, clock, properties);
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
    change: Change,
    keys: Keys<'_>,
    properties: PropertiesArg<'_>,
    if_match: IfMatch,
) -> Result<i64, Error> {
    if !keys.within_limits() {
        return Err(Error::EntityNotFound);
    }
    let changed = |row: &Row<'_>| match change {
        Change::Replace => Ok(Some(Changed::Given(properties))),
        Change::Merge => row.properties().merge(properties.get()).map(Changed::Made).map(Some),
    };
    let direct = direct::with(table, Purpose::Update, |table| {
        table.update(keys, version(if_match), changed).transpose()
    });
    if let Some(updated) = direct {
        return updated.map(|(timestamp, _)| timestamp);
    }
    conditional(table, keys, if_match, |spi, version| {
        let statement = Statement::update(change, keys, now(), properties, version);
        written(keys, &spi.run(table.name(), &statement))
    })
}

/// Deletes an existing entity if its version matches `if_match`.
///
/// # Errors
/// `ResourceNotFound`, `UpdateConditionNotSatisfied`, and `AuthorizationFailure`.
pub fn delete(table: &Table, keys: Keys<'_>, if_match: IfMatch) -> Result<(), Error> {
    conditional(table, keys, if_match, |spi, version| {
        let rows = spi.run(table.name(), &Statement::delete(keys, version));
        (rows.processed() > 0).then_some(())
    })
}

/// Runs `upsert`, whose statement needs the primary key. Raises `InternalError` if a table that a user created has
/// none.
pub fn with_primary_key<R>(upsert: impl FnOnce() -> R) -> R {
    const WITHOUT_KEY: [&str; 2] = [
        "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
    ];
    PgTryBuilder::new(AssertUnwindSafe(upsert))
        .catch_others(|error| {
            if !WITHOUT_KEY.iter().any(|message| says(&error, message)) {
                error.rethrow()
            }
            raise(Error::StoredEntityInvalid {
                reason: "An upsert needs the primary key that create_table gives a table: PRIMARY KEY (partition_key, row_key), not deferrable".to_owned(),
            })
        })
        .execute()
}

/// Checks the limits of an entity that may be inserted. For inserts they come before the look-up of the row
/// (semantics 0.2).
fn check_limits(keys: Keys<'_>, properties: PropertiesArg<'_>) -> Result<(), Error> {
    if !keys.within_limits() {
        return Err(Error::KeyTooLong);
    }
    entity::check_size(keys.partition_key.get(), keys.row_key.get(), properties.get())
}

/// Returns the Timestamp that a statement wrote, or `None` if it wrote no row.
fn written(keys: Keys<'_>, rows: &Rows<'_>) -> Option<i64> {
    let row = rows.first()?;
    match (row.timestamptz(1), row.boolean(2)) {
        (Some(timestamp), Some(false)) => Some(timestamp),
        _ => broken_by_null(keys),
    }
}

/// Raises the error for a stored row with NULLs.
pub(super) fn broken_by_null(keys: Keys<'_>) -> ! {
    broken_entity(
        keys.partition_key.get(),
        keys.row_key.get(),
        "is NULL in its Timestamp or its properties",
    )
}

/// Runs `write` until it writes, or until a second statement with a new snapshot tells why it does not: 404 before 412
/// (semantics 2.2). `write` gets the Timestamp that the entity must have, or `None` for any.
pub(super) fn conditional<T>(
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
        // The entity appeared between the two statements: retry. If the last attempt found the same version, no
        // concurrent write prevents this one.
        if seen == Some(found) {
            return Err(suppressed());
        }
        seen = Some(found);
        pgrx::check_for_interrupts!();
    }
}

/// Returns the Timestamp that the entity must have, or `None` for any.
pub(super) fn version(if_match: IfMatch) -> Option<i64> {
    match if_match {
        IfMatch::Any => None,
        IfMatch::Version(version) => Some(version.to_postgres_micros()),
        // The statement must run although it cannot match, because it checks the privilege to write.
        IfMatch::Never => Some(NO_TIMESTAMP),
    }
}

/// `-infinity`. No entity has it, because the CHECK constraint rejects it.
const NO_TIMESTAMP: i64 = i64::MIN;

/// Returns why an insert wrote nothing: the entity exists, or a trigger suppressed the row. A look-up would need the
/// privilege to read, so this inserts again with a statement that raises.
pub fn not_inserted(table: &Table, keys: Keys<'_>, properties: PropertiesArg<'_>) -> Error {
    // Without such a trigger the entity exists. A second insert could wait for a transaction that deletes it, out of
    // key order.
    if !table.may_suppress_inserts() {
        return Error::EntityAlreadyExists;
    }
    let insert = || {
        let statement = Statement::insert_or_raise(keys, now(), properties);
        // An error, so that the subtransaction is rolled back.
        Err::<(), _>(connect(|spi| spi.run(table.name(), &statement).processed()))
    };
    match in_subtransaction(AssertUnwindSafe(insert)) {
        Ok(Err(0)) => suppressed(),
        Ok(_) => Error::EntityAlreadyExists,
        Err(error) if is_conflict(&error) => Error::EntityAlreadyExists,
        Err(error) => error.rethrow(),
    }
}

/// Returns whether ON CONFLICT DO NOTHING ignores this error.
fn is_conflict(error: &CaughtError) -> bool {
    has_sqlstate(
        error,
        &[
            PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION,
            PgSqlErrorCode::ERRCODE_EXCLUSION_VIOLATION,
        ],
    )
}

/// Returns the error for a row that a policy or a trigger kept from being written, although it may be read.
pub fn suppressed() -> Error {
    Error::NotAuthorized {
        reason: "A row-level security policy or a trigger of the table kept the entity from being written".to_owned(),
    }
}
