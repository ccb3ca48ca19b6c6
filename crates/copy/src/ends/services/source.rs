//! A table read over REST, page by page and several key ranges at a time.

use std::collections::HashSet;

use serde_json::value::RawValue;
use table_service_model::{Ticks, table_name};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::sync::mpsc::Sender;

use crate::failure::Failure;
use crate::printable;
use crate::records::{Chunk, MOST_TABLES, Position, Range, Record, Reject, reason};

use super::advance::{Advance, EMPTY_PAGES, SEARCHED_PAGES};
use super::answers::{EntityKeys, LARGEST_PAGE, Page, TableName};
use super::client::{Answer, Call, RestClient, escape, filter_literal};
use super::pages::Pages;

/// How many entities the first page of a range has; later ones have as many as fit into [`PAGE_BYTES`].
const FIRST_PAGE: usize = 64;
const PAGE_BYTES: usize = 2 << 20;
/// How many requests may be made to find key ranges.
const PROBES: usize = 200;

/// The tables of a service.
pub struct RestSource {
    pub client: RestClient,
    /// A table that is to be read. A signature for it need not be one for the list of tables.
    table: Option<String>,
    /// Only entities with this Timestamp or a later one.
    since: Option<Ticks>,
}

impl RestSource {
    /// `chosen` are the tables to read; without them all are read.
    pub fn new(client: RestClient, since: Option<Ticks>, chosen: &[String]) -> RestSource {
        let table = client.only_table().or(chosen.first().map(String::as_str));
        RestSource {
            table: table.map(str::to_owned),
            client,
            since,
        }
    }

    /// The time of the service's clock.
    pub async fn clock(&self) -> Result<Option<Ticks>, Failure> {
        let resource = match &self.table {
            Some(table) => format!("{table}()"),
            None => "Tables".to_owned(),
        };
        let answer = self.get(&resource, "$top=1", &resource).await?;
        Ok(answer
            .header("date")
            .and_then(|date| OffsetDateTime::parse(date, &Rfc2822).ok())
            .and_then(|date| Ticks::from_unix_seconds(date.unix_timestamp())))
    }

    /// The names of all tables.
    pub async fn tables(&self) -> Result<Vec<String>, Failure> {
        if let Some(table) = self.client.only_table() {
            return Ok(vec![table.to_owned()]);
        }
        let mut tables: Vec<String> = Vec::new();
        let mut known = HashSet::new();
        let mut advance = Advance::new(EMPTY_PAGES);
        let mut next: Option<String> = None;
        let wrong = |problem: String| Failure::new(format!("{}: the list of tables: {problem}.", self.client.name()));
        loop {
            let query = next
                .map(|next| format!("NextTableName={}", escape(&next)))
                .unwrap_or_default();
            let answer = self.get("Tables", &query, "the list of tables").await?;
            let page: Page<TableName> = self.client.parse(&answer)?;
            next = answer.header("x-ms-continuation-nexttablename").map(str::to_owned);
            let first = page.value.0.first().map(|table| table.name.as_str());
            advance.page(first, next.as_deref()).map_err(wrong)?;
            for TableName { name } in page.value.0 {
                if table_name::check_form(&name).is_err() {
                    return Err(wrong(format!("'{}' is no name of a table", printable::said(&name))));
                }
                if !known.insert(table_name::fold(&name)) {
                    return Err(wrong(format!("{name} comes twice")));
                }
                tables.push(name);
                if tables.len() > MOST_TABLES {
                    return Err(wrong(format!(
                        "it has more than {MOST_TABLES}; name those to read with --table"
                    )));
                }
            }
            if next.is_none() {
                return Ok(tables);
            }
        }
    }

    async fn get(&self, resource: &str, query: &str, what: &str) -> Result<Answer, Failure> {
        let answer = self.client.send(&Call::get(resource, query)).await?;
        self.client.succeeded(answer, what)
    }

    /// Divides a table into ranges of keys that begin alike.
    ///
    /// The service does not say where its keys are. So short queries look for the first key behind a prefix, the one
    /// behind that prefix's last key, and so on. Together the ranges are the whole table, whatever the service's order
    /// of keys is: each begins where the one before it ends.
    pub async fn ranges(&self, table: &str, readers: usize) -> Result<Vec<Range>, Failure> {
        if readers < 2 {
            return Ok(vec![Range::Filter(None)]);
        }
        let mut probes = 0;
        let Some(first) = self.first(table, "", &mut probes).await? else {
            return Ok(vec![Range::Filter(None)]);
        };
        let count = readers * 4;
        let mut bounds = self
            .bounds(table, "PartitionKey", "", &first.partition_key, count, &mut probes)
            .await?;
        let (mut key, mut within, mut others) = ("PartitionKey", String::new(), Vec::new());
        if bounds.is_empty() && probes < PROBES {
            // Perhaps one partition has all entities.
            let partition = filter_literal(&first.partition_key);
            let behind = format!("PartitionKey gt {partition}");
            if self.first(table, &behind, &mut probes).await?.is_none() {
                (key, within) = ("RowKey", format!("PartitionKey eq {partition} and "));
                bounds = self
                    .bounds(table, key, &within, &first.row_key, count, &mut probes)
                    .await?;
                // Entities that appear in other partitions meanwhile.
                others = vec![behind, format!("PartitionKey lt {partition}")];
            }
        }
        if bounds.is_empty() {
            return Ok(vec![Range::Filter(None)]);
        }
        let mut filters = Vec::new();
        let mut begin = String::new();
        for bound in bounds.iter().map(|bound| filter_literal(bound)) {
            filters.push(format!("{within}{begin}{key} lt {bound}"));
            begin = format!("{key} ge {bound} and ");
        }
        filters.push(format!("{within}{}", begin.trim_end_matches(" and ")));
        filters.extend(others);
        Ok(filters.into_iter().map(Some).map(Range::Filter).collect())
    }

