//! When two outputs are the same.
//!
//! They are compared exactly, with two exceptions. Spaces at the end of a line do not count. Times of the run itself
//! differ from run to run: an ETag, a timestamp, ticks or inverted ticks within a day of the clock equal any text of the
//! same form on the page. Such times may have different lengths, because their fractions have no zeros at the end. So
//! the widths of columns do not count in an output that has one.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use regex::Regex;
use similar::TextDiff;
use table_service_model::Ticks;

static TIMES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?P<date>\d{4}-\d\d-\d\d)(?P<between>[T ])(?P<hour>\d\d)(?P<colon>:|%3A)(?P<minute>\d\d)(?::|%3A)(?P<second>\d\d)(?:\.\d{1,7})?(?P<zone>Z|\+00)?|\b(?P<ticks>\d{18,19})\b",
    )
    .unwrap()
});

const TICKS_OF_1970: i64 = 621_355_968_000_000_000;
const TICKS_PER_SECOND: i64 = 10_000_000;
const DAY: i64 = 86_400;

/// A time in an output: its place, its form, and its value in seconds since 1970.
struct Time<'t> {
    text: &'t str,
    start: usize,
    form: String,
    second: i64,
}

fn times(output: &str) -> Vec<Time<'_>> {
    let time = |captures: regex::Captures<'_>| {
        let whole = captures.get(0)?;
        let part = |name| captures.name(name).map_or("", |part| part.as_str());
        let (form, ticks) = match part("ticks") {
            "" => {
                let (hour, minute, second) = (part("hour"), part("minute"), part("second"));
                let text = format!("{}T{hour}:{minute}:{second}Z", part("date"));
                let form = format!("{}{}{}", part("between"), part("colon"), part("zone"));
                (form, Ticks::parse_datetime(&text).ok()?.get())
            }
            digits if digits.len() == 18 => ("ticks".to_owned(), digits.parse().ok()?),
            digits => ("inverted".to_owned(), Ticks::from_inverted(digits).ok()?.get()),
        };
        Some((
            whole.start(),
            whole.end(),
            form,
            (ticks - TICKS_OF_1970) / TICKS_PER_SECOND,
        ))
    };
    let found = TIMES.captures_iter(output).filter_map(time);
    found
        .map(|(start, end, form, second)| Time {
            text: &output[start..end],
            start,
            form,
            second,
        })
        .collect()
}

/// Replaces the times of the run by those of the page. Also says whether there were any.
fn with_times_of(expected: &str, actual: &str, now: i64) -> (String, bool) {
    let (theirs, ours) = (times(expected), times(actual));
    let mut output = String::new();
    let (mut from, mut any) = (0, false);
    for (i, time) in ours.iter().enumerate() {
        output.push_str(&actual[from..time.start]);
        from = time.start + time.text.len();
        match theirs.get(i) {
            Some(their) if (time.second - now).abs() < DAY && their.form == time.form => {
                any = true;
                output.push_str(their.text);
            }
            _ => output.push_str(time.text),
        }
    }
    output.push_str(&actual[from..]);
    (output, any)
}

/// Every line without the spaces at its end.
pub fn tidy(output: &str) -> String {
    let mut tidy: String = output.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    tidy.truncate(tidy.trim_end().len());
    if !tidy.is_empty() {
        tidy.push('\n');
    }
    tidy
}

/// A line without the widths of its columns.
fn without_widths(line: &str) -> String {
    static RUNS: LazyLock<Regex> = LazyLock::new(|| Regex::new(" +|-{2,}").unwrap());
    let short = RUNS.replace_all(
        line.trim(),
        |run: &regex::Captures<'_>| {
            if run[0].starts_with(' ') { " " } else { "--" }
        },
    );
    short.into_owned()
}

/// How two outputs differ.
#[derive(Debug)]
pub struct Difference {
    /// The first line that differs, from 0.
    pub line: usize,
    /// `-` is before lines that only the page has, `+` before lines that only the run has.
    pub diff: String,
}

