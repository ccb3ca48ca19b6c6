//! Insert, replace, merge, upsert and delete of one entity. Each is one statement; where a condition failed, a second
//! look says why.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use table_service_model::etag::IfMatch;
use table_service_model::{Error, Properties, entity};

use crate::arguments::{self, Keys, prevent_if_read_only, required};
use crate::clock::{etag, now};
use crate::direct::{self, Change, Purpose};
use crate::error::OrRaise;
use crate::spi::{self, Connection, Statement, connect};
use crate::tables::{Access, Table};
use crate::types::{PropertiesArg, TextArg, varlena};

/// Inserts an entity and returns its ETag.
///
/// Raises `EntityAlreadyExists` if there is one with these keys, `TableNotFound`, and the errors of the limits.
#[pg_extern]
fn insert_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
) -> String {
    let insert = || {
        let write = Write::new(c"insert_entity()", table_name, partition_key, row_key)?;
        let properties = arguments::properties(properties)?;
        let table = write.table()?;
        let clock = now();
        let direct = direct::with(&table, Purpose::Insert, |table| {
            // An entity that it cannot see yet is a conflict with another transaction, which a statement tells from one
            // that it can see.
            (!direct::has_one_snapshot()).then(|| table.insert(write.keys, clock, properties))
        });
        if let Some(inserted) = direct {
            return inserted.map(|()| etag(clock));
        }
        write.check_limits(properties)?;
        let inserted = connect(|spi| {
            let [partition_key, row_key] = write.keys.datums();
            spi.run(
                Statement::Insert,
                &table,
                [partition_key, row_key, clock.into(), properties.datum()],
            )
            .processed
        });
        if inserted == 0 {
            return Err(not_inserted(&table, write.keys, properties.get()));
        }
        Ok(etag(clock))
    };
    insert().or_raise()
}

/// Replaces all properties of an entity and returns its new ETag. `if_match` is its ETag, or `*` for any version.
///
/// Raises `ResourceNotFound` if there is none, `UpdateConditionNotSatisfied` if it has another ETag.
#[pg_extern]
fn replace_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> String {
    let replace = || {
        let write = Write::new(c"replace_entity()", table_name, partition_key, row_key)?;
        let properties = arguments::properties(properties)?;
        write.update(properties, if_match, Statement::Replace, Statement::ReplaceVersion)
    };
    replace().or_raise()
}

/// Sets the given properties of an entity, keeps its others, and returns its new ETag. `if_match` is its ETag, or `*`
/// for any version.
///
/// Raises `ResourceNotFound` if there is none, `UpdateConditionNotSatisfied` if it has another ETag.
#[pg_extern]
fn merge_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> String {
    let merge = || {
        let write = Write::new(c"merge_entity()", table_name, partition_key, row_key)?;
        let properties = arguments::properties(properties)?;
        write.update(properties, if_match, Statement::Merge, Statement::MergeVersion)
    };
    merge().or_raise()
}

/// Inserts an entity, or replaces all properties of the one with these keys, and returns its new ETag.
#[pg_extern]
fn insert_or_replace_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
) -> String {
    let upsert = || {
        let write = Write::new(c"insert_or_replace_entity()", table_name, partition_key, row_key)?;
        write.upsert(properties, Statement::InsertOrReplace)
    };
    upsert().or_raise()
}

/// Inserts an entity, or sets the given properties of the one with these keys, and returns its new ETag.
#[pg_extern]
fn insert_or_merge_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
) -> String {
    let upsert = || {
        let write = Write::new(c"insert_or_merge_entity()", table_name, partition_key, row_key)?;
        write.upsert(properties, Statement::InsertOrMerge)
    };
    upsert().or_raise()
}

/// Deletes an entity; true when there was one. `if_match` is its ETag, or `*` for any version.
///
/// Raises `ResourceNotFound` if there is none, unless `if_exists`; `UpdateConditionNotSatisfied` if it has another
/// ETag.
#[pg_extern]
fn delete_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    if_match: default!(Option<TextArg<'_>>, "'*'"),
    if_exists: default!(Option<bool>, "false"),
) -> bool {
    let delete = || {
        let write = Write::new(c"delete_entity()", table_name, partition_key, row_key)?;
        let if_match = arguments::if_match(if_match)?;
        let if_exists = required("if_exists", if_exists)?;
        let table = write.table()?;
        let result = write.conditional(&table, if_match, |spi, version| {
            let [partition_key, row_key] = write.keys.datums();
            let rows = match version {
                None => spi.run(Statement::Delete, &table, [partition_key, row_key]),
                Some(version) => spi.run(
                    Statement::DeleteVersion,
                    &table,
                    [partition_key, row_key, version.into()],
                ),
            };
            (rows.processed > 0).then_some(())
        });
        match result {
            Ok(()) => Ok(true),
            Err(Error::EntityNotFound) if if_exists => Ok(false),
            Err(error) => Err(error),
        }
    };
    delete().or_raise()
}

/// What all writes of one entity have in common.
struct Write<'a> {
    table_name: &'a str,
    keys: Keys<'a>,
}

