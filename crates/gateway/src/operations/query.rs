//! Queries over entities (semantics 4.8, 6).
//!
//! In the common case the database makes the JSON of a page, and the gateway passes it on without parsing it. Links
//! (level full) and selections need the gateway: then the entities come as rows and are printed here. Either way the answer has
//! at most as many bytes as memory was taken for, and the first entity that does not fit begins the next page. The continuation
//! is in the head of the response, so the answer cannot leave while it is made.

use std::ops::ControlFlow;

use http::{HeaderName, StatusCode};
use table_service_model::filter::Plan;
use table_service_model::json::Metadata;
use table_service_model::limits::PAGE_BYTES;
use table_service_model::{ContinuationToken, Dialect, Entity, Filter, Projection};
use tokio_postgres::Row;

use super::context::Context;
use crate::database::{Bag, Page, PageSink, Timestamp, check_table_name, column};
use crate::failure::Failure;
use crate::limits::blocking::on_payload;
use crate::limits::buffer::{Buffer, Full, capacity_for_entity};
use crate::limits::needs;
use crate::limits::shares::Share;
use crate::request::options::{check_options, continuation, top};
use crate::request::token;
use crate::response::Reply;
use crate::response::odata::Base;

const NEXT_PARTITION_KEY: HeaderName = HeaderName::from_static("x-ms-continuation-nextpartitionkey");
const NEXT_ROW_KEY: HeaderName = HeaderName::from_static("x-ms-continuation-nextrowkey");

/// Executes Query Entities, and returns one page.
pub async fn query(context: &Context<'_>, table: &str, memory: &mut Share) -> Result<Reply, Failure> {
    let query = &context.head.query;
    check_options(query)?;
    let top = top(query)?;
    let from = continuation(query)?;
    let filter = context
        .grant
        .clip(query.get("$filter"), context.tenant.filter_dialect)?;
    let select = query.get("$select");
    let projection = Projection::parse(select.unwrap_or_default())?;
    if let Err(error) = check_table_name(table) {
        Filter::parse(
            filter.as_deref().unwrap_or_default(),
            None,
            context.tenant.filter_dialect,
        )?;
        return Err(error.into());
    }
    let metadata = context.metadata;

    let selected = matches!(projection, Projection::Names(_));
    let what = match select {
        Some(select) if selected || select.is_empty() => format!("{table}&$select={select}"),
        _ => table.to_owned(),
    };
    let level = match metadata {
        _ if selected => None,
        Metadata::None => Some("none"),
        Metadata::Minimal => Some("minimal"),
        Metadata::Full => None,
    };
    let partition = filter.as_deref().and_then(partition);
    if let Some(partition) = &partition {
        _ = context.partition.set((table.to_owned(), partition.clone()));
    }
    let page = Page {
        table,
        filter: filter.as_deref(),
        partition: partition.as_deref(),
        select,
        top,
        from: from.as_deref(),
        level,
    };
    let mut head = Vec::new();
    context
        .base
        .begin_list(&mut head, context.base.context_url(metadata, &what).as_deref());
    let mut list = List {
        base: &context.base,
        table,
        projection: &projection,
        metadata,
        head,
        body: Buffer::within(needs::answer_of_query(memory.amount())),
        printed: Vec::new(),
        in_chunks: false,
        is_empty: true,
        next: None,
    };
    context.session.page(&page, &mut list).await?;
    let (body, next) = list.finish()?;

    let mut reply = Reply::json(StatusCode::OK, metadata, body);
    if let Some(next) = next {
        let (partition_key, row_key) = ContinuationToken::parse_entity(&next)?;
        reply = reply
            .with_text(NEXT_PARTITION_KEY, &token::seal(&partition_key))
            .with_text(NEXT_ROW_KEY, &token::seal(&row_key));
    }
    Ok(reply)
}

