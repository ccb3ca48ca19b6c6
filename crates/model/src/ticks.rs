//! Points in time as the service keeps them: 100 ns ticks since 0001-01-01T00:00:00Z (.NET `DateTime.Ticks`).

use std::fmt;

use time::{Date, Month};

use crate::Error;

const PER_SECOND: i64 = 10_000_000;
const PER_MINUTE: i64 = 60 * PER_SECOND;
const PER_HOUR: i64 = 60 * PER_MINUTE;
const PER_DAY: i64 = 24 * PER_HOUR;

/// The Julian day of 0001-01-01.
const EPOCH_JULIAN_DAY: i64 = 1_721_426;

/// Ticks from 0001-01-01 to 2000-01-01, where a PostgreSQL `timestamptz` counts from.
const POSTGRES_EPOCH: i64 = 730_119 * PER_DAY;

/// Ticks from 0001-01-01 to 1970-01-01.
const UNIX_EPOCH: i64 = 719_162 * PER_DAY;

/// A point in time in UTC, in ticks of 100 ns since 0001-01-01T00:00:00Z.
///
/// ```
/// use table_service_model::Ticks;
///
/// let time = Ticks::parse("2014-08-22T00:50:32Z").unwrap();
/// assert_eq!(time.get(), 635_442_654_320_000_000);
/// assert_eq!(Ticks::from_inverted(&time.inverted())?, time);
/// # Ok::<(), table_service_model::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(i64);

/// Why a text is not a DateTime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseError {
    Syntax,
    /// A point in time outside 1601..=9999, printed as the service quotes it: `MM/dd/yyyy HH:mm:ss`.
    OutOfRange(String),
}

impl Ticks {
    /// 0001-01-01T00:00:00Z.
    pub const ZERO: Ticks = Ticks(0);
    /// 9999-12-31T23:59:59.9999999Z.
    pub const MAX: Ticks = Ticks(3_155_378_975_999_999_999);
    /// 1601-01-01T00:00:00Z, the first DateTime that the service stores (semantics 1.6).
    pub const DATETIME_MIN: Ticks = Ticks(584_388 * PER_DAY);

    /// Returns a point in time from 0001-01-01 to 9999-12-31, or `None`.
    pub const fn new(ticks: i64) -> Option<Ticks> {
        if 0 <= ticks && ticks <= Ticks::MAX.0 {
            Some(Ticks(ticks))
        } else {
            None
        }
    }

    /// Returns the number of ticks.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns whether Edm.DateTime has this point in time: 1601 to 9999.
    pub const fn is_datetime(self) -> bool {
        self.0 >= Ticks::DATETIME_MIN.0
    }

    /// Returns the point in time so many microseconds after 2000-01-01, as PostgreSQL's `timestamptz` counts; `None`
    /// outside 0001..=9999.
    pub const fn from_postgres_micros(micros: i64) -> Option<Ticks> {
        Ticks::after(POSTGRES_EPOCH, micros, 10)
    }

    /// Returns the point in time so many seconds after 1970-01-01; `None` outside 0001..=9999.
    pub const fn from_unix_seconds(seconds: i64) -> Option<Ticks> {
        Ticks::after(UNIX_EPOCH, seconds, PER_SECOND)
    }

    const fn after(epoch: i64, count: i64, unit: i64) -> Option<Ticks> {
        match count.checked_mul(unit) {
            Some(ticks) => match ticks.checked_add(epoch) {
                Some(ticks) => Ticks::new(ticks),
                None => None,
            },
            None => None,
        }
    }

    /// Returns the start of the second that holds this point in time.
    pub const fn whole_seconds(self) -> Ticks {
        Ticks(self.0 - self.0.rem_euclid(PER_SECOND))
    }

    /// Returns microseconds since 2000-01-01; a seventh fraction digit is cut off.
    pub const fn to_postgres_micros(self) -> i64 {
        (self.0 - POSTGRES_EPOCH).div_euclid(10)
    }

