//! The laws of any text and any bytes. The fuzz targets, the replay of their corpus and the property tests all check
//! these.

#![allow(clippy::unwrap_used, clippy::panic)]

use table_service_model::change_feed::{Decoder, Kind};
use table_service_model::entity::Entity;
use table_service_model::json::{
    Metadata, entity_to_json, jsonb_text, parse_entity, parse_properties, properties_to_json, value_to_json,
};
use table_service_model::{Error, Properties, PropertiesBuf, PropertiesBuilder};

/// Any text is read or refused. A bag that is read is valid, and prints as JSON that reads back to the same.
pub fn json(text: &str) {
    match parse_properties(text) {
        Ok(bag) => {
            accepted_by_another_parser(text);
            valid(bag.as_properties());
        }
        Err(error) => presentable(&error),
    }
    match parse_entity(text) {
        Ok(parsed) => {
            assert_eq!(Ok(&parsed.properties), parse_properties(text).as_ref());
            let entity = Entity {
                partition_key: Some(&parsed.partition_key),
                row_key: Some(&parsed.row_key),
                timestamp: parsed.timestamp,
                properties: parsed.properties.as_properties(),
            };
            for metadata in [Metadata::Minimal, Metadata::Full] {
                let again = parse_entity(&utf8(entity_to_json(&entity, metadata))).unwrap();
                assert_eq!(again.partition_key, parsed.partition_key);
                assert_eq!(again.row_key, parsed.row_key);
                assert_eq!(again.timestamp, parsed.timestamp);
                assert_eq!(again.properties, parsed.properties);
            }
        }
        Err(error) => presentable(&error),
    }
}

/// Any bytes are a valid bag or refused, and safe to read even so.
pub fn bag(bytes: &[u8]) {
    read_everything(Properties::from_stored(bytes));
    match Properties::validate(bytes) {
        Ok(bag) => {
            assert_eq!(bag.as_bytes(), bytes);
            valid(bag);
        }
        Err(error) => presentable(&error),
    }
}

/// The OID of the type `properties` in the corpus of changes.
const TYPE_OF_BAGS: u32 = 16_387;

/// Any bytes are messages of pgoutput, each behind its length, that are changes or refused. Returns the changes.
pub fn changes(mut bytes: &[u8]) -> Vec<String> {
    let mut decoder = Decoder::new("table_service_data", TYPE_OF_BAGS);
    let mut lines = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let (message, rest) = rest.split_at(length.min(rest.len()));
        bytes = rest;
        let _ = decoder.decode(message, &mut |change| {
            match change.kind {
                Kind::Clear | Kind::Gap(_) => assert_eq!((change.partition_key, change.row_key), (None, None)),
                Kind::Delete => assert_eq!((change.timestamp, change.properties), (None, None)),
                Kind::Insert => assert_eq!(change.old_properties, None),
                Kind::Update => {}
                // Without a secret no message is a note.
                Kind::Create | Kind::Rename(_) | Kind::Drop | Kind::Mark(_) => unreachable!("{change:?}"),
            }
            let bag = |bag: Option<&[u8]>| match bag.map(Properties::validate) {
                Some(Ok(bag)) => utf8(properties_to_json(bag)),
                Some(Err(_)) => "?".to_owned(),
                None => "-".to_owned(),
            };
            lines.push(format!(
                "{} {} {} {} {} {}",
                change.kind.as_str(),
                change.table.map_or("-", |(_, name)| name),
                change.partition_key.unwrap_or("-"),
                change.row_key.unwrap_or("-"),
                bag(change.properties),
                bag(change.old_properties)
            ));
        });
    }
    lines
}

/// The laws of every valid bag.
fn valid(bag: Properties<'_>) {
    assert_eq!(Properties::validate(bag.as_bytes()), Ok(bag));
    assert_eq!(rebuild(bag).as_bytes(), bag.as_bytes(), "one representation");
    for print in [properties_to_json, jsonb_text] {
        assert_eq!(parse_properties(&utf8(print(bag))).unwrap().as_properties(), bag);
    }
    let empty = PropertiesBuf::empty();
    let empty = empty.as_properties();
    for same in [bag.merge(bag), bag.merge(empty), empty.merge(bag)] {
        assert_eq!(same.unwrap().as_properties(), bag);
    }
}

/// The bag made anew from its contents.
pub fn rebuild(bag: Properties<'_>) -> PropertiesBuf {
    let mut builder = PropertiesBuilder::new();
    let properties: Vec<_> = bag.iter().collect();
    for (name, value) in properties.into_iter().rev() {
        builder.push(name.into(), value).unwrap();
    }
    builder.finish().unwrap()
}

/// Calls everything that reads a bag. For unchecked bytes the results mean nothing.
fn read_everything(bag: Properties<'_>) {
    let other = parse_properties(r#"{"A":"x","m":1,"é":null}"#).unwrap();
    let names: Vec<_> = bag.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), bag.len());
    for (name, value) in bag.iter() {
        let _ = (bag.contains(name), bag.get(name), bag.type_of(name));
        let _ = (value.text(), value_to_json(value));
    }
    let _ = (bag.size(), bag.is_empty(), format!("{bag:?}"), bag.to_buf());
    let _ = (properties_to_json(bag), jsonb_text(bag));
    let _ = (
        bag.merge(bag),
        bag.merge(other.as_properties()),
        other.as_properties().merge(bag),
    );
    let _ = (
        bag.without(&names),
        bag.project(&names),
        bag.without(&["A"]),
        bag.project(&["A"]),
    );
}

/// An error has an SQLSTATE, the status of an error, and a short text.
fn presentable(error: &Error) {
    assert_eq!(error.sqlstate().len(), 5);
    assert!((400..=503).contains(&error.code().http_status()));
    let hint = error.hint().unwrap_or_default();
    assert!(error.report().len() + hint.len() < 8 * 1024, "{error:?}");
}

/// Other parsers accept the text that we accept, except for the limits that they have and we do not.
fn accepted_by_another_parser(text: &str) {
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        let message = error.to_string();
        assert!(
            ["number out of range", "recursion limit exceeded"]
                .iter()
                .any(|limit| message.contains(limit)),
            "{message}: {text}"
        );
    }
}

fn utf8(json: Vec<u8>) -> String {
    String::from_utf8(json).unwrap()
}
