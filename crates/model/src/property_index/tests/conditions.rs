//! The conditions of filters.

use super::{Condition, condition, entry_of, meets, parse};
use crate::filter::Plan;
use crate::property_index::Span;
use crate::{Filter, Value, limits};

/// The condition with the indexes A and B, as text.
fn explain(filter: &str) -> String {
    condition(&parse(filter), &["A", "B"]).map_or_else(|| "-".to_owned(), |condition| text(&condition))
}

fn text(condition: &Condition) -> String {
    let list = |terms: &[Condition]| terms.iter().map(text).collect::<Vec<_>>().join(", ");
    match condition {
        Condition::Spans { property, spans } => {
            let spans: Vec<_> = spans.iter().map(span_text).collect();
            format!("{} in {}", ["A", "B"][*property], spans.join(" "))
        }
        Condition::All(terms) => format!("all({})", list(terms)),
        Condition::Any(terms) => format!("any({})", list(terms)),
    }
}

fn span_text(span: &Span) -> String {
    let bytes = |bytes: &[u8]| bytes.escape_ascii().to_string();
    if span.one_value() {
        format!("={}", bytes(&span.lower))
    } else {
        format!("{}..{}", bytes(&span.lower), bytes(&span.upper))
    }
}

fn only_span(filter: &str) -> Span {
    match condition(&parse(filter), &["A"]) {
        Some(Condition::Spans { spans, .. }) if spans.len() == 1 => spans[0].clone(),
        other => panic!("{filter}: {other:?}"),
    }
}

const FIVE: &str = r"\x02\xc0\x14\x00\x00\x00\x00\x00\x00";

#[test]
fn an_equality_is_one_value() {
    assert_eq!(explain("A eq 'x'"), r"A in =\x06x\x00");
    assert_eq!(explain("A eq true"), r"A in =\x01\x01");
    assert_eq!(explain("A"), r"A in =\x01\x01");
    assert_eq!(explain("A eq X'00FF'"), r"A in =\x05\x00\xff\xff\x00\x00");
    assert_eq!(explain("not (A ne 'x') and A eq 'x'"), r"A in =\x06x\x00");
    assert_eq!(explain("A ge 'x' and A le 'x'"), r"A in =\x06x\x00");
    for literal in ["5", "5L", "5.0"] {
        assert_eq!(explain(&format!("A eq {literal}")), format!("A in ={FIVE}"));
    }
    // Also where others are rounded to the same double, or cut to the same text.
    assert!(only_span("A eq 9007199254740993").one_value());
    assert!(only_span(&format!("A eq '{}'", "a".repeat(600))).one_value());
}

#[test]
fn a_prefix_is_one_span_and_other_parts_are_all_texts() {
    assert_eq!(explain("startswith(A, 'Ab')"), explain("A ge 'Ab' and A lt 'Ac'"));
    for part in ["contains(A, 'b')", "endswith(A, 'b')"] {
        assert_eq!(explain(part), explain("A ge ''"));
        assert_eq!(explain(&format!("not {part}")), "-");
    }
    assert_eq!(explain("A ne null"), explain("A le true"));
    assert_eq!(explain("A eq null"), "-");
}

#[test]
fn a_range_with_both_ends_is_one_span() {
    assert_eq!(explain("A ge 'Ab' and A lt 'Ac'"), r"A in \x06Ab\x00..\x06Ac\x00");
    assert_eq!(explain("A gt 'Ab' and A le 'Ac'"), r"A in \x06Ab\x01..\x06Ac\x01");
    for (least, five) in [("-1", "5"), ("-1L", "5L"), ("-1.0", "5.0")] {
        assert_eq!(
            explain(&format!("A ge {least} and A lt {five}")),
            format!(r"A in \x02@\x0f\xff\xff\xff\xff\xff\xff..{FIVE}")
        );
    }
    assert_eq!(explain("A gt 'x'"), r"A in \x06x\x01..\x07");
    // NaN is not greater than anything.
    assert_eq!(
        explain("A gt 5.0"),
        r"A in \x02\xc0\x14\x00\x00\x00\x00\x00\x01..\x02\xff\xff\xff\xff\xff\xff\xff\xff"
    );
}

