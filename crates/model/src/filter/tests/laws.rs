//! The laws of every filter.

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use super::{Sample, passes, planned};
use crate::expiry::Alive;
use crate::filter::ast::Filter;
use crate::filter::{Column, Comparison, Expression, Literal, Operator, Plan, TextFunction, TextTest};
use crate::{Dialect, Expiry, Predicate, PropertiesBuilder, Ticks, Value, key};

/// Few texts, so that keys, values and literals are often equal.
const TEXTS: [&str; 12] = [
    "",
    "a",
    "B",
    "b",
    "bB",
    "c",
    "O'Brien",
    "''",
    "\u{d7ff}",
    "\u{e000}",
    "\u{ffff}",
    "\u{1f600}",
];
const NAMES: [&str; 4] = ["p", "q", "été", "名前"];

fn literal() -> impl Strategy<Value = Literal> {
    let small = || prop_oneof![Just(0i8), Just(1), Just(2), Just(-1)];
    prop_oneof![
        4 => prop::sample::select(&TEXTS[..]).prop_map(|text| Literal::String(text.into())),
        2 => small().prop_map(|n| Literal::Int32(n.into())),
        2 => small().prop_map(|n| Literal::Int64(n.into())),
        2 => small().prop_map(|n| Literal::Double(n.into())),
        1 => prop::sample::select(&[i32::MIN, i32::MAX][..]).prop_map(Literal::Int32),
        1 => prop::sample::select(vec![i64::MIN, i64::MAX, i64::MAX - 1, i64::from(i32::MAX) + 1, 9_007_199_254_740_993])
            .prop_map(Literal::Int64),
        1 => prop::sample::select(
            &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.5, 1e300, 5e-324, 9_007_199_254_740_992.0][..]
        )
        .prop_map(Literal::Double),
        2 => any::<bool>().prop_map(Literal::Boolean),
        1 => (0..3i64).prop_map(|n| Literal::DateTime(Ticks::new(Ticks::DATETIME_MIN.get() + n).unwrap())),
        1 => (0..3u8).prop_map(|n| Literal::Guid([n; 16])),
        1 => prop::collection::vec(0..3u8, 0..3).prop_map(|bytes| Literal::Binary(bytes.into())),
    ]
}

fn property() -> impl Strategy<Value = Column> {
    prop_oneof![
        3 => Just(Column::PartitionKey),
        3 => Just(Column::RowKey),
        1 => Just(Column::Timestamp),
        3 => prop::sample::select(&NAMES[..]).prop_map(|name| Column::Property(name.into())),
    ]
}

fn leaf() -> impl Strategy<Value = Expression> {
    let operator = || prop::sample::select(Operator::ALL);
    let comparison = |property: Column, operator, literal| {
        Expression::Comparison(Comparison {
            property,
            operator,
            literal,
        })
    };
    prop_oneof![
        12 => (property(), operator(), literal()).prop_map(move |(p, o, l)| comparison(p, o, l)),
        // Plans come from comparisons of keys with Strings.
        12 => (property(), operator(), prop::sample::select(&TEXTS[..]))
            .prop_map(move |(p, o, text)| comparison(p, o, Literal::String(text.into()))),
        4 => (property(), prop::sample::select(TextFunction::ALL), prop::sample::select(&TEXTS[..])).prop_map(
            |(property, function, text)| Expression::Text(TextTest { property, function, text: text.into() })
        ),
        2 => property().prop_map(Expression::Property),
        1 => any::<bool>().prop_map(Expression::Constant),
    ]
}

pub(super) fn expression() -> impl Strategy<Value = Expression> {
    leaf().prop_recursive(6, 48, 5, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..5).prop_map(Expression::all_of),
            3 => prop::collection::vec(inner.clone(), 1..5).prop_map(Expression::any_of),
            1 => inner.prop_map(Expression::negated),
        ]
    })
}

fn sample() -> impl Strategy<Value = Sample> {
    let text = || prop::sample::select(&TEXTS[..]);
    let bag = prop::collection::btree_map(prop::sample::select(&NAMES[..]), literal(), 0..4);
    (text(), text(), 0..3i64, bag).prop_map(|(partition_key, row_key, ticks, bag)| {
        let mut properties = PropertiesBuilder::new();
        for (name, value) in &bag {
            properties.push((*name).into(), value.value()).unwrap();
        }
        Sample {
            partition_key: partition_key.to_owned(),
            row_key: row_key.to_owned(),
            timestamp: Ticks::new(Ticks::DATETIME_MIN.get() + ticks).unwrap(),
            properties: properties.finish().unwrap(),
        }
    })
}

