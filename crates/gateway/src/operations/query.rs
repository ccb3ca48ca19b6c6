//! Queries over entities (semantics 4.8, 6).
//!
//! In the common case the database makes the JSON of a page, and the gateway passes it on without parsing it. Links
//! (level full) and selections need the gateway: then the entities come as rows and are written here.

use http::{HeaderName, StatusCode};
use table_service_model::entity::Entity;
use table_service_model::error::RequestError;
use table_service_model::filter::Filter;
use table_service_model::json::Metadata;
use table_service_model::projection::Projection;
use table_service_model::token::ContinuationToken;
use tokio_postgres::Row;

use super::context::Context;
use crate::database::{Bag, Json, Statement, Timestamp, check_table_name, column};
use crate::failure::Failure;
use crate::request::options::{check_options, continuation, top};
use crate::request::token;
use crate::response::Reply;
use crate::work::on_payload;

/// The estimated size of a row.
const ROW_BYTES: usize = 1024;
const NEXT_PARTITION_KEY: HeaderName = HeaderName::from_static("x-ms-continuation-nextpartitionkey");
const NEXT_ROW_KEY: HeaderName = HeaderName::from_static("x-ms-continuation-nextrowkey");

pub async fn query(context: &Context<'_>, table: &str) -> Result<Reply, Failure> {
    let query = &context.head.query;
    check_options(query)?;
    let top = top(query)?;
    let from = continuation(query)?;
    let filter = context.grant.clip(query.get("$filter"))?;
    let select = query.get("$select");
    let projection = Projection::parse(select.unwrap_or_default())?;
    if let Err(error) = check_table_name(table) {
        Filter::parse(filter.as_deref().unwrap_or_default(), None)?;
        return Err(error.into());
    }
    let metadata = context.metadata;

    let selected = matches!(projection, Projection::Names(_));
    let what = match select {
        Some(select) if selected || select.is_empty() => format!("{table}&$select={select}"),
        _ => table.to_owned(),
    };
    let context_url = context.base.context_url(metadata, &what);
    let mut body = Vec::new();
    let page = Page {
        table,
        filter: filter.as_deref(),
        top,
        from: from.as_deref(),
    };
    let next = if selected || metadata == Metadata::Full {
        context.base.begin_list(&mut body, context_url.as_deref());
        let next = page.print(context, &mut body, select, &projection).await?;
        body.extend_from_slice(b"]}");
        next
    } else {
        page.splice(context, &mut body, context_url.as_deref()).await?
    };

    let mut reply = Reply::json(StatusCode::OK, metadata, body);
    if let Some(next) = next {
        let (partition_key, row_key) = ContinuationToken::parse_entity(&next)?;
        reply = reply
            .with_text(NEXT_PARTITION_KEY, &token::seal(&partition_key))
            .with_text(NEXT_ROW_KEY, &token::seal(&row_key));
    }
    Ok(reply)
}

struct Page<'a> {
    table: &'a str,
    filter: Option<&'a str>,
    top: Option<i64>,
    from: Option<&'a str>,
}

impl Page<'_> {
    /// Appends the payload with the database's own list of entities, and returns the token of the next page.
    async fn splice(
        &self,
        context: &Context<'_>,
        body: &mut Vec<u8>,
        context_url: Option<&str>,
    ) -> Result<Option<String>, Failure> {
        let level = match context.metadata {
            Metadata::None => "none",
            Metadata::Minimal => "minimal",
            Metadata::Full => "full",
        };
        let Page {
            table,
            filter,
            top,
            from,
        } = self;
        let rows = context
            .session
            .rows(Statement::QueryPageJson, &[table, filter, top, from, &level])
            .await?;
        let row = rows.first().ok_or_else(unexpected)?;
        let Json(page) = column(row, 0)?;
        let (list, next) = split_page(page).ok_or_else(unexpected)?;
        body.reserve(list.len() + 256);
        context.base.begin_list(body, context_url);
        body.extend_from_slice(list.as_bytes());
        body.extend_from_slice(b"]}");
        Ok(next.map(str::to_owned))
    }

    /// Appends entities to a list, and returns the token of the next page.
    async fn print(
        &self,
        context: &Context<'_>,
        body: &mut Vec<u8>,
        select: Option<&str>,
        projection: &Projection,
    ) -> Result<Option<String>, Failure> {
        let Page {
            table,
            filter,
            top,
            from,
        } = self;
        let rows = context
            .session
            .rows(Statement::QueryPage, &[table, filter, &select, top, from])
            .await?;
        on_payload(rows.len() * ROW_BYTES, || {
            self.print_rows(context, body, projection, &rows)
        })
    }

    fn print_rows(
        &self,
        context: &Context<'_>,
        body: &mut Vec<u8>,
        projection: &Projection,
        rows: &[Row],
    ) -> Result<Option<String>, Failure> {
        let mut next = None;
        for (index, row) in rows.iter().enumerate() {
            next = column(row, 4)?;
            // A page that reached its time limit without a result is one row with only the token.
            let Some(partition_key) = column::<Option<&str>>(row, 0)? else {
                continue;
            };
            let Timestamp(timestamp) = column(row, 2)?;
            let Bag(properties) = column(row, 3)?;
            let entity = Entity {
                partition_key: Some(partition_key),
                row_key: Some(column(row, 1)?),
                timestamp,
                properties,
            };
            if index > 0 {
                body.push(b',');
            }
            context
                .base
                .write_entity(body, self.table, &entity, projection, context.metadata, None);
        }
        Ok(next)
    }
}

/// Splits a page into the content of its list and the token: `{"value":[…],"continuationToken":…}`.
fn split_page(page: &str) -> Option<(&str, Option<&str>)> {
    let content = page.strip_prefix("{\"value\":[")?.strip_suffix('}')?;
    // The token is base64url text, so the last occurrence is the member's name.
    let (list, token) = content.rsplit_once("],\"continuationToken\":")?;
    match token {
        "null" => Some((list, None)),
        quoted => Some((list, Some(quoted.strip_prefix('"')?.strip_suffix('"')?))),
    }
}

fn unexpected() -> Failure {
    let reason = "query_page_json returned something else than a page".to_owned();
    RequestError::Internal { reason }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_database_is_taken_apart() {
        assert_eq!(split_page(r#"{"value":[],"continuationToken":null}"#), Some(("", None)));
        assert_eq!(
            split_page(r#"{"value":[{"a":"],\"continuationToken\":null}"}],"continuationToken":"AWU-_"}"#),
            Some((r#"{"a":"],\"continuationToken\":null}"}"#, Some("AWU-_")))
        );
        assert_eq!(split_page("{}"), None);
    }
}
