//! The planner's view of a call of `matches`: the conditions that the call implies, by which the planner finds indexes,
//! and the part of the entities that passes.

use pgrx::pg_sys;
use table_service_model::filter::{Column, Expression as FilterExpression, Operator, Plan};
use table_service_model::property_index::Condition;
use table_service_model::{Dialect, Filter, KeyRange};

use super::property_index::FilterIndexes;
use crate::postgres::filter_dialect;
use crate::storage::planner::{
    Expression, Implied, MatchesCall, SelectivityRequest, SimplifyRequest, TableRow, all_of, any_of,
};
use crate::storage::table::Table;

/// How many key ranges become conditions. The planner looks at each of them.
pub(super) const RANGES: usize = 64;

/// Returns the replacement for a call of `matches` in a plan, if any: the call and the conditions that its filter
/// implies. If the filter is not valid there are none, and the call raises an error when it runs.
///
/// A filter that is valid only in the other dialect must not be proved by a partial index that was made under that
/// dialect: then the call would neither run nor raise its error.
pub fn simplified(request: &SimplifyRequest<'_>) -> Option<pg_sys::Datum> {
    let parameters = request.parameters.map(|parameters| parameters.get());
    let parse = |dialect| Filter::parse(request.filter.get(), parameters, dialect);
    match parse(filter_dialect()) {
        Ok(filter) => {
            let call = request.on_row.as_ref()?;
            let (conditions, implied) = implied(call, filter)?;
            Some(request.and(&conditions, implied))
        }
        Err(_) => (request.is_in_text && parse(Dialect::Extended).is_ok()).then(|| request.unlike_others()),
    }
}

/// Returns the conditions on keys and on entries of property indexes that follow from a filter, if there are any.
fn implied(call: &MatchesCall<'_>, filter: Filter) -> Option<(Vec<Expression>, Implied)> {
    let table = Table::of(call.table)?;
    let (conditions, implied) = conditions(&call.row, &table, &Plan::new(filter), call.ends_early);
    (!conditions.is_empty()).then_some((conditions, implied))
}

/// Returns the conditions on keys and on entries of property indexes that follow from a plan, and of which kinds they
/// are. `ends_early` says that not all entities may be wanted.
pub(super) fn conditions(
    row: &TableRow<'_>,
    table: &Table,
    plan: &Plan,
    ends_early: bool,
) -> (Vec<Expression>, Implied) {
    let (mut conditions, mut implied) = (Vec::new(), Implied::default());
    if plan.ranges.len() <= RANGES {
        let ranges: Vec<_> = plan.ranges.iter().map(|range| keys(row, range)).collect();
        if !ranges.is_empty() && ranges.iter().all(|range| !range.is_empty()) {
            let ranges: Vec<_> = ranges.iter().map(|range| all_of(range)).collect();
            conditions.push(any_of(&ranges));
            implied.keys = true;
        }
    }
    if let Some(knowledge) = FilterIndexes::new(table, plan.residual.as_ref()) {
        let condition = knowledge.within(&plan.ranges);
        if knowledge.helps(&condition, implied.keys.then_some(&plan.ranges), ends_early)
            && let Some(entries) = entries(row, &condition, &knowledge)
        {
            conditions.push(entries);
            implied.entries = true;
        }
    }
    (conditions, implied)
}

/// How many of PostgreSQL's operators take as long as a call, which forms a row and searches its bag. So conditions beside
/// it are tested before it.
pub const COST: f64 = 20.0;

