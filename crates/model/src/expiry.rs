//! The expiry of entities: at a moment that a property or the table gives, and not when they are deleted.

use std::sync::Arc;

use crate::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use crate::{Error, Properties, Ticks, Value, property_name};

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 24 * 3600 * MICROS_PER_SECOND;

/// The rule by which the entities of a table expire.
///
/// ```
/// use table_service_model::expiry::Expiry;
/// use table_service_model::json::parse_properties;
///
/// let expiry = Expiry::new(Some("TimeToLive"), Some(3600))?;
/// // In microseconds.
/// let expires_at = |json| parse_properties(json).map(|bag| expiry.expires_at(0, bag.as_properties()));
/// assert_eq!(expires_at(r#"{"TimeToLive": 60}"#)?, Some(60_000_000));
/// assert_eq!(expires_at("{}")?, Some(3_600_000_000));
/// assert_eq!(expires_at(r#"{"TimeToLive": -1}"#)?, None);
/// # Ok::<(), table_service_model::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expiry {
    property: Option<Box<str>>,
    /// In seconds.
    time_to_live: Option<i64>,
}

impl Expiry {
    /// Returns the expiry by a property, by a time to live in seconds for entities that lack the property, or both.
    ///
    /// # Errors
    /// `InvalidInput` for neither, for the name of a system property, and for a time to live below one second. The errors of
    /// property names.
    pub fn new(property: Option<&str>, time_to_live: Option<i64>) -> Result<Expiry, Error> {
        if property.is_none() && time_to_live.is_none() {
            return Err(Error::argument("An expiry needs a property, a time_to_live, or both"));
        }
        if let Some(property) = property {
            property_name::check(property)?;
            if [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&property) {
                return Err(Error::argument(format!(
                    "{property} is a system property, which says no expiry. Entities that expire some time after their \
                     Timestamp need only a time_to_live"
                )));
            }
        }
        if time_to_live.is_some_and(|seconds| seconds < 1) {
            return Err(no_time_to_live());
        }
        Ok(Expiry {
            property: property.map(Box::from),
            time_to_live,
        })
    }

    /// Returns the property that decides for an entity that has it.
    pub fn property(&self) -> Option<&str> {
        self.property.as_deref()
    }

    /// Returns the time to live of entities that lack the property, in seconds.
    pub fn time_to_live(&self) -> Option<i64> {
        self.time_to_live
    }

    /// Returns when an entity with this Timestamp expires, both in microseconds since 2000-01-01; `None` if never.
    #[inline]
    pub fn expires_at(&self, timestamp: i64, properties: Properties<'_>) -> Option<i64> {
        expires_at(timestamp, properties, self.property(), self.time_to_live)
    }
}

/// Returns when an entity with this Timestamp expires, both in microseconds since 2000-01-01; `None` if never.
///
/// If the entity has `property`, that decides: a DateTime is the moment, an integer above 0 is so many seconds after the
/// Timestamp, and any other value means never. If not, it lives for `seconds`. A moment beyond the year 9999 is never.
#[inline]
pub fn expires_at(
    timestamp: i64,
    properties: Properties<'_>,
    property: Option<&str>,
    seconds: Option<i64>,
) -> Option<i64> {
    let seconds = match property.and_then(|property| properties.get(property)) {
        Some(Value::DateTime(moment)) => return Some(moment.to_postgres_micros()),
        Some(Value::Int32(seconds)) => i64::from(seconds),
        Some(Value::Int64(seconds)) => seconds,
        Some(_) => return None,
        None => seconds?,
    };
    if seconds < 1 {
        return None;
    }
    let micros = timestamp.checked_add(seconds.checked_mul(MICROS_PER_SECOND)?)?;
    Ticks::from_postgres_micros(micros).map(|_| micros)
}

/// Returns a time to live in seconds from the parts of an interval. A day has 24 hours.
///
/// # Errors
/// `InvalidInput` for months, for a part of a second, and for less than one second.
pub fn time_to_live(months: i32, days: i32, micros: i64) -> Result<i64, Error> {
    let whole = i64::from(days)
        .checked_mul(MICROS_PER_DAY)
        .and_then(|days| days.checked_add(micros))
        .filter(|micros| months == 0 && *micros > 0 && micros % MICROS_PER_SECOND == 0);
    whole
        .map(|micros| micros / MICROS_PER_SECOND)
        .ok_or_else(no_time_to_live)
}

/// The moment of a call, and the expiries of the table: they tell which entities are alive.
#[derive(Debug, Clone, PartialEq)]
pub struct Alive {
    expiries: Arc<[Expiry]>,
    /// In microseconds since 2000-01-01.
    at: i64,
}

impl Alive {
    /// Returns those entities of a table that have not expired at a moment, in microseconds since 2000-01-01.
    pub fn new(expiries: Arc<[Expiry]>, at: i64) -> Alive {
        Alive { expiries, at }
    }

