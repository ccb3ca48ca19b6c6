//! The database file of the emulator azurite, `__azurite_db_table__.json`: one JSON document with a collection for each
//! table of each account, and one with the tables' names.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use table_service_files::json::Sink;
use table_service_files::payload::{Members, append};
use table_service_files::{Fault, Input, LineColumn};
use table_service_model::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};

use crate::printable::said;
use crate::records::MOST_TABLES;

/// The name of the file.
pub const FILE: &str = "__azurite_db_table__.json";
const TABLES: &str = "$TABLES_COLLECTION$";

/// Takes a document and its position; false if it wants no more.
type Take<'t> = dyn FnMut(LineColumn, &[u8]) -> Result<bool, Fault> + 't;

/// A table of an account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Table {
    pub account: String,
    pub table: String,
}

/// The tables of all accounts.
///
/// # Errors
/// A file that is no such database, or is damaged.
pub fn tables(input: &mut Input<'_>) -> Result<BTreeSet<Table>, Fault> {
    let mut tables = BTreeSet::new();
    let mut found = false;
    walk(
        input,
        &mut |name| {
            found |= name == TABLES;
            name == TABLES
        },
        &mut |position, document| {
            let table: Table = serde_json::from_slice(document)
                .map_err(|error| position.fault(format!("this is no table: {}", said(&error.to_string()))))?;
            tables.insert(table);
            if tables.len() > MOST_TABLES {
                return Err(position.fault(format!("there are more than {MOST_TABLES} tables")));
            }
            Ok(true)
        },
    )?;
    if !found {
        return Err(input.fault("it is no database of azurite: there is no list of tables"));
    }
    Ok(tables)
}

/// Hands on the entities of a table, as the documents that the emulator keeps, until `take` wants no more.
pub fn entities(input: &mut Input<'_>, account: Option<&str>, table: &str, take: &mut Take<'_>) -> Result<(), Fault> {
    walk(
        input,
        &mut |name| {
            // The emulator has changed its mind about case.
            let (of, collection) = name.split_once('$').unwrap_or_default();
            collection.eq_ignore_ascii_case(table) && !of.is_empty() && account.is_none_or(|account| account == of)
        },
        take,
    )
}

/// Goes through all collections, and hands on the documents of those that are chosen.
fn walk(input: &mut Input<'_>, is_chosen: &mut dyn FnMut(&str) -> bool, take: &mut Take<'_>) -> Result<(), Fault> {
    let mut document = Vec::new();
    let wants_more = each_item(input, [b'{', b'}'], |input| {
        if input.name(&mut Sink::Skip)? != "collections" {
            input.value(&mut Sink::Skip)?;
            return Ok(true);
        }
        each_item(input, [b'[', b']'], |input| {
            collection(input, &mut document, is_chosen, take)
        })
    })?;
    if wants_more { input.expect_end() } else { Ok(()) }
}

/// Goes through one collection; false if nobody wants more.
fn collection(
    input: &mut Input<'_>,
    document: &mut Vec<u8>,
    is_chosen: &mut dyn FnMut(&str) -> bool,
    take: &mut Take<'_>,
) -> Result<bool, Fault> {
    let mut chosen = None;
    each_item(input, [b'{', b'}'], |input| {
        match (input.name(&mut Sink::Skip)?.as_str(), chosen) {
            ("name", _) => {
                document.clear();
                input.begin_record();
                input.value(&mut Sink::Keep(document))?;
                let name: String =
                    serde_json::from_slice(document).map_err(|_| input.fault("the name of a collection is no text"))?;
                chosen = Some(is_chosen(&name));
            }
            ("data", None) => return Err(input.fault("a collection has its documents before its name")),
            ("data", Some(true)) => {
                return each_item(input, [b'[', b']'], |input| {
                    input.peek_token()?;
                    document.clear();
                    input.begin_record();
                    input.value(&mut Sink::Keep(document))?;
                    take(input.record(), document)
                });
            }
            _ => input.value(&mut Sink::Skip)?,
        }
        Ok(true)
    })
}

