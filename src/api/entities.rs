//! Entities as values: ETags and JSON payloads.

use pgrx::prelude::*;
use table_service_model::json::{self, Metadata};
use table_service_model::{Error, etag, key};

use super::time_keys::TIMESTAMP;
use crate::postgres::clock::ticks_of;
use crate::postgres::error::OrRaise;
use crate::postgres::types::{EntityArg, EntityOut, JsonOut, TextArg};

/// The ETag of an entity; NULL while it has no Timestamp.
#[pg_extern(name = "etag", immutable, strict, parallel_safe)]
fn etag_of_entity(entity: EntityArg<'_>) -> Option<String> {
    entity.timestamp().map(|timestamp| etag_of_micros(timestamp).or_raise())
}

/// The ETag of an entity with this Timestamp.
#[pg_extern(name = "etag", immutable, strict, parallel_safe)]
fn etag_of_timestamp(timestamp: TimestampWithTimeZone) -> String {
    etag_of_micros(timestamp.into_inner()).or_raise()
}

fn etag_of_micros(timestamp: i64) -> Result<String, Error> {
    ticks_of(TIMESTAMP, timestamp).map(etag::format)
}

/// An entity as the service's JSON payload. `metadata` is `none`, `minimal` or `full`; of `odata.*` only `odata.etag`
/// is written.
#[pg_extern(immutable, strict, parallel_safe)]
fn entity_to_json(entity: EntityArg<'_>, metadata: default!(TextArg<'_>, "'minimal'")) -> JsonOut {
    let metadata = Metadata::parse(metadata.get()).or_raise();
    JsonOut(json::entity_to_json(&entity.get(), metadata))
}

/// The entity in a JSON payload, with the Timestamp that it has there, or NULL.
///
/// Raises `PropertiesNeedValue` for a missing key, `OutOfRangeInput` for a character that no key may hold, `InvalidInput`
/// for what is no payload.
#[pg_extern(immutable, strict, parallel_safe)]
fn entity_from_json(payload: TextArg<'_>) -> EntityOut {
    let entity = json::parse_entity(payload.get()).or_raise();
    key::check_characters_of_both(&entity.partition_key, &entity.row_key).or_raise();
    EntityOut {
        partition_key: entity.partition_key,
        row_key: entity.row_key,
        timestamp: entity.timestamp,
        properties: entity.properties,
    }
}
