//! Queries with a filter: complete results, pages, EXPLAIN, and statistics.

use std::borrow::Cow;

use pgrx::prelude::*;
use table_service_model::filter::Plan;
use table_service_model::json::{self, Metadata};
use table_service_model::limits::{ENTITY_ROW_BYTES, PAGE_BYTES, PAGE_ENTITIES};
use table_service_model::token::TOKEN_BYTES;
use table_service_model::{ContinuationToken, Error, KeyRange, Projection};

use super::filters::{parse, refuse_filter};
use super::results::{self, Explanation, PageChunks, PartitionStatistics};
use crate::engine::explain::{Explained, explain};
use crate::engine::inlining;
use crate::engine::page::{Page, PageRequest};
use crate::engine::scan::{Entities, Workers, predicate};
use crate::postgres::{
    Array, Call, JsonOut, PlannerRequestArg, PropertiesArg, Text, TextArg, Value, connect, raising, settings,
};
use crate::storage::arguments::{required, top as checked_top};
use crate::storage::inlining::CallInFrom;
use crate::storage::planner::answer;
use crate::storage::result_set::ResultSet;
use crate::storage::statement::ScanFilter;
use crate::storage::table::{Table, TableLock};

/// Answers the planner's request for the query that a call of `query_entities` in FROM stands for. `sql/planner.sql` says where the planner
/// asks.
#[pg_extern(sql = "
CREATE FUNCTION table_service.query_entities_support(internal) RETURNS internal
STRICT LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
pub fn query_entities_support(request: PlannerRequestArg<'_>) -> pgrx::Internal {
    let query = |call: CallInFrom<'_>| {
        let table_name = call.text(0)?;
        let (filter, projection, top, parameters) = (call.text(1)?, call.text(2)?, call.int8(3)?, call.properties(4)?);
        let (query, top) = Query::of_entities(table_name, filter, projection, top, parameters).ok()?;
        if !matches!(query.projection, Projection::All) {
            return None;
        }
        let top = top.map(i64::try_from).transpose().ok()?;
        inlining::query_entities(&call, query.table_name, &query.plan, top)
    };
    answer(CallInFrom::of(&request).filter(inlining::may_gain).and_then(query))
}