#[test]
fn values_of_other_types_are_less() {
    assert_eq!(explain("A lt 5"), format!(r"A in \x01..{FIVE} \x03..\x07"));
    // An Int32 is of another type than 5.0 whatever it is.
    assert_eq!(
        explain("A lt 5.0"),
        r"A in \x01..\x02\xff\xff\xff\xff\xff\xff\xff\xff \x03..\x07"
    );
    assert_eq!(explain("A ne 5.0"), r"A in \x01..\x07");
    assert_eq!(explain("A ne 'x'"), r"A in \x01..\x06x\x00 \x06x\x01..\x07");
    assert_eq!(explain("A ne NaN"), r"A in \x01..\x07");
    assert_eq!(explain("A eq NaN"), "any()");
    assert_eq!(explain("A gt guid'ffffffff-ffff-ffff-ffff-ffffffffffff'"), "A in ");
    assert_eq!(explain("A gt NaN or A eq 'x'"), r"A in =\x06x\x00");
}

/// Values that are cut or rounded to the bytes of the literal are on either side of it.
#[test]
fn values_with_the_bytes_of_the_literal_are_not_lost() {
    let reads = |filter: &str, value: Value<'_>| {
        let condition = condition(&parse(filter), &["A"]).unwrap();
        meets(&condition, &[Some(entry_of(value, "p", "r"))])
    };
    let cut = [7; limits::INDEXED_BINARY_BYTES];
    let longer = [7; limits::INDEXED_BINARY_BYTES + 1];
    let hex = "07".repeat(cut.len());
    assert!(reads(&format!("A gt X'{hex}'"), Value::Binary(&longer)));
    assert!(reads(&format!("A lt X'{hex}07'"), Value::Binary(&cut)));
    let long = "a".repeat(limits::INDEXED_STRING_BYTES);
    assert!(reads(&format!("A gt '{long}'"), Value::String(&format!("{long}a"))));
    assert!(reads(&format!("A lt '{long}a'"), Value::String(&long)));
    assert!(reads("A gt 9007199254740992L", Value::Int64(9_007_199_254_740_993)));
    assert!(reads("A lt 9007199254740993L", Value::Int64(9_007_199_254_740_992)));
}

#[test]
fn an_entity_without_the_property_is_not_lost() {
    assert_eq!(explain("not (A eq 'x')"), "-");
    assert_eq!(explain("not A"), "-");
    assert_eq!(explain("not (A eq 'x') and A ge 'x' and A le 'x'"), "any()");
    assert_eq!(explain("not (A ne 'x') and B eq 'y'"), r"B in =\x06y\x00");
    assert_eq!(explain("A eq 'x' or not B"), "-");
}

#[test]
fn several_properties_combine() {
    assert_eq!(
        explain("A eq 'x' and B eq 'y'"),
        r"all(A in =\x06x\x00, B in =\x06y\x00)"
    );
    assert_eq!(
        explain("A eq 'x' or B eq 'y'"),
        r"any(A in =\x06x\x00, B in =\x06y\x00)"
    );
    assert_eq!(explain("A eq 'x' and C eq 'y'"), r"A in =\x06x\x00");
    assert_eq!(explain("A eq 'x' or C eq 'y'"), "-");
    assert_eq!(
        explain("A eq 'x' or A eq 'v' or A eq 'w'"),
        r"A in =\x06v\x00 =\x06w\x00 =\x06x\x00"
    );
    assert_eq!(
        explain("(A eq 'x' and B eq 'y') or (A eq 'v' and B eq 'w')"),
        r"all(A in =\x06v\x00 =\x06x\x00, B in =\x06w\x00 =\x06y\x00)"
    );
    assert_eq!(
        explain("(A eq 'x' and C eq 'y') or (A ge 'a' and A lt 'b' and B eq 'w')"),
        r"any(A in =\x06x\x00, all(A in \x06a\x00..\x06b\x00, B in =\x06w\x00))"
    );
    assert_eq!(
        explain("not (A ne 'x' or B ne 'y') and A eq 'x' and B eq 'y'"),
        r"all(A in =\x06x\x00, B in =\x06y\x00)"
    );
    assert_eq!(
        explain("A eq 'x' and (RowKey ge '5' or Timestamp gt datetime'2020-01-01')"),
        r"A in =\x06x\x00"
    );
    assert_eq!(explain("A eq 'x' and A eq 'y'"), "any()");
    assert_eq!(explain("false"), "any()");
    assert_eq!(explain("true"), "-");
}

