//! Insert, replace, merge, upsert, patch and delete one entity.

use std::ffi::CStr;

use pgrx::prelude::*;
use table_service_model::{Error, ParsedEntity, Patch, Predicate, Ticks};

use super::filters::parse;
use crate::engine::rewrite::Rewrite;
use crate::engine::write;
use crate::postgres::{PropertiesArg, TextArg, TextArrayArg, etag, raising};
use crate::storage::arguments::{self, EntityKeys, prevent_if_read_only, required};
use crate::storage::entity::EntityOut;
use crate::storage::statement::UpdateMode;
use crate::storage::table::{Table, TableLock};

/// Inserts an entity and returns its ETag.
///
/// Raises `EntityAlreadyExists` if an entity has these keys, `TableNotFound`, and the errors of the limits.
#[pg_extern]
fn insert_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
) -> String {
    raising(|| {
        let target = EntityAddress::new(c"insert_entity()", table_name, partition_key, row_key)?;
        let properties = arguments::properties(properties)?;
        target
            .named(write::insert(&target.table()?, target.keys, properties))
            .map(etag)
    })
}

/// Replaces all properties of an entity and returns its new ETag. `if_match` is the ETag that it must have, or `*` for
/// any.
///
/// Raises `ResourceNotFound` if the entity does not exist, and `UpdateConditionNotSatisfied` if it has another ETag.
#[pg_extern]
fn replace_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> String {
    raising(|| {
        let target = EntityAddress::new(c"replace_entity()", table_name, partition_key, row_key)?;
        target.update(UpdateMode::Replace, properties, if_match)
    })
}

/// Sets the given properties of an entity, keeps its other properties, and returns its new ETag. `if_match` is the ETag
/// that it must have, or `*` for any.
///
/// Raises `ResourceNotFound` if the entity does not exist, and `UpdateConditionNotSatisfied` if it has another ETag.
#[pg_extern]
fn merge_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
    if_match: Option<TextArg<'_>>,
) -> String {
    raising(|| {
        let target = EntityAddress::new(c"merge_entity()", table_name, partition_key, row_key)?;
        target.update(UpdateMode::Merge, properties, if_match)
    })
}

