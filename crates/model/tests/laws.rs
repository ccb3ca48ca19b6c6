//! Laws that hold for every entity, bag and text.

#![allow(clippy::unwrap_used)]

mod checks;

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use table_service_model::entity::{self, Entity};
use table_service_model::etag::IfMatch;
use table_service_model::json::{
    Metadata, entity_to_json, jsonb_text, parse_entity, parse_properties, properties_to_json,
};
use table_service_model::{EdmType, Properties, PropertiesBuf, PropertiesBuilder, Ticks, Value, limits};

/// A value that owns its text or bytes.
#[derive(Debug, Clone)]
enum Owned {
    String(String),
    Binary(Vec<u8>),
    Plain(Value<'static>),
}

impl Owned {
    fn value(&self) -> Value<'_> {
        match self {
            Owned::String(text) => Value::String(text),
            Owned::Binary(bytes) => Value::Binary(bytes),
            Owned::Plain(value) => *value,
        }
    }
}

/// Doubles of every kind, and more of those that people write.
fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        any::<i32>().prop_map(f64::from),
        (any::<i32>(), -30..30).prop_map(|(n, exponent)| format!("{n}e{exponent}").parse().unwrap()),
        proptest::sample::select(vec![0.0, -0.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e15, 1e-5]),
    ]
}

fn value() -> impl Strategy<Value = Owned> {
    prop_oneof![
        any::<String>().prop_map(|text| Owned::String(text.replace('\0', "\u{1}"))),
        vec(any::<u8>(), 0..40).prop_map(Owned::Binary),
        any::<i32>().prop_map(|n| Owned::Plain(Value::Int32(n))),
        any::<i64>().prop_map(|n| Owned::Plain(Value::Int64(n))),
        double().prop_map(|n| Owned::Plain(Value::Double(n))),
        any::<bool>().prop_map(|b| Owned::Plain(Value::Boolean(b))),
        (Ticks::DATETIME_MIN.get()..=Ticks::MAX.get())
            .prop_map(|ticks| Owned::Plain(Value::DateTime(Ticks::new(ticks).unwrap()))),
        any::<[u8; 16]>().prop_map(|guid| Owned::Plain(Value::Guid(guid))),
    ]
}

type Contents = BTreeMap<String, Owned>;

/// Contents under names of which some are often the same, and one in ten as many as a bag may have.
fn contents() -> impl Strategy<Value = Contents> {
    let name = "[a-dA-D_é名][a-b0-1_é名\u{300}\u{200d}]{0,2}";
    prop_oneof![
        9 => btree_map(name, value(), 0..8),
        1 => btree_map("[a-z]{6}", value(), limits::PROPERTIES),
    ]
}

fn build(contents: &Contents) -> PropertiesBuf {
    let mut builder = PropertiesBuilder::new();
    for (name, value) in contents {
        builder.push(name.into(), value.value()).unwrap();
    }
    builder.finish().unwrap()
}

fn bag() -> impl Strategy<Value = PropertiesBuf> {
    contents().prop_map(|contents| build(&contents))
}

/// A few properties: three of these together are within every limit.
fn small_bag() -> impl Strategy<Value = PropertiesBuf> {
    btree_map("[a-d][a-b]?", value(), 0..8).prop_map(|contents| build(&contents))
}

fn utf8(json: Vec<u8>) -> String {
    String::from_utf8(json).unwrap()
}

fn merge(a: &PropertiesBuf, b: &PropertiesBuf) -> PropertiesBuf {
    a.as_properties().merge(b.as_properties()).unwrap()
}

/// Returns the text that `jsonb` makes of a bag's text: members ordered by the length of their names, numbers as plain
/// decimals.
fn through_jsonb(bag: Properties<'_>) -> String {
    let mut members = Vec::new();
    for (name, value) in bag.iter() {
        let one = utf8(jsonb_text(bag.project(&[name]).as_properties()));
        let mut member = one.strip_prefix('{').and_then(|one| one.strip_suffix('}')).unwrap();
        let annotation = format!("\"{name}@odata.type\":\"{}\"", value.edm_type().name());
        let annotated = member.strip_prefix(&format!("{annotation},"));
        if let Some(rest) = annotated {
            members.push((format!("{name}@odata.type"), annotation));
            member = rest;
        }
        let number = member.split_once(':').unwrap().1;
        let kept = match value {
            Value::Double(_) if annotated.is_none() => format!("\"{name}\":{}", numeric(number)),
            _ => member.to_owned(),
        };
        members.push((name.to_owned(), kept));
    }
    members.sort_by_key(|(name, _)| (name.len(), name.clone()));
    let members: Vec<_> = members.into_iter().map(|(_, member)| member).collect();
    format!("{{{}}}", members.join(", "))
}

