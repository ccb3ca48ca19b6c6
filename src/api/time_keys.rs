//! Keys made of time, and the clients' retry policy.

use pgrx::prelude::*;
use table_service_model::{Error, Ticks, retry};

use crate::postgres::clock::{ticks_of, timestamp_of};
use crate::postgres::error::OrRaise;
use crate::postgres::types::TextArg;

/// The parameter's name in messages.
pub const TIMESTAMP: &str = "timestamp";

/// .NET's `DateTime.Ticks` of a point in time: units of 100 ns since 0001-01-01.
///
/// Raises `OutOfRangeInput` outside 0001 to 9999.
#[pg_extern(immutable, strict, parallel_safe)]
fn ticks(timestamp: TimestampWithTimeZone) -> i64 {
    ticks_of(TIMESTAMP, timestamp.into_inner()).map(Ticks::get).or_raise()
}

/// The point in time of .NET's `DateTime.Ticks`, cut off to microseconds.
///
/// Raises `OutOfRangeInput` outside 0001 to 9999.
#[pg_extern(immutable, strict, parallel_safe)]
fn from_ticks(ticks: i64) -> TimestampWithTimeZone {
    Ticks::new(ticks)
        .ok_or_else(|| Error::out_of_range("ticks", &ticks.to_string()))
        .map(timestamp_of)
        .or_raise()
}

/// A RowKey that sorts newest first: 19 digits that fall as time goes on.
#[pg_extern(volatile, strict, parallel_safe)]
fn inverted_ticks(timestamp: default!(TimestampWithTimeZone, "pg_catalog.clock_timestamp()")) -> String {
    ticks_of(TIMESTAMP, timestamp.into_inner())
        .map(Ticks::inverted)
        .or_raise()
}

/// The point in time of a key that `inverted_ticks` made.
///
/// Raises `InvalidInput` for anything but 19 digits of a time from 0001 to 9999.
#[pg_extern(immutable, strict, parallel_safe)]
fn from_inverted_ticks(inverted_ticks: TextArg<'_>) -> TimestampWithTimeZone {
    Ticks::from_inverted(inverted_ticks.get()).map(timestamp_of).or_raise()
}

/// How long to wait before retry number `retry`: exponential back-off with the bounds of the service's clients.
///
/// Raises `InvalidInput` for a negative retry or interval.
#[pg_extern(volatile, strict, parallel_safe)]
fn retry_delay(
    retry: i32,
    default_backoff: default!(Interval, "'30 s'"),
    minimum: default!(Interval, "'3 s'"),
    maximum: default!(Interval, "'90 s'"),
) -> Interval {
    let delay = || {
        let invalid = |reason: &str| Error::ArgumentInvalid {
            reason: reason.to_owned(),
        };
        let retry = u32::try_from(retry).map_err(|_| invalid("retry must not be negative"))?;
        let micros = |interval: &Interval| match interval.as_micros() {
            micros if micros < 0 => Err(invalid("An interval must not be negative")),
            micros => Ok(i64::try_from(micros).unwrap_or(i64::MAX)),
        };
        let delay = retry::delay(
            retry,
            micros(&default_backoff)?,
            micros(&minimum)?,
            micros(&maximum)?,
            random(),
        );
        // Not Interval::from_micros, which goes by way of seconds in floating point.
        Interval::new(0, 0, delay).map_err(|_| invalid("an interval must not be negative"))
    };
    delay().or_raise()
}

/// Evenly distributed in 0..1.
fn random() -> f64 {
    // SAFETY: the backend's own generator, which PostgreSQL seeds when a session starts.
    unsafe { pg_sys::pg_prng_double(&raw mut pg_sys::pg_global_prng_state) }
}
