//! The laws of every filter and entity.

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

use super::{entry_of, meets};
use crate::filter::{Column, Comparison, Expression, Literal, Operator, Plan};
use crate::property_index::{condition, entry};
use crate::{Dialect, Entity, Filter, PropertiesBuilder, Ticks, Value};

const NAMES: [&str; 3] = ["p", "q", "unindexed"];
const INDEXED: [&str; 2] = ["p", "q"];

/// Texts around everything that the format treats apart: the cut, the separator, the order of UTF-16.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        "a",
        "ab",
        "b",
        "\u{1}",
        "a\u{1}",
        "\u{7f}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{ffff}",
        "\u{10000}",
        "\u{10ffff}",
        "a\u{ffff}",
        "a\u{10000}",
    ]
    .map(str::to_owned)
    .into();
    for length in [510, 511, 512, 513, 600] {
        texts.push("x".repeat(length));
        texts.push("x".repeat(length) + "\u{e000}");
        texts.push("x".repeat(length) + "\u{10000}");
        texts.push("x".repeat(length) + "y");
    }
    texts
}

fn binaries() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = vec![
        vec![],
        vec![0],
        vec![0, 0],
        vec![0, 1],
        vec![0, 0xFF],
        vec![1],
        vec![0xFE],
        vec![0xFF],
        vec![0xFF, 0xFF],
        vec![0, 0, 0xFF],
    ];
    for length in [255, 256, 257] {
        for byte in [0, 7, 0xFF] {
            all.push(vec![byte; length]);
            all.push([vec![byte; length], vec![0]].concat());
            all.push([vec![byte; length], vec![0xFF]].concat());
        }
    }
    all
}

fn doubles() -> Vec<f64> {
    let big = 9_007_199_254_740_992.0; // 2^53
    let mut all = vec![
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::MIN,
        0.5,
        1.0,
        -1.0,
        1.5,
        big,
        big + 2.0,
        -big,
        9_223_372_036_854_775_808.0,
        -9_223_372_036_854_775_808.0,
        2_147_483_647.0,
        2_147_483_648.0,
    ];
    all.extend([1.0f64, big].map(f64::next_up));
    all.extend([1.0f64, big].map(f64::next_down));
    all
}

fn int64s() -> Vec<i64> {
    let big = 1 << 53;
    let mut all = vec![
        0,
        1,
        -1,
        2,
        i64::MIN,
        i64::MIN + 1,
        i64::MAX,
        i64::MAX - 1,
        1 << 31,
        (1 << 31) - 1,
        -(1 << 31) - 1,
    ];
    all.extend((-3..4).flat_map(|n| [big + n, -big + n, (1 << 60) + n * 127]));
    all
}

fn literal() -> impl Strategy<Value = Literal> {
    let ticks = |n: i64| Literal::DateTime(Ticks::new(n).unwrap());
    prop_oneof![
        4 => prop::sample::select(texts()).prop_map(|text| Literal::String(text.into())),
        2 => prop::sample::select(vec![0, 1, -1, 2, i32::MIN, i32::MAX]).prop_map(Literal::Int32),
        3 => prop::sample::select(int64s()).prop_map(Literal::Int64),
        3 => prop::sample::select(doubles()).prop_map(Literal::Double),
        1 => any::<i64>().prop_map(Literal::Int64),
        1 => any::<f64>().prop_map(Literal::Double),
        1 => any::<bool>().prop_map(Literal::Boolean),
        // Ticks within one microsecond, and beyond one.
        2 => (0..12i64).prop_map(move |n| ticks(Ticks::DATETIME_MIN.get() + n)),
        1 => prop::sample::select(vec![Ticks::MAX.get(), Ticks::MAX.get() - 1]).prop_map(ticks),
        1 => prop::sample::select(vec![[0; 16], [0xFF; 16], [0x7F; 16], [0x80; 16]]).prop_map(Literal::Guid),
        2 => prop::sample::select(binaries()).prop_map(|bytes| Literal::Binary(bytes.into())),
    ]
}

/// Literals that no stored value has.
fn foreign_literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        9 => literal(),
        1 => prop::sample::select(&["\0", "a\0", "a\0b", "x\0"][..]).prop_map(|text| Literal::String(text.into())),
        1 => Just(Literal::DateTime(Ticks::ZERO)),
    ]
}

