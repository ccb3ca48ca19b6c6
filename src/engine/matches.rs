//! Conditions that a call of `matches` implies, for the planner: it finds indexes by them.

use table_service_model::filter::{Filter, KeyRange, Plan};
use table_service_model::property_index::Condition;

use super::property_index::Knowledge;
use super::table::Table;
use crate::postgres::planner::{Expression, Key, MatchesCall, Operator, all_of, any_of};

/// How many key ranges become conditions. The planner looks at each of them.
const RANGES: usize = 64;

/// Returns the conditions on keys and on entries of property indexes that every entity meets that passes the filter of a
/// call. There are none if the filter is not valid: then the call itself raises when it runs.
pub fn implied(call: &MatchesCall<'_>) -> Vec<Expression> {
    let parameters = call.parameters.map(|parameters| parameters.get());
    let (Some(table), Ok(filter)) = (Table::of(call.table), Filter::parse(call.filter.get(), parameters)) else {
        return Vec::new();
    };
    let plan = Plan::new(&filter);
    let mut conditions = Vec::new();
    if plan.ranges.len() <= RANGES {
        let ranges: Vec<_> = plan.ranges.iter().map(|range| keys(call, range)).collect();
        if !ranges.is_empty() && ranges.iter().all(|range| !range.is_empty()) {
            let ranges: Vec<_> = ranges.iter().map(|range| all_of(range)).collect();
            conditions.push(any_of(&ranges));
        }
    }
    if let Some(knowledge) = Knowledge::new(&table, plan.residual.as_ref()) {
        let condition = match plan.ranges.as_slice() {
            [only] => knowledge.within(only),
            _ => knowledge.condition().clone(),
        };
        conditions.extend(entries(call, &condition, &knowledge));
    }
    conditions
}

/// Returns conditions on the keys in a range. They may also hold for other keys.
fn keys(call: &MatchesCall<'_>, range: &KeyRange) -> Vec<Expression> {
    let mut conditions = Vec::new();
    let partition = range.partition();
    if let Some(partition) = partition {
        conditions.push(call.compare_key(Key::Partition, Operator::Equal, partition));
    }
    if let Some((_, row_key)) = range.point() {
        conditions.push(call.compare_key(Key::Row, Operator::Equal, row_key));
        return conditions;
    }
    let ends = [
        (&range.lower, Operator::GreaterOrEqual, Operator::Greater),
        (&range.upper, Operator::LessOrEqual, Operator::Less),
    ];
    for (bound, including, excluding) in ends {
        let Some(bound) = bound else { continue };
        let operator = if bound.inclusive { including } else { excluding };
        match (partition, &bound.row_key) {
            (Some(_), Some(row_key)) => conditions.push(call.compare_key(Key::Row, operator, row_key)),
            (Some(_), None) => {}
            (None, Some(_)) => conditions.push(call.compare_key(Key::Partition, including, &bound.partition_key)),
            (None, None) => conditions.push(call.compare_key(Key::Partition, operator, &bound.partition_key)),
        }
    }
    conditions
}

/// Returns a condition on entries as an expression. `None` if no entity meets it: the call itself finds that out.
fn entries(call: &MatchesCall<'_>, condition: &Condition, knowledge: &Knowledge<'_>) -> Option<Expression> {
    let each = |terms: &[Condition]| -> Option<Vec<Expression>> {
        terms.iter().map(|term| entries(call, term, knowledge)).collect()
    };
    match condition {
        Condition::Spans { property, spans } => {
            let property = knowledge.properties.get(*property)?;
            let spans: Vec<_> = spans
                .iter()
                .map(|span| {
                    let lower = call.compare_entry(property, Operator::GreaterOrEqual, &span.lower);
                    let upper = call.compare_entry(property, Operator::Less, &span.upper);
                    all_of(&[lower, upper])
                })
                .collect();
            (!spans.is_empty()).then(|| any_of(&spans))
        }
        Condition::All(terms) => Some(all_of(&each(terms)?)),
        Condition::Any(terms) if terms.is_empty() => None,
        Condition::Any(terms) => Some(any_of(&each(terms)?)),
    }
}