/// A number as PostgreSQL's `numeric` prints it: no exponent, no negative zero, the fraction digits that were given.
fn numeric(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('E').unwrap_or((text, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().unwrap();
    let mut digits = format!("{whole}{fraction}");
    let mut point = whole.len() as i64 + exponent;
    if point < 1 {
        digits.insert_str(0, &"0".repeat((1 - point) as usize));
        point = 1;
    }
    let missing = (point as usize).saturating_sub(digits.len());
    digits.push_str(&"0".repeat(missing));
    let (whole, fraction) = digits.split_at(point as usize);
    let sign = if digits.bytes().all(|b| b == b'0') { "" } else { sign };
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{dot}{fraction}")
}

#[test]
fn numeric_prints_as_postgresql_does() {
    for (text, printed) in [
        ("1.0", "1.0"),
        ("-0.0", "0.0"),
        ("1E+15", "1000000000000000"),
        ("1.23456789012346E+24", "1234567890123460000000000"),
        ("-1.5E-07", "-0.00000015"),
        ("1E-05", "0.00001"),
        ("123.25", "123.25"),
    ] {
        assert_eq!(numeric(text), printed);
    }
}

proptest! {
    #[test]
    fn a_bag_holds_what_it_was_given(contents in contents()) {
        let bag = build(&contents);
        prop_assert_eq!(bag.as_properties().len(), contents.len());
        let names: Vec<_> = bag.as_properties().iter().map(|(name, _)| name).collect();
        prop_assert_eq!(names, contents.keys().collect::<Vec<_>>());
        for (name, given) in &contents {
            let (given, held) = (given.value(), bag.as_properties().get(name).unwrap());
            match (given, held) {
                (Value::Double(a), Value::Double(b)) if !a.is_nan() => prop_assert_eq!(a.to_bits(), b.to_bits()),
                (Value::Double(_), Value::Double(b)) => prop_assert!(b.is_nan()),
                _ => prop_assert_eq!(given, held),
            }
            prop_assert_eq!(bag.as_properties().type_of(name), Some(given.edm_type()));
        }
        checks::bag(bag.as_bytes());
    }

    #[test]
    fn an_entity_survives_json(
        bag in bag(),
        partition_key: String,
        row_key: String,
        ticks in Ticks::DATETIME_MIN.get()..=Ticks::MAX.get(),
    ) {
        let entity = Entity {
            partition_key: Some(&partition_key),
            row_key: Some(&row_key),
            timestamp: Ticks::new(ticks),
            properties: bag.as_properties(),
        };
        for metadata in [Metadata::Minimal, Metadata::Full] {
            let json = utf8(entity_to_json(&entity, metadata));
            let parsed = parse_entity(&json).unwrap();
            prop_assert_eq!(&parsed.partition_key, &partition_key);
            prop_assert_eq!(&parsed.row_key, &row_key);
            prop_assert_eq!(parsed.timestamp, entity.timestamp);
            prop_assert_eq!(&parsed.properties, &bag);
            prop_assert_eq!(&parse_properties(&json).unwrap(), &bag);
        }
        let bare: serde_json::Value = serde_json::from_slice(&entity_to_json(&entity, Metadata::None)).unwrap();
        prop_assert_eq!(bare.as_object().unwrap().len(), 3 + bag.as_properties().len());
    }

    #[test]
    fn a_bag_survives_json_and_jsonb(bag in bag()) {
        prop_assert_eq!(&parse_properties(&utf8(properties_to_json(bag.as_properties()))).unwrap(), &bag);
        prop_assert_eq!(&parse_properties(&utf8(jsonb_text(bag.as_properties()))).unwrap(), &bag);
        prop_assert_eq!(&parse_properties(&through_jsonb(bag.as_properties())).unwrap(), &bag);
    }

    #[test]
    fn every_double_survives_jsonb(values in vec(double(), 1..20)) {
        for (i, value) in values.into_iter().enumerate() {
            let bag = build(&BTreeMap::from([(format!("D{i}"), Owned::Plain(Value::Double(value)))]));
            prop_assert_eq!(parse_properties(&through_jsonb(bag.as_properties())), Ok(bag));
        }
    }

    #[test]
    fn merge_is_associative_and_the_right_side_wins(a in small_bag(), b in small_bag(), c in small_bag()) {
        prop_assert_eq!(merge(&merge(&a, &b), &c), merge(&a, &merge(&b, &c)));
        let both = merge(&a, &b);
        checks::bag(both.as_bytes());
        // The parts of both sides, by the other operations.
        let names: Vec<_> = b.as_properties().iter().map(|(name, _)| name).collect();
        prop_assert_eq!(&merge(&a.as_properties().without(&names), &b), &both);
        prop_assert_eq!(both.as_properties().project(&names), b.clone());
        prop_assert_eq!(both.as_properties().without(&names), a.as_properties().without(&names));
    }

    #[test]
    fn a_bag_is_its_parts(bag in bag(), mask: u64) {
        let all: Vec<_> = bag.as_properties().iter().map(|(name, _)| name).collect();
        let some: Vec<_> = (0..).zip(&all).filter(|(i, _)| mask >> (i % 64) & 1 == 1).map(|(_, name)| *name).collect();
        let (kept, rest) = (bag.as_properties().project(&some), bag.as_properties().without(&some));
        prop_assert_eq!(kept.as_properties().len() + rest.as_properties().len(), all.len());
        prop_assert_eq!(kept.as_properties().size() + rest.as_properties().size(), bag.as_properties().size());
        prop_assert_eq!(&merge(&kept, &rest), &bag);
        checks::bag(kept.as_bytes());
        checks::bag(rest.as_bytes());
    }

    #[test]
    fn the_size_of_an_entity_is_the_services_formula(contents in contents(), partition_key: String, row_key: String) {
        let units = |text: &str| text.encode_utf16().count();
        let value = |value: &Owned| match value.value() {
            Value::String(text) => 2 * units(text) + 4,
            Value::Binary(bytes) => bytes.len() + 4,
            other => match other.edm_type() {
                EdmType::Boolean => 1,
                EdmType::Int32 => 4,
                EdmType::Guid => 16,
                _ => 8,
            },
        };
        let properties: usize = contents.iter().map(|(name, given)| 8 + 2 * units(name) + value(given)).sum();
        let expected = 4 + 2 * (units(&partition_key) + units(&row_key)) + properties;
        prop_assert_eq!(entity::size(&partition_key, &row_key, build(&contents).as_properties()), expected);
    }

    #[test]
    fn any_bytes_are_changes_or_refused(messages in vec((proptest::sample::select(b"BCORYIUDTM".to_vec()), vec(any::<u8>(), 0..60)), 0..6)) {
        let framed = messages.iter().map(|(kind, rest)| {
            let length = u16::try_from(1 + rest.len()).unwrap_or(u16::MAX).to_be_bytes();
            [&length[..], &[*kind], rest].concat()
        });
        checks::changes(&framed.collect::<Vec<_>>().concat());
    }

    #[test]
    fn any_bytes_are_a_bag_or_refused(bytes in vec(any::<u8>(), 0..200), format in 0usize..3) {
        let mut bytes = bytes;
        if let (Some(first), Some(format)) = (bytes.first_mut(), [0x01, 0x81].get(format)) {
            *first = *format;
        }
        checks::bag(&bytes);
    }

    #[test]
    fn a_damaged_bag_is_another_bag_or_refused(
        bag in bag(),
        damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        end: proptest::sample::Index,
        cut in proptest::bool::weighted(0.2),
    ) {
        let mut bytes = bag.as_bytes().to_vec();
        for (at, byte) in damage {
            // Half of the damage goes to the header and the directory.
            let at = if byte % 2 == 0 { at.index(bytes.len()) } else { at.index(bytes.len().min(64)) };
            *bytes.get_mut(at).unwrap() = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        checks::bag(&bytes);
    }

    #[test]
    fn any_text_is_read_or_refused(text: String) {
        checks::json(&text);
        let _ = (IfMatch::parse(&text), Ticks::parse_datetime(&text), Ticks::from_inverted(&text));
    }

    #[test]
    fn any_text_that_looks_like_a_tag_is_read_or_refused(text in "W?/?\"?(datetime')?[-0-9T%3A:.Z]{0,30}'?\"?") {
        let _ = IfMatch::parse(&text);
    }

    #[test]
    fn tokens_in_any_order_are_read_or_refused_as_another_parser_does(tokens in vec(token(), 0..12)) {
        let text = format!("{{{}}}", tokens.concat());
        checks::json(&text);
        agrees_with_another_parser(&text);
    }

    #[test]
    fn damaged_json_is_read_or_refused_as_another_parser_does(
        bag in small_bag(),
        at: proptest::sample::Index,
        inserted in token(),
        removed in 0usize..4,
    ) {
        let mut text: Vec<char> = utf8(properties_to_json(bag.as_properties())).chars().collect();
        let start = at.index(text.len());
        let end = (start + removed).min(text.len());
        text.splice(start..end, inserted.chars());
        let text: String = text.into_iter().collect();
        checks::json(&text);
        agrees_with_another_parser(&text);
    }
}

/// A piece of JSON, or of a text that is not JSON.
fn token() -> impl Strategy<Value = String> {
    let names = [
        "A",
        "B",
        "A@odata.type",
        "odata.x",
        "RowKey",
        "\\u0041",
        "\\ud83d",
        "Edm.Int64",
        "2020-01-01",
        "x",
    ];
    prop_oneof![
        3 => proptest::sample::select(vec![",", ":", " ", "\n", "{", "}", "[", "]", "\"", "\\", "null", "true", "nul"])
            .prop_map(str::to_owned),
        2 => "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?([eE][-+]?[0-9]{1,2})?",
        1 => "[-+0-9.eENI]{1,6}",
        4 => (proptest::sample::select(names.to_vec()), any::<bool>())
            .prop_map(|(name, member)| format!("\"{name}\"{}", if member { ":" } else { "" })),
        1 => "\\PC{0,3}",
    ]
}

/// Malformed for us is malformed for `serde_json`. The other direction is among the checks.
fn agrees_with_another_parser(text: &str) {
    let ours = parse_properties(text).err().filter(|error| error.sqlstate() == "22P02");
    if let Some(error) = ours {
        let others = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text);
        assert!(others.is_err(), "{text}: {:?}", error.hint());
    }
}
