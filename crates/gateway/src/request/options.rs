//! The options of a query: `$top`, and where a page begins (semantics 6.1, 6.6).

use table_service_model::limits::PAGE_ENTITIES;
use table_service_model::{ContinuationToken, Error};

use super::query::Query;
use super::token;

/// Refuses query options that OData has and the service does not (semantics 6.1).
///
/// # Errors
/// `NotImplemented`.
pub fn check_options(query: &Query) -> Result<(), Error> {
    const KNOWN: [&str; 4] = ["$filter", "$select", "$top", "$format"];
    for (name, _) in query.pairs() {
        if name.starts_with('$') && !KNOWN.contains(&name) {
            return Err(Error::NotImplemented {
                reason: format!("There is no query option {}", name.chars().take(64).collect::<String>()),
            });
        }
    }
    Ok(())
}

/// Returns `$top`, the number of entities or tables of a page, at most 1000.
///
/// # Errors
/// `InvalidInput`.
pub fn top(query: &Query) -> Result<Option<i64>, Error> {
    const PAGE: i64 = PAGE_ENTITIES.cast_signed();
    match query.get("$top") {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(top @ 0..=PAGE) => Ok(Some(top)),
            _ => Err(Error::argument(format!("$top is a number from 0 to {PAGE}"))),
        },
    }
}

/// Returns the database's token for the continuation parameters of a query.
pub fn continuation(query: &Query) -> Result<Option<String>, Error> {
    let (partition_key, row_key) = (query.get("NextPartitionKey"), query.get("NextRowKey"));
    let Some(partition_key) = partition_key else {
        return match row_key {
            None => Ok(None),
            Some(_) => Err(Error::argument("NextRowKey needs NextPartitionKey")),
        };
    };
    let next = ContinuationToken::Entity {
        partition_key: token::open(partition_key)?,
        row_key: row_key.map(token::open).transpose()?.unwrap_or_default(),
    };
    Ok(Some(next.encode()))
}

/// Returns the database's token for the table that NextTableName names.
///
/// # Errors
/// `InvalidInput`.
pub fn next_table(query: &Query) -> Result<Option<String>, Error> {
    let sealed = query.get("NextTableName");
    sealed
        .map(|sealed| token::open(sealed).map(|name| ContinuationToken::Table { name }.encode()))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_is_0_to_1000() {
        for (text, expected) in [("0", Ok(Some(0))), ("1000", Ok(Some(1000)))] {
            assert_eq!(top(&Query::parse(&format!("$top={text}"))), expected);
        }
        for text in ["-1", "1001", "x", "", "1.0", "99999999999999999999"] {
            assert!(top(&Query::parse(&format!("$top={text}"))).is_err(), "{text}");
        }
    }

    #[test]
    fn a_continuation_needs_both_keys_in_their_envelopes() {
        let read = |text: &str| continuation(&Query::parse(text));
        assert_eq!(read("$top=1"), Ok(None));
        assert!(read("NextPartitionKey=1!4!MTE-&NextRowKey=1!0!").unwrap().is_some());
        assert!(read("NextPartitionKey=1!4!MTE-").unwrap().is_some());
        for text in [
            "NextRowKey=1!4!MTE-",
            "NextPartitionKey=1!4!MTE-&NextRowKey=",
            "NextPartitionKey=MTE=",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
