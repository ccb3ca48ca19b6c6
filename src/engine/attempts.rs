//! Attempts to write one entity: when they are made again, and why one fails.

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use table_service_model::{Error, IfMatch, Properties, ticks};

use crate::postgres::{
    Connection, PropertiesArg, Rows, Text, TextArg, connect, has_sqlstate, in_subtransaction, now, rethrow,
};
use crate::storage::arguments::EntityKeys;
use crate::storage::direct;
use crate::storage::expiry::Expiries;
use crate::storage::row::broken_entity;
use crate::storage::statement::{Kind, Statement};
use crate::storage::table::Table;

/// Why an attempt to insert is undone.
enum Undone {
    Error(Error),
    /// It wrote a Timestamp that is not later than this one, which an earlier version has.
    Late(i64),
}

/// Runs a statement that may insert, until the Timestamp that it writes is later than those of all earlier versions.
/// `write` gets the clock and returns the Timestamp that it wrote.
pub fn in_attempts(
    table: &Table,
    keys: EntityKeys<'_>,
    write: impl Fn(i64) -> Result<i64, Error>,
) -> Result<i64, Error> {
    let needs_attempts = direct::needs_attempts(table);
    let mut latest = None;
    loop {
        let stamp = ClockReading::after(latest);
        let attempt = || {
            let written = write(stamp.clock).map_err(Undone::Error)?;
            stamp.settle(table, keys, written).map_err(Undone::Late)
        };
        let outcome = if needs_attempts {
            in_subtransaction(attempt).unwrap_or_else(|error| rethrow(error))
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
pub struct ClockReading {
    /// In microseconds since 2000-01-01.
    pub clock: i64,
    completed: u64,
}

impl ClockReading {
    /// Reads the clock.
    pub fn new() -> ClockReading {
        ClockReading::after(None)
    }

    /// Returns a clock that is later than this Timestamp, if one is given.
    pub fn after(latest: Option<i64>) -> ClockReading {
        let completed = direct::completed_transactions();
        ClockReading {
            clock: latest.map_or_else(now, |latest| ticks::next_timestamp(latest, now())),
            completed,
        }
    }

    /// Makes the Timestamp of an entity that was just inserted later than those of all earlier versions, and returns
    /// it. `written` is the Timestamp that the insert wrote.
    ///
    /// # Errors
    /// The latest Timestamp of an earlier version, if only another attempt can write a later one.
    pub fn settle(&self, table: &Table, keys: EntityKeys<'_>, written: i64) -> Result<i64, i64> {
        if self.completed == direct::completed_transactions() {
            return Ok(written);
        }
        direct::settle(table, keys, written)
    }

    /// Does the same as [`ClockReading::settle`], for one of many entities in a partition.
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
        direct::settle(table, EntityKeys { partition_key, row_key }, written)
    }
}

/// Raises the error for a stored row with NULLs.
pub fn broken_by_null(keys: EntityKeys<'_>) -> ! {
    broken_entity(
        keys.partition_key.get(),
        keys.row_key.get(),
        "is NULL in its Timestamp or its properties",
    )
}

/// Runs `write` until it writes, or until a second statement with a new snapshot tells why it does not: 404 before 412
/// (semantics 2.2). `write` gets the Timestamp that the entity must have, or `None` for any.
pub fn conditional<T>(
    table: &Table,
    keys: EntityKeys<'_>,
    if_match: IfMatch,
    write: impl Fn(&Connection, Option<i64>) -> Option<T>,
) -> Result<T, Error> {
    if !keys.within_limits() {
        return Err(Error::EntityNotFound);
    }
    let version = version(if_match);
    let expiries = Expiries::of(table);
    let mut seen = None;
    loop {
        let outcome = connect(|spi| match write(spi, version) {
            Some(written) => Ok(written),
            None if expiries.is_empty() => {
                let rows = spi.run(table.name(), &Statement::of_keys(Kind::GetTimestamp, keys));
                Err(rows.first().map(|row| row.timestamptz(1)))
            }
            None => {
                let rows = spi.run(table.name(), &Statement::of_keys(Kind::Look, keys));
                let alive = |&(timestamp, properties): &(i64, _)| !expiries.have_passed(timestamp, properties);
                Err(stored_entity(keys, &rows)
                    .filter(alive)
                    .map(|(timestamp, _)| Some(timestamp)))
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
pub fn version(if_match: IfMatch) -> Option<i64> {
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
pub fn not_inserted(table: &Table, keys: EntityKeys<'_>, properties: PropertiesArg<'_>) -> Error {
    // Without such a trigger the entity exists. A second insert could wait for a transaction that deletes it, out of
    // key order.
    if !table.may_suppress_inserts() {
        return Error::EntityAlreadyExists;
    }
    let insert = || {
        let statement = Statement::of_entity(Kind::InsertOrRaise, keys, now(), properties);
        // An error, so that the subtransaction is rolled back.
        Err::<(), _>(connect(|spi| spi.run(table.name(), &statement).processed()))
    };
    match in_subtransaction(insert) {
        Ok(Err(0)) => suppressed(),
        Ok(_) => Error::EntityAlreadyExists,
        Err(error) if is_conflict(&error) => Error::EntityAlreadyExists,
        Err(error) => rethrow(error),
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

/// The obstacle to an insert.
pub enum InTheWay {
    /// An entity, or nothing that the caller may see: callers learn no more about entities that a policy hides.
    Entity,
    /// Nothing that the caller sees. Another session may have removed it, or a policy hides it.
    Nothing,
    /// An entity that had expired and is gone. The new entity needs a later Timestamp, so that no ETag names both.
    Expired(i64),
}

/// Deletes an entity that has expired, so that another can be inserted.
pub fn remove_expired(table: &Table, expiries: &Expiries, keys: EntityKeys<'_>) -> InTheWay {
    if expiries.is_empty() || !direct::may_read(table) {
        return InTheWay::Entity;
    }
    connect(|spi| {
        let rows = spi.run(table.name(), &Statement::of_keys(Kind::Look, keys));
        let Some((timestamp, properties)) = stored_entity(keys, &rows) else {
            return InTheWay::Nothing;
        };
        if !expiries.have_passed(timestamp, properties) {
            return InTheWay::Entity;
        }
        // The entity stays expired under any lock. A renewed entity has another Timestamp. If a sweep was faster, this
        // deletes nothing; if a policy or a trigger keeps it, it is found again.
        spi.run(table.name(), &Statement::delete(keys, Some(timestamp), false));
        InTheWay::Expired(timestamp)
    })
}

/// Returns the Timestamp and the properties of the entity that a statement returns, if it returns one.
pub fn stored_entity<'c>(keys: EntityKeys<'_>, rows: &Rows<'c>) -> Option<(i64, Properties<'c>)> {
    let row = rows.first()?;
    let with_key = || format!("with RowKey '{}'", keys.row_key.get());
    match (row.timestamptz(3), row.properties(4, with_key)) {
        (Some(timestamp), Some(properties)) => Some((timestamp, properties)),
        _ => broken_by_null(keys),
    }
}