/// The filter with needless parentheses and spaces; lists are grouped as `seed` says.
fn decorated(expression: &Expression, seed: &mut u64, out: &mut String) {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let random = *seed >> 33;
    match expression {
        Expression::And(terms) => grouped(terms, "and", seed, out),
        Expression::Or(terms) => grouped(terms, "or", seed, out),
        Expression::Not(term) if random.is_multiple_of(3) => {
            out.push_str("not not(not((");
            decorated(term, seed, out);
            out.push_str(")) )");
        }
        Expression::Not(term) => {
            out.push_str("not (");
            decorated(term, seed, out);
            out.push_str(" )");
        }
        Expression::Comparison(comparison) if random.is_multiple_of(2) => {
            let operator = comparison.operator.mirrored().keyword();
            out.push_str(&format!(
                "({}\t{operator}\n{} )",
                comparison.literal,
                comparison.property.name()
            ));
        }
        other => out.push_str(&format!("(\u{a0}({other}))")),
    }
}

fn grouped(terms: &[Expression], joint: &str, seed: &mut u64, out: &mut String) {
    if let [only] = terms {
        return decorated(only, seed, out);
    }
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let middle = 1 + usize::try_from(*seed >> 33).unwrap() % (terms.len() - 1);
    let (left, right) = terms.split_at(middle);
    out.push('(');
    grouped(left, joint, seed, out);
    out.push_str(&format!(") {joint} ("));
    grouped(right, joint, seed, out);
    out.push(')');
}

/// Returns whether a parsed filter is as [`Expression`] promises.
fn is_canonical(expression: &Expression) -> bool {
    match expression {
        Expression::And(terms) => {
            terms.len() > 1
                && terms
                    .iter()
                    .all(|term| !matches!(term, Expression::And(_)) && is_canonical(term))
        }
        Expression::Or(terms) => {
            terms.len() > 1
                && terms
                    .iter()
                    .all(|term| !matches!(term, Expression::Or(_)) && is_canonical(term))
        }
        Expression::Not(term) => !matches!(**term, Expression::Not(_) | Expression::Constant(_)) && is_canonical(term),
        _ => true,
    }
}