/// Changes an entity depending on what it has, and returns it as it is now stored: sets `properties`, adds the numbers of
/// `increment`, and removes the properties whose names are in `remove`. The entity must pass the filter `condition`, whose
/// `@name` have their values in `parameters`, and have the ETag `if_match`, or `*` for any. With `create_missing`, an entity
/// that does not exist begins without properties.
///
/// Raises `ResourceNotFound` if the entity does not exist, `UpdateConditionNotSatisfied` if it does not pass or has another
/// ETag, `OutOfRangeInput` for a sum that its type does not have, and the errors of the limits.
#[allow(clippy::too_many_arguments)]
#[pg_extern]
fn patch_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: default!(Option<PropertiesArg<'_>>, "NULL"),
    increment: default!(Option<PropertiesArg<'_>>, "NULL"),
    remove: default!(Option<TextArrayArg<'_>>, "NULL"),
    condition: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    if_match: default!(Option<TextArg<'_>>, "'*'"),
    create_missing: default!(Option<bool>, "false"),
) -> EntityOut {
    raising(|| {
        let target = EntityAddress::new(c"patch_entity()", table_name, partition_key, row_key)?;
        let if_match = arguments::if_match(if_match)?;
        let create_missing = required("create_missing", create_missing)?;
        let [set, increment] = [properties, increment].map(|bag| bag.map(|bag| bag.get()));
        let patch = Patch::new(set, increment, arguments::names(remove.as_ref()))?;
        let condition = condition
            .map(|condition| parse(Some(condition), parameters))
            .transpose()?;
        let condition = condition.map(|filter| Predicate::new(&filter));
        let patch = patch.only_if(condition.as_ref());
        let rewrite = Rewrite {
            table: &target.table()?,
            keys: target.keys,
            if_match,
            create_missing,
            make: &|stored| patch.apply_to(stored),
        };
        let patched = target.named(rewrite.run())?;
        Ok(EntityOut(ParsedEntity {
            partition_key: target.keys.partition_key.get().to_owned(),
            row_key: target.keys.row_key.get().to_owned(),
            timestamp: Ticks::from_postgres_micros(patched.timestamp),
            properties: patched.properties,
        }))
    })
}

/// Inserts an entity, or replaces all properties of the existing entity with these keys, and returns its new ETag.
#[pg_extern]
fn insert_or_replace_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
) -> String {
    raising(|| {
        let target = EntityAddress::new(c"insert_or_replace_entity()", table_name, partition_key, row_key)?;
        target.upsert(UpdateMode::Replace, properties)
    })
}

/// Inserts an entity, or sets the given properties of the existing entity with these keys, and returns its new ETag.
#[pg_extern]
fn insert_or_merge_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    properties: Option<PropertiesArg<'_>>,
) -> String {
    raising(|| {
        let target = EntityAddress::new(c"insert_or_merge_entity()", table_name, partition_key, row_key)?;
        target.upsert(UpdateMode::Merge, properties)
    })
}

/// Deletes an entity and returns whether it existed. `if_match` is the ETag that it must have, or `*` for any.
///
/// Raises `ResourceNotFound` if the entity does not exist, unless `if_exists`, and `UpdateConditionNotSatisfied` if it
/// has another ETag.
#[pg_extern]
fn delete_entity(
    table_name: Option<TextArg<'_>>,
    partition_key: Option<TextArg<'_>>,
    row_key: Option<TextArg<'_>>,
    if_match: default!(Option<TextArg<'_>>, "'*'"),
    if_exists: default!(Option<bool>, "false"),
) -> bool {
    raising(|| {
        let target = EntityAddress::new(c"delete_entity()", table_name, partition_key, row_key)?;
        let if_match = arguments::if_match(if_match)?;
        let if_exists = required("if_exists", if_exists)?;
        match write::delete(&target.table()?, target.keys, if_match) {
            Err(Error::EntityNotFound) if if_exists => Ok(false),
            deleted => target.named(deleted).map(|()| true),
        }
    })
}

/// The table and the keys of the entity to write.
struct EntityAddress<'a> {
    table_name: &'a str,
    keys: EntityKeys<'a>,
}

impl<'a> EntityAddress<'a> {
    /// Checks the arguments without a table: they are not NULL, and the keys contain only valid characters.
    fn new(
        function: &CStr,
        table_name: Option<TextArg<'a>>,
        partition_key: Option<TextArg<'a>>,
        row_key: Option<TextArg<'a>>,
    ) -> Result<EntityAddress<'a>, Error> {
        let table_name = required("table_name", table_name)?.get();
        let keys = EntityKeys::new(partition_key, row_key)?;
        prevent_if_read_only(function);
        Ok(EntityAddress { table_name, keys })
    }

    fn table(&self) -> Result<Table, Error> {
        Table::open(self.table_name, TableLock::Write)
    }

    fn update(
        &self,
        change: UpdateMode,
        properties: Option<PropertiesArg<'_>>,
        if_match: Option<TextArg<'_>>,
    ) -> Result<String, Error> {
        let properties = arguments::properties(properties)?;
        let if_match = arguments::if_match(if_match)?;
        self.named(write::update(&self.table()?, change, self.keys, properties, if_match))
            .map(etag)
    }

    fn upsert(&self, change: UpdateMode, properties: Option<PropertiesArg<'_>>) -> Result<String, Error> {
        let properties = arguments::properties(properties)?;
        self.named(write::upsert(&self.table()?, change, self.keys, properties))
            .map(etag)
    }

    /// Names the entity in an error that says how it is stored.
    fn named<T>(&self, written: Result<T, Error>) -> Result<T, Error> {
        let EntityKeys { partition_key, row_key } = self.keys;
        written.map_err(|error| error.of_written(partition_key.get(), row_key.get()))
    }
}
