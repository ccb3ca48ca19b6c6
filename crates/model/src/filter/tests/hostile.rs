//! Hostile text: a result or an error of the catalog, on the stack that PostgreSQL guarantees and in bounded work.

use super::{Sample, parse};
use crate::filter::Plan;
use crate::{Code, Dialect, Error, Filter, Predicate};

/// PostgreSQL's default `max_stack_depth`.
const STACK: usize = 2 * 1024 * 1024;

/// Does all that can be done with a text, on a quarter of the stack. Work that is quadratic in the text would take
/// minutes here; `counted_work_is_linear` asserts the same by counting.
fn survive(name: &'static str, text: String) -> Result<Plan, Error> {
    std::thread::Builder::new()
        .stack_size(STACK / 4)
        .spawn(move || {
            let filter = Filter::parse(&text, None, Dialect::Service)?;
            let printed = filter.to_string();
            if printed.len() <= crate::limits::FILTER_BYTES {
                assert_eq!(
                    Filter::parse(&printed, None, Dialect::Service).as_ref(),
                    Ok(&filter),
                    "{name}"
                );
            }
            let predicate = Predicate::new(&filter);
            let read = Predicate::from_bytes(&predicate.to_bytes()).unwrap();
            assert!(read == predicate, "{name}");
            let plan = Plan::new(filter.clone());
            let residual = plan.residual.as_ref().map(Predicate::new);
            for sample in [
                Sample::new("", "", "{}"),
                Sample::new("p7", "r7", r#"{"a": 1, "b": true}"#),
            ] {
                let entity = sample.entity();
                let expected = filter.matches(&entity);
                assert_eq!(predicate.matches(&entity), expected, "{name}");
                let inside = plan
                    .ranges
                    .iter()
                    .any(|range| range.contains(&sample.partition_key, &sample.row_key));
                let planned = inside && residual.as_ref().is_none_or(|residual| residual.matches(&entity));
                assert_eq!(planned, expected, "{name}");
            }
            drop(filter.clone());
            Ok(plan)
        })
        .unwrap()
        .join()
        .unwrap()
}

fn is_limit(result: Result<Plan, Error>) {
    let error = result.unwrap_err();
    assert_eq!(
        (error.code(), error.sqlstate()),
        (Code::InvalidInput, "54000"),
        "{error:?}"
    );
    assert!(error.hint().is_some());
}

#[test]
fn a_hundred_thousand_parentheses() {
    let n = 100_000;
    let nested = |open: &str, inner: &str, close: &str| format!("{}{inner}{}", open.repeat(n), close.repeat(n));
    assert!(survive("parentheses", nested("(", "a eq 1", ")")).is_ok());
    assert!(survive("negated parentheses", nested("not (", "a eq 1", ")")).is_ok());
    assert!(survive("negated, spaced", nested("not ( ", "a eq 1 and b", " ) ")).is_ok());
    assert!(survive("left or", nested("(", "a eq 1", " or b)")).is_ok());
    assert!(survive("right or", nested("a or (", "a eq 1", ")")).is_ok());
    assert!(survive("left and", nested("(", "a eq 1", " and b)")).is_ok());
    assert!(survive("right and", nested("a and (", "a eq 1", ")")).is_ok());
    is_limit(survive(
        "alternating",
        "a and (b or (".repeat(n / 2) + "a" + &")".repeat(n),
    ));
    is_limit(survive(
        "alternating not",
        "not (a and ".repeat(n) + "a" + &")".repeat(n),
    ));
    is_limit(survive("one more", format!("({})", nested("(", "a eq 1", ")"))));
    assert!(survive("never closed", "(".repeat(n)).is_err());
    is_limit(survive(
        "never closed, two megabytes",
        "(".repeat(crate::limits::FILTER_BYTES),
    ));
    assert!(survive("never opened", "a".to_owned() + &")".repeat(n)).is_err());
}

#[test]
fn the_deepest_filter_that_is_accepted() {
    let depth = crate::limits::FILTER_DEPTH;
    // Two levels each, and one for the innermost `or`.
    let levels = |n: usize| {
        (0..n).fold("a".to_owned(), |inner, i| {
            format!("p{i} or PartitionKey eq 'p{i}' and (b or {inner})")
        })
    };
    assert!(survive("deepest", levels((depth - 1) / 2)).is_ok());
    is_limit(survive("deeper", levels(depth / 2)));
    let nots = (0..depth / 2).fold("a".to_owned(), |inner, i| {
        format!("not (b and RowKey ne 'p{i}' and {inner})")
    });
    assert!(survive("negations", nots).is_ok());
}

#[test]
fn a_hundred_thousand_nots() {
    assert!(survive("not not", "not ".repeat(100_000) + "a eq 1").is_ok());
    assert_eq!(parse(&("not ".repeat(100_001) + "a")), parse("not a"));
    assert!(survive("only not", "not ".repeat(100_000)).is_err());
}

#[test]
fn twenty_thousand_ors() {
    let list = |term: &dyn Fn(usize) -> String, joint: &str| (0..20_000).map(term).collect::<Vec<_>>().join(joint);
    let points = list(&|i| format!("(PartitionKey eq 'p{i}' and RowKey eq 'r{i}')"), " or ");
    let plan = survive("points", points.clone()).unwrap();
    assert_eq!((plan.ranges.len(), plan.residual), (20_000, None));
    let plan = survive("points and a property", format!("({points}) and a eq 1")).unwrap();
    assert_eq!(plan.residual.unwrap().to_string(), "a eq 1");
    assert_eq!(plan.ranges.len(), 20_000);
    let rows = list(&|i| format!("PartitionKey eq 'p' and RowKey eq 'r{i}'"), " or ");
    assert_eq!(survive("rows of a partition", rows).unwrap().ranges.len(), 20_000);
    let each = list(
        &|i| format!("PartitionKey eq 'p{i}' and RowKey eq 'r{i}' and a eq {i}"),
        " or ",
    );
    assert_eq!(
        survive("each with its own property", each).unwrap().ranges.len(),
        20_000
    );
    let same = list(
        &|i| format!("PartitionKey eq 'p' and RowKey eq 'r{i}' and a eq {i}"),
        " or ",
    );
    assert_eq!(survive("each in one partition", same).unwrap().ranges.len(), 20_000);
    let properties = list(&|i| format!("a eq {i}"), " or ");
    assert!(survive("properties", properties.clone()).is_ok());
    assert!(survive("points and properties", format!("({points}) and ({properties})")).is_ok());
    assert!(survive("points or properties", format!("({points}) or ({properties})")).is_ok());
    let not = list(&|i| format!("PartitionKey ne 'p{i}'"), " and ");
    assert_eq!(survive("not these", not.clone()).unwrap().ranges.len(), 20_001);
    assert_eq!(
        survive("not these, and a property", format!("{not} and a"))
            .unwrap()
            .ranges
            .len(),
        20_001
    );
    let either = list(
        &|i| format!("(PartitionKey lt 'p{i}' and a eq {i} or PartitionKey gt 'q{i}')"),
        " and ",
    );
    assert!(survive("sides", either).is_ok());
    let outside = list(
        &|i| format!("(PartitionKey lt 'p{i}' and a eq {i} or PartitionKey gt 'p{i}' and b)"),
        " and ",
    );
    assert!(survive("outside", outside).is_ok());
    let squares = list(&|i| format!("(PartitionKey ge 'p{i}' and RowKey ge 'r{i}')"), " or ");
    assert!(survive("quadrants", squares).is_ok());
    let crosses = list(&|i| format!("(PartitionKey eq 'p{i}' or RowKey eq 'r{i}')"), " and ");
    assert!(survive("crosses", crosses).is_ok());
    let crosses = list(
        &|i| format!("(PartitionKey ne 'p{i}' or RowKey ne 'r{i}' or a)"),
        " and ",
    );
    assert!(survive("all but points", crosses).is_ok());
}

/// A plan within this many steps for each term is as fine as one within any number of steps.
const STEPS_PER_TERM: usize = 100;

#[test]
fn counted_work_is_linear() {
    let count = 5_000;
    let list = |term: &dyn Fn(usize) -> String, joint: &str| (0..count).map(term).collect::<Vec<_>>().join(joint);
    let points = list(&|i| format!("(PartitionKey eq 'p{i}' and RowKey eq 'r{i}')"), " or ");
    let others = list(&|i| format!("PartitionKey ne 'p{i}'"), " and ");
    let each = list(
        &|i| format!("PartitionKey eq 'p' and RowKey eq 'r{i}' and a eq {i}"),
        " or ",
    );
    for text in [&format!("({points}) and a"), &others, &each] {
        let filter = Filter::parse(text, None, Dialect::Service).unwrap();
        let cells = crate::limits::FILTER_RANGES;
        let plan = Plan::within(&filter, STEPS_PER_TERM * count, cells);
        assert_eq!(plan, Plan::within(&filter, usize::MAX, cells), "{}", &text[..40]);
    }
}

/// Every term must be compared with every partition to see that it can be left out. The steps end before that.
#[test]
fn a_residual_is_simplified_in_bounded_work() {
    let count = 5_000;
    let list = |term: &dyn Fn(usize) -> String| (0..count).map(term).collect::<Vec<_>>().join(" or ");
    let partitions = list(&|i| format!("PartitionKey eq 'p{i}'"));
    let terms = list(&|i| format!("RowKey ne 'r' and a eq {i}"));
    let filter = Filter::parse(
        &format!("({partitions}) and RowKey eq 'r' and ({terms} or b)"),
        None,
        Dialect::Service,
    )
    .unwrap();
    let cells = crate::limits::FILTER_RANGES;
    let terms_of = |plan: &Plan| plan.residual.as_ref().unwrap().to_string().matches("a eq").count();

    let bounded = Plan::within(&filter, STEPS_PER_TERM * count, cells);
    assert_eq!(bounded.ranges.len(), count);
    assert!(
        terms_of(&bounded) > count / 2,
        "most terms are tested although they cannot hold"
    );
    let unbounded = Plan::within(&filter, usize::MAX, cells);
    assert_eq!(unbounded.residual.unwrap().to_string(), "b");
    assert_eq!(unbounded.ranges, bounded.ranges);
}

/// The filter has a long PartitionKey once. The bounds of every range have it again.
#[test]
fn ranges_do_not_multiply_a_long_key() {
    // Two bounds of a range have 2 × (2,000 + 4) bytes, so about 4,185 ranges are within the limit.
    for (length, count, fits) in [
        (10, 50_000, true),
        (2_000, 4_000, true),
        (2_000, 4_500, false),
        (20_000, 50_000, false),
        (1_000_000, 50_000, false),
    ] {
        let rows = (0..count)
            .map(|i| format!("RowKey eq '{i}'"))
            .collect::<Vec<_>>()
            .join(" or ");
        let text = format!("PartitionKey eq '{}' and ({rows})", "x".repeat(length));
        let plan = survive("rows of a long partition", text).unwrap();
        let bytes: usize = plan
            .ranges
            .iter()
            .flat_map(|range| [&range.lower, &range.upper])
            .flatten()
            .map(|bound| bound.partition_key.len() + bound.row_key.as_ref().map_or(0, String::len))
            .sum();
        assert!(bytes <= crate::limits::RANGE_BYTES, "{length}, {count}: {bytes}");
        assert_eq!(plan.ranges.len() == count, fits, "{length}, {count}");
    }
}

/// A parameter's name is short and its value may be long.
#[test]
fn parameters_do_not_multiply_their_values() {
    let bag = crate::json::parse_properties(&format!(r#"{{"p": "{}", "q": 1}}"#, "x".repeat(32_000))).unwrap();
    let parse = |name: &str, count: usize| {
        let text = vec![format!("a eq @{name}"); count].join(" or ");
        Filter::parse(&text, Some(bag.as_properties()), Dialect::Service)
            .err()
            .map(|error| error.sqlstate())
    };
    let most = crate::limits::FILTER_COPIED_BYTES / 32_000;
    assert_eq!(parse("p", most), None);
    assert_eq!(parse("p", most + 1), Some("54000"));
    assert_eq!(parse("q", 100_000), None);
}

#[test]
fn deep_and_wide() {
    let points = (0..10_000)
        .map(|i| format!("PartitionKey eq 'p{i}' and RowKey ne 'r{i}'"))
        .collect::<Vec<_>>()
        .join(" or ");
    let deep = (0..100).fold(points, |inner, i| {
        format!("(({inner}) and (a or RowKey ne 'x{i}') or b and PartitionKey eq 'y{i}')")
    });
    assert!(survive("deep and wide", deep).is_ok());
}

#[test]
fn the_longest_filters() {
    let limit = crate::limits::FILTER_BYTES;
    let fill = |unit: &str, end: &str| unit.repeat((limit - end.len()) / unit.len()) + end;
    assert!(survive("short or", fill("a or ", "a")).is_ok());
    assert!(survive("short and", fill("a and ", "a")).is_ok());
    assert!(survive("many points", fill("PartitionKey eq 'p' and RowKey eq 'r' or ", "a")).is_ok());
    let distinct: String = (0..).map(|i| format!("RowKey eq '{i}' or ")).take(95_000).collect();
    assert!(survive("many rows", distinct[..].to_owned() + "PartitionKey eq 'p'").is_ok());
    let partitions: String = (0..)
        .map(|i| format!("PartitionKey eq '{i}' or "))
        .take(70_000)
        .collect();
    assert!(survive("many partitions", partitions + "PartitionKey eq 'p'").is_ok());
    assert!(survive("spaces", " ".repeat(limit)).is_ok());
    assert!(survive("a long name", "a".repeat(limit)).is_ok());
    is_limit(survive("too long", " ".repeat(limit + 1)));
}

#[test]
fn megabyte_literals() {
    let mega = 1_000_000;
    assert!(survive("String", format!("a eq '{}'", "x".repeat(mega))).is_ok());
    assert!(survive("quotes", format!("a eq '{}'", "''".repeat(mega))).is_ok());
    assert!(survive("key", format!("PartitionKey eq '{}'", "日".repeat(mega / 3))).is_ok());
    assert!(survive("Binary", format!("a eq X'{}'", "0f".repeat(mega))).is_ok());
    for (name, text) in [
        ("unterminated", format!("a eq '{}", "x".repeat(mega))),
        ("odd hex", format!("a eq X'{}'", "0".repeat(mega + 1))),
        ("Int", format!("a eq {}", "9".repeat(mega))),
        ("Double", format!("a eq {}.5", "9".repeat(mega))),
        ("exponent", format!("a eq 1e{}", "9".repeat(mega))),
        ("DateTime", format!("a eq datetime'{}'", "2".repeat(mega))),
        ("Guid", format!("a eq guid'{}'", "2".repeat(mega))),
        ("parameter", format!("a eq @{}", "p".repeat(mega))),
        ("function", format!("{}(a)", "p".repeat(mega))),
        ("symbols", "#".repeat(mega)),
    ] {
        let error = survive(name, text).unwrap_err();
        assert!(
            matches!(error.code(), Code::InvalidInput | Code::NotImplemented),
            "{name}"
        );
        assert!(error.report().len() < 20_000, "{name}");
        assert!(error.hint().is_none_or(|hint| hint.len() < 1000), "{name}");
    }
    assert!(survive("a long fraction", format!("a eq 0.{}", "1".repeat(mega))).is_ok());
}

#[test]
fn a_quoted_filter_is_shortened_only_when_it_is_very_long() {
    let text = format!("a eq '{}' b", "x".repeat(4000));
    assert_eq!(
        super::invalid_input(&text),
        format!("Syntax error at position 4009 in '{text}'.")
    );
    let text = format!("a eq '{}' b", "x".repeat(5000));
    let message = super::invalid_input(&text);
    assert!(message.starts_with("Syntax error at position 5009 in 'a eq 'xxx") && message.ends_with("...'."));
}
