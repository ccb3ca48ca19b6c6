//! Tests of filters: golden cases for each row of semantics 6, the table of type pairs, laws on random
//! filters, and hostile text.

mod dialect;
mod golden;
mod guides;
mod hostile;
mod laws;
mod plans;
mod types;

use super::{Dialect, Filter, Plan, Predicate};
use crate::json::parse_properties;
use crate::{Entity, Error, PropertiesBuf, Ticks};

/// An entity that owns its parts.
#[derive(Debug, Clone)]
struct Sample {
    partition_key: String,
    row_key: String,
    timestamp: Ticks,
    properties: PropertiesBuf,
}

impl Sample {
    fn new(partition_key: &str, row_key: &str, properties: &str) -> Sample {
        Sample {
            partition_key: partition_key.to_owned(),
            row_key: row_key.to_owned(),
            timestamp: Ticks::parse("2022-04-13T21:50:14.2477041Z").unwrap(),
            properties: parse_properties(properties).unwrap(),
        }
    }

    fn entity(&self) -> Entity<'_> {
        Entity {
            partition_key: Some(&self.partition_key),
            row_key: Some(&self.row_key),
            timestamp: Some(self.timestamp),
            properties: self.properties.as_properties(),
        }
    }
}

fn parse(text: &str) -> Filter {
    Filter::parse(text, None, Dialect::Service).unwrap_or_else(|error| panic!("{text:.1000}: {error}"))
}

fn error(text: &str) -> Error {
    match Filter::parse(text, None, Dialect::Service) {
        Err(error) => error,
        Ok(filter) => panic!("{text} is read as {filter}"),
    }
}

/// The message of an error that is InvalidInput.
fn invalid_input(text: &str) -> String {
    let error = error(text);
    error
        .report()
        .strip_prefix("InvalidInput: ")
        .unwrap_or_else(|| panic!("{text}: {}", error.report()))
        .to_owned()
}

/// Returns whether an entity passes. Every evaluator must give the same answer.
fn passes(filter: &Filter, sample: &Sample) -> bool {
    let entity = sample.entity();
    let expected = filter.matches(&entity);
    let predicate = Predicate::new(filter);
    assert_eq!(predicate.matches(&entity), expected, "{filter} compiled, {sample:?}");
    let read = Predicate::from_bytes(&predicate.to_bytes()).unwrap();
    assert_eq!(read.matches(&entity), expected, "{filter} from bytes, {sample:?}");
    let plan = Plan::new(filter.clone());
    assert_eq!(
        planned(&plan, sample),
        expected,
        "{filter} planned as {plan:?}, {sample:?}"
    );
    expected
}

fn planned(plan: &Plan, sample: &Sample) -> bool {
    let inside = plan
        .ranges
        .iter()
        .filter(|range| range.contains(&sample.partition_key, &sample.row_key))
        .count();
    assert!(inside <= 1, "ranges overlap: {plan:?}");
    inside == 1
        && plan
            .residual
            .as_ref()
            .is_none_or(|residual| residual.matches(&sample.entity()))
}

/// Returns whether an entity with these properties passes.
fn holds(filter: &str, properties: &str) -> bool {
    passes(&parse(filter), &Sample::new("p", "r", properties))
}

/// The plan as `explain_query` shows it.
fn explain(filter: &str) -> (String, Vec<String>, String) {
    let plan = Plan::new(parse(filter));
    (
        plan.access().to_string(),
        plan.ranges.iter().map(ToString::to_string).collect(),
        plan.residual.map_or(String::new(), |residual| residual.to_string()),
    )
}

#[track_caller]
fn assert_plan(filter: &str, access: &str, ranges: &[&str], residual: &str) {
    let (given_access, given_ranges, given_residual) = explain(filter);
    assert_eq!(given_access, access, "{filter}");
    assert_eq!(given_ranges, ranges, "{filter}");
    assert_eq!(given_residual, residual, "{filter}");
}
