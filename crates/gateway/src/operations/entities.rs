//! Operations on one entity (semantics 4.4 to 4.7).

use http::StatusCode;
use http::header::{ETAG, LOCATION};
use table_service_model::json::Metadata;
use table_service_model::{Code, Entity, Error, Filter, IfMatch, Projection, PropertiesBuf, RequestError, key};
use tokio_postgres::Row;

use super::context::Context;
use crate::database::{Bag, Statement, Timestamp, column};
use crate::failure::Failure;
use crate::limits::blocking::on_payload;
use crate::limits::buffer::capacity_for_entity;
use crate::request::negotiation::{Prefer, check_content_type};
use crate::request::query::Query;
use crate::request::resource::EntityAddress;
use crate::request::{body, if_match};
use crate::response::{DATA_SERVICE_ID, Reply};

/// Executes Insert Entity.
pub async fn insert(context: &Context<'_>, table: &str, content: &[u8]) -> Result<Reply, Failure> {
    check_content_type(context.head.header("content-type"))?;
    let entity = match on_payload(content.len(), || body::new_entity(content)) {
        Ok(entity) => entity,
        Err(error) => return Err(Box::pin(found_first(context, table, ["", ""], None, error.into())).await),
    };
    let (partition_key, row_key) = (&entity.partition_key, &entity.row_key);
    _ = context.partition.set((table.to_owned(), partition_key.clone()));
    key::check_characters_of_both(partition_key, row_key)?;
    context.grant.permits_key(partition_key, row_key)?;
    let bag = &entity.properties;
    let keys = [partition_key.as_str(), row_key];
    let statement = Statement::InsertEntity;
    let etag = context.session.write_entity(statement, table, keys, bag, None).await?;
    let (prefer, metadata) = (context.prefer, context.metadata);
    Ok(inserted(context, table, keys, bag, &etag, prefer, metadata))
}

/// The response to an insert.
pub fn inserted(
    context: &Context<'_>,
    table: &str,
    [partition_key, row_key]: [&str; 2],
    properties: &PropertiesBuf,
    etag: &str,
    prefer: Option<Prefer>,
    metadata: Metadata,
) -> Reply {
    let url = context.base.entity_url(table, partition_key, row_key);
    let reply = match prefer {
        Some(Prefer::ReturnNoContent) => Reply::no_content().with_text(DATA_SERVICE_ID, &url),
        _ => {
            // The stored entity is the one that was sent, with the Timestamp of the ETag.
            let timestamp = match IfMatch::parse(etag) {
                Ok(IfMatch::Version(timestamp)) => Some(timestamp),
                _ => None,
            };
            let entity = Entity {
                partition_key: Some(partition_key),
                row_key: Some(row_key),
                timestamp,
                properties: properties.as_properties(),
            };
            let body = element(context, table, &entity, None, metadata, &Projection::All);
            Reply::json(StatusCode::CREATED, metadata, body)
        }
    };
    reply
        .with_text(ETAG, etag)
        .with_text(LOCATION, &url)
        .with_preference(prefer)
}

/// Executes a query by both keys.
pub async fn get(
    context: &Context<'_>,
    address: &EntityAddress,
    query: &Query,
    metadata: Metadata,
) -> Result<Reply, Failure> {
    address.check_for_read()?;
    let select = query.get("$select");
    let [table, partition_key, row_key] = address.parts();
    context.grant.permits_key(partition_key, row_key)?;
    let projection = Projection::parse(select.unwrap_or_default())?;
    let parse = |text: &str| Filter::parse(text, None, context.tenant.filter_dialect);
    let filter = query.get("$filter").map(parse).transpose()?;
    let row = context.session.get_entity(table, partition_key, row_key).await?;
    let row = row.ok_or(Error::EntityNotFound)?;
    let Timestamp(timestamp) = column(&row, 0)?;
    let Bag(properties) = column(&row, 1)?;
    let entity = Entity {
        partition_key: Some(partition_key),
        row_key: Some(row_key),
        timestamp,
        properties,
    };
    if filter.is_some_and(|filter| !filter.matches(&entity)) {
        return Err(Error::EntityNotFound.into());
    }
    let body = element(context, table, &entity, select, metadata, &projection);
    let mut reply = Reply::json(StatusCode::OK, metadata, body);
    if let Some(timestamp) = timestamp {
        reply = reply.with_text(ETAG, &table_service_model::etag::format(timestamp));
    }
    Ok(reply)
}

