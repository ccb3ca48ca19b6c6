//! The rules that every stored entity satisfies, also after direct SQL writes.

use table_service_model::{Error, Properties, entity, key};

use crate::postgres::ticks_of;

/// Checks the rules of the table's CHECK constraint. `timestamp` is in microseconds since 2000-01-01.
///
/// # Errors
/// The errors of the limits of an entity.
pub fn check(partition_key: &str, row_key: &str, timestamp: i64, properties: Properties<'_>) -> Result<(), Error> {
    match ticks_of(key::TIMESTAMP, timestamp) {
        Ok(timestamp) => entity::check(partition_key, row_key, Some(timestamp), properties),
        Err(out_of_range) => key::check_characters_of_both(partition_key, row_key).and(Err(out_of_range)),
    }
}
