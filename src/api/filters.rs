//! Filters as predicates of SQL: what they become, and how they are tested on a row.

use pgrx::prelude::*;
use table_service_model::entity::Entity;
use table_service_model::filter::{Filter, Plan};
use table_service_model::{Error, Ticks};

use crate::engine::residual::parsed;
use crate::postgres::arguments::required;
use crate::postgres::error::OrRaise;
use crate::postgres::statement::range_to_sql;
use crate::postgres::types::{EntityArg, PropertiesArg, TextArg};

/// Whether an entity passes a filter. `parameters` gives values to `@name` in it.
#[pg_extern(immutable, parallel_safe)]
fn matches(
    entity: Option<EntityArg<'_>>,
    filter: Option<TextArg<'_>>,
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> bool {
    let (Some(entity), Some(filter)) = (&entity, filter) else {
        let missing = if entity.is_none() { "entity" } else { "filter" };
        return Err(Error::null_argument(missing)).or_raise();
    };
    let parameters = parameters.map(|parameters| parameters.get());
    // SAFETY: the running function's own fcinfo.
    unsafe { parsed(fcinfo, filter.get(), parameters) }.matches(&entity.get())
}

/// `matches` for the columns of an entity: what `filter_to_sql` writes.
#[pg_extern(immutable, strict, parallel_safe)]
fn entity_passes(
    partition_key: TextArg<'_>,
    row_key: TextArg<'_>,
    timestamp: TimestampWithTimeZone,
    properties: PropertiesArg<'_>,
    filter: TextArg<'_>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> bool {
    let entity = Entity {
        partition_key: Some(partition_key.get()),
        row_key: Some(row_key.get()),
        timestamp: Ticks::from_postgres_micros(timestamp.into_inner()),
        properties: properties.get(),
    };
    // SAFETY: the running function's own fcinfo.
    unsafe { parsed(fcinfo, filter.get(), None) }.matches(&entity)
}

/// The predicate over the columns of an entity that a filter stands for, to be written into a WHERE clause. `alias` is
/// the name that the columns are qualified with.
#[pg_extern(immutable, parallel_safe)]
fn filter_to_sql(
    filter: Option<TextArg<'_>>,
    alias: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
) -> String {
    let to_sql = || {
        let filter = parse(Some(required("filter", filter)?), parameters)?;
        let alias = match alias.map(TextArg::get) {
            None => String::new(),
            Some("") => {
                return Err(Error::ArgumentInvalid {
                    reason: "alias must not be empty".to_owned(),
                });
            }
            Some(alias) => format!("{}.", pgrx::spi::quote_identifier(alias)),
        };
        Ok(plan_to_sql(&Plan::new(&filter), &alias))
    };
    to_sql().or_raise()
}

/// Parses a filter; NULL lets everything pass.
pub fn parse(filter: Option<TextArg<'_>>, parameters: Option<PropertiesArg<'_>>) -> Result<Filter, Error> {
    Filter::parse(
        filter.map_or("", TextArg::get),
        parameters.map(|parameters| parameters.get()),
    )
}

/// The WHERE clause of a plan, which may stand beside any other.
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

/// The call that tests a row against a filter.
pub fn passes(alias: &str, filter: &Filter) -> String {
    format!(
        "table_service.entity_passes({alias}partition_key, {alias}row_key, {alias}\"timestamp\", {alias}properties, {})",
        pgrx::spi::quote_literal(filter.to_string())
    )
}