#[test]
fn spans_of_one_value_shrink_to_keys() {
    let within = |filter: &str| {
        let filter = parse(filter);
        let plan = Plan::new(filter.clone());
        assert_eq!(plan.ranges.len(), 1, "{filter}");
        text(&condition(&filter, &["A"]).unwrap().within(&plan.ranges[0]))
    };
    let keys = |filter: &str| {
        let Condition::Spans { spans, .. } = condition(&parse(filter), &["A"]).unwrap() else {
            unreachable!()
        };
        let span = spans[0].within(&Plan::new(parse(filter)).ranges[0]).unwrap();
        assert!(span.one_value());
        format!("{} {}", span.lower.escape_ascii(), span.upper.escape_ascii())
    };
    assert_eq!(
        keys("A eq 'x' and PartitionKey eq 'p'"),
        r"\x06x\x00p\x00 \x06x\x00p\x01"
    );
    assert_eq!(
        keys("A eq 'x' and PartitionKey eq 'p' and RowKey gt 'a' and RowKey le 'b'"),
        r"\x06x\x00p\x00a\x00 \x06x\x00p\x00b\x00"
    );
    assert_eq!(
        keys("A eq 'x' and PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b'"),
        r"\x06x\x00p\x00a \x06x\x00p\x00b"
    );
    assert_eq!(keys("A eq 'x' and PartitionKey gt 'p'"), r"\x06x\x00p\x01 \x06x\x01");
    assert_eq!(keys("A eq 'x' and PartitionKey lt 'p'"), r"\x06x\x00 \x06x\x00p\x00");
    assert_eq!(
        within("A ge 'x' and A lt 'y' and PartitionKey eq 'p'"),
        r"A in \x06x\x00..\x06y\x00"
    );
    let first = Plan::new(parse("PartitionKey ge 'p'")).ranges[0].clone();
    let rest = only_span("A eq 'x'").within(&first).unwrap();
    assert_eq!(rest.lower.escape_ascii().to_string(), r"\x06x\x00p\x00");
    let range = Plan::new(parse("PartitionKey lt 'p'")).ranges[0].clone();
    assert_eq!(rest.within(&range), None);
}

#[test]
fn there_are_no_more_spans_than_the_limit() {
    for count in [limits::INDEX_SPANS, limits::INDEX_SPANS + 1, 20_000] {
        let list: Vec<_> = (0..count).map(|n| format!("A eq '{n:05}'")).collect();
        let filter = parse(&list.join(" or "));
        let Some(Condition::Spans { spans, .. }) = condition(&filter, &["A"]) else {
            panic!("no condition for {count} values");
        };
        assert!(spans.len() <= limits::INDEX_SPANS);
        assert_eq!(spans.iter().all(Span::one_value), count == limits::INDEX_SPANS);
        for n in 0..count {
            let entry = super::entry_of(crate::Value::String(&format!("{n:05}")), "p", "r");
            assert!(spans.iter().any(|span| span.lower <= entry && entry < span.upper));
        }
    }
    // Over two properties, a disjunction beyond the limit is given up.
    let list: Vec<_> = (0..300).map(|n| format!("A eq {n} or B eq {n}")).collect();
    assert_eq!(explain(&list.join(" or ")), "-");
}

/// Work is bounded: this ends at once.
#[test]
fn large_filters_take_little_work() {
    let ne: Vec<_> = (0..40_000).map(|n| format!("A ne {n}")).collect();
    assert!(condition(&parse(&ne.join(" and ")), &["A"]).is_some());
    let pairs: Vec<_> = (0..20_000).map(|n| format!("(A eq {n} or B eq {n})")).collect();
    assert!(condition(&parse(&pairs.join(" and ")), &["A", "B"]).is_some());
    let deep = (0..100).fold("A eq 1".to_owned(), |inner, n| {
        format!("(B eq {n} and ({inner} or B ne {n} or A eq {n}))")
    });
    condition(&parse(&deep), &["A", "B"]);
    assert_eq!(condition(&Filter::EVERYTHING, &["A"]), None);
}
