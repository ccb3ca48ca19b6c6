//! The laws of an entity as a whole: its keys, its Timestamp, its size.

#![allow(clippy::unwrap_used)]

use table_service_model::entity::{Entity, check, check_size, size};
use table_service_model::json::{Metadata, entity_to_json, parse_entity, parse_properties};
use table_service_model::{Properties, PropertiesBuf, PropertiesBuilder, Ticks, Value, limits};

const KEY_TOO_LONG: &str = "PropertyValueTooLarge 54000";
const ENTITY_TOO_LARGE: &str = "EntityTooLarge 54000";
const OUT_OF_RANGE: &str = "OutOfRangeInput 22003";

/// `Code SQLSTATE`, or nothing where nothing is refused.
fn refusal(partition_key: &str, row_key: &str, timestamp: &str, properties: Properties<'_>) -> String {
    match check(partition_key, row_key, Ticks::parse(timestamp), properties) {
        Ok(()) => String::new(),
        Err(error) => format!("{} {}", error.code(), error.sqlstate()),
    }
}

/// A bag of 16 values that contributes `size` bytes to an entity.
fn bag_of_size(size: usize) -> PropertiesBuf {
    let values = size - 16 * (8 + 2 * 3 + 4);
    let blob = [7; limits::BINARY_BYTES];
    let mut builder = PropertiesBuilder::new();
    for i in 0..16 {
        let length = (values + i) / 16;
        builder
            .push(format!("X{i:02}").into(), Value::Binary(blob.get(..length).unwrap()))
            .unwrap();
    }
    let bag = builder.finish().unwrap();
    assert_eq!(bag.as_properties().size(), size);
    bag
}

#[test]
fn keys_have_1024_units_each_and_2680_bytes_together() {
    let bag = PropertiesBuf::empty();
    for (partition_key, row_key, refused) in [
        (String::new(), String::new(), ""),
        ("a".repeat(1024), "b".repeat(1024), ""),
        ("a".repeat(1025), String::new(), KEY_TOO_LONG),
        (String::new(), "a".repeat(1025), KEY_TOO_LONG),
        ("😀".repeat(512), "é".repeat(316), ""),
        ("😀".repeat(513), String::new(), KEY_TOO_LONG),
        (format!("{}a", "日".repeat(893)), String::new(), ""),
        (format!("{}aa", "日".repeat(893)), String::new(), KEY_TOO_LONG),
        ("日".repeat(893), "ab".to_owned(), KEY_TOO_LONG),
    ] {
        for (partition_key, row_key) in [(&partition_key, &row_key), (&row_key, &partition_key)] {
            assert_eq!(
                refusal(partition_key, row_key, "2026-01-01", bag.as_properties()),
                refused
            );
        }
    }
}

#[test]
fn an_entity_has_one_mebibyte_with_its_keys() {
    let (partition_key, row_key) = ("pé", "😀");
    let keys = 4 + 2 * (2 + 2);
    let edge = bag_of_size(limits::ENTITY_BYTES - keys);
    let edge = edge.as_properties();
    assert_eq!(size(partition_key, row_key, edge), limits::ENTITY_BYTES);
    assert_eq!(refusal(partition_key, row_key, "2026-01-01", edge), "");
    assert_eq!(refusal("péa", row_key, "2026-01-01", edge), ENTITY_TOO_LARGE);
    assert_eq!(refusal(partition_key, "😀a", "2026-01-01", edge), ENTITY_TOO_LARGE);
    let beyond = bag_of_size(limits::ENTITY_BYTES - keys + 1);
    assert_eq!(
        refusal(partition_key, row_key, "2026-01-01", beyond.as_properties()),
        ENTITY_TOO_LARGE
    );
}