/// Gives `take` the beginning of each item of a list or an object; false if it wants no more.
fn each_item(
    input: &mut Input<'_>,
    [open, close]: [u8; 2],
    mut take: impl FnMut(&mut Input<'_>) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    input.expect(open, &mut Sink::Skip)?;
    let mut first = true;
    while !input.accept(close, &mut Sink::Skip)? {
        if !std::mem::take(&mut first) {
            input.expect(b',', &mut Sink::Skip)?;
        }
        if !take(input)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An entity as the emulator keeps it. Its properties are those of the client.
#[derive(Deserialize)]
struct Entity<'j> {
    #[serde(rename = "PartitionKey", borrow)]
    partition_key: &'j RawValue,
    #[serde(rename = "RowKey", borrow)]
    row_key: &'j RawValue,
    #[serde(rename = "lastModifiedTime", borrow)]
    last_modified: Option<&'j RawValue>,
    #[serde(borrow)]
    properties: Members<'j>,
}

/// The entity in the payload form of the service.
pub fn payload(document: &str) -> Result<String, String> {
    let entity: Entity<'_> =
        serde_json::from_str(document).map_err(|error| format!("It is no entity of azurite: {error}"))?;
    let mut object = String::with_capacity(document.len());
    append(&mut object, PARTITION_KEY, entity.partition_key.get());
    append(&mut object, ROW_KEY, entity.row_key.get());
    if let Some(time) = entity.last_modified {
        append(&mut object, TIMESTAMP, time.get());
    }
    let properties = &entity.properties.0;
    let guids: BTreeSet<&str> = properties
        .iter()
        .filter(|(_, raw)| raw.get() == "\"Edm.Guid\"")
        .filter_map(|(name, _)| name.strip_suffix("@odata.type"))
        .collect();
    for (name, raw) in properties {
        let property = name.split('@').next().unwrap_or_default();
        if [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&property) {
            continue;
        }
        match guids.get(name.as_str()).and_then(|_| hidden_guid(raw.get())) {
            Some(guid) => append(&mut object, name, &format!("\"{guid}\"")),
            None => append(&mut object, name, raw.get()),
        }
    }
    object.push('}');
    Ok(object)
}

/// A GUID. The emulator keeps its text in base64, so that comparisons of strings do not find it. Earlier versions kept the text.
fn hidden_guid(raw: &str) -> Option<String> {
    let text = STANDARD.decode(raw.trim_matches('"')).ok()?;
    let text = String::from_utf8(text).ok()?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Record;

    const DATABASE: &str = r#"{"filename":"/x/__azurite_db_table__.json","collections":[
{"name":"$TABLES_COLLECTION$","data":[{"account":"devstoreaccount1","table":"Orders","meta":{"revision":0},"$loki":1}],"idIndex":[1],"binaryIndices":{}},
{"name":"$SERVICES_COLLECTION$","data":[],"idIndex":null},
{"name":"devstoreaccount1$orders","data":[{"PartitionKey":"p","RowKey":"r","properties":{"PartitionKey":"p","RowKey":"r","A":1,"A@odata.type":"Edm.Double","B":"7","B@odata.type":"Edm.Int64","Timestamp":"2026-01-02T03:04:05.1234567Z","Timestamp@odata.type":"Edm.DateTime"},"lastModifiedTime":"2026-01-02T03:04:05.1234567Z","eTag":"W/\"x\"","meta":{"revision":0,"created":1,"version":0},"$loki":1}],"idIndex":null}
],"databaseVersion":1.5,"engineVersion":1.5}"#;

    fn read(text: &str) -> Result<Vec<String>, Fault> {
        let mut all = Vec::new();
        entities(&mut Input::new(text.as_bytes())?, None, "Orders", &mut |_, document| {
            let json = payload(std::str::from_utf8(document).unwrap()).unwrap();
            all.push(Record::from_json(&json).unwrap().json());
            Ok(true)
        })?;
        Ok(all)
    }

    #[test]
    fn tables_and_entities_are_found() {
        let found = tables(&mut Input::new(DATABASE.as_bytes()).unwrap()).unwrap();
        let found: Vec<_> = found.iter().map(|table| (&*table.account, &*table.table)).collect();
        assert_eq!(found, [("devstoreaccount1", "Orders")]);
        assert_eq!(
            read(DATABASE).unwrap(),
            [
                r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2026-01-02T03:04:05.1234567Z","A":1.0,"B@odata.type":"Edm.Int64","B":"7"}"#
            ]
        );
    }

    #[test]
    fn guids_are_read_in_base64_and_as_text() {
        for kept in [
            "YTQ1NWM4MTItMWY3YS00ZjVjLTljM2ItMDEyMzQ1Njc4OWFi",
            "a455c812-1f7a-4f5c-9c3b-0123456789ab",
        ] {
            let database = DATABASE.replace(
                r#""A":1,"A@odata.type":"Edm.Double""#,
                &format!(r#""A":"{kept}","A@odata.type":"Edm.Guid""#),
            );
            let guid = r#""A@odata.type":"Edm.Guid","A":"a455c812-1f7a-4f5c-9c3b-0123456789ab""#;
            let found = read(&database).unwrap();
            assert!(found[0].contains(guid), "{found:?}");
        }
    }

    #[test]
    fn a_database_that_is_cut_short_is_an_error() {
        for end in 0..DATABASE.len() {
            assert!(read(&DATABASE[..end]).is_err(), "{end}");
        }
        assert!(tables(&mut Input::new(&b"{}"[..]).unwrap()).is_err());
    }
}