impl<'a> Write<'a> {
    /// Checks what can be checked without the table: NULLs and the characters of the keys.
    fn new(
        function: &CStr,
        table_name: Option<TextArg<'a>>,
        partition_key: Option<TextArg<'a>>,
        row_key: Option<TextArg<'a>>,
    ) -> Result<Write<'a>, Error> {
        let table_name = required("table_name", table_name)?.get();
        let keys = Keys::new(partition_key, row_key)?;
        prevent_if_read_only(function);
        Ok(Write { table_name, keys })
    }

    fn table(&self) -> Result<Table, Error> {
        Table::open(self.table_name, Access::Write)
    }

    /// The limits of an entity that may be inserted: here they come before the look-up of the row (semantics 0.2).
    fn check_limits(&self, properties: PropertiesArg<'_>) -> Result<(), Error> {
        if !self.keys.within_limits() {
            return Err(Error::KeyTooLong);
        }
        entity::check_size(self.keys.partition_key.get(), self.keys.row_key.get(), properties.get())
    }

    /// Replace or merge of an entity that must exist.
    fn update(
        &self,
        properties: PropertiesArg<'_>,
        if_match: Option<TextArg<'_>>,
        any_version: Statement,
        one_version: Statement,
    ) -> Result<String, Error> {
        let if_match = arguments::if_match(if_match)?;
        let table = self.table()?;
        if !self.keys.within_limits() {
            return Err(Error::EntityNotFound);
        }
        let change = match any_version {
            Statement::Merge => Change::Merge(properties),
            _ => Change::Replace(properties),
        };
        let direct = direct::with(&table, Purpose::Update, |table| {
            table.update(self.keys, version(if_match), change).transpose()
        });
        if let Some(updated) = direct {
            return updated.map(etag);
        }
        let timestamp = self.conditional(&table, if_match, |spi, version| {
            let [partition_key, row_key] = self.keys.datums();
            let (clock, properties) = (now().into(), properties.datum());
            let rows = match version {
                None => spi.run(any_version, &table, [partition_key, row_key, clock, properties]),
                Some(version) => spi.run(
                    one_version,
                    &table,
                    [partition_key, row_key, clock, properties, version.into()],
                ),
            };
            rows.timestamp()
        })?;
        Ok(etag(timestamp))
    }

    fn upsert(&self, properties: Option<PropertiesArg<'_>>, statement: Statement) -> Result<String, Error> {
        let properties = arguments::properties(properties)?;
        let table = self.table()?;
        self.check_limits(properties)?;
        let timestamp = connect(|spi| {
            let [partition_key, row_key] = self.keys.datums();
            spi.run(
                statement,
                &table,
                [partition_key, row_key, now().into(), properties.datum()],
            )
            .timestamp()
        });
        timestamp.map(etag).ok_or_else(suppressed)
    }

    /// Runs `write` until it writes, or a second look with a new snapshot tells why it does not: 404 before 412
    /// (semantics 2.2). `write` gets the Timestamp that the entity must have, or `None` for any.
    fn conditional<T>(
        &self,
        table: &Table,
        if_match: IfMatch,
        write: impl Fn(&Connection, Option<i64>) -> Option<T>,
    ) -> Result<T, Error> {
        if !self.keys.within_limits() {
            return Err(Error::EntityNotFound);
        }
        let version = version(if_match);
        let mut seen = None;
        loop {
            let outcome = connect(|spi| match write(spi, version) {
                Some(written) => Ok(written),
                None => Err(spi.run(Statement::GetTimestamp, table, self.keys.datums()).timestamp()),
            });
            let found = match outcome {
                Ok(written) => return Ok(written),
                Err(found) => found.ok_or(Error::EntityNotFound)?,
            };
            if version.is_some_and(|version| version != found) {
                return Err(Error::UpdateConditionNotSatisfied);
            }
            // It came between our two looks: write again. If it is the same version as before, it is not concurrency
            // that keeps us from writing it.
            if seen == Some(found) {
                return Err(suppressed());
            }
            seen = Some(found);
            pgrx::check_for_interrupts!();
        }
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

/// Why an insert did nothing: there is such an entity, or a trigger took the row away. To look for the entity would ask for
/// the right to read it; an insert that raises tells too.
pub fn not_inserted(table: &Table, keys: Keys<'_>, properties: Properties<'_>) -> Error {
    // Without need it does not wait a second time for whoever is about to delete the entity, out of the order of the keys.
    if !table.has_insert_trigger() {
        return Error::EntityAlreadyExists;
    }
    let insert = || {
        let [partition_key, row_key] = keys.datums();
        let arguments = [partition_key, row_key, now().into(), varlena(properties.as_bytes())];
        // As an error, so that nothing of it stays.
        Err::<(), _>(connect(|spi| {
            spi.run(Statement::InsertOrRaise, table, arguments).processed
        }))
    };
    match spi::in_subtransaction(AssertUnwindSafe(insert)) {
        Ok(Err(0)) => suppressed(),
        Ok(_) => Error::EntityAlreadyExists,
        Err(error) if is_conflict(&error) => Error::EntityAlreadyExists,
        Err(error) => error.rethrow(),
    }
}

/// What ON CONFLICT DO NOTHING passes over.
fn is_conflict(error: &CaughtError) -> bool {
    matches!(
        spi::sqlerrcode(error),
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION | PgSqlErrorCode::ERRCODE_EXCLUSION_VIOLATION
    )
}

/// A row that may be read and not written, or a trigger that took the write away.
pub fn suppressed() -> Error {
    Error::NotAuthorized {
        reason: "A row-level security policy or a trigger of the table kept the entity from being written".to_owned(),
    }
}