    /// Reads `YYYY-MM-DD[Thh:mm[:ss[.fffffff]]]` with `Z`, an offset `±hh:mm`, or no zone, which is UTC. Fraction
    /// digits beyond the seventh are cut off (semantics 1.6). Years from 0001 on are accepted;
    /// [`Ticks::parse_datetime`] checks the range of Edm.DateTime.
    pub fn parse(text: &str) -> Option<Ticks> {
        let mut scan = Scan(text.as_bytes());
        let year = scan.digits(4)?;
        scan.byte(b'-')?;
        let month = scan.digits(2)?;
        scan.byte(b'-')?;
        let day = scan.digits(2)?;
        let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
        let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
        let mut ticks = (i64::from(date.to_julian_day()) - EPOCH_JULIAN_DAY) * PER_DAY;
        if scan.byte(b'T').is_some() {
            let hour = scan.digits(2).filter(|&h| h < 24)?;
            scan.byte(b':')?;
            let minute = scan.digits(2).filter(|&m| m < 60)?;
            ticks += hour * PER_HOUR + minute * PER_MINUTE;
            if scan.byte(b':').is_some() {
                let second = scan.digits(2).filter(|&s| s < 60)?;
                ticks += second * PER_SECOND;
                if scan.byte(b'.').is_some() {
                    ticks += scan.fraction()?;
                }
            }
        }
        if scan.byte(b'Z').is_none() && !scan.0.is_empty() {
            let sign = if scan.byte(b'+').is_some() {
                -1
            } else {
                scan.byte(b'-')?;
                1
            };
            let hours = scan.digits(2).filter(|&h| h <= 14)?;
            scan.byte(b':')?;
            let minutes = scan.digits(2).filter(|&m| m < 60)?;
            ticks += sign * (hours * PER_HOUR + minutes * PER_MINUTE);
        }
        if !scan.0.is_empty() {
            return None;
        }
        Ticks::new(ticks)
    }

    /// Reads an Edm.DateTime: the text that [`Ticks::parse`] reads, within 1601..=9999.
    ///
    /// # Errors
    /// [`ParseError`], which tells text of another form from a time out of range.
    pub fn parse_datetime(text: &str) -> Result<Ticks, ParseError> {
        match Ticks::parse(text) {
            Some(ticks) if ticks.is_datetime() => Ok(ticks),
            Some(ticks) => Err(ParseError::OutOfRange(ticks.us_text())),
            None => Err(ParseError::Syntax),
        }
    }

    /// Returns the error of the service for a point in time that Edm.DateTime does not have.
    pub fn out_of_range(self, parameter: &str) -> Error {
        Error::out_of_range(parameter, &self.us_text())
    }

    /// `MM/dd/yyyy HH:mm:ss`, the form in which the service quotes a DateTime out of range.
    fn us_text(self) -> String {
        let parts = self.parts();
        format!(
            "{:02}/{:02}/{:04} {:02}:{:02}:{:02}",
            parts.month, parts.day, parts.year, parts.hour, parts.minute, parts.second
        )
    }

    /// Appends the time with `colon` between hours, minutes and seconds: `:` in a payload, `%3A` in an ETag.
    pub(crate) fn write(self, out: &mut Vec<u8>, colon: &str) {
        let p = self.parts();
        let year = i64::from(p.year);
        let [month, day] = [p.month, p.day].map(i64::from);
        out.extend_from_slice(&two_digits(year / 100));
        out.extend_from_slice(&two_digits(year % 100));
        let rest = [
            ("-", month),
            ("-", day),
            ("T", p.hour),
            (colon, p.minute),
            (colon, p.second),
        ];
        for (separator, number) in rest {
            out.extend_from_slice(separator.as_bytes());
            out.extend_from_slice(&two_digits(number));
        }
        if p.fraction != 0 {
            let mut fraction = p.fraction;
            let mut digits = [b'.'; 8];
            for place in digits.iter_mut().skip(1).rev() {
                *place = digit(fraction);
                fraction /= 10;
            }
            let zeros = digits.iter().rev().take_while(|&&place| place == b'0').count();
            out.extend_from_slice(digits.get(..digits.len() - zeros).unwrap_or_default());
        }
        out.push(b'Z');
    }