/// Returns the entities that pass a filter, in key order, at most `top` of them. `projection` is a comma-separated list
/// of the properties to return. `parameters` has the values of `@name` in the filter.
#[pg_extern(stable, parallel_restricted)]
pub fn query_entities(
    table_name: Option<TextArg<'_>>,
    filter: default!(Option<TextArg<'_>>, "NULL"),
    projection: default!(Option<TextArg<'_>>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    call: Call<'_>,
) -> results::Entities {
    raising(|| {
        let (query, top) = Query::of_entities(table_name, filter, projection, top, parameters)?;
        let table = query.table()?;
        let mut result = ResultSet::open(call);
        connect(|spi| {
            let plan = &query.plan;
            let mut entities = match top {
                None => Entities::all(spi, &table, plan, Workers::Permitted),
                Some(top) => Entities::first(spi, &table, &plan.ranges, plan.residual.as_ref(), top, None),
            };
            let mut left = top.unwrap_or(u64::MAX);
            while left > 0 && entities.next() {
                result.push_entity(&entities.row(), &query.projection, None);
                left -= 1;
            }
        });
        Ok(results::Entities)
    })
}

/// The size at which a page of rows is full: the largest entity still fits behind it.
const FULL_BYTES: usize = PAGE_BYTES - 2 * 1024 * 1024;
const _: () = assert!(FULL_BYTES + ENTITY_ROW_BYTES <= PAGE_BYTES);

/// Returns one page of the entities that pass a filter, in key order.
///
/// A page has at most `top` entities (1000 without `top`) and at most 16 MiB, and takes at most
/// `table_service.page_time_limit`. If there may be more entities, the last row has the continuation token of the next
/// page. A page without entities that has a next page is one row: NULLs and the token.
#[pg_extern(stable, parallel_restricted)]
fn query_page(
    table_name: Option<TextArg<'_>>,
    filter: default!(Option<TextArg<'_>>, "NULL"),
    projection: default!(Option<TextArg<'_>>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    continuation_token: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    call: Call<'_>,
) -> results::Page {
    raising(|| {
        let query = Query::new(table_name, filter, projection, parameters)?;
        let request = query.page(top, continuation_token)?;
        let table = query.table()?;
        connect(|spi| {
            let mut result = ResultSet::open(call);
            let (mut page, mut bytes) = (Page::open(spi, &table, &request), 0);
            while page.next() {
                bytes += page.row().size();
                if bytes >= FULL_BYTES {
                    page.fill();
                }
                // The last one gets the token.
                match page.is_full() {
                    true => result.keep(&page.row()),
                    false => result.push_entity(&page.row(), &query.projection, None),
                }
            }
            let token = page.token().map(|token| Text::new(&token));
            let was_kept = result.push_kept(&query.projection, token.as_ref().map(Text::value));
            if let (false, Some(token)) = (was_kept, &token) {
                // The time limit has ended the page while it tested entities behind its last one.
                if result.keep_last() {
                    result.push_kept(&query.projection, Some(token.value()));
                } else {
                    result.push([None, None, None, None, Some(token.value())]);
                }
            }
        });
        Ok(results::Page)
    })
}

/// Returns a page as JSON, for drivers: `{"value": […], "continuationToken": …}`. `metadata` is `none`, `minimal` or
/// `full`.
#[pg_extern(stable, parallel_restricted)]
fn query_page_json(
    table_name: Option<TextArg<'_>>,
    filter: default!(Option<TextArg<'_>>, "NULL"),
    projection: default!(Option<TextArg<'_>>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    continuation_token: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    metadata: default!(Option<TextArg<'_>>, "'minimal'"),
) -> JsonOut {
    raising(|| {
        let query = Query::new(table_name, filter, projection, parameters)?;
        let metadata = Metadata::parse(required("metadata", metadata)?.get())?;
        let request = query.page(top, continuation_token)?;
        let table = query.table()?;
        let mut json = PAGE_BEGIN.to_vec();
        let token = connect(|spi| {
            let mut page = Page::open(spi, &table, &request);
            while page.next() {
                let printed = json.len();
                if printed > PAGE_BEGIN.len() {
                    json.push(b',');
                }
                json::append_entity(&mut json, &page.row().entity(), &query.projection, metadata);
                if json.len() + PAGE_END_BYTES > PAGE_BYTES && page.end_before() {
                    json.truncate(printed);
                }
            }
            page.token()
        });
        json.extend_from_slice(b"],\"continuationToken\":");
        match token {
            // A token is base64url text, so it needs no JSON escapes.
            Some(token) => json.extend_from_slice(format!("\"{token}\"}}").as_bytes()),
            None => json.extend_from_slice(b"null}"),
        }
        Ok(JsonOut(json))
    })
}

/// How the JSON of `query_page_json` begins, and how many bytes may come behind its entities.
const PAGE_BEGIN: &[u8] = b"{\"value\":[";
const PAGE_END_BYTES: usize = TOKEN_BYTES + 64;

/// Returns a page as the text of a JSON array, in chunks of at most 64 KiB, for programs that pass it on: `chunk`, one behind the
/// other, is the text. The last row has the continuation token, if there may be more entities. The text has at most `byte_limit`
/// bytes (16 MiB without it, and never more), but always one entity. `metadata` is `none`, `minimal` or `full`.
#[allow(clippy::too_many_arguments)]
#[pg_extern(stable, parallel_restricted)]
fn query_page_chunks(
    table_name: Option<TextArg<'_>>,
    filter: default!(Option<TextArg<'_>>, "NULL"),
    projection: default!(Option<TextArg<'_>>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    continuation_token: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    metadata: default!(Option<TextArg<'_>>, "'minimal'"),
    byte_limit: default!(Option<i64>, "NULL"),
    call: Call<'_>,
) -> PageChunks {
    raising(|| {
        let query = Query::new(table_name, filter, projection, parameters)?;
        let limit = page_bytes(byte_limit)?;
        let metadata = Metadata::parse(required("metadata", metadata)?.get())?;
        let request = query.page(top, continuation_token)?;
        let table = query.table()?;
        connect(|spi| {
            let mut chunks = Chunks {
                result: ResultSet::open(call),
                chunk: b"[".to_vec(),
                length: 1,
            };
            let (mut page, mut printed) = (Page::open(spi, &table, &request), Vec::new());
            while page.next() {
                printed.clear();
                if chunks.length > 1 {
                    printed.push(b',');
                }
                json::append_entity(&mut printed, &page.row().entity(), &query.projection, metadata);
                // The bracket at the end also has room.
                if chunks.length + printed.len() < limit || !page.end_before() {
                    chunks.append(&printed);
                }
            }
            chunks.append(b"]");
            let token = page.token().map(|token| Text::new(&token));
            chunks.push(token.as_ref());
        });
        Ok(PageChunks)
    })
}

/// Returns how many bytes a page may have.
fn page_bytes(byte_limit: Option<i64>) -> Result<usize, Error> {
    match byte_limit.map(usize::try_from) {
        None => Ok(PAGE_BYTES),
        Some(Ok(limit @ 1..)) => Ok(limit.min(PAGE_BYTES)),
        Some(_) => Err(Error::argument("byte_limit must be above 0")),
    }
}

/// Explains how a query runs: its access class, its key ranges, the residual filter that each row must pass, its
/// statements, and PostgreSQL's plans for them.
#[pg_extern(stable, parallel_restricted)]
fn explain_query(
    table_name: Option<TextArg<'_>>,
    filter: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    call: Call<'_>,
) -> Explanation {
    raising(|| {
        let query = Query::new(table_name, filter, None, parameters)?;
        let table = query.table()?;
        let (access, scans, plan) = connect(|spi| {
            let (access, scans) = explain(spi, &table, &query.plan);
            let plan = |scan: &Explained| {
                let plan = spi.explain(&scan.sql, scan.planning);
                match &scan.reason {
                    Some(reason) => format!("{plan}\nReason: {reason}"),
                    None => plan,
                }
            };
            let plans: Vec<String> = scans.iter().map(plan).collect();
            (access, scans, plans.join("\n"))
        });
        let statements: Vec<&str> = scans.iter().map(|scan| scan.sql.as_str()).collect();
        let ranges: Vec<String> = query.plan.ranges.iter().map(KeyRange::to_string).collect();
        let ranges = Array::of_texts(ranges.iter().map(String::as_str));
        let residual = query
            .plan
            .residual
            .as_ref()
            .map(|filter| Text::new(&filter.to_string()));
        let [access, sql, plan] = [&access.to_string(), &statements.join(";\n"), &plan].map(|text| Text::new(text));
        let mut result = ResultSet::open(call);
        result.push([
            Some(access.value()),
            Some(ranges.value()),
            residual.as_ref().map(Text::value),
            Some(sql.value()),
            Some(plan.value()),
        ]);
        Ok(Explanation)
    })
}

/// Returns for each partition how many entities it has and how many bytes they take, in key order. The numbers are
/// exact: the function reads the whole table.
#[pg_extern(stable, parallel_restricted)]
fn partition_statistics(table_name: Option<TextArg<'_>>, call: Call<'_>) -> PartitionStatistics {
    raising(|| {
        let table = Table::open(required("table_name", table_name)?.get(), TableLock::Read)?;
        connect(|spi| {
            let filter = predicate(&table, None).map(|predicate| ScanFilter::new(&predicate));
            let (condition, parameters) = match &filter {
                Some(filter) => (filter.condition("$1"), vec![filter.value()]),
                None => (None, Vec::new()),
            };
            let sql = format!(
                "\
                    SELECT t.partition_key, pg_catalog.count(*), pg_catalog.sum(pg_catalog.pg_column_size(t.*))::pg_catalog.int8 \
                    FROM {} AS t \
                    WHERE {} \
                    GROUP BY t.partition_key \
                    ORDER BY t.partition_key",
                table.name(),
                condition.as_deref().unwrap_or("true"),
            );
            let mut result = ResultSet::open(call);
            for row in spi.read(&sql, &parameters).iter() {
                result.push([
                    row.text(1).map(Value::text),
                    row.int8(2).map(Value::int8),
                    row.int8(3).map(Value::int8),
                ]);
            }
        });
        Ok(PartitionStatistics)
    })
}

/// The arguments that all queries share, parsed.
struct Query<'a> {
    table_name: &'a str,
    plan: Plan,
    projection: Projection,
}

impl<'a> Query<'a> {
    fn new(
        table_name: Option<TextArg<'a>>,
        filter: Option<TextArg<'_>>,
        projection: Option<TextArg<'_>>,
        parameters: Option<PropertiesArg<'_>>,
    ) -> Result<Query<'a>, Error> {
        Ok(Query {
            table_name: required("table_name", table_name)?.get(),
            plan: Plan::new(parse(filter, parameters)?),
            projection: Projection::parse(projection.map_or("", TextArg::get))?,
        })
    }

    /// Reads the arguments of `query_entities`. Also returns `top`.
    fn of_entities(
        table_name: Option<TextArg<'a>>,
        filter: Option<TextArg<'_>>,
        projection: Option<TextArg<'_>>,
        top: Option<i64>,
        parameters: Option<PropertiesArg<'_>>,
    ) -> Result<(Query<'a>, Option<u64>), Error> {
        let order = "query_entities(table_name, filter, projection) takes the filter first";
        refuse_filter("projection", projection, order)?;
        let query = Query::new(table_name, filter, projection, parameters)?;
        Ok((query, checked_top(top)?))
    }

    fn table(&self) -> Result<Table, Error> {
        Table::open(self.table_name, TableLock::Read)
    }

    /// Returns the request for the page that begins at a token, or for the first page without one.
    fn page(&self, top: Option<i64>, continuation_token: Option<TextArg<'_>>) -> Result<PageRequest<'_>, Error> {
        let top = match top {
            None => PAGE_ENTITIES,
            Some(top) => u64::try_from(top)
                .ok()
                .filter(|&top| top <= PAGE_ENTITIES)
                .ok_or_else(|| Error::argument(format!("top must be from 0 to {PAGE_ENTITIES}")))?,
        };
        let ranges = match continuation_token {
            None => Cow::Borrowed(self.plan.ranges.as_slice()),
            Some(token) => {
                let (partition_key, row_key) = ContinuationToken::parse_entity(token.get())?;
                Cow::Owned(self.plan.ranges_from(&partition_key, &row_key))
            }
        };
        Ok(PageRequest {
            ranges,
            filter: self.plan.residual.as_ref(),
            top,
            time_limit: settings::page_time_limit(),
        })
    }
}

/// Most bytes of a chunk.
const CHUNK_BYTES: usize = 64 * 1024;

/// Makes the rows of `query_page_chunks`.
struct Chunks<'f> {
    result: ResultSet<'f>,
    /// The text that is not in a row yet.
    chunk: Vec<u8>,
    /// The length of the text so far.
    length: usize,
}

impl Chunks<'_> {
    fn append(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len();
        while self.chunk.len() + bytes.len() > CHUNK_BYTES {
            let mut end = CHUNK_BYTES - self.chunk.len();
            // Not within a character.
            while end > 0 && bytes.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
                end -= 1;
            }
            let (now, later) = bytes.split_at(end);
            self.chunk.extend_from_slice(now);
            self.push(None);
            self.chunk.clear();
            bytes = later;
        }
        self.chunk.extend_from_slice(bytes);
    }

    fn push(&mut self, token: Option<&Text>) {
        let chunk = Text::new(&String::from_utf8_lossy(&self.chunk));
        self.result.push([Some(chunk.value()), token.map(Text::value)]);
    }
}