/// Returns the partition with all entities that a filter can find, if the filter names only one partition.
fn partition(filter: &str) -> Option<String> {
    // Every filter of the service's dialect has the same meaning in the other one.
    let plan = Plan::new(Filter::parse(filter, None, Dialect::Extended).ok()?);
    plan.partition().map(str::to_owned)
}

/// The answer to a query, while it is made.
struct List<'c> {
    base: &'c Base,
    table: &'c str,
    projection: &'c Projection,
    metadata: Metadata,
    /// The text before the entities.
    head: Vec<u8>,
    body: Buffer,
    /// The entity that is being printed.
    printed: Vec<u8>,
    in_chunks: bool,
    is_empty: bool,
    /// The token of the next page.
    next: Option<String>,
}

/// The text behind the entities.
const END: &[u8] = b"]}";

impl PageSink for List<'_> {
    fn begin(&mut self, in_chunks: bool) -> usize {
        self.in_chunks = in_chunks;
        self.is_empty = true;
        self.next = None;
        self.body.truncate(0);
        // The head fits: all of it is from the request's head. If it did not, no entity would.
        let _ = self.body.push(&self.head);
        self.room().min(PAGE_BYTES)
    }

    fn row(&mut self, row: &Row) -> Result<ControlFlow<()>, Failure> {
        if self.in_chunks {
            self.next = column(row, 1)?;
            let chunk = column::<&str>(row, 0)?;
            // The head has the bracket with which the list begins.
            let chunk = match self.is_empty {
                true => chunk
                    .strip_prefix('[')
                    .ok_or_else(|| Failure::internal("query_page_chunks returned something else than a list"))?,
                false => chunk,
            };
            self.is_empty = false;
            self.body.push(chunk.as_bytes()).map_err(too_large)?;
            return Ok(ControlFlow::Continue(()));
        }
        on_payload(row.raw_size_bytes(), || self.entity(row))
    }
}

impl List<'_> {
    /// Returns the bytes that the entities may still have.
    fn room(&self) -> usize {
        self.body.room().saturating_sub(END.len())
    }

    /// Prints an entity. If it does not fit, it begins the next page, and this one has ended.
    fn entity(&mut self, row: &Row) -> Result<ControlFlow<()>, Failure> {
        self.next = column(row, 4)?;
        // A page that reached its time limit without a result is one row with only the token.
        let Some(partition_key) = column::<Option<&str>>(row, 0)? else {
            return Ok(ControlFlow::Continue(()));
        };
        let row_key = column::<&str>(row, 1)?;
        let Timestamp(timestamp) = column(row, 2)?;
        let Bag(properties) = column(row, 3)?;
        let entity = Entity {
            partition_key: Some(partition_key),
            row_key: Some(row_key),
            timestamp,
            properties,
        };
        self.printed.clear();
        self.printed
            .reserve_exact(capacity_for_entity(entity.properties.as_bytes().len()));
        if !self.is_empty {
            self.printed.push(b',');
        }
        self.base.write_entity(
            &mut self.printed,
            self.table,
            &entity,
            self.projection,
            self.metadata,
            None,
        );
        let fits = self.printed.len() <= self.room();
        if !fits && !self.is_empty {
            let token = ContinuationToken::Entity {
                partition_key: partition_key.to_owned(),
                row_key: row_key.to_owned(),
            };
            self.next = Some(token.encode());
            return Ok(ControlFlow::Break(()));
        }
        self.is_empty = false;
        self.body.push(&self.printed).map_err(too_large)?;
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the whole answer, and the token of the next page.
    fn finish(mut self) -> Result<(Vec<u8>, Option<String>), Failure> {
        let end = if self.in_chunks { b"}" } else { END };
        self.body.push(end).map_err(too_large)?;
        Ok((self.body.into_bytes(), self.next))
    }
}

/// Only an entity beyond the service's limits has no room, in a table without the constraint.
fn too_large(_: Full) -> Failure {
    Failure::internal("An entity is larger than the service's limits allow")
}