    /// Returns whether an entity with this Timestamp has not expired. With several expiries the earliest counts.
    #[inline]
    pub fn includes(&self, timestamp: i64, properties: Properties<'_>) -> bool {
        !have_passed(&self.expiries, self.at, timestamp, properties)
    }

    pub(crate) fn expiries(&self) -> &[Expiry] {
        &self.expiries
    }

    pub(crate) fn at(&self) -> i64 {
        self.at
    }
}

/// Returns whether an entity with this Timestamp has expired at a moment, both in microseconds since 2000-01-01. With several
/// expiries the earliest counts.
#[inline]
pub fn have_passed(expiries: &[Expiry], at: i64, timestamp: i64, properties: Properties<'_>) -> bool {
    let has_passed = |expiry: &Expiry| {
        expiry
            .expires_at(timestamp, properties)
            .is_some_and(|moment| moment <= at)
    };
    expiries.iter().any(has_passed)
}

fn no_time_to_live() -> Error {
    Error::argument(
        "time_to_live is a whole number of seconds, at least one, without months and years, which differ in length: a day is 24 \
         hours",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_properties;

    fn at(json: &str, property: Option<&str>, seconds: Option<i64>) -> Option<i64> {
        let bag = parse_properties(json).unwrap();
        expires_at(1000, bag.as_properties(), property, seconds)
    }

    #[test]
    fn the_property_decides_if_the_entity_has_it() {
        let date = |text: &str| format!(r#"{{"E@odata.type": "Edm.DateTime", "E": "{text}"}}"#);
        let cases = [
            (date("2000-01-01T00:00:01Z"), Some(1_000_000)),
            (date("1601-01-01T00:00:00Z"), Some(-12_591_158_400_000_000)),
            (date("9999-12-31T23:59:59.9999999Z"), Some(252_455_615_999_999_999)),
            (r#"{"E": 2}"#.to_owned(), Some(2_001_000)),
            (r#"{"E@odata.type": "Edm.Int64", "E": "2"}"#.to_owned(), Some(2_001_000)),
            (r#"{"E": 0}"#.to_owned(), None),
            (r#"{"E": -1}"#.to_owned(), None),
            (r#"{"E": 2.5}"#.to_owned(), None),
            (r#"{"E": "2"}"#.to_owned(), None),
            (r#"{"E": true}"#.to_owned(), None),
            (r#"{"F": 2}"#.to_owned(), Some(7_001_000)),
        ];
        for (json, expected) in cases {
            assert_eq!(at(&json, Some("E"), Some(7)), expected, "{json}");
        }
        assert_eq!(at(r#"{"F": 2}"#, Some("E"), None), None);
        assert_eq!(at(r#"{"E": 2}"#, None, Some(7)), Some(7_001_000));
    }

    #[test]
    fn what_is_beyond_the_year_9999_is_never() {
        let seconds = |n: i64| format!(r#"{{"E@odata.type": "Edm.Int64", "E": "{n}"}}"#);
        for n in [i64::MAX, i64::MAX / 1_000_000, 252_455_616_000] {
            assert_eq!(at(&seconds(n), Some("E"), None), None, "{n}");
        }
        assert_eq!(
            at(&seconds(252_455_615_999), Some("E"), None),
            Some(252_455_615_999_001_000)
        );
        assert_eq!(at("{}", None, Some(i64::MAX)), None);
    }

    #[test]
    fn a_time_to_live_is_whole_seconds() {
        assert_eq!(time_to_live(0, 0, 1_000_000).unwrap(), 1);
        assert_eq!(time_to_live(0, 30, 0).unwrap(), 30 * 86_400);
        assert_eq!(time_to_live(0, 1, -1_000_000).unwrap(), 86_399);
        for (months, days, micros) in [
            (1, 0, 0),
            (0, 0, 0),
            (0, 0, 999_999),
            (0, 0, 1_500_000),
            (0, -1, 0),
            (-1, 31, 0),
        ] {
            assert!(time_to_live(months, days, micros).is_err(), "{months} {days} {micros}");
        }
        assert!(time_to_live(0, i32::MAX, i64::MAX).is_err());
        assert!(Expiry::new(None, None).is_err());
        assert!(Expiry::new(Some("E"), Some(0)).is_err());
        assert!(Expiry::new(Some("RowKey"), None).is_err());
        assert!(Expiry::new(Some("not a name"), None).is_err());
    }

    #[test]
    fn the_earliest_of_several_expiries_counts() {
        let expiries = [
            Expiry::new(Some("E"), None).unwrap(),
            Expiry::new(None, Some(10)).unwrap(),
        ];
        let bag = parse_properties(r#"{"E": 60}"#).unwrap();
        let alive = |at| Alive::new(expiries.clone().into(), at).includes(0, bag.as_properties());
        // Gone at the moment itself.
        assert!(alive(9_999_999) && !alive(10_000_000) && !alive(60_000_000));
        assert!(Alive::new([].into(), i64::MAX).includes(0, bag.as_properties()));
    }
}