    /// Returns `YYYY-MM-DDThh:mm:ss.fffffffZ`, the form of times in documents and error bodies.
    pub fn with_seven_digits(self) -> String {
        let p = self.parts();
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:07}Z",
            p.year, p.month, p.day, p.hour, p.minute, p.second, p.fraction
        )
    }

    fn parts(self) -> Parts {
        let (days, rest) = (self.0.div_euclid(PER_DAY), self.0.rem_euclid(PER_DAY));
        let date = i32::try_from(days + EPOCH_JULIAN_DAY)
            .ok()
            .and_then(|julian| Date::from_julian_day(julian).ok())
            .unwrap_or(Date::MIN);
        Parts {
            year: date.year(),
            month: u8::from(date.month()),
            day: date.day(),
            hour: rest / PER_HOUR,
            minute: rest % PER_HOUR / PER_MINUTE,
            second: rest % PER_MINUTE / PER_SECOND,
            fraction: rest % PER_SECOND,
        }
    }

    /// Returns the log-tail key for this time: 19 digits that sort newest first.
    pub fn inverted(self) -> String {
        format!("{:019}", Ticks::MAX.0 - self.0)
    }

    /// Returns the time of a log-tail key made by [`Ticks::inverted`].
    ///
    /// # Errors
    /// `InvalidInput` for anything but 19 digits of a time from 0001 to 9999.
    pub fn from_inverted(text: &str) -> Result<Ticks, Error> {
        Some(text)
            .filter(|t| t.len() == 19 && t.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|t| t.parse::<i64>().ok())
            .and_then(|inverted| Ticks::new(Ticks::MAX.0 - inverted))
            .ok_or_else(|| Error::argument("Inverted ticks are 19 digits, up to 3155378975999999999"))
    }
}

/// Returns the Timestamp that follows `old` when the clock shows `clock`, both in the same unit: the later of the clock
/// and the next unit after `old`, so that a Timestamp, and with it the ETag, never repeats or goes back.
pub fn next_timestamp(old: i64, clock: i64) -> i64 {
    clock.max(old.saturating_add(1))
}

impl fmt::Display for Ticks {
    /// `YYYY-MM-DDThh:mm:ss[.f]Z`, the fraction without trailing zeros (semantics 1.6).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(28);
        self.write(&mut text, ":");
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// Returns the last two digits of a number that is not negative.
fn two_digits(number: i64) -> [u8; 2] {
    [digit(number / 10), digit(number)]
}

/// Returns the last digit of a number that is not negative.
fn digit(number: i64) -> u8 {
    b'0' + u8::try_from(number % 10).unwrap_or_default()
}

struct Parts {
    year: i32,
    month: u8,
    day: u8,
    hour: i64,
    minute: i64,
    second: i64,
    fraction: i64,
}

struct Scan<'a>(&'a [u8]);