/// Returns the payload for one entity.
fn element(
    context: &Context<'_>,
    table: &str,
    entity: &Entity<'_>,
    select: Option<&str>,
    metadata: Metadata,
    projection: &Projection,
) -> Vec<u8> {
    let what = match (select, projection) {
        (Some(select), Projection::Names(_)) | (Some(select @ ""), _) => [table, "/@Element&$select=", select].concat(),
        _ => [table, "/@Element"].concat(),
    };
    let context_url = context.base.context_url(metadata, &what);
    let mut body = Vec::with_capacity(capacity_for_entity(entity.properties.as_bytes().len()));
    context
        .base
        .write_entity(&mut body, table, entity, projection, metadata, context_url.as_deref());
    body
}

/// Replaces or merges an entity with the first statement, or with the second one if there is no If-Match.
pub async fn update(
    context: &Context<'_>,
    address: &EntityAddress,
    content: &[u8],
    [conditional, unconditional]: [Statement; 2],
) -> Result<Reply, Failure> {
    check_content_type(context.head.header("content-type"))?;
    let if_match = if_match(&context.head.method, &context.head.headers)?;
    address.check_for_write()?;
    let [table, partition_key, row_key] = address.parts();
    context.grant.permits_key(partition_key, row_key)?;
    let keys = [partition_key, row_key];
    let properties = match on_payload(content.len(), || body::properties(content)) {
        Ok(properties) => properties,
        Err(error) => return Err(Box::pin(found_first(context, table, keys, if_match, error.into())).await),
    };
    let statement = if if_match.is_some() { conditional } else { unconditional };
    let etag = context
        .session
        .write_entity(statement, table, keys, &properties, if_match)
        .await?;
    Ok(Reply::no_content().with_text(ETAG, &etag))
}

/// The error that the service reports when the body of a write is wrong (semantics 0.2).
///
/// A missing table is reported before missing keys and exceeded limits. A missing entity, or another ETag, is reported
/// before exceeded limits. `if_match` is the condition of an update or merge; other writes have none.
pub async fn found_first(
    context: &Context<'_>,
    table: &str,
    [partition_key, row_key]: [&str; 2],
    if_match: Option<&str>,
    failure: Failure,
) -> Failure {
    let is_late = matches!(
        failure.code,
        Code::PropertiesNeedValue | Code::PropertyValueTooLarge | Code::TooManyProperties | Code::EntityTooLarge
    );
    if !is_late {
        return failure;
    }
    let stored = context.session.get_version(table, partition_key, row_key).await;
    match (stored, if_match) {
        (Err(first), _) if first.is_of_table() => first,
        (Ok(None), Some(_)) => Error::EntityNotFound.into(),
        (Ok(Some(row)), Some(tag)) if !is_version(&row, tag) => Error::UpdateConditionNotSatisfied.into(),
        _ => failure,
    }
}

/// Returns whether If-Match holds for a row.
fn is_version(row: &Row, tag: &str) -> bool {
    match IfMatch::parse(tag) {
        Ok(IfMatch::Any) => true,
        Ok(IfMatch::Version(version)) => column(row, 0).is_ok_and(|Timestamp(timestamp)| timestamp == Some(version)),
        _ => false,
    }
}

/// Refuses an address with a table in the place of an entity. A missing table before it is the first error.
pub async fn refuse_misplaced(context: &Context<'_>, table: &str) -> Result<Reply, Failure> {
    context.session.get_entity(table, "", "").await?;
    Err(RequestError::UrlKeyCount.into())
}

/// Executes Delete Entity.
pub async fn delete(context: &Context<'_>, address: &EntityAddress) -> Result<Reply, Failure> {
    let if_match = if_match(&context.head.method, &context.head.headers)?;
    let if_match = if_match.ok_or(RequestError::HeaderMissing { name: "If-Match" })?;
    address.check_for_write()?;
    let [table, partition_key, row_key] = address.parts();
    context.grant.permits_key(partition_key, row_key)?;
    context
        .session
        .delete_entity(table, [partition_key, row_key], if_match)
        .await?;
    Ok(Reply::no_content())
}