fn key() -> impl Strategy<Value = String> {
    let long = |length| "k".repeat(length);
    prop_oneof![
        6 => prop::sample::select(&["", " ", "a", "ab", "b", "\u{ffff}", "\u{10000}"][..]).prop_map(str::to_owned),
        1 => prop::sample::select(vec![long(1023), long(1024), "€".repeat(446), "€".repeat(445) + "é"]),
    ]
}

/// A key as a filter can name it.
fn foreign_key() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => key(),
        1 => prop::sample::select(&["\0", "a\0", "a\0b", "a\u{1}"][..]).prop_map(str::to_owned),
        1 => Just("k".repeat(1500)),
    ]
}

fn comparison() -> impl Strategy<Value = Expression> {
    let operator = || prop::sample::select(Operator::ALL);
    let build = |property, operator, literal| {
        Expression::Comparison(Comparison {
            property,
            operator,
            literal,
        })
    };
    prop_oneof![
        8 => (prop::sample::select(&NAMES[..]), operator(), foreign_literal())
            .prop_map(move |(name, operator, literal)| build(Column::of_name(name), operator, literal)),
        2 => (prop::sample::select(&["PartitionKey", "RowKey"][..]), operator(), foreign_key())
            .prop_map(move |(name, operator, key)| build(Column::of_name(name), operator, Literal::String(key.into()))),
        2 => (prop::sample::select(&NAMES[..]), prop::sample::select(&["contains", "endswith"][..]), prop::sample::select(texts()))
            .prop_map(|(name, function, text)| {
                let text = format!("{function}({name}, {})", Literal::String(text.into()));
                Filter::parse(&text, None, Dialect::Extended).unwrap().expression().clone()
            }),
        1 => prop::sample::select(&NAMES[..]).prop_map(|name| Expression::Property(Column::of_name(name))),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    comparison()
        .prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                3 => prop::collection::vec(inner.clone(), 1..4).prop_map(Expression::all_of),
                3 => prop::collection::vec(inner.clone(), 1..4).prop_map(Expression::any_of),
                1 => inner.prop_map(Expression::negated),
            ]
        })
        .prop_map(Filter::new)
}