#[test]
fn the_size_counts_after_a_merge() {
    let stored = bag_of_size(limits::ENTITY_BYTES - 4 - 4 - (8 + 2 + 1));
    let with = |json| {
        stored
            .as_properties()
            .merge(parse_properties(json).unwrap().as_properties())
            .unwrap()
    };
    assert!(check_size("p", "r", with(r#"{"B":true}"#).as_properties()).is_ok());
    assert!(check_size("p", "r", with(r#"{"I":1}"#).as_properties()).is_err());
    assert!(check_size("p", "r", with(r#"{"X00":null}"#).as_properties()).is_ok());
    assert!(check_size("p", "r", with(r#"{"X00":1,"I":1}"#).as_properties()).is_ok());
}

#[test]
fn the_first_error_is_that_of_the_services_order() {
    let long = "a".repeat(1025);
    let large = bag_of_size(limits::ENTITY_BYTES - 4);
    for (partition_key, row_key, timestamp, refused) in [
        ("a/b", long.as_str(), "1600-01-01", OUT_OF_RANGE),
        (&long, "a\tb", "2026-01-01", OUT_OF_RANGE),
        ("a", &long, "1600-01-01", OUT_OF_RANGE),
        ("a", &long, "2026-01-01", KEY_TOO_LONG),
        ("a", "b", "2026-01-01", ENTITY_TOO_LARGE),
    ] {
        assert_eq!(
            refusal(partition_key, row_key, timestamp, large.as_properties()),
            refused
        );
    }
}

#[test]
fn keys_from_json_are_held_to_the_same_rules() {
    for (key, refused) in [
        (r"a\u0000b", OUT_OF_RANGE),
        (r"a\/b", OUT_OF_RANGE),
        (r"a\u0085", OUT_OF_RANGE),
        (&r"\u0061".repeat(1024), ""),
        (&r"\ud83d\ude00".repeat(513), KEY_TOO_LONG),
    ] {
        let parsed = parse_entity(&format!(r#"{{"PartitionKey":"{key}","RowKey":""}}"#)).unwrap();
        let properties = parsed.properties.as_properties();
        assert_eq!(
            refusal(&parsed.partition_key, &parsed.row_key, "2026-01-01", properties),
            refused,
            "{key}"
        );
    }
}

/// The largest entity with this value in its properties, and names of so many units, most of them of three bytes.
fn largest(name_units: usize, value: Value<'_>, last: &str) -> PropertiesBuf {
    let keys = ("日".repeat(893), "\"".to_owned());
    let mut bag = PropertiesBuf::empty();
    let mut builder_of = |count: usize, last: &str| {
        let mut builder = PropertiesBuilder::new();
        for i in 0..count {
            let name = format!("{}a{i:03}", "あ".repeat(name_units - 4));
            builder.push(name.into(), value).unwrap();
        }
        builder.push("z".into(), Value::String(last)).unwrap();
        let built = builder.finish().ok()?;
        check_size(&keys.0, &keys.1, built.as_properties()).ok()?;
        bag = built;
        Some(())
    };
    let mut count = 0;
    while count < limits::PROPERTIES && builder_of(count, "").is_some() {
        count += 1;
    }
    // The rest is for one more text.
    let (mut fits, mut too_long) = (0, last.len());
    while too_long - fits > 1 {
        let middle = usize::midpoint(fits, too_long);
        match builder_of(count - 1, last.get(..middle).unwrap()) {
            Some(()) => fits = middle,
            None => too_long = middle,
        }
    }
    bag
}

#[test]
fn the_largest_entity_has_a_limit_in_json_and_as_it_is_stored() {
    let control = "\u{1}".repeat(limits::STRING_UTF16_UNITS);
    let wide = "日".repeat(limits::STRING_UTF16_UNITS);
    let moment = Ticks::parse("2020-01-01T00:00:00.1234567Z").unwrap();
    let (mut json, mut row) = (0, 0);
    for value in [
        Value::String(&control),
        Value::String(&wide),
        Value::String("\u{1}"),
        Value::String(""),
        Value::Binary(&[7; limits::BINARY_BYTES]),
        Value::Binary(&[]),
        Value::DateTime(moment),
        Value::Double(-1.234_567_890_123_456_7e-300),
        Value::Double(f64::NEG_INFINITY),
        Value::Int64(i64::MIN),
        Value::Int32(i32::MIN),
        Value::Boolean(false),
    ] {
        for name_units in [4, 255] {
            let bag = largest(name_units, value, &control);
            let (partition_key, row_key) = ("日".repeat(893), "\"");
            let entity = Entity {
                partition_key: Some(&partition_key),
                row_key: Some(row_key),
                timestamp: Some(moment),
                properties: bag.as_properties(),
            };
            for metadata in [Metadata::None, Metadata::Minimal, Metadata::Full] {
                json = json.max(entity_to_json(&entity, metadata).len());
            }
            row = row.max(partition_key.len() + row_key.len() + bag.as_bytes().len());
        }
    }
    // Three bytes of JSON for each that the formula counts, and one and a half as it is stored.
    assert!((3_100_000..=limits::ENTITY_JSON_BYTES).contains(&json), "{json}");
    assert!((1_500_000..=limits::ENTITY_ROW_BYTES).contains(&row), "{row}");
}
