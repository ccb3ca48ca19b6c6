//! Filters in SQL: testing a filter on a row, and translating it into a WHERE clause.

use pgrx::prelude::*;
use table_service_model::filter::Plan;
use table_service_model::{Dialect, Error, Filter, property_name};

use crate::engine::matches::{COST, selectivity, simplified};
use crate::postgres::{Call, OrRaise, PlannerRequestArg, PropertiesArg, TextArg, filter_dialect, raising};
use crate::storage::arguments::required;
use crate::storage::entity::EntityArg;
use crate::storage::planner::{self, Request};
use crate::storage::residual::{parsed, scanned_entity_passes, scanned_properties_pass, tested_entity_passes};
use crate::storage::statement::{passes, range_to_sql};

/// Answers the planner's requests about `matches`: to a call with a constant filter it adds the conditions on keys and on
/// property indexes that the filter implies, and it estimates which part of the entities passes and how long a call takes.
/// The estimates are also those of `entity_passes`.
#[pg_extern(sql = "
CREATE FUNCTION table_service.matches_support(internal) RETURNS internal
STRICT LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn matches_support(request: PlannerRequestArg<'_>) -> pgrx::Internal {
    let answer = match Request::of(&request) {
        Some(Request::Simplify(request)) => simplified(&request),
        Some(Request::Selectivity(request)) => selectivity(&request).map(|selectivity| request.answer(selectivity)),
        Some(Request::Cost(request)) => Some(request.answer(COST)),
        None => None,
    };
    planner::answer(answer)
}

/// Returns whether an entity passes a filter, or NULL if there is no entity, as on the nullable side of an outer join.
/// `parameters` has the values of `@name` in the filter.
#[pg_extern(immutable, parallel_safe, support = matches_support)]
fn matches(
    entity: Option<EntityArg<'_>>,
    filter: Option<TextArg<'_>>,
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    mut call: Call<'_>,
) -> Option<bool> {
    let entity = entity.filter(|entity| !entity.is_null())?;
    let filter = required("filter", filter).or_raise();
    let parameters = parameters.map(|parameters| parameters.get());
    Some(parsed(&mut call, filter.get(), parameters, filter_dialect()).matches(&entity.get()))
}

/// Returns whether the entity in these columns passes a filter. `filter_to_sql` writes calls of this function. They mean what the
/// filter meant there, so its dialect is the extended one, whatever the setting is.
#[pg_extern(
    sql = "
CREATE FUNCTION table_service.entity_passes(
    partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, filter text)
RETURNS boolean
IMMUTABLE STRICT PARALLEL SAFE SUPPORT table_service.matches_support LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
",
    requires = [matches_support]
)]
fn entity_passes(call: Call<'_>) -> bool {
    tested_entity_passes(call, Dialect::Extended)
}

/// Tests the residual filter of a scan that looks only at properties.
#[pg_extern(sql = "
CREATE FUNCTION table_service.scan_passes(properties table_service.properties, predicate bytea) RETURNS boolean
VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn scan_passes_properties(call: Call<'_>) -> bool {
    scanned_properties_pass(call)
}

/// Tests the residual filter of a scan that also looks at keys or the Timestamp.
#[pg_extern(sql = "
CREATE FUNCTION table_service.scan_passes(
    partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, predicate bytea)
RETURNS boolean
VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn scan_passes_entity(call: Call<'_>) -> bool {
    scanned_entity_passes(call)
}

/// Returns a filter as an SQL condition on the columns of an entity, for a WHERE clause. `alias` qualifies the columns.
#[pg_extern(immutable, parallel_safe)]
fn filter_to_sql(
    filter: Option<TextArg<'_>>,
    alias: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
) -> String {
    raising(|| {
        refuse_filter("alias", alias, "filter_to_sql(filter, alias) takes no table's name")?;
        let filter = parse(Some(required("filter", filter)?), parameters)?;
        let alias = match alias.map(TextArg::get) {
            None => String::new(),
            Some("") => {
                return Err(Error::argument("alias must not be empty"));
            }
            Some(alias) => format!("{}.", pgrx::spi::quote_identifier(alias)),
        };
        Ok(plan_to_sql(&Plan::new(filter), &alias))
    })
}

/// Parses a filter in the session's dialect. Every entity passes the filter NULL.
pub fn parse(filter: Option<TextArg<'_>>, parameters: Option<PropertiesArg<'_>>) -> Result<Filter, Error> {
    Filter::parse(
        filter.map_or("", TextArg::get),
        parameters.map(|parameters| parameters.get()),
        filter_dialect(),
    )
}

/// Refuses a filter that was given as another argument, and would be misread there. `order` is the order of the
/// arguments.
///
/// # Errors
/// `InvalidInput`.
pub fn refuse_filter(argument: &str, text: Option<TextArg<'_>>, order: &str) -> Result<(), Error> {
    let is_filter = |text: &str| match Filter::parse(text, None, Dialect::Extended) {
        Ok(_) | Err(Error::NotImplemented { .. }) => true,
        Err(_) => false,
    };
    // A word may be both.
    let is_word = |text: &str| text.is_empty() || property_name::check(text).is_ok();
    match text.map(|text| text.get().trim()) {
        Some(text) if !is_word(text) && is_filter(text) => {
            Err(Error::argument(format!("{argument} is a filter: {order}")))
        }
        _ => Ok(()),
    }
}

/// Returns the condition of a plan. It has parentheses where it needs them, so it can be beside other conditions.
fn plan_to_sql(plan: &Plan, alias: &str) -> String {
    let ranges: Vec<Vec<String>> = plan.ranges.iter().map(|range| range_to_sql(range, alias)).collect();
    let mut conditions = Vec::new();
    if ranges.is_empty() {
        return "false".to_owned();
    }
    if !ranges.iter().any(Vec::is_empty) {
        let each: Vec<String> = ranges
            .iter()
            .map(|range| format!("({})", range.join(" AND ")))
            .collect();
        conditions.push(match each.as_slice() {
            [only] => only.clone(),
            _ => format!("({})", each.join(" OR ")),
        });
    }
    conditions.extend(plan.residual.as_ref().map(|filter| passes(alias, filter)));
    match conditions.as_slice() {
        [] => "true".to_owned(),
        [only] => only.clone(),
        _ => format!("({})", conditions.join(" AND ")),
    }
}
