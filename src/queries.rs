//! Queries with a filter: whole results, pages, and what a filter becomes.

use std::time::Duration;

use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::filter::{Filter, KeyRange, Plan};
use table_service_model::json::{self, Metadata};
use table_service_model::projection::Projection;
use table_service_model::token::ContinuationToken;

use crate::arguments::required;
use crate::deadline;
use crate::error::OrRaise;
use crate::result_set::{Entities, Explanation, Page, PartitionStatistics, ResultSet};
use crate::scan::{self, Extent, Row, Sink, range_to_sql, scan_to_sql};
use crate::settings;
use crate::spi::connect;
use crate::tables::{Access, Table};
use crate::types::{JsonOut, PropertiesArg, varlena, varlena_bytes, varlena_size};

/// Most entities of one page.
const PAGE_ENTITIES: u64 = 1000;
/// A page is full when less than the largest entity fits into its 16 MiB. That has 1 MiB by the size formula, which counts
/// text in UTF-16, and up to one and a half in UTF-8.
const PAGE_BYTES: usize = 14 * 1024 * 1024;

/// The entities that pass a filter, in key order, at most `top` of them. `projection` is a comma list of the properties
/// to return; `parameters` gives values to `@name` in the filter.
#[pg_extern(stable, parallel_restricted)]
fn query_entities(
    table_name: Option<&str>,
    filter: default!(Option<&str>, "NULL"),
    projection: default!(Option<&str>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> Entities {
    let query = || {
        let query = Query::new(table_name, filter, projection, parameters)?;
        let top = top
            .map(|top| u64::try_from(top).map_err(|_| top_out_of_range()))
            .transpose()?;
        let table = query.table()?;
        // SAFETY: this function returns SETOF entity.
        let result = unsafe { ResultSet::open(fcinfo) };
        let mut sink = WholeResult {
            result,
            projection: &query.projection,
            left: top,
        };
        if top != Some(0) {
            let _no_limit = deadline::begin(None);
            let extent = if top.is_none() { Extent::All } else { Extent::First };
            connect(|spi| scan::scan(spi, &table, &query.plan, &query.plan.ranges, extent, &mut sink));
        }
        Ok(Entities)
    };
    query().or_raise()
}

/// One page of the entities that pass a filter: at most `top` or 1000 entities, 16 MiB, and the time of
/// `table_service.page_time_limit`. When there may be more, the last row has the continuation token for the next page.
/// A page without an entity that is not the last is one row of NULLs with the token.
#[pg_extern(stable, parallel_restricted)]
fn query_page(
    table_name: Option<&str>,
    filter: default!(Option<&str>, "NULL"),
    projection: default!(Option<&str>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    continuation_token: default!(Option<&str>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> Page {
    let query = || {
        let query = Query::new(table_name, filter, projection, parameters)?;
        let pager = Pager::new(&query, top, continuation_token)?;
        let table = query.table()?;
        let rows = PageRows {
            // SAFETY: this function returns the columns of `Page`.
            result: unsafe { ResultSet::open(fcinfo) },
            projection: &query.projection,
            waiting: None,
        };
        let (mut rows, token) = pager.read(&query, &table, rows);
        rows.finish(token);
        Ok(Page)
    };
    query().or_raise()
}

/// `query_page` for drivers: `{"value": […], "continuationToken": …}`. `metadata` is `none`, `minimal` or `full`.
#[pg_extern(stable, parallel_restricted)]
fn query_page_json(
    table_name: Option<&str>,
    filter: default!(Option<&str>, "NULL"),
    projection: default!(Option<&str>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    continuation_token: default!(Option<&str>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    metadata: default!(Option<&str>, "'minimal'"),
) -> JsonOut {
    let query = || {
        let query = Query::new(table_name, filter, projection, parameters)?;
        let metadata = Metadata::parse(required("metadata", metadata)?)?;
        let pager = Pager::new(&query, top, continuation_token)?;
        let table = query.table()?;
        let page = PageJson {
            json: b"{\"value\":[".to_vec(),
            metadata,
            projection: &query.projection,
        };
        let (page, token) = pager.read(&query, &table, page);
        Ok(JsonOut(page.finish(token)))
    };
    query().or_raise()
}

/// The predicate over the columns of an entity that a filter stands for, to be written into a WHERE clause. `alias` is
/// the name that the columns are qualified with.
#[pg_extern(immutable, parallel_safe)]
fn filter_to_sql(
    filter: Option<&str>,
    alias: default!(Option<&str>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
) -> String {
    let to_sql = || {
        let filter = parse(Some(required("filter", filter)?), parameters)?;
        let alias = match alias {
            None => String::new(),
            Some("") => {
                return Err(Error::ArgumentInvalid {
                    reason: "alias must not be empty".to_owned(),
                });
            }
            Some(alias) => format!("{}.", pgrx::spi::quote_identifier(alias)),
        };
        Ok(plan_to_sql(&Plan::new(&filter), &alias))
    };
    to_sql().or_raise()
}

/// How a query is run: the class of its access to the table, the key ranges that it reads, what is tested on every row,
/// the statements, and PostgreSQL's plan for them.
#[pg_extern(stable, parallel_restricted)]
fn explain_query(
    table_name: Option<&str>,
    filter: default!(Option<&str>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> Explanation {
    let explain = || {
        let query = Query::new(table_name, filter, None, parameters)?;
        let table = query.table()?;
        let name = table.qualified_name();
        let test = query.plan.residual.as_ref().map(|filter| passes("t.", filter));
        let statements: Vec<String> = query
            .plan
            .ranges
            .iter()
            .map(|range| scan_to_sql(range, &name, test.as_deref()))
            .collect();
        let plan = connect(|spi| {
            let explain = |sql: &String| spi.explain(sql);
            statements.iter().map(explain).collect::<Vec<_>>().join("\n")
        });
        let ranges: Vec<String> = query.plan.ranges.iter().map(KeyRange::to_string).collect();
        let text = |text: String| Some(varlena(text.as_bytes()));
        // SAFETY: this function returns TABLE (access text, key_ranges text[], residual text, sql text, plan text).
        unsafe {
            ResultSet::open(fcinfo).push([
                text(query.plan.access().to_string()),
                ranges.into_datum(),
                query.plan.residual.as_ref().and_then(|filter| text(filter.to_string())),
                text(statements.join(";\n")),
                text(plan),
            ]);
        }
        Ok(Explanation)
    };
    explain().or_raise()
}

/// How many entities each partition has and how many bytes they take, in the order of the keys. Counts exactly, so it
/// reads the whole table.
#[pg_extern(stable, parallel_restricted)]
fn partition_statistics(table_name: Option<&str>, fcinfo: pg_sys::FunctionCallInfo) -> PartitionStatistics {
    let statistics = || {
        let table = Table::open(required("table_name", table_name)?, Access::Read)?;
        connect(|spi| {
            let sql = format!(
                "SELECT t.partition_key, pg_catalog.count(*), pg_catalog.sum(pg_catalog.pg_column_size(t.*))::pg_catalog.int8 FROM {} AS t GROUP BY t.partition_key ORDER BY t.partition_key",
                table.qualified_name()
            );
            let rows = spi.read(&sql, [], []);
            // SAFETY: the statement returns the columns that the function declares.
            unsafe {
                let mut result = ResultSet::open(fcinfo);
                for &tuple in rows.tuples() {
                    result.push_tuple(tuple);
                }
            }
        });
        Ok(PartitionStatistics)
    };
    statistics().or_raise()
}

/// The error of the service for `top` outside what a query takes.
pub fn top_out_of_range() -> Error {
    Error::ArgumentInvalid {
        reason: "top must not be negative, and for a page not above 1000".to_owned(),
    }
}

/// Parses a filter; NULL lets everything pass.
pub fn parse(filter: Option<&str>, parameters: Option<PropertiesArg<'_>>) -> Result<Filter, Error> {
    Filter::parse(
        filter.unwrap_or_default(),
        parameters.map(|parameters| parameters.get()),
    )
}

/// The WHERE clause of a plan, which may stand beside any other.
fn plan_to_sql(plan: &Plan, alias: &str) -> String {
    let ranges: Vec<Vec<String>> = plan.ranges.iter().map(|range| range_to_sql(range, alias)).collect();
    let mut conditions = Vec::new();
    if ranges.is_empty() {
        return "false".to_owned();
    }
    if !ranges.iter().any(Vec::is_empty) {
        let each: Vec<String> = ranges
            .iter()
            .map(|range| format!("({})", range.join(" AND ")))
            .collect();
        conditions.push(match each.as_slice() {
            [only] => only.clone(),
            _ => format!("({})", each.join(" OR ")),
        });
    }
    conditions.extend(plan.residual.as_ref().map(|filter| passes(alias, filter)));
    match conditions.as_slice() {
        [] => "true".to_owned(),
        [only] => only.clone(),
        _ => format!("({})", conditions.join(" AND ")),
    }
}

/// The call that tests a row against a filter.
fn passes(alias: &str, filter: &Filter) -> String {
    format!(
        "table_service.entity_passes({alias}partition_key, {alias}row_key, {alias}\"timestamp\", {alias}properties, {})",
        pgrx::spi::quote_literal(filter.to_string())
    )
}

/// What all queries have in common.
struct Query<'a> {
    table_name: &'a str,
    plan: Plan,
    projection: Projection,
}

impl<'a> Query<'a> {
    fn new(
        table_name: Option<&'a str>,
        filter: Option<&str>,
        projection: Option<&str>,
        parameters: Option<PropertiesArg<'_>>,
    ) -> Result<Query<'a>, Error> {
        Ok(Query {
            table_name: required("table_name", table_name)?,
            plan: Plan::new(&parse(filter, parameters)?),
            projection: Projection::parse(projection.unwrap_or_default())?,
        })
    }

    fn table(&self) -> Result<Table, Error> {
        Table::open(self.table_name, Access::Read)
    }
}

/// The sink of `query_entities`.
struct WholeResult<'p> {
    result: ResultSet,
    projection: &'p Projection,
    /// How many more entities; `None` for all.
    left: Option<u64>,
}

impl Sink for WholeResult<'_> {
    fn row(&mut self, row: &Row) -> bool {
        // SAFETY: a row of the scan, and a result of entities.
        unsafe { self.result.push_entity(row.slot, self.projection) };
        match &mut self.left {
            None => true,
            Some(left) => {
                *left -= 1;
                *left > 0
            }
        }
    }
}

/// What becomes of the entities of a page.
trait PageSink {
    /// Takes an entity of the page; whether it may turn out to be the last one.
    fn entity(&mut self, row: &Row, may_be_last: bool);
}

/// The limits of a page, and where it begins.
struct Pager {
    ranges: Vec<KeyRange>,
    top: u64,
    time_limit: Duration,
}

impl Pager {
    fn new(query: &Query<'_>, top: Option<i64>, continuation_token: Option<&str>) -> Result<Pager, Error> {
        let top = match top {
            None => PAGE_ENTITIES,
            Some(top) => u64::try_from(top)
                .ok()
                .filter(|&top| top <= PAGE_ENTITIES)
                .ok_or_else(top_out_of_range)?,
        };
        let ranges = match continuation_token {
            None => query.plan.ranges.clone(),
            Some(token) => {
                let (partition_key, row_key) = ContinuationToken::parse_entity(token)?;
                query.plan.ranges_from(&partition_key, &row_key)
            }
        };
        Ok(Pager {
            ranges,
            top,
            time_limit: settings::page_time_limit(),
        })
    }

    /// Reads the page into `page`; the token of the next one, if there may be one.
    fn read<P: PageSink>(self, query: &Query<'_>, table: &Table, page: P) -> (P, Option<String>) {
        let mut reading = PageReading {
            page,
            left: self.top,
            bytes: 0,
            may_be_cut: query.plan.residual.is_some(),
            full: false,
            token: None,
        };
        if self.top > 0 {
            let _page = deadline::begin(Some(self.time_limit));
            connect(|spi| scan::scan(spi, table, &query.plan, &self.ranges, Extent::First, &mut reading));
        }
        (reading.page, reading.token)
    }
}

/// The sink of a page: counts, and when the page is full takes the next entity's keys for the token.
struct PageReading<P> {
    page: P,
    left: u64,
    bytes: usize,
    may_be_cut: bool,
    full: bool,
    token: Option<String>,
}

impl<P: PageSink> Sink for PageReading<P> {
    fn row(&mut self, row: &Row) -> bool {
        if self.full || deadline::was_cut() {
            let next = ContinuationToken::Entity {
                partition_key: row.partition_key().to_owned(),
                row_key: row.row_key().to_owned(),
            };
            self.token = Some(next.encode());
            return false;
        }
        self.left -= 1;
        // SAFETY: the columns are varlenas and not NULL.
        self.bytes +=
            unsafe { varlena_size(row.partition_key) + varlena_size(row.row_key) + varlena_size(row.properties) };
        self.full = self.left == 0 || self.bytes >= PAGE_BYTES || deadline::has_passed();
        self.page.entity(row, self.full || self.may_be_cut);
        true
    }
}

/// The rows of `query_page`.
struct PageRows<'p> {
    result: ResultSet,
    projection: &'p Projection,
    /// The latest entity, if it may be the last and has to wait for the token.
    waiting: Option<Waiting>,
}

/// A copy of a row: its own memory goes when the next one comes.
struct Waiting {
    partition_key: Vec<u8>,
    row_key: Vec<u8>,
    timestamp: pg_sys::Datum,
    properties: Vec<u8>,
}

impl PageSink for PageRows<'_> {
    fn entity(&mut self, row: &Row, may_be_last: bool) {
        self.release(None);
        if may_be_last {
            // SAFETY: the column is a bag and not NULL.
            let (_, bag) = unsafe { varlena_bytes(row.projected(self.projection)) };
            self.waiting = Some(Waiting {
                partition_key: row.partition_key().as_bytes().to_vec(),
                row_key: row.row_key().as_bytes().to_vec(),
                timestamp: row.timestamp,
                properties: bag.to_vec(),
            });
            return;
        }
        // SAFETY: a row of the scan, and a result of entities with a token.
        unsafe { self.result.push_entity(row.slot, self.projection) };
    }
}

impl PageRows<'_> {
    fn finish(&mut self, token: Option<String>) {
        match (&self.waiting, token) {
            (None, Some(token)) => self.push([None; 4], Some(&token)),
            (_, token) => self.release(token.as_deref()),
        }
    }

    fn release(&mut self, token: Option<&str>) {
        if let Some(entity) = self.waiting.take() {
            let values = [
                varlena(&entity.partition_key),
                varlena(&entity.row_key),
                entity.timestamp,
                varlena(&entity.properties),
            ];
            self.push(values.map(Some), token);
        }
    }

    fn push(
        &mut self,
        [partition_key, row_key, timestamp, properties]: [Option<pg_sys::Datum>; 4],
        token: Option<&str>,
    ) {
        let token = token.map(|token| varlena(token.as_bytes()));
        // SAFETY: the columns of `Page`.
        unsafe { self.result.push([partition_key, row_key, timestamp, properties, token]) };
    }
}

/// The JSON of `query_page_json`.
struct PageJson<'p> {
    json: Vec<u8>,
    projection: &'p Projection,
    metadata: Metadata,
}

impl PageSink for PageJson<'_> {
    fn entity(&mut self, row: &Row, _: bool) {
        if self.json.last() == Some(&b'}') {
            self.json.push(b',');
        }
        json::append_entity(&mut self.json, &row.entity(), self.projection, self.metadata);
    }
}

impl PageJson<'_> {
    fn finish(mut self, token: Option<String>) -> Vec<u8> {
        self.json.extend_from_slice(b"],\"continuationToken\":");
        match token {
            // A token is base64url text.
            Some(token) => self.json.extend_from_slice(format!("\"{token}\"}}").as_bytes()),
            None => self.json.extend_from_slice(b"null}"),
        }
        self.json
    }
}
