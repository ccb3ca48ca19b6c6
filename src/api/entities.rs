//! Entities as values: ETags and JSON payloads.

use pgrx::prelude::*;
use table_service_model::json::{self, Metadata};
use table_service_model::{Error, etag, key};

use super::time_keys::TIMESTAMP;
use crate::postgres::{JsonOut, OrRaise, TextArg, ticks_of};
use crate::storage::entity::{EntityArg, EntityOut};

/// Returns the ETag of an entity, or NULL if it has no Timestamp.
#[pg_extern(name = "etag", immutable, strict, parallel_safe)]
fn etag_of_entity(entity: EntityArg<'_>) -> Option<String> {
    entity.timestamp().map(|timestamp| etag_of_micros(timestamp).or_raise())
}

/// Returns the ETag of an entity with this Timestamp.
#[pg_extern(name = "etag", immutable, strict, parallel_safe)]
fn etag_of_timestamp(timestamp: TimestampWithTimeZone) -> String {
    etag_of_micros(timestamp.into_inner()).or_raise()
}

fn etag_of_micros(timestamp: i64) -> Result<String, Error> {
    ticks_of(TIMESTAMP, timestamp).map(etag::format)
}

/// Returns an entity as the service's JSON payload. `metadata` is `none`, `minimal` or `full`. The only `odata.*`
/// annotation of the entity that it writes is `odata.etag`. Of no entity it is NULL.
#[pg_extern(immutable, strict, parallel_safe)]
fn entity_to_json(entity: EntityArg<'_>, metadata: default!(TextArg<'_>, "'minimal'")) -> Option<JsonOut> {
    if entity.is_null() {
        return None;
    }
    let metadata = Metadata::parse(metadata.get()).or_raise();
    Some(JsonOut(json::entity_to_json(&entity.get(), metadata)))
}

/// Returns the entity in a JSON payload. Its Timestamp is NULL if the payload has none.
///
/// Raises `PropertiesNeedValue` for a missing key, `OutOfRangeInput` for a character that a key must not contain, and
/// `InvalidInput` for an invalid payload.
#[pg_extern(immutable, strict, parallel_safe)]
fn entity_from_json(payload: TextArg<'_>) -> EntityOut {
    let entity = json::parse_entity(payload.get()).or_raise();
    key::check_characters_of_both(&entity.partition_key, &entity.row_key).or_raise();
    EntityOut(entity)
}
