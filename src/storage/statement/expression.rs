//! Calls of the functions of the extension in statements.

use pgrx::spi::quote_literal;
use table_service_model::{Expiry, Filter};

/// Returns the expression of a property index over the columns of `alias`. `property` is an SQL literal.
pub fn index_expression(alias: &str, property: &str) -> String {
    format!("table_service.property_index_key({alias}partition_key, {alias}row_key, {alias}properties, {property})")
}

/// Returns the expression of an expiry index over the columns of `alias`: the moment at which an entity expires.
pub fn expiry_expression(alias: &str, expiry: &Expiry) -> String {
    let property = expiry.property().map_or("NULL".to_owned(), quote_literal);
    let seconds = expiry
        .time_to_live()
        .map_or("NULL".to_owned(), |seconds| format!("'{seconds}'"));
    format!(
        "table_service.expires_at({alias}\"timestamp\", {alias}properties, {property}::pg_catalog.text, {seconds}::pg_catalog.int8)"
    )
}

/// Returns a call of `entity_passes` that tests a row against a filter, for SQL that users see.
pub fn passes(alias: &str, filter: &Filter) -> String {
    format!(
        "table_service.entity_passes({alias}partition_key, {alias}row_key, {alias}\"timestamp\", {alias}properties, {}::pg_catalog.text)",
        quote_literal(filter.to_string())
    )
}
