//! The keys of the entities that pass a filter, page by page.

use serde_json::value::RawValue;
use table_service_model::{Ticks, etag};

use crate::failure::Failure;
use crate::records::Position;

use super::advance::SEARCHED_PAGES;
use super::answers::{EntityKeys, LARGEST_PAGE, Page};
use super::pages::Pages;
use super::source::RestSource;

/// The most bytes of an ETag.
const LONGEST_ETAG: usize = 256;

/// The keys of an entity, and its version.
#[derive(Debug, Clone)]
pub struct Keyed {
    pub partition_key: String,
    pub row_key: String,
    pub etag: String,
}

impl EntityKeys {
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
    pages: Pages<'a>,
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
            [only] => (*only).to_owned(),
            several => format!("({})", several.join(") and (")),
        };
        let select = "PartitionKey,RowKey,Timestamp";
        KeyReader {
            pages: Pages {
                top: LARGEST_PAGE,
                position,
                ..Pages::new(&source.client, table, select, &filter, SEARCHED_PAGES)
            },
        }
    }

    /// The next page, which may have no entity, and where the table goes on behind it; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<(Vec<Keyed>, Position)>, Failure> {
        if self.pages.is_at_end() {
            return Ok(None);
        }
        let answer = self.pages.next().await?;
        let Pages { client, table, .. } = self.pages;
        let page: Page<&RawValue> = client.parse(&answer)?;
        let mut keys = Vec::with_capacity(page.value.0.len());
        for raw in &page.value.0 {
            let entity: EntityKeys = serde_json::from_str(raw.get()).map_err(|error| client.unreadable(&error))?;
            let keyed = entity.keyed().ok_or_else(|| {
                let problem = "an entity has neither an ETag nor a Timestamp that can be one";
                Failure::new(format!("{}: {table}: {problem}.", client.name()))
            })?;
            keys.push(keyed);
        }
        let first = keys.first();
        let first = first.map(|first| (first.partition_key.as_str(), first.row_key.as_str()));
        self.pages.note(first)?;
        Ok(self.pages.position.clone().map(|position| (keys, position)))
    }
}
