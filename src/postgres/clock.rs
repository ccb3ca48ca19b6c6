//! The clock that Timestamps come from, and points in time as PostgreSQL has them.

use pgrx::prelude::*;
use table_service_model::{Error, Ticks};

use super::error::raise;

/// The wall clock, in microseconds since 2000-01-01. Unlike `now()` it goes on within a transaction.
pub fn now() -> i64 {
    // SAFETY: no preconditions.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// The ETag of an entity with this Timestamp, which the CHECK keeps in range.
pub fn etag(timestamp: i64) -> String {
    table_service_model::etag::format(Ticks::from_postgres_micros(timestamp).unwrap_or(Ticks::ZERO))
}

/// Microseconds since 2000-01-01 in ticks.
///
/// # Errors
/// `OutOfRangeInput`, which names `parameter`, outside 0001 to 9999.
pub fn ticks_of(parameter: &str, timestamp: i64) -> Result<Ticks, Error> {
    Ticks::from_postgres_micros(timestamp).ok_or_else(|| Error::out_of_range(parameter, timestamp_text(timestamp)))
}

/// Ticks are within 0001 to 9999, which `timestamptz` has.
pub fn timestamp_of(ticks: Ticks) -> TimestampWithTimeZone {
    match TimestampWithTimeZone::try_from(ticks.to_postgres_micros()) {
        Ok(timestamp) => timestamp,
        Err(_) => raise(Error::ArgumentInvalid {
            reason: "The time is out of range".to_owned(),
        }),
    }
}

/// A point in time that has no ticks, for a message.
fn timestamp_text(timestamp: i64) -> &'static str {
    match timestamp {
        i64::MAX => "infinity",
        i64::MIN => "-infinity",
        _ if timestamp > 0 => "after 9999",
        _ => "before 0001",
    }
}