/// `None` if both are the same.
pub fn difference(expected: &str, actual: &str) -> Option<Difference> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    difference_at(expected, actual, i64::try_from(now).unwrap_or(i64::MAX))
}

fn difference_at(expected: &str, actual: &str, now: i64) -> Option<Difference> {
    let expected = tidy(expected);
    let (actual, any_time) = with_times_of(&expected, &tidy(actual), now);
    let form = |line: &str| {
        if any_time {
            without_widths(line)
        } else {
            line.to_owned()
        }
    };
    let theirs: Vec<_> = expected.lines().map(form).collect();
    let ours: Vec<_> = actual.lines().map(form).collect();
    (theirs != ours).then(|| Difference {
        line: theirs
            .iter()
            .zip(&ours)
            .take_while(|(theirs, ours)| theirs == ours)
            .count(),
        diff: TextDiff::from_lines(&expected, &actual)
            .unified_diff()
            .context_radius(3)
            .to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T12:00:00Z
    const NOW: i64 = 1_795_262_400;

    fn same(expected: &str, actual: &str) -> bool {
        difference_at(expected, actual, NOW).is_none()
    }

    #[test]
    fn outputs_are_compared_to_the_letter() {
        assert!(same(" a | b \n---+---\n 1 | 2\n", " a | b\n---+---\n 1 | 2\n\n"));
        assert!(!same(" a | b\n", " a |  b\n"));
        assert!(!same("1\n", "2\n"));
        assert!(!same("1\n2\n", "1\n"));
        assert!(!same("1\n", "1\n2\n"));
        assert!(!same("", "1\n"));
    }

    #[test]
    fn the_difference_shows_both_sides() {
        let difference = difference_at("a\nb\n", "a\nc\n", NOW).unwrap();
        assert_eq!(difference.line, 1);
        assert!(difference.diff.contains("-b\n+c\n"), "{}", difference.diff);
        assert_eq!(difference_at("a\n", "a\nb\n", NOW).unwrap().line, 1);
    }

    #[test]
    fn times_of_the_run_are_equal_in_form() {
        let etag = |time: &str| format!(" etag\n{}\n W/\"datetime'{time}'\"\n", "-".repeat(time.len() + 14));
        assert!(same(
            &etag("2020-01-01T00%3A00%3A00.12Z"),
            &etag("2026-11-21T11%3A59%3A59.123456Z")
        ));
        assert!(same("2020-01-01 00:00:00.1+00", "2026-11-21 11:00:00.123456+00"));
        assert!(same(
            "{\"Timestamp\":\"2020-01-01T00:00:00Z\"}",
            "{\"Timestamp\":\"2026-11-22T00:00:00.5Z\"}"
        ));
        assert!(same("637134336000000000", "639308880000000000"), "ticks");
        assert!(same("2518244639999999999", "2516070095999999999"), "inverted ticks");
    }

    #[test]
    fn form_and_place_of_times_count() {
        assert!(!same("2020-01-01T00:00:00Z", "2026-11-21 11:00:00+00"), "another form");
        assert!(!same("x", "2026-11-21 11:00:00+00"), "a time for something else");
        assert!(!same("2020-01-01 00:00:00+00", "x"));
        assert!(
            !same("a 2020-01-01 00:00:00+00", "b 2026-11-21 11:00:00+00"),
            "the rest"
        );
    }

    #[test]
    fn other_times_are_compared_to_the_letter() {
        assert!(!same("2014-07-31T18:00:00Z", "2014-07-31T19:00:00Z"));
        assert!(
            !same("2020-01-01 00:00:00+00", "2026-11-19 11:00:00+00"),
            "two days ago"
        );
        assert!(!same("635423616000000000", "635423616000000001"));
        assert!(!same("1234567890123456789", "1234567890123456780"));
    }
}
