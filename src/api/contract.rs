//! The rules that a table enforces, also for direct SQL writes: the functions of its CHECK constraint and its trigger.
//!
//! `next_timestamp` and `merge_fits` are for the extension's own statements. Names and signatures never change, because
//! the stored definitions of the tables refer to them.

use pgrx::prelude::*;
use table_service_model::{Error, entity, ticks};

use crate::postgres::{Call, OrRaise, PropertiesArg, RowUpdate, TextArg, TriggerRow, now, raise};
use crate::storage::contract::check;

/// Returns true for an entity that the service would store. Raises the API's error for any other.
#[pg_extern(immutable, strict, parallel_safe)]
fn entity_is_valid(
    partition_key: TextArg<'_>,
    row_key: TextArg<'_>,
    timestamp: TimestampWithTimeZone,
    properties: PropertiesArg<'_>,
) -> bool {
    check(
        partition_key.get(),
        row_key.get(),
        timestamp.into_inner(),
        properties.get(),
    )
    .map(|()| true)
    .or_raise()
}

/// Returns the Timestamp after `old` when the clock shows `clock`: the clock, but at least one microsecond after `old`.
#[pg_extern(immutable, strict, parallel_safe)]
fn next_timestamp(old: TimestampWithTimeZone, clock: TimestampWithTimeZone) -> TimestampWithTimeZone {
    let next = ticks::next_timestamp(old.into_inner(), clock.into_inner());
    let none = || Error::argument("There is no next timestamp");
    TimestampWithTimeZone::try_from(next).map_err(|_| none()).or_raise()
}

/// Returns whether an entity stays within the limits when `new` is merged into its properties `old`.
#[pg_extern(immutable, strict, parallel_safe)]
fn merge_fits(
    partition_key: TextArg<'_>,
    row_key: TextArg<'_>,
    old: PropertiesArg<'_>,
    new: PropertiesArg<'_>,
) -> bool {
    old.get()
        .merge(new.get())
        .and_then(|merged| entity::check_size(partition_key.get(), row_key.get(), merged.as_properties()))
        .is_ok()
}

/// Sets the Timestamp of an updated row, so that no UPDATE can keep, rewind or forge it. BEFORE UPDATE FOR EACH ROW.
#[pg_extern]
fn rising_timestamp(call: Call<'_>) -> TriggerRow {
    let misused = |reason: &str| -> ! { raise(Error::argument(reason.to_owned())) };
    // A user may put the trigger on any table.
    let Some(update) = RowUpdate::of(&call) else {
        misused("rising_timestamp() is called by a BEFORE UPDATE FOR EACH ROW trigger");
    };
    let clock = now();
    let next = |old: Option<i64>| old.map_or(clock, |old| ticks::next_timestamp(old, clock));
    // By name: the columns of a PostgreSQL partition may have another order.
    let row = update.with_timestamptz(c"timestamp", next);
    row.unwrap_or_else(|| misused("rising_timestamp() needs a column \"timestamp\" of type timestamptz"))
}
