//! The bytes of entries, the spans of filters, and the law that holds for both: an entity that passes a filter meets its
//! condition.

mod bytes;
mod conditions;
mod laws;

use super::{Condition, condition, entry};
use crate::{Dialect, Filter, PropertiesBuf, PropertiesBuilder, Value};

fn bag(properties: &[(&str, Value<'_>)]) -> PropertiesBuf {
    let mut builder = PropertiesBuilder::new();
    for (name, value) in properties {
        builder.push((*name).into(), *value).unwrap();
    }
    builder.finish().unwrap()
}

fn entry_of(value: Value<'_>, partition_key: &str, row_key: &str) -> Vec<u8> {
    entry(bag(&[("p", value)]).as_properties(), "p", partition_key, row_key).unwrap()
}

/// Returns whether the entries of an entity, by property, meet a condition.
fn meets(condition: &Condition, entries: &[Option<Vec<u8>>]) -> bool {
    match condition {
        Condition::Spans { property, spans } => entries[*property]
            .as_ref()
            .is_some_and(|entry| spans.iter().any(|span| span.lower <= *entry && *entry < span.upper)),
        Condition::All(terms) => terms.iter().all(|term| meets(term, entries)),
        Condition::Any(terms) => terms.iter().any(|term| meets(term, entries)),
    }
}

fn parse(text: &str) -> Filter {
    Filter::parse(text, None, Dialect::Extended).unwrap()
}