/// Estimates which part of the entities passes the filter of a call, without the part that conditions beside it
/// estimate by statistics. Returns `None` if the filter is not valid.
pub fn selectivity(request: &SelectivityRequest<'_>) -> Option<f64> {
    let parameters = request.parameters.map(|parameters| parameters.get());
    let dialect = match request.are_columns {
        true => Dialect::Extended,
        false => filter_dialect(),
    };
    let filter = Filter::parse(request.filter.get(), parameters, dialect).ok()?;
    let Some(table) = request.table.and_then(Table::of) else {
        return Some(part(filter.expression(), &|_| false));
    };
    let plan = Plan::new(filter.clone());
    let Some(residual) = plan.residual else {
        return Some(if request.has.keys {
            1.0
        } else {
            part(filter.expression(), &|_| false)
        });
    };
    let knowledge = FilterIndexes::new(&table, Some(&residual));
    if let Some(knowledge) = knowledge.as_ref().filter(|_| request.has.entries) {
        let are_keys_in_entries =
            matches!(&*plan.ranges, [_]) && FilterIndexes::is_one_value(&knowledge.within(&plan.ranges));
        let estimate = |property: &str, span: [&[u8]; 2]| knowledge.estimate_entries(property, span);
        request.estimate_conditions(&estimate, are_keys_in_entries);
    }
    // The statistics of the indexes also help if the call has no conditions on entries.
    let known = knowledge
        .as_ref()
        .filter(|_| !request.has.entries)
        .and_then(|knowledge| knowledge.part(knowledge.condition()));
    let are_properties_known = request.has.entries || known.is_some();
    let indexes = knowledge
        .as_ref()
        .filter(|_| are_properties_known)
        .map_or(&[][..], |knowledge| &knowledge.indexes);
    let part = part(residual.expression(), &|column| match column {
        Column::Property(name) => indexes.iter().any(|index| *index.property == **name),
        Column::PartitionKey | Column::RowKey => request.has.keys,
        Column::Timestamp => false,
    });
    Some(part * known.unwrap_or(1.0))
}

/// Estimates which part of the entities passes. Comparisons of columns that are known are estimated elsewhere. The others
/// have the numbers that PostgreSQL takes without statistics.
fn part(expression: &FilterExpression, is_known: &dyn Fn(&Column) -> bool) -> f64 {
    const EQUAL: f64 = 0.005;
    const LESS: f64 = 1.0 / 3.0;
    // As for LIKE.
    const PART_OF_TEXT: f64 = 0.005;
    if columns_are_known(expression, is_known) {
        return 1.0;
    }
    match expression {
        FilterExpression::And(terms) => terms.iter().map(|term| part(term, is_known)).product(),
        FilterExpression::Or(terms) => 1.0 - terms.iter().map(|term| 1.0 - part(term, is_known)).product::<f64>(),
        FilterExpression::Not(term) => 1.0 - part(term, &|_| false),
        FilterExpression::Constant(value) => f64::from(u8::from(*value)),
        FilterExpression::Text(_) => PART_OF_TEXT,
        FilterExpression::Property(_) => 0.5,
        FilterExpression::Comparison(comparison) => match comparison.operator {
            Operator::Eq => EQUAL,
            Operator::Ne => 1.0 - EQUAL,
            _ => LESS,
        },
    }
}

/// Returns whether an expression has columns, and all of them are known.
fn columns_are_known(expression: &FilterExpression, is_known: &dyn Fn(&Column) -> bool) -> bool {
    match expression {
        FilterExpression::And(terms) | FilterExpression::Or(terms) => {
            terms.iter().all(|term| columns_are_known(term, is_known))
        }
        FilterExpression::Not(term) => columns_are_known(term, is_known),
        FilterExpression::Constant(_) => false,
        FilterExpression::Property(property) => is_known(property),
        // Conditions on entries and keys say nothing about parts of a text.
        FilterExpression::Text(_) => false,
        FilterExpression::Comparison(comparison) => is_known(&comparison.property),
    }
}

/// Returns conditions on the keys in a range.
fn keys(row: &TableRow<'_>, range: &KeyRange) -> Vec<Expression> {
    let comparisons = range.comparisons().into_iter();
    comparisons
        .map(|(key, operator, value)| row.compare_key(key, operator, value))
        .collect()
}

/// Returns a condition on entries as an expression. `None` if no entity meets it: the call itself finds that out.
fn entries(row: &TableRow<'_>, condition: &Condition, knowledge: &FilterIndexes<'_>) -> Option<Expression> {
    let each = |terms: &[Condition]| -> Option<Vec<Expression>> {
        terms.iter().map(|term| entries(row, term, knowledge)).collect()
    };
    match condition {
        Condition::Spans { property, spans } => {
            let property = &knowledge.indexes.get(*property)?.property;
            let spans: Vec<_> = spans
                .iter()
                .map(|span| {
                    let lower = row.compare_entry(property, Operator::Ge, &span.lower);
                    let upper = row.compare_entry(property, Operator::Lt, &span.upper);
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
