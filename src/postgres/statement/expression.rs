//! Calls of the functions of the extension in statements.

use table_service_model::filter::Filter;

/// Returns the expression of a property index over the columns of `alias`. `property` is an SQL literal.
pub fn index_expression(alias: &str, property: &str) -> String {
    format!("table_service.property_index_key({alias}partition_key, {alias}row_key, {alias}properties, {property})")
}

/// Returns a call of `entity_passes` that tests a row against a filter, for SQL that users see.
pub fn passes(alias: &str, filter: &Filter) -> String {
    format!(
        "table_service.entity_passes({alias}partition_key, {alias}row_key, {alias}\"timestamp\", {alias}properties, {})",
        pgrx::spi::quote_literal(filter.to_string())
    )
}
