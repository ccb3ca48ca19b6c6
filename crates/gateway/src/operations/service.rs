//! Service properties and stats (semantics 4.10, 4.11).

use http::StatusCode;
use table_service_documents::{Unknown, read_properties, write_properties};
use table_service_model::access::ServiceProperties;
use table_service_model::replication::Answer;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::context::Context;
use crate::database::Secondary;
use crate::failure::Failure;
use crate::request::body::text;
use crate::response::Reply;

const HTTP_DATE: &[BorrowedFormatItem<'_>] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// Executes Get Table Service Properties.
pub async fn get_properties(context: &Context<'_>) -> Result<Reply, Failure> {
    let json = context.session.get_service_properties().await?;
    let properties = ServiceProperties::from_json(&json)?;
    Ok(Reply::xml(write_properties(&properties)?))
}

/// Executes Set Table Service Properties.
pub async fn set_properties(context: &Context<'_>, body: &[u8]) -> Result<Reply, Failure> {
    let change = read_properties(text(body)?, Unknown::Refused)?;
    change.check()?;
    context.session.set_service_properties(change.to_json()).await?;
    context.tenant.cors.changed(&context.session).await;
    Ok(Reply::new(StatusCode::ACCEPTED))
}

/// Stats of the secondary endpoint. Without standbys it reads the same database, so it is never behind.
pub fn stats(context: &Context<'_>) -> Result<Reply, Failure> {
    let (status, moment) = match context.tenant.database.secondary().map(Secondary::answer) {
        None => ("live", Some(OffsetDateTime::now_utc())),
        Some(Answer::Live(seconds)) => ("live", OffsetDateTime::from_unix_timestamp(seconds).ok()),
        Some(Answer::Bootstrap) => ("bootstrap", None),
        Some(Answer::Unavailable) => ("unavailable", None),
    };
    let moment = moment
        .and_then(|moment| moment.format(HTTP_DATE).ok())
        .unwrap_or_default();
    Ok(Reply::xml(format!(
        "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats><GeoReplication>\
         <Status>{status}</Status><LastSyncTime>{moment}</LastSyncTime></GeoReplication></StorageServiceStats>"
    )))
}
