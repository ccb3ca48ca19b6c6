//! Rewrites of one entity. The new properties depend on the stored ones, so they are made from the row that they replace.

use std::cell::Cell;

use table_service_model::{Entity, Error, IfMatch, Properties, PropertiesBuf, Ticks};

use super::attempts::{conditional, in_attempts, not_inserted, stored_entity, suppressed, version};
use crate::postgres::{Array, Bag, PropertiesArg, Rows, Value, connect, now};
use crate::storage::arguments::EntityKeys;
use crate::storage::direct::{NewProperties, Updater};
use crate::storage::expiry::Expiries;
use crate::storage::row::Row;
use crate::storage::statement::{Kind, Statement};
use crate::storage::table::Table;

/// An entity, and the properties that it gets.
pub struct Rewrite<'a> {
    pub table: &'a Table,
    pub keys: EntityKeys<'a>,
    /// The version that the entity must have.
    pub if_match: IfMatch,
    /// Whether an entity that does not exist, or has expired, is inserted, if `if_match` is any version.
    pub create_missing: bool,
    /// Makes the new properties from the entity as it is stored, or from one without properties if it is created.
    pub make: &'a dyn Fn(&Entity<'_>) -> Result<PropertiesBuf, Error>,
}

/// An entity as it is stored after a rewrite.
pub struct Rewritten {
    /// In microseconds since 2000-01-01.
    pub timestamp: i64,
    pub properties: PropertiesBuf,
}

/// How often a rewrite that may insert finds no entity, although an insert finds one. Other sessions may insert and delete it
/// in between. It is bounded because a policy may hide the entity, a unique index of a user may refuse it, and a trigger may
/// suppress the insert.
const ATTEMPTS: usize = 10;

impl Rewrite<'_> {
    /// Rewrites the entity.
    ///
    /// # Errors
    /// `ResourceNotFound`, `UpdateConditionNotSatisfied`, the errors of `make` and of the limits, and `AuthorizationFailure`.
    pub fn run(&self) -> Result<Rewritten, Error> {
        if self.may_insert() && !self.keys.within_limits() {
            return Err(Error::KeyTooLong);
        }
        let mut attempt = 1;
        loop {
            match self.change() {
                Err(Error::EntityNotFound) if self.may_insert() => {}
                outcome => return outcome,
            }
            let bag = Bag::new((self.make)(&self.missing())?.as_properties());
            match self.insert(bag.arg()) {
                Some(inserted) => return Ok(inserted),
                None if attempt == ATTEMPTS => return Err(self.refused(bag.arg())),
                None => attempt += 1,
            }
            pgrx::check_for_interrupts!();
        }
    }

    /// Returns why an entity can be neither changed nor inserted.
    fn refused(&self, bag: PropertiesArg<'_>) -> Error {
        let Rewrite { table, keys, .. } = *self;
        match not_inserted(table, keys, bag) {
            // The entity that the caller sees there has expired, and a policy keeps it from being changed.
            Error::EntityAlreadyExists
                if connect(|spi| {
                    stored_entity(keys, &spi.run(table.name(), &Statement::of_keys(Kind::Look, keys))).is_some()
                }) =>
            {
                suppressed()
            }
            error => error,
        }
    }

    fn may_insert(&self) -> bool {
        self.create_missing && self.if_match == IfMatch::Any
    }

    fn missing(&self) -> Entity<'_> {
        Entity::missing(self.keys.partition_key.get(), self.keys.row_key.get())
    }

    /// Rewrites an entity that exists.
    fn change(&self) -> Result<Rewritten, Error> {
        if !self.keys.within_limits() {
            return Err(Error::EntityNotFound);
        }
        // Another transaction may be about to change the row. The rewrite fails only if it fails after that transaction
        // has ended, for which a statement waits.
        let made = |row: &Row<'_>| Ok((self.make)(&row.entity()).ok().map(NewProperties::Made));
        let direct = Updater::open(self.table, self.keys.partition_key)
            .and_then(|mut table| table.update(self.keys, version(self.if_match), made).transpose());
        match direct.transpose() {
            Ok(Some((timestamp, NewProperties::Made(properties)))) => Ok(Rewritten { timestamp, properties }),
            Ok(_) => self.change_locked(),
            // It may be stored, though it has expired.
            Err(Error::EntityNotFound) if self.may_insert() && !Expiries::of(self.table).is_empty() => {
                self.change_locked()
            }
            Err(error) => Err(error),
        }
    }

    /// Rewrites an entity by statements: one locks it, and one replaces the version that was locked. On a distributed table the
    /// lock does not last if Citus moves the shard in between; then the version is not written, and both run again.
    fn change_locked(&self) -> Result<Rewritten, Error> {
        let Rewrite { table, keys, .. } = *self;
        let expiries = Expiries::of(table);
        conditional(table, keys, self.if_match, |spi, version| {
            let row_key = Array::of_texts([keys.row_key.get()].into_iter());
            let lock = Statement::of_row_keys(Kind::LockMany, Value::text(keys.partition_key), &row_key);
            let rows = spi.run(table.name(), &lock);
            let (timestamp, properties) = stored_entity(keys, &rows)?;
            let has_expired = expiries.have_passed(timestamp, properties);
            if has_expired && !self.may_insert() {
                return Some(Err(Error::EntityNotFound));
            }
            if version.is_some_and(|version| version != timestamp) {
                return Some(Err(Error::UpdateConditionNotSatisfied));
            }
            let made = if has_expired {
                (self.make)(&self.missing())
            } else {
                (self.make)(&stored(keys, timestamp, properties))
            };
            match made {
                Err(error) => Some(Err(error)),
                Ok(bag) => {
                    let bag = Bag::new(bag.as_properties());
                    let write = Statement::of_entity(Kind::ReplaceVersion, keys, now(), bag.arg());
                    let write = write.with(Value::timestamptz(timestamp));
                    let rewritten = rewritten(keys, &spi.run(table.name(), &write));
                    table.note_write(keys.partition_key);
                    rewritten.map(Ok)
                }
            }
        })?
    }

    /// Inserts an entity, unless there is one. By a statement, which then leaves nothing behind.
    fn insert(&self, properties: PropertiesArg<'_>) -> Option<Rewritten> {
        let Rewrite { table, keys, .. } = *self;
        // A trigger may have changed the properties.
        let written = Cell::new(None);
        let inserted = in_attempts(table, keys, |clock| {
            connect(|spi| {
                let rows = spi.run(
                    table.name(),
                    &Statement::of_entity(Kind::InsertReturning, keys, clock, properties),
                );
                let inserted = rewritten(keys, &rows).ok_or(Error::EntityAlreadyExists)?;
                table.note_write(keys.partition_key);
                written.set(Some(inserted.properties));
                Ok(inserted.timestamp)
            })
        });
        Some(Rewritten {
            timestamp: inserted.ok()?,
            properties: written.take()?,
        })
    }
}

fn stored<'a>(keys: EntityKeys<'a>, timestamp: i64, properties: Properties<'a>) -> Entity<'a> {
    Entity {
        partition_key: Some(keys.partition_key.get()),
        row_key: Some(keys.row_key.get()),
        timestamp: Ticks::from_postgres_micros(timestamp),
        properties,
    }
}

fn rewritten(keys: EntityKeys<'_>, rows: &Rows<'_>) -> Option<Rewritten> {
    let (timestamp, properties) = stored_entity(keys, rows)?;
    Some(Rewritten {
        timestamp,
        properties: properties.to_buf(),
    })
}