#[derive(Debug, Clone)]
struct Sample {
    partition_key: String,
    row_key: String,
    values: Vec<(&'static str, Literal)>,
}

fn sample() -> impl Strategy<Value = Sample> {
    let value = || prop::option::weighted(0.8, literal());
    (key(), key(), (value(), value(), value())).prop_map(|(partition_key, row_key, (p, q, other))| Sample {
        partition_key,
        row_key,
        values: NAMES
            .into_iter()
            .zip([p, q, other])
            .filter_map(|(name, value)| Some((name, value?)))
            .collect(),
    })
}

/// More cases where `PROPTEST_CASES` says so.
fn config() -> Config {
    let default = Config::default();
    Config {
        cases: default.cases.max(4_000),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..default
    }
}

/// An entity that passes meets the condition, also the one that its range of keys shrinks.
fn check(filter: &Filter, sample: &Sample) -> Result<(), TestCaseError> {
    let mut builder = PropertiesBuilder::new();
    for (name, value) in &sample.values {
        builder.push((*name).into(), value.value()).unwrap();
    }
    let properties = builder.finish().unwrap();
    let entity = Entity {
        partition_key: Some(&sample.partition_key),
        row_key: Some(&sample.row_key),
        timestamp: Some(Ticks::DATETIME_MIN),
        properties: properties.as_properties(),
    };
    if !filter.matches(&entity) {
        return Ok(());
    }
    let entries = INDEXED.map(|name| entry(entity.properties, name, &sample.partition_key, &sample.row_key));
    let plan = Plan::new(filter.clone());
    for part in [Some(filter), plan.residual.as_ref()].into_iter().flatten() {
        let Some(condition) = condition(part, &INDEXED) else {
            continue;
        };
        prop_assert!(meets(&condition, &entries), "{} needs {:?}", part, condition);
        for range in plan
            .ranges
            .iter()
            .filter(|range| range.contains(&sample.partition_key, &sample.row_key))
        {
            let narrow = condition.within(range);
            prop_assert!(meets(&narrow, &entries), "{} within {} needs {:?}", part, range, narrow);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_entity_that_passes_meets_the_condition(filter in filter(), samples in prop::collection::vec(sample(), 1..12)) {
        for sample in &samples {
            check(&filter, sample)?;
        }
    }

    /// The same for one comparison, so that every pair of neighbours is tried.
    #[test]
    fn a_value_that_compares_meets_the_condition(comparison in comparison(), negated: bool, samples in prop::collection::vec(sample(), 1..24)) {
        let filter = Filter::new(if negated { comparison.negated() } else { comparison });
        for sample in &samples {
            check(&filter, sample)?;
        }
    }

    /// An equality reads no entry of another value, but of those that are rounded or cut to the same bytes.
    #[test]
    fn an_equality_is_tight(a in literal(), b in literal()) {
        let filter = Filter::new(Expression::Comparison(Comparison {
            property: Column::of_name("p"),
            operator: Operator::Eq,
            literal: a.clone(),
        }));
        let is_nan = |literal: &Literal| matches!(literal, Literal::Double(n) if n.is_nan());
        let number = |literal: &Literal| match literal {
            Literal::Int32(n) => Some(f64::from(*n)),
            Literal::Int64(n) => Some(*n as f64),
            Literal::Double(n) => Some(*n),
            _ => None,
        };
        let same = match (&a, &b) {
            (Literal::String(a), Literal::String(b)) => a.as_bytes().iter().take(512).eq(b.as_bytes().iter().take(512)),
            (Literal::Binary(a), Literal::Binary(b)) => a.iter().take(256).eq(b.iter().take(256)),
            _ => match (number(&a), number(&b)) {
                (Some(a), Some(b)) => a == b,
                _ => a == b,
            },
        };
        let inside = meets(&condition(&filter, &["p"]).unwrap(), &[Some(entry_of(b.value(), "k", "r"))]);
        prop_assert_eq!(inside, same && !is_nan(&a));
    }

    /// Entries of one value are in the order of the keys, and a lesser value is not after a greater one.
    #[test]
    fn entries_are_in_order(
        a in literal(), b in literal(),
        keys in (key(), key()), others in (key(), key()),
    ) {
        let first = entry_of(a.value(), &keys.0, &keys.1);
        let second = entry_of(a.value(), &others.0, &others.1);
        if keys <= others {
            prop_assert!(first <= second);
        }
        if first < second {
            prop_assert!(keys < others);
        }
        let less = match (a.value(), b.value()) {
            (Value::String(a), Value::String(b)) => a.encode_utf16().lt(b.encode_utf16()),
            (a, b) => a.edm_type() == b.edm_type() && matches!(
                (a, b),
                (Value::Int32(x), Value::Int32(y)) if x < y
            ) || matches!((a, b), (Value::Int64(x), Value::Int64(y)) if x < y)
                || matches!((a, b), (Value::Double(x), Value::Double(y)) if x < y)
                || matches!((a, b), (Value::Boolean(x), Value::Boolean(y)) if !x & y)
                || matches!((a, b), (Value::DateTime(x), Value::DateTime(y)) if x < y)
                || matches!((a, b), (Value::Guid(x), Value::Guid(y)) if x < y)
                || matches!((a, b), (Value::Binary(x), Value::Binary(y)) if x < y),
        };
        if less {
            prop_assert!(entry_of(a.value(), "", "") <= entry_of(b.value(), "", ""));
        }
    }

    #[test]
    fn spans_are_in_order_and_apart(filter in filter()) {
        let mut conditions: Vec<_> = condition(&filter, &INDEXED).into_iter().collect();
        while let Some(condition) = conditions.pop() {
            match condition {
                super::Condition::Spans { spans, .. } => {
                    prop_assert!(spans.iter().all(|span| span.lower < span.upper));
                    prop_assert!(spans.windows(2).all(|pair| pair[0].upper <= pair[1].lower));
                }
                super::Condition::All(terms) | super::Condition::Any(terms) => conditions.extend(terms),
            }
        }
    }
}