    /// The beginnings of keys at which ranges begin, in the service's order. The first key is known. `within` is a
    /// condition in front of those on keys, with `and`, or empty.
    async fn bounds(
        &self,
        table: &str,
        key: &str,
        within: &str,
        first: &str,
        count: usize,
        probes: &mut usize,
    ) -> Result<Vec<String>, Failure> {
        let of = |found: EntityKeys| match key {
            "RowKey" => found.row_key,
            _ => found.partition_key,
        };
        let condition = |operator: &str, bound: &str| format!("{within}{key} {operator} {}", filter_literal(bound));
        let mut prefix = String::new();
        let mut first = first.to_owned();
        // Deeper and deeper, while all keys begin alike.
        for _ in 0..32 {
            let mut bounds: Vec<String> = Vec::new();
            let mut current = first.clone();
            while bounds.len() < count && *probes < PROBES {
                let Some(after) = after_beginning(&current, &prefix) else {
                    break;
                };
                let Some(found) = self.first(table, &condition("ge", &after), probes).await? else {
                    break;
                };
                current = of(found);
                let Some(bound) = beginning(&current, &prefix) else {
                    break;
                };
                if bounds.last() == Some(&bound) || bound < after {
                    break;
                }
                bounds.push(bound);
            }
            if !bounds.is_empty() || *probes >= PROBES {
                return Ok(bounds);
            }
            match beginning(&first, &prefix) {
                Some(longer) => prefix = longer,
                None => break,
            }
            if prefix == first {
                // The first key is a beginning of all others; look behind it.
                match self.first(table, &condition("gt", &first), probes).await? {
                    Some(found) => first = of(found),
                    None => break,
                }
            }
        }
        Ok(Vec::new())
    }

    /// The first keys that pass a filter.
    async fn first(&self, table: &str, filter: &str, probes: &mut usize) -> Result<Option<EntityKeys>, Failure> {
        let mut pages = Pages::new(&self.client, table, "PartitionKey,RowKey", filter, EMPTY_PAGES);
        while !pages.is_at_end() {
            *probes += 1;
            let answer = pages.next().await?;
            let page: Page<EntityKeys> = self.client.parse(&answer)?;
            if let Some(keys) = page.value.0.into_iter().next() {
                return Ok(Some(keys));
            }
            pages.note(None)?;
        }
        Ok(None)
    }

    /// Reads a range from a position on.
    pub async fn read(
        &self,
        table: &str,
        range: &Range,
        position: Option<Position>,
        chunks: Sender<Chunk>,
    ) -> Result<(), Failure> {
        let mut conditions = Vec::new();
        if let Range::Filter(Some(filter)) = range {
            conditions.push(format!("({filter})"));
        }
        if let Some(since) = self.since {
            conditions.push(format!("Timestamp ge datetime'{since}'"));
        }
        let most_empty = match self.since {
            Some(_) => SEARCHED_PAGES,
            None => EMPTY_PAGES,
        };
        let mut pages = Pages {
            top: FIRST_PAGE,
            position,
            ..Pages::new(&self.client, table, "", &conditions.join(" and "), most_empty)
        };
        while !pages.is_at_end() {
            let answer = pages.next().await?;
            let page: Page<&RawValue> = self.client.parse(&answer)?;
            let mut chunk = Chunk::new(pages.position.clone().unwrap_or(Position::End));
            for raw in &page.value.0 {
                match Record::from_json(raw.get()) {
                    Ok(record) => chunk.records.push(record),
                    Err(error) => {
                        let place = format!("{}/{table}", self.client.name());
                        chunk
                            .rejects
                            .push(Reject::of_text(table, place, raw.get(), reason(&error)));
                    }
                }
            }
            let first = chunk.records.first();
            pages.note(first.map(|record| (record.partition_key.as_str(), record.row_key.as_str())))?;
            let size = answer.body.len().max(1);
            let fitting = page.value.0.len().max(1) * PAGE_BYTES / size;
            pages.top = fitting.clamp(4, (pages.top * 4).min(LARGEST_PAGE));
            drop(answer);
            if chunks.send(chunk).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// The first character of a key behind a prefix, with the prefix; `None` if the key is no longer.
fn beginning(key: &str, prefix: &str) -> Option<String> {
    let next = key.strip_prefix(prefix)?.chars().next()?;
    Some(format!("{prefix}{next}"))
}

/// A text that sorts behind all keys with the same beginning, and before those with the next character.
fn after_beginning(key: &str, prefix: &str) -> Option<String> {
    let next = key.strip_prefix(prefix)?.chars().next()?;
    // Orders by UTF-16 unit and by code point agree on these, and keys have none of the characters that are left out.
    let after = (u32::from(next) + 1..0xd7ff)
        .filter_map(char::from_u32)
        .find(|c| !c.is_control() && !matches!(c, '/' | '\\' | '#' | '?'))?;
    Some(format!("{prefix}{after}"))
}
