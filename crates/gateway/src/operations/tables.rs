//! Create, delete and list tables (semantics 4.1 to 4.3).

use http::StatusCode;
use http::header::LOCATION;
use table_service_model::{ContinuationToken, Error, RequestError};

use super::context::Context;
use crate::database::check_table_name;
use crate::failure::Failure;
use crate::request::negotiation::{Prefer, check_content_type};
use crate::request::options::{check_options, next_table, top};
use crate::request::{body, token};
use crate::response::{DATA_SERVICE_ID, Reply};

/// A page of tables has at most this many.
const PAGE: i64 = 1000;
const NEXT_TABLE: http::HeaderName = http::HeaderName::from_static("x-ms-continuation-nexttablename");

/// Executes Create Table.
pub async fn create(context: &Context<'_>, content: &[u8]) -> Result<Reply, Failure> {
    if context.head.headers.contains_key("if-match") || context.head.headers.contains_key("if-none-match") {
        return Err(RequestError::ConditionWithoutEtag.into());
    }
    check_content_type(context.head.header("content-type"))?;
    let name = body::table_name(content)?;
    context.session.create_table(&name).await?;

    let url = context.base.table_url(&name);
    let reply = match context.prefer {
        Some(Prefer::ReturnNoContent) => Reply::no_content().with_text(DATA_SERVICE_ID, &url),
        _ => element(context, StatusCode::CREATED, &name),
    };
    Ok(reply.with_text(LOCATION, &url).with_preference(context.prefer))
}

/// Executes Delete Table.
pub async fn delete(context: &Context<'_>, name: &str) -> Result<Reply, Failure> {
    // Some SDKs send If-Match: * with every DELETE.
    let for_any = context.head.header("if-match").is_none_or(|tag| tag == "*");
    if !for_any || context.head.headers.contains_key("if-none-match") {
        return Err(RequestError::ConditionWithoutEtag.into());
    }
    context.session.delete_table(name).await?;
    Ok(Reply::no_content())
}

/// Executes a query by the name of a table.
pub async fn get(context: &Context<'_>, name: &str) -> Result<Reply, Failure> {
    if check_table_name(name).is_err() {
        return Err(Error::EntityNotFound.into());
    }
    let filter = format!("TableName eq '{}'", name.replace('\'', "''"));
    let (names, _) = context.session.query_tables(Some(&filter), 1, None).await?;
    let name = names.first().ok_or(Error::EntityNotFound)?;
    Ok(element(context, StatusCode::OK, name))
}

/// Returns the response that has one table.
fn element(context: &Context<'_>, status: StatusCode, name: &str) -> Reply {
    let (base, metadata) = (&context.base, context.metadata);
    let mut body = Vec::new();
    let context_url = base.context_url(metadata, "Tables/@Element");
    base.write_table(&mut body, name, metadata, context_url.as_deref());
    Reply::json(status, metadata, body)
}

/// Executes Query Tables, and returns one page.
pub async fn query(context: &Context<'_>) -> Result<Reply, Failure> {
    let query = &context.head.query;
    check_options(query)?;
    let top = top(query)?.unwrap_or(PAGE);
    let from = next_table(query)?;
    let (names, next) = context
        .session
        .query_tables(query.get("$filter"), top, from.as_deref())
        .await?;

    let metadata = context.metadata;
    let mut body = Vec::with_capacity(64 * names.len() + 128);
    context
        .base
        .begin_list(&mut body, context.base.context_url(metadata, "Tables").as_deref());
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        context.base.write_table(&mut body, name, metadata, None);
    }
    body.extend_from_slice(b"]}");
    let mut reply = Reply::json(StatusCode::OK, metadata, body);
    if let Some(next) = next {
        let name = ContinuationToken::parse_table(&next)?;
        reply = reply.with_text(NEXT_TABLE, &token::seal(&name));
    }
    Ok(reply)
}