impl Scan<'_> {
    fn byte(&mut self, expected: u8) -> Option<()> {
        let (&first, rest) = self.0.split_first()?;
        (first == expected).then(|| self.0 = rest)
    }

    fn digit(&mut self) -> Option<i64> {
        let (&first, rest) = self.0.split_first()?;
        first.is_ascii_digit().then(|| {
            self.0 = rest;
            i64::from(first - b'0')
        })
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        (0..count).try_fold(0, |n, _| Some(n * 10 + self.digit()?))
    }

    /// One or more digits after the decimal point, in ticks.
    fn fraction(&mut self) -> Option<i64> {
        let mut ticks = 0;
        let mut unit = PER_SECOND / 10;
        let mut digit = Some(self.digit()?);
        while let Some(d) = digit {
            ticks += d * unit;
            unit /= 10;
            digit = self.digit();
        }
        Some(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(text: &str) -> Option<String> {
        Ticks::parse_datetime(text).ok().map(|ticks| ticks.to_string())
    }

    #[test]
    fn reads_every_documented_form_and_prints_one() {
        for (text, printed) in [
            ("2020-01-01T01:02:00.0000000Z", "2020-01-01T01:02:00Z"),
            ("2013-08-22T01:12:06.2608595Z", "2013-08-22T01:12:06.2608595Z"),
            ("2008-07-10T00:00:00", "2008-07-10T00:00:00Z"),
            ("2008-07-10T02:30:00+02:30", "2008-07-10T00:00:00Z"),
            ("2008-07-09T22:00:00.5-02:00", "2008-07-10T00:00:00.5Z"),
            ("2008-07-10T00:00:00.12345678Z", "2008-07-10T00:00:00.1234567Z"),
            ("2008-07-10T10:20Z", "2008-07-10T10:20:00Z"),
            ("2008-07-10", "2008-07-10T00:00:00Z"),
            ("1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"),
            ("2000-02-29T00:00:00.0000010Z", "2000-02-29T00:00:00.000001Z"),
        ] {
            assert_eq!(round_trip(text).as_deref(), Some(printed), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_datetime() {
        for text in [
            "",
            "x",
            "2008",
            "2008-7-10",
            "2008-13-10",
            "2008-02-30",
            "1900-02-29",
            "2008-07-10T",
            "2008-07-10T24:00:00",
            "2008-07-10T10:60",
            "2008-07-10T10:10:60Z",
            "2008-07-10T10:10:10.Z",
            "2008-07-10T10:10:10z",
            "2008-07-10 10:10:10",
            "2008-07-10T10:10:10+0200",
            "2008-07-10T10:10:10ZZ",
            "9999-12-31T23:59:59-00:01",
            "0000-01-01",
        ] {
            assert_eq!(Ticks::parse_datetime(text), Err(ParseError::Syntax), "{text}");
        }
    }

    #[test]
    fn a_datetime_before_1601_is_out_of_range_in_the_services_words() {
        for (text, quoted) in [
            ("0001-01-01T00:00:00Z", "01/01/0001 00:00:00"),
            ("1600-12-31T23:59:59.9999999Z", "12/31/1600 23:59:59"),
        ] {
            assert_eq!(
                Ticks::parse_datetime(text),
                Err(ParseError::OutOfRange(quoted.to_owned()))
            );
        }
    }

    #[test]
    fn ticks_are_those_of_dotnet() {
        // DateTime(2000, 1, 1).Ticks and DateTime.MaxValue.Ticks
        assert_eq!(
            Ticks::parse("2000-01-01").map(Ticks::get),
            Some(630_822_816_000_000_000)
        );
        assert_eq!(Ticks::parse("9999-12-31T23:59:59.9999999Z"), Some(Ticks::MAX));
        assert_eq!(Ticks::parse("0001-01-01"), Some(Ticks::ZERO));
        assert_eq!(Ticks::parse("2000-01-01").map(Ticks::to_postgres_micros), Some(0));
        assert_eq!(
            Ticks::from_postgres_micros(-1).map(|t| t.to_string()),
            Some("1999-12-31T23:59:59.999999Z".to_owned())
        );
        assert_eq!(Ticks::from_postgres_micros(i64::MAX), None);
        assert_eq!(Ticks::from_postgres_micros(i64::MIN), None);
    }

    #[test]
    fn inverted_ticks_sort_newest_first_and_read_back() {
        let (old, new) = (Ticks::parse("2014-07-31"), Ticks::parse("2026-07-31"));
        let (old, new) = (old.unwrap(), new.unwrap());
        assert!(new.inverted() < old.inverted());
        assert_eq!(new.inverted().len(), 19);
        assert_eq!(Ticks::from_inverted(&new.inverted()), Ok(new));
        assert_eq!(Ticks::MAX.inverted(), "0000000000000000000");
        for text in [
            "",
            "1",
            "000000000000000000x",
            "9999999999999999999",
            "-000000000000000001",
        ] {
            assert!(Ticks::from_inverted(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_next_timestamp_is_the_clock_unless_it_stands_still_or_goes_back() {
        assert_eq!(next_timestamp(10, 20), 20);
        assert_eq!(next_timestamp(20, 20), 21);
        assert_eq!(next_timestamp(30, 20), 31);
        assert_eq!(next_timestamp(i64::MAX, 20), i64::MAX);
    }

    proptest! {
        #[test]
        fn every_time_prints_and_reads_back(ticks in 0..=Ticks::MAX.get()) {
            let ticks = Ticks::new(ticks).unwrap();
            prop_assert_eq!(Ticks::parse(&ticks.to_string()), Some(ticks));
        }

        #[test]
        fn microseconds_round_trip(micros in -63_000_000_000_000_000i64..252_000_000_000_000_000) {
            let ticks = Ticks::from_postgres_micros(micros).unwrap();
            prop_assert_eq!(ticks.to_postgres_micros(), micros);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-0-9TZ:.+]{0,40}|.{0,20}") {
            let _ = Ticks::parse_datetime(&text);
        }
    }
}
