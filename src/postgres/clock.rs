//! The clock of Timestamps, and conversions between ticks and PostgreSQL's points in time.

use pgrx::prelude::*;
use table_service_model::{Error, Ticks};

use super::error::raise;
use super::guarded::without_guards;

without_guards! {
    // It raises no error.
    fn GetCurrentTimestamp() -> pg_sys::TimestampTz;
}

/// Returns the time in microseconds since 2000-01-01. Unlike `now()` in SQL it advances within a transaction.
pub fn now() -> i64 {
    // SAFETY: the function has no preconditions.
    unsafe { GetCurrentTimestamp() }
}

/// Returns the ETag of an entity with this Timestamp. The CHECK constraint keeps Timestamps in range.
pub fn etag(timestamp: i64) -> String {
    table_service_model::etag::format(Ticks::from_postgres_micros(timestamp).unwrap_or(Ticks::ZERO))
}

/// Converts microseconds since 2000-01-01 to ticks.
///
/// # Errors
/// `OutOfRangeInput`, which names `parameter`, outside the years 0001 to 9999.
pub fn ticks_of(parameter: &str, timestamp: i64) -> Result<Ticks, Error> {
    Ticks::from_postgres_micros(timestamp).ok_or_else(|| Error::out_of_range(parameter, timestamp_text(timestamp)))
}

/// Converts ticks to a `timestamptz`. Its range includes that of ticks, the years 0001 to 9999.
pub fn timestamp_of(ticks: Ticks) -> TimestampWithTimeZone {
    match TimestampWithTimeZone::try_from(ticks.to_postgres_micros()) {
        Ok(timestamp) => timestamp,
        Err(_) => raise(Error::argument("The time is out of range")),
    }
}

/// Describes a point in time outside the range of ticks, for a message.
fn timestamp_text(timestamp: i64) -> &'static str {
    match timestamp {
        i64::MAX => "infinity",
        i64::MIN => "-infinity",
        _ if timestamp > 0 => "after 9999",
        _ => "before 0001",
    }
}
