//! Answers with the entities of a table, page by page.

use crate::failure::Failure;
use crate::records::Position;

use super::advance::Advance;
use super::client::{Answer, Call, RestClient, escape};

/// Reads the pages of the entities that pass a filter.
pub struct Pages<'a> {
    pub client: &'a RestClient,
    pub table: &'a str,
    /// The query without the number of entities and the position, escaped.
    pub query: String,
    /// How many entities the next page may have.
    pub top: usize,
    /// Where the next page begins; [`Position::End`] behind the last one.
    pub position: Option<Position>,
    pub advance: Advance,
}

impl<'a> Pages<'a> {
    /// `most_empty` is how many pages in turn may have no entity. An empty `filter` or `select` does not restrict anything.
    pub fn new(client: &'a RestClient, table: &'a str, select: &str, filter: &str, most_empty: u64) -> Pages<'a> {
        let option = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!("&${name}={value}"),
        };
        Pages {
            client,
            table,
            query: option("select", select) + &option("filter", &escape(filter)),
            top: 1,
            position: None,
            advance: Advance::new(most_empty),
        }
    }

    /// Returns whether the last page was read.
    pub fn is_at_end(&self) -> bool {
        self.position == Some(Position::End)
    }

    /// Reads the next page. If it is too large, it is asked for with fewer entities.
    pub async fn next(&mut self) -> Result<Answer, Failure> {
        let resource = format!("{}()", self.table);
        let answer = loop {
            let token = self.position.as_ref().map(token_query).unwrap_or_default();
            let query = format!("$top={}{}{token}", self.top, self.query);
            let call = Call::get(&resource, &query);
            match self.client.reply(&call).await? {
                Some(answer) => break answer,
                None if self.top > 1 => self.top = (self.top / 4).max(1),
                None => return Err(self.client.too_large()),
            }
        };
        let answer = self.client.succeeded(answer, self.table)?;
        self.position = Some(continuation(&answer).unwrap_or(Position::End));
        Ok(answer)
    }

    /// Notes the keys of the first entity of the page that was read.
    pub fn note(&mut self, first: Option<(&str, &str)>) -> Result<(), Failure> {
        // No key has a control character.
        let first = first.map(|(partition_key, row_key)| format!("{partition_key}\0{row_key}"));
        let next = self.position.as_ref().filter(|_| !self.is_at_end()).map(token_query);
        self.advance
            .page(first.as_deref(), next.as_deref())
            .map_err(|problem| Failure::new(format!("{}: {}: {problem}.", self.client.name(), self.table)))
    }
}

fn continuation(answer: &Answer) -> Option<Position> {
    let next_partition_key = answer.header("x-ms-continuation-nextpartitionkey")?.to_owned();
    Some(Position::Token {
        next_partition_key,
        next_row_key: answer.header("x-ms-continuation-nextrowkey").map(str::to_owned),
    })
}

fn token_query(position: &Position) -> String {
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
