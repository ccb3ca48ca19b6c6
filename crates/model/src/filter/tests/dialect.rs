//! The extended dialect (semantics 6.7): its errors, its printed form and its plans.

use super::{Dialect, Filter, Plan, Sample, error, passes};
use crate::filter::hint_for;
use crate::json::parse_properties;
use crate::{Code, Error, limits};

fn parse(text: &str) -> Filter {
    Filter::parse(text, None, Dialect::Extended).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> Error {
    Filter::parse(text, None, Dialect::Extended).expect_err(text)
}

/// Filters of the extended dialect, and how they print.
const FILTERS: [(&str, &str); 21] = [
    ("startswith(p, 'ab')", "p ge 'ab' and p lt 'ac'"),
    ("startswith(p, '')", "p ge ''"),
    ("startswith(p, '\u{ffff}')", "p ge '\u{ffff}'"),
    ("startswith(p, 'a\u{ffff}')", "p ge 'a\u{ffff}' and p lt 'b'"),
    ("startswith(p, '\u{10ffff}')", "p ge '\u{10ffff}' and p lt '\u{e000}'"),
    ("startswith(p, '\u{d7ff}')", "p ge '\u{d7ff}' and p lt '\u{10000}'"),
    (
        "startswith(RowKey, '\u{d7ff}')",
        "RowKey ge '\u{d7ff}' and RowKey lt '\u{e000}'",
    ),
    (
        "startswith(RowKey, '\u{ffff}')",
        "RowKey ge '\u{ffff}' and RowKey lt '\u{10000}'",
    ),
    ("startswith(RowKey, '\u{10ffff}')", "RowKey ge '\u{10ffff}'"),
    ("not startswith(p, 'a')", "not (p ge 'a' and p lt 'b')"),
    ("a and startswith(p, 'a') and b", "a and p ge 'a' and p lt 'b' and b"),
    ("endswith ( p , 'o''clock' )", "endswith(p, 'o''clock')"),
    ("substringof('x', p)", "contains(p, 'x')"),
    ("p in ('a')", "p eq 'a'"),
    ("p in ('a', 5, 5L) and a", "(p eq 'a' or p eq 5 or p eq 5L) and a"),
    ("a or p in (1,2) or b", "a or p eq 1 or p eq 2 or b"),
    ("not p in (1, null)", "not (p eq 1 or not (p le true))"),
    ("p ne null", "p le true"),
    ("not (null eq p)", "p le true"),
    ("not (not p eq null)", "not (p le true)"),
    // A name in the service's dialect still is one.
    (
        "in eq 1 and contains or startswith in ('a')",
        "in eq 1 and contains or startswith eq 'a'",
    ),
];

#[test]
fn it_is_written_in_the_services_terms() {
    for (text, printed) in FILTERS {
        let filter = parse(text);
        assert_eq!(filter.to_string(), printed, "{text}");
        assert_eq!(parse(printed), filter);
        let in_service = Filter::parse(text, None, Dialect::Service).expect_err(text);
        let hint = in_service.hint().unwrap_or_default();
        assert!(
            hint.contains("SET table_service.filter_dialect = 'extended'"),
            "{text}: {hint}"
        );
        let of_gateway = hint_for(&hint, Some("The setting"));
        assert!(
            of_gateway.contains("The setting lets a filter say") && !of_gateway.contains("SQL"),
            "{of_gateway}"
        );
        let of_none = hint_for(&hint, None);
        assert!(of_none.ends_with('.') && hint.starts_with(&of_none), "{of_none}");
    }
}

#[test]
fn the_service_answers_as_it_does() {
    for (text, code, message) in [
        ("startswith(p, 'a')", Code::NotImplemented, "not implemented"),
        ("a eq contains(p, 'a')", Code::NotImplemented, "not implemented"),
        (
            "p in ('a')",
            Code::InvalidInput,
            "Syntax error at position 4 in 'p in ('a')'.",
        ),
        (
            "p eq null",
            Code::InvalidInput,
            "One of the request inputs is not valid.",
        ),
    ] {
        let error = error(text);
        assert_eq!(error.code(), code, "{text}");
        assert!(error.report().contains(message), "{text}: {}", error.report());
    }
}

#[test]
fn what_it_does_not_have_is_refused() {
    for (text, code, hint) in [
        (
            "length(p) eq 5",
            Code::NotImplemented,
            "The function length is not supported",
        ),
        (
            "startswith(tolower(p), 'a')",
            Code::NotImplemented,
            "The function tolower is not supported",
        ),
        (
            "contains(p, 'a') eq true",
            Code::NotImplemented,
            "A comparison with a predicate",
        ),
        (
            "p eq contains(p, 'a')",
            Code::NotImplemented,
            "A comparison with a predicate",
        ),
        (
            "p in (contains(p, 'a'))",
            Code::NotImplemented,
            "A comparison with a predicate",
        ),
        ("p in (q)", Code::NotImplemented, "a property with a property"),
        ("5 in (5)", Code::NotImplemented, "a constant with a constant"),
        ("null eq null", Code::InvalidInput, "null is no condition"),
        ("null in (5)", Code::InvalidInput, "null is no condition"),
        ("null", Code::InvalidInput, "null is no condition"),
        ("p lt null", Code::InvalidInput, ""),
        ("contains('a', p)", Code::InvalidInput, "as in contains(Name, 'x')"),
        (
            "substringof(p, 'a')",
            Code::InvalidInput,
            "as in substringof('x', Name)",
        ),
        ("startswith(p, 5)", Code::InvalidInput, "as in startswith(Name, 'x')"),
        ("startswith(p, null)", Code::InvalidInput, "as in startswith(Name, 'x')"),
        ("contains(p)", Code::InvalidInput, "two arguments"),
        ("contains(p, 'a', 'b')", Code::InvalidInput, "two arguments"),
        ("contains()", Code::InvalidInput, "two arguments"),
        ("contains(contains(p, 'a'), 'a')", Code::InvalidInput, "two arguments"),
        ("p in ()", Code::InvalidInput, "a list of literals"),
        ("p in 'a'", Code::InvalidInput, "a list of literals"),
        ("p in ('a',)", Code::InvalidInput, "a list of literals"),
        ("p in ('a' 'b')", Code::InvalidInput, "a list of literals"),
        ("p in ('a'", Code::InvalidInput, "a list of literals"),
        ("p in ('a') eq true", Code::InvalidInput, "and, or or the end"),
        ("contains(p, 'a') q", Code::InvalidInput, "and, or or the end"),
    ] {
        let error = refused(text);
        assert_eq!(error.code(), code, "{text}: {}", error.report());
        assert!(
            error.hint().unwrap_or_default().contains(hint),
            "{text}: {:?}",
            error.hint()
        );
    }
}

#[test]
fn parameters_are_texts_and_members() {
    let parameters = parse_properties(r#"{"text": "it's", "n": 5}"#).unwrap();
    let parse = |text: &str| Filter::parse(text, Some(parameters.as_properties()), Dialect::Extended);
    let printed = parse("contains(p, @text) or p in (@n, @text)").unwrap().to_string();
    assert_eq!(printed, "contains(p, 'it''s') or p eq 5 or p eq 'it''s'");
    assert_eq!(parse("contains(p, @n)").unwrap_err().code(), Code::InvalidInput);
}

#[test]
fn a_list_does_not_multiply_what_stands_before_it() {
    let members = vec!["1"; 1000].join(",");
    let most = limits::FILTER_COPIED_BYTES / 1000;
    for (length, is_read) in [(most, true), (most + 1, false)] {
        let read = Filter::parse(
            &format!("{} in ({members})", "p".repeat(length)),
            None,
            Dialect::Extended,
        );
        assert_eq!(read.is_ok(), is_read);
        assert_eq!(read.err().map(|error| error.sqlstate()), (!is_read).then_some("54000"));
    }
    let wide = vec!["1"; 100_000].join(",");
    assert!(passes(
        &parse(&format!("p in ({wide})")),
        &Sample::new("", "", r#"{"p": 1}"#)
    ));
}

#[test]
fn keys_are_ranges() {
    for (text, ranges, residual) in [
        (
            "PartitionKey eq 'p' and startswith(RowKey, 'ab')",
            &["[('p','ab'), ('p','ac'))"][..],
            "",
        ),
        ("startswith(PartitionKey, 'ab')", &["[('ab',-∞), ('ac',-∞))"], ""),
        (
            "PartitionKey in ('a', 'b') and RowKey in ('1', '2')",
            &[
                "[('a','1'), ('a','1')]",
                "[('a','2'), ('a','2')]",
                "[('b','1'), ('b','1')]",
                "[('b','2'), ('b','2')]",
            ],
            "",
        ),
        ("PartitionKey eq null or startswith(Timestamp, '2')", &[], ""),
        (
            "PartitionKey eq 'p' and contains(RowKey, 'x')",
            &["[('p',-∞), ('p',+∞)]"],
            "contains(RowKey, 'x')",
        ),
        ("RowKey ne null", &["(-∞, +∞)"], ""),
        ("endswith(Timestamp, 'Z')", &[], ""),
    ] {
        let plan = Plan::new(parse(text));
        let found: Vec<_> = plan.ranges.iter().map(ToString::to_string).collect();
        assert_eq!(found, ranges, "{text}");
        assert_eq!(
            plan.residual.map_or(String::new(), |residual| residual.to_string()),
            residual,
            "{text}"
        );
    }
}
