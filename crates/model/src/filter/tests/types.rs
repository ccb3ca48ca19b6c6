//! All ordered pairs of the eight types, under all operators, with and without `not`, and for an absent property,
//! against a table written from semantics 6.3.

use super::{Sample, parse, passes};
use crate::EdmType;

const TYPES: [EdmType; 8] = [
    EdmType::String,
    EdmType::Int32,
    EdmType::Int64,
    EdmType::Double,
    EdmType::Boolean,
    EdmType::DateTime,
    EdmType::Guid,
    EdmType::Binary,
];

/// Whether a property of the row's type compares with a literal of the column's type, both in the order of [`TYPES`].
#[rustfmt::skip]
const COMPARES: [[u8; 8]; 8] = [
    //  S  I  L  D  B  T  G  X
    [1, 0, 0, 0, 0, 0, 0, 0], // String
    [0, 1, 0, 0, 0, 0, 0, 0], // Int32
    [0, 1, 1, 0, 0, 0, 0, 0], // Int64
    [0, 1, 1, 1, 0, 0, 0, 0], // Double
    [0, 0, 0, 0, 1, 0, 0, 0], // Boolean
    [0, 0, 0, 0, 0, 1, 0, 0], // DateTime
    [0, 0, 0, 0, 0, 0, 1, 0], // Guid
    [0, 0, 0, 0, 0, 0, 0, 1], // Binary
];

/// Which operators hold when the property is less, equal, or greater.
const HOLDS: [(&str, [bool; 3]); 6] = [
    ("eq", [false, true, false]),
    ("ne", [true, false, true]),
    ("lt", [true, false, false]),
    ("le", [true, true, false]),
    ("gt", [false, false, true]),
    ("ge", [false, true, true]),
];

const LESS: usize = 0;

/// A smaller and a greater value of each type, as literals and in a payload.
fn samples(edm: EdmType) -> [(&'static str, &'static str); 2] {
    match edm {
        EdmType::String => [("'b'", "\"b\""), ("'c'", "\"c\"")],
        EdmType::Int32 => [("5", "5"), ("6", "6")],
        EdmType::Int64 => [("5L", "\"5\""), ("6L", "\"6\"")],
        EdmType::Double => [("5.0", "5.0"), ("6.0", "6.0")],
        EdmType::Boolean => [("false", "false"), ("true", "true")],
        EdmType::DateTime => [
            ("datetime'2020-01-01T00:00:00Z'", "\"2020-01-01T00:00:00Z\""),
            (
                "datetime'2020-01-01T00:00:00.0000001Z'",
                "\"2020-01-01T00:00:00.0000001Z\"",
            ),
        ],
        EdmType::Guid => [
            (
                "guid'00000000-0000-0000-0000-000000000005'",
                "\"00000000-0000-0000-0000-000000000005\"",
            ),
            (
                "guid'00000000-0000-0000-0000-000000000006'",
                "\"00000000-0000-0000-0000-000000000006\"",
            ),
        ],
        EdmType::Binary => [("X'05'", "\"BQ==\""), ("X'06'", "\"Bg==\"")],
    }
}

#[test]
fn every_pair_of_types_compares_as_the_table_says() {
    let mut cases = 0;
    for (row, stored_type) in TYPES.into_iter().enumerate() {
        for (column, literal_type) in TYPES.into_iter().enumerate() {
            for (s, (_, stored)) in samples(stored_type).into_iter().enumerate() {
                let payload = format!(r#"{{"p@odata.type": "{}", "p": {stored}}}"#, stored_type.name());
                let sample = Sample::new("p", "r", &payload);
                for (l, (literal, _)) in samples(literal_type).into_iter().enumerate() {
                    // 0, 1, 2 as in HOLDS.
                    let order = if COMPARES[row][column] == 1 { s + 1 - l } else { LESS };
                    for (operator, holds) in HOLDS {
                        let text = format!("p {operator} {literal}");
                        assert_eq!(passes(&parse(&text), &sample), holds[order], "{text}, p = {payload}");
                        let negated = format!("not ({text})");
                        assert_eq!(
                            passes(&parse(&negated), &sample),
                            !holds[order],
                            "{negated}, p = {payload}"
                        );
                        cases += 2;
                    }
                }
            }
        }
    }
    assert_eq!(cases, 8 * 8 * 2 * 2 * 6 * 2);
}

#[test]
fn an_absent_property_is_false_and_true_under_not() {
    let sample = Sample::new("p", "r", r#"{"other": 5}"#);
    for literal_type in TYPES {
        for (literal, _) in samples(literal_type) {
            for (operator, _) in HOLDS {
                assert!(!passes(&parse(&format!("p {operator} {literal}")), &sample));
                assert!(passes(&parse(&format!("not (p {operator} {literal})")), &sample));
            }
        }
    }
}

#[test]
fn keys_are_strings_and_the_timestamp_a_datetime_that_are_never_absent() {
    let sample = Sample::new("b", "b", "{}");
    for literal_type in TYPES {
        for (l, (literal, _)) in samples(literal_type).into_iter().enumerate() {
            for (operator, holds) in HOLDS {
                for column in ["PartitionKey", "RowKey", "Timestamp"] {
                    let order = match (column, literal_type) {
                        ("PartitionKey" | "RowKey", EdmType::String) => 1 - l,
                        // It is later than both samples.
                        ("Timestamp", EdmType::DateTime) => 2,
                        _ => LESS,
                    };
                    let text = format!("{column} {operator} {literal}");
                    assert_eq!(passes(&parse(&text), &sample), holds[order], "{text}");
                    assert_eq!(
                        passes(&parse(&format!("not ({text})")), &sample),
                        !holds[order],
                        "not {text}"
                    );
                }
            }
        }
    }
}
