//! A table read over REST, page by page and several key ranges at a time.

use std::collections::HashSet;

use serde::Deserialize;
use table_service_model::{Ticks, table_name};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::sync::mpsc::Sender;

use crate::failure::Failure;
use crate::printable;
use crate::record::{Chunk, MOST_TABLES, Position, Range, Record, Reject, reason};

use super::advance::{Advance, EMPTY_PAGES, SEARCHED_PAGES};
use super::answers::{EntityKeys, KeyPage, LARGEST_PAGE, Page, TableName, TablePage};
use super::client::{Answer, Call, Reply, RestClient, escape, filter_literal};

/// How many entities the first page of a range has; later ones have as many as fit into [`PAGE_BYTES`].
const FIRST_PAGE: usize = 64;
const PAGE_BYTES: usize = 2 << 20;
/// How many requests may be made to find key ranges.
const PROBES: usize = 200;

pub struct RestSource {
    client: RestClient,
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

    pub fn client(&self) -> &RestClient {
        &self.client
    }

    /// What the service's clock shows.
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
            let page: TablePage = self.parse(&answer)?;
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
        if !answer.status.is_success() {
            return Err(self.client.failure(what, &answer.error()));
        }
        Ok(answer)
    }

    pub fn unreadable(&self, error: &serde_json::Error) -> Failure {
        let error = printable::said(&error.to_string());
        Failure::new(format!("{}: an answer cannot be read: {error}", self.client.name()))
    }

    pub fn parse<'a, T: Deserialize<'a>>(&self, answer: &'a Answer) -> Result<T, Failure> {
        serde_json::from_slice(&answer.body).map_err(|error| self.unreadable(&error))
    }

    /// Notes a page of a table, with the keys of its first entity.
    pub fn advance(
        &self,
        advance: &mut Advance,
        table: &str,
        first: Option<(&str, &str)>,
        next: Option<&Position>,
    ) -> Result<(), Failure> {
        // No key has a control character.
        let first = first.map(|(partition_key, row_key)| format!("{partition_key}\0{row_key}"));
        advance
            .page(first.as_deref(), next.map(token_query).as_deref())
            .map_err(|problem| Failure::new(format!("{}: {table}: {problem}.", self.client.name())))
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
        let Some(first) = self.first(table, None, &mut probes).await? else {
            return Ok(vec![Range::Filter(None)]);
        };
        let count = readers * 4;
        let mut bounds = self
            .bounds(table, "PartitionKey", None, &first.partition_key, count, &mut probes)
            .await?;
        let mut within = None;
        if bounds.is_empty() && probes < PROBES {
            // Perhaps one partition has all entities.
            let partition = format!("PartitionKey eq {}", filter_literal(&first.partition_key));
            let others = format!("PartitionKey gt {}", filter_literal(&first.partition_key));
            if self.first(table, Some(&others), &mut probes).await?.is_none() {
                bounds = self
                    .bounds(table, "RowKey", Some(&partition), &first.row_key, count, &mut probes)
                    .await?;
                within = Some((partition, others));
            }
        }
        if bounds.is_empty() {
            return Ok(vec![Range::Filter(None)]);
        }
        let key = if within.is_some() { "RowKey" } else { "PartitionKey" };
        let and = |filter: String| match &within {
            Some((partition, _)) => format!("{partition} and {filter}"),
            None => filter,
        };
        let mut ranges = Vec::new();
        let mut from: Option<&String> = None;
        for bound in &bounds {
            let begin = from.map(|from| format!("{key} ge {} and ", filter_literal(from)));
            let filter = format!("{}{key} lt {}", begin.unwrap_or_default(), filter_literal(bound));
            ranges.push(Range::Filter(Some(and(filter))));
            from = Some(bound);
        }
        if let Some(from) = from {
            ranges.push(Range::Filter(Some(and(format!("{key} ge {}", filter_literal(from))))));
        }
        // What appears in other partitions meanwhile.
        if let Some((partition, others)) = within {
            ranges.push(Range::Filter(Some(others)));
            ranges.push(Range::Filter(Some(partition.replacen(" eq ", " lt ", 1))));
        }
        Ok(ranges)
    }

    /// Beginnings of keys, in the order in which the service has them, at which ranges begin. The first key is known.
    async fn bounds(
        &self,
        table: &str,
        key: &str,
        within: Option<&str>,
        first: &str,
        count: usize,
        probes: &mut usize,
    ) -> Result<Vec<String>, Failure> {
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
                let condition = format!("{key} ge {}", filter_literal(&after));
                let filter = within.map_or(condition.clone(), |within| format!("{within} and {condition}"));
                let Some(found) = self.first(table, Some(&filter), probes).await? else {
                    break;
                };
                current = if key == "RowKey" {
                    found.row_key
                } else {
                    found.partition_key
                };
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
                let condition = format!("{key} gt {}", filter_literal(&first));
                let filter = within.map_or(condition.clone(), |within| format!("{within} and {condition}"));
                match self.first(table, Some(&filter), probes).await? {
                    Some(found) if key == "RowKey" => first = found.row_key,
                    Some(found) => first = found.partition_key,
                    None => break,
                }
            }
        }
        Ok(Vec::new())
    }

    /// The first keys that pass a filter.
    async fn first(
        &self,
        table: &str,
        filter: Option<&str>,
        probes: &mut usize,
    ) -> Result<Option<EntityKeys>, Failure> {
        let mut token = String::new();
        let mut advance = Advance::new(EMPTY_PAGES);
        loop {
            *probes += 1;
            let mut query = "$top=1&$select=PartitionKey,RowKey".to_owned();
            if let Some(filter) = filter {
                query.push_str("&$filter=");
                query.push_str(&escape(filter));
            }
            query.push_str(&token);
            let answer = self.get(&format!("{table}()"), &query, table).await?;
            let page: KeyPage = self.parse(&answer)?;
            if let Some(keys) = page.value.0.into_iter().next() {
                return Ok(Some(keys));
            }
            let next = continuation(&answer);
            self.advance(&mut advance, table, None, next.as_ref())?;
            match next {
                Some(position) => token = token_query(&position),
                None => return Ok(None),
            }
        }
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
        let filter = conditions.join(" and ");
        let mut position = position;
        let mut top = FIRST_PAGE;
        let mut advance = Advance::new(match self.since {
            Some(_) => SEARCHED_PAGES,
            None => EMPTY_PAGES,
        });
        loop {
            let mut query = format!("$top={top}");
            if !filter.is_empty() {
                query.push_str("&$filter=");
                query.push_str(&escape(&filter));
            }
            if let Some(position) = &position {
                query.push_str(&token_query(position));
            }
            let resource = format!("{table}()");
            let call = Call::get(&resource, &query);
            let answer = match self.client.reply(&call).await? {
                Reply::Whole(answer) => answer,
                Reply::TooLarge if top > 1 => {
                    top /= 4;
                    top = top.max(1);
                    continue;
                }
                // Reports it.
                Reply::TooLarge => self.client.send(&call).await?,
            };
            if !answer.status.is_success() {
                return Err(self.client.failure(table, &answer.error()));
            }
            let next = continuation(&answer);
            let page: Page<'_> = self.parse(&answer)?;
            let mut chunk = Chunk::new(next.clone().unwrap_or(Position::End));
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
            let first = first.map(|record| (record.partition_key.as_str(), record.row_key.as_str()));
            self.advance(&mut advance, table, first, next.as_ref())?;
            let size = answer.body.len().max(1);
            let fitting = page.value.0.len().max(1) * PAGE_BYTES / size;
            top = fitting.clamp(4, (top * 4).min(LARGEST_PAGE));
            drop(answer);
            if chunks.send(chunk).await.is_err() {
                return Ok(());
            }
            match next {
                Some(next) => position = Some(next),
                None => return Ok(()),
            }
        }
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

pub fn continuation(answer: &Answer) -> Option<Position> {
    let next_partition_key = answer.header("x-ms-continuation-nextpartitionkey")?.to_owned();
    Some(Position::Token {
        next_partition_key,
        next_row_key: answer.header("x-ms-continuation-nextrowkey").map(str::to_owned),
    })
}

pub fn token_query(position: &Position) -> String {
    let Position::Token {
        next_partition_key,
        next_row_key,
    } = position
    else {
        return String::new();
    };
    let mut query = format!("&NextPartitionKey={}", escape(next_partition_key));
    if let Some(next_row_key) = next_row_key {
        query.push_str("&NextRowKey=");
        query.push_str(&escape(next_row_key));
    }
    query
}
