//! The keys of the entities that pass a filter, page by page.

use serde::Deserialize;
use table_service_model::{Ticks, etag};

use crate::failure::Failure;
use crate::record::Position;

use super::advance::{Advance, SEARCHED_PAGES};
use super::answers::{LARGEST_PAGE, Page};
use super::client::{Call, Reply, escape};
use super::source::{RestSource, continuation, token_query};

/// What an ETag may have.
const LONGEST_ETAG: usize = 256;

/// The keys of an entity, and its version.
#[derive(Debug, Clone)]
pub struct Keyed {
    pub partition_key: String,
    pub row_key: String,
    pub etag: String,
}

#[derive(Deserialize)]
struct Entity {
    #[serde(rename = "odata.etag")]
    etag: Option<String>,
    #[serde(rename = "PartitionKey")]
    partition_key: String,
    #[serde(rename = "RowKey")]
    row_key: String,
    #[serde(rename = "Timestamp")]
    timestamp: Option<String>,
}

impl Entity {
    /// With its ETag, which the service sends or which is its Timestamp in another spelling. It becomes a header, so it has
    /// the characters of one.
    fn keyed(self) -> Option<Keyed> {
        let of_timestamp = || self.timestamp.as_deref().and_then(Ticks::parse).map(etag::format);
        let etag = self.etag.or_else(of_timestamp)?;
        let is_plain = etag.len() <= LONGEST_ETAG && etag.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        is_plain.then_some(Keyed {
            partition_key: self.partition_key,
            row_key: self.row_key,
            etag,
        })
    }
}

/// Reads a table's keys from a position on.
pub struct KeyReader<'a> {
    source: &'a RestSource,
    table: &'a str,
    filter: String,
    position: Option<Position>,
    top: usize,
    advance: Advance,
}

impl<'a> KeyReader<'a> {
    /// The entities that pass all conditions are read.
    pub fn new(
        source: &'a RestSource,
        table: &'a str,
        conditions: &[Option<&str>],
        position: Option<Position>,
    ) -> KeyReader<'a> {
        let conditions: Vec<&str> = conditions.iter().flatten().copied().collect();
        let filter = match conditions.as_slice() {
            [] => String::new(),
            [only] => escape(only),
            several => escape(&format!("({})", several.join(") and ("))),
        };
        KeyReader {
            source,
            table,
            filter,
            position,
            top: LARGEST_PAGE,
            advance: Advance::new(SEARCHED_PAGES),
        }
    }

    /// The next page, which may have no entity, and where the table goes on behind it; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<(Vec<Keyed>, Position)>, Failure> {
        if self.position == Some(Position::End) {
            return Ok(None);
        }
        let client = self.source.client();
        let resource = format!("{}()", self.table);
        let answer = loop {
            let mut query = format!("$top={}&$select=PartitionKey,RowKey,Timestamp", self.top);
            if !self.filter.is_empty() {
                query.push_str("&$filter=");
                query.push_str(&self.filter);
            }
            if let Some(position) = &self.position {
                query.push_str(&token_query(position));
            }
            let call = Call::get(&resource, &query);
            match client.reply(&call).await? {
                Reply::Whole(answer) => break answer,
                Reply::TooLarge if self.top > 1 => self.top = (self.top / 4).max(1),
                // Reports it.
                Reply::TooLarge => break client.send(&call).await?,
            }
        };
        if !answer.status.is_success() {
            return Err(client.failure(self.table, &answer.error()));
        }
        let next = continuation(&answer);
        let page: Page<'_> = self.source.parse(&answer)?;
        let mut keys = Vec::with_capacity(page.value.0.len());
        for raw in &page.value.0 {
            let entity: Entity = serde_json::from_str(raw.get()).map_err(|error| self.source.unreadable(&error))?;
            let keyed = entity.keyed().ok_or_else(|| {
                let problem = "an entity has neither an ETag nor a Timestamp that can be one";
                Failure::new(format!("{}: {}: {problem}.", client.name(), self.table))
            })?;
            keys.push(keyed);
        }
        let first = keys.first();
        let first = first.map(|first| (first.partition_key.as_str(), first.row_key.as_str()));
        self.source
            .advance(&mut self.advance, self.table, first, next.as_ref())?;
        let position = next.unwrap_or(Position::End);
        self.position = Some(position.clone());
        Ok(Some((keys, position)))
    }
}
