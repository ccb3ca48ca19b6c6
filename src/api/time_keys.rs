//! Keys that contain a time, and the retry delays of the service's clients.

use pgrx::prelude::*;
use table_service_model::{Error, Ticks, retry};

use crate::postgres::clock::timestamp_of;
use crate::postgres::random::random;
use crate::postgres::{OrRaise, TextArg, raising, ticks_of};

/// The parameter's name in error messages.
pub const TIMESTAMP: &str = "timestamp";

/// Returns a point in time as .NET's `DateTime.Ticks`: units of 100 ns since 0001-01-01.
///
/// Raises `OutOfRangeInput` outside the years 0001 to 9999.
#[pg_extern(immutable, strict, parallel_safe)]
fn ticks(timestamp: TimestampWithTimeZone) -> i64 {
    ticks_of(TIMESTAMP, timestamp.into_inner()).map(Ticks::get).or_raise()
}

/// Returns the point in time of .NET's `DateTime.Ticks`, truncated to microseconds.
///
/// Raises `OutOfRangeInput` outside the years 0001 to 9999.
#[pg_extern(immutable, strict, parallel_safe)]
fn from_ticks(ticks: i64) -> TimestampWithTimeZone {
    Ticks::new(ticks)
        .ok_or_else(|| Error::out_of_range("ticks", &ticks.to_string()))
        .map(timestamp_of)
        .or_raise()
}

/// Returns a RowKey that sorts the newest entity first: 19 digits whose number decreases with time.
#[pg_extern(volatile, strict, parallel_safe)]
fn inverted_ticks(timestamp: default!(TimestampWithTimeZone, "pg_catalog.clock_timestamp()")) -> String {
    ticks_of(TIMESTAMP, timestamp.into_inner())
        .map(Ticks::inverted)
        .or_raise()
}

/// Returns the point in time of a key that `inverted_ticks` made.
///
/// Raises `InvalidInput` unless the key is 19 digits that stand for a time in the years 0001 to 9999.
#[pg_extern(immutable, strict, parallel_safe)]
fn from_inverted_ticks(inverted_ticks: TextArg<'_>) -> TimestampWithTimeZone {
    Ticks::from_inverted(inverted_ticks.get()).map(timestamp_of).or_raise()
}

/// Returns how long to wait before retry number `retry`: exponential back-off with the limits of the service's clients.
///
/// Raises `InvalidInput` for a negative retry or interval.
#[pg_extern(volatile, strict, parallel_safe)]
fn retry_delay(
    retry: i32,
    default_backoff: default!(Interval, "'30 s'"),
    minimum: default!(Interval, "'3 s'"),
    maximum: default!(Interval, "'90 s'"),
) -> Interval {
    raising(|| {
        let retry = u32::try_from(retry).map_err(|_| Error::argument("retry must not be negative"))?;
        let micros = |interval: &Interval| match interval.as_micros() {
            micros if micros < 0 => Err(Error::argument("An interval must not be negative")),
            micros => Ok(i64::try_from(micros).unwrap_or(i64::MAX)),
        };
        let delay = retry::delay(
            retry,
            micros(&default_backoff)?,
            micros(&minimum)?,
            micros(&maximum)?,
            random(),
        );
        // `Interval::from_micros` would convert to seconds in floating point and lose precision.
        Interval::new(0, 0, delay).map_err(|_| Error::argument("an interval must not be negative"))
    })
}