/// More cases where `PROPTEST_CASES` says so.
fn config() -> Config {
    let default = Config::default();
    Config {
        cases: default.cases.max(2_000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..default
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_filter_prints_and_reads_back(expression in expression(), mut seed: u64) {
        prop_assert!(is_canonical(&expression));
        let filter = Filter(expression);
        let printed = filter.to_string();
        prop_assert_eq!(Filter::parse(&printed, None, Dialect::Extended), Ok(filter.clone()));
        let has_functions = printed.contains("contains(") || printed.contains("endswith(");
        prop_assert_eq!(Filter::parse(&printed, None, Dialect::Service).is_err(), has_functions);
        let mut text = String::new();
        decorated(filter.expression(), &mut seed, &mut text);
        prop_assert_eq!(Filter::parse(&text, None, Dialect::Extended), Ok(filter.clone()), "{}", text);
    }

    #[test]
    fn every_evaluation_agrees(expression in expression(), samples in prop::collection::vec(sample(), 1..8)) {
        let filter = Filter(expression);
        for sample in &samples {
            passes(&filter, sample);
        }
    }

    /// Also where the planner runs out of steps or ranges.
    #[test]
    fn ranges_and_residual_are_the_filter(
        expression in expression(),
        properties in sample(),
        work in prop_oneof![Just(usize::MAX), 0..300usize],
        cells in prop_oneof![Just(usize::MAX), 0..12usize],
    ) {
        let filter = Filter(expression);
        let plan = Plan::within(&filter, work, cells);
        for partition_key in TEXTS {
            for row_key in TEXTS {
                let sample = Sample {
                    partition_key: partition_key.to_owned(),
                    row_key: row_key.to_owned(),
                    ..properties.clone()
                };
                prop_assert_eq!(
                    planned(&plan, &sample),
                    filter.matches(&sample.entity()),
                    "{} as {:?} for {:?}", filter, plan, sample
                );
            }
        }
        if let Some(residual) = &plan.residual {
            prop_assert!(is_canonical(residual.expression()));
            prop_assert!(!plan.ranges.is_empty());
        }
    }

    #[test]
    fn ranges_are_sorted_and_apart(expression in expression()) {
        let plan = Plan::new(Filter(expression));
        for pair in plan.ranges.windows(2) {
            let [a, b] = pair else { unreachable!() };
            let (upper, lower) = (a.upper.as_ref().unwrap(), b.lower.as_ref().unwrap());
            // There is room between them: a whole partition's rows, a row, or a partition.
            prop_assert!(upper.as_upper() < lower.as_lower(), "{} {}", a, b);
        }
        for range in &plan.ranges {
            if let (Some(lower), Some(upper)) = (&range.lower, &range.upper) {
                prop_assert!(lower.as_lower() < upper.as_upper(), "{}", range);
            }
        }
    }

    /// A filter over exact partitions needs nothing but ranges.
    #[test]
    fn key_filters_within_partitions_leave_no_residual(
        parts in prop::collection::vec((prop::sample::select(&TEXTS[..]), rows()), 1..5)
    ) {
        let key = |property, text: &str| Expression::Comparison(Comparison {
            property,
            operator: Operator::Eq,
            literal: Literal::String(text.into()),
        });
        let filter = Filter(Expression::any_of(
            parts
                .into_iter()
                .map(|(text, rows)| Expression::all_of(vec![key(Column::PartitionKey, text), rows]))
                .collect(),
        ));
        prop_assert_eq!(Plan::new(filter.clone()).residual, None);
    }

    #[test]
    fn a_page_from_a_token_is_the_rest(expression in expression(), at in 0..144usize) {
        let plan = Plan::new(Filter(expression));
        let keys = {
            let mut texts = TEXTS;
            texts.sort_unstable();
            texts.iter().flat_map(|pk| texts.map(|rk| (*pk, rk))).collect::<Vec<_>>()
        };
        let rest = plan.ranges_from(keys[at].0, keys[at].1);
        for (index, (partition_key, row_key)) in keys.iter().enumerate() {
            let all = plan.ranges.iter().any(|range| range.contains(partition_key, row_key));
            let left = rest.iter().any(|range| range.contains(partition_key, row_key));
            prop_assert_eq!(left, all && index >= at);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(
        text in "([ (),'@a1eE.LX-]|and |or |not |eq |ne |a in \\(|a|'a'|contains\\(|startswith\\(|null|datetime'|😀){0,30}|.{0,40}"
    ) {
        let extended = Filter::parse(&text, None, Dialect::Extended);
        if let Ok(filter) = &extended {
            prop_assert!(is_canonical(filter.expression()));
            prop_assert_eq!(Filter::parse(&filter.to_string(), None, Dialect::Extended), Ok(filter.clone()));
            Plan::new(filter.clone());
        }
        // A filter that the service reads means the same in both dialects.
        if let Ok(filter) = Filter::parse(&text, None, Dialect::Service) {
            prop_assert_eq!(extended, Ok(filter));
        }
    }

    /// The extended dialect against its definition, on texts with other neighbours by key than by value.
    #[test]
    fn the_extended_dialect_means_what_it_says(
        name in prop::sample::select(&["PartitionKey", "RowKey", "p"][..]),
        text in "[a\u{10}'\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}",
        before in "[a\u{d7ff}\u{ffff}\u{10ffff}]{0,2}",
        after in "[ab\u{e000}\u{10ffff}]{0,2}",
        is_part: bool,
        value in prop::option::weighted(0.3, literal()),
        list in prop::collection::vec(literal(), 1..4),
        negated: bool,
    ) {
        // A value that has the text, or another one.
        let whole = if is_part { format!("{before}{text}{after}") } else { after.clone() };
        let value = match (name, value) {
            ("p", Some(value)) => Some(value),
            ("p", None) if before.len() > 3 => None,
            _ => Some(Literal::String(whole.as_str().into())),
        };
        let mut properties = PropertiesBuilder::new();
        if let (Some(value), "p") = (&value, name) {
            properties.push("p".into(), value.value()).unwrap();
        }
        let sample = Sample { properties: properties.finish().unwrap(), ..Sample::new(&whole, &whole, "{}") };
        let string = match &value {
            Some(Literal::String(value)) => Some(&**value),
            _ => None,
        };
        let quoted = Literal::String(text.as_str().into());
        let members: Vec<String> = list.iter().map(ToString::to_string).collect();
        let equals = |literal: &Literal| {
            let filter = Filter::parse(&format!("{name} eq {literal}"), None, Dialect::Service).unwrap();
            filter.matches(&sample.entity())
        };
        for (filter, expected) in [
            (format!("startswith({name}, {quoted})"), string.is_some_and(|value| value.starts_with(&text))),
            (format!("endswith({name},{quoted})"), string.is_some_and(|value| value.ends_with(&text))),
            (format!("contains({name}, {quoted})"), string.is_some_and(|value| value.contains(&text))),
            (format!("substringof({quoted}, {name} )"), string.is_some_and(|value| value.contains(&text))),
            (format!("{name} in ({})", members.join(", ")), list.iter().any(equals)),
            (format!("{name} ne null"), value.is_some()),
            (format!("null eq {name}"), value.is_none()),
            (format!("{name} in (null, {quoted})"), value.is_none() || equals(&quoted)),
        ] {
            let text = if negated { format!("not ({filter})") } else { filter };
            let filter = Filter::parse(&text, None, Dialect::Extended).unwrap();
            prop_assert!(is_canonical(filter.expression()));
            prop_assert_eq!(passes(&filter, &sample), expected != negated, "{} for {:?}", text, sample);
        }
    }

    #[test]
    fn an_expired_entity_passes_no_filter(
        expression in prop::option::of(expression()),
        sample in sample(),
        seconds in 1..1000_i64,
        later in 0..2_000_000_000_000_i64,
    ) {
        let filter = expression.map(Filter);
        let entity = sample.entity();
        let expiries = [Expiry::new(Some("p"), Some(seconds)).unwrap(), Expiry::new(Some("q"), None).unwrap()];
        let timestamp = entity.timestamp.map(Ticks::to_postgres_micros);
        let alive = Alive::new(expiries.into(), timestamp.unwrap_or_default() + later);
        let is_alive = timestamp.is_none_or(|timestamp| alive.includes(timestamp, entity.properties));
        let expected = is_alive && filter.as_ref().is_none_or(|filter| filter.matches(&entity));
        let predicate = Predicate::of_query(filter.as_ref(), Some(alive)).unwrap();
        prop_assert_eq!(predicate.matches(&entity), expected);
        let read = Predicate::from_bytes(&predicate.to_bytes()).unwrap();
        prop_assert_eq!(&read, &predicate);
        prop_assert!(predicate.columns().timestamp && predicate.columns().properties);
    }

    #[test]
    fn any_bytes_are_a_predicate_or_refused(bytes: Vec<u8>, sample in sample()) {
        if let Ok(predicate) = Predicate::from_bytes(&bytes) {
            predicate.matches(&sample.entity());
        }
    }

    #[test]
    fn altered_bytes_are_a_predicate_or_refused(
        expression in expression(),
        at: prop::sample::Index,
        byte: u8,
        sample in sample()
    ) {
        let mut bytes = Predicate::new(&Filter(expression)).to_bytes();
        let end = at.index(bytes.len() + 1);
        prop_assert!(end == bytes.len() || Predicate::from_bytes(&bytes[..end]).is_err() || end > 4);
        if let Some(place) = bytes.get_mut(end) {
            *place = byte;
        }
        if let Ok(predicate) = Predicate::from_bytes(&bytes) {
            predicate.matches(&sample.entity());
            prop_assert_eq!(predicate.to_bytes(), bytes);
        }
    }

    #[test]
    fn strings_are_in_the_order_of_their_utf16_units(
        a in "[a\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{10ffff}]{0,6}|.{0,8}",
        b in "[a\u{d7ff}\u{e000}\u{fffd}\u{10000}\u{10ffff}]{0,6}|.{0,8}",
    ) {
        let (a, b) = (a.replace('\0', ""), b.replace('\0', ""));
        let mut properties = PropertiesBuilder::new();
        properties.push("p".into(), Value::String(&a)).unwrap();
        let sample = Sample { properties: properties.finish().unwrap(), ..Sample::new("", "", "{}") };
        let units = a.encode_utf16().collect::<Vec<_>>().cmp(&b.encode_utf16().collect());
        for operator in Operator::ALL.iter().copied() {
            let filter = Filter(Expression::Comparison(Comparison {
                property: Column::of_name("p"),
                operator,
                literal: Literal::String(b.as_str().into()),
            }));
            let expected = match operator {
                Operator::Eq => units.is_eq(),
                Operator::Ne => units.is_ne(),
                Operator::Lt => units.is_lt(),
                Operator::Le => units.is_le(),
                Operator::Gt => units.is_gt(),
                Operator::Ge => units.is_ge(),
            };
            prop_assert_eq!(passes(&filter, &sample), expected);
        }
    }
}

/// Filters over the RowKey alone.
fn rows() -> impl Strategy<Value = Expression> {
    let comparison =
        (prop::sample::select(Operator::ALL), prop::sample::select(&TEXTS[..])).prop_map(|(operator, text)| {
            Expression::Comparison(Comparison {
                property: Column::of_name(key::ROW_KEY),
                operator,
                literal: Literal::String(text.into()),
            })
        });
    comparison.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Expression::all_of),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Expression::any_of),
            inner.prop_map(Expression::negated),
        ]
    })
}
