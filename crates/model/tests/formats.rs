//! Bytes and tokens of every released version are read, and mean what they meant.
//!
//! `formats/VERSION.txt` was written by that version (`tests/upgrade/formats.sql`) and is never changed: one JSON array
//! a line, with the kind, the bytes or the token, and their meaning.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::path::Path;

use table_service_model::Properties;
use table_service_model::json::{parse_properties, properties_to_json};
use table_service_model::token::ContinuationToken;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().map(|c| c.to_digit(16).unwrap()).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).unwrap();
    digits.chunks_exact(2).map(byte).collect()
}

#[test]
fn what_earlier_versions_wrote_is_read() {
    let mut versions = 0;
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")).unwrap() {
        let path = file.unwrap().path();
        versions += 1;
        let mut kinds = std::collections::BTreeMap::new();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let fields: Vec<String> = serde_json::from_str(line).unwrap();
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let place = format!("{}: {line}", path.display());
            match fields[..] {
                ["bag", hex, json] => {
                    let stored = bytes(hex);
                    let bag = Properties::validate(&stored).unwrap_or_else(|error| panic!("{place}: {error}"));
                    assert_eq!(properties_to_json(bag), json.as_bytes(), "{place}");
                    // Equality, indexes and unique constraints compare bytes: a value has the same ones in every version.
                    assert_eq!(parse_properties(json).unwrap().as_bytes(), stored, "{place}");
                }
                ["entity token", token, partition_key, row_key] => {
                    let keys =
                        ContinuationToken::parse_entity(token).unwrap_or_else(|error| panic!("{place}: {error}"));
                    assert_eq!(keys, (partition_key.to_owned(), row_key.to_owned()), "{place}");
                }
                ["table token", token, name] => {
                    let table =
                        ContinuationToken::parse_table(token).unwrap_or_else(|error| panic!("{place}: {error}"));
                    assert_eq!(table, name, "{place}");
                }
                _ => panic!("{place}: unknown"),
            }
            *kinds.entry(fields[0].to_owned()).or_insert(0) += 1;
        }
        assert_eq!(kinds.len(), 3, "{} lacks a kind: {kinds:?}", path.display());
    }
    assert!(versions > 0);
}
