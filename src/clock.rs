//! The clock that Timestamps come from.

use table_service_model::Ticks;

use crate::unguarded;

/// The wall clock, in microseconds since 2000-01-01. Unlike `now()` it goes on within a transaction.
pub fn now() -> i64 {
    // SAFETY: no preconditions, and it raises nothing.
    unsafe { unguarded::GetCurrentTimestamp() }
}

/// The ETag of an entity with this Timestamp, which the CHECK keeps in range.
pub fn etag(timestamp: i64) -> String {
    table_service_model::etag::format(Ticks::from_postgres_micros(timestamp).unwrap_or(Ticks::ZERO))
}
